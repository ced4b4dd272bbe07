"""The files of a resolution: wheels, source distributions and archives of npm, each with its hash."""

from __future__ import annotations

import re
import zipfile
from dataclasses import dataclass
from pathlib import Path

from actbox.core.errors import InvalidValue

SOURCE_ENDINGS = (".tar.gz", ".zip")
"""The endings of the file names of source distributions."""


@dataclass(frozen=True, slots=True)
class Locked:
    """A wheel of a resolution: the distribution, where the file is, and what it must be."""

    name: str
    version: str
    url: str
    filename: str
    sha256: str
    size: int = -1
    """In bytes, -1 if the index does not say."""
    released: str = ""
    """When the file was uploaded (ISO 8601), "" if the index does not say."""
    is_described: bool = False
    """True if the next two are what the package's metadata says."""
    licence: str = ""
    requires: tuple[str, ...] = ()
    """The names of the distributions that it needs, whatever their markers and extras say."""
    sha512: str = ""
    """The hash in a lock of npm, which has no SHA-256: `sha256` is "" until the file was fetched."""
    place: str = ""
    """Where npm puts the package, such as `node_modules/a/node_modules/b`."""
    entry: str = ""
    """The entry of npm's lock, as JSON."""
    source: str = ""
    """The source that a wheel was built from here: the hash of its distribution, or the address of a commit."""

    @property
    def is_source(self) -> bool:
        """True for a source distribution of Python, from which a wheel has to be built."""
        return self.filename.endswith(SOURCE_ENDINGS) and not self.sha512

    @property
    def stand_in(self) -> str:
        """The file name of the wheel that stands for this file while uv resolves."""
        return f"{self.name.replace('-', '_')}-{self.version}-py3-none-any.whl"

    @property
    def origin(self) -> str:
        """The identity of the content: that of the source if it was built here, else the hash of the file."""
        return self.source or (f"sha256:{self.sha256}" if self.sha256 else f"sha512:{self.sha512}")

    def __post_init__(self) -> None:
        texts = (self.name, self.version, self.url, self.filename, self.released, self.licence, self.place, self.entry)
        if not isinstance(self.size, int) or not all(isinstance(one, str) for one in (*texts, *self.requires)):
            raise InvalidValue(f"{self.filename!a:.80} is not locked by a name, version and size")
        # The package cache makes paths of hashes.
        if not re.fullmatch("(?:[0-9a-f]{64})?", self.sha256) or not re.fullmatch("(?:[0-9a-f]{128})?", self.sha512):
            raise InvalidValue(f"{self.filename} has no hexadecimal hash, but {self.sha256 or self.sha512!a:.80}")

    @property
    def digest(self) -> str:
        """The hash by which the package cache finds the file."""
        return self.sha256 or self.sha512


@dataclass(frozen=True, slots=True)
class StandIn:
    """A file to choose by a resolver, as a wheel with these metadata."""

    file: Locked
    metadata: bytes

    def write(self, folder: Path) -> str:
        """Write the wheel into a directory, which is made if it is missing; return its file name."""
        folder.mkdir(exist_ok=True)
        name = self.file.stand_in
        stem = name.removesuffix("-py3-none-any.whl")
        with zipfile.ZipFile(folder / name, "w") as archive:
            archive.writestr(f"{stem}.dist-info/METADATA", self.metadata)
            archive.writestr(f"{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
            archive.writestr(f"{stem}.dist-info/RECORD", "")
        return name
