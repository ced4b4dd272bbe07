"""Mounts of the host's folders: what a program cannot reach through them, and what it changed in an overlay."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import random
import shlex
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import actbox
from actbox import FileChange, FileMount, Limits, Policy, Sandbox
from actbox.core.mounts import MountMode
from actbox.sandbox.languages import FULL_CPYTHON
from tests.clock import Clock
from tests.conftest import OpenBox, engine_check, literal
from tests.waiting import until

SECRET = "the host's own"
MODES: tuple[MountMode, ...] = ("ro", "rw", "overlay")


@pytest.fixture(autouse=True)
def mounting(engine: str) -> None:
    traits = engine_check(engine).traits
    assert traits is not None
    if "overlay" not in traits.mounts:
        pytest.skip(f"{engine} has no mounts")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of the host with a few files in it, beside one that is not mounted."""
    (tmp_path / "outside.txt").write_text(SECRET)
    data = tmp_path / "data"
    (data / "sub" / "deep").mkdir(parents=True)
    (data / "a.txt").write_text("one\ntwo\n")
    (data / "sub" / "b.txt").write_text("b\n")
    (data / "sub" / "deep" / "c.txt").write_text("c\n")
    return data


def with_mount(folder: Path, mode: MountMode = "ro", path: str = "/data", *, keep: bool = False) -> Policy:
    return Policy(mounts=(FileMount(folder, path, mode, keep_changes=keep),))


def told(changes: tuple[FileChange, ...]) -> list[tuple[str, str, bytes | None]]:
    return [(change.kind, change.path, change.data) for change in changes]


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# What a program holds up


@pytest.fixture
def locks(engine: str) -> None:
    if engine not in FULL_CPYTHON:
        pytest.skip(f"the interpreter of {engine} has no fcntl")


@pytest.mark.usefixtures("locks")
@pytest.mark.parametrize("mode", MODES)
async def test_a_program_cannot_hold_up_whoever_opens_a_file_to_write(
    open_box: OpenBox, folder: Path, mode: MountMode
) -> None:
    @actbox.tool
    def append() -> None:
        """Open the file to write, as a process of the host may at any time; where it is leased, that would block."""
        os.close(os.open(folder / "a.txt", os.O_WRONLY | os.O_NONBLOCK))

    box = await open_box(with_mount(folder, mode))
    result = await box.run(
        "import fcntl\nfile = open('/data/a.txt')\ntold = []\nfor kind in (fcntl.F_RDLCK, fcntl.F_WRLCK):\n"
        "    try: fcntl.fcntl(file, fcntl.F_SETLEASE, kind)\n    except OSError: told.append(kind)\n"
        "append()\nlen(told)",
        tools=[append],
    )
    assert (result.value, result.error) == (2, None)


@pytest.mark.usefixtures("locks")
@pytest.mark.parametrize(("mode", "waits"), [("ro", True), ("rw", True), ("overlay", False)])
async def test_a_lock_of_a_program_is_the_hosts_too_but_in_an_overlay(
    open_box: OpenBox, folder: Path, mode: MountMode, waits: bool
) -> None:
    @actbox.tool
    def must_wait() -> bool:
        """Return whether a process of the host that locks the file would have to wait."""
        with open(folder / "a.txt") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            return False

    box = await open_box(with_mount(folder, mode))
    code = "import fcntl\nfile = open('/data/a.txt')\nfcntl.flock(file, fcntl.LOCK_EX)\nmust_wait()"
    result = await box.run(code, tools=[must_wait])
    assert (result.value, result.error) == (waits, None)


# What a mounted tree leads to


@pytest.mark.parametrize("mode", MODES)
async def test_a_link_in_a_mounted_tree_does_not_lead_out(open_box: OpenBox, folder: Path, mode: MountMode) -> None:
    outside = folder.parent / "outside.txt"
    targets = {
        "absolute": str(outside),
        "relative": "../outside.txt",
        "far": "../" * 40 + str(outside).lstrip("/"),
        "process": f"/proc/self/root{outside}",
        "first": f"/proc/1/root{outside}",
        "working": "/proc/self/cwd/../outside.txt",
    }
    for name, target in targets.items():
        (folder / name).symlink_to(target)
    (folder / "parent").symlink_to("..")
    (folder / "root").symlink_to("/proc/self/root")
    box = await open_box(with_mount(folder, mode))
    names = [*targets, "parent/outside.txt", f"root{outside}"]
    for name in names:
        read = await box.run(f"open('/data/{name}').read()")
        assert not read.success and SECRET not in str(read.to_dict()), name
        await box.run(f"open('/data/{name}', 'w').write('changed')")
    assert outside.read_text() == SECRET


async def test_a_link_that_is_put_there_while_a_program_runs_does_not_lead_out(open_box: OpenBox, folder: Path) -> None:
    @actbox.tool
    def swap() -> None:
        """Put links in the place of a file and of a folder."""
        (folder / "a.txt").unlink()
        (folder / "a.txt").symlink_to(folder.parent / "outside.txt")
        shutil.rmtree(folder / "sub")
        (folder / "sub").symlink_to(folder.parent)

    box = await open_box(with_mount(folder, "rw"))
    code = (
        "import os\nfd = os.open('/data/sub', os.O_RDONLY)\nseen = [open('/data/a.txt').read()]\nswap()\n"
        "for name in ('/data/a.txt', '/data/sub/outside.txt', '/data/sub/data/a.txt'):\n"
        "    try:\n        seen.append(open(name).read())\n    except OSError:\n        seen.append(None)\n"
        "try:\n    seen.append(os.open('../outside.txt', os.O_RDONLY, dir_fd=os.dup(fd)))\n"
        "except OSError:\n    seen.append(None)\nseen"
    )
    result = await box.run(code, tools=[swap])
    assert result.value == ["one\ntwo\n", None, None, None, None], result.error


async def test_no_hard_link_leads_in_or_out(open_box: OpenBox, folder: Path) -> None:
    """One that the host has made is a file of the tree like any other; a program cannot make one across the edge."""
    os.link(folder.parent / "outside.txt", folder / "linked.txt")
    box = await open_box(with_mount(folder, "rw"))
    assert (await box.run("open('/data/linked.txt').read()")).value == SECRET
    for source, target in (("/etc/passwd", "/data/in"), ("/data/linked.txt", "/workspace/out")):
        result = await box.run(f"import os\nos.link({source!r}, {target!r})")
        assert result.error.type == "OSError", result.error


@pytest.mark.parametrize("mode", MODES)
async def test_a_socket_of_the_host_in_a_mounted_tree_is_out_of_reach(
    open_box: OpenBox, folder: Path, mode: MountMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)  # a path to bind may be so short that the temporary folder's is too long
    connect = "import os, socket\nos.chdir('/data/sub')\nsocket.socket(socket.AF_UNIX).connect('s')"
    place = str(folder / "sub" / "s")
    if len(place) > 100:
        pytest.skip("the temporary folder's path is too long for a socket")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(place)
        listening.listen()
        listening.settimeout(0)
        box = await open_box(with_mount(folder, mode))
        result = await box.run(connect)
        with pytest.raises(BlockingIOError):
            listening.accept()
    if mode == "overlay":
        assert result.error.type == "ConnectionRefusedError"
    else:
        assert result.error.kind is actbox.ErrorKind.SANDBOX
        assert place in result.error.message and "overlay" in result.error.message
    # One that nobody holds any more is a name and nothing else.
    assert (await box.run(connect)).error.type == "ConnectionRefusedError"


@pytest.mark.parametrize("mode", ["ro", "rw"])
async def test_a_socket_that_is_bound_between_two_runs_is_out_of_reach(
    open_box: OpenBox, folder: Path, mode: MountMode
) -> None:
    place = str(folder / "s")
    if len(place) > 100:
        pytest.skip("the temporary folder's path is too long for a socket")
    box = await open_box(with_mount(folder, mode))
    await box.run("1")
    await asyncio.sleep(0.3)  # what is made ahead of the next run has been made by now
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(place)
        listening.listen()
        listening.settimeout(0)
        result = await box.run("import socket\nsocket.socket(socket.AF_UNIX).connect('/data/s')")
        with pytest.raises(BlockingIOError):
            listening.accept()
    assert result.error.kind is actbox.ErrorKind.SANDBOX and place in result.error.message


@pytest.mark.parametrize("how", ["relative", "by a link"])
async def test_a_socket_is_found_whatever_name_it_was_bound_with(
    open_box: OpenBox, folder: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = folder.parent / "l"
    link.symlink_to(folder)
    name = "sub/s" if how == "relative" else str(link / "sub" / "s")
    if len(name) > 100:
        pytest.skip("the temporary folder's path is too long for a socket")
    monkeypatch.chdir(folder)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(name)
        listening.listen()
        box = await open_box(with_mount(folder))
        result = await box.run("1")
    assert result.error.kind is actbox.ErrorKind.SANDBOX and str(folder / "sub" / "s") in result.error.message


async def test_a_named_pipe_is_dead_in_an_overlay_and_alive_in_a_writable_mount(
    open_box: OpenBox, folder: Path
) -> None:
    os.mkfifo(folder / "pipe")
    pipe = os.open(folder / "pipe", os.O_RDWR | os.O_NONBLOCK)
    try:
        write = "import os\nos.write(os.open('/data/pipe', os.O_RDWR | os.O_NONBLOCK), b'hello')"
        for mode, heard in (("overlay", False), ("rw", True)):
            box = await open_box(with_mount(folder, mode))
            await box.run(write)
            if heard:
                assert os.read(pipe, 100) == b"hello"
            else:
                with pytest.raises(BlockingIOError):
                    os.read(pipe, 100)
    finally:
        os.close(pipe)


@pytest.mark.parametrize("mode", MODES)
async def test_a_device_in_a_mounted_tree_is_dead(open_box: OpenBox, folder: Path, mode: MountMode) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make a device")
    os.mknod(folder / "zero", 0o20666, os.makedev(1, 5))
    box = await open_box(with_mount(folder, mode))
    result = await box.run("open('/data/zero', 'rb').read(1)")
    assert result.error.type == "PermissionError"


@pytest.mark.parametrize("mode", MODES)
async def test_a_set_user_id_program_in_a_mounted_tree_gives_nothing(
    open_box: OpenBox, folder: Path, mode: MountMode
) -> None:
    shutil.copy(shutil.which("id") or "/usr/bin/id", folder / "who")
    (folder / "who").chmod(0o6755)
    box = await open_box(with_mount(folder, mode))
    assert (await box.execute("/data/who -u; /data/who -ru")).stdout == "1000\n1000\n"
    flags = (await box.run("[l.split()[3] for l in open('/proc/self/mounts') if l.split()[1] == '/data']")).value
    assert {"nosuid", "nodev"} <= set(flags[0].split(","))


async def test_a_program_cannot_leave_a_set_user_id_program_on_the_host(open_box: OpenBox, folder: Path) -> None:
    """It would be the calling user's, so that whoever started it would have that user's rights."""
    box = await open_box(with_mount(folder, "rw"))
    attempts = [
        "os.chmod('a.txt', 0o4755)",
        "os.chmod('a.txt', 0o2755, dir_fd=os.open('.', os.O_RDONLY))",
        "os.fchmod(os.open('a.txt', os.O_RDONLY), 0o4755)",
        "os.open('new', os.O_CREAT | os.O_WRONLY, 0o4755)",
        "os.mknod('new', 0o106755)",
        "libc.creat(b'new', 0o4755) == 0 or fail()",
        "libc.syscall(437, -100, b'new', struct.pack('QQQ', os.O_CREAT | os.O_WRONLY, 0o4755, 0), 24) >= 0 or fail()",
    ]
    for attempt in attempts:
        begin = "import os, ctypes, struct\nlibc = ctypes.CDLL(None)\ndef fail(): raise OSError\nos.chdir('/data')\n"
        code = begin + attempt
        result = await box.run(code)
        assert result.error is not None and result.error.type in ("PermissionError", "OSError"), (attempt, result)
    assert [path for path in folder.rglob("*") if path.lstat().st_mode & 0o6000] == []
    assert (await box.run("import os\nos.chmod('/data/a.txt', 0o755)")).success


# What may be mounted is decided again when it is


@pytest.mark.parametrize("replacement", ["link", "folder"])
async def test_a_folder_that_was_swapped_since_the_policy_was_made_is_not_mounted(
    open_box: OpenBox, folder: Path, replacement: str
) -> None:
    secrets = folder.parent / "secrets"
    secrets.mkdir()
    (secrets / "a.txt").write_text(SECRET)
    policy = with_mount(folder)
    folder.rename(folder.parent / "moved")
    if replacement == "link":
        folder.symlink_to(secrets)
    else:
        secrets.rename(folder)
    box = await open_box(policy)
    result = await box.run("open('/data/a.txt').read()")
    assert result.error.kind is actbox.ErrorKind.SANDBOX
    assert str(folder) in result.error.message and "when the policy was made" in result.error.message


async def test_a_file_that_was_swapped_between_two_runs_is_not_mounted(open_box: OpenBox, folder: Path) -> None:
    file = folder / "a.txt"
    box = await open_box(with_mount(file, path="/data/a.txt"))
    assert (await box.run("open('/data/a.txt').read()")).value == "one\ntwo\n"
    file.unlink()
    file.symlink_to(folder.parent / "outside.txt")
    results = [await box.run("open('/data/a.txt').read()") for _ in range(3)]  # the first has a mount made before
    assert SECRET not in [result.value for result in results]
    assert not results[-1].success and str(file) in results[-1].error.message


async def test_what_is_gone_is_named(open_box: OpenBox, folder: Path) -> None:
    policy = with_mount(folder / "sub")
    shutil.rmtree(folder / "sub")
    box = await open_box(policy)
    result = await box.run("1")
    assert f"{folder}/sub cannot be mounted any more: No such file or directory" in result.error.message


NESTED = """
import actbox, json, sys
from actbox import FileMount, Policy
seen = []
for mode in ("ro", "rw", "overlay"):
    with actbox.sync.open_sandbox(policy=Policy(mounts=(FileMount(sys.argv[1], "/data", mode),))) as box:
        result = box.run(
            "import os\\n"
            "os.listdir('/data/inner') + [l.split()[3] for l in open('/proc/self/mounts') if 'inner' in l]"
        )
        seen.append(result.value if result.success else result.error.message)
print(json.dumps(seen))
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tmpfs", "proc"])
def test_mounts_of_the_host_below_a_folder_come_along_unless_they_are_the_kernels(folder: Path, kind: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can mount something on the host")
    inner = folder / "inner"
    inner.mkdir()
    command = (
        f'mount -t {kind} nothing {inner}; touch {inner}/file; exec {shlex.quote(sys.executable)} -c "$0" {folder}'
    )
    done = subprocess.run(["unshare", "-m", "sh", "-c", command, NESTED], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    read_only, writable, overlay = json.loads(done.stdout)
    if kind == "proc":
        for message in (read_only, writable, overlay):
            assert f"{inner} shows the host's kernel (proc)" in message
        return
    assert f"{inner} is mounted in it" in overlay
    for (name, flags), start in ((read_only, "ro"), (writable, "rw")):
        assert name == "file"
        assert flags.startswith(f"{start},") and {"nosuid", "nodev"} <= set(flags.split(","))


# What an overlay's changes are

CHANGING = """
import os, shutil
os.chdir(place)
open('a.txt', 'a').write('three\\n')
os.remove('sub/b.txt')
os.makedirs('new/er')
open('new/er/n.txt', 'w').write('n')
"""
CHANGES = [
    ("removed", "sub/b.txt", None),
    ("changed", "a.txt", b"one\ntwo\nthree\n"),
    ("added", "new/er/n.txt", b"n"),
]


def changing(place: str) -> actbox.Program:
    return actbox.Program(CHANGING, inputs={"place": place})


@pytest.mark.parametrize("place", ["/data", "/workspace/over", "/input/data"])
async def test_the_changes_of_a_run_are_returned_and_the_host_keeps_its_files(
    open_box: OpenBox, folder: Path, place: str
) -> None:
    before = snapshot(folder)
    box = await open_box(with_mount(folder, "overlay", place, keep=True))
    for _ in range(3):  # each begins with the host's files
        result = await box.run(changing(place))
        assert result.success, result.error
        assert told(result.changes) == CHANGES
        assert result.warnings == ()
        assert {change.mount for change in result.changes} == {place}
        assert snapshot(folder) == before
    assert (await box.run("1")).changes == ()


async def test_changes_are_returned_wherever_a_program_runs(open_box: OpenBox, folder: Path) -> None:
    box: Sandbox = await open_box(with_mount(folder, "overlay", keep=True))
    assert told((await box.run_alone(changing("/data"))).changes) == CHANGES
    events = [event async for event in box.stream(changing("/data"))]
    assert isinstance(events[-1], actbox.Completed)
    assert told(events[-1].result.changes) == CHANGES
    command = await box.execute("echo more >> a.txt", cwd="/data")
    assert told(command.changes) == [("changed", "a.txt", b"one\ntwo\nmore\n")]
    async for result in box.map([changing("/data")] * 2):
        assert told(result.changes) == CHANGES


async def test_a_session_returns_what_was_changed_since_it_began(open_box: OpenBox, folder: Path) -> None:
    box: Sandbox = await open_box(with_mount(folder, "overlay", keep=True))
    async with box.session() as session:
        assert (await session.run("import os")).changes == ()
        first = await session.run("open('/data/a.txt', 'w').write('new')")
        assert told(first.changes) == [("changed", "a.txt", b"new")]
        second = await session.run("os.remove('/data/sub/b.txt')")
        assert told(second.changes) == [("removed", "sub/b.txt", None), ("changed", "a.txt", b"new")]
        third = await session.run(
            "open('/data/a.txt', 'w').write('one\\ntwo\\n')\nopen('/data/sub/b.txt', 'w').write('b\\n')"
        )
        assert third.changes == ()
    async with box.session() as session:
        assert (await session.run("open('/data/a.txt').read()")).value == "one\ntwo\n"


@pytest.mark.slow
async def test_changes_are_kept_of_a_program_that_failed_or_was_stopped(
    open_box: OpenBox, folder: Path, clock: Clock
) -> None:
    box = await open_box(with_mount(folder, "overlay", keep=True))
    write = "open('/data/a.txt', 'w').write('half')\n"
    for code in ("1 / 0", "while True: pass", "import os\nos.kill(os.getpid(), 9)"):
        program = write + "import sys\nprint('written', flush=True)\n" + code
        if "while" in code:
            result = await clock.run_out(box.stream(program, timeout=30), 30, after="written")
        else:
            result = await box.run(program)
        assert not result.success
        assert told(result.changes) == [("changed", "a.txt", b"half")], code
    async with box.session() as session:
        lost = await session.run(write + "import os\nos._exit(3)")
        assert lost.state_kept is False
        assert told(lost.changes) == [("changed", "a.txt", b"half")]


async def test_several_overlays_are_told_apart(open_box: OpenBox, folder: Path) -> None:
    mounts = (
        FileMount(folder, "/one", "overlay", keep_changes=True),
        FileMount(folder, "/two", "overlay"),
        FileMount(folder / "sub", "/three", "overlay", keep_changes=True),
        FileMount(folder, "/four"),
    )
    box = await open_box(Policy(mounts=mounts))
    result = await box.run("for n in ('one', 'two', 'three'):\n    open(f'/{n}/new.txt', 'w').write(n)")
    assert result.success, result.error
    assert [(change.mount, change.path, change.data) for change in result.changes] == [
        ("/one", "new.txt", b"one"),
        ("/three", "new.txt", b"three"),
    ]


async def test_folders_and_files_that_take_each_others_place_are_told_file_by_file(
    open_box: OpenBox, folder: Path
) -> None:
    (folder / "link").symlink_to("a.txt")
    (folder / "same").symlink_to("a.txt")
    (folder / "run.sh").write_text("true\n")
    code = """
import os, shutil
os.chdir('/data')
shutil.move('sub/deep', 'moved')
shutil.rmtree('sub')
os.mkdir('sub')
open('sub/fresh.txt', 'w').write('f')
os.remove('a.txt')
os.mkdir('a.txt')
open('a.txt/inner', 'w').write('i')
os.remove('link')
open('link', 'w').write('no link')
os.chmod('run.sh', 0o755)
os.mkdir('empty')
os.utime('same', (1, 1), follow_symlinks=False)
open('gone', 'w').close()
os.remove('gone')
"""
    box = await open_box(with_mount(folder, "overlay", keep=True))
    result = await box.run(code)
    assert result.success, result.error
    assert told(result.changes) == [
        ("removed", "sub/deep/c.txt", None),
        ("removed", "sub/b.txt", None),
        ("removed", "a.txt", None),
        ("added", "a.txt/inner", b"i"),
        ("changed", "link", b"no link"),
        ("added", "moved/c.txt", b"c\n"),
        ("changed", "run.sh", b"true\n"),
        ("added", "sub/fresh.txt", b"f"),
    ]
    assert [change.path for change in result.changes if change.executable] == ["run.sh"]
    assert result.warnings == ()


async def test_a_folder_that_takes_a_removed_ones_place_hides_it(open_box: OpenBox, folder: Path) -> None:
    box = await open_box(with_mount(folder, "overlay", keep=True))
    code = "import os, shutil\nos.chdir('/data')\nshutil.rmtree('sub')\nos.makedirs('sub/deep')\n"
    code += "open('sub/deep/c.txt', 'w').write('C')"
    assert told((await box.run(code)).changes) == [
        ("removed", "sub/b.txt", None),
        ("changed", "sub/deep/c.txt", b"C"),
    ]


NAMES = ("a", "b", "c")
# Makes one change after the other; many are not possible where they come.
WRECK = """
import os, shutil

def is_link_or_has_one(path):
    inside = [os.path.join(folder, name) for folder, dirs, names in os.walk(path) for name in dirs + names]
    return any(map(os.path.islink, [path, *inside]))

for what, path, other, content in changes:
    path, other = f'/data/{path}', f'/data/{other}'
    try:
        match what:
            case 'write':
                os.makedirs(os.path.dirname(path), exist_ok=True)
                open(path, 'w').write(content)
            case 'append':
                open(path, 'a').write(content)
            case 'remove':
                os.remove(path)
            case 'remove tree':
                shutil.rmtree(path)
            case 'make':
                os.makedirs(path)
            case 'move' if not is_link_or_has_one(path):  # new links are left out
                shutil.move(path, other)
            case 'replace':
                shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.remove(path)
                open(path, 'w').write(content)
            case 'execute':
                os.chmod(path, 0o755)
    except (OSError, shutil.Error):
        pass
files = {}
for folder, dirs, names in os.walk('/data'):
    for path in [os.path.join(folder, name) for name in dirs + names]:
        if os.path.isdir(path) and not os.path.islink(path):
            continue
        text = '-> ' + os.readlink(path) if os.path.islink(path) else open(path).read()
        files[os.path.relpath(path, '/data')] = [text, os.stat(path, follow_symlinks=False).st_mode & 0o100 > 0]
files
"""
KINDS = ("write", "append", "remove", "remove tree", "make", "move", "replace", "replace", "execute")


def some_path(rng: random.Random) -> str:
    return "/".join(rng.choice(NAMES) for _ in range(rng.randint(1, 4)))


def grow(root: Path, rng: random.Random) -> None:
    """Make a tree of folders, files and links, some of which lead nowhere."""
    for _ in range(rng.randint(0, 12)):
        path = root / some_path(rng)
        with contextlib.suppress(OSError):  # something else is there already
            if rng.random() < 0.2:
                path.mkdir(parents=True)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            if rng.random() < 0.2:
                path.symlink_to(rng.choice([*NAMES, f"../{rng.choice(NAMES)}"]))
            else:
                path.write_text(some_path(rng))


def apply(change: FileChange, root: Path) -> None:
    """Do what the docstring of `FileChange` says."""
    path = root / change.path
    if change.kind == "removed":
        path.unlink()
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir() and not path.is_symlink():
        for folder, _, _ in os.walk(path, topdown=False):
            os.rmdir(folder)
    else:
        path.unlink(missing_ok=True)
    assert change.data is not None
    path.write_bytes(change.data)
    path.chmod(0o755 if change.executable else 0o644)


def files_of(root: Path) -> dict[str, list[object]]:
    found: dict[str, list[object]] = {}
    for path in root.rglob("*"):
        if path.is_symlink() or path.is_file():
            text = f"-> {os.readlink(path)}" if path.is_symlink() else path.read_text()
            found[str(path.relative_to(root))] = [text, path.lstat().st_mode & 0o100 > 0]
    return found


@pytest.mark.slow
async def test_changes_can_be_applied_one_by_one_in_their_order(open_box: OpenBox, folder: Path) -> None:
    rng = random.Random(20)
    shutil.rmtree(folder)
    for number in range(150):  # one sandbox for all: each has a folder of its own
        (folder / str(number)).mkdir(parents=True)
        grow(folder / str(number), rng)
    changes = [
        (rng.choice(KINDS), f"{number}/{some_path(rng)}", f"{number}/{some_path(rng)}", some_path(rng))
        for number in range(150)
        for _ in range(rng.randint(1, 15))
    ]
    mount = FileMount(folder, "/data", "overlay", keep_changes=True)
    box = await open_box(Policy(mounts=(mount,), limits=Limits(artifacts=10_000)))
    result = await box.run(actbox.Program(WRECK, inputs={"changes": changes}))
    assert result.success, result.error
    assert result.warnings == ()
    assert len(result.changes) > 200 and {change.kind for change in result.changes} == {"added", "changed", "removed"}
    copy = folder.parent / "copy"
    shutil.copytree(folder, copy, symlinks=True)
    for change in result.changes:
        apply(change, copy)
    assert files_of(copy) == result.value


async def test_a_folder_that_a_file_replaced_is_told_as_removed_first(open_box: OpenBox, folder: Path) -> None:
    box = await open_box(with_mount(folder, "overlay", keep=True))
    code = "import shutil\nshutil.rmtree('/data/sub')\nopen('/data/sub', 'w').write('file')"
    assert told((await box.run(code)).changes) == [
        ("removed", "sub/deep/c.txt", None),
        ("removed", "sub/b.txt", None),
        ("added", "sub", b"file"),
    ]


async def test_a_new_empty_folder_below_a_new_one_hides_what_was_in_its_place(open_box: OpenBox, folder: Path) -> None:
    box = await open_box(with_mount(folder, "overlay", keep=True))
    code = "import os, shutil\nshutil.rmtree('/data/sub')\nos.makedirs('/data/sub/deep')"
    assert told((await box.run(code)).changes) == [("removed", "sub/deep/c.txt", None), ("removed", "sub/b.txt", None)]


async def test_what_was_only_opened_or_touched_is_no_change(open_box: OpenBox, folder: Path) -> None:
    box = await open_box(with_mount(folder, "overlay", keep=True))
    code = "import os\nopen('/data/a.txt', 'a').close()\nos.utime('/data/sub/b.txt')\nos.chmod('/data/sub', 0o700)"
    result = await box.run(code)
    assert result.success, result.error
    assert result.changes == ()


async def test_links_and_other_things_in_an_overlay_are_not_followed(open_box: OpenBox, folder: Path) -> None:
    outside = folder.parent / "outside.txt"
    code = f"""
import os, shutil, socket
os.chdir('/data')
os.symlink({literal(str(outside))}, 'link')
os.symlink('/', 'root')
os.remove('a.txt')
os.symlink({literal(str(outside))}, 'a.txt')
shutil.rmtree('sub')
os.symlink({literal(str(folder.parent))}, 'sub')
os.mkfifo('pipe')
socket.socket(socket.AF_UNIX).bind('socket')
"""
    box = await open_box(with_mount(folder, "overlay", keep=True))
    result = await box.run(code)
    assert result.success, result.error
    assert told(result.changes) == [
        ("removed", "sub/deep/c.txt", None),
        ("removed", "sub/b.txt", None),
        ("removed", "a.txt", None),
    ]
    assert SECRET not in str(result.to_dict())
    for name in ("link", "root", "a.txt", "sub", "pipe", "socket"):
        assert f"a change of /data/{name} was not collected: it is not a regular file" in result.warnings


async def test_a_program_cannot_write_what_the_kernel_notes_in_an_overlay(open_box: OpenBox, folder: Path) -> None:
    code = """
import os
seen = []
for make in (
    lambda: os.mknod('/data/a', 0o20000, os.makedev(0, 0)),
    lambda: os.setxattr('/data/sub', 'user.overlay.opaque', b'y'),
    lambda: os.setxattr('/data/sub', 'user.overlay.redirect', b'/'),
    lambda: os.setxattr('/data/sub', 'trusted.overlay.opaque', b'y'),
):
    try:
        make()
    except OSError:
        seen.append('refused')
os.listdir('/data/sub') and sorted(os.listdir('/data'))
"""
    box = await open_box(with_mount(folder, "overlay", keep=True))
    result = await box.run(code)
    assert result.value == ["a.txt", "sub"]
    assert result.changes == ()


async def test_a_flood_of_changes_that_are_left_out_is_told_in_few_words(open_box: OpenBox, folder: Path) -> None:
    box = await open_box(with_mount(folder, "overlay", keep=True))
    result = await box.run("""
import os
os.chdir('/data')
for _ in range(6):
    os.mkdir('d' * 250)
    os.chdir('d' * 250)
for number in range(2000):
    os.mkfifo(f'{number:0250}')
""")
    assert result.success, result
    assert result.changes == ()
    assert len(result.warnings) == 101
    assert result.warnings[-1] == "1,900 more were not collected"
    assert max(len(warning) for warning in result.warnings) < 300


@pytest.mark.slow
async def test_changes_are_bounded_in_count_size_and_depth(open_box: OpenBox, folder: Path) -> None:
    limits = Limits(artifacts=5, artifact_mib=1, workspace_mib=16)
    policy = Policy(limits=limits, mounts=(FileMount(folder, "/data", "overlay", keep_changes=True),))
    box = await open_box(policy)
    many = await box.run("for n in range(50):\n    open(f'/data/{n}', 'w').close()")
    assert len(many.changes) == 5
    assert many.warnings == ("more than 5 changed files: the rest was not collected",)
    big = await box.run("open('/data/big', 'wb').write(bytes(2**20 + 1))\nopen('/data/small', 'w').write('s')")
    assert told(big.changes) == [("added", "small", b"s")]
    assert big.warnings == ("a change of /data/big was not collected: the changes would exceed 1 MiB",)
    hole = await box.run("import os\nos.truncate(os.open('/data/hole', os.O_CREAT | os.O_WRONLY), 200 * 2**20)")
    assert hole.changes == () and "exceed 1 MiB" in hole.warnings[0]
    deep = await box.run("import os\nos.chdir('/data')\nfor _ in range(200):\n    os.mkdir('d')\n    os.chdir('d')")
    assert deep.changes == () and "nested too deeply" in deep.warnings[0]
    full = await box.run("open('/data/full', 'wb').write(bytes(20 * 2**20))")
    assert full.error.kind is actbox.ErrorKind.DISK


async def test_an_unreadable_file_and_an_odd_name_are_told(open_box: OpenBox, folder: Path) -> None:
    code = """
import os
open('/data/two words\\n\\x1b[31m', 'w').write('odd')
open(b'/data/\\xff', 'w').write('bytes')
os.mkdir('/data/closed')
open('/data/closed/file', 'w').write('in')
os.chmod('/data/closed', 0)
"""
    box = await open_box(with_mount(folder, "overlay", keep=True))
    result = await box.run(code)
    assert result.success, result.error
    expected = [("added", "two words\n\x1b[31m", b"odd"), ("added", "\ufffd", b"bytes")]
    if os.geteuid() == 0:
        expected.insert(0, ("added", "closed/file", b"in"))
    else:
        assert result.warnings == ("a change of /data/closed was not collected: Permission denied",)
    assert told(result.changes) == expected


@pytest.mark.slow
async def test_what_is_written_to_an_overlay_counts_as_memory_where_nothing_else_counts_it(
    open_box: OpenBox, folder: Path
) -> None:
    limits = Limits(memory_mib=160, workspace_mib=1024, file_mib=1024)
    policy = Policy(limits=limits, mounts=(FileMount(folder, "/data", "overlay", keep_changes=True),))
    box = await open_box(policy)
    code = "import time\nwith open('/data/full', 'wb', 0) as file:\n    for _ in range(400):\n"
    code += "        file.write(bytes(2**20))\ntime.sleep(300)"
    result = await box.run(code)
    assert result.error is not None
    assert result.error.kind is actbox.ErrorKind.MEMORY


async def test_a_folder_that_cannot_be_renamed_in_an_overlay_is_explained(open_box: OpenBox, folder: Path) -> None:
    box = await open_box(with_mount(folder, "overlay"))
    result = await box.run("import os\nos.rename('/data/sub', '/data/new')")
    assert "shutil.move" in result.error.hint
    assert (await box.run("import shutil\nshutil.move('/data/sub', '/data/new')")).success


async def test_runs_at_once_have_overlays_of_their_own(open_box: OpenBox, folder: Path) -> None:
    box = await open_box(with_mount(folder, "overlay", keep=True))
    codes = [f"open('/data/a.txt', 'w').write('{number}')" for number in range(6)]
    results = await asyncio.gather(*map(box.run, codes))
    assert [told(result.changes) for result in results] == [
        [("changed", "a.txt", str(number).encode())] for number in range(6)
    ]


@pytest.mark.slow
async def test_nothing_of_an_overlay_is_left(open_box: OpenBox, folder: Path) -> None:
    box = await open_box(with_mount(folder, "overlay", keep=True))
    await box.run(changing("/data"))

    def upper_layers() -> int:
        found = 0
        for name in _descriptors():
            with contextlib.suppress(FileNotFoundError):  # closed since, by another thread
                found += os.readlink(f"/proc/self/fd/{name}").endswith("upper")
        return found

    for _ in range(3):
        await box.run(changing("/data"))
        async with box.session() as session:
            await session.run(changing("/data"))
    box_2 = await open_box(with_mount(folder, "overlay", keep=True))
    session = box_2.session()
    await session.run(changing("/data"))
    await box_2.stop()
    await box.stop()
    await until(lambda: upper_layers() == 0)


def _descriptors() -> list[str]:
    return [name for name in os.listdir("/proc/self/fd") if os.path.islink(f"/proc/self/fd/{name}")]
