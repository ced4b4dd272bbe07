"""Which paths are the system's, seen from inside a sandbox."""

from __future__ import annotations

import posixpath
from typing import Final

_WORKSPACE: Final = "/workspace"
_OWN: Final = (_WORKSPACE, "/input", "/output", "/tmp", "/dev/shm")
_HARMLESS: Final = frozenset(
    f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "stdin", "stdout", "stderr")
)
_SYSTEM: Final = frozenset(
    f"/{name}"
    for name in ("bin", "boot", "dev", "etc", "home", "opt", "proc", "root", "run", "sbin", "srv", "sys", "usr", "var")
)


def system_path(text: str, *, whole: bool = True) -> str | None:
    """Return the normal form of a path that belongs to the system, `None` for any other.

    A relative path starts at the workspace. `whole=False` says that more of the path follows, which is not known: then
    it counts as the system's only if what is known decides it. Folders that a policy mounts, such as `/data`, and the
    program's own are not the system's.
    """
    path = _normal(text, whole)
    if path is None or path in _HARMLESS or _below(path, _OWN):
        return None
    if path.startswith("~"):
        return path
    first = "/" + path.split("/")[1]
    return path if path == "/" or first in _SYSTEM or first.startswith("/lib") else None


def absolute_path(text: str, *, whole: bool = True) -> str | None:
    """Return the normal form of a path that leads out of the program's own folders, `None` for any other."""
    path = _normal(text, whole)
    return None if path is None or _below(path, _OWN) else path


def _normal(text: str, whole: bool) -> str | None:
    if not whole:
        # What ends in the middle of a name could become another name.
        text = text.rpartition("/")[0]
        if not text:
            return None
    if text.startswith("~"):
        return posixpath.normpath(text)
    return "/" + posixpath.normpath(posixpath.join(_WORKSPACE, text)).lstrip("/")


def _below(path: str, folders: tuple[str, ...]) -> bool:
    return any(path == folder or path.startswith(folder + "/") for folder in folders)
