"""Additional packages for programs: installed once for each set, and shown read-only to all its sandboxes.

pip runs before the sandbox is made, and installs wheels only, so none of the installed code runs: neither on this
machine nor anywhere with a network. The settings of the host's pip (`PIP_*`, pip.conf) apply, such as a private index
or a proxy. For an image the interpreter must be the image's, because it decides which wheels fit: this environment's
pip then runs in a container of that image, which has this machine's network and nothing else of it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from actbox.core.errors import InvalidValue, SandboxUnavailable
from actbox.sandbox.host_python import HOST_PYTHON

from .cache import cache_folder
from .client import Client, CommandFailed

PLACE: Final = "/opt/actbox-packages"
"""The directory from which programs import them."""
_SECONDS = 900.0
# A name, optional extras, versions and marker: no path and no address, whose code pip would run.
_REQUIREMENT = re.compile(
    r"[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?\s*(?:\[[\w\s.,-]*\])?\s*(?:\(?\s*[<>=!~][^;@/\\\x00-\x1f]*)?(?:;[^\x00-\x1f]*)?",
    re.ASCII,
)
_INSTALL = (
    *("install", "--only-binary", ":all:", "--no-input", "--disable-pip-version-check", "--progress-bar", "off"),
    *("--no-warn-script-location", "--root-user-action", "ignore", "--target"),
)
# Variables of the host's environment that tell pip how to reach the index.
_VARIABLES = re.compile(r"(?:PIP_.*|(?:https?|no|all)_proxy|SSL_CERT_FILE|REQUESTS_CA_BUNDLE)", re.IGNORECASE)
_MOST_SAID = 5
MOST_SETS: Final = 16
"""The most sets of packages in this user's cache, besides those that living processes have requested."""
_kept: dict[Path, int] = {}
"""The sets that this process has requested, each with the descriptor whose lock protects it."""


def checked(packages: Sequence[str]) -> tuple[str, ...]:
    """Return the requirements in sorted order. Raises `InvalidValue` for an invalid one."""
    if isinstance(packages, (str, bytes)) or not isinstance(packages, Sequence):
        raise InvalidValue(f"packages must be a list such as ['pandas==2.2.*'], not {packages!r}")
    for package in packages:
        if not isinstance(package, str) or not _REQUIREMENT.fullmatch(package):
            raise InvalidValue(
                f"packages: {package!r} is no requirement such as 'pandas==2.2.*'; paths and addresses are not taken"
            )
    return tuple(sorted(set(packages)))


def folder_for_host(packages: tuple[str, ...]) -> Path:
    """Return a directory with packages for this interpreter. Blocks. Raises `SandboxUnavailable` with pip's error."""
    _pip()  # raises a clear error if there is none
    base = [HOST_PYTHON, sys.version, sysconfig.get_platform()]

    def install(folder: str) -> None:
        command = [HOST_PYTHON, "-I", "-m", "pip", *_INSTALL, folder, *packages]
        with tempfile.TemporaryDirectory(prefix="actbox-") as nowhere:
            done = subprocess.run(command, cwd=nowhere, capture_output=True, timeout=_SECONDS, check=False)
        if done.returncode != 0:
            raise SandboxUnavailable(_failure(packages, done.stdout + done.stderr))

    return _installed(packages, base, install)


def folder_for_image(client: Client, image: str, number: str, python: str, packages: tuple[str, ...]) -> Path:
    """Return a directory with packages for the interpreter of an image, whose id is `number`.

    Blocks. Raises `SandboxUnavailable` with pip's error.
    """
    pip = _pip()
    variables = {name: text for name, text in os.environ.items() if _VARIABLES.fullmatch(name)}
    shown = {pip: "/actbox-pip/pip", **{path: path for text in variables.values() for path in _paths_in(text)}}
    for path, at in _settings():
        shown[path] = at

    def install(folder: str) -> None:
        try:
            client.run(
                *("run", "--rm", "--network", "host", "--pull", "never", "--user", "0:0", "--cap-drop", "ALL"),
                *("--security-opt", "no-new-privileges", "--ulimit", "nofile=1024:1024", "--workdir", "/"),
                *("--ulimit", "nproc=1000:1000"),
                *(part for name, text in variables.items() for part in ("--env", f"{name}={text}")),
                *("--env", "PYTHONPATH=/actbox-pip", "--env", "PIP_NO_CACHE_DIR=1", "--env", "HOME=/tmp"),
                *(part for path, at in shown.items() for part in ("--volume", f"{path}:{at}:ro")),
                *("--tmpfs", "/tmp:rw,mode=1777", "--volume", f"{folder}:{PLACE}:rw", "--entrypoint", python, image),
                *("-m", "pip", *_INSTALL, PLACE, *packages),
                seconds=_SECONDS,
                said_lines=_MOST_SAID,
            )
        except CommandFailed as error:
            raise SandboxUnavailable(_failure(packages, str(error).encode())) from None

    return _installed(packages, [number, python], install)


def _installed(packages: tuple[str, ...], base: Sequence[str], install: Callable[[str], None]) -> Path:
    """Return the directory of a set, which is installed once even if several processes request it at the same time.

    Besides the sets that living processes have requested, the `MOST_SETS` most recently requested ones are kept.
    """
    key = hashlib.sha256(json.dumps([list(packages), list(base)]).encode()).hexdigest()[:24]
    folder = cache_folder("packages") / key
    with _alone(folder.with_suffix(".lock")):
        is_new = not folder.is_dir()
        if is_new:
            made = tempfile.mkdtemp(prefix=f"{key}.", dir=folder.parent)
            try:
                os.chmod(made, 0o755)
                install(made)
                os.rename(made, folder)
            except BaseException:
                shutil.rmtree(made, ignore_errors=True)
                raise
        _keep(folder)
    if is_new:
        _remove_unused(folder.parent)
    return folder


def _keep(folder: Path) -> None:
    """Protect a directory from removal as long as this process lives, because its sandboxes may show it to programs."""
    used = folder.with_suffix(".used")
    if folder not in _kept:
        _kept[folder] = os.open(used, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(_kept[folder], fcntl.LOCK_SH)
    used.touch()


def _remove_unused(place: Path) -> None:
    """Remove the least recently requested sets beyond `MOST_SETS`, except those that a process protects."""
    last = {used: used.stat().st_mtime for used in place.glob("*.used") if used.with_suffix("").is_dir()}
    for used in sorted(last, key=last.__getitem__, reverse=True)[MOST_SETS:]:
        with contextlib.suppress(BlockingIOError), contextlib.ExitStack() as held:
            for lock in (used.with_suffix(".lock"), used):
                held.enter_context(_alone(lock, wait=False))
            shutil.rmtree(used.with_suffix(""), ignore_errors=True)


@contextlib.contextmanager
def _alone(lock: Path, *, wait: bool = True) -> Iterator[None]:
    with open(lock, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def _pip() -> str:
    """Return the directory of this environment's pip."""
    found = importlib.util.find_spec("pip")
    if found is None or not found.submodule_search_locations:
        raise SandboxUnavailable(
            "packages= needs pip in the environment of this process; `python -m ensurepip` puts it there"
        )
    return str(found.submodule_search_locations[0])


def _paths_in(text: str) -> Iterator[str]:
    """Yield the files and directories of this machine that a pip setting names."""
    for word in text.split():
        path = unquote(urlsplit(word).path) if word.startswith("file:") else word
        if path.startswith("/") and os.path.exists(path):
            yield path


def _settings() -> Iterator[tuple[str, str]]:
    """Yield (path, path in the container) of pip's own settings, and of the files that they name."""
    own = os.path.expanduser("~/.config/pip/pip.conf")
    for path, at in (("/etc/pip.conf", "/etc/pip.conf"), (own, "/tmp/.config/pip/pip.conf")):
        if os.path.isfile(path):
            yield path, at
            for named in _paths_in(Path(path).read_text(errors="replace")):
                yield named, named


def _failure(packages: tuple[str, ...], said: bytes) -> str:
    lines = [line.strip() for line in said.decode("utf-8", "replace").splitlines() if line.strip()]
    last = [line for line in lines if not line.startswith(("WARNING", "[notice]"))][-_MOST_SAID:]
    return f"the packages {', '.join(packages)} could not be installed: {' '.join(last) or 'pip said nothing'}"
