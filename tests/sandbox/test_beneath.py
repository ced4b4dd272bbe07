"""Opening beneath a folder: at once by openat2(2), or step by step, with the same results and the same errors."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from actbox.sandbox.guest import beneath
from actbox.sandbox.guest.beneath import FOLDER, READ, open_beneath, open_file, read_file
from tests.descriptors import open_below

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
_NOBODY = 65534


@pytest.fixture(params=["at once", "step by step"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Have paths of several names opened in one of the two ways, and in no other where they can be."""
    monkeypatch.setattr(beneath, "_syscall", None if request.param == "at once" else False)
    if request.param == "at once":
        root = os.open("/", os.O_RDONLY)
        descriptor = beneath._open_at_once(root, "proc/sys", FOLDER | os.O_CLOEXEC, 0)
        os.close(root)
        if descriptor < 0:
            pytest.skip("this kernel has no openat2")
        os.close(descriptor)
    return str(request.param)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder with a file, neither of which may be reached."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_bytes(b"outside")
    return outside


@pytest.fixture
def top(tmp_path: Path, outside: Path) -> Iterator[int]:
    folder = tmp_path / "top"
    (folder / "a/b").mkdir(parents=True)
    (folder / "a/b/file").write_bytes(b"inside")
    (folder / "out").symlink_to(outside)
    (folder / "a/out").symlink_to(outside)
    (folder / "a/out-file").symlink_to(outside / "file")
    (folder / "a/in").symlink_to("b")
    (folder / "a/loop").symlink_to("loop")
    (folder / "a/absolute").symlink_to("/")
    os.mkfifo(folder / "a/pipe")
    descriptor = os.open(folder, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


@contextlib.contextmanager
def an_ordinary_user(*theirs: Path) -> Iterator[None]:
    """Have no rights of root for a block, and own these."""
    user = os.geteuid()
    if user == 0:
        for path in theirs:
            os.chown(path, _NOBODY, _NOBODY)
        os.seteuid(_NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)


@pytest.mark.parametrize("path", ["", ".", "a", "a/b"])
def test_folders_are_opened(way: str, top: int, path: str) -> None:
    descriptor = open_beneath(top, path)
    assert os.path.samestat(os.fstat(descriptor), os.stat(path or ".", dir_fd=top))
    assert not os.get_inheritable(descriptor)
    os.close(descriptor)


def test_a_path_of_several_names_is_one_call_where_the_kernel_can(
    way: str, top: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    real = os.open
    monkeypatch.setattr(beneath.os, "open", lambda name, *rest, **more: steps.append(name) or real(name, *rest, **more))
    assert read_file(top, "a/b/file") == b"inside"
    assert steps == ([] if way == "at once" else ["a", "b", "file"])


@pytest.mark.parametrize(
    ("path", "flags", "error"),
    [
        *((path, FOLDER, errno.EINVAL) for path in ("..", "a/..", "a/../a", "../top", "a/b/../..")),
        *((path, FOLDER, errno.EINVAL) for path in ("/", "/etc", "//etc", "a//b", "a/", "./a", "a/./b", "a/.")),
        *((path, READ, errno.EINVAL) for path in ("\0", "a\0b", "a/b\0/file")),
        ("missing", FOLDER, errno.ENOENT),
        ("missing/b", FOLDER, errno.ENOENT),
        ("a/b/missing", READ, errno.ENOENT),
        ("a/b/file/x", READ, errno.ENOTDIR),
        ("a/b/file", FOLDER, errno.ENOTDIR),
        ("out/file", READ, errno.ENOTDIR),
        ("a/out/file", READ, errno.ENOTDIR),
        ("a/in/file", READ, errno.ENOTDIR),
        ("a/loop/file", READ, errno.ENOTDIR),
        ("a/absolute/etc/passwd", READ, errno.ENOTDIR),
        ("a/out", FOLDER, errno.ENOTDIR),
        ("a/in", FOLDER, errno.ENOTDIR),
        ("a/out-file", READ, errno.ELOOP),
        ("a/loop", READ, errno.ELOOP),
        ("a/out-file", os.O_WRONLY | os.O_CREAT, errno.ELOOP),
        ("a/out-file", beneath.DRAFT, errno.EEXIST),
        ("a/b", os.O_WRONLY, errno.EISDIR),
        ("a/pipe", os.O_WRONLY | os.O_NONBLOCK, errno.ENXIO),
        ("a/pipe/x", READ, errno.ENOTDIR),
        ("x" * 256, READ, errno.ENAMETOOLONG),
        ("a/" + "x" * 256, READ, errno.ENAMETOOLONG),
        ("a/" + "x" * 256 + "/y", READ, errno.ENAMETOOLONG),
    ],
)
def test_what_cannot_be_opened_fails_alike_both_ways(
    way: str, top: int, path: str, flags: int, error: int, tmp_path: Path
) -> None:
    before = open_below(tmp_path)
    assert before, "that of the top"
    with pytest.raises(OSError) as raised:
        open_beneath(top, path, flags)
    assert errno.errorcode[raised.value.errno or 0] == errno.errorcode[error]
    assert open_below(tmp_path) == before


@pytest.mark.parametrize("path", ["cwd/x", "root/etc/passwd", "exe/x", "fd/0/x"])
def test_no_magic_link_of_proc_is_followed(way: str, path: str) -> None:
    folder = os.open("/proc/self", os.O_RDONLY)
    with pytest.raises(OSError) as raised:
        open_beneath(folder, path, READ)
    os.close(folder)
    assert raised.value.errno == errno.ENOTDIR


def test_a_path_longer_than_the_kernel_takes_is_opened(way: str, tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    here, names = os.dup(folder), []
    for number in range(20):
        names.append(f"{number:0255}")
        os.mkdir(names[-1], dir_fd=here)
        inner = os.open(names[-1], os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    path = "/".join(names)
    assert len(path) > os.pathconf("/", "PC_PATH_MAX")
    found = open_beneath(folder, path)
    assert os.path.samestat(os.fstat(found), os.fstat(here))
    for descriptor in (folder, here, found):
        os.close(descriptor)


def test_a_name_that_is_no_text_is_opened(way: str, top: int) -> None:
    name = os.fsdecode(b"\xff\xfe")
    os.mkdir(name, dir_fd=top)
    os.close(open_beneath(top, name))
    os.mkdir(f"{name}/x", dir_fd=top)
    os.close(open_beneath(top, f"{name}/x"))


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_RDWR])
def test_what_is_no_regular_file_is_refused_and_blocks_nobody(way: str, top: int, flags: int) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"/proc/self/fd/{top}/a/socket")
        expected = {"a/pipe": {errno.EINVAL}, "a/b": {errno.EISDIR}, "a/socket": {errno.ENXIO}}
        for path, errors in expected.items():
            with pytest.raises(OSError) as raised:
                os.close(open_file(top, path, flags))
            assert raised.value.errno in errors, path
    root = os.open("/", os.O_RDONLY)
    for path in ("dev/zero", "dev/tty"):
        with pytest.raises(OSError) as raised:
            os.close(open_file(root, path, flags))
        assert raised.value.errno in (errno.EINVAL, errno.ENXIO, errno.ENOENT, errno.EPERM), path
    os.close(root)


def test_what_is_mounted_underneath_is_reached(way: str) -> None:
    root = os.open("/", os.O_RDONLY)
    inside = open_beneath(root, "proc/sys/kernel")
    assert os.fstat(inside).st_dev != os.fstat(root).st_dev
    assert read_file(root, "proc/sys/kernel/ostype") == b"Linux\n"
    os.close(inside)
    os.close(root)


def test_a_file_is_made_with_the_mode_that_is_asked(way: str, top: int) -> None:
    mask = os.umask(0)
    try:
        os.close(open_beneath(top, "a/b/new", beneath.DRAFT, 0o640))
    finally:
        os.umask(mask)
    assert os.stat("a/b/new", dir_fd=top).st_mode & 0o7777 == 0o640


def test_passing_through_a_folder_takes_the_right_to_pass_and_no_other(way: str, tmp_path: Path) -> None:
    for name, mode in (("passable", 0o311), ("closed", 0o644)):
        (tmp_path / name / "inner").mkdir(parents=True)
        (tmp_path / name).chmod(mode)
    folder = os.open(tmp_path, os.O_RDONLY)
    with an_ordinary_user(tmp_path, tmp_path / "passable", tmp_path / "closed"):
        os.close(open_beneath(folder, "passable/inner"))
        for path in ("closed/inner", "passable"):
            with pytest.raises(OSError) as raised:
                os.close(open_beneath(folder, path))
            assert raised.value.errno == errno.EACCES
    os.close(folder)
    for name in ("passable", "closed"):  # for pytest, which removes them
        (tmp_path / name).chmod(0o755)


def test_a_name_swapped_for_a_link_again_and_again_never_leads_out(
    way: str, top: int, tmp_path: Path, outside: Path
) -> None:
    over = threading.Event()
    exchange = ctypes.CDLL(None).renameat2
    one, other = bytes(tmp_path / "top/a/b"), bytes(tmp_path / "top/a/out")

    def swap() -> None:
        while not over.is_set():
            exchange(_AT_FDCWD, one, _AT_FDCWD, other, _RENAME_EXCHANGE)

    swapper = threading.Thread(target=swap)
    swapper.start()
    seen: dict[object, int] = {}
    try:
        while len(seen) < 2 or sum(seen.values()) < 4000:
            try:
                found: object = read_file(top, "a/b/file")
            except OSError as error:
                found = error.errno
            seen[found] = seen.get(found, 0) + 1
    finally:
        over.set()
        swapper.join()
    assert seen.keys() == {b"inside", errno.ENOTDIR}


def test_a_name_swapped_for_a_link_in_mid_walk_is_not_followed(
    top: int, tmp_path: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beneath, "_syscall", False)
    real = os.open

    def swapping(name: str, *rest: int, **more: int) -> int:
        descriptor = real(name, *rest, **more)
        if name == "a":
            (tmp_path / "top/a/b").rename(tmp_path / "top/a/before")
            (tmp_path / "top/a/b").symlink_to(outside)
        return descriptor

    monkeypatch.setattr(beneath.os, "open", swapping)
    with pytest.raises(NotADirectoryError):
        read_file(top, "a/b/file")


def test_a_folder_moved_out_in_mid_walk_leads_to_what_is_in_it_and_no_further(
    top: int, tmp_path: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was inside when it was passed through: what comes after is its own, and nothing that lies beside it."""
    monkeypatch.setattr(beneath, "_syscall", False)
    real = os.open

    def moving(name: str, *rest: int, **more: int) -> int:
        descriptor = real(name, *rest, **more)
        if name == "b":
            (tmp_path / "top/a/b").rename(outside / "b")
        return descriptor

    monkeypatch.setattr(beneath.os, "open", moving)
    assert read_file(top, "a/b/file") == b"inside"


def test_a_folder_that_its_owner_locked_is_gone_into_left_locked_and_removed(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/file").touch()
    (tmp_path / "a/b").chmod(0o400)
    (tmp_path / "a").chmod(0)
    folder = os.open(tmp_path, os.O_RDONLY)
    with an_ordinary_user(tmp_path, tmp_path / "a", tmp_path / "a/b"):
        for _ in range(2):
            found = {path: stat.S_IMODE(status.st_mode) for path, _, status in beneath.walk(folder, "", 9, print)}
            assert set(found) == {"a", "a/b", "a/b/file"}
            assert (found["a"], found["a/b"]) == (0, 0o400)
        beneath.empty(folder)
        assert os.listdir(folder) == []
    os.close(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to somebody else")
def test_a_folder_that_another_locked_is_not_unlocked(top: int, tmp_path: Path) -> None:
    os.chown(tmp_path / "top/a/b", _NOBODY, _NOBODY)
    (tmp_path / "top/a/b").chmod(0)
    before = (tmp_path / "top/a/b").stat().st_ctime_ns
    assert "a/b/file" in [path for path, _, _ in beneath.walk(top, "", 9, print)]
    assert (tmp_path / "top/a/b").stat().st_ctime_ns == before


def test_why_a_folder_cannot_be_gone_into_is_told_and_the_rest_is_walked(
    top: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = beneath.open_beneath

    def refusing(folder: int, path: str, *rest: int) -> int:
        if path == "b":
            raise beneath.failure(errno.EMFILE)
        return real(folder, path, *rest)

    monkeypatch.setattr(beneath, "open_beneath", refusing)
    failed: list[tuple[str, int | None]] = []
    found = [
        path for path, _, _ in beneath.walk(top, "", 9, print, lambda *told: failed.append((told[0], told[1].errno)))
    ]
    assert failed == [("a/b", errno.EMFILE)]
    assert {"a/pipe", "out"} <= set(found) and "a/b/file" not in found
    with pytest.raises(OSError):
        list(beneath.walk(top, "", 9, print))


_UNDER_A_FILTER = """
import ctypes, json, os, sys
from actbox.sandbox.guest import beneath
from actbox.sandbox.nursery import bpf, linux, seccomp
os.makedirs("a/b")
open("a/b/file", "w").write("inside")
os.symlink("/", "a/out")
folder = os.open(".", os.O_RDONLY)
linux.set_no_new_privs()
refused = bpf.if_equal(beneath._OPENAT2, bpf.refuse(int(sys.argv[1])))
seccomp.install(bpf.encode([*bpf.load_number(), *refused, *bpf.returns(bpf.ALLOW)]))
found = [beneath.read_file(folder, "a/b/file").decode()]
try:
    beneath.read_file(folder, "a/out/etc/passwd")
except OSError as error:
    found.append(error.errno)
print(json.dumps([*found, beneath._syscall is False]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("refusal", "remembered"), [(errno.EPERM, False), (errno.ENOSYS, True)])
def test_where_a_filter_refuses_the_call_it_goes_step_by_step(tmp_path: Path, refusal: int, remembered: bool) -> None:
    command = [sys.executable, "-c", _UNDER_A_FILTER, str(refusal)]
    done = subprocess.run(command, cwd=tmp_path, stdout=subprocess.PIPE, check=True)
    assert json.loads(done.stdout) == ["inside", errno.ENOTDIR, remembered]


def test_nothing_is_imported_to_open_a_path(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/file").write_text("inside")
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import beneath, os\n"
        "before = set(sys.modules)\n"
        "assert beneath.read_file(os.open('.', os.O_RDONLY), 'a/b/file') == b'inside'\n"
        "print(sorted(set(sys.modules) - before), 'ctypes' in sys.modules)"
    )
    command = [sys.executable, "-I", "-S", "-c", program, os.path.dirname(beneath.__file__)]
    done = subprocess.run(command, cwd=tmp_path, stdout=subprocess.PIPE, check=True, text=True)
    assert done.stdout == "[] False\n"
