"""`LocalEnvironment`, `LocalSandbox`, `DockerSandbox` and `AgentCoreSandbox`."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("strands", reason="the extra actbox[strands] is not installed")

from strands.sandbox.errors import SandboxPathNotFoundError

import actbox
from actbox import InvalidValue, Limits, Policy, SandboxUnavailable
from actbox.integrations.strands import (
    AgentCoreSandbox,
    DockerSandbox,
    LocalEnvironment,
    LocalSandbox,
    file_read,
    file_write,
    python,
    shell,
)
from tests.conftest import engine_check
from tests.integrations.strands_agents.acting import acting, block, seen
from tests.integrations.strands_agents.places import agent_of, answers


@pytest.mark.slow
async def test_the_local_environment_is_this_machine_and_says_so() -> None:
    async with LocalEnvironment(env={"GIVEN": "1"}) as local:
        assert not local.traits.isolated
        assert (await local.execute("echo $GIVEN; id -u")).exit_code == 0
        await local.write_file("f", b"1")
        assert (await local.execute_code("print(open('f').read())")).stdout == "1\n"
        folder = Path(local.working_dir)
        assert (folder / "f").read_bytes() == b"1"
    assert not folder.exists()


@pytest.mark.slow
async def test_an_agent_in_codeact_is_told_the_folders_of_this_machine(tmp_path: Path) -> None:
    for folder in (None, tmp_path):
        async with LocalEnvironment(folder) as local:
            agent = acting(local, block("1"), "done")
            await agent.invoke_async("go")
            told = [request["system"] for request in seen(agent)]
            start = tmp_path if folder else local.box.root
            assert all(f"Programs start in {start}" in text for text in told)
            assert not any(" /workspace" in text or " /output" in text for text in told)


@pytest.mark.slow
async def test_the_local_environment_works_in_a_folder_of_the_host(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("already")
    async with LocalEnvironment(tmp_path) as local:
        agent = agent_of(
            ("shell", {"command": "pwd; cat there; echo 1 > by-shell"}),
            ("python", {"code": "print(open('by-shell').read())"}),
            ("file_write", {"path": "sub/by-tool", "content": "2"}),
            ("file_read", {"path": str(tmp_path / "by-shell")}),
            tools=[shell, python, file_read, file_write],
            sandbox=local,
        )
        await agent.invoke_async("go")
        said = answers(agent)
        assert f'"output": "{tmp_path}\\nalready"' in said[0]
        assert said[1] == "[stdout]\n1"
        assert said[3] == "1\n"
        assert (tmp_path / "sub/by-tool").read_text() == "2"
        assert [(entry.name, entry.is_dir, entry.size) for entry in await local.list_files()] == [
            ("by-shell", False, 2),
            ("sub", True, None),
            ("there", False, 7),
        ]
        await local.remove_file("there")
        for call in (local.read_file("there"), local.remove_file("there"), local.list_files("by-shell")):
            with pytest.raises(SandboxPathNotFoundError):
                await call
        with pytest.raises(OSError, match="remove directories of this machine"):
            await local.remove_file("sub", recursive=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["by-shell", "sub"]
    with pytest.raises(InvalidValue, match="working_dir must be a directory that is there"):
        LocalEnvironment(tmp_path / "nope")


@pytest.mark.slow
async def test_files_of_the_host_are_what_commands_see_or_refused(tmp_path: Path) -> None:
    (tmp_path / "real/sub").mkdir(parents=True)
    (tmp_path / "real/up.txt").write_text("where the link leads")
    (tmp_path / "up.txt").write_text("beside the link")
    (tmp_path / "link").symlink_to(tmp_path / "real/sub")
    (tmp_path / "large").write_bytes(b"1" * (2**20 + 1))
    os.mkfifo(tmp_path / "pipe")
    async with LocalEnvironment(tmp_path, policy=Policy(limits=Limits(file_mib=1))) as local:
        assert await local.read_file("link/../up.txt") == b"where the link leads"
        assert (await local.execute("cat link/../up.txt")).stdout == "where the link leads"
        await local.write_file("link/../new/made", b"2")
        assert (tmp_path / "real/new/made").read_bytes() == b"2"
        assert {entry.name for entry in await local.list_files("link/..")} == {"new", "sub", "up.txt"}
        await local.remove_file("link/../up.txt")
        assert (tmp_path / "up.txt").read_text() == "beside the link"
        await local.write_file("up.txt", b"short")
        assert await local.read_file("up.txt") == b"short"
        for place in ("pipe", "/dev/zero"):
            with pytest.raises(OSError, match="is not a regular file"):
                await asyncio.wait_for(local.read_file(place), 60)
        with open(tmp_path / "pipe", "rb", opener=_not_waiting):
            with pytest.raises(OSError, match="is not a regular file"):
                await local.write_file("pipe", b"3")
        with pytest.raises(OSError, match="No such device"):  # nobody reads it
            await asyncio.wait_for(local.write_file("pipe", b"3"), 60)
        with pytest.raises(OSError, match="more than 1,048,576 bytes"):
            await local.read_file("large")


def _not_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


async def test_what_is_called_a_local_sandbox_is_opened_only_when_that_is_said() -> None:
    with pytest.raises(SandboxUnavailable, match="isolates nothing"):
        LocalSandbox()
    async with LocalSandbox(allow_unisolated=True) as local:
        assert isinstance(local, LocalEnvironment)
        assert (await local.execute("echo hi")).stdout == "hi\n"


def test_a_docker_sandbox_says_what_of_its_options_makes_no_sense(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match=r"there is no .*nope on this machine"):
        DockerSandbox(volumes={str(tmp_path / "nope"): "/data"})
    with pytest.raises(InvalidValue, match="is mounted at a path such as"):
        DockerSandbox(volumes={str(tmp_path): 5})  # type: ignore[dict-item]
    with pytest.raises(InvalidValue, match="mode"):
        DockerSandbox(volumes={str(tmp_path): "/data:rwx"})
    with pytest.raises(InvalidValue, match="no option"):
        DockerSandbox(network="host")


def test_an_agentcore_sandbox_is_the_engine_of_that_name_with_what_was_told(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def opened(engine: str, **options: Any) -> actbox.Sandbox:
        asked.append((engine, options))
        return actbox.sandbox.opening.open_sandbox("linux")

    monkeypatch.setattr(actbox, "open_sandbox", opened)  # AWS itself cannot be had
    AgentCoreSandbox()
    AgentCoreSandbox("us-west-2", session_name="mine", identifier="own-1", session_seconds=60)
    assert asked == [
        ("agentcore", {"policy": None}),
        (
            "agentcore",
            {
                "policy": None,
                "region": "us-west-2",
                "session_name": "mine",
                "identifier": "own-1",
                "session_seconds": 60,
            },
        ),
    ]


@pytest.mark.engines
async def test_a_docker_sandbox_has_its_volumes_variables_limits_and_no_network(tmp_path: Path) -> None:
    found = engine_check("container")
    if not found.works:
        pytest.skip(f"the container engine does not work here: {found.reason}. {found.advice}")
    (tmp_path / "read").mkdir()
    (tmp_path / "write").mkdir()
    (tmp_path / "read/f").write_text("1")
    box = DockerSandbox(
        volumes={str(tmp_path / "read"): "/data", tmp_path / "write": {"bind": "/out", "mode": "rw"}},
        environment={"GIVEN": "2"},
        working_dir="project",
        limits=Limits(wall_seconds=30, processes=32),
    )
    async with box:
        result = await box.execute("pwd; cat /data/f; echo $GIVEN; echo 3 > /out/g; echo 4 > /data/f")
        assert result.stdout == "/workspace/project\n12\n"
        assert "ead-only" in result.stderr
        assert (tmp_path / "write/g").read_text() == "3\n"
        assert await box.read_file("/data/f") == b"1"
        await box.write_file("/out/new/h", b"5")
        assert (tmp_path / "write/new/h").read_bytes() == b"5"
        network = "import socket\nsocket.create_connection(('1.1.1.1', 53), 2)"
        assert "unreachable" in (await box.execute_code(network)).stderr
