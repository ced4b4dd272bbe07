"""A folder of the host at `/input` itself: what programs see there, and that nothing is ever made in it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

import actbox
from actbox import FileMount, Policy, Program, Sandbox, Session
from tests.conftest import OpenBox, engine_check
from tests.contract.left_behind import nothing_left_behind

ALL = """
import os
{
    os.path.relpath(os.path.join(folder, name), '/input'): open(os.path.join(folder, name)).read()
    for folder, _, names in os.walk('/input') for name in names
}
"""
HOST = {"a.txt": "host a", "sub/b.txt": "host b"}


@pytest.fixture(autouse=True)
def mounting(engine: str) -> None:
    traits = engine_check(engine).traits
    assert traits is not None
    if "overlay" not in traits.mounts:
        pytest.skip(f"{engine} has no mounts")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of the host, beside a file that is not in it."""
    tmp_path.chmod(0o755)
    (tmp_path / "outside.txt").write_text("outside")
    folder = tmp_path / "data"
    (folder / "sub").mkdir(parents=True)
    for name, text in HOST.items():
        (folder / name).write_text(text)
    return folder


def at_input(folder: Path, *more: FileMount) -> Policy:
    return Policy(mounts=(*more, FileMount(folder, "/input")))


def snapshot(folder: Path) -> dict[str, tuple[int, int, int, bytes]]:
    found = {}
    for path in (folder, *folder.rglob("*")):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() else b""
        found[str(path)] = (status.st_mode, status.st_mtime_ns, status.st_ctime_ns, content)
    return found


# What is seen


async def test_programs_see_the_folder_at_both_of_its_names(open_box: OpenBox, folder: Path) -> None:
    box = await open_box(at_input(folder))
    assert (await box.run(ALL)).value == HOST
    assert (await box.run("[open(p).read() for p in ('input/a.txt', '/workspace/input/a.txt')]")).value == [
        "host a"
    ] * 2
    assert (await box.execute("cat /input/sub/b.txt")).stdout == "host b"


async def test_what_is_put_below_input_is_seen_beside_its_files_and_wins(open_box: OpenBox, folder: Path) -> None:
    before = snapshot(folder)
    box = await open_box(at_input(folder))
    await box.write_file("/input/own.txt", b"own")
    await box.write_file("/input/sub/b.txt", b"own b")
    result = await box.run(Program(ALL, files={"a.txt": "program's", "sub/deep/c.txt": "c"}))
    assert result.value == {
        "a.txt": "program's",
        "own.txt": "own",
        "sub/b.txt": "own b",
        "sub/deep/c.txt": "c",
    }, result.error
    await box.remove_file("/input/sub/b.txt")
    assert (await box.run("open('/input/sub/b.txt').read()")).value == "host b"
    assert snapshot(folder) == before


async def test_the_file_methods_have_only_what_was_put_there(open_box: OpenBox, folder: Path) -> None:
    box: Sandbox = await open_box(at_input(folder))
    await box.write_file("/input/own.txt", b"own")
    assert [entry.path for entry in await box.list_files("/input")] == ["input/own.txt"]
    with pytest.raises(actbox.FileError):
        await box.read_file("/input/a.txt")


async def test_other_mounts_below_input_need_no_place_in_the_folder(open_box: OpenBox, folder: Path) -> None:
    (folder / "file").write_text("in the way")
    (folder / "taken").mkdir()
    (folder / "taken" / "hidden").write_text("hidden")
    other = folder.parent / "other"
    other.mkdir()
    (other / "users.json").write_text("[]")
    before = snapshot(folder)
    box = await open_box(
        at_input(
            folder,
            FileMount(other / "users.json", "/input/fixtures/users.json"),
            FileMount(other / "users.json", "/input/file/users.json"),
            FileMount(other / "users.json", "/input/sub/users.json"),
            FileMount(other, "/input/taken"),
            FileMount(other, "/input/shared", "rw"),
            FileMount(other, "/input/over", "overlay", keep_changes=True),
        )
    )
    for _ in range(2):  # the second finds the places of the first
        result = await box.run(ALL)
        assert result.value == {
            **HOST,
            "fixtures/users.json": "[]",
            "file/users.json": "[]",
            "sub/users.json": "[]",
            "taken/users.json": "[]",
            "shared/users.json": "[]",
            "over/users.json": "[]",
        }, result.error
    changed = await box.run("open('/input/over/n', 'w').write('n')\nopen('/input/shared/s', 'w').write('s')")
    assert [(change.mount, change.path) for change in changed.changes] == [("/input/over", "n")]
    assert sorted(os.listdir(other)) == ["s", "users.json"]
    assert snapshot(folder) == before


async def test_what_changes_on_the_host_between_two_runs_is_seen_by_the_next(open_box: OpenBox, folder: Path) -> None:
    box = await open_box(at_input(folder))
    for number in range(4):  # of which the later ones have what was made ahead of them
        (folder / "a.txt").unlink()
        (folder / "a.txt").write_text(f"a {number}")
        (folder / "sub" / f"{number}").write_text("new")
        (folder / "sub" / f"{number - 1}").unlink(missing_ok=True)
        result = await box.run(ALL)
        assert result.value == {"a.txt": f"a {number}", "sub/b.txt": "host b", f"sub/{number}": "new"}, result.error


@pytest.mark.slow
async def test_programs_alone_and_mapped_ones_see_it(open_box: OpenBox, folder: Path) -> None:
    box: Sandbox = await open_box(at_input(folder))
    await box.write_file("/input/own.txt", b"of this sandbox only")
    assert (await box.run_alone(ALL)).value == HOST
    mapped = box.map([Program(ALL, files={"own.txt": str(number)}) for number in range(4)], concurrency=3)
    assert [result.value async for result in mapped] == [{**HOST, "own.txt": str(number)} for number in range(4)]


async def test_runs_at_once_see_the_same(open_box: OpenBox, folder: Path) -> None:
    box: Sandbox = await open_box(at_input(folder))
    results = await asyncio.gather(*(box.run(ALL) for _ in range(6)))
    assert [result.value for result in results] == [HOST] * 6


# What cannot be done there


@pytest.mark.parametrize(
    "act",
    [
        "open('/input/new', 'w')",
        "open('/input/a.txt', 'a')",
        "os.mkdir('/input/new')",
        "os.unlink('/input/a.txt')",
        "os.unlink('/input/own.txt')",
        "os.rename('/input/a.txt', '/input/sub/a.txt')",
        "os.rename('/input/a.txt', '/workspace/a.txt')",
        "os.link('/input/a.txt', '/workspace/a.txt')",
        "os.symlink('/etc/passwd', '/input/link')",
        "os.chmod('/input/a.txt', 0o777)",
        "os.utime('/input/a.txt', (1, 1))",
        "os.truncate('/input/a.txt', 0)",
        "os.rmdir('/input')",
        "os.rename('/workspace/input', '/workspace/other')",
    ],
)
async def test_nothing_can_be_changed_there(open_box: OpenBox, folder: Path, act: str) -> None:
    before = snapshot(folder)
    box = await open_box(at_input(folder))
    await box.write_file("/input/own.txt", b"own")
    result = await box.run(f"import os\n{act}")
    assert result.error is not None and result.error.type in ("OSError", "PermissionError", "NotADirectoryError"), (
        result
    )
    assert snapshot(folder) == before
    assert (await box.run(ALL)).value == {**HOST, "own.txt": "own"}


async def test_a_link_in_the_folder_does_not_lead_out(open_box: OpenBox, folder: Path) -> None:
    (folder / "absolute").symlink_to(folder.parent / "outside.txt")
    (folder / "relative").symlink_to("../outside.txt")
    (folder / "parent").symlink_to("..")
    box = await open_box(at_input(folder))
    for name in ("absolute", "relative", "parent/outside.txt", "../outside.txt"):
        assert not (await box.run(f"open('/input/{name}').read()")).success


async def test_a_file_that_is_put_behind_a_link_of_the_folder_stays_in_the_sandbox(
    open_box: OpenBox, folder: Path
) -> None:
    (folder / "link").symlink_to(folder.parent)
    (folder / "file").symlink_to(folder.parent / "outside.txt")
    box = await open_box(at_input(folder))
    await box.write_file("/input/link/outside.txt", b"own")
    await box.write_file("/input/file", b"own")
    assert (await box.run("[open(f'/input/{n}').read() for n in ('link/outside.txt', 'file')]")).value == ["own"] * 2
    assert (folder.parent / "outside.txt").read_text() == "outside"


async def test_sockets_named_pipes_and_devices_in_the_folder_are_dead(
    open_box: OpenBox, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if len(str(folder / "s")) > 100:
        pytest.skip("the temporary folder's path is too long for a socket")
    os.mkfifo(folder / "pipe")
    if os.geteuid() == 0:
        os.mknod(folder / "zero", 0o20666, os.makedev(1, 5))
    pipe = os.open(folder / "pipe", os.O_RDWR | os.O_NONBLOCK)
    try:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(folder / "s"))
            listening.listen()
            listening.settimeout(0)
            box = await open_box(at_input(folder))
            connected = await box.run("import socket\nsocket.socket(socket.AF_UNIX).connect('/input/s')")
            assert connected.error.type == "ConnectionRefusedError", connected
            with pytest.raises(BlockingIOError):
                listening.accept()
        await box.run("import os\nos.write(os.open('/input/pipe', os.O_RDWR | os.O_NONBLOCK), b'hello')")
        with pytest.raises(BlockingIOError):
            os.read(pipe, 100)
    finally:
        os.close(pipe)
    if os.geteuid() == 0:
        assert (await box.run("open('/input/zero', 'rb').read(1)")).error.type == "PermissionError"


async def test_what_only_its_owner_may_read_is_seen_as_in_any_mount(open_box: OpenBox, folder: Path) -> None:
    (folder / "a.txt").chmod(0o600)
    (folder / "sub").chmod(0o700)
    (folder / "none").write_text("none")
    (folder / "none").chmod(0)
    box = await open_box(at_input(folder, FileMount(folder, "/data")))
    read = "[open(f'{place}/{name}').read() for name in ('a.txt', 'sub/b.txt')]"
    assert (await box.run(f"place = '/data'\n{read}")).value == ["host a", "host b"]
    assert (await box.run(f"place = '/input'\n{read}")).value == ["host a", "host b"]
    for place in ("/data", "/input"):
        assert (await box.run(f"open('{place}/none').read()")).error.type == "PermissionError"


async def test_set_user_id_programs_there_give_nothing(open_box: OpenBox, folder: Path) -> None:
    shutil.copy(shutil.which("id") or "/usr/bin/id", folder / "who")
    (folder / "who").chmod(0o6755)
    box = await open_box(at_input(folder))
    assert (await box.execute("/input/who -u; /input/who -ru")).stdout == "1000\n1000\n"


async def test_nothing_of_the_host_is_told_by_the_mount(open_box: OpenBox, folder: Path) -> None:
    box = await open_box(at_input(folder))
    line = (await box.run("[l for l in open('/proc/self/mounts') if l.split()[1] == '/workspace/input']")).value
    assert len(line) == 1 and str(folder.parent) not in line[0]
    assert {"ro", "nosuid", "nodev"} <= set(line[0].split()[3].split(","))
    listing = "import os\nos.listdir('/tmp')"  # where the environment may lie, too
    assert (await box.run(listing)).value == (await (await open_box(actbox.Policy())).run(listing)).value


# What is refused


async def test_a_folder_that_was_swapped_since_the_policy_was_made_is_not_shown(
    open_box: OpenBox, folder: Path
) -> None:
    policy = at_input(folder)
    folder.rename(folder.parent / "moved")
    folder.mkdir()
    result = await (await open_box(policy)).run("1")
    assert result.error.kind is actbox.ErrorKind.SANDBOX and "when the policy was made" in result.error.message


NESTED = """
import sys
import actbox
policy = actbox.Policy(mounts=(actbox.FileMount(sys.argv[1], "/input"),))
with actbox.sync.open_sandbox(policy=policy) as box:
    print(box.run("1").error.message)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "said"),
    [("tmpfs", "would not be seen there; mount the directory below /input"), ("proc", "shows the host's kernel")],
)
def test_a_folder_in_which_the_host_has_mounted_something_is_refused(folder: Path, kind: str, said: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can mount something on the host")
    inner = folder / "sub"
    command = f'mount -t {kind} nothing {inner}; exec {shlex.quote(sys.executable)} -c "$0" {folder}'
    done = subprocess.run(["unshare", "-m", "sh", "-c", command, NESTED], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert str(inner) in done.stdout and said in done.stdout


# Sessions


@pytest.fixture
def sessions(engine: str) -> None:
    traits = engine_check(engine).traits
    assert traits is not None
    if not traits.sessions:
        pytest.skip(f"{engine} has no sessions")


LOOK = """
import os
seen = []
for name in ('late', 'a.txt', 'sub/late', 'new/late'):
    try:
        seen.append(open('/input/' + name).read())
    except OSError as error:
        seen.append(type(error).__name__)
[seen, sorted(os.listdir('/input')), sorted(os.listdir('/input/sub'))]
"""
MISSING = "FileNotFoundError"
AT_FIRST = [[MISSING, "host a", MISSING, MISSING], ["a.txt", "sub"], ["b.txt"]]
LATER = [["late", "own a", "late", "late"], ["a.txt", "late", "new", "sub"], ["b.txt", "late"]]


async def put_late(place: Any) -> None:
    """Put files where a program has looked for them in vain, and in the place of one that it has seen."""
    for name, content in (("late", "late"), ("a.txt", "own a"), ("sub/late", "late"), ("new/late", "late")):
        await place.write_file(f"/input/{name}", content.encode())


@pytest.mark.parametrize("forkable", [False, True])
async def test_a_session_sees_what_was_put_there_since_its_last_program(
    sessions: None, open_box: OpenBox, folder: Path, forkable: bool
) -> None:
    box: Sandbox = await open_box(at_input(folder))
    if forkable and not box.traits.fork:
        pytest.skip(f"{box.traits.engine} cannot fork sessions")
    async with box.session(forkable=forkable) as session:
        assert (await session.run(LOOK)).value == AT_FIRST
        await put_late(box)
        result = await session.run(LOOK)
        assert result.value == LATER, result.error
        # Also what comes with the program, and what the host has changed.
        (folder / "sub" / "hosts.txt").write_text("host")
        (folder / "sub" / "b.txt").unlink()
        result = await session.run(Program(LOOK, files={"late": "program's"}))
        assert result.value == [["program's", *LATER[0][1:]], LATER[1], ["hosts.txt", "late"]], result.error


async def test_a_program_that_stays_in_the_folder_keeps_it_open_and_the_next_one_goes_on(
    sessions: None, open_box: OpenBox, folder: Path
) -> None:
    box: Sandbox = await open_box(at_input(folder))
    async with box.session() as session:
        await session.run("import os\nfile = open('/input/a.txt')\nos.chdir('/input/sub')")
        await box.write_file("/input/late", b"late")
        result = await session.run("[file.read(), open('b.txt').read(), open('/input/late').read()]")
        assert result.value == ["host a", "host b", "late"], result.error


async def test_copies_of_a_session_have_inputs_of_their_own_over_the_same_folder(
    sessions: None, open_box: OpenBox, folder: Path
) -> None:
    other = folder.parent / "other"
    other.mkdir()
    (other / "f").write_text("f")
    before = snapshot(folder)
    box: Sandbox = await open_box(at_input(folder, FileMount(other, "/input/mounted")))
    if not box.traits.fork:
        pytest.skip(f"{box.traits.engine} cannot fork sessions")
    origin: Session = box.session(forkable=True)
    async with origin:
        await box.write_file("/input/own.txt", b"own")
        first = {**HOST, "own.txt": "own", "mounted/f": "f"}
        assert (await origin.run(ALL)).value == first
        async with await origin.fork() as copy, await copy.fork() as grandchild:
            for session in (copy, grandchild):
                assert (await session.run(ALL)).value == first
                listed = {entry.path for entry in await session.list_files("/input")}
                assert listed == {"input/own.txt", "input/mounted"}
            await copy.write_file("/input/a.txt", b"copy's")
            await grandchild.remove_file("/input/own.txt")
            await box.write_file("/input/own.txt", b"origin's")
            (folder / "new.txt").write_text("new")
            changed = {**first, "new.txt": "new"}
            assert (await copy.run(ALL)).value == {**changed, "a.txt": "copy's"}
            without = {name: text for name, text in changed.items() if name != "own.txt"}
            assert (await grandchild.run(ALL)).value == without
            assert (await origin.run(ALL)).value == {**changed, "own.txt": "origin's"}
            assert not (await grandchild.run("open('/input/x', 'w')")).success
    (folder / "new.txt").unlink()
    assert {path: seen[3] for path, seen in snapshot(folder).items()} == {p: seen[3] for p, seen in before.items()}


async def test_a_session_cannot_be_forked_once_the_folder_is_gone(
    sessions: None, open_box: OpenBox, folder: Path
) -> None:
    box: Sandbox = await open_box(at_input(folder))
    if not box.traits.fork:
        pytest.skip(f"{box.traits.engine} cannot fork sessions")
    async with box.session(forkable=True) as origin:
        await origin.run("x = 1")
        folder.rename(folder.parent / "moved")
        with pytest.raises(actbox.SandboxUnavailable, match="cannot be mounted any more"):
            await origin.fork()
        assert (await origin.run("[x, open('/input/a.txt').read()]")).value == [1, "host a"]


@pytest.mark.slow
async def test_sessions_leave_nothing_behind(
    sessions: None, open_box: OpenBox, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    box: Sandbox = await open_box(at_input(folder))
    forkable = box.traits.fork
    async with box.session(forkable=forkable) as session:
        await session.run("1")
    async with nothing_left_behind():
        for ends in ("1", "import os\nos._exit(1)"):
            async with contextlib.AsyncExitStack() as stack:
                session = await stack.enter_async_context(box.session(forkable=forkable))
                await session.run("1")
                if forkable:
                    await stack.enter_async_context(await session.fork())
                await session.run(ends)
        plain = box.session()
        await plain.run("1")
        await plain.close()
