"""Unpacked wheels and packages of npm in the package cache, each by the hash of its file.

artifacts/SHA256/{site,bin,data}    an unpacked wheel, with its manifest in artifacts/SHA256.json, and its compiled
                                    modules for each interpreter that has needed them
artifacts/SHA256/package            an unpacked package of npm
names/SHA512                        the SHA-256 of a file whose lock has its SHA-512 alone
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import shutil
import stat
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from actbox.core.errors import InvalidValue

from .compiling import COMPILED_MODE, Sources, compiled_path
from .lock_files import LockFiles
from .npm_archives import sha256_of_tarball, unpack_tarball
from .temporary_folders import TemporaryFolders
from .wheels import Unpacked, unpack

DAMAGED = (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError)
"""The exceptions of reading a file of the package cache that is missing, or that somebody has edited."""
_SHA512_CHARS = 128


@dataclass(frozen=True, slots=True)
class Artifact:
    """An unpacked wheel, or package of npm, in the cache. `files` has the SHA-256 and the mode of each file, by path.

    `requires` are the names of the distributions that its metadata names, whatever their markers and extras say.
    `compiled` has the path and the SHA-256 of compiled modules for one interpreter, by the path of the source; it is
    `None` if nobody has compiled any. Their digest is `compiled_sha256`.
    """

    sha256: str
    filename: str
    name: str
    version: str
    modules: tuple[str, ...]
    notes: tuple[str, ...]
    requires: tuple[str, ...]
    files: Mapping[str, tuple[str, int]]
    compiled: Mapping[str, tuple[str, str]] | None = None
    compiled_sha256: str = ""


class Artifacts:
    """The artifacts of a package cache. The methods block, and may be called from any thread and process."""

    def __init__(self, root: Path, temporary: TemporaryFolders, locks: LockFiles) -> None:
        """`root` is the cache's directory."""
        self.folder = root / "artifacts"
        self._names = root / "names"
        self._temporary = temporary
        self._locks = locks

    def path(self, sha256: str) -> Path:
        """Return the directory of an artifact, which may be missing. Raises `InvalidValue` for what is no hash."""
        return self.folder / _checked(sha256)

    def find(self, digest: str, tag: str = "") -> Artifact | None:
        """Return an artifact that the cache has, by the SHA-256 or the SHA-512 of its file, or `None`. Note its use.

        `tag` is the cache tag of the interpreter whose compiled modules the artifact is to have.
        """
        try:
            sha256 = (self._names / _checked(digest)).read_text() if len(digest) == _SHA512_CHARS else digest
            artifact = _read(self._manifest(sha256).read_text("utf-8"), sha256, tag)
            self._locks.note_use(lock_of(sha256))
            return artifact
        except DAMAGED:  # missing, or somebody edited it: it is made anew
            return None

    def sources(self, artifact: Artifact, tag: str) -> Sources:
        """Return the modules of an artifact that can be compiled."""
        return {
            sha256: (path, self.path(artifact.sha256) / path)
            for path, (sha256, _) in artifact.files.items()
            if (compiled := compiled_path(path, tag)) and compiled not in artifact.files
        }

    def add_compiled(self, artifact: Artifact, tag: str, compiled: Mapping[str, bytes]) -> None:
        """Add modules that were compiled for an interpreter, by the SHA-256 of their source, unless it has some.

        Raises `OSError`.
        """
        folder, manifest = self.path(artifact.sha256), self._manifest(artifact.sha256)
        with self._locks.held(lock_of(artifact.sha256)), self._temporary.made() as aside:
            said = json.loads(manifest.read_text("utf-8"))
            if tag in (said.get("compiled") or {}):  # another process was faster, and may use what it has added
                return
            found = {}
            for source, (sha256, _) in artifact.files.items():
                path = compiled_path(source, tag)
                if path and path not in artifact.files and (data := compiled.get(sha256)):
                    (aside / "file").write_bytes(data)
                    (aside / "file").chmod(COMPILED_MODE)
                    (folder / path).parent.mkdir(exist_ok=True)
                    (aside / "file").rename(folder / path)
                    found[source] = path, hashlib.sha256(data).hexdigest()
            said["compiled"] = {**(said.get("compiled") or {}), tag: found}
            (aside / "manifest").write_text(json.dumps(said), "utf-8")
            (aside / "manifest").rename(manifest)

    def add(self, wheel: Path, filename: str, sha256: str) -> Artifact:
        """Unpack a wheel into the cache, unless it is there; return its artifact. Raises `BadWheel` and `OSError`."""
        return self._add(filename, sha256, lambda target: unpack(wheel, filename, sha256, target))

    def add_tarball(self, tarball: Path, filename: str, name: str, version: str, sha512: str) -> Artifact:
        """Unpack a package of npm into the cache as `add` does a wheel. Raises `BadTarball` and `OSError`."""
        sha256 = sha256_of_tarball(tarball, filename, sha512)
        artifact = self._add(filename, sha256, lambda target: unpack_tarball(tarball, filename, name, version, target))
        with self._temporary.made() as aside:
            (aside / "name").write_text(sha256)
            put_in_place(aside / "name", self._names / sha512)
        return artifact

    def forget(self, sha256: str) -> None:
        """Remove an artifact that somebody has edited, so that the next use makes it anew."""
        with self._locks.held(lock_of(sha256)):
            self.remove(sha256)

    def remove(self, sha256: str) -> None:
        """Remove an artifact. The caller holds its lock."""
        _discard(self._manifest(sha256))
        _discard(self.path(sha256))

    def collect_names(self) -> None:
        """Remove the names of artifacts that are gone."""
        for name in self._names.iterdir():
            with contextlib.suppress(OSError, ValueError):
                manifest = self._manifest(sha256 := name.read_text())
                if not manifest.exists():
                    with self._locks.held(lock_of(sha256)):  # whoever adds the artifact now writes its name afterwards
                        if not manifest.exists():
                            name.unlink()

    def _add(self, filename: str, sha256: str, unpack_to: Callable[[Path], Unpacked]) -> Artifact:
        with self._locks.held(lock_of(sha256)):
            self._locks.note_use(lock_of(sha256))
            if (found := self.find(sha256)) is not None and self.path(sha256).is_dir():
                return found
            with self._temporary.made() as aside:
                unpacked = unpack_to(aside / "package")
                artifact = _artifact_of(unpacked, filename, sha256, aside / "package")
                put_in_place(aside / "package", self.path(sha256))
                (aside / "manifest").write_text(json.dumps(asdict(artifact)), "utf-8")
                put_in_place(aside / "manifest", self._manifest(sha256))
            return artifact

    def _manifest(self, sha256: str) -> Path:
        return self.folder / f"{_checked(sha256)}.json"


def lock_of(sha256: str) -> str:
    """Return the name of an artifact's lock file."""
    return f"artifact-{sha256}"


def _checked(digest: str) -> str:
    if not re.fullmatch("[0-9a-f]{64}|[0-9a-f]{128}", digest):
        raise InvalidValue(f"{digest!a:.80} is no hexadecimal hash of a file of the package cache")
    return digest


def hash_of(path: Path) -> str:
    """Return the hexadecimal SHA-256 of a file, "" if it is missing."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return ""


def _read(manifest: str, sha256: str, tag: str) -> Artifact:
    """Return the artifact of a manifest, compiled for a cache tag. Raises one of `DAMAGED` for a text that is none."""
    said = json.loads(manifest)
    said |= {name: tuple(said[name]) for name in ("modules", "notes", "requires")}
    said["files"] = {path: (one, int(mode)) for path, (one, mode) in said["files"].items()}
    compiled = dict(said.pop("compiled", None) or {}).get(tag)
    if compiled is not None:
        said["compiled"] = {source: (path, one) for source, (path, one) in compiled.items()}
        said["compiled_sha256"] = hashlib.sha256(json.dumps(compiled).encode()).hexdigest() if compiled else ""
    artifact = Artifact(**said)
    lists = (artifact.modules, artifact.notes, artifact.requires, [one for one, _ in artifact.files.values()])
    texts = [artifact.filename, artifact.name, artifact.version, *(one for each in lists for one in each)]
    paths = [*artifact.files, *(path for path, _ in (artifact.compiled or {}).values())]
    is_inside = all(not path.startswith("/") and ".." not in path.split("/") for path in paths)
    if artifact.sha256 != sha256 or not is_inside or not all(isinstance(one, str) for one in texts):
        raise ValueError("somebody has edited the manifest")
    return artifact


def put_in_place(source: Path, target: Path) -> None:
    """Rename a file or directory, in place of one that is there."""
    if target.is_dir() or source.is_dir():
        _discard(target)
    source.rename(target)


def _discard(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _artifact_of(unpacked: Unpacked, filename: str, sha256: str, folder: Path) -> Artifact:
    files = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            files[str(path.relative_to(folder))] = (hash_of(path), stat.S_IMODE(path.stat().st_mode))
    return Artifact(
        sha256, filename, unpacked.name, unpacked.version, unpacked.modules, unpacked.notes, unpacked.requires, files
    )
