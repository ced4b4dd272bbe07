"""Files in what a policy mounts: the file methods and tools see them as commands do."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("strands", reason="the extra actbox[strands] is not installed")

from strands.sandbox.errors import SandboxPathNotFoundError

from actbox import FileMount, Policy
from tests.integrations.strands_places import ENGINES, agent_of, answers, sandbox_on


@pytest.fixture
def host(tmp_path: Path) -> Path:
    for name in ("read", "write"):
        (tmp_path / name).mkdir()
    (tmp_path / "read/f").write_bytes(b"1")
    (tmp_path / "one.csv").write_bytes(b"a,b")
    return tmp_path


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
