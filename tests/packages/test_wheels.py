"""Unpacking a wheel: what lands where, and that a wheel which is not what it says leaves nothing behind."""

from __future__ import annotations

import os
import stat
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from actbox.packages import wheels
from actbox.packages.wheels import BadWheel, Unpacked, unpack

from .wheel_factory import make_wheel, record_line, sha256_of

ABOUT = "kit_wheel-1.0.dist-info"


def unpacked(wheel: Path, target: Path) -> Unpacked:
    return unpack(wheel, wheel.name, sha256_of(wheel), target)


def test_files_go_to_their_places_with_plain_modes(tmp_path: Path) -> None:
    files = {
        "kit_wheel/__init__.py": b"",
        "kit_wheel/tool": b"#!/bin/sh\n",
        "kit_single.py": b"",
        "kit_native.cpython-313-x86_64-linux-gnu.so": b"\x7fELF",
        "kit_wheel.libs/libx.so": b"\x7fELF",
        "kit.pth": b"import os; os._exit(1)\n",
        "kit_wheel-1.0.data/scripts/kit-script": b"#!python\nprint('hi')\n",
        "kit_wheel-1.0.data/purelib/kit_pure.py": b"",
        "kit_wheel-1.0.data/data/share/kit/x.txt": b"x",
        f"{ABOUT}/entry_points.txt": (
            b"[console_scripts]\n"
            + b"x" * 300
            + b" = kit_wheel:x\nkit = kit_wheel.main:Cli.run\n../evil = kit_wheel:x\n.. = kit_wheel:x\n"
        ),
    }
    modes = {"kit_wheel/tool": 0o104755, "kit_wheel/__init__.py": 0o100600}
    target = tmp_path / "unpacked"
    found = unpacked(make_wheel(tmp_path / "wheels", files=files, modes=modes), target)
    assert found.name == "kit-wheel" and found.version == "1.0"
    assert set(found.modules) == {"kit_wheel", "kit_single", "kit_native", "kit_pure"}
    assert found.notes == ("kit_wheel-1.0-py3-none-any.whl: kit.pth is not run when an interpreter starts",)
    present = {str(path.relative_to(target)): path for path in target.rglob("*") if path.is_file()}
    assert {name for name in present if not name.startswith(f"site/{ABOUT}")} == {
        "site/kit_wheel/__init__.py",
        "site/kit_wheel/tool",
        "site/kit_single.py",
        "site/kit_native.cpython-313-x86_64-linux-gnu.so",
        "site/kit_wheel.libs/libx.so",
        "site/kit.pth",
        "site/kit_pure.py",
        "bin/kit-script",
        "bin/kit",
        "data/share/kit/x.txt",
    }
    assert stat.S_IMODE(present["site/kit_wheel/tool"].stat().st_mode) == 0o755
    assert stat.S_IMODE(present["site/kit_wheel/__init__.py"].stat().st_mode) == 0o644
    assert present["bin/kit-script"].read_text().startswith("#!/usr/bin/env python3\n")
    assert "from kit_wheel.main import Cli" in present["bin/kit"].read_text()


LINK = {"kit_wheel/__init__.py": stat.S_IFLNK | 0o777}
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "a path that goes up": ({"files": {"../evil.py": b""}}, r"'\.\./evil\.py' is not a path"),
    "an absolute path": ({"files": {"/etc/evil": b""}}, "'/etc/evil' is not a path"),
    "a long path": ({"files": {"x/" * 600 + "y": b""}}, "is too long"),
    "a backslash": ({"files": {"kit\\evil.py": b""}}, "is not a path"),
    "a control character": ({"files": {"kit\x07.py": b""}}, "is not a path"),
    "a link": ({"modes": LINK}, "is a link or a special file"),
    "a file that RECORD lacks": (
        {"unrecorded": {"kit_wheel/more.py": b""}},
        "does not list kit_wheel/more.py",
    ),
    "another content": (
        {"record": {"kit_wheel/__init__.py": record_line("kit_wheel/__init__.py", b"here = Fals\n")}},
        "another hash than its RECORD says",
    ),
    "another size": (
        {"record": {"kit_wheel/__init__.py": "kit_wheel/__init__.py,sha256=x,3\n"}},
        "something else about",
    ),
    "no hash": ({"record": {"kit_wheel/__init__.py": "kit_wheel/__init__.py,,\n"}}, "something else about"),
    "a weak hash": ({"record": {"kit_wheel/__init__.py": "kit_wheel/__init__.py,md5=x,12\n"}}, "something else"),
    "a RECORD with an endless field": ({"record": {"x": "x" * 200_000 + ",sha256=x,1\n"}}, "field larger than"),
    "a file that is not there": ({"record": {"gone": "gone,sha256=x,3\n"}}, "lists gone, which it does not have"),
    "a virtual environment's settings": (
        {"files": {"kit_wheel-1.0.data/data/pyvenv.cfg": b"home = /"}},
        "where no file of a wheel belongs",
    ),
    "a script in a directory": ({"files": {"kit_wheel-1.0.data/scripts/a/b": b""}}, "where no file of a wheel belongs"),
    "another's data": ({"files": {"numpy-1.0.data/purelib/numpy.py": b""}}, "belongs to another distribution"),
    "another's metadata beside": ({"files": {"numpy-1.0.dist-info/METADATA": b""}}, "it has 2 .dist-info directories"),
    "one place twice": (
        {"files": {"kit.py": b"1", "kit_wheel-1.0.data/purelib/kit.py": b"2"}},
        "two of its files go to site/kit.py",
    ),
    "a file as a directory": (
        {"files": {"kit.py": b"1", "kit_wheel-1.0.data/purelib/kit.py/x": b"2"}},
        "lies below a file",
    ),
    "another's metadata by its data": (
        {"files": {"kit_wheel-1.0.data/purelib/numpy-9.dist-info/METADATA": b""}},
        "numpy-9.dist-info is about another distribution",
    ),
    "another's old metadata": ({"files": {"numpy-9.egg-info": b""}}, "numpy-9.egg-info is about another distribution"),
    "another's name in its metadata": (
        {"files": {f"{ABOUT}/METADATA": b"Name: numpy\nVersion: 1.0\n"}},
        "its METADATA is about numpy 1.0",
    ),
    "another version in its metadata": (
        {"files": {f"{ABOUT}/METADATA": b"Name: kit.wheel\nVersion: 9\n"}},
        "its METADATA is about kit.wheel 9",
    ),
    "our pip": ({"files": {"pip/__init__.py": b""}}, "its module pip would stand in"),
    "a standard module": ({"files": {"json/__init__.py": b""}}, "its module json would stand in"),
    "a start hook": ({"files": {"sitecustomize.py": b""}}, "its module sitecustomize would stand in"),
    "our guest": ({"files": {"_actbox/__init__.py": b""}}, "its module _actbox would stand in"),
}


@pytest.mark.parametrize(("wrong", "why"), BAD.values(), ids=BAD)
def test_a_wheel_that_is_wrong_is_refused_and_leaves_nothing(wrong: dict[str, Any], why: str, tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "wheels", **wrong)
    with pytest.raises(BadWheel, match=why) as refusal:
        unpacked(wheel, tmp_path / "unpacked")
    assert str(refusal.value).startswith(wheel.name)
    assert sorted(os.listdir(tmp_path)) == ["wheels"]


def test_a_wheel_with_another_hash_than_its_lock_is_refused(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "wheels")
    with pytest.raises(BadWheel, match="the lock says sha256:0000"):
        unpack(wheel, wheel.name, "0000", tmp_path / "unpacked")
    assert sorted(os.listdir(tmp_path)) == ["wheels"]


def test_a_wheel_of_another_distribution_than_its_name_says_is_refused(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "wheels")
    with pytest.raises(BadWheel, match="is about another distribution"):
        unpack(wheel, "numpy-1.0-py3-none-any.whl", sha256_of(wheel), tmp_path / "unpacked")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 torn", b"\0" * 1000])
def test_what_is_no_archive_is_refused(content: bytes, tmp_path: Path) -> None:
    wheel = tmp_path / "kit_wheel-1.0-py3-none-any.whl"
    wheel.write_bytes(content)
    with pytest.raises(BadWheel, match="cannot be read as a wheel"):
        unpacked(wheel, tmp_path / "unpacked")
    assert not (tmp_path / "unpacked").exists()


def test_a_file_that_cannot_be_unpacked_is_refused(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "wheels")
    data = bytearray(wheel.read_bytes())
    start = data.index(b"__init__.py") + len("__init__.py")
    data[start : start + 9] = b"\xff" * 9
    wheel.write_bytes(data)
    with pytest.raises(BadWheel, match=r"cannot be read as a wheel: .*while decompressing"):
        unpacked(wheel, tmp_path / "unpacked")
    assert not (tmp_path / "unpacked").exists()


def test_another_compression_than_deflate_is_refused(tmp_path: Path) -> None:
    wheel = tmp_path / "kit_wheel-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("kit_wheel.py", b"")
    with pytest.raises(BadWheel, match=r"kit_wheel\.py is compressed by another method"):
        unpacked(wheel, tmp_path / "unpacked")


def test_metadata_that_would_fill_the_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheels, "_MOST_ABOUT_BYTES", 2**10)
    wheel = make_wheel(tmp_path / "wheels", metadata="X: " + "x" * 2**10 + "\n")
    with pytest.raises(BadWheel, match="METADATA is too large"):
        unpacked(wheel, tmp_path / "unpacked")


@pytest.mark.parametrize("limit", ["MOST_BYTES", "PLAIN_BYTES"])
def test_a_bomb_is_refused_before_anything_is_written(
    limit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wheels, limit, 2**20)
    wheel = make_wheel(tmp_path / "wheels", files={"kit_wheel/__init__.py": b"", "kit_wheel/bomb": bytes(2**21)})
    with pytest.raises(BadWheel, match="it unpacks to more than"):
        unpacked(wheel, tmp_path / "unpacked")


def test_a_wheel_for_which_the_disk_has_no_room_is_not_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = make_wheel(tmp_path / "wheels", files={"kit_wheel/large": bytes(2**20)})
    monkeypatch.setattr(wheels.shutil, "disk_usage", lambda path: SimpleNamespace(free=2**19))
    with pytest.raises(OSError, match=r"kit_wheel.* needs 1\.0 MiB in .*, and its disk has 0\.5 MiB free"):
        unpacked(wheel, tmp_path / "unpacked")
    assert not (tmp_path / "unpacked").exists()


def test_a_disk_that_is_full_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = make_wheel(tmp_path / "wheels")
    full = OSError(28, "No space left on device")

    def fail(descriptor: int, mode: int) -> None:
        raise full

    monkeypatch.setattr(wheels.os, "fchmod", fail)
    with pytest.raises(OSError) as raised:
        unpacked(wheel, tmp_path / "unpacked")
    assert raised.value is full
    assert not (tmp_path / "unpacked").exists()


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_only_a_regular_file_is_unpacked(kind: str, tmp_path: Path) -> None:
    wheel, given = make_wheel(tmp_path), tmp_path / "given"
    given.symlink_to(wheel) if kind == "link" else os.mkfifo(given)
    with pytest.raises(OSError):
        unpack(given, wheel.name, sha256_of(wheel), tmp_path / "unpacked")
    assert not (tmp_path / "unpacked").exists()
