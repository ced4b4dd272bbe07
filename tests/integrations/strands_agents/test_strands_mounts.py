"""Files in what a policy mounts: the file methods and tools see them as commands do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("strands", reason="the extra actbox[strands] is not installed")

from strands.sandbox.errors import SandboxPathNotFoundError

from actbox import FileMount, Limits, Policy
from actbox.integrations.strands import mounted_files
from tests.integrations.strands_agents.conftest import ENGINES
from tests.integrations.strands_agents.places import agent_of, answers, sandbox_on


@pytest.fixture
def host(tmp_path: Path) -> Path:
    for name in ("read", "write"):
        (tmp_path / name).mkdir()
    (tmp_path / "read/f").write_bytes(b"1")
    (tmp_path / "one.csv").write_bytes(b"a,b")
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
async def test_what_is_mounted_is_read_and_written_as_programs_may(engine: str, host: Path) -> None:
    mounts = [
        FileMount(host / "read", "/workspace/read"),
        FileMount(host / "write", "/out", "rw"),
        FileMount(host / "one.csv", "one.csv"),
    ]
    large = bytes(range(256)) * 20_000
    async with sandbox_on(engine, policy=Policy(mounts=tuple(mounts))) as box:
        assert await box.read_file("read/f") == b"1"
        assert await box.read_file("/input/one.csv") == await box.read_file("input/one.csv") == b"a,b"
        await box.write_file("/out/new/folder/-x\ny", large)
        assert (host / "write/new/folder/-x\ny").read_bytes() == large
        assert await box.read_file("/out/new/folder/-x\ny") == large
        assert (await box.execute("cat /out/new/folder/-* | wc -c")).stdout == f"{len(large)}\n"
        (entry,) = await box.list_files("/out/new/folder")
        assert (entry.name, entry.is_dir, entry.size) == ("-x\ny", False, len(large))
        await box.remove_file("/out/new/folder/-x\ny")
        with pytest.raises(OSError, match="director"):
            await box.remove_file("/out/new")
        await box.remove_file("/out/new", recursive=True)
        assert list((host / "write").iterdir()) == []
        for call in (box.read_file("/out/nope"), box.list_files("/out/nope"), box.remove_file("/out/nope")):
            with pytest.raises(SandboxPathNotFoundError):
                await call
        for refused in (box.write_file("read/g", b""), box.remove_file("read/f")):
            with pytest.raises(OSError, match="ead-only"):
                await refused
        assert (host / "read/f").exists()
        assert {entry.name: entry.is_dir for entry in await box.list_files("/")} == dict.fromkeys(
            ("input", "out", "output", "workspace"), True
        )
        assert {entry.name: entry.is_dir for entry in await box.list_files("/input")} == {"one.csv": False}
        assert {entry.name for entry in await box.list_files()} == {"input", "output", "read"}
        agent = agent_of(
            ("file_editor", {"command": "view", "path": "/input/one.csv"}),
            ("file_editor", {"command": "create", "path": "/out/made", "file_text": "1\n"}),
            ("file_editor", {"command": "view", "path": "/out"}),
            sandbox=box,
        )
        await agent.invoke_async("go")
        said = answers(agent)
        assert "a,b" in said[0]
        assert "made" in said[2]
        assert (host / "write/made").read_text() == "1\n"


async def test_nothing_is_written_where_it_would_not_last(host: Path) -> None:
    policy = Policy(mounts=(FileMount(host / "read", "/data", "overlay"),))
    async with sandbox_on("linux", policy=policy) as box:
        assert await box.read_file("/data/f") == b"1"
        for refused in (box.write_file("/data/g", b""), box.remove_file("/data/f")):
            with pytest.raises(OSError, match="is in an overlay"):
                await refused


@pytest.mark.parametrize("module", ["base64", "shutil", "binascii"])
async def test_modules_in_the_working_folder_have_no_say_in_what_is_mounted(host: Path, module: str) -> None:
    async with sandbox_on("linux", policy=Policy(mounts=(FileMount(host / "write", "/data", "rw"),))) as box:
        (host / "write/f").write_bytes(b"true")
        planted = """
def b64decode(text, *rest): return binascii.a2b_base64(text)
def b64encode(data): return binascii.b2a_base64(b"forged", newline=False)
rmtree = print
"""
        first = "" if module == "binascii" else "import binascii"
        await box.write_file(f"{module}.py", f"{first}{planted}".encode())
        assert await box.read_file("/data/f") == b"true"
        await box.write_file("/data/made/g", b"1")
        assert {entry.name for entry in await box.list_files("/data")} == {"f", "made"}
        await box.remove_file("/data/made", recursive=True)
        assert not (host / "write/made").exists()


@pytest.mark.slow
async def test_what_is_read_of_a_mount_is_a_regular_file_and_not_too_large(host: Path) -> None:
    os.mkfifo(host / "read/pipe")
    (host / "read/large").write_bytes(b"1" * (3 * 2**20 + 1))
    (host / "read/fits").write_bytes(b"1" * 3 * 2**20)
    policy = Policy(mounts=(FileMount(host / "read", "/data"),), limits=Limits(file_mib=3))
    async with sandbox_on("linux", policy=policy) as box:
        with pytest.raises(OSError, match="is not a regular file"):
            await box.read_file("/data/pipe")
        with pytest.raises(OSError, match="larger than a file may be"):
            await box.read_file("/data/large")
        assert len(await box.read_file("/data/fits")) == 3 * 2**20


@pytest.mark.slow
@pytest.mark.parametrize("said", ["5", "[1]", "'not base64!'", "'AAAA' * 720_000", "None"])
async def test_what_a_program_says_of_a_mounted_file_is_looked_at(host: Path, said: str) -> None:
    async with sandbox_on("linux", policy=Policy(mounts=(FileMount(host / "read", "/data"),))) as box:
        honest = mounted_files._PROGRAM
        try:
            mounted_files._PROGRAM = f"{{'did': {said}}}"  # type: ignore[misc]
            for asked in (box.read_file("/data/f"), box.list_files("/data")):
                with pytest.raises(OSError, match="makes no sense"):
                    await asked
        finally:
            mounted_files._PROGRAM = honest  # type: ignore[misc]
