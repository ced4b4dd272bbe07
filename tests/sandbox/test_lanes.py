"""Lanes: what an open sandbox keeps between its runs, when it goes on, and when it ends."""

from __future__ import annotations

import asyncio
import gc
import math
import os
import subprocess
import sys
import weakref
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import actbox
from actbox import (
    ErrorKind,
    ExecutionResult,
    InvalidValue,
    Limits,
    Policy,
    Sandbox,
    Unsupported,
)
from actbox.sandbox.engines.linux import lanes as lanes_module
from actbox.sandbox.engines.linux import used
from actbox.sandbox.engines.linux.child import Child
from actbox.sandbox.engines.linux.engine import LinuxSandbox
from actbox.sandbox.engines.linux.hierarchies import support
from actbox.sandbox.engines.linux.lanes import MOST_LANES, Lane, LaneGuest
from actbox.sandbox.nursery.seccomp import allowed_names
from actbox.sandbox.nursery.share_of_time import MOST_OWED_SECONDS
from actbox.sandbox.run_end import Ending, Stop
from tests.escape.planted import Change, changed_nursery
from tests.sandbox.in_lanes import (  # noqa: F401 (fixtures)
    DENY,
    PLACE,
    lane_of,
    lanes_of,
    linux_works,
    ready,
    requests_begun,
)
from tests.waiting import until


async def test_runs_that_leave_nothing_follow_one_another_in_one_place(begun: list[dict[str, Any]]) -> None:
    async with actbox.open_sandbox("linux") as box:
        places = []
        for _ in range(5):
            places.append((await box.run(PLACE)).value)
            await ready(box)
    assert places == [places[0]] * 5
    assert len(begun) == 1


async def test_the_next_guest_is_known_before_a_run_asks_for_it() -> None:
    async with actbox.open_sandbox("linux") as box:
        for _ in range(2):
            await box.run(PLACE)
            lane = lane_of(box)
            await until(lambda: lane._fresh is not None)  # noqa: B023 (it is awaited at once)


async def test_each_run_has_a_fresh_process_and_fresh_folders() -> None:
    look = "import os, sys\nseen = [os.getpid(), 'mark' in globals(), os.listdir('/tmp'), os.listdir('/dev/shm')]\n"
    leave = "mark = 1\nopen('/tmp/x', 'w').close()\nopen('/dev/shm/y', 'w').close()\nopen('kept', 'w').close()\nseen"
    async with actbox.open_sandbox("linux") as box:
        for _ in range(4):
            assert (await box.run(look + leave)).value == [2, False, [], []]
            await ready(box)
        assert (await box.run("import os\n'kept' in os.listdir()")).value is True
        assert len(lanes_of(box)._all) == 1


async def test_a_policy_can_ask_for_new_namespaces_for_each_run(begun: list[dict[str, Any]]) -> None:
    async with actbox.open_sandbox("linux", policy=Policy(namespaces="run")) as box:
        places = [(await box.run(PLACE)).value for _ in range(3)]
        assert isinstance(box, LinuxSandbox) and box._lanes is None
    assert len({str(place) for place in places}) == 3
    assert not any("lane" in request for request in begun)


def test_an_engine_without_the_choice_refuses_it() -> None:
    with pytest.raises(Unsupported, match="namespaces"):
        actbox.open_sandbox("process", policy=Policy(namespaces="run"), allow_unisolated=True)
    with pytest.raises(InvalidValue, match="'lane' or 'run'"):
        Policy(namespaces="both")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [
        ("raise ValueError('x')", 1),
        ("raise SystemExit(3)", 3),
        ("def", 1),
        ("import sys\nsys.stdin.read()", 0),
        ("import os\nos.environ['A'] = 'b'\nos.chdir('/')", 0),
    ],
)
async def test_a_lane_goes_on_after(code: str, exit_code: int, begun: list[dict[str, Any]]) -> None:
    async with actbox.open_sandbox("linux") as box:
        assert (await box.run(code)).exit_code == exit_code
        await ready(box)
        assert (await box.run("1 + 1")).value == 2
    assert len(begun) == 1


@pytest.mark.parametrize(
    "code",
    [
        "import os\nos.kill(os.getpid(), 9)",
        "import os\nos._exit(0)",
        "import os\nos._exit(231)",
        "import subprocess\nsubprocess.run(['true'])",
        "import socket\nsocket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 9))",
        "import threading, time\nthreading.Thread(target=time.sleep, args=(9,), daemon=True).start()",
    ],
)
async def test_a_lane_ends_after(code: str, begun: list[dict[str, Any]]) -> None:
    async with actbox.open_sandbox("linux") as box:
        await box.run(code)
        await ready(box)
        assert (await box.run("1 + 1")).value == 2
    assert len(begun) == 2


async def test_a_run_that_met_a_limit_ends_its_lane() -> None:
    limits = Limits(processes=3, memory_mib=256)
    code = "import threading, time\nfor _ in range(5):\n    threading.Thread(target=time.sleep, args=(0.2,)).start()"
    async with actbox.open_sandbox("linux", policy=Policy(limits=limits)) as box:
        assert not (await box.run(code)).success
        await ready(box)
        again = await box.run("import threading\nt = threading.Thread(target=print)\nt.start()\nt.join()\n1 + 1")
        assert (again.value, again.error) == (2, None)


@pytest.mark.parametrize(
    ("code", "limits", "needs"),
    [
        ("open('kept', 'wb').write(bytes(40 << 20))", {"memory_mib": 256}, "memory"),
        ("import time\nwhile time.process_time() < 0.3: pass", {"cpus": 0.2}, "cpu"),
    ],
)
async def test_a_lane_ends_where_its_control_group_is_not_as_it_was(
    code: str, limits: dict[str, Any], needs: str, begun: list[dict[str, Any]]
) -> None:
    groups = support()
    if groups is None or needs not in groups.places:
        pytest.skip(f"no control group limits {needs} here")
    async with actbox.open_sandbox("linux", policy=Policy(limits=Limits(**limits))) as box:
        assert (await box.run(code)).success
        await ready(box)
        assert (await box.run("1 + 1")).value == 2
    assert len(begun) == 2


@pytest.mark.slow
async def test_runs_go_on_in_lanes_where_this_user_may_watch_no_more_files() -> None:
    used_up = Change(
        "sandbox/nursery/linux.py",
        '    return _check(_libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC), "inotify_init1")\n',
        "    raise OSError(errno.EMFILE, 'none is left')\n",
    )
    with changed_nursery([used_up]):
        async with actbox.open_sandbox("linux") as box:
            while not lanes_of(box)._all:  # the first sandboxes begin none
                await box.run("1")
                await asyncio.sleep(0.02)
            (lane,) = lanes_of(box)._all
            for _ in range(3):
                await ready(box)
                seen = await box.run("import os\nwas = os.listdir('/tmp')\nopen('/tmp/x', 'w').close()\nwas")
                assert (seen.value, seen.error) == ([], None)
            assert lanes_of(box)._all == {lane}


async def test_a_program_that_lies_about_its_end_is_ended_with_its_result() -> None:
    lie = """
import os, sys, time
for name, module in list(sys.modules.items()):
    if name.endswith("guest.main"):
        module.is_alone = lambda: True
if os.fork() == 0:
    while True:
        open("/workspace/mark", "a").write("x")
"""
    async with actbox.open_sandbox("linux") as box:
        await box.run("1")
        await ready(box)
        lane = lane_of(box)
        with mock.patch.object(LaneGuest, "released"):  # however long the caller takes to read the result
            lane = lane_of(box)  # it may be gone by the time of the result
            assert (await box.run(lie)).success
            assert lane.guest.is_over
            await until(lambda: not used._descendants(used._pid_of(lane.child._pidfd)))


@pytest.mark.parametrize(
    ("code", "times_begun"),
    [
        ("burn()\ndeny()", {1}),
        ("burn()\ndeny()\nsocket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 9))", {2}),
        # Pid 1 may end it before it ends itself in this way.
        ("burn()\ndeny()\nleave = os._exit\nos._exit = lambda code, leave=leave: leave(5)", {1, 2}),
        ("deny()\nif os.fork() == 0:\n    while True:\n        pass\ntime.sleep(0.01)", {2}),
    ],
)
async def test_processor_time_that_a_program_denies_is_owed(
    code: str, times_begun: set[int], begun: list[dict[str, Any]]
) -> None:
    async with actbox.open_sandbox("linux") as box:
        assert isinstance(box, LinuxSandbox)
        await box.run("1")
        await ready(box)
        assert box._debt.look() < MOST_OWED_SECONDS / 2
        assert (await box.run(DENY + code)).success
        await ready(box)
        await until(lambda: box._debt.look() == MOST_OWED_SECONDS)
        await box.run("1")
    assert len(begun) in times_begun


async def test_processor_time_that_a_program_without_a_lane_denies_is_owed_where_a_control_group_counts_it() -> None:
    groups = support()
    async with actbox.open_sandbox("linux", policy=Policy(namespaces="run")) as box:
        assert isinstance(box, LinuxSandbox)
        assert (await box.run("1")).success
        await until(lambda: box._debt._runs == 0)
        assert box._debt.look() < MOST_OWED_SECONDS / 2
        assert (await box.run(DENY + "burn()\ndeny()")).success
        await until(lambda: box._debt._runs == 0)
        is_owed = box._debt.look() == MOST_OWED_SECONDS
    assert is_owed == (groups is not None and bool(groups.time_counter))


async def test_a_run_of_which_pid_1_cannot_tell_owes_the_most() -> None:
    async with actbox.open_sandbox("linux") as box:
        assert isinstance(box, LinuxSandbox)
        with mock.patch.object(Child, "tell"):  # pid 1 never hears that it should go on
            assert (await box.run("1")).success
        assert box._debt.look() < MOST_OWED_SECONDS / 2
        lane_of(box).child.kill()
        await until(lambda: box._debt.look() == MOST_OWED_SECONDS)


async def test_a_lane_keeps_nothing_of_a_run_that_is_over() -> None:
    class Held:
        def answer(self) -> int:
            """Return a number."""
            return 1

    async def a_run(box: Sandbox) -> weakref.ref[Held]:
        held = Held()
        assert (await box.run("answer()", tools=[held.answer])).value == 1
        return weakref.ref(held)

    async with actbox.open_sandbox("linux") as box:
        for _ in range(2):
            of_the_run = await a_run(box)
            assert lanes_of(box)._all

            def is_gone() -> bool:
                gc.collect()
                return of_the_run() is None  # noqa: B023

            await until(is_gone)


async def test_the_end_of_a_lane_is_told_without_a_lock() -> None:
    async with actbox.open_sandbox("linux") as box:
        await box.run("1")
        (lane,) = lanes_of(box)._all
        held: list[bool] = []
        lane.child.when_buried(lambda ending: held.append(lane.child._lock.locked()))
        lane.child.kill()
        await until(lambda: held == [False])


async def at_once(box: Sandbox, code: str, count: int) -> list[ExecutionResult]:
    """Run a program so often at the same time: each goes on when all have begun."""
    all_there = asyncio.Barrier(count)

    async def meet() -> None:
        await all_there.wait()

    return await asyncio.gather(*(box.run(f"await meet()\n{code}", tools=[meet]) for _ in range(count)))


async def test_runs_at_once_never_share_a_lane() -> None:
    async with actbox.open_sandbox("linux") as box:
        for _ in range(3):
            results = await at_once(box, "import os\nos.readlink('/proc/self/ns/pid')", 5)
            assert len({result.value for result in results}) == 5


async def test_after_a_run_that_had_company_the_lane_goes_on_in_a_new_mount_namespace() -> None:
    async with actbox.open_sandbox("linux") as box:
        alone = (await box.run(PLACE)).value
        await ready(box)
        assert (await box.run(PLACE)).value == alone
        await ready(box)
        async with box.session(forkable=True):
            assert (await box.run(PLACE)).value == alone
            await ready(box)
        beside = (await box.run(PLACE)).value
        assert beside[0] == alone[0] and beside[1] != alone[1]
        await ready(box)
        assert (await box.run(PLACE)).value == beside


async def test_a_lane_ends_if_its_run_had_company_after_its_result_and_before_its_end() -> None:
    async with actbox.open_sandbox("linux") as box:
        for met_at, goes_on in ((math.inf, True), (0.0, False)):
            await box.run("1")
            (lane,) = lanes_of(box)._all
            lane.guest.met_at = met_at
            await ready(box)
            assert (await box.run("2")).value == 2
            assert (lane in lanes_of(box)._all) is goes_on
            await ready(box)


async def test_a_run_that_is_over_just_as_the_sandbox_stops_is_known_to_end() -> None:
    ended: list[Ending] = []
    end_run = Lane.end_run

    def stopped_meanwhile(self: Lane, guest: LaneGuest, used_ms: float, **rest: bool) -> bool:
        guest.stopped = Stop(ErrorKind.CANCELLED, "the sandbox was stopped")
        guest.kill()
        guest.when_ended(ended.append)
        return end_run(self, guest, used_ms, **rest)

    async with actbox.open_sandbox("linux") as box:
        with mock.patch.object(Lane, "end_run", stopped_meanwhile):
            await box.run("1")
        await until(lambda: bool(ended))


async def test_sandboxes_never_share_a_lane_and_a_stopped_one_leaves_none() -> None:
    seen = set()
    async with AsyncExitStack() as stopped:  # later: the kernel gives the numbers of namespaces that are gone again
        boxes = [await stopped.enter_async_context(actbox.open_sandbox("linux")) for _ in range(3)]
        for box in boxes * 2:
            seen.add((await box.run("import os\nos.readlink('/proc/self/ns/pid')")).value)
            await ready(box)
        children = [lane_of(box).child for box in boxes]
    await until(lambda: all(child.buried for child in children))
    assert len(seen) == 3


async def test_commands_and_programs_follow_one_another_in_one_lane(begun: list[dict[str, Any]]) -> None:
    look = "readlink /proc/self/ns/pid /proc/self/ns/mnt /proc/self/ns/net; echo $$ | cat; ls -A /tmp /dev/shm; "
    async with actbox.open_sandbox("linux") as box:
        seen = set()
        for code in (231, 0, 3):  # the first of them is what a program's guest ends with
            result = await box.execute(look + f"cat; touch /tmp/x /dev/shm/x; exit {code}", stdin=b"given")
            assert result.exit_code == code
            seen.add(result.stdout)
            await ready(box)
            assert (await box.run("import os\n[os.getpid(), os.listdir('/tmp')]")).value == [2, []]
            await ready(box)
        assert (await box.execute("no-such-command")).exit_code == 127
        await ready(box)
        assert (await box.run("1 + 1")).value == 2
    assert len(seen) == 1
    assert len(begun) == 1


@pytest.mark.parametrize(
    ("command", "exit_code"),
    [("sleep 60 & sleep 0.01", 0), ("kill -9 $$", 137), ("echo x > /dev/udp/127.0.0.1/9", 0)],
)
async def test_a_lane_ends_after_a_command_that(command: str, exit_code: int, begun: list[dict[str, Any]]) -> None:
    async with actbox.open_sandbox("linux") as box:
        assert (await box.execute(["bash", "-c", command])).exit_code == exit_code
        await ready(box)
        assert (await box.execute("echo x")).stdout == "x\n"
    assert len(begun) == 2


async def test_a_command_in_a_lane_can_be_stopped_and_meets_limits(begun: list[dict[str, Any]]) -> None:
    wait = "mkfifo never; exec 3<>never; sleep 60 & one=$!; sleep 60 & two=$!\n"
    wait += "until [ -e go ]; do read -t 0.02 -u 3; done; kill $one $two; wait; exit 3"
    async with actbox.open_sandbox("linux", policy=Policy(limits=Limits(processes=3))) as box:
        await box.execute("true")
        await ready(box)
        met = asyncio.create_task(box.execute(["bash", "-c", wait]))
        await until(lambda: any(lane.child._heard.get("limit") for lane in lanes_of(box)._all))
        await box.write_file("go", b"")
        error = (await met).error
        assert error is not None and error.limit == "processes"
        assert (await box.execute("true")).success
        await ready(box)
        assert (await box.execute("sleep 60", timeout=0.1)).exit_code == 124
        assert (await box.execute("true")).success
    assert len(begun) == 3


async def test_the_processor_time_of_a_command_is_owed_once() -> None:
    async with actbox.open_sandbox("linux") as box:
        assert isinstance(box, LinuxSandbox)
        used_ms = (await box.execute("true")).usage.cpu_ms
        for _ in range(2):
            assert box._debt.look() == pytest.approx(used_ms / 1000, abs=1e-5)
            await ready(box)


async def test_a_session_takes_over_the_guest_that_waits_in_a_lane(begun: list[dict[str, Any]]) -> None:
    def capabilities(lane: Lane) -> str:
        status = Path(f"/proc/{used._pid_of(lane.child._pidfd)}/status").read_text()
        return next(line for line in status.splitlines() if line.startswith("CapPrm"))

    async with actbox.open_sandbox("linux") as box:
        place = (await box.run(PLACE)).value
        await ready(box)
        lane = lane_of(box)
        before = capabilities(lane)
        async with box.session() as session:
            assert (await session.run(PLACE + "[0]")).value == place[0]
            assert int(before.split()[1], 16) and not int(capabilities(lane).split()[1], 16)
            assert not lanes_of(box)._all
            await until(lambda: bool(box._pool.ready))  # type: ignore[attr-defined]
            assert (await session.run("kept = 1")).success
            assert (await session.run("while True: pass", timeout=0.1)).exit_code == 124
            assert (await session.run("kept")).value == 1
            assert (await box.run(PLACE + "[0]")).value != place[0]
            ended = await session.run("import os\nos._exit(231)")
            assert ended.exit_code == 231 and not session.alive
        await until(lambda: lane.child.buried)
        assert lane not in lanes_of(box)._all
    assert ["lane" in request for request in begun] == [True, True]


async def test_forkable_sessions_leave_a_lane_alone(begun: list[dict[str, Any]]) -> None:
    async with actbox.open_sandbox("linux") as box:
        assert (await box.run("1")).value == 1
        await ready(box)
        async with box.session(forkable=True) as session:
            assert (await session.run("2")).value == 2
        assert (await box.run("3")).value == 3
    assert ["lane" in request for request in begun] == [True, False]


async def test_a_run_in_a_lane_has_standard_input_and_can_be_stopped() -> None:
    async with actbox.open_sandbox("linux") as box:
        await box.run("1")
        await ready(box)
        result = await box.run("while True: pass", timeout=0.3)
        assert result.exit_code == 124
        assert (await box.run("1 + 1")).value == 2
        await ready(box)
        running = asyncio.create_task(box.run("print('on', flush=True)\nwhile True: pass"))
        lanes = lanes_of(box)
        await until(lambda: any(lane.guest.has_begun and not lane.guest.is_over for lane in lanes._all))
        await box.stop()
        assert (await running).exit_code == 137
        await until(lambda: not lanes._all)


async def test_more_runs_at_once_than_lanes_get_sandboxes_of_their_own() -> None:
    with mock.patch.object(lanes_module, "MOST_LANES", 2):
        async with actbox.open_sandbox("linux") as box:
            results = await at_once(box, "1", 5)
            assert [result.value for result in results] == [1] * 5
            assert len(lanes_of(box)._all) <= 2
    assert MOST_LANES > 2


async def test_a_lane_is_replaced_after_many_runs(begun: list[dict[str, Any]]) -> None:
    with mock.patch.object(lanes_module, "_MOST_RUNS", 2):
        async with actbox.open_sandbox("linux") as box:
            for _ in range(4):
                assert (await box.run("1")).value == 1
                await ready(box)
    assert len(begun) == 2


async def test_idle_lanes_end_after_some_time() -> None:
    async with actbox.open_sandbox("linux") as box:
        await at_once(box, "", 3)
        lanes = lanes_of(box)
        kept = box._stock  # type: ignore[attr-defined]
        assert len(lanes._all) == 3
        with mock.patch.object(lanes_module, "_QUIET_SECONDS", -1):
            assert lanes in kept.lanes  # the stock's thread does this now and then
            for _ in range(5):
                lanes.relax(1)
        await until(lambda: len(lanes._all) == 1)
        assert (await box.run("1 + 1")).value == 2


async def test_a_lane_that_does_not_come_back_is_ended(begun: list[dict[str, Any]]) -> None:
    async with actbox.open_sandbox("linux") as box:
        with mock.patch.object(Child, "tell"):  # pid 1 never hears that it should go on
            await box.run("1")
        (lane,) = lanes_of(box)._all
        with mock.patch.object(lanes_module, "_CLEARING_SECONDS", -1):
            assert (await box.run("1 + 1")).value == 2
        await until(lambda: lane.child.ended)
    assert len(begun) == 2


async def test_processor_time_of_earlier_runs_does_not_count() -> None:
    limits = Limits(cpu_seconds=1, wall_seconds=30)
    burn = "import time\nwhile time.process_time() < 0.4: pass\n1"
    async with actbox.open_sandbox("linux", policy=Policy(limits=limits)) as box:
        for _ in range(4):
            result = await box.run(burn)
            assert (result.value, result.error) == (1, None)


@pytest.mark.slow
def test_a_forked_process_leaves_lanes_to_its_parent(tmp_path: Path) -> None:
    code = """
import asyncio, os, actbox
async def main():
    async with actbox.open_sandbox("linux") as box:
        while not box._lanes._all:  # the first sandboxes begin none
            await box.run("1")
            await asyncio.sleep(0.02)
        child = os.fork()
        if child == 0:
            try:
                await box.run("1")
            except actbox.ActboxError as error:
                print("child:", type(error).__name__, flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        print("parent:", (await box.run("1 + 1")).value, len(box._lanes._all) >= 1, flush=True)
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert "parent: 2 True" in done.stdout, (done.stdout, done.stderr)
    assert "child: " in done.stdout, (done.stdout, done.stderr)


def test_the_filter_rules_out_what_a_program_could_leave_in_the_kernel() -> None:
    families = (
        "shmget semget msgget mq_open add_key request_key keyctl memfd_create memfd_secret io_setup io_uring_setup "
        "fanotify_init userfaultfd perf_event_open bpf name_to_handle_at setxattr fsetxattr lsetxattr"
    )
    for forkable in (False, True):
        assert not allowed_names(chroot=forkable).intersection(families.split())


async def test_pid_1_of_a_lane_is_the_same_from_outside_before_and_after_runs() -> None:
    def of(process: int) -> dict[str, str]:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
        facts = dict(line.split(":", 1) for line in lines)
        names = ("SigBlk", "SigCgt", "SigPnd", "ShdPnd", "CapPrm", "CapEff", "CapBnd", "NoNewPrivs", "Threads")
        seen = {name: facts[name].strip() for name in names}
        seen["oom"] = Path(f"/proc/{process}/oom_score_adj").read_text()
        seen["limits"] = Path(f"/proc/{process}/limits").read_text()
        seen["descriptors"] = str(len(os.listdir(f"/proc/{process}/fd"))) if os.geteuid() == 0 else ""
        return seen

    async with actbox.open_sandbox("linux") as box:
        await box.run("1")
        await ready(box)
        (lane,) = lanes_of(box)._all
        process = used._pid_of(lane.child._pidfd)
        before = of(process)
        for code in ("1", "open('/tmp/x', 'w')", "raise ValueError", "import os\nos.nice(3)"):
            await box.run(code)
            await ready(box)
        await until(lambda: of(process) == before)  # once it has read of its guest's end
        assert before["CapEff"] == f"{1 << 21:016x}"  # CAP_SYS_ADMIN, in its own user namespace
        assert before["SigCgt"] == "0" * 16
