"""The engine on systems that are not Linux, as far as it can be told here: nothing that only Linux has is used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import actbox
from actbox.sandbox.engines.wasm.served_workspace import ServedWorkspace

_ELSEWHERE = Path(__file__).with_name("elsewhere.py")
_PROGRAM = """
import runpy, sys
runpy.run_path(ELSEWHERE)

import asyncio, os
import actbox
from actbox.sandbox.engines.wasm.pool import worker_pool

def shout(text: str) -> str:
    return text.upper()

async def one(box):
    await box.write_text("input/name.txt", "world")
    result = await box.run(
        "open('/output/x.txt', 'w').write('made')\\nprint('said')\\nshout(open('/input/name.txt').read())",
        tools=[shout],
    )
    assert result.success, result.error
    print(result.value, result.stdout.strip(), result.artifacts[0].name, result.artifacts[0].data)

async def limits():
    for code, given in (
        ("while True: pass", {"wall_seconds": 0.5}),
        ("while True: pass", {"cpu_seconds": 0.3}),
        ("x = []\\nwhile True: x.append(bytes(2**20))", {"memory_mib": 64}),
        ("while True: print('x' * 1000)", {"output_bytes": 10_000}),
        ("for n in range(9): open(str(n), 'wb').write(bytes(2**20))\\nprint('BEYOND')", {"workspace_mib": 4}),
    ):
        async with actbox.open_sandbox("wasm", policy=actbox.Policy(limits=actbox.Limits(**given))) as box:
            result = await box.run(code)
            assert "BEYOND" not in result.stdout
            print(result.error.limit, end=" ")
            assert sum(file.size for file in await box.list_files() if file.kind == "file") <= 4 * 2**20
    print()

async def files(box):
    await box.write_text("a/b.txt", "b")
    await box.move("a/b.txt", "c/d.txt")
    await box.remove_file("a")
    listed = await box.list_files("c", recursive=True)
    print([(file.path, file.kind) for file in listed], await box.read_text("c/d.txt"))
    for path in ("a", "c/d.txt/e", "c", "\\udcff"):
        try:
            await box.read_file(path)
        except actbox.FileError as error:
            print(error.errno, end=" ")
    large = bytes(range(256)) * 20_000
    await box.write_file("large", large)
    print(await box.read_file("large") == large)
    try:
        await box.write_file("large", b"", mode=0o755)
    except actbox.Unsupported as error:
        print((await box.stat("large")).mode, str(error).partition(" have")[0])

async def links(box):
    up = "../" * 20
    result = await box.run(
        f"import posix\\nposix.symlink('{up}' + host[1:], '/workspace/link')\\n"
        f"posix.symlink('{up}', '/workspace/up')\\n"
        f"posix.symlink('{up}' + host[1:], '/workspace/output/link')".replace("host", repr(HOST))
    )
    assert result.success, result.error
    print(result.artifacts, result.warnings)
    for path in ("link", "up" + HOST, "output/link"):
        try:
            print(await box.read_file(path))
        except actbox.FileError as error:
            print(error.errno, end=" ")
    try:
        await box.write_file("up/evil", b"evil")
    except actbox.FileError as error:
        print(error.errno)

async def main():
    async with actbox.open_sandbox("wasm") as box:
        await one(box)
        async with box.session() as session:
            await session.run("x = 20")
            print((await session.run("x + 1")).value)
        print([(await alone).value async for alone in results(box)])
        await files(box)
        await links(box)
    await limits()
    worker_pool().end()
    assert all(not worker.alive for worker in workers), "a worker was left"

async def results(box):
    async def one(result):
        return result
    async for result in box.map(["1", "2"]):
        yield one(result)

from actbox.sandbox.engines.wasm import worker
workers, begin = [], worker.Worker.__init__
def noted(self, *args):
    begin(self, *args)
    workers.append(self)
worker.Worker.__init__ = noted
asyncio.run(main())
"""


@pytest.mark.engines  # nine seconds each
@pytest.mark.parametrize("platform", ["win32", "darwin"])
def test_it_runs_where_nothing_of_linux_is_there(platform: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of the host")
    program = _PROGRAM.replace("ELSEWHERE", repr(str(_ELSEWHERE))).replace("HOST", repr(str(secret)))
    told = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "PLATFORM": platform},
    )
    assert told.returncode == 0, told.stderr
    assert told.stdout.splitlines() == [
        "WORLD said x.txt b'made'",
        "21",
        "[1, 2]",
        "[('c/d.txt', 'file')] b",
        "2 20 21 84 True",
        "None the files of the wasm engine",
        "() ('output/ could not be looked at: I/O error',)",
        "40 20 40 20",
        "wall_seconds cpu_seconds memory_mib output_bytes workspace_mib ",
    ]
    assert told.stderr == ""


def test_it_says_so() -> None:
    traits = actbox.check("wasm").traits
    assert traits is not None
    assert traits.platforms == ("linux", "darwin", "win32")


def test_a_description_that_makes_no_sense_is_an_error_of_the_file_method(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = ServedWorkspace(str(tmp_path), str(tmp_path), str(tmp_path))
    monkeypatch.setattr(workspace, "_ask", lambda *_, **__: [["f"]])  # one file of which nothing more is said
    with pytest.raises(actbox.FileError, match="makes no sense"):
        workspace.list(".", recursive=False)
    with pytest.raises(actbox.FileError, match="makes no sense"):
        workspace.stat("f")
    workspace.close()
