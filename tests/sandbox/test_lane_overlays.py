"""Lanes with overlay mounts: each run has an overlay of its own, with the limits and walls of the first one's."""

from __future__ import annotations

import asyncio
import itertools
import os
import stat
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import actbox
from actbox import AllowedDomain, ErrorKind, ExecutionResult, FileMount, Limits, Policy, Sandbox, SandboxUnavailable
from actbox.sandbox.engines.linux import engine, stock, used
from actbox.sandbox.engines.linux.child import Child
from actbox.sandbox.engines.linux.engine import LinuxSandbox
from actbox.sandbox.engines.linux.lanes import Lane
from actbox.sandbox.engines.linux.stored import StoredWorkspace
from tests.escape.planted import Change, changed_nursery
from tests.sandbox.in_lanes import PLACE, lane_of, lanes_of, linux_works, ready  # noqa: F401 (a fixture for all here)
from tests.waiting import until

# All mounts but for their numbers, and the room in the overlay.
TABLE = (
    "import os\nroom = os.statvfs('/data')\n"
    "lines = [line.split(' ', 3) for line in open('/proc/self/mountinfo')]\n"
    "[sorted(line[3] for line in lines), room.f_blocks, room.f_files, room.f_blocks - room.f_bfree]"
)
CHANGE = (
    "import os\nseen = [sorted(os.listdir('/data')), open('/data/a.txt').read()]\n"
    "open('/data/a.txt', 'a').write(' and {0}')\nos.mkdir('/data/new{0}')\nopen('/data/new{0}/b', 'w').close()\n"
    "os.unlink('/data/gone')\nseen"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory of the host with two files in it, which programs may write."""
    made = tmp_path / "data"
    made.mkdir()
    made.chmod(0o777)
    (made / "a.txt").write_text("one")
    (made / "gone").touch()
    return made


def overlay(folder: Path, path: str = "/data", *, keep: bool = True, limits: Limits | None = None) -> Policy:
    return Policy(mounts=(FileMount(folder, path, "overlay", keep_changes=keep),), limits=limits or Limits())


async def value_of(box: Sandbox, code: str) -> object:
    result = await box.run(code)
    assert result.error is None, result
    await ready(box)
    return result.value


async def lane_after(box: Sandbox, code: str = "1") -> Lane:
    """Run a program; return the lane in which the next one follows."""
    await value_of(box, code)
    return lane_of(box)


async def lane_after_short_run(box: Sandbox) -> Lane:
    """Do as `lane_after` where pid 1 counts memory: a run that was long enough to be looked at ends its lane."""
    for _ in range(1000):
        await value_of(box, "1")
        await ready(box)
        for lane in list(lanes_of(box)._all):
            if lane._fresh is not None:
                return lane
    raise AssertionError("no run was short enough")


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("path", ["/data", "/workspace/below/data", "/input/data"])
async def test_a_run_sees_and_reports_its_own_changes_only(folder: Path, path: str, keep: bool) -> None:
    async with actbox.open_sandbox("linux", policy=overlay(folder, path, keep=keep)) as box:
        places = []
        for number in range(4):
            result = await box.run(CHANGE.replace("/data", path).format(number))
            assert (result.value, result.error) == ([["a.txt", "gone"], "one"], None)
            said = [(change.path, change.kind, change.data) for change in result.changes]
            changes = [
                ("gone", "removed", None),
                ("a.txt", "changed", b"one and %d" % number),
                (f"new{number}/b", "added", b""),
            ]
            assert said == (changes if keep else [])
            await ready(box)
            places.append(await value_of(box, PLACE))
    assert places == [places[0]] * 4
    assert sorted(file.name for file in folder.iterdir()) == ["a.txt", "gone"]


@pytest.mark.parametrize("keep", [True, False])
async def test_the_mounts_of_a_later_run_are_those_of_the_first(folder: Path, keep: bool) -> None:
    file = folder.parent / "file"
    file.write_text("x")
    policy = overlay(folder, keep=keep)
    more = (FileMount(folder, "/workspace/two", "overlay"), FileMount(folder, "/read"), FileMount(file, "/f", "rw"))
    policy = Policy(mounts=(*policy.mounts, *more), domains=(AllowedDomain("allowed.example"),))
    async with actbox.open_sandbox("linux", policy=policy) as box:
        seen = []
        for number in range(4):
            seen.append(await value_of(box, TABLE))
            result = await box.run(CHANGE.format(number) + "\nopen('/tmp/x', 'w').write('x')")
            assert result.error is None
            await ready(box)
        assert len(lanes_of(box)._all) == 1
    assert seen == [seen[0]] * 4


async def test_the_limits_of_an_overlay_hold_in_a_later_run(folder: Path) -> None:
    limits = Limits(workspace_mib=1)
    for keep in (True, False):
        async with actbox.open_sandbox("linux", policy=overlay(folder, keep=keep, limits=limits)) as box:
            lane = await lane_after(box)
            for _ in range(2):
                assert await value_of(box, "open('/data/big', 'wb').write(bytes(900_000))") == 900_000
                error = (await box.run("open('/data/big', 'wb').write(bytes(2_000_000))")).error
                assert error is not None and error.kind is ErrorKind.DISK
                await ready(box)
                error = (await box.run("for n in range(300): open(f'/data/{n}', 'w').close()")).error
                assert error is not None and error.kind is ErrorKind.DISK
                await ready(box)
            assert lane_of(box) is lane


@pytest.mark.parametrize("keep", [True, False])
async def test_what_a_later_run_writes_to_an_overlay_counts_as_memory_where_no_group_counts_it(
    folder: Path, keep: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (engine, stock):
        monkeypatch.setattr(module, "support", lambda: None)
    stock.drain_all()
    limits = Limits(memory_mib=160, workspace_mib=1024, file_mib=1024)
    fill = "import time\nwith open('/data/full', 'wb', 0) as file:\n    for _ in range(300): file.write(bytes(2**20))\n"
    async with actbox.open_sandbox("linux", policy=overlay(folder, keep=keep, limits=limits)) as box:
        lane = await lane_after_short_run(box)
        error = (await box.run(fill + "time.sleep(60)")).error
        assert error is not None and error.kind is ErrorKind.MEMORY
        await until(lambda: lane.child.buried)
    stock.drain_all()


async def test_a_process_that_holds_a_file_of_an_overlay_ends_the_lane(folder: Path) -> None:
    leave = (
        "import os, sys\nfor name, module in list(sys.modules.items()):\n"
        "    if name.endswith('guest.main'): module.is_alone = lambda: True\n"
        "held = open('/data/held', 'w')\nif os.fork() == 0:\n    while True: held.write('x')"
    )
    async with actbox.open_sandbox("linux", policy=overlay(folder)) as box:
        lane = await lane_after(box)
        assert (await box.run(leave)).success
        await until(lambda: lane.child.buried)
        assert await value_of(box, "import os\nsorted(os.listdir('/data'))") == ["a.txt", "gone"]


async def test_what_changes_on_the_host_between_two_runs_is_seen_in_an_overlay(folder: Path) -> None:
    look = "import os\n[os.path.exists('/data/new'), sorted(os.listdir('/data')), open('/data/a.txt').read()]"
    async with actbox.open_sandbox("linux", policy=overlay(folder)) as box:
        for number in range(3):
            (folder / "a.txt").write_text(str(number))
            assert await value_of(box, look) == [False, ["a.txt", "gone"], str(number)]
            (folder / "new").touch()
            assert await value_of(box, look) == [True, ["a.txt", "gone", "new"], str(number)]
            (folder / "new").unlink()
        assert len(lanes_of(box)._all) == 1


async def test_a_lower_directory_that_was_swapped_between_two_runs_is_not_shown_and_ends_its_lane(folder: Path) -> None:
    async with actbox.open_sandbox("linux", policy=overlay(folder)) as box:
        lane = await lane_after(box)
        aside = folder.rename(folder.parent / "aside")
        folder.mkdir()
        error = (await box.run("open('/data/a.txt').read()")).error
        assert error is not None and error.kind is ErrorKind.SANDBOX
        assert "something else lay there when the policy was made" in error.message
        await until(lambda: lane.child.buried)
        folder.rmdir()
        aside.rename(folder)
        assert await value_of(box, "open('/data/a.txt').read()") == "one"


async def test_a_program_that_moves_the_place_of_an_overlay_ends_its_lane(folder: Path) -> None:
    async with actbox.open_sandbox("linux", policy=overlay(folder, "/workspace/below/data")) as box:
        lane = await lane_after(box)
        await value_of(box, "import os\nos.rename('/workspace/below', '/workspace/aside')")
        await until(lambda: lane.child.buried)
        look = "import os\n[open('/workspace/below/data/a.txt').read(), os.listdir('/workspace/aside/data')]"
        assert await value_of(box, look) == ["one", []]


async def test_a_lane_with_an_overlay_sees_the_folder_at_input_as_it_is_now(folder: Path) -> None:
    policy = Policy(mounts=(FileMount(folder, "/data", "overlay"), FileMount(folder, "/input")))
    look = "import os\n[os.path.exists('/input/new'), sorted(os.listdir('/input'))]"
    async with actbox.open_sandbox("linux", policy=policy) as box:
        for _ in range(3):
            assert await value_of(box, look) == [False, ["a.txt", "gone"]]
            (folder / "new").touch()
            assert await value_of(box, look) == [True, ["a.txt", "gone", "new"]]
            (folder / "new").unlink()
        assert len(lanes_of(box)._all) == 1


async def three_at_once(box: Sandbox, code: str) -> list[ExecutionResult]:
    """Run a program three times at once, each with its number as `number`; each goes on when all are at `meet()`."""
    all_there = asyncio.Barrier(3)

    async def meet() -> None:
        await all_there.wait()

    return await asyncio.gather(*(box.run(f"number = {number}\n{code}", tools=[meet]) for number in range(3)))


async def test_runs_at_once_have_overlays_of_their_own(folder: Path) -> None:
    code = (
        "import os\nopen(f'/data/{number}', 'w').close()\nawait meet()\nopen('/tmp/x', 'w').close()\n"
        "[os.readlink('/proc/self/ns/pid'), sorted(os.listdir('/data'))]"
    )
    async with actbox.open_sandbox("linux", policy=overlay(folder)) as box:
        for _ in range(3):
            results = await three_at_once(box, code)
            assert [result.error for result in results] == [None] * 3
            assert len({result.value[0] for result in results}) == 3
            assert [result.value[1] for result in results] == [[str(number), "a.txt", "gone"] for number in range(3)]
            assert [[change.path for change in result.changes] for result in results] == [["0"], ["1"], ["2"]]
            await ready(box)


async def test_programs_of_one_call_have_overlays_of_their_own(folder: Path) -> None:
    async with actbox.open_sandbox("linux", policy=overlay(folder)) as box:
        codes = [f"import os\nopen('/data/{number}', 'w').close()\nsorted(os.listdir('/data'))" for number in range(6)]
        results = [result async for result in box.map(codes, concurrency=1)]
    assert [result.value for result in results] == [[str(number), "a.txt", "gone"] for number in range(6)]
    assert [[change.path for change in result.changes] for result in results] == [[str(n)] for n in range(6)]


async def test_a_session_that_takes_over_a_lane_reports_its_own_changes(folder: Path) -> None:
    async with actbox.open_sandbox("linux", policy=overlay(folder)) as box:
        await lane_after(box, "open('/data/of a run', 'w').close()")
        async with box.session() as session:
            first = await session.run("import os\nopen('/data/x', 'w').close()\nsorted(os.listdir('/data'))")
            second = await session.run("open('/data/y', 'w').close()")
            assert first.value == ["a.txt", "gone", "x"]
            assert [[change.path for change in result.changes] for result in (first, second)] == [["x"], ["x", "y"]]
            assert not lanes_of(box)._all


async def test_a_lane_whose_next_mounts_cannot_be_made_ends(folder: Path) -> None:
    async with actbox.open_sandbox("linux", policy=overlay(folder)) as box:
        lane = await lane_after(box)
        with (
            mock.patch.object(StoredWorkspace, "take_mounts", return_value=None),
            mock.patch.object(StoredWorkspace, "make_mounts", side_effect=SandboxUnavailable("no room")),
        ):
            assert (await box.run("1 + 1")).value == 2
            await until(lambda: lane.child.buried)
        assert await value_of(box, "1 + 1") == 2


def identities(descriptors: Iterable[int]) -> Counter[tuple[int, int]]:
    """Count the descriptors of each file, by device and inode; those that were closed meanwhile do not count."""
    found = Counter[tuple[int, int]]()
    for descriptor in descriptors:
        with suppress(OSError):
            status = os.fstat(descriptor)
            found[status.st_dev, status.st_ino] += 1
    return found


async def test_lanes_keep_no_descriptors_and_no_rights_of_earlier_overlays(folder: Path) -> None:
    def of(lane: Lane) -> list[str]:
        process = used._pid_of(lane.child._pidfd)
        status = Path(f"/proc/{process}/status").read_text().splitlines()
        held = str(len(os.listdir(f"/proc/{process}/fd"))) if os.geteuid() == 0 else ""
        return [held, *(line.split()[1] for line in status if line.startswith(("CapPrm", "CapEff", "CapBnd")))]

    async with actbox.open_sandbox("linux", policy=overlay(folder)) as box:
        assert isinstance(box, LinuxSandbox)
        lane = await lane_after(box)
        before, stored = of(lane), box._stored
        assert stored is not None
        copies: list[int] = []  # while they are open no other file has their identities
        for number in range(3):
            await until(lambda: stored.ahead)
            with stored._lock:
                copies += [os.dup(descriptor) for descriptor in itertools.chain.from_iterable(stored.ahead)]
            await value_of(box, CHANGE.format(number))
        assert of(lane) == before

        def is_closed() -> bool:
            if lane._fresh is None or lane._fresh.overlays is None:
                return False
            reported = [overlay.upper for overlay in lane._fresh.overlays._overlays]
            with stored._lock:
                ahead = list(itertools.chain.from_iterable(stored.ahead))
                # The engine has another descriptor of the workspace.
                known = identities([*copies, stored.folder, stored.folder, *ahead, *reported])
                held = identities(map(int, os.listdir("/proc/self/fd")))
            return all(held[each] == known[each] for each in identities(copies))

        assert len(copies) >= 3 * 4  # the workspace, its inputs, the mount, and what its changes are written to
        await until(is_closed)
        for copy in copies:
            os.close(copy)
        # CAP_DAC_OVERRIDE, CAP_SYS_ADMIN and CAP_SETFCAP, in its own user namespace
        assert before[1:] == [f"{1 << 1 | 1 << 21 | 1 << 31:016x}"] * 2 + ["0" * 16]


async def test_guests_of_a_lane_with_an_overlay_have_the_rights_of_the_first(folder: Path) -> None:
    (folder / "secret").write_text("the host's")
    (folder / "secret").chmod(0)
    if os.geteuid() == 0:
        os.chown(folder / "secret", 1, 1)
    look = (
        "facts = [line for line in open('/proc/self/status') if line.startswith(('Cap', 'NoNewPrivs', 'Seccomp'))]\n"
        "try: facts.append(open('/data/secret').read())\nexcept OSError as error: facts.append(error.errno)\nfacts"
    )
    async with actbox.open_sandbox("linux", policy=overlay(folder)) as box:
        seen = []
        for _ in range(3):
            seen.append(await value_of(box, look))
    assert seen == [seen[0]] * 3
    assert isinstance(seen[0], list) and seen[0][-1] == 13
    assert stat.S_IMODE((folder / "secret").stat().st_mode) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        Change(  # smaller
            "sandbox/nursery/lane.py",
            "        self._overlays = attach_run(self._request, mounts)\n",
            '        self._overlays = attach_run({**self._request, "tmp_mib": 1}, mounts)\n',
        ),
        Change(  # the kernel refuses it
            "sandbox/nursery/lane.py",
            "        needed |= {linux.CAP_DAC_OVERRIDE, linux.CAP_SETFCAP}\n",
            "        needed |= {linux.CAP_SETFCAP}\n",
        ),
    ],
)
async def test_a_lane_ends_where_an_overlay_is_not_what_it_was(folder: Path, change: Change) -> None:
    begun: list[bool] = []
    begin = Child.begin

    def noted(self: Child, request: dict[str, Any], *rest: Any) -> None:
        begun.append("lane" in request)
        begin(self, request, *rest)

    look = "import os\nopen('/data/x', 'w').close()\nos.statvfs('/data').f_blocks"
    with changed_nursery([change]), mock.patch.object(Child, "begin", noted):
        async with actbox.open_sandbox("linux", policy=overlay(folder, keep=False)) as box:
            while not (lanes := begun.count(True)):  # the first sandboxes begin none
                assert await value_of(box, look) == Limits().workspace_mib * 256
            for number in range(2):
                await until(lambda: not lanes_of(box)._all)
                assert await value_of(box, look) == Limits().workspace_mib * 256
                assert begun.count(True) == lanes + number + 1
