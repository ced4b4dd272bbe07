"""A program may use all of its processor time: the kernel's own limit counts ticks, and on a busy machine too many."""

from __future__ import annotations

import pytest

import actbox
from actbox import ErrorKind, Limits, Policy
from actbox.sandbox.engines.container.traits import brought_traits, managed_traits
from actbox.sandbox.engines.linux.hierarchies import support
from actbox.sandbox.engines.ssh.engine import TRAITS as SSH_TRAITS
from tests.conftest import engine_check
from tests.sandbox.remote.remote_box import RemoteBox

POLICY = Policy(limits=Limits(cpu_seconds=2.0))
# Each child ends before the clock of `/proc` has ticked once for it, and nobody waits for it.
_UNSEEN = """
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for _ in range(100):
    if os.fork() == 0:
        while time.process_time() < 0.005: pass
        os._exit(0)
    try:
        os.wait()
    except ChildProcessError:  # it has ended
        pass
signal.pause()
"""
_LEFT_BY_ITS_PARENT = """
import os, time
read, write = os.pipe()
if os.fork() == 0:
    if (child := os.fork()) == 0:
        while time.process_time() < 0.1: pass
        os._exit(0)
    os.write(write, b"%d" % child)
    os._exit(0)
os.wait()
child = int(os.read(read, 9))
while os.path.exists(f"/proc/{child}"): time.sleep(0.001)
os._exit(0)
"""
CODE = "import resource\nresource.getrlimit(resource.RLIMIT_CPU)"


@pytest.mark.parametrize("engine", ["linux", "agent"])
async def test_where_we_count_it_the_kernel_is_a_second_wall_with_room_for_its_errors(engine: str) -> None:
    if engine == "linux" and not (found := engine_check("linux")).works:
        pytest.skip(f"the linux engine does not work here: {found.reason}")
    async with RemoteBox(POLICY) if engine == "agent" else actbox.open_sandbox("linux", policy=POLICY) as box:
        assert (await box.run(CODE)).value == (4, 5)


async def test_where_nobody_else_counts_it_the_kernels_limit_is_the_limit() -> None:
    async with actbox.open_sandbox("process", policy=POLICY, allow_unisolated=True) as box:
        assert (await box.run(CODE)).value == (2, 3)


async def test_short_processes_whose_parent_ignores_their_ends_count_where_control_groups_count_them() -> None:
    found = engine_check("linux")
    if not found.works:
        pytest.skip(f"the linux engine does not work here: {found.reason}")
    async with actbox.open_sandbox("linux", policy=Policy(limits=Limits(cpu_seconds=0.3))) as box:
        groups = support()
        if groups is None or not groups.time_counter:
            assert any("SIGCHLD" in note for note in box.traits.notes)
            return
        assert groups.time_counter in box.traits.enforced["cpu_seconds"]
        result = await box.run(_UNSEEN)
    assert result.error is not None
    assert (result.error.kind, result.error.limit) == (ErrorKind.TIMEOUT, "cpu_seconds")


async def test_a_process_left_by_its_parent_counts_as_used_by_its_run() -> None:
    found = engine_check("linux")
    if not found.works:
        pytest.skip(f"the linux engine does not work here: {found.reason}")
    async with actbox.open_sandbox("linux") as box:
        results = [await box.run(_LEFT_BY_ITS_PARENT), await box.run_alone(_LEFT_BY_ITS_PARENT)]
        python = (await box.run("import sys\nsys.executable")).value
        results += [await box.execute([str(python), "-c", _LEFT_BY_ITS_PARENT]) for _ in range(3)]
    assert [result.error for result in results] == [None] * 5
    assert min(result.usage.cpu_ms for result in results) >= 100


def test_engines_whose_agent_counts_it_say_which_processes_are_missed() -> None:
    managed = managed_traits(runtime="", packages="", bounds_files=True, one_disk=False)
    for traits in (managed, brought_traits(name="a", lowered=(), network="none"), SSH_TRAITS):
        assert "agent" in traits.enforced["cpu_seconds"]
        assert any("SIGCHLD" in note for note in traits.notes)


@pytest.mark.slow
async def test_a_program_that_uses_nine_tenths_of_it_ends_well_beside_busy_ones() -> None:
    found = engine_check("linux")
    if not found.works:
        pytest.skip(f"the linux engine does not work here: {found.reason}")
    code = "import time\nwhile time.process_time() < 0.9: pass\n'done'"
    async with actbox.open_sandbox("linux", policy=Policy(limits=Limits(cpu_seconds=1.0, wall_seconds=600))) as box:
        results = [result async for result in box.map([code] * 4, concurrency=4)]
    assert [result.value for result in results] == ["done"] * 4
