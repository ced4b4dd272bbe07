"""Packages that programs are to have beside those of the image: installed once for each set, shown read-only to all.

pip runs before the sandbox is made, and is given wheels only, so that nothing of what it installs is run: not on this
machine, and not where there is a network. What the host's pip is told by its settings (`PIP_*`, pip.conf) holds: an
index of one's own, a proxy. For an image the interpreter must be the image's, since it decides which wheels fit: this
environment's pip then runs in a container of that image, which has this machine's network and nothing else of it.
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

from .cache import cache_folder
from .client import Client, CommandFailed

PLACE: Final = "/opt/actbox-packages"
"""Where programs import them from."""
_SECONDS = 900.0
# A name, maybe extras, maybe versions, maybe a marker: no path and no address, whose code pip would run.
_REQUIREMENT = re.compile(
    r"[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?\s*(?:\[[\w\s.,-]*\])?\s*(?:\(?\s*[<>=!~][^;@/\\\x00-\x1f]*)?(?:;[^\x00-\x1f]*)?",
    re.ASCII,
)
_INSTALL = (
    *("install", "--only-binary", ":all:", "--no-input", "--disable-pip-version-check", "--progress-bar", "off"),
    *("--no-warn-script-location", "--root-user-action", "ignore", "--target"),
)
# What says to pip, in the host's environment, how the index is reached.
_VARIABLES = re.compile(r"(?:PIP_.*|(?:https?|no|all)_proxy|SSL_CERT_FILE|REQUESTS_CA_BUNDLE)", re.IGNORECASE)
_MOST_SAID = 5
MOST_SETS: Final = 16
"""Sets of packages that are kept in this user's cache, beside those that living processes have asked for."""
_kept: dict[Path, int] = {}
"""What this process has asked for, with the descriptor whose lock keeps it."""


def checked(packages: Sequence[str]) -> tuple[str, ...]:
    """Return requirements in an order of their own. Raises `InvalidValue` for what is none."""
    if isinstance(packages, (str, bytes)) or not isinstance(packages, Sequence):
        raise InvalidValue(f"packages must be a list such as ['pandas==2.2.*'], not {packages!r}")
    for package in packages:
        if not isinstance(package, str) or not _REQUIREMENT.fullmatch(package):
            raise InvalidValue(
                f"packages: {package!r} is no requirement such as 'pandas==2.2.*'; paths and addresses are not taken"
            )
    return tuple(sorted(set(packages)))


def folder_for_host(packages: tuple[str, ...]) -> Path:
    """Return a folder with packages for this interpreter. Blocks. Raises `SandboxUnavailable` with what pip said."""
    _pip()  # a sentence instead of a traceback where there is none
    base = [sys.executable, sys.version, sysconfig.get_platform()]

    def install(folder: str) -> None:
        command = [sys.executable, "-I", "-m", "pip", *_INSTALL, folder, *packages]
        with tempfile.TemporaryDirectory(prefix="actbox-") as nowhere:
            done = subprocess.run(command, cwd=nowhere, capture_output=True, timeout=_SECONDS, check=False)
        if done.returncode != 0:
            raise SandboxUnavailable(_failure(packages, done.stdout + done.stderr))

    return _installed(packages, base, install)


def folder_for_image(client: Client, image: str, number: str, python: str, packages: tuple[str, ...]) -> Path:
    """Return a folder with packages for the interpreter of an image, whose id is `number`.

    Blocks. Raises `SandboxUnavailable` with what pip said.
    """
    pip = _pip()
    told = {name: text for name, text in os.environ.items() if _VARIABLES.fullmatch(name)}
    shown = {pip: "/actbox-pip/pip", **{path: path for text in told.values() for path in _paths_in(text)}}
    for path, at in _settings():
        shown[path] = at

    def install(folder: str) -> None:
        try:
            client.run(
                *("run", "--rm", "--network", "host", "--pull", "never", "--user", "0:0", "--cap-drop", "ALL"),
                *("--security-opt", "no-new-privileges", "--ulimit", "nofile=1024:1024", "--workdir", "/"),
                *("--ulimit", "nproc=1000:1000"),
                *(part for name, text in told.items() for part in ("--env", f"{name}={text}")),
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
    """Return the folder of a set, which is installed once however many ask for it at once, in any process.

    Beside the sets that living processes have asked for, the `MOST_SETS` that were asked for last are kept.
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
    """Keep a folder from removal as long as this process lives, whose sandboxes may show it to programs."""
    used = folder.with_suffix(".used")
    if folder not in _kept:
        _kept[folder] = os.open(used, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(_kept[folder], fcntl.LOCK_SH)
    used.touch()


def _remove_unused(place: Path) -> None:
    """Remove the sets that were asked for longest ago, beyond `MOST_SETS`, but for those that a process keeps."""
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
    """Return the folder of this environment's pip."""
    found = importlib.util.find_spec("pip")
    if found is None or not found.submodule_search_locations:
        raise SandboxUnavailable(
            "packages= needs pip in the environment of this process; `python -m ensurepip` puts it there"
        )
    return str(found.submodule_search_locations[0])


def _paths_in(text: str) -> Iterator[str]:
    """Yield files and folders of this machine that a setting of pip's names."""
    for word in text.split():
        path = unquote(urlsplit(word).path) if word.startswith("file:") else word
        if path.startswith("/") and os.path.exists(path):
            yield path


def _settings() -> Iterator[tuple[str, str]]:
    """Yield (path, where a container has it) of pip's own settings, and of what these name."""
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
