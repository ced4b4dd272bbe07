"""Each limit is reached once, in a run and in a session, and the result names it."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import actbox
from actbox import ErrorKind, ExecutionResult, Limits, Policy, Sandbox, Session, Traits, Unsupported
from tests.clock import Clock
from tests.conftest import OpenBox, engine_check
from tests.contract.left_behind import as_many_as_before

pytestmark = pytest.mark.one_engine_first


@actbox.tool
def echo(text: str) -> str:
    """Give back a text."""
    return text


@dataclass(frozen=True)
class Reach:
    """A program that reaches a limit, and what its result must be; `told` where it is no error but a fact."""

    limit: str
    most: Any
    code: str
    kinds: tuple[ErrorKind, ...] = ()
    told: Callable[[ExecutionResult], bool] = field(default=lambda result: not result.success)
    others: tuple[tuple[str, Any], ...] = ()


_SHARE_OF_TIME = """
import os, time
began, used = time.monotonic(), time.process_time()
while time.process_time() - used < 0.4 and time.monotonic() - began < 3: pass
(time.process_time() - used) / (time.monotonic() - began)
"""
_FORKS = """
import os, signal, time
children = []
for _ in range(40):
    child = os.fork()
    if child == 0:
        time.sleep(30)
        os._exit(0)
    children.append(child)
"""
_TREE = """
import os, time
for _ in range(4):
    if os.fork() == 0:
        held = b'x' * (40 * 2**20)
        time.sleep(300)
        os._exit(0)
time.sleep(300)
"""
# Nobody reads: what was sent is the kernel's to keep.
_SOCKETS = """
import os, socket, time
for _ in range(24):
    if os.fork() == 0:
        held, server = [], socket.create_server(('127.0.0.1', 0))
        for _ in range(6):
            held += [socket.create_connection(server.getsockname()), server.accept()[0]]
            for end in held[-2:]:
                end.setblocking(False)
                try:
                    while True: end.send(bytes(65536))
                except BlockingIOError: pass
        time.sleep(300)
        os._exit(0)
time.sleep(300)
"""

REACHES = (
    Reach("wall_seconds", 30, "import time\nprint('begun', flush=True)\ntime.sleep(600)", (ErrorKind.TIMEOUT,)),
    Reach("cpu_seconds", 1, "while True: pass", (ErrorKind.TIMEOUT,)),
    Reach("cpus", 0.1, _SHARE_OF_TIME, told=lambda result: result.success and result.value < 0.2),
    Reach("memory_mib", 128, "held = b'x' * (512 * 2**20)", (ErrorKind.MEMORY,)),
    Reach("memory_mib", 128, _TREE, (ErrorKind.MEMORY,)),
    Reach("memory_mib", 128, _SOCKETS, (ErrorKind.MEMORY,)),
    Reach("processes", 16, _FORKS, (ErrorKind.PROCESSES,)),
    Reach("open_files", 40, "held = [open('/dev/null') for _ in range(80)]", (ErrorKind.RUNTIME,)),
    Reach("file_mib", 1, "open('big', 'wb').write(bytes(3 * 2**20))", (ErrorKind.DISK,)),
    Reach("workspace_mib", 4, "for n in range(4): open(f'{n}', 'wb').write(bytes(3 * 2**20))", (ErrorKind.DISK,)),
    Reach(
        "disk_mib",
        4,
        "for p in ('/workspace', '/tmp', '/dev/shm'): open(f'{p}/a', 'wb').write(bytes(2**21))",
        (ErrorKind.DISK,),
    ),
    Reach("output_bytes", 10_000, "while True: print('x' * 99)", (ErrorKind.OUTPUT_LIMIT,)),
    Reach("tool_calls", 3, "while True: echo('x')", (ErrorKind.BUDGET,)),
    Reach("tool_bytes", 10_000, "while True: echo('x' * 1000)", (ErrorKind.BUDGET,)),
    Reach("message_bytes", 10_000, "echo('x' * 40_000)", (ErrorKind.TOOL, ErrorKind.RUNTIME)),
    Reach(
        "artifacts",
        3,
        "for n in range(8): open(f'output/{n}', 'w').write('x')",
        told=lambda result: len(result.artifacts) == 3 and bool(result.warnings),
    ),
    Reach(
        "artifact_mib",
        1,
        "for n in range(4): open(f'output/{n}', 'wb').write(bytes(750 * 1024))",
        told=lambda result: len(result.artifacts) == 1 and bool(result.warnings),
    ),
)
IDS = [f"{reach.limit} {number}" for number, reach in enumerate(REACHES)]
# What the guest's own words are about, and no enforcer's.
_UNNAMED = {"open_files", "message_bytes", "workspace_mib", "memory_mib"}


def test_every_limit_is_reached_here() -> None:
    assert {reach.limit for reach in REACHES} == {spec.name for spec in dataclasses.fields(Limits)}


def _of_the_whole_tree(reach: Reach, engine: str) -> None:
    traits = engine_check(engine).traits
    assert traits is not None
    if reach.code == _TREE and "for each process" in traits.enforced.get(reach.limit, ""):
        pytest.skip(f"{engine} enforces {reach.limit} by {traits.enforced[reach.limit]}")
    if reach.code == _SOCKETS and "cgroup" not in traits.enforced.get(reach.limit, ""):
        pytest.skip(f"only a memory cgroup counts what sockets hold; {engine} has none here")


def _check(reach: Reach, result: ExecutionResult) -> None:
    assert reach.told(result), result
    if reach.kinds:
        assert result.error is not None, result
        assert result.error.kind in reach.kinds, result.error
        assert result.exit_code != 0
        if reach.limit not in _UNNAMED:
            assert result.error.limit == reach.limit, result.error


async def _reached(reach: Reach, place: Sandbox | Session, clock: Clock) -> ExecutionResult:
    """Run the program; turn the time where that is what the limit is of."""
    if reach.limit == "wall_seconds":
        return await clock.run_out(place.stream(reach.code, tools=[echo]), reach.most, after="begun")
    return await place.run(reach.code, tools=[echo], timeout=50)


@pytest.mark.parametrize("reach", REACHES, ids=IDS)
async def test_a_run_that_reaches_a_limit_is_told_so(
    reach: Reach, engine: str, open_box: OpenBox, clock: Clock
) -> None:
    _of_the_whole_tree(reach, engine)
    box = await open_box(**{reach.limit: reach.most})
    _check(reach, await _reached(reach, box, clock))
    # Nothing of it is left that would keep the next one from its own.
    assert (await box.run("1 + 1", tools=[echo])).value == 2


# Left to the long run: wall_seconds are also reached below, and the processor is shared out by the same group.
_LEFT_TO_LONG = {"wall_seconds", "cpus"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "reach",
    [
        pytest.param(reach, id=name, marks=pytest.mark.long if reach.limit in _LEFT_TO_LONG else ())
        for reach, name in zip(REACHES, IDS, strict=True)
    ],
)
async def test_a_session_keeps_to_the_same_limit(reach: Reach, engine: str, open_box: OpenBox, clock: Clock) -> None:
    _of_the_whole_tree(reach, engine)
    box = await open_box(**{reach.limit: reach.most})
    async with box.session() as session:
        assert (await session.run("1 + 1", tools=[echo])).value == 2
        _check(reach, await _reached(reach, session, clock))


@pytest.mark.slow
@pytest.mark.parametrize("limit", ["wall_seconds", "output_bytes", "tool_calls", "tool_bytes", "artifacts"])
async def test_limits_of_one_run_begin_anew_with_the_next_of_a_session(
    limit: str, open_box: OpenBox, clock: Clock, patient: None
) -> None:
    reach = next(reach for reach in REACHES if reach.limit == limit)
    box = await open_box(**{limit: reach.most})
    async with box.session() as session:
        for _ in range(2):
            _check(reach, await _reached(reach, session, clock))
            again = await session.run("echo('y')", tools=[echo])
            assert again.value == "y", again


async def test_the_bytes_of_tool_calls_count_arguments_and_results_together(open_box: OpenBox) -> None:
    """Each call has 4 kB there and 4 kB back: of the 22 kB the third call's result is too much."""
    answered: list[int] = []

    @actbox.tool
    def note(text: str) -> str:
        """Give back a text, and note that."""
        answered.append(len(text))
        return text

    box = await open_box(tool_bytes=22_000)
    result = await box.run("for n in range(9):\n    note('x' * 4000)\n    print(n, flush=True)", tools=[note])
    assert result.error is not None
    assert (result.error.kind, result.error.limit) == (ErrorKind.BUDGET, "tool_bytes")
    assert result.stdout.split() == ["0", "1"]
    assert answered == [4000] * 3


async def test_a_call_beyond_the_bytes_is_not_made(open_box: OpenBox) -> None:
    answered: list[int] = []

    @actbox.tool
    def note(text: str) -> None:
        """Note the length of a text."""
        answered.append(len(text))

    box = await open_box(tool_bytes=10_000)
    result = await box.run("note('x')\nnote('x' * 20_000)", tools=[note])
    assert result.error is not None and result.error.limit == "tool_bytes"
    assert answered == [1]


@pytest.mark.long  # five seconds; the share of a single process is tried above
async def test_a_share_of_the_processors_is_one_of_the_whole_tree(open_box: OpenBox) -> None:
    box = await open_box(cpus=0.2, cpu_seconds=30)
    code = (
        "import os, time\nfor _ in range(3): os.fork()\nbegan, used = time.monotonic(), time.process_time()\n"
        "while time.monotonic() - began < 3: pass\nprint(time.process_time() - used, flush=True)\ntime.sleep(2)"
    )
    result = await box.run(code)
    assert result.error is None, result.error
    # Eight processes on any number of processors would have used three seconds on each.
    assert 0 < sum(float(line) for line in result.stdout.split()) < 3 * 0.2 * 2


async def test_the_usage_of_a_program_that_was_stopped_has_its_processor_time_and_memory(open_box: OpenBox) -> None:
    box = await open_box(output_bytes=10_000)
    code = "import time\nwhile time.process_time() < 0.2: pass\nwhile True: print('x' * 1000)"
    usage = (await box.run(code)).usage
    assert usage.cpu_ms >= 150, usage  # the kernel counts in units of up to 10 ms
    assert usage.max_rss_bytes > 2**20, usage


BOMBS = {
    "memory": ("held = []\nwhile True: held.append(bytearray(2**20))", {ErrorKind.MEMORY}),
    "fork": (
        "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
        {ErrorKind.PROCESSES, ErrorKind.TIMEOUT, ErrorKind.MEMORY},
    ),
    "disk": ("n = 0\nwhile True:\n    open(f'{n}', 'wb').write(bytes(2**20))\n    n += 1", {ErrorKind.DISK}),
    "processor": ("while True: pass", {ErrorKind.TIMEOUT}),
    "output": ("while True: print('x' * 10_000)", {ErrorKind.OUTPUT_LIMIT}),
}


@pytest.mark.slow
async def test_files_in_the_page_cache_do_not_count_together_with_sockets(isolated_engine: str, tmp_path: Path) -> None:
    """The kernel keeps what was read for as long as there is room: the group seems full, and is not."""
    with (tmp_path / "big").open("wb") as file:
        file.truncate(160 * 2**20)
    policy = Policy(limits=Limits(memory_mib=128), mounts=[actbox.FileMount(tmp_path, "/data", "ro")])
    code = """
import socket, time
with open('/data/big', 'rb') as file:
    while file.read(2**20): pass
server = socket.create_server(('127.0.0.1', 0))
near = socket.create_connection(server.getsockname())
far, _ = server.accept()
near.setblocking(False)
try:
    while True: near.send(bytes(65536))
except BlockingIOError: pass
time.sleep(0.3)
'went on'
"""
    async with actbox.open_sandbox(isolated_engine, policy=policy) as box:
        result = await box.run(code, timeout=50)
    assert result.value == "went on", result


@pytest.mark.long  # each kind of bomb alone is a test of its own
async def test_twenty_bombs_end_by_their_limits_while_another_sandbox_answers(isolated_engine: str) -> None:
    policy = Policy(
        limits=Limits(wall_seconds=60, cpu_seconds=1, memory_mib=128, workspace_mib=32, output_bytes=1_000_000)
    )

    async def go_off(code: str) -> ExecutionResult:
        async with actbox.open_sandbox(isolated_engine, policy=policy) as box:
            return await box.run(code)

    async def answer(box: Sandbox, until: asyncio.Event) -> int:
        answers = 0
        while not until.is_set():
            result = await box.run(f"{answers} + 1")
            assert result.value == answers + 1, result
            answers += 1
        return answers

    async with actbox.open_sandbox(isolated_engine) as box:
        await box.run("1")
        async with as_many_as_before():
            over = asyncio.Event()
            answering = asyncio.create_task(answer(box, over))
            names = [name for name in BOMBS for _ in range(4)]
            results = await asyncio.gather(*(go_off(BOMBS[name][0]) for name in names))
            over.set()
            assert await answering > 0
            for name, result in zip(names, results, strict=True):
                assert result.error is not None and result.error.kind in BOMBS[name][1], (name, result.error)


def _traits(engine: str) -> Traits:
    traits = engine_check(engine).traits
    assert traits is not None
    return traits


@pytest.mark.slow
@pytest.mark.parametrize("limit", [spec.name for spec in dataclasses.fields(Limits)])
async def test_as_much_as_a_limit_can_be_is_kept_by_the_engine(engine: str, limit: str) -> None:
    (most,) = [spec.metadata["most"] for spec in dataclasses.fields(Limits) if spec.name == limit]
    policy = Policy(limits=Limits(**{limit: most}))
    if limit == "disk_mib" and limit not in _traits(engine).enforced:
        pytest.skip(f"{engine} refuses it")
    async with actbox.open_sandbox(engine, policy=policy, allow_unisolated=True) as box:
        result = await box.run("open('output/a', 'w').write(echo('x'))\nprint('out')\n1 + 1", tools=[echo])
        assert (result.error, result.value, result.stdout) == (None, 2, "out\n")
        assert [artifact.data for artifact in result.artifacts] == [b"x"]
        assert (await box.execute("ls output")).stdout == "a\n"
        if box.traits.sessions:
            async with box.session() as session:
                assert (await session.run("2 + 2")).value == 4


async def test_all_limits_together_can_be_at_their_most(engine: str) -> None:
    enforced = _traits(engine).enforced
    most = {
        spec.name: spec.metadata["most"]
        for spec in dataclasses.fields(Limits)
        if spec.default is not None or spec.name in enforced
    }
    async with actbox.open_sandbox(engine, policy=Policy(limits=Limits(**most)), allow_unisolated=True) as box:
        assert (await box.run("open('/tmp/a', 'w').write('x')\n1 + 1")).value == 2


@pytest.mark.slow
async def test_a_program_that_took_too_long_is_told_what_a_program_can_do(engine: str, open_box: OpenBox) -> None:
    error = (await (await open_box(wall_seconds=0.5)).run("while True: pass")).error
    assert error is not None
    assert "fewer items" in error.hint
    assert "save progress" in error.hint
    assert "longer" not in error.hint


async def test_one_of_something_is_called_one(engine: str, open_box: OpenBox) -> None:
    box = await open_box(wall_seconds=1)
    stuck = await box.run("import time\ntime.sleep(60)")
    assert stuck.error is not None
    assert stuck.error.message == "the program was stopped after 1 second"
    half = await box.run("import time\ntime.sleep(60)", timeout=0.5)
    assert half.error is not None
    assert half.error.message == "the program was stopped after 0.5 seconds"


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        ({"open_files": 32}, "try:\n    kept = [open('/dev/null') for _ in range(99)]\nexcept OSError: met = True"),
        ({"file_mib": 1}, "try:\n    open('a', 'wb').write(bytes(2**22))\nexcept OSError: met = True"),
        ({"workspace_mib": 2}, "try:\n    open('a', 'wb').write(bytes(2**23))\nexcept OSError: met = True"),
        ({"memory_mib": 100}, "try:\n    bytearray(500 * 2**20)\nexcept MemoryError: met = True"),
        (
            {"processes": 8},
            "import threading\nstop = threading.Event()\ntry:\n"
            "    for _ in range(20): threading.Thread(target=stop.wait).start()\n"
            "except RuntimeError: met = True\nfinally: stop.set()",
        ),
    ],
    ids=lambda given: next(iter(given)) if isinstance(given, dict) else "",
)
async def test_what_refuses_a_call_leaves_the_rest_to_the_program(
    limits: dict[str, int], code: str, open_box: OpenBox
) -> None:
    box = await open_box(**limits)
    result = await box.run(f"{code}\nmet")
    assert (result.error, result.value, result.warnings) == (None, True, ())


async def test_too_little_memory_for_any_program_is_refused_when_the_sandbox_is_opened(open_box: OpenBox) -> None:
    least = (await open_box()).traits.least_memory_mib
    assert least > 1
    with pytest.raises(Unsupported, match=rf"needs {least} MiB of memory for any program, but .* allows 1: raise it"):
        await open_box(memory_mib=1)


@pytest.mark.slow
async def test_the_least_memory_that_is_taken_is_enough(open_box: OpenBox) -> None:
    box = await open_box(memory_mib=(await open_box()).traits.least_memory_mib)
    assert (await box.run("1 + 1")).value == 2
    assert (await box.execute("echo out")).stdout == "out\n"
    async with box.session() as session:
        assert (await session.run("1 + 1")).value == 2


async def test_a_timeout_above_the_limit_of_the_policy_is_told(open_box: OpenBox) -> None:
    box = await open_box(wall_seconds=30)
    told = ("timeout=31 is more than the policy's wall_seconds=30, which hold",)
    assert (await box.run("1", timeout=31)).warnings == told
    assert (await box.execute("true", timeout=31)).warnings == told
    assert (await box.run("1", timeout=30)).warnings == ()
    async with box.session() as session:
        assert (await session.run("1", timeout=31)).warnings == told
        assert (await session.run("1")).warnings == ()
