"""Limits of programs in Node, each reached once, and what is told then."""

from __future__ import annotations

from typing import Any

import pytest

import actbox
from actbox import ErrorInfo, ErrorKind, FileMount, Limits, Policy
from actbox.sandbox.engines.node.boot import guest_source, heap_mib
from tests.clock import Clock


async def error_of(code: str, **limits: Any) -> ErrorInfo:
    async with actbox.open_sandbox("node", policy=Policy(limits=Limits(**limits))) as box:
        result = await box.run(code)
        assert result.error is not None, result
        assert (await box.run("1 + 1")).value == 2  # the next run has all of it again
        return result.error


pytestmark = pytest.mark.usefixtures("node_works")


async def test_wall_time(clock: Clock) -> None:
    async with actbox.open_sandbox("node", policy=Policy(limits=Limits(wall_seconds=30.0))) as box:
        events = box.stream("console.log('begun'); await new Promise(done => setTimeout(done, 600_000))")
        error = (await clock.run_out(events, 30, after="begun\n")).error
        assert error is not None and (error.kind, error.limit) == (ErrorKind.TIMEOUT, "wall_seconds")
        assert (await box.run("1 + 1")).value == 2


@pytest.mark.slow
async def test_processor_time() -> None:
    error = await error_of("for (;;);", cpu_seconds=1.0)
    assert (error.kind, error.limit) == (ErrorKind.TIMEOUT, "cpu_seconds")


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [
        "const all = []; for (;;) all.push(new Array(1000).fill(1.5))",
        "const all = []; for (;;) all.push({ text: 'x' + all.length })",
        "const all = []; for (;;) all.push(Buffer.alloc(2 ** 20, 1))",
        "let text = 'x'.repeat(100); const all = []; for (;;) all.push(Buffer.from(text + all.length).toString('base64'))",
        "const { Worker } = require('worker_threads');"
        " new Worker('const all = []; for (;;) all.push(Buffer.alloc(2 ** 20, 1))', { eval: true });"
        " await new Promise(done => setTimeout(done, 600_000))",
    ],
    ids=["numbers", "objects", "buffers", "texts", "worker"],
)
async def test_memory(code: str) -> None:
    error = await error_of(code, memory_mib=256)
    assert (error.kind, error.limit) == (ErrorKind.MEMORY, "memory_mib")


@pytest.mark.slow
async def test_memory_that_is_garbage_is_no_memory() -> None:
    async with actbox.open_sandbox("node", policy=Policy(limits=Limits(memory_mib=256))) as box:
        result = await box.run("let n = 0; for (let i = 0; i < 3000; i++) n += new Array(100_000).fill(i).length; n")
        assert result.value == 300_000_000, result.error


@pytest.mark.parametrize(("memory_mib", "heap"), [(64, 32), (128, 64), (256, 160), (1024, 928), (16, 16)])
def test_the_heap_has_less_than_all_of_the_memory(memory_mib: int, heap: int) -> None:
    assert heap_mib(memory_mib) == heap


@pytest.mark.slow
async def test_a_small_memory_is_enough_for_a_small_program() -> None:
    async with actbox.open_sandbox("node", policy=Policy(limits=Limits(memory_mib=96))) as box:
        assert (await box.run("[1, 2, 3].map(n => n * 2)")).value == [2, 4, 6]


@pytest.mark.slow
async def test_processes() -> None:
    code = (
        "const { spawn } = require('child_process');\n"
        "const all = Array.from({ length: 40 }, () => spawn('sleep', ['5']));\n"
        "await Promise.all(all.map(child => new Promise((done, fail) => child.on('spawn', done).on('error', fail))));\n"
        "await new Promise(done => setTimeout(done, 300));\nprocess.exit(0)"
    )
    error = await error_of(code, processes=12)
    assert (error.kind, error.limit) == (ErrorKind.PROCESSES, "processes")


@pytest.mark.slow
async def test_node_s_own_threads_are_no_processes_of_the_program() -> None:
    async with actbox.open_sandbox("node", policy=Policy(limits=Limits(processes=2))) as box:
        code = (
            "const { promises: fs } = require('fs');\n"
            "await Promise.all(Array.from({ length: 20 }, () => fs.readFile('/etc/passwd')));\n"
            "require('child_process').execSync('echo one').toString()"
        )
        assert (await box.run(code)).value == "one\n"


async def test_open_files() -> None:
    error = await error_of("const fs = require('fs'); for (;;) fs.openSync('/etc/passwd')", open_files=64)
    assert (error.kind, error.limit) == (ErrorKind.RUNTIME, "open_files")


@pytest.mark.slow
async def test_the_size_of_a_file() -> None:
    code = (
        "const fs = require('fs'); const f = fs.openSync('big', 'w'); for (;;) fs.writeSync(f, Buffer.alloc(2 ** 20))"
    )
    error = await error_of(code, file_mib=4)
    assert (error.kind, error.limit) == (ErrorKind.DISK, "file_mib")


@pytest.mark.slow
async def test_the_workspace() -> None:
    code = "for (let i = 0; ; i++) require('fs').writeFileSync(`f${i}`, Buffer.alloc(2 ** 20, 1))"
    error = await error_of(code, workspace_mib=8)
    assert (error.kind, error.limit) == (ErrorKind.DISK, "workspace_mib")


async def test_output() -> None:
    error = await error_of("for (;;) console.log('x'.repeat(1000))", output_bytes=100_000)
    assert (error.kind, error.limit) == (ErrorKind.OUTPUT_LIMIT, "output_bytes")


@pytest.mark.slow
async def test_artifacts() -> None:
    async with actbox.open_sandbox("node", policy=Policy(limits=Limits(artifacts=2))) as box:
        result = await box.run("for (const n of [1, 2, 3]) require('fs').writeFileSync(`/output/${n}.txt`, 'x')")
        assert len(result.artifacts) == 2
        assert result.warnings


@pytest.mark.slow
async def test_mounts_inputs_and_files(tmp_path: Any) -> None:
    (tmp_path / "sales.csv").write_text("1,2")
    (tmp_path / "kept").mkdir()
    policy = Policy(
        mounts=(FileMount(tmp_path / "sales.csv", "sales.csv"), FileMount(tmp_path / "kept", "/kept", "rw"))
    )
    async with actbox.open_sandbox("node", policy=policy) as box:
        code = (
            "const fs = require('fs'); const text = fs.readFileSync('/input/sales.csv', 'utf8');\n"
            "const given = fs.readFileSync('input/given.txt', 'utf8');\n"
            "fs.writeFileSync('/kept/out.txt', text + given); fs.writeFileSync('output/a.bin', new Uint8Array([0, 255]));\n"
            "try { fs.writeFileSync('/input/sales.csv', '') } catch (e) { e.code }"
        )
        result = await box.run(actbox.Program(code, "javascript", files={"given.txt": "!"}))
        assert result.value == "EROFS", result
        assert (tmp_path / "kept" / "out.txt").read_text() == "1,2!"
        assert [(artifact.name, artifact.data) for artifact in result.artifacts] == [("a.bin", b"\x00\xff")]
        assert await box.read_file("output/a.bin") == b"\x00\xff"


def test_the_guest_fits_into_one_argument_of_a_command() -> None:
    assert len(guest_source().encode()) < 128 * 1024
