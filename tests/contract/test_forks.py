"""Copies of a session: what each has of its own, what they share, and when there can be none."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio

import actbox
from actbox import (
    CannotFork,
    ErrorKind,
    FileMount,
    InvalidValue,
    Policy,
    Program,
    Sandbox,
    SandboxStopped,
    Session,
    Unsupported,
)
from actbox.sandbox import sessions
from tests.clock import Clock
from tests.conftest import OpenBox
from tests.contract.left_behind import nothing_left_behind
from tests.waiting import until

OpenSession = Callable[..., Awaitable[Session]]


@pytest.fixture
def open_forkable(open_box: OpenBox) -> OpenSession:
    """Return a function that opens a forkable session in a box of its own."""

    async def open_one(policy: Policy | None = None, **given: object) -> Session:
        box: Sandbox = await open_box(policy, **given)
        if not box.traits.fork:
            pytest.skip(f"{box.traits.engine} cannot fork sessions")
        session = box.session(forkable=True)
        await session.start()
        return session

    return open_one


@pytest_asyncio.fixture
async def origin(open_forkable: OpenSession) -> AsyncIterator[Session]:
    async with await open_forkable() as session:
        yield session


def add(a: int, b: int = 10) -> int:
    """Add."""
    return a + b


# What each has of its own


async def test_a_copy_has_the_values_of_that_moment_and_then_its_own(origin: Session) -> None:
    await origin.run("import math\nx = [1]\ndef double(n): return 2 * n")
    copy = await origin.fork()
    assert (await copy.run("x.append(double(math.floor(4.5)))\nx")).value == [1, 8]
    assert (await origin.run("x.append('origin')\nx")).value == [1, "origin"]
    assert (await copy.run("x")).value == [1, 8]


async def test_a_copy_has_files_of_its_own(origin: Session) -> None:
    write = (
        "import os\nfor folder in ('/workspace', '/tmp', '/dev/shm'):\n"
        "    os.makedirs(folder + '/deep/er', exist_ok=True)\n    open(folder + '/deep/er/f', 'w').write({!r})\n"
    )
    read = "[open(folder + '/deep/er/f').read() for folder in ('/workspace', '/tmp', '/dev/shm')]"
    await origin.run(write.format("origin"))
    copy = await origin.fork()
    assert (await copy.run(read)).value == ["origin"] * 3
    await copy.run(write.format("copy"))
    assert (await origin.run(read)).value == ["origin"] * 3
    assert (await copy.run(read)).value == ["copy"] * 3
    await origin.run("os.remove('/workspace/deep/er/f')")
    assert (await copy.run("open('deep/er/f').read()")).value == "copy"


async def test_files_are_copied_as_they_are(origin: Session) -> None:
    made = (
        "import os\nopen('run.sh', 'w').write('#!/bin/sh\\necho ran\\n')\nos.chmod('run.sh', 0o750)\n"
        "os.utime('run.sh', (1, 2))\nos.symlink('run.sh', 'link')\nos.symlink('/nowhere', 'broken')\n"
        "os.link('run.sh', 'twin')\nos.mkfifo('pipe')\nos.mkdir('locked')\nos.chmod('locked', 0o500)\n"
        "f = open('holes', 'wb')\nf.seek(2**26)\nf.write(b'end')\nf.close()\n"
    )
    look = (
        "import os, subprocess\ns = os.stat('run.sh')\n"
        "[subprocess.run(['./link'], capture_output=True, text=True).stdout, oct(s.st_mode), s.st_mtime, s.st_nlink,"
        " os.readlink('broken'), os.path.samefile('run.sh', 'twin'), oct(os.stat('pipe').st_mode),"
        " oct(os.stat('locked').st_mode), os.stat('holes').st_size, os.stat('holes').st_blocks < 100]"
    )
    assert (await origin.run(Program(made))).success
    there = (await origin.run(look)).value
    assert there[0] == "ran\n"
    copy = await origin.fork()
    assert (await copy.run(look)).value == there


async def test_open_files_are_the_copys_own_at_the_same_position(origin: Session) -> None:
    await origin.run(
        "open('a', 'w').write('0123456789')\nf = open('a')\nf.read(3)\ng = open('log', 'a')\ng.write('one ')"
    )
    copy = await origin.fork()
    assert (await copy.run("g.write('copy')\ng.flush()\n[f.read(2), open('log').read()]")).value == ["34", "one copy"]
    assert (await origin.run("g.write('origin')\ng.flush()\n[f.read(2), open('log').read()]")).value == [
        "34",
        "one origin",
    ]


async def test_what_a_copy_has_written_to_an_open_file_is_written_at_its_end(origin: Session) -> None:
    # The list holds itself, so only the end of the process flushes the file in it.
    await origin.run(
        "import os\nr, w = os.pipe()\nkept = [os.fdopen(w, 'w')]\nkept.append(kept)\nkept[0].write('one ')"
    )
    copy = await origin.fork()
    again = await copy.fork()
    assert (await again.run("kept[0].write('copy')\nNone")).success
    await again.close()
    assert (await origin.run("os.read(r, 100)")).value == b"one copy"


async def test_a_session_that_has_used_up_its_files_is_copied_and_goes_on(origin: Session) -> None:
    failed = await origin.run("kept = []\nwhile True:\n    kept.append(open('/dev/null'))")
    assert failed.error is not None and failed.error.limit == "open_files"
    copy = await origin.fork()
    look = "kept[-1].closed"
    assert [(await session.run(look)).value for session in (origin, copy)] == [False, False]


async def test_a_copy_is_in_the_same_folder_by_name(origin: Session) -> None:
    await origin.run("import os\nos.mkdir('here')\nos.chdir('here')\nopen('f', 'w').write('origin')")
    copy = await origin.fork()
    assert (await copy.run("open('f', 'w').write('copy')\nos.getcwd()")).value == "/workspace/here"
    assert (await origin.run("open('f').read()")).value == "origin"


async def test_files_are_read_and_written_from_outside_by_session(origin: Session) -> None:
    await origin.write_text("a/b", "origin")
    copy = await origin.fork()
    await copy.write_text("a/b", "copy")
    await copy.write_text("/input/given", "given")
    assert (await copy.run("open('/input/given').read() + open('a/b').read()")).value == "givencopy"
    assert (await origin.run("open('a/b').read()")).value == "origin"
    assert [entry.path for entry in await copy.list_files("a")] == ["a/b"]
    assert not (await copy.run("open('/input/more', 'w')")).success


async def test_artifacts_and_output_are_each_copys_own(origin: Session) -> None:
    copy = await origin.fork()
    result = await copy.run("print('copy')\nopen('/output/copy.txt', 'w').write('x')")
    assert (result.stdout, [artifact.name for artifact in result.artifacts]) == ("copy\n", ["copy.txt"])
    result = await origin.run("print('origin')")
    assert (result.stdout, result.artifacts) == ("origin\n", ())


async def test_what_was_printed_and_not_written_out_comes_once(origin: Session) -> None:
    await origin.run("import sys\nf = open('out', 'w')\nf.write('once')")
    copy = await origin.fork()
    for session in (origin, copy):
        assert (await session.run("f.close()\nopen('out').read()")).value == "once"


async def test_tools_are_given_to_each_by_itself(origin: Session) -> None:
    await origin.run("def later(): return add(1)", tools=[add])
    copy = await origin.fork()
    assert (await copy.run("later()", tools=[add])).value == 11
    assert (await copy.run("import asyncio\nawait asyncio.gather(add(1, 1), add(2, 2))", tools=[add])).value == [2, 4]
    error = (await origin.run("add(1)")).error
    assert error is not None and error.type == "NameError"


async def test_tasks_go_on_in_both(origin: Session) -> None:
    await origin.run(
        "import asyncio\nticks = []\nasync def tick():\n    while True:\n        ticks.append(1)\n"
        "        await asyncio.sleep(0.01)\ntask = asyncio.create_task(tick())\nawait asyncio.sleep(0)"
    )
    copy = await origin.fork()
    goes_on = "more = len(ticks) + 3\nwhile len(ticks) < more: await asyncio.sleep(0.01)"
    for session in (copy, origin):
        assert (await session.run(goes_on)).success
    await copy.run("task.cancel()\nawait asyncio.sleep(0)")
    assert (await origin.run(goes_on)).success


async def test_chance_is_each_ones_own(origin: Session) -> None:
    await origin.run("import random")
    values = [(await (await origin.fork()).run("random.random()")).value for _ in range(2)]
    assert values[0] != values[1]


# One of many


async def test_copies_can_be_copied_and_outlive_their_origin(origin: Session) -> None:
    await origin.run("x = 'origin'\nopen('f', 'w').write(x)")
    child = await origin.fork()
    await child.run("x += ' child'\nopen('f', 'w').write(x)")
    grandchild = await child.fork()
    await origin.close()
    await child.close()
    assert (await grandchild.run("[x, open('f').read()]")).value == ["origin child"] * 2
    last = await grandchild.fork()
    assert (await last.run("x")).value == "origin child"


async def test_copies_run_at_once(origin: Session) -> None:
    copies = [await origin.fork() for _ in range(4)]
    all_are_here = asyncio.Barrier(4)

    async def meet() -> None:
        await all_are_here.wait()

    results = await asyncio.gather(*(copy.run(f"meet()\n{n}", tools=[meet]) for n, copy in enumerate(copies)))
    assert [result.value for result in results] == [0, 1, 2, 3]


async def test_a_copy_waits_for_the_program_that_runs(origin: Session) -> None:
    begun = asyncio.Event()

    async def begin() -> None:
        begun.set()

    running = asyncio.create_task(origin.run("import time\nbegin()\ntime.sleep(0.2)\nx = 1", tools=[begin]))
    await begun.wait()
    copy = await origin.fork()
    assert running.done()
    assert (await copy.run("x")).value == 1


async def test_a_session_can_be_forked_before_its_first_program(open_box: OpenBox) -> None:
    box = await open_box()
    if not box.traits.fork:
        pytest.skip("no forks")
    session = box.session(forkable=True)
    copy = await session.fork()
    assert (await copy.run("1 + 1")).value == 2


@pytest.mark.slow
async def test_many_copies(origin: Session) -> None:
    await origin.run("x = list(range(1000))")
    copies = [await origin.fork() for _ in range(20)]
    results = await asyncio.gather(*(copy.run(f"x.append({n})\nx[-1]") for n, copy in enumerate(copies)))
    assert [result.value for result in results] == list(range(20))
    await asyncio.gather(*(copy.close() for copy in copies[::2]))
    assert (await copies[1].run("x[-1]")).value == 1
    assert (await origin.run("len(x)")).value == 1000


# Snapshots and branches


async def test_a_snapshot_stays_what_the_session_was(origin: Session) -> None:
    await origin.run("x = 1\nopen('f', 'w').write('1')")
    async with await origin.snapshot() as snapshot:
        await origin.run("x = 2\nopen('f', 'w').write('2')")
        for _ in range(2):
            copy = await snapshot.fork()
            assert (await copy.run("x += 10\nopen('f').read(), x")).value == ("1", 11)
        assert snapshot.alive
    assert not snapshot.alive
    assert (await copy.run("x")).value == 11
    with pytest.raises(SandboxStopped):
        await snapshot.fork()


async def test_the_branch_that_is_chosen_is_kept(origin: Session) -> None:
    await origin.run("x = 1")
    async with origin.branches(10) as branches:
        results = await branches.run([f"x += {n}\nx" for n in range(10)])
        best = branches.keep(max(range(10), key=lambda place: results[place].value))
        again = branches.keep(branches[0])
        assert len(branches) == 10
    assert (await best.run("x")).value == 10
    assert (await again.run("x")).value == 1
    assert [branch.alive for branch in branches] == [True] + 8 * [False] + [True]
    assert (await origin.run("x")).value == 1


async def test_branches_are_closed_when_their_block_fails(origin: Session) -> None:
    with pytest.raises(ZeroDivisionError):
        async with origin.branches(2) as branches:
            raise ZeroDivisionError
    assert not any(branch.alive for branch in branches)


async def test_branches_take_a_program_each(origin: Session) -> None:
    for count in (0, -1, True, 1.5, "2"):
        with pytest.raises(InvalidValue):
            async with origin.branches(count):  # type: ignore[arg-type]
                pass
    async with origin.branches(2) as branches:
        for programs in (["1"], "11", ["1", "2", "3"]):
            with pytest.raises(InvalidValue):
                await branches.run(programs)
        with pytest.raises(InvalidValue):
            branches.keep(origin)
        with pytest.raises(IndexError, match="one of the 2 branches, or its place, and 2 is the place of none"):
            branches.keep(2)


# When there can be no copy


async def test_a_session_with_threads_is_refused_by_their_names(origin: Session) -> None:
    await origin.run(
        "import threading\nstop = threading.Event()\n"
        "threads = [threading.Thread(target=stop.wait, name=name) for name in ('reader', 'writer')]\n"
        "for thread in threads: thread.start()"
    )
    for copying in (origin.fork, origin.snapshot):
        with pytest.raises(CannotFork, match=r"threads of its own.*reader, writer"):
            await copying()
    with pytest.raises(CannotFork):
        async with origin.branches(2):
            pass
    await origin.run("stop.set()\nfor thread in threads: thread.join()")
    assert (await (await origin.fork()).run("stop.is_set()")).value is True


@pytest.mark.slow
async def test_only_a_session_opened_as_forkable_is_forked(open_box: OpenBox) -> None:
    box = await open_box()
    if not box.traits.sessions:
        pytest.skip("no sessions")
    refusal = "forkable=True" if box.traits.fork else "cannot fork sessions; the linux and monty engines can"
    async with box.session() as session:
        with pytest.raises(Unsupported, match=refusal):
            await session.fork()
    if not box.traits.fork:
        with pytest.raises(Unsupported, match=refusal):
            box.session(forkable=True)


async def test_overlay_mounts_are_refused(open_box: OpenBox, tmp_path: Path, engine: str) -> None:
    found = actbox.check(engine).traits
    assert found is not None
    if "overlay" not in found.mounts:
        pytest.skip(f"{engine} has no overlay mounts")
    box = await open_box(Policy(mounts=(FileMount(tmp_path, "/data", "overlay"),)))
    with pytest.raises(Unsupported, match="overlay"):
        box.session(forkable=True)


async def test_ended_and_closed_sessions_have_no_copies(origin: Session) -> None:
    copy = await origin.fork()
    await copy.run("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
    with pytest.raises(CannotFork, match="ended"):
        await copy.fork()
    await copy.close()
    with pytest.raises(SandboxStopped):
        await copy.fork()
    assert (await origin.run("1")).value == 1


async def test_a_folder_too_deep_is_refused_and_the_session_lives_on(origin: Session) -> None:
    await origin.run("import os\nfor _ in range(200):\n    os.mkdir('d')\n    os.chdir('d')\nx = 1")
    with pytest.raises(actbox.SandboxUnavailable, match="deeper"):
        await origin.fork()
    assert (await origin.run("os.chdir('/workspace')\nimport shutil\nshutil.rmtree('d')\nx")).value == 1
    assert (await (await origin.fork()).run("x")).value == 1


# What they share


@pytest.mark.slow
async def test_mounts_are_there_in_copies(open_forkable: OpenSession, tmp_path: Path, engine: str) -> None:
    for name in ("ro", "rw"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").write_text(name)
    found = actbox.check(engine).traits
    assert found is not None
    if not found.mounts:
        pytest.skip(f"{engine} has no mounts")
    mounts = (
        FileMount(tmp_path / "ro", "data"),
        FileMount(tmp_path / "ro" / "f", "/workspace/lone/file"),
        FileMount(tmp_path / "ro", "/opt/data"),
        FileMount(tmp_path / "rw", "/workspace/shared", "rw"),
    )
    origin = await open_forkable(Policy(mounts=mounts))
    copy = await (await origin.fork()).fork()
    read = "[open(path).read() for path in ('/input/data/f', 'lone/file', '/opt/data/f', 'shared/f')]"
    assert (await copy.run(read)).value == ["ro", "ro", "ro", "rw"]
    assert not (await copy.run("open('/opt/data/f', 'w')")).success
    assert (await copy.run("open('shared/g', 'w').write('copy')")).success
    assert (await origin.run("open('shared/g').read()")).value == "copy"


async def test_memory_is_one_budget(open_forkable: OpenSession) -> None:
    origin = await open_forkable(memory_mib=300)
    copies = [await origin.fork() for _ in range(3)]
    results = [await copy.run("import time\nx = b'x' * (90 * 2**20)\ntime.sleep(0.3)") for copy in copies]
    results.append(await origin.run("import time\nx = b'x' * (90 * 2**20)\ntime.sleep(0.3)"))
    failed = [result for result in results if not result.success]
    assert failed
    assert all(result.error is not None for result in failed)
    assert failed[0].error is not None
    assert failed[0].error.kind is ErrorKind.MEMORY


@pytest.mark.slow
async def test_files_of_copies_count_as_memory(open_forkable: OpenSession) -> None:
    origin = await open_forkable(memory_mib=200, workspace_mib=100)
    copies = [await origin.fork() for _ in range(3)]
    write = "import time\nopen('/tmp/f', 'wb').write(b'x' * (80 * 2**20))\ntime.sleep(0.3)"
    results = [await copy.run(write) for copy in copies]
    assert not all(result.success for result in results)


@pytest.mark.slow
async def test_processor_time_is_one_budget(open_forkable: OpenSession) -> None:
    origin = await open_forkable(cpu_seconds=2)
    copies = [await origin.fork() for _ in range(4)]
    burn = "import time\nstart = time.process_time()\nwhile time.process_time() - start < 0.9: pass"
    results = [await copy.run(burn) for copy in copies]
    assert not all(result.success for result in results)
    assert sum(result.success for result in results) >= 1


async def test_processes_are_one_budget(open_forkable: OpenSession) -> None:
    origin = await open_forkable(processes=6)
    with pytest.raises(CannotFork, match="process"):
        for _ in range(10):
            await origin.fork()
    assert (await origin.run("1")).success


# Ends


@pytest.mark.slow
async def test_the_end_of_one_is_not_the_end_of_another(origin: Session) -> None:
    await origin.run("import os, signal, time, sys\nx = 1")
    for end in ("os._exit(3)", "os.kill(os.getpid(), signal.SIGKILL)", "while True: pass"):
        copy = await origin.fork()
        result = await copy.run(end, timeout=0.5)
        assert result.error is not None
        assert (await origin.run("x")).value == 1
        await copy.close()
    copy = await origin.fork()
    result = await origin.run("os._exit(3)")
    assert (result.exit_code, result.state_kept) == (3, False)
    assert (await copy.run("x")).value == 1


@pytest.mark.slow
async def test_a_copy_is_interrupted_as_any_session(origin: Session, clock: Clock) -> None:
    endless = "print('begun')\nwhile True: pass"
    await clock.run_out(origin.stream(f"x = 1\n{endless}", timeout=30), 30, after="begun")
    copy = await origin.fork()
    for _ in range(2):
        result = await clock.run_out(copy.stream(f"y = x\n{endless}", timeout=30), 30, after="begun")
        assert result.error is not None
        assert (result.error.kind, result.state_kept) == (ErrorKind.TIMEOUT, True)
    assert (await copy.run("y")).value == 1
    assert (await origin.run("x")).value == 1


async def test_what_a_copy_started_ends_with_it_and_nothing_else_does(origin: Session) -> None:
    start = "import subprocess\np = subprocess.Popen(['setsid', 'sleep', '60'])\np.pid"
    ours = (await origin.run(start)).value
    copy = await origin.fork()
    theirs = (await copy.run(start)).value
    alive = f"import os\n[os.path.exists(f'/proc/{{n}}/root') for n in ({ours}, {theirs})]"
    assert (await origin.run(alive)).value == [True, True]
    await copy.close()

    async def theirs_has_ended() -> bool:
        seen = (await origin.run(alive)).value
        assert seen[0] is True
        return seen[1] is False

    await until(theirs_has_ended)


@pytest.mark.slow
async def test_nothing_is_left_of_copies(open_box: OpenBox) -> None:
    box = await open_box()
    if not box.traits.fork:
        pytest.skip("no forks")
    async with box.session(forkable=True) as session:  # the first start keeps a few things for good
        await session.fork()
    async with nothing_left_behind():
        async with box.session(forkable=True) as session:
            copies = [await session.fork() for _ in range(3)]
            await copies[0].run("import os\nos._exit(1)")
            cancelled = asyncio.create_task(session.fork())
            for _ in range(2):  # it has begun, and needs several answers of the guest
                await asyncio.sleep(0)
            cancelled.cancel()
            with pytest.raises(asyncio.CancelledError):
                await cancelled
            for copy in copies:
                await copy.close()
    other = await open_box()
    async with nothing_left_behind():
        async with actbox.open_sandbox(other.traits.engine) as throwaway:
            session = throwaway.session(forkable=True)
            await session.fork()
            await (await session.fork()).run("x = 1")


async def test_the_sandbox_ends_its_copies(open_box: OpenBox) -> None:
    box = await open_box()
    if not box.traits.fork:
        pytest.skip("no forks")
    session = box.session(forkable=True)
    copy = await session.fork()
    begun = asyncio.Event()

    async def begin() -> None:
        begun.set()

    running = asyncio.create_task(copy.run("import time\nbegin()\ntime.sleep(60)", tools=[begin]))
    await begun.wait()
    await box.stop()
    result = await running
    assert result.error is not None and result.error.kind is ErrorKind.CANCELLED
    with pytest.raises(SandboxStopped):
        await copy.fork()
    assert not copy.alive


@pytest.mark.slow
def test_the_plain_face_forks(engine: str) -> None:
    with actbox.sync.open_sandbox(engine, allow_unisolated=True) as box:
        if not box.traits.fork:
            pytest.skip("no forks")
        with box.session(forkable=True) as session:
            session.run("x = 1")
            with session.fork() as copy:
                copy.write_text("f", "copy")
                assert copy.run("x += 1\n[x, open('f').read()]").value == [2, "copy"]
            with session.snapshot() as snapshot:
                assert snapshot.fork().run("x").value == 1
            with session.branches(3) as branches:
                assert [result.value for result in branches.run(["x", "x + 1", "x + 2"])] == [1, 2, 3]
                kept = branches.keep(1)
            assert [branch.alive for branch in branches] == [False, True, False]
            assert kept.run("x").value == 1


# Faults, on either side


@pytest.mark.slow
@pytest.mark.parametrize(
    "end",
    [
        "close the origin",
        pytest.param("close a copy", marks=pytest.mark.long),
        pytest.param("stop the sandbox", marks=pytest.mark.long),
        "kill the guest",
    ],
)
async def test_a_fork_that_is_overtaken_by_an_end_is_told_so(open_box: OpenBox, end: str) -> None:
    for delay in range(12):
        box = await open_box()
        if not box.traits.fork:
            pytest.skip("no forks")
        origin = box.session(forkable=True)
        await origin.run("import os, signal, subprocess")
        session = await origin.fork() if end == "close a copy" else origin
        if end == "kill the guest":
            kill = f"sleep {delay / 1000}; kill -9 "
            await session.run(f"subprocess.Popen(['sh', '-c', {kill!r} + str(os.getpid())])")
        fork = asyncio.create_task(session.fork())
        await asyncio.sleep(delay / 1000)
        if end == "stop the sandbox":
            await asyncio.wait_for(box.stop(), 60)
        elif end != "kill the guest":
            await asyncio.wait_for(session.close(), 60)
        try:
            copy = await asyncio.wait_for(fork, 60)
        except (CannotFork, SandboxStopped, actbox.SandboxUnavailable):
            pass
        else:
            await asyncio.wait_for(copy.close(), 60)
        await asyncio.wait_for(box.stop(), 60)


@pytest.mark.slow
async def test_a_fork_that_is_cancelled_again_and_again_leaves_the_session_as_it_was(origin: Session) -> None:
    await origin.run("x = 1")
    await (await origin.fork()).close()
    async with nothing_left_behind():
        for turns in range(12):
            fork = asyncio.create_task(origin.fork())
            for _ in range(3):
                await asyncio.sleep(turns / 1000)
                fork.cancel()
            try:
                await (await fork).close()
            except asyncio.CancelledError:
                pass  # as it is meant to be, unless the fork was faster
            assert (await origin.run("x")).value == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "prepare",
    [
        pytest.param("import os\nos.mkdir('/tmp/x')\nos.chroot('/tmp/x')", marks=pytest.mark.long),
        "import os\nos.mkdir('/tmp/x')\nos.chroot('/tmp/x')\nif os.fork(): os.wait()",
    ],
)
async def test_a_copy_that_goes_to_a_root_of_its_own_ends_all_the_same(origin: Session, prepare: str) -> None:
    copy = await origin.fork()
    await copy.run(prepare, timeout=1)
    stuck = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass"
    result = await asyncio.wait_for(copy.run(stuck, timeout=0.3), 60)
    assert not result.success
    await asyncio.wait_for(copy.close(), 60)
    assert (await origin.run("1")).value == 1


async def test_a_copy_that_says_it_is_another_is_refused(origin: Session) -> None:
    orphan = (
        "import os, time\nread, write = os.pipe()\nif os.fork() == 0:\n"
        "    if os.fork() == 0:\n        time.sleep(60)\n"
        "    os._exit(0)\nos.wait()\n"
        "own = os.getpid()\nids = [int(name) for name in os.listdir('/proc') if name.isdigit()]\n"
        "real = os.getpid\nos.getpid = lambda: own if real() == own else max(ids)"
    )
    await origin.run(orphan)
    with pytest.raises(actbox.SandboxUnavailable):
        await asyncio.wait_for(origin.fork(), 60)
    assert (await origin.run("1")).value == 1


@pytest.mark.slow
async def test_a_copy_that_does_not_get_ready_is_ended(origin: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    hang = "while os.getppid() == 1: pass"  # as the copy's parent is
    await origin.run(
        f"import os\nfirst = os.getpid()\ndef hook():\n    {hang}\nos.register_at_fork(after_in_child=hook)"
    )
    begin = sessions.LocalSession._begin

    async def begin_within_a_second(copy: sessions.LocalSession, adopt: Callable[[int], Awaitable[None]]) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(sessions, "_STEP_SECONDS", 1.0)
            await begin(copy, adopt)

    monkeypatch.setattr(sessions.LocalSession, "_begin", begin_within_a_second)
    for _ in range(2):
        with pytest.raises((actbox.SandboxUnavailable, CannotFork)):
            await asyncio.wait_for(origin.fork(), 60)
    busy = "[name for name in os.listdir('/proc') if name.isdigit() and int(name) > first]"

    async def none_is_left() -> bool:
        return (await origin.run(busy)).value == []

    await until(none_is_left)


@pytest.mark.slow
async def test_files_that_cannot_be_copied_leave_nothing_of_the_copy(open_forkable: OpenSession) -> None:
    origin = await open_forkable(memory_mib=300)
    await origin.run(
        "import os\nopen('/workspace/big', 'wb').write(b'x' * (30 * 2**20))\nos.chdir('/tmp')\n"
        "for _ in range(150):\n    os.mkdir('d')\n    os.chdir('d')\nos.chdir('/')"
    )
    for _ in range(15):
        with pytest.raises(actbox.SandboxUnavailable, match="deeper"):
            await origin.fork()
    assert (await origin.run("1")).value == 1


async def test_a_host_without_descriptors_is_told_so_and_the_session_lives_on(
    origin: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(flags: int) -> tuple[int, int]:
        raise OSError(errno.EMFILE, "Too many open files")

    before = len(os.listdir("/proc/self/fd"))
    with monkeypatch.context() as patch:
        patch.setattr(os, "pipe2", none_left)
        for _ in range(100):
            with pytest.raises(actbox.SandboxUnavailable, match="Too many open files"):
                await origin.fork()
    # The stock's waiting sandboxes come and go, at most 8 with 5 each.
    assert len(os.listdir("/proc/self/fd")) <= before + 50, "descriptors of the copies are left"
    assert (await (await origin.fork()).run("1")).value == 1


async def test_a_file_without_a_name_is_each_ones_own(origin: Session) -> None:
    await origin.run("import tempfile\nt = tempfile.TemporaryFile('w+')\nt.write('origin')")
    copy = await origin.fork()
    assert (await copy.run("t.write(' and more')\nt.seek(0)\nt.read()")).value == "origin and more"
    assert (await origin.run("t.seek(0)\nt.read()")).value == "origin"


async def test_a_program_that_has_broken_forking_is_told_so_and_lives_on(origin: Session) -> None:
    for what in ("os.listdir = lambda path: 1 / 0", "fcntl.fcntl = None"):
        await origin.run(f"import fcntl, os\nkept = os.listdir, fcntl.fcntl\n{what}")
        with pytest.raises(CannotFork):
            await origin.fork()
        assert (await origin.run("os.listdir, fcntl.fcntl = kept\n1")).value == 1
    assert (await (await origin.fork()).run("1")).value == 1


@pytest.mark.slow
def test_another_event_loop_is_told_so(engine: str) -> None:
    box = actbox.open_sandbox(engine, allow_unisolated=True)

    async def begin() -> Session:
        await box.start()
        session = box.session()
        await session.start()
        return session

    async def go_on(session: Session) -> None:
        with pytest.raises(InvalidValue, match="event loop"):
            await session.run("1")

    async def end(session: Session) -> None:
        await session.close()
        await box.stop()

    if not (found := actbox.check(engine).traits) or not found.sessions:
        pytest.skip("no sessions")
    with asyncio.Runner() as runner:
        session = runner.run(begin())
        other = asyncio.new_event_loop()
        other.run_until_complete(go_on(session))
        other.close()
        runner.run(end(session))
