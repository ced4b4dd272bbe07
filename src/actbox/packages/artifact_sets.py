"""Sets of artifacts that programs see as one directory: hard links to their files, checked at each use.

    sets/KEY/{site,bin,data}    hard links to the files of several artifacts
    sets/KEY/node_modules       the same for packages of npm

The files of a set are hashed at its first use in this process, and again once one has changed: its inode,
size, mode or change time.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import stat
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from actbox.core.errors import ActboxError, InvalidValue

from .artifacts import Artifact, Artifacts, hash_of, lock_of, put_in_place
from .compiling import COMPILED_MODE
from .lock_files import LockFiles
from .npm_archives import PACKAGE
from .temporary_folders import TemporaryFolders
from .wheels import DATA, SCRIPTS, SITE

_MOST_REMEMBERED = 64
_FEW_FILES = 2000

_Signature = tuple[tuple[str, int, int, int, int], ...]
_Placed = Sequence[tuple[Artifact, str]]
"""The artifacts of a set, each with the directory of a package of npm, "" for a wheel."""


class BadCache(ActboxError):
    """Raised if the cache cannot be used as it is; the message names the place and what to do."""


class _File(NamedTuple):
    """A file of a set: its SHA-256, its mode, the SHA-256 of its artifact, and its path in the artifact."""

    sha256: str
    mode: int
    artifact: str
    path: str


class UsedSet:
    """A set of artifacts in use: nothing removes its directory before `close`, or while this object exists."""

    def __init__(self, path: Path, artifacts: tuple[Artifact, ...], lock: int) -> None:
        self.path = path
        self.artifacts = artifacts
        self._lock = lock

    def close(self) -> None:
        """Let others remove the set. A second call does nothing."""
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)

    def __del__(self) -> None:
        # A caller who was cancelled while a thread prepared the set never gets it, and cannot close it.
        self.close()


class ArtifactSets:
    """The sets of a package cache. The methods block, and may be called from any thread and process."""

    def __init__(self, root: Path, artifacts: Artifacts, temporary: TemporaryFolders, locks: LockFiles) -> None:
        """`root` is the cache's directory."""
        self.folder = root / "sets"
        self._artifacts = artifacts
        self._temporary = temporary
        self._locks = locks
        self._known: dict[str, tuple[_Signature, Mapping[str, _File]]] = {}
        """The sets that were whole when they were looked at last, the one used longest ago first."""
        self._guard = threading.Lock()

    def use(self, artifacts: Iterable[Artifact], places: Sequence[str] = ()) -> UsedSet:
        """Return the set of these artifacts, made of hard links if it is missing, and checked.

        `places` are the directories of packages of npm, one for each artifact. Raises `InvalidValue` if two artifacts
        have different files of one path, `BadCache` and `OSError`.
        """
        key, placed = _placed(artifacts, places)
        known = self._known.get(key)
        files = known[1] if known else _files_of(placed)
        path = self.folder / key
        lock = self._locks.take(f"set-{key}", fcntl.LOCK_SH)
        try:
            if not self._is_whole(key, files):
                with self._locks.held("sets"):  # not the lock of the set, which its users hold
                    if not self._is_whole(key, files):
                        self._make(path, files)
                        if not self._is_whole(key, files):
                            raise BadCache(f"{path} changes while it is used: find out who writes there")
            return self._used(path, placed, lock)
        except BaseException:
            os.close(lock)
            raise

    def use_at_once(self, artifacts: Iterable[Artifact], places: Sequence[str] = ()) -> UsedSet | None:
        """Return the set of these artifacts if it is small, known, unchanged and not locked, so that nothing blocks."""
        key, placed = _placed(artifacts, places)
        path = self.folder / key
        known = self._known.get(key)
        if known is None or len(known[0]) >= _FEW_FILES:
            return None
        try:
            lock = self._locks.take(f"set-{key}", fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
        try:
            if known[0] == _signature_of(path):
                return self._used(path, placed, lock)
        except BaseException:
            os.close(lock)
            raise
        os.close(lock)
        return None

    def _used(self, path: Path, placed: _Placed, lock: int) -> UsedSet:
        artifacts = tuple(one for one, _ in placed)
        os.utime(lock)
        for one in artifacts:
            self._locks.note_use(lock_of(one.sha256))
        return UsedSet(path, artifacts, lock)

    def _make(self, path: Path, files: Mapping[str, _File]) -> None:
        with self._temporary.made() as aside:
            made = aside / "set"
            for folder in (SITE, SCRIPTS, DATA):
                (made / folder).mkdir(parents=True)
            for name, file in files.items():
                source, target = self._artifacts.path(file.artifact) / file.path, made / name
                target.parent.mkdir(parents=True, exist_ok=True)
                try:
                    is_right = hash_of(source) == file.sha256 and stat.S_IMODE(os.lstat(source).st_mode) == file.mode
                    if is_right:
                        os.link(source, target, follow_symlinks=False)
                except FileNotFoundError:
                    is_right = False
                if not is_right:
                    self._artifacts.forget(file.artifact)
                    raise BadCache(
                        f"{source} is not what was put into the package cache; its package was removed from it, so try"
                        " again"
                    )
            for folder, _, _ in os.walk(made):  # guests of some engines are other users, whatever the umask is
                os.chmod(folder, 0o755)
            put_in_place(made, path)

    def _is_whole(self, key: str, files: Mapping[str, _File]) -> bool:
        """Return whether a set's directory has exactly these files with their content and modes."""
        path = self.folder / key
        signature = _signature_of(path)
        if signature is None:
            return False
        known = self._known.get(key)
        if known is None or known[0] != signature:
            modes = {name: stat.S_IMODE(mode) for name, *_, mode in signature}
            if modes != {name: file.mode for name, file in files.items()}:
                return False
            if any(hash_of(path / name) != file.sha256 for name, file in files.items()):
                return False
        with self._guard:
            self._known.pop(key, None)
            if len(self._known) >= _MOST_REMEMBERED:
                del self._known[next(iter(self._known))]
            self._known[key] = signature, files
        return True


def bytes_of(folder: Path, *, alone: bool = False) -> int:
    """Return the size of the files in a directory; with `alone` of those that have no hard link elsewhere."""
    size = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):  # another process removes it
                status = os.lstat(os.path.join(parent, name))
                size += status.st_size if not alone or status.st_nlink == 1 else 0
    return size


def _placed(artifacts: Iterable[Artifact], places: Sequence[str]) -> tuple[str, _Placed]:
    """Return the name of a set's directory, and its artifacts in order, each with its place."""
    given = tuple(artifacts)
    placed = sorted(
        zip(given, places or [""] * len(given), strict=True),
        key=lambda one: (one[0].name, one[0].version, one[0].sha256, one[1]),
    )
    lines = (f"{one.sha256} {place} {one.compiled_sha256}".rstrip() for one, place in placed)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest(), placed


def _files_of(placed: _Placed) -> Mapping[str, _File]:
    """Return the files of a set by path."""
    files: dict[str, _File] = {}
    owners: dict[str, Artifact] = {}
    for artifact, place in placed:
        for source, (sha256, mode) in artifact.files.items():
            path = place + source.removeprefix(PACKAGE) if place else source
            if path in files and files[path].sha256 != sha256:
                raise InvalidValue(
                    f"{owners[path].name} {owners[path].version} and {artifact.name} {artifact.version} both have"
                    f" {path}, with different content: programs cannot have both"
                )
            files.setdefault(path, _File(sha256, mode, artifact.sha256, source))
            owners.setdefault(path, artifact)
    for artifact, _ in placed:
        for source, (path, sha256) in (artifact.compiled or {}).items():
            # Another package's own compiled file may stand only beside the same source in that package.
            if path not in owners or source not in owners[path].files:
                files[path] = _File(sha256, COMPILED_MODE, artifact.sha256, path)
                owners[path] = artifact
    return files


def _signature_of(folder: Path) -> _Signature | None:
    """Return each file's path, inode, size, change time and mode.

    `None` stands for a missing directory, and for one with another kind of file.
    """
    found: list[tuple[str, int, int, int, int]] = []
    pending = [""]
    try:
        while pending:
            below = pending.pop()
            with os.scandir(folder / below) as entries:
                for entry in entries:
                    name = f"{below}/{entry.name}" if below else entry.name
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(name)
                        continue
                    status = entry.stat(follow_symlinks=False)
                    if not stat.S_ISREG(status.st_mode):
                        return None
                    found.append((name, status.st_ino, status.st_size, status.st_ctime_ns, status.st_mode))
    except (FileNotFoundError, NotADirectoryError):
        return None
    return tuple(sorted(found))
