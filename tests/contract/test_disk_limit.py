"""`Limits.disk_mib`: all places that a program can write to hold no more together, from run to run."""

from __future__ import annotations

import dataclasses
import errno
from pathlib import Path

import pytest

import actbox
from actbox import ErrorKind, FileMount, Limits, Policy, Sandbox, Unsupported
from tests.conftest import OpenBox, engine_check

pytestmark = pytest.mark.one_engine_first

_FILL = """
import os
def fill(path, mib):
    with open(path, 'wb', 0) as file:
        for written in range(mib):
            try: file.write(bytes(2**20))
            except OSError as error: return written, error.errno
    return mib, 0
"""


def echo(number: int) -> int:
    """Return the number."""
    return number


@pytest.fixture
def enforced(engine: str) -> bool:
    traits = engine_check(engine).traits
    assert traits is not None
    return "disk_mib" in traits.enforced


async def test_three_places_together_hold_no_more(open_box: OpenBox) -> None:
    box: Sandbox = await open_box(disk_mib=16)
    result = await box.run(f"{_FILL}\n[fill(f'{{place}}/a', 6) for place in ('/workspace', '/tmp', '/dev/shm')]")
    assert result.value == [(6, 0), (6, 0), (4, errno.ENOSPC)], result
    full = await box.run("open('/tmp/a', 'wb').write(bytes(12 * 2**20))")
    assert full.error is not None
    assert (full.error.kind, full.error.limit) == (ErrorKind.DISK, "disk_mib")
    await box.remove_file("a")
    assert (await box.run("open('/tmp/a', 'wb').write(bytes(12 * 2**20))")).success


@pytest.mark.parametrize(
    "code",
    [
        "fill('/tmp/a', 12), fill('/dev/shm/b', 2)",
        "os.makedirs('/tmp/' + 'a/' * 150)\nos.chmod('/tmp/a', 0)\nfill('/tmp/b', 14)",
        "kept = open('/tmp/a', 'w+b', 0)\nos.unlink('/tmp/a')\nkept.write(bytes(14 * 2**20))",
        "fill('/tmp/a', 14)\nos._exit(3)",
        "if os.fork() == 0:\n    fill('/tmp/a', 14)\n    while True: pass\n",
    ],
    ids=["files", "deep and locked", "open without a name", "ends itself", "a process goes on"],
)
async def test_what_a_run_left_outside_the_workspace_takes_no_room_from_the_next(code: str, open_box: OpenBox) -> None:
    box: Sandbox = await open_box(disk_mib=16)
    for _ in range(2):
        await box.run(_FILL + code)
        result = await box.run(f"{_FILL}\nos.listdir('/tmp'), fill('/dev/shm/c', 14)")
        assert result.value is not None and result.value[1] == (14, 0), result
        assert "a" not in result.value[0]


async def test_a_program_that_uses_up_all_names_leaves_the_next_one_what_it_needs(open_box: OpenBox) -> None:
    box: Sandbox = await open_box(disk_mib=2)
    code = """
try:
    for n in range(10_000): open(f'{place}/n{n}', 'w').close()
except OSError as error: got = error.errno
got
"""
    for place in ("/tmp", "/workspace", "/dev/shm"):
        assert (await box.run(f"place = '{place}'\n{code}")).value == errno.ENOSPC
    assert (await box.run("import os\nfor name in os.listdir(): name[0] == 'n' and os.unlink(name)")).success
    assert (await box.run(f"{_FILL}\nfill('/tmp/a', 1)")).value == (1, 0)


async def test_a_session_and_runs_beside_it_have_the_same_room(open_box: OpenBox) -> None:
    box: Sandbox = await open_box(disk_mib=16)
    code = f"{_FILL}\nfill('/dev/shm/b', 10)"
    async with box.session() as session:
        assert (await session.run(f"{_FILL}\nfill('/dev/shm/a', 10)")).value == (10, 0)
        assert (await box.run(code)).value[0] < 10
        assert (await session.run("os.unlink('/dev/shm/a')")).success
        if box.traits.walls == "run":  # else nothing of a run is removed while the session is open
            assert (await box.run(code)).value == (10, 0)
            assert (await session.run("fill('/tmp/a', 10)")).value == (10, 0)
    assert (await box.run(code)).value == (10, 0)


async def test_a_copy_of_a_session_has_as_much_again(open_box: OpenBox) -> None:
    box: Sandbox = await open_box(disk_mib=16)
    if not box.traits.fork:
        pytest.skip(f"{box.traits.engine} cannot fork sessions")
    async with box.session(forkable=True) as session:
        assert (await session.run(f"{_FILL}\nfill('/tmp/a', 7), fill('/workspace/b', 7)")).success
        async with await session.fork() as copy:
            assert (await copy.run("fill('/dev/shm/c', 14)")).value == (2, errno.ENOSPC)
            assert (await copy.run("os.unlink('/tmp/a'); fill('/dev/shm/c', 9)")).value == (9, 0)
            assert (await session.run("os.path.getsize('/tmp/a')")).value == 7 * 2**20


async def test_a_bound_that_cannot_be_kept_is_refused(engine: str, enforced: bool, tmp_path: Path) -> None:
    policies = [Policy.strict()]
    if enforced:
        mount = FileMount(tmp_path, "/data", "overlay")
        policies = [Policy(limits=Limits(disk_mib=100, workspace_mib=50))]
        policies += [dataclasses.replace(Policy.strict(), mounts=(mount,))] * (engine == "linux")
    for policy in policies:
        with pytest.raises(Unsupported, match=rf"the {engine} engine .*Limits\.disk_mib"):
            actbox.open_sandbox(engine, policy=policy, allow_unisolated=True)


@pytest.mark.parametrize("runtime", ["runsc", "kata"])
def test_a_container_with_a_kernel_of_its_own_refuses_it(runtime: str) -> None:
    with pytest.raises(Unsupported, match=r"the container engine .*Limits\.disk_mib"):
        actbox.open_sandbox("container", runtime=runtime, policy=Policy.strict())


async def test_a_bound_that_the_places_cannot_reach_changes_nothing(engine: str, enforced: bool) -> None:
    if not enforced:
        pytest.skip(f"{engine} does not enforce disk_mib")
    policy = Policy(limits=Limits(disk_mib=72, workspace_mib=4))
    async with actbox.open_sandbox(engine, policy=policy) as box:
        result = await box.run(f"{_FILL}\n[fill(f'{{place}}/a', 5) for place in ('/workspace', '/tmp')]")
        assert result.value == [(4, errno.ENOSPC)] * 2


async def test_a_strict_policy_leaves_programs_what_they_need(engine: str, enforced: bool) -> None:
    if not enforced:
        pytest.skip(f"{engine} does not enforce disk_mib")
    pytest.importorskip("pandas")
    async with actbox.open_sandbox(engine, policy=Policy.strict()) as box:
        code = "import asyncio, pandas\nframe = pandas.DataFrame({'a': [1, 2]})\nframe.to_csv('output/a.csv')\n"
        code += "len(frame), sum(await asyncio.gather(*(echo(n) for n in range(100))))"
        result = await box.run(code, tools=[echo])
        assert (result.value, len(result.artifacts)) == ((2, 4950), 1), result
        async with box.session() as session:
            assert (await session.run("import pandas, subprocess\nx = pandas.Series([1])")).success
            assert (await session.run("len(x) + len(subprocess.run(['true']).args)")).value == 2
        held = await box.run("import os\nheld = [os.open('/dev/null', 0) for _ in range(64)]")
        assert held.error is not None
        assert held.error.limit == "open_files"
