"""Archives of npm: the host unpacks what is a package, and refuses everything else before any of it is kept."""

from __future__ import annotations

import gzip
import hashlib
import json
import sys
import tarfile
from pathlib import Path
from types import ModuleType

import pytest

from actbox.packages import npm_archives, wheels
from actbox.packages.npm_archives import BadTarball, required_npm_names, sha256_of_tarball, unpack_tarball
from actbox.packages.wheels import Unpacked

from .registry_server import make_tarball, tarball_of

ABOUT = {"name": "kit", "version": "1.0.0"}
PLAIN = {"package/package.json": json.dumps(ABOUT)}


def unpacked(content: bytes, folder: Path) -> Unpacked:
    tarball = folder / "kit.tgz"
    tarball.write_bytes(content)
    return unpack_tarball(tarball, "kit-1.0.0.tgz", "kit", "1.0.0", folder / "out")


def entry(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, target
    return made


def test_a_package_is_unpacked_with_what_it_requires_and_without_running_its_scripts(tmp_path: Path) -> None:
    about = {**ABOUT, "dependencies": {"a": "1", "b": "npm:@c/d@^2"}, "peerDependencies": {"e": "*"}}
    about["scripts"] = {"postinstall": "touch ran", "test": "true"}
    found = unpacked(make_tarball(about, {"lib/index.js": "1"}), tmp_path)
    assert (found.name, found.version, found.requires) == ("kit", "1.0.0", ("a", "@c/d", "e"))
    assert found.notes == ("kit 1.0.0: its postinstall script is not run",)
    files = sorted(str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert files == ["package/lib/index.js", "package/package.json"]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (tarball_of(PLAIN, entry("package/link", tarfile.SYMTYPE, "/etc/passwd")), "package/link is a link"),
        (tarball_of(PLAIN, entry("package/link", tarfile.LNKTYPE, "package/package.json")), "package/link is a link"),
        (tarball_of(PLAIN, entry("package/tube", tarfile.FIFOTYPE)), "package/tube is a link or a special file"),
        (tarball_of({**PLAIN, "package/../../up": ""}), "'package/../../up' is not a path"),
        (tarball_of({**PLAIN, "/etc/x": ""}), "'/etc/x' is not a path"),
        (tarball_of({**PLAIN, "package/a\\b": ""}), "is not a path"),
        (tarball_of({**PLAIN, "loose": ""}), "'loose' is not a path"),
        (tarball_of({**PLAIN, "package/" + "x/" * 600 + "y": ""}), "is too long"),
        (tarball_of({**PLAIN, "other/package.json": "{}"}), "two files package.json"),
        (tarball_of({**PLAIN, "package/a": "", "package/a/b": ""}), "a/b lies below a file"),
        (tarball_of({**PLAIN, "package/a/b": "", "package/a": ""}), "a lies below a file"),
        (tarball_of({**PLAIN, "package/node_modules/evil/index.js": ""}), "it brings copies of other packages"),
        (tarball_of({"package/index.js": ""}), "it has no package.json"),
        (tarball_of({"package/package.json": "[]"}), "its package.json cannot be read"),
        (make_tarball({"name": "evil", "version": "1.0.0"}), "its package.json is that of evil 1.0.0"),
        (make_tarball({"name": "kit", "version": "1.0.1"}), "its package.json is that of kit 1.0.1"),
        (make_tarball(ABOUT, {"a.js": "x" * 5000})[:-200], "cannot be read as a compressed tar file"),
        (gzip.compress(b"no tar file at all", mtime=0), "cannot be read as a compressed tar file"),
        (b"no archive at all", "cannot be read as a compressed tar file"),
    ],
)
def test_what_is_no_plain_package_is_refused_and_nothing_of_it_stays(content: bytes, why: str, tmp_path: Path) -> None:
    with pytest.raises(BadTarball, match=r"kit-1\.0\.0\.tgz") as refused:
        unpacked(content, tmp_path)
    assert why in str(refused.value)
    assert not (tmp_path / "out").exists() and not (tmp_path.parent / "up").exists()


@pytest.mark.parametrize(
    ("module", "name", "most", "why"),
    [
        (wheels, "MOST_BYTES", 2**16, "it unpacks to more than"),
        (wheels, "PLAIN_BYTES", 2**16, "it unpacks to more than"),
        (npm_archives, "MOST_FILES", 2, "more than 2 files"),
    ],
)
def test_an_archive_that_would_fill_the_disk_is_refused(
    module: ModuleType, name: str, most: int, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, name, most)
    with pytest.raises(BadTarball, match=why):
        unpacked(make_tarball(ABOUT, {"a.js": "x" * 100_000, "b.js": "", "c.js": ""}), tmp_path)


def test_a_header_that_would_fill_the_memory_is_refused(tmp_path: Path) -> None:
    header = tarfile.TarInfo("package/long")
    header.type, header.size = tarfile.XHDTYPE, 2**33
    with pytest.raises(BadTarball, match="a header of it is too long"):
        unpacked(gzip.compress(header.tobuf(tarfile.GNU_FORMAT)), tmp_path)


def test_headers_that_would_fill_the_stack_are_refused(tmp_path: Path) -> None:
    header = tarfile.TarInfo("package/long")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 1
    block = header.tobuf(tarfile.GNU_FORMAT) + bytes(tarfile.BLOCKSIZE)
    with pytest.raises(BadTarball, match="maximum recursion depth"):
        unpacked(gzip.compress(block * sys.getrecursionlimit(), mtime=0), tmp_path)


def test_a_file_with_another_hash_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "kit.tgz"
    file.write_bytes(b"content")
    sha512 = hashlib.sha512(b"content").hexdigest()
    assert sha256_of_tarball(file, "kit.tgz", sha512) == hashlib.sha256(b"content").hexdigest()
    with pytest.raises(BadTarball, match=r"kit\.tgz has the hash sha512:.*do not use it"):
        sha256_of_tarball(file, "kit.tgz", "0" * 128)


def test_aliases_are_required_by_their_target() -> None:
    wanted = {"a": "npm:b@1", "@c/d": "npm:@e/f@^2.0.0", "g": "npm:h", "i": "npm:@j/k", "l": "^1"}
    assert required_npm_names({"dependencies": wanted}) == ("b", "@e/f", "h", "@j/k", "l")
    assert required_npm_names({"dependencies": ["a"], "optionalDependencies": None}) == ()
