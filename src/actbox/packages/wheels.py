"""Unpacks wheels: checks that an archive is what its lock and its RECORD say, and writes its files. Nothing of it runs.

The binary distribution format: https://packaging.python.org/specifications/binary-distribution-format/
"""

from __future__ import annotations

import base64
import csv
import errno
import hashlib
import io
import os
import re
import shutil
import stat
import sys
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from configparser import ConfigParser
from configparser import Error as ConfigError
from dataclasses import dataclass
from email.parser import BytesParser
from email.policy import compat32
from pathlib import Path
from typing import IO, NoReturn

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from actbox.core.errors import ActboxError
from actbox.sandbox.guest import beneath

from .import_names import record_rows

SITE, SCRIPTS, DATA = "site", "bin", "data"
"""The directories of an unpacked wheel: what programs import, scripts, and files for the prefix."""

MOST_FILES = 100_000
MOST_BYTES = 8 * 2**30
PLAIN_BYTES = 200 * 2**20
"""The size up to which files may be compressed in any degree."""
MOST_RATIO = 50
"""The largest ratio beyond that size: large packages are compressed to a fifth, and bombs to a thousandth."""
MOST_PATH_BYTES = 1024
_PIECE = 2**20
_MOST_ABOUT_BYTES = 64 * 2**20
"""The largest size of RECORD, METADATA and entry_points.txt, which are read whole."""
_ABOUT_FILES = ("RECORD", "METADATA", "entry_points.txt")
_UNHASHED = ("RECORD", "RECORD.jws", "RECORD.p7s")
# Modules that the interpreter imports by itself at its start, or that are ours.
_RESERVED = {"sitecustomize", "usercustomize", "_actbox"}
_SCRIPT = """#!/usr/bin/env python3
import sys
from {module} import {first}
if __name__ == "__main__":
    sys.exit({function}())
"""


def most_unpacked(archive: Path) -> int:
    """Return the most bytes to which an archive may unpack."""
    return min(MOST_BYTES, max(PLAIN_BYTES, MOST_RATIO * archive.stat().st_size))


def no_room(what: str, needed: int, folder: Path, free: int) -> OSError:
    """Return the error of a disk that has not the bytes that are needed in a directory."""
    has = f"its disk has {free / 2**20:,.1f} MiB free: make room there"
    return OSError(errno.ENOSPC, f"{what} needs {needed / 2**20:,.1f} MiB in {folder.parent}, and {has}")


class BadWheel(ActboxError):
    """Raised for an archive that is not the wheel that it should be; the message names it and what is wrong."""


def required_names(lines: Iterable[object]) -> tuple[str, ...]:
    """Return the canonical names in lines of `Requires-Dist`, whatever their markers and extras say."""
    names = [re.match(r"[\w.-]+", str(line)) for line in lines]
    return tuple(dict.fromkeys(canonicalize_name(name[0]) for name in names if name))


@dataclass(frozen=True, slots=True)
class Unpacked:
    """A wheel that was unpacked: the distribution's canonical name, its version, and the modules that it brings."""

    name: str
    version: str
    modules: tuple[str, ...]
    notes: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    """The names in the metadata's requirements."""


@dataclass(frozen=True, slots=True)
class _Entry:
    info: zipfile.ZipInfo
    target: str
    """The path of the file in the unpacked wheel."""
    sha256: str
    """In the form of RECORD, "" for files that cannot have one."""
    size: int


def unpack(wheel: Path, filename: str, sha256: str, target: Path) -> Unpacked:
    """Unpack a wheel of this file name and hexadecimal hash into a new directory. Raises `BadWheel` and `OSError`.

    If anything is wrong, the directory is removed again.
    """
    with open_fetched(wheel) as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != sha256:
            raise BadWheel(f"{filename} has the hash sha256:{found}, and the lock says sha256:{sha256}: do not use it")
        try:
            name, version, *_ = parse_wheel_filename(filename)
        except InvalidWheelFilename as error:
            raise BadWheel(f"{filename} is not the file name of a wheel: {error}") from None
        target.mkdir(mode=0o755)
        try:
            with zipfile.ZipFile(file) as archive:
                return _Wheel(archive, filename, name, str(version), most_unpacked(wheel)).write(target)
        except (zipfile.BadZipFile, zlib.error, csv.Error, NotImplementedError, EOFError, ValueError) as error:
            shutil.rmtree(target)
            raise BadWheel(f"{filename} cannot be read as a wheel: {error}") from None
        except BaseException:
            shutil.rmtree(target)
            raise


def open_fetched(path: Path) -> io.BufferedReader:
    """Open a file that a sandbox has written. Raises `OSError` for a link, and for all but a regular file."""
    with beneath.opened_folder(os.fspath(path.parent), follow=True) as folder:
        return open(beneath.open_file(folder, path.name), "rb")


class _Wheel:
    def __init__(self, archive: zipfile.ZipFile, filename: str, name: str, version: str, most_bytes: int) -> None:
        self._archive = archive
        self._filename = filename
        self._name, self._version = name, version
        files = [info for info in archive.infolist() if not info.is_dir()]
        if len(files) > MOST_FILES:
            self._fail(f"it has more than {MOST_FILES:,} files")
        self._bytes = sum(info.file_size for info in files)
        if self._bytes > most_bytes:
            self._fail(f"it unpacks to more than {most_bytes >> 20:,} MiB")
        names = [info.filename for info in files]
        if len(set(names)) != len(names):
            self._fail("it has two files of one name")
        for info in files:
            self._check_entry(info)
        self._about = self._find_about(names)
        read_whole = {f"{self._about}/{name}" for name in _ABOUT_FILES}
        for info in files:
            if info.filename in read_whole and info.file_size > _MOST_ABOUT_BYTES:
                self._fail(f"{info.filename} is too large")
        self._entries = self._match(files, self._read_record())

    def write(self, target: Path) -> Unpacked:
        if self._bytes > (free := shutil.disk_usage(target).free):
            raise no_room(self._filename, self._bytes, target, free)
        modules: dict[str, None] = {}
        notes = []
        for entry in self._entries:
            self._write(entry, target / entry.target)
            top, below, _ = entry.target.partition("/")[2].partition("/")
            if not entry.target.startswith(SITE + "/"):
                continue
            if top.lower().endswith((".dist-info", ".egg-info")) and top != self._about:
                self._fail(f"{top} is about another distribution")
            if top == self._about or top.endswith(".libs"):
                continue
            if not below and top.endswith(".pth"):
                notes.append(f"{self._filename}: {top} is not run when an interpreter starts")
            elif module := _module_of(top, is_file=not below):
                modules[module] = None
        for module in modules:
            is_ours = module in _RESERVED or (module == "pip" and self._name != "pip")
            if module in sys.stdlib_module_names or is_ours:
                self._fail(f"its module {module} would stand in for one that every program has")
        self._write_entry_points(target)
        return Unpacked(self._name, self._version, tuple(modules), tuple(notes), self._requires(target))

    def _check_entry(self, info: zipfile.ZipInfo) -> None:
        name = info.filename
        parts = name.split("/")
        if not name.isprintable() or "\\" in name or ":" in parts[0] or any(part in ("", ".", "..") for part in parts):
            self._fail(f"{name!r} is not a path of a wheel's file")
        if any(len(part.encode()) > 255 for part in parts) or len(parts) > 64 or len(name.encode()) > MOST_PATH_BYTES:
            self._fail(f"the path {name[:80]!r}… is too long")
        kind = stat.S_IFMT(info.external_attr >> 16)
        if kind not in (0, stat.S_IFREG):
            self._fail(f"{name} is a link or a special file")
        if info.flag_bits & 1:
            self._fail(f"{name} is encrypted")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            self._fail(f"{name} is compressed by another method than deflate")

    def _find_about(self, names: list[str]) -> str:
        found = {name.partition("/")[0] for name in names if name.partition("/")[0].endswith(".dist-info")}
        if len(found) != 1:
            self._fail(f"it has {len(found)} .dist-info directories in place of one")
        (about,) = found
        name, _, version = about.removesuffix(".dist-info").rpartition("-")
        if canonicalize_name(name) != self._name or not version:
            self._fail(f"{about} is about another distribution")
        return about

    def _read_record(self) -> Mapping[str, tuple[str, int]]:
        try:
            info = self._archive.getinfo(f"{self._about}/RECORD")
        except KeyError:
            self._fail("it has no RECORD of its files")
        found: dict[str, tuple[str, int]] = {}
        with self._archive.open(info) as file:
            for row in record_rows(io.TextIOWrapper(file, "utf-8", newline="")):
                if not row:
                    continue
                if len(row) != 3 or row[0] in found:
                    self._fail(f"its RECORD is not a list of its files: {row[:1]}")
                found[row[0]] = (row[1], int(row[2]) if row[2].isdecimal() else -1)
        return found

    def _match(self, files: list[zipfile.ZipInfo], record: Mapping[str, tuple[str, int]]) -> list[_Entry]:
        names = {info.filename for info in files}
        if missing := [name for name in record if name not in names]:
            self._fail(f"its RECORD lists {missing[0]}, which it does not have")
        entries, targets = [], set()
        for info in files:
            unhashed = info.filename in {f"{self._about}/{name}" for name in _UNHASHED}
            algorithm, _, sha256 = record.get(info.filename, ("", -1))[0].partition("=")
            size = info.file_size
            if not unhashed:
                if info.filename not in record:
                    self._fail(f"its RECORD does not list {info.filename}")
                if algorithm != "sha256" or record[info.filename][1] not in (-1, size):
                    self._fail(f"its RECORD says something else about {info.filename}")
            target = self._target(info.filename)
            if target in targets:
                self._fail(f"two of its files go to {target}")
            targets.add(target)
            entries.append(_Entry(info, target, "" if unhashed else sha256, size))
        for target in targets:
            if any(parent in targets for parent in _parents(target)):
                self._fail(f"{target} lies below a file")
        return entries

    def _target(self, name: str) -> str:
        first, _, rest = name.partition("/")
        if not first.endswith(".data"):
            return f"{SITE}/{name}"
        scheme, _, path = rest.partition("/")
        if first != f"{self._about.removesuffix('.dist-info')}.data" or not path:
            self._fail(f"{name} belongs to another distribution")
        if scheme in ("purelib", "platlib"):
            return f"{SITE}/{path}"
        if scheme == "scripts" and "/" not in path:
            return f"{SCRIPTS}/{path}"
        if scheme in ("data", "headers") and path != "pyvenv.cfg":
            return f"{DATA}/{path}" if scheme == "data" else f"{DATA}/include/{self._name}/{path}"
        self._fail(f"{name} would go where no file of a wheel belongs")

    def _write(self, entry: _Entry, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        is_script = entry.target.startswith(SCRIPTS + "/")
        executable = is_script or entry.info.external_attr >> 16 & 0o111
        digest, left = hashlib.sha256(), entry.size
        with self._archive.open(entry.info) as source, path.open("xb") as file:
            for piece in _pieces(source):
                is_start, left = left == entry.size, left - len(piece)
                if left < 0:
                    break
                digest.update(piece)
                file.write(_with_interpreter(piece) if is_start and is_script else piece)
            os.fchmod(file.fileno(), 0o755 if executable else 0o644)
        if left:
            self._fail(f"{entry.info.filename} has another size than the archive says")
        found = base64.urlsafe_b64encode(digest.digest()).rstrip(b"=").decode()
        if entry.sha256 and found != entry.sha256.rstrip("="):
            self._fail(f"{entry.info.filename} has another hash than its RECORD says")

    def _requires(self, target: Path) -> tuple[str, ...]:
        try:
            metadata = (target / SITE / self._about / "METADATA").read_bytes()
        except FileNotFoundError:
            self._fail("it has no METADATA")
        said = BytesParser(policy=compat32).parsebytes(metadata, headersonly=True)
        name, version = str(said.get("Name", "")).strip(), str(said.get("Version", "")).strip()
        if canonicalize_name(name) != self._name or Version(version) != Version(self._version):
            self._fail(f"its METADATA is about {name} {version}")
        return required_names(said.get_all("Requires-Dist", ()))

    def _write_entry_points(self, target: Path) -> None:
        path = target / SITE / self._about / "entry_points.txt"
        if not path.is_file():
            return
        points = ConfigParser(delimiters=("=",), interpolation=None, strict=False)
        points.optionxform = str  # type: ignore[assignment, method-assign]  # names are case-sensitive
        try:
            points.read_string(path.read_text("utf-8"))
        except (ConfigError, UnicodeDecodeError) as error:
            self._fail(f"its entry_points.txt cannot be read: {error}")
        for section in ("console_scripts", "gui_scripts"):
            for name, value in points.items(section) if points.has_section(section) else ():
                match = re.fullmatch(r"\s*([\w.]+)\s*:\s*([\w.]+)\s*(\[.*\])?\s*", value)
                script = target / SCRIPTS / name
                if not re.fullmatch(r"\w[\w.+-]{0,99}", name, re.ASCII) or match is None or script.exists():
                    continue  # a name that is no command, or a script that the wheel has as a file
                script.parent.mkdir(exist_ok=True)
                module, function = match[1], match[2]
                script.write_text(_SCRIPT.format(module=module, function=function, first=function.partition(".")[0]))
                script.chmod(0o755)

    def _fail(self, why: str) -> NoReturn:
        raise BadWheel(f"{self._filename} is refused: {why}")


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    while piece := file.read(_PIECE):
        yield piece


def _with_interpreter(piece: bytes) -> bytes:
    """Return a script's beginning with the interpreter that programs have in place of the format's `#!python`."""
    line, newline, rest = piece.partition(b"\n")
    return b"#!/usr/bin/env python3" + newline + rest if line.rstrip() in (b"#!python", b"#!pythonw") else piece


def _parents(path: str) -> Iterator[str]:
    while path := path.rpartition("/")[0]:
        yield path


def _module_of(name: str, *, is_file: bool) -> str:
    """Return the module that an entry of a site directory makes importable, "" if none."""
    if is_file and not name.endswith((".py", ".pyc", ".so", ".pyd")):
        return ""
    module = name.partition(".")[0] if is_file else name
    return module if module.isidentifier() else ""
