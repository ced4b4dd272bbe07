"""Unpacks packages of npm: checks that an archive is what its lock says, and writes its files. Nothing of it runs.

An archive is a compressed tar file with all files in one directory, among them `package.json`:
https://docs.npmjs.com/cli/commands/npm-pack
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
import tarfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, NoReturn

from actbox.core.errors import ActboxError

from .wheels import MOST_FILES, MOST_PATH_BYTES, Unpacked, most_unpacked, open_fetched

PACKAGE = "package"
"""The directory of the unpacked files."""

_PIECE = 2**20
_MOST_PIECE = 4 * 2**20
_MOST_ABOUT_BYTES = 4 * 2**20
_REQUIRED = ("dependencies", "optionalDependencies", "peerDependencies")
_INSTALL_SCRIPTS = {"preinstall", "install", "postinstall"}


class BadTarball(ActboxError):
    """Raised for an archive that is not the package that it should be; the message names it and what is wrong."""


def required_npm_names(about: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the packages that a `package.json`, or a lock's entry, requires; aliases by their target."""
    found: dict[str, None] = {}
    for key in _REQUIRED:
        listed = about.get(key)
        for name, wanted in listed.items() if isinstance(listed, dict) else ():
            target = str(wanted).removeprefix("npm:")
            found[target.rpartition("@")[0] or target if target != wanted else name] = None
    return tuple(found)


def sha256_of_tarball(tarball: Path, filename: str, sha512: str) -> str:
    """Return the hexadecimal SHA-256 of a file. Raises `BadTarball` if its SHA-512 is another than this one."""
    found, sha256 = hashlib.sha512(), hashlib.sha256()
    with open_fetched(tarball) as file:
        while piece := file.read(_PIECE):
            found.update(piece)
            sha256.update(piece)
    if found.hexdigest() != sha512:
        raise BadTarball(
            f"{filename} has the hash sha512:{found.hexdigest()}, and the lock says sha512:{sha512}: do not use it"
        )
    return sha256.hexdigest()


def unpack_tarball(tarball: Path, filename: str, name: str, version: str, target: Path) -> Unpacked:
    """Unpack an archive whose hash was checked into a new directory. Raises `BadTarball` and `OSError`.

    If anything is wrong, the directory is removed again.
    """
    target.mkdir(mode=0o755)
    try:
        with _Bounded(tarball) as file, tarfile.open(fileobj=file, mode="r:") as archive:
            about = _Tarball(archive, filename, most_unpacked(tarball)).write(target / PACKAGE)
        return _checked(about, filename, name, version)
    except _UNREADABLE as error:
        shutil.rmtree(target)
        raise BadTarball(f"{filename} cannot be read as a compressed tar file: {error}") from None
    except BaseException:
        shutil.rmtree(target)
        raise


class _TooLarge(Exception):
    """Raised for an archive that asks for more memory or space than it may have."""


# tarfile calls itself for each header that extends the next one, so that many of these are a `RecursionError`.
_UNREADABLE = (tarfile.TarError, zlib.error, gzip.BadGzipFile, EOFError, ValueError, RecursionError, _TooLarge)


class _Bounded(gzip.GzipFile):
    """A compressed file of which nobody reads much at once: tar headers say how long the next one is."""

    def read(self, size: int | None = -1) -> bytes:
        if size is None or not 0 <= size <= _MOST_PIECE:
            raise _TooLarge("a header of it is too long")
        return super().read(size)


class _Tarball:
    def __init__(self, archive: tarfile.TarFile, filename: str, most_bytes: int) -> None:
        self._archive = archive
        self._filename = filename
        self._seen: set[str] = set()
        self._folders: set[str] = set()
        self._most_bytes = self._left = most_bytes

    def write(self, target: Path) -> Mapping[str, Any]:
        """Write all files, and return what `package.json` says."""
        target.mkdir()
        for number, member in enumerate(self._archive):
            self._left -= member.size
            if self._left < 0 or member.size < 0:
                self._fail(f"it unpacks to more than {self._most_bytes >> 20:,} MiB")
            if number >= MOST_FILES:
                self._fail(f"it has more than {MOST_FILES:,} files")
            if member.isdir():
                continue
            path = self._path(member)
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            with (target / path).open("xb") as file:
                self._copy(member, file)
        about = target / "package.json"
        if not about.is_file() or about.stat().st_size > _MOST_ABOUT_BYTES:
            self._fail("it has no package.json")
        try:
            said = json.loads(about.read_text("utf-8-sig"))
        except (ValueError, RecursionError):
            said = None
        if not isinstance(said, dict):
            self._fail("its package.json cannot be read")
        return said

    def _copy(self, member: tarfile.TarInfo, file: IO[bytes]) -> None:
        source, left = self._archive.extractfile(member), member.size
        assert source is not None
        while left and (piece := source.read(min(left, _PIECE))):
            left -= len(piece)
            file.write(piece)
        if left:
            self._fail(f"{member.name} is cut short")
        os.fchmod(file.fileno(), 0o755 if member.mode & 0o111 else 0o644)

    def _path(self, member: tarfile.TarInfo) -> str:
        """Return where a file goes in the package."""
        first, _, path = member.name.partition("/")
        parts = path.split("/")
        if not member.name.isprintable() or "\\" in path or any(part in ("", ".", "..") for part in (first, *parts)):
            self._fail(f"{member.name!r} is not a path of a package's file")
        if any(len(part.encode()) > 255 for part in parts) or len(parts) > 64 or len(path.encode()) > MOST_PATH_BYTES:
            self._fail(f"the path {member.name[:80]!r}… is too long")
        if not member.isreg() or member.issparse():
            self._fail(f"{member.name} is a link or a special file")
        if parts[0] == "node_modules":
            self._fail("it brings copies of other packages, which nobody could judge")
        if path in self._seen:
            self._fail(f"it has two files {path}")
        above = {"/".join(parts[:count]) for count in range(1, len(parts))}
        if path in self._folders or above & self._seen:
            self._fail(f"{path} lies below a file")
        self._seen.add(path)
        self._folders |= above
        return path

    def _fail(self, why: str) -> NoReturn:
        raise BadTarball(f"{self._filename} is refused: {why}")


def _checked(about: Mapping[str, Any], filename: str, name: str, version: str) -> Unpacked:
    """Return the facts of a `package.json`. Raises `BadTarball` for that of another package."""
    said = about.get("name"), str(about.get("version", "")).strip().lstrip("=v").partition("+")[0]
    if said != (name, version.partition("+")[0]):
        raise BadTarball(f"{filename} is refused: its package.json is that of {said[0]} {said[1]}")
    scripts = about.get("scripts")
    notes = []
    if isinstance(scripts, dict) and (found := sorted(_INSTALL_SCRIPTS & scripts.keys())):
        notes.append(f"{name} {version}: its {found[0]} script is not run")
    return Unpacked(name, version, (), tuple(notes), required_npm_names(about))
