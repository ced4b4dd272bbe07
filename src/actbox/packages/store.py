"""The package cache in one directory: unpacked packages, sets of them, what resolvers have answered, and collection.

    artifacts/, names/    unpacked packages by their hash (`artifacts.py`)
    sets/                 what programs see (`artifact_sets.py`)
    resolutions/KEY.json  what a resolver has answered, and which wheels were built from sources
    temporary/…           what is under way
    locks/…               a lock file for each artifact and set, held while it is made, used or removed

Processes share the cache. Each entry is made aside and renamed into place, so that an entry is there whole or not at
all.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import stat
import time
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .artifact_sets import ArtifactSets, BadCache, UsedSet, bytes_of
from .artifacts import Artifact, Artifacts
from .compiling import Sources
from .lock_files import LockFiles
from .temporary_folders import TemporaryFolders

__all__ = ["KEEP_SECONDS", "MOST_BYTES", "Artifact", "BadCache", "PackageStore", "UsedSet"]

KEEP_SECONDS = 7 * 24 * 3600.0
"""The seconds for which an entry is kept after its last use."""
MOST_BYTES = 10 * 2**30
"""The size beyond which the entries that were used longest ago are removed."""
JUST_USED_SECONDS = 120.0
"""The seconds for which an entry stays after its last use in any case: programs look one up before they use it."""
_COLLECT_SECONDS = 24 * 3600.0
_COLLECT = "collect"


class PackageStore:
    """The package cache in one directory. Its methods block, and may be called from any thread and process."""

    def __init__(self, root: Path) -> None:
        """Make the directory if it is missing. Raises `BadCache` if it cannot be made, or others may write to it."""
        self.root = root
        try:
            _make_private(root)
            for name in ("artifacts", "sets", "names", "resolutions", "locks", "temporary"):
                (root / name).mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise BadCache(f"the package cache {root} cannot be made ({error}): name a directory of your own") from None
        self._resolutions = root / "resolutions"
        self.temporary = TemporaryFolders(root / "temporary")
        self._locks = LockFiles(root / "locks")
        self._artifacts = Artifacts(root, self.temporary, self._locks)
        self._sets = ArtifactSets(root, self._artifacts, self.temporary, self._locks)

    def find(self, digest: str, tag: str = "") -> Artifact | None:
        """Return an artifact that the cache has, compiled for a cache tag, or `None`; see `Artifacts.find`."""
        return self._artifacts.find(digest, tag)

    def sources(self, artifact: Artifact, tag: str) -> Sources:
        """Return the modules of an artifact that can be compiled."""
        return self._artifacts.sources(artifact, tag)

    def add_compiled(self, artifact: Artifact, tag: str, compiled: Mapping[str, bytes]) -> None:
        """Add compiled modules to an artifact; see `Artifacts.add_compiled`."""
        self._artifacts.add_compiled(artifact, tag, compiled)

    def add(self, wheel: Path, filename: str, sha256: str) -> Artifact:
        """Unpack a wheel into the cache; see `Artifacts.add`."""
        return self._artifacts.add(wheel, filename, sha256)

    def add_tarball(self, tarball: Path, filename: str, name: str, version: str, sha512: str) -> Artifact:
        """Unpack a package of npm into the cache; see `Artifacts.add_tarball`."""
        return self._artifacts.add_tarball(tarball, filename, name, version, sha512)

    def metadata(self, artifact: Artifact) -> bytes:
        """Return the metadata of a wheel's distribution. Raises `BadCache` if they are not those that were put in."""
        path = next(path for path in artifact.files if path.endswith(".dist-info/METADATA") and path.count("/") == 2)
        file = self._artifacts.path(artifact.sha256) / path
        data = file.read_bytes()
        if hashlib.sha256(data).hexdigest() != artifact.files[path][0]:
            self._artifacts.forget(artifact.sha256)
            raise BadCache(f"{file} is not what was put into the package cache; its package was removed, so try again")
        return data

    def recall(self, key: str, at_any_age: bool = False) -> Any:
        """Return what `remember` was given for a key, `None` if that is missing, too old or no JSON."""
        path = self._resolution(key)
        try:
            if not at_any_age and time.time() - path.stat().st_mtime > KEEP_SECONDS:
                return None
            return json.loads(path.read_text("utf-8"))
        except (OSError, ValueError, RecursionError):
            return None

    def remember(self, key: str, value: Any) -> None:
        """Keep a resolver's or a build's answer, as JSON. Raises `OSError`."""
        with self.temporary.made() as folder:
            (folder / "answer").write_text(json.dumps(value), "utf-8")
            (folder / "answer").rename(self._resolution(key))

    def resolutions(self, beginning: str) -> list[str]:
        """Return the keys that `remember` was given that begin so."""
        return [path.stem for path in self._resolutions.glob(f"{beginning}*.json")]

    def _resolution(self, key: str) -> Path:
        return self._resolutions / f"{key}.json"

    @contextlib.contextmanager
    def fetching(self, digest: str) -> Iterator[bool]:
        """Hold for a block the lock on a file that is to be fetched. The block gets whether nobody else holds it."""
        name = f"fetch-{digest}"
        with self._locks.held_if_free(name) as is_free:
            try:
                yield is_free
            finally:
                if is_free:
                    self._locks.remove(name)

    def use(self, artifacts: Iterable[Artifact], places: Sequence[str] = ()) -> UsedSet:
        """Return the set of these artifacts, made if it is missing, and checked; see `ArtifactSets.use`."""
        return self._sets.use(artifacts, places)

    def use_at_once(self, artifacts: Iterable[Artifact], places: Sequence[str] = ()) -> UsedSet | None:
        """Return the set of these artifacts if it is at hand, else `None`; see `ArtifactSets.use_at_once`."""
        return self._sets.use_at_once(artifacts, places)

    def collect(
        self, *, keep_seconds: float = KEEP_SECONDS, most_bytes: int = MOST_BYTES, kept: Container[str] = ()
    ) -> int:
        """Remove entries that nobody has used for so long, and the oldest beyond a size; return the bytes freed.

        Artifacts with the hashes `kept` stay, and entries that were used just now, unless `keep_seconds` is negative.
        """
        freed = 0
        with self._locks.held(_COLLECT):
            self._locks.note_use(_COLLECT)
            self.temporary.collect()
            for path in self._resolutions.iterdir():
                with contextlib.suppress(OSError):
                    if time.time() - path.stat().st_mtime > keep_seconds:
                        path.unlink()
            sizes = {path.name: bytes_of(path) for path in _entries(self._artifacts.folder)}
            held = sum(sizes.values())
            # A set was used no later than its artifacts, and goes before these: its links keep their files on the disk.
            entries = [("set", path.name) for path in _entries(self._sets.folder)]
            entries += [("artifact", name) for name in sizes]
            for used, kind, name in sorted((self._last_use(kind, name), kind, name) for kind, name in entries):
                age = time.time() - used
                if age <= keep_seconds and held <= most_bytes:
                    break
                if keep_seconds >= 0 and age <= JUST_USED_SECONDS:
                    break
                if kind == "artifact" and name in kept:
                    continue
                with self._locks.held_if_free(f"{kind}-{name}") as is_free:
                    if is_free:
                        freed += self._remove(kind, name)
                        held -= sizes[name] if kind == "artifact" else 0
            self._artifacts.collect_names()
            self._collect_locks(keep_seconds)
        return freed

    def is_collection_due(self) -> bool:
        """Return whether nobody has called `collect` for a day."""
        return time.time() - self._locks.last_use(_COLLECT) > _COLLECT_SECONDS

    def contents(self) -> dict[str, tuple[int, float]]:
        """Return the artifacts by their hash: the size in bytes, and when each was used last (seconds since 1970)."""
        entries = _entries(self._artifacts.folder)
        return {path.name: (bytes_of(path), self._last_use("artifact", path.name)) for path in entries}

    def _last_use(self, kind: str, name: str) -> float:
        return self._locks.last_use(f"{kind}-{name}")

    def _remove(self, kind: str, name: str) -> int:
        """Remove an entry whose lock is held, and the lock file; return the bytes that this frees."""
        path = (self._artifacts if kind == "artifact" else self._sets).folder / name
        freed = bytes_of(path, alone=True)
        if kind == "artifact":
            self._artifacts.remove(name)
        else:
            shutil.rmtree(path, ignore_errors=True)
        self._locks.remove(f"{kind}-{name}")
        return freed

    def _collect_locks(self, keep_seconds: float) -> None:
        """Remove old lock files without an entry: of what could not be made, or was removed by hand."""
        for kind, folder in (("set", self._sets.folder), ("artifact", self._artifacts.folder)):
            for name in self._locks.names(f"{kind}-"):
                path = folder / name.removeprefix(f"{kind}-")
                if not path.exists() and time.time() - self._locks.last_use(name) > keep_seconds:
                    with self._locks.held_if_free(name) as is_free:
                        if is_free and not path.exists():
                            self._locks.remove(name)


def _entries(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.is_dir() and not path.is_symlink()]


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
