"""Limits of programs on WebAssembly: each is reached, and the result names it."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

import actbox
from actbox import ErrorKind, ExecutionResult, FileError, Limits, Policy
from actbox.sandbox.engines.wasm import program as wasm_program
from actbox.sandbox.engines.wasm.disk_usage import room
from actbox.sandbox.registry import TABLE


async def _run(program: str, **limits: float) -> ExecutionResult:
    policy = Policy(limits=Limits(**limits))  # type: ignore[arg-type]
    async with actbox.open_sandbox("wasm", policy=policy) as box:
        return await box.run(program)


@pytest.mark.parametrize(
    ("program", "limits", "kind", "limit"),
    [
        ("while True: pass", {"wall_seconds": 0.5}, ErrorKind.TIMEOUT, "wall_seconds"),
        ("import time\ntime.sleep(60)", {"wall_seconds": 0.5}, ErrorKind.TIMEOUT, "wall_seconds"),
        ("import asyncio\nawait asyncio.sleep(60)", {"wall_seconds": 0.5}, ErrorKind.TIMEOUT, "wall_seconds"),
        ("9 ** 9_999_999_999", {"wall_seconds": 0.5}, ErrorKind.TIMEOUT, "wall_seconds"),
        ("while True: pass", {"cpu_seconds": 0.3}, ErrorKind.TIMEOUT, "cpu_seconds"),
        ("x = []\nwhile True: x.append(bytes(2**20))", {"memory_mib": 64}, ErrorKind.MEMORY, "memory_mib"),
        ("open('/tmp/x', 'wb').write(bytes(3 * 2**20))", {"file_mib": 2}, ErrorKind.DISK, "file_mib"),
        (
            "for i in range(1000): open(f'/tmp/{i}', 'wb').write(bytes(2**20))",
            {"workspace_mib": 4},
            ErrorKind.DISK,
            "workspace_mib",
        ),
        (
            "for i in range(1000): open(f'/workspace/{i}', 'wb').write(bytes(2**20))",
            {"workspace_mib": 4},
            ErrorKind.DISK,
            "workspace_mib",
        ),
        ("x = [open(f'/tmp/{i}', 'w') for i in range(200)]", {"open_files": 20}, ErrorKind.RUNTIME, "open_files"),
    ],
)
async def test_a_limit_ends_a_program(program: str, limits: dict[str, float], kind: ErrorKind, limit: str) -> None:
    result = await _run(program, **limits)
    assert result.error is not None
    assert (result.error.kind, result.error.limit) == (kind, limit), result.error


@pytest.mark.slow
@pytest.mark.parametrize("error", [MemoryError, KeyError, OverflowError])
async def test_a_message_that_cannot_be_read_ends_its_program_and_no_worker_thread(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def fails(message: dict[str, Any]) -> None:
        raise error

    async with actbox.open_sandbox("wasm") as box:
        with monkeypatch.context() as patched:
            patched.setattr(wasm_program, "parse", fails)
            result = await box.run("1")
        assert result.error is not None and result.error.kind is ErrorKind.PROTOCOL, result.error
        assert f"a message that cannot be read ({error.__name__})" in result.error.message
        assert (await box.run("1 + 1")).value == 2


@pytest.mark.parametrize(
    ("program", "limits"),
    [
        ("len([open(f'/tmp/{i}', 'w') for i in range(20)])", {"open_files": 20}),
        ("len(bytes(30 * 2**20))", {"memory_mib": 64}),
        ("open('/tmp/x', 'wb').write(bytes(2 * 2**20))", {"file_mib": 2}),
        ("open('/workspace/x', 'wb').write(bytes(3 * 2**20))", {"workspace_mib": 4}),
    ],
)
async def test_a_limit_takes_nothing_from_those_who_keep_it(program: str, limits: dict[str, float]) -> None:
    result = await _run(program, **limits)
    assert result.success, result.error


@pytest.mark.slow
async def test_a_share_of_a_processor_is_kept() -> None:
    program = "import time\nend = time.monotonic() + 2\nn = 0\nwhile time.monotonic() < end: n += 1\nn"
    result = await _run(program, cpus=0.2)
    assert result.success, result.error
    assert result.usage.cpu_ms < 0.5 * result.usage.wall_ms


async def test_the_host_keeps_to_the_workspace_too() -> None:
    async with actbox.open_sandbox("wasm", policy=Policy(limits=Limits(workspace_mib=1))) as box:
        with pytest.raises(FileError, match="1 MiB"):
            await box.write_file("large", bytes(2**20 + 1))
        await box.write_file("small", b"1")


@pytest.mark.slow
@pytest.mark.parametrize(
    "end",
    ["print('BEYOND')", "tell('BEYOND')", "while True: pass", "raise SystemExit('BEYOND')", "'BEYOND'"],
)
async def test_nothing_beyond_the_workspace_is_heard_of_or_kept(end: str) -> None:
    told = []

    def tell(what: str) -> None:
        told.append(what)

    async with actbox.open_sandbox("wasm", policy=Policy(limits=Limits(workspace_mib=4))) as box:
        await box.write_file("input/given", bytes(2**20))
        await box.run("open('first', 'wb').write(bytes(2**20))")
        result = await box.run(
            f"for n in range(20): open(f'/output/{{n}}', 'wb').write(bytes(2**20))\n{end}", tools=[tell]
        )
        assert result.error is not None
        assert (result.error.limit, told) == ("workspace_mib", [])
        assert "BEYOND" not in str(result)
        left = [file for file in await box.list_files(recursive=True) if file.kind == "file"]
        assert sum(file.size for file in left) <= 4 * 2**20
        assert {"first", "input/given"} <= {file.path for file in left}
        assert len(result.artifacts) <= 2
        assert (await box.run("1 + 1")).value == 2


@pytest.mark.slow
async def test_a_program_ended_for_another_reason_leaves_no_more_than_it_may_either() -> None:
    async with actbox.open_sandbox("wasm", policy=Policy(limits=Limits(workspace_mib=2))) as box:

        async def hurry() -> None:
            running.cancel()

        running = asyncio.ensure_future(
            box.run("for n in range(8): open(str(n), 'wb').write(bytes(2**20))\nhurry()", tools=[hurry])
        )
        await asyncio.wait([running])
        left = [file.size for file in await box.list_files() if file.kind == "file"]
        assert sum(left) <= 2 * 2**20


@pytest.mark.slow
async def test_a_file_with_holes_takes_what_is_in_it() -> None:
    result = await _run("f = open('/workspace/x', 'wb')\nf.truncate(100 * 2**20)\nf.close()", workspace_mib=4)
    assert result.success, result.error


async def test_an_instance_that_cannot_even_be_made_ahead_is_told_each_time() -> None:
    async with TABLE["wasm"].open(Policy(limits=Limits(memory_mib=8)), None, {}) as box:
        for _ in range(3):
            result = await box.run("1")
            assert result.error is not None
            assert result.error.limit == "memory_mib"


@pytest.mark.slow
@pytest.mark.parametrize(
    "program",
    [
        "import os\nfor n in range(4000): os.mkdir(str(n))",
        "for n in range(4000): open(f'/output/{n}', 'w').close()",
        "for n in range(4000): open(f'/tmp/{n}', 'w').close()",
        # Deeper than a path can be: made from below.
        "import os\nlong = 'x' * 200\nos.mkdir('t')\n"
        "for n in range(30): os.mkdir(f'{n}'); os.rename('t', f'{n}/{long}'); os.rename(f'{n}', 't')\n",
    ],
)
async def test_files_and_folders_with_nothing_in_them_fill_a_workspace_too(program: str) -> None:
    async with actbox.open_sandbox("wasm", policy=Policy(limits=Limits(workspace_mib=1))) as box:
        result = await box.run(program)
        assert result.error is not None
        assert (result.error.kind, result.error.limit) == (ErrorKind.DISK, "workspace_mib"), result.error
        assert len(await box.list_files(recursive=True)) <= 256
        assert (await box.run("1 + 1")).value == 2


async def test_a_disk_that_takes_long_to_look_at_is_looked_at_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wasm_program, "_REST", 1e9)
    result = await _run("import os\nfor n in range(400): os.mkdir(str(n))", workspace_mib=1)
    assert result.error is not None and result.error.limit == "workspace_mib"


@pytest.mark.slow
async def test_a_disk_that_takes_long_to_look_at_holds_holds_up_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def slowly(most: int, *folders: str) -> int:
        time.sleep(0.5)
        return most

    monkeypatch.setattr(wasm_program, "room", slowly)
    result = await asyncio.wait_for(_run("while True: pass", wall_seconds=2), 60)
    assert result.error is not None and result.error.kind is ErrorKind.TIMEOUT


async def test_a_program_that_had_no_time_to_fill_the_disk_is_not_looked_after_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = []

    def counted(*args: Any) -> int:
        looks.append(args)
        return room(*args)

    monkeypatch.setattr(wasm_program, "room", counted)
    monkeypatch.setattr(wasm_program, "ENTRY_SECONDS", 1e9)  # on a machine that has much to do it had time
    async with actbox.open_sandbox("wasm") as box:
        assert (await box.run("for n in range(9): print(n, flush=True)")).success
    assert len(looks) == 2  # of what lies below the workspace and below /tmp, as it begins


async def test_the_workspace_and_the_temporary_files_of_all_that_goes_on_have_one_limit() -> None:
    code = "open('/tmp/a', 'wb').write(bytes(2 * 2**20))"
    async with actbox.open_sandbox("wasm", policy=Policy(limits=Limits(disk_mib=4))) as box:
        await box.write_file("a", bytes(2**20))
        async with box.session() as session:
            assert (await session.run(code)).success
            error = (await box.run(code)).error
            assert error is not None and (error.kind, error.limit) == (ErrorKind.DISK, "disk_mib")
            with pytest.raises(FileError):
                await box.write_file("b", bytes(2 * 2**20))
        assert (await box.run(code)).success
