"""Lanes with mounts: they show what a new sandbox would show, or end."""

from __future__ import annotations

import asyncio
import itertools
import socket
from pathlib import Path

import pytest

import actbox
from actbox import AllowedDomain, ErrorKind, FileMount, Policy, Sandbox
from actbox.core.mounts import MountMode
from actbox.sandbox.engines.linux.engine import LinuxSandbox
from actbox.sandbox.engines.linux.lanes import Lane
from actbox.sandbox.nursery.share_of_time import MOST_OWED_SECONDS
from tests.sandbox.in_lanes import DENY, PLACE, lane_of, lanes_of, linux_works, ready  # noqa: F401 (a fixture for all)
from tests.waiting import until


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory of the host with a file in it, which programs may write."""
    made = tmp_path / "data"
    made.mkdir()
    made.chmod(0o777)
    (made / "a.txt").write_text("one")
    return made


def with_mount(folder: Path, path: str = "/data", mode: MountMode = "ro") -> Policy:
    return Policy(mounts=(FileMount(folder, path, mode),))


async def value_of(box: Sandbox, code: str) -> object:
    result = await box.run(code)
    assert result.error is None, result
    await ready(box)
    return result.value


async def lane_after(box: Sandbox, code: str = "1") -> Lane:
    """Run a program; return the lane in which the next one follows."""
    await value_of(box, code)
    return lane_of(box)


@pytest.mark.parametrize(
    ("path", "mode"),
    [("/data", "ro"), ("/data", "rw"), ("/input/data", "ro"), ("/workspace/below/data", "rw"), ("/input", "ro")],
)
async def test_runs_with_a_mount_follow_one_another_in_one_place(folder: Path, path: str, mode: MountMode) -> None:
    async with actbox.open_sandbox("linux", policy=with_mount(folder, path, mode)) as box:
        # `/tmp` is touched, so that the Landlock rules are made anew too
        look = f"{PLACE} + [open('{path}/a.txt').read(), open('/tmp/x', 'w').write('x')]"
        seen = [await value_of(box, look) for _ in range(4)]
        assert len(lanes_of(box)._all) == 1
    mounts = [place.pop(1) for place in seen]
    assert seen == [seen[0]] * 4
    # Programs of other sandboxes could meet in a mount, but nobody reaches another by what lies at `/input`.
    assert [one != other for one, other in itertools.pairwise(mounts)] == [path != "/input"] * 3


async def test_a_read_only_mount_stays_so_and_a_writable_one_writes_to_the_host(folder: Path) -> None:
    try_it = "try: open('/data/new', 'a').write('x')\nexcept OSError as error: print(error.errno)"
    async with actbox.open_sandbox("linux", policy=with_mount(folder)) as box:
        for _ in range(3):
            assert (await box.run(try_it)).stdout == "30\n"
            await ready(box)
    async with actbox.open_sandbox("linux", policy=with_mount(folder, mode="rw")) as box:
        for _ in range(3):
            await value_of(box, f"open('/tmp/x', 'w')\n{try_it}")
        assert len(lanes_of(box)._all) == 1
    assert (folder / "new").read_text() == "xxx"


async def test_a_lane_sees_what_the_host_has_put_into_the_folder_at_input_since(folder: Path) -> None:
    policy = Policy(mounts=(FileMount(folder, "/input"),), domains=[AllowedDomain("allowed.example")])
    look = "import os\n[os.path.exists('/input/new'), sorted(os.listdir('/input')), open('/input/a.txt').read()]"
    async with actbox.open_sandbox("linux", policy=policy) as box:
        assert await value_of(box, look) == [False, ["a.txt"], "one"]
        lane = lane_of(box)
        (folder / "new").touch()
        (folder / "a.txt").unlink()
        (folder / "a.txt").write_text("two")
        assert await value_of(box, look) == [True, ["a.txt", "new"], "two"]
        (folder / "new").unlink()
        await box.write_file("/input/own", b"x")
        assert await value_of(box, look) == [False, ["a.txt", "own"], "two"]
        assert lane_of(box) is lane


async def test_what_changes_on_the_host_between_two_runs_is_seen(folder: Path) -> None:
    file = folder.parent / "one.txt"
    file.write_text("before")
    policy = Policy(mounts=(FileMount(folder, "/data"), FileMount(file, "/one.txt")))
    async with actbox.open_sandbox("linux", policy=policy) as box:
        look = "import os\n[sorted(os.listdir('/data')), open('/one.txt').read()]"
        assert await value_of(box, look) == [["a.txt"], "before"]
        lane = lane_of(box)
        (folder / "a.txt").rename(folder / "b.txt")
        file.write_text("after")
        assert await value_of(box, look) == [["b.txt"], "after"]
        assert lane_of(box) is lane


async def test_a_folder_that_was_swapped_between_two_runs_is_not_shown_and_ends_its_lanes(folder: Path) -> None:
    async with actbox.open_sandbox("linux", policy=with_mount(folder)) as box:
        lane = await lane_after(box)
        aside = folder.rename(folder.parent / "aside")
        gone = (await box.run("open('/data/a.txt').read()")).error
        folder.mkdir()
        swapped = (await box.run("open('/data/a.txt').read()")).error
        assert gone is not None and swapped is not None
        assert [gone.kind, swapped.kind] == [ErrorKind.SANDBOX] * 2
        assert "cannot be mounted any more: No such file or directory" in gone.message
        assert "something else lay there when the policy was made" in swapped.message
        await until(lambda: lane.child.buried)
        folder.rmdir()
        aside.rename(folder)
        assert await value_of(box, "open('/data/a.txt').read()") == "one"


async def test_a_socket_that_the_host_binds_between_two_runs_is_out_of_reach(folder: Path) -> None:
    async with actbox.open_sandbox("linux", policy=with_mount(folder)) as box:
        lane = await lane_after(box)
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(str(folder / "bound"))
            error = (await box.run("1")).error
        assert error is not None
        assert "a process of the host has the socket" in error.message
        await until(lambda: lane.child.buried)


@pytest.mark.parametrize("path", ["/input/below/data", "/workspace/below/data"])
async def test_a_lane_ends_if_the_place_of_its_mount_is_moved_or_removed(folder: Path, path: str) -> None:
    above = path.rpartition("/")[0].replace("/input", "/workspace/input")
    look = f"open('{path}/a.txt').read()"
    async with actbox.open_sandbox("linux", policy=with_mount(folder, path)) as box:
        lane = await lane_after(box)
        await box.move(above, "/workspace/aside")
        assert await value_of(box, look) == "one"
        await until(lambda: lane.child.buried)
        lane = lane_of(box)
        await box.remove_file(above, recursive=True)
        assert await value_of(box, look) == "one"
        await until(lambda: lane.child.buried)
        assert await value_of(box, "import os\nos.listdir('/workspace/aside/data')") == []


async def test_a_program_that_moves_the_place_of_a_mount_ends_its_lane(folder: Path) -> None:
    async with actbox.open_sandbox("linux", policy=with_mount(folder, "/workspace/below/data")) as box:
        lane = await lane_after(box)
        await value_of(box, "import os\nos.rename('/workspace/below', '/workspace/aside')")
        await until(lambda: lane.child.buried)
        look = "[open('/workspace/below/data/a.txt').read(), os.listdir('/workspace/aside/data')]"
        assert await value_of(box, f"import os\n{look}") == ["one", []]


async def test_the_directory_of_inputs_is_read_only_also_after_the_host_has_made_it_anew(folder: Path) -> None:
    async with actbox.open_sandbox("linux", policy=with_mount(folder)) as box:
        lane = await lane_after(box)
        await box.remove_file("/input", recursive=True)
        await box.write_file("/input/a", b"one")
        tried = await box.run("print(open('/input/a').read())\nopen('/input/b', 'w')")
        assert (tried.stdout, tried.error is not None and tried.error.type) == ("one\n", "OSError")
        await until(lambda: lane.child.buried)


async def test_runs_at_once_with_a_mount_never_share_a_lane(folder: Path) -> None:
    code = "import os, time\ntime.sleep(0.1)\nos.readlink('/proc/self/ns/pid')"
    async with actbox.open_sandbox("linux", policy=with_mount(folder)) as box:
        for _ in range(2):
            results = await asyncio.gather(*(box.run(code) for _ in range(4)))
            assert len({result.value for result in results}) == 4


async def test_processor_time_that_a_program_denies_as_it_moves_the_place_of_a_mount_is_owed(tmp_path: Path) -> None:
    policy = Policy(mounts=[FileMount(host_path=tmp_path, mount_path="/workspace/below/data")])
    async with actbox.open_sandbox("linux", policy=policy) as box:
        assert isinstance(box, LinuxSandbox)
        move = "os.rename('/workspace/below', '/workspace/aside')\n"
        assert (await box.run(DENY + "burn()\n" + move + "deny()")).success
        await until(lambda: box._debt._runs == 0)
        assert box._debt.look() == MOST_OWED_SECONDS
