"""The package cache: unpacked packages by their hash, and sets of them that programs see as one directory.

    artifacts/SHA256/{site,bin,data}    an unpacked wheel, with its manifest in artifacts/SHA256.json
    artifacts/SHA256/package            an unpacked package of npm
    sets/KEY/{site,bin,data}            hard links to the files of several artifacts
    sets/KEY/node_modules               the same for packages of npm
    names/SHA512                        the SHA-256 of a file whose lock has its SHA-512 alone
    resolutions/KEY.json                what a resolver has answered, and which wheels were built from sources
    temporary/…                         what is under way
    locks/…                             a lock file for each of these, held while it is made, used or removed

Processes share the cache. Each entry is made aside and renamed into place, so that an entry is there whole or not at
all. A set is checked at each use: its files' hashes at the first use in this process and whenever a file has changed
since, as their inodes and change times tell.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from actbox.core.errors import ActboxError, InvalidValue

from .npm_archives import PACKAGE, sha256_of_tarball, unpack_tarball
from .temporary_folders import TemporaryFolders
from .wheels import DATA, SCRIPTS, SITE, Unpacked, unpack

KEEP_SECONDS = 7 * 24 * 3600.0
"""How long an entry is kept after its last use."""
MOST_BYTES = 10 * 2**30
"""The size beyond which the entries that were used longest ago are removed."""
_COLLECT_SECONDS = 24 * 3600.0
_MOST_REMEMBERED = 64
_FEW_FILES = 2000

_SHA512_CHARS = 128

_Signature = tuple[tuple[str, int, int, int, int], ...]
_Files = Mapping[str, tuple[str, str, str]]
"""The files of a set by path: the SHA-256 of each, that of its artifact, and the path in that."""
_Placed = Sequence[tuple["Artifact", str]]
"""The artifacts of a set, each with the directory of a package of npm, "" for a wheel."""


class BadCache(ActboxError):
    """Raised if the cache cannot be used as it is; the message names the place and what to do."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """An unpacked wheel, or package of npm, in the cache. `files` has the SHA-256 and the mode of each file, by path.

    `requires` are the names of the distributions that its metadata names, whatever their markers and extras say.
    """

    sha256: str
    filename: str
    name: str
    version: str
    modules: tuple[str, ...]
    notes: tuple[str, ...]
    requires: tuple[str, ...]
    files: Mapping[str, tuple[str, int]]


class UsedSet:
    """A set of artifacts that is in use: nothing removes its directory before `close`."""

    def __init__(self, path: Path, artifacts: tuple[Artifact, ...], lock: int) -> None:
        self.path = path
        self.artifacts = artifacts
        self._lock = lock

    def close(self) -> None:
        """Let others remove the set. A second call does nothing."""
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)


class PackageStore:
    """The package cache in one directory. Its methods block, and may be called from any thread and process."""

    def __init__(self, root: Path) -> None:
        """Make the directory if it is missing. Raises `BadCache` if others may write to it."""
        self.root = root
        self._known: dict[str, _Signature] = {}
        self._files: dict[str, _Files] = {}
        self._guard = threading.Lock()
        _make_private(root)
        for name in ("artifacts", "sets", "names", "resolutions", "locks", "temporary"):
            (root / name).mkdir(mode=0o700, exist_ok=True)
        self.temporary = TemporaryFolders(root / "temporary")
        self._resolutions = root / "resolutions"

    def find(self, digest: str) -> Artifact | None:
        """Return an artifact that the cache has, by the SHA-256 or the SHA-512 of its file, or `None`."""
        try:
            sha256 = self._name(digest).read_text() if len(digest) == _SHA512_CHARS else digest
            said = json.loads(self._manifest(sha256).read_text("utf-8"))
            said |= {name: tuple(said[name]) for name in ("modules", "notes", "requires")}
            return Artifact(**{**said, "files": {path: (one, mode) for path, (one, mode) in said["files"].items()}})
        except (FileNotFoundError, ValueError, TypeError, KeyError):  # missing, or somebody edited it: it is made anew
            return None

    def add(self, wheel: Path, filename: str, sha256: str) -> Artifact:
        """Unpack a wheel into the cache, unless it is there; return its artifact. Raises `BadWheel` and `OSError`."""
        return self._add(filename, sha256, lambda target: unpack(wheel, filename, sha256, target))

    def add_tarball(self, tarball: Path, filename: str, name: str, version: str, sha512: str) -> Artifact:
        """Unpack a package of npm into the cache as `add` does a wheel. Raises `BadTarball` and `OSError`."""
        sha256 = sha256_of_tarball(tarball, filename, sha512)
        artifact = self._add(filename, sha256, lambda target: unpack_tarball(tarball, filename, name, version, target))
        with self.temporary.made() as aside:
            (aside / "name").write_text(sha256)
            (aside / "name").rename(self._name(sha512))
        return artifact

    def _add(self, filename: str, sha256: str, unpack_to: Callable[[Path], Unpacked]) -> Artifact:
        with self._locked(f"artifact-{sha256}"):
            if (found := self.find(sha256)) is not None and self._path(sha256).is_dir():
                return found
            with self.temporary.made() as aside:
                unpacked = unpack_to(aside / "package")
                artifact = _artifact_of(unpacked, filename, sha256, aside / "package")
                shutil.rmtree(self._path(sha256), ignore_errors=True)
                (aside / "package").rename(self._path(sha256))
                (aside / "manifest").write_text(json.dumps(asdict(artifact)), "utf-8")
                (aside / "manifest").rename(self._manifest(sha256))
            return artifact

    def metadata(self, artifact: Artifact) -> bytes:
        """Return the metadata of a wheel's distribution. Raises `BadCache` if they are not those that were put in."""
        path = next(path for path in artifact.files if path.endswith(".dist-info/METADATA") and path.count("/") == 2)
        data = (self._path(artifact.sha256) / path).read_bytes()
        if hashlib.sha256(data).hexdigest() != artifact.files[path][0]:
            raise self._edited(artifact.sha256, path)
        return data

    def recall(self, key: str, at_any_age: bool = False) -> Any:
        """Return what `remember` was given for a key, `None` if that is missing, too old or no JSON."""
        path = self._resolution(key)
        try:
            if not at_any_age and time.time() - path.stat().st_mtime > KEEP_SECONDS:
                return None
            return json.loads(path.read_text("utf-8"))
        except (OSError, ValueError):
            return None

    def remember(self, key: str, value: Any) -> None:
        """Keep a resolver's or a build's answer, as JSON. Raises `OSError`."""
        with tempfile.NamedTemporaryFile("w", dir=self._resolutions, delete=False) as file:
            json.dump(value, file)
        os.replace(file.name, self._resolution(key))

    def use(self, artifacts: Iterable[Artifact], places: Sequence[str] = ()) -> UsedSet:
        """Return the set of these artifacts, made of hard links if it is missing, and checked.

        `places` are the directories of packages of npm, one for each artifact. Raises `InvalidValue` if two artifacts
        have different files of one path, and `OSError`.
        """
        key, placed = _placed(artifacts, places)
        files = self._files_in(key, placed)
        path = self.root / "sets" / key
        lock = self._lock(f"set-{key}", fcntl.LOCK_SH)
        try:
            if not self._is_whole(path, key, files):
                with self._locked("sets"):  # not the lock of the set, which its users hold
                    if not self._is_whole(path, key, files):
                        self._make_set(path, files)
                        if not self._is_whole(path, key, files):
                            raise BadCache(f"{path} changes while it is used: find out who writes there")
            return self._used(path, placed, lock)
        except BaseException:
            os.close(lock)
            raise

    def use_at_once(self, artifacts: Iterable[Artifact], places: Sequence[str] = ()) -> UsedSet | None:
        """Return what `use` returns if that takes no time to speak of: a small set, known, unchanged and not locked."""
        key, placed = _placed(artifacts, places)
        path = self.root / "sets" / key
        if len(self._known.get(key, ())) not in range(1, _FEW_FILES):
            return None
        try:
            lock = self._lock(f"set-{key}", fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
        if self._known.get(key) == _signature_of(path):
            return self._used(path, placed, lock)
        os.close(lock)
        return None

    def _used(self, path: Path, placed: _Placed, lock: int) -> UsedSet:
        artifacts = tuple(one for one, _ in placed)
        os.utime(lock)
        for one in artifacts:
            with contextlib.suppress(FileNotFoundError):
                os.utime(self.root / "locks" / f"artifact-{one.sha256}")
        return UsedSet(path, artifacts, lock)

    def collect(
        self, *, keep_seconds: float = KEEP_SECONDS, most_bytes: int = MOST_BYTES, kept: Container[str] = ()
    ) -> int:
        """Remove entries that nobody has used for so long, and the oldest beyond a size; return the bytes freed.

        Artifacts with the hashes `kept` stay.
        """
        freed = 0
        with self._locked("collect"):
            os.utime(self.root / "locks" / "collect")
            self.temporary.collect(keep_seconds)
            for path in self._resolutions.iterdir():
                with contextlib.suppress(FileNotFoundError):
                    if time.time() - path.stat().st_mtime > keep_seconds:
                        path.unlink()
            found = sorted((self._last_use(kind, path), kind, path) for kind, path in self._removable())
            held = sum(_bytes_of(path) for _, kind, path in found if kind == "artifact")
            for used, kind, path in found:
                if time.time() - used <= keep_seconds and held <= most_bytes:
                    break
                if kind == "artifact" and path.name in kept:
                    continue
                size = self._remove_unused(kind, path)
                freed += size
                held -= size if kind == "artifact" else 0
        return freed

    def is_collection_due(self) -> bool:
        """Return whether nobody has called `collect` for a day."""
        try:
            return time.time() - (self.root / "locks" / "collect").stat().st_mtime > _COLLECT_SECONDS
        except FileNotFoundError:
            return True

    def contents(self) -> dict[str, tuple[int, float]]:
        """Return the artifacts by their hash: the size in bytes, and when each was used last (seconds since 1970)."""
        return {path.name: (_bytes_of(path), self._last_use("artifact", path)) for path in self._entries("artifacts")}

    # Sets

    def _files_in(self, key: str, placed: _Placed) -> _Files:
        """Return what `_files_of` returns; of a set that is known to be whole it is what it was before."""
        if key not in self._known or key not in self._files:
            if len(self._files) >= _MOST_REMEMBERED:
                self._files.clear()
            self._files[key] = _files_of(placed)
        return self._files[key]

    def _make_set(self, path: Path, files: _Files) -> None:
        with self.temporary.made() as aside:
            made = aside / "set"
            for folder in (SITE, SCRIPTS, DATA):
                (made / folder).mkdir(parents=True)
            for name, (expected, sha256, path_in_it) in files.items():
                source, target = self._path(sha256) / path_in_it, made / name
                target.parent.mkdir(parents=True, exist_ok=True)
                if _hash_of(source) != expected:
                    raise self._edited(sha256, path_in_it)
                os.link(source, target, follow_symlinks=False)
            for folder, _, _ in os.walk(made):  # guests of some engines are other users, whatever the umask is
                os.chmod(folder, 0o755)
            shutil.rmtree(path, ignore_errors=True)
            made.rename(path)

    def _edited(self, sha256: str, path: str) -> BadCache:
        """Remove an artifact that somebody has edited, and return the error that says so."""
        self.forget(sha256)
        return BadCache(
            f"{self._path(sha256) / path} is not what was put into the package cache; its package was removed from it,"
            " so try again"
        )

    def forget(self, sha256: str) -> None:
        """Remove an artifact, so that the next use makes it anew."""
        self._manifest(sha256).unlink(missing_ok=True)
        shutil.rmtree(self._path(sha256), ignore_errors=True)

    def _is_whole(self, path: Path, key: str, files: _Files) -> bool:
        """Return whether a set's directory has exactly these files with their content."""
        signature = _signature_of(path)
        if signature is None:
            return False
        with self._guard:
            if self._known.get(key) == signature:
                return True
        if {name for name, *_ in signature} != set(files):
            return False
        if any(_hash_of(path / name) != expected for name, (expected, _, _) in files.items()):
            return False
        with self._guard:
            self._known[key] = signature
        return True

    # Files

    def _path(self, sha256: str) -> Path:
        return self.root / "artifacts" / sha256

    def _name(self, sha512: str) -> Path:
        return self.root / "names" / sha512

    def _resolution(self, key: str) -> Path:
        return self._resolutions / f"{key}.json"

    def _manifest(self, sha256: str) -> Path:
        return self.root / "artifacts" / f"{sha256}.json"

    def _lock(self, name: str, how: int) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        while True:
            descriptor = os.open(self.root / "locks" / name, flags, 0o600)
            try:
                fcntl.flock(descriptor, how)
                # Whoever removes an entry removes its lock file too, and a lock on that counts for nobody.
                if os.fstat(descriptor).st_nlink:
                    return descriptor
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)

    @contextlib.contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        descriptor = self._lock(name, fcntl.LOCK_EX)
        try:
            yield
        finally:
            os.close(descriptor)

    def _entries(self, folder: str) -> list[Path]:
        return [Path(entry.path) for entry in os.scandir(self.root / folder) if entry.is_dir(follow_symlinks=False)]

    def _removable(self) -> Iterator[tuple[str, Path]]:
        yield from (("set", path) for path in self._entries("sets"))
        # A file of an artifact that a set uses has two links; to remove the artifact would free nothing.
        yield from (("artifact", path) for path in self._entries("artifacts"))

    def _last_use(self, kind: str, path: Path) -> float:
        try:
            return (self.root / "locks" / f"{kind}-{path.name}").stat().st_mtime
        except FileNotFoundError:
            return path.stat().st_mtime

    def _remove_unused(self, kind: str, path: Path) -> int:
        descriptor = self._lock_name(kind, path)
        if descriptor is None:  # it is in use
            return 0
        try:
            size = _bytes_of(path)
            self._manifest(path.name).unlink(missing_ok=True)
            shutil.rmtree(path)
            (self.root / "locks" / f"{kind}-{path.name}").unlink(missing_ok=True)
            return size
        finally:
            os.close(descriptor)

    def _lock_name(self, kind: str, path: Path) -> int | None:
        try:
            return self._lock(f"{kind}-{path.name}", fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None


def _artifact_of(unpacked: Unpacked, filename: str, sha256: str, folder: Path) -> Artifact:
    files = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            files[str(path.relative_to(folder))] = (_hash_of(path), stat.S_IMODE(path.stat().st_mode))
    return Artifact(
        sha256, filename, unpacked.name, unpacked.version, unpacked.modules, unpacked.notes, unpacked.requires, files
    )


def _placed(artifacts: Iterable[Artifact], places: Sequence[str]) -> tuple[str, _Placed]:
    """Return the name of a set's directory, and its artifacts in order, each with its place."""
    given = tuple(artifacts)
    placed = sorted(
        zip(given, places or [""] * len(given), strict=True),
        key=lambda one: (one[0].name, one[0].version, one[0].sha256, one[1]),
    )
    lines = (f"{one.sha256} {place}".rstrip() for one, place in placed)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest(), placed


def _files_of(placed: _Placed) -> _Files:
    """Return the files of a set."""
    files: dict[str, tuple[str, str, str]] = {}
    owners: dict[str, Artifact] = {}
    for artifact, place in placed:
        for source, (expected, _) in artifact.files.items():
            path = place + source.removeprefix(PACKAGE) if place else source
            if path in files and files[path][0] != expected:
                raise InvalidValue(
                    f"{owners[path].name} {owners[path].version} and {artifact.name} {artifact.version} both have"
                    f" {path}, with different content: programs cannot have both"
                )
            files.setdefault(path, (expected, artifact.sha256, source))
            owners.setdefault(path, artifact)
    return files


def _signature_of(folder: Path) -> _Signature | None:
    """Return each file's path, inode, size and times; `None` if there is no such directory or another kind of file."""
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
    except FileNotFoundError:
        return None
    return tuple(sorted(found))


def _hash_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return ""


def _bytes_of(folder: Path) -> int:
    return sum(status[2] for status in _signature_of(folder) or ())


def _make_private(root: Path) -> None:
    root.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        root.mkdir(mode=0o700)
    status = os.lstat(root)
    why = ""
    if not stat.S_ISDIR(status.st_mode):
        why = "is not a directory"
    elif status.st_uid != os.geteuid():
        why = "belongs to another user"
    elif status.st_mode & 0o022:
        why = "can be written by other users"
    if why:
        raise BadCache(f"the package cache {root} {why}: name a directory of your own")
