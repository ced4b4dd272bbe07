"""Programs of an account behind a real sshd: what is different from a process of this machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import actbox
from actbox import ErrorKind, Limits, Policy, Sandbox
from tests.clock import Clock
from tests.engines.ssh.ssh_server import SshServer

pytestmark = pytest.mark.engines


async def test_a_program_has_tools_and_says_its_value(box: Sandbox) -> None:
    @actbox.tool
    def double(number: int) -> int:
        """Twice as much."""
        return 2 * number

    result = await box.run("print('here')\nawait __import__('asyncio').gather(double(1), double(2))", tools=[double])
    assert result.success, result
    assert (result.stdout, result.value, result.sandbox) == ("here\n", [2, 4], "ssh")


async def test_variables_last_in_a_session(box: Sandbox) -> None:
    async with box.session() as session:
        await session.run("a = 20")
        assert (await session.run("a + 22")).value == 42


async def test_files_go_both_ways_and_are_removed_with_the_sandbox(server: SshServer) -> None:
    box = actbox.open_sandbox("ssh", allow_unisolated=True, python=sys.executable, **server.options)
    data = os.urandom(5_000_000)
    async with box:
        await box.write_file("-odd 'name'\n", data)
        assert await box.read_file("-odd 'name'\n") == data
        result = await box.run("open('output/copy', 'wb').write(open(\"-odd 'name'\\n\", 'rb').read())")
        assert result.artifact("copy").data == data
        folder = Path(box.root).parent
        assert folder.is_dir()
    assert not folder.exists()


_LOCKS_AND_NESTS = """
import os
os.mkdir('deep')
for _ in range(1500):
    os.mkdir('outer')
    os.rename('deep', 'outer/deep')
    os.rename('outer', 'deep')
os.makedirs('locked/inner')
os.chmod('locked', 0)
"""


async def test_folders_that_are_nested_deeper_than_a_path_can_say_are_removed_too(server: SshServer) -> None:
    box = actbox.open_sandbox("ssh", allow_unisolated=True, python=sys.executable, **server.options)
    async with box:
        result = await box.run(_LOCKS_AND_NESTS)
        assert result.success, result
        folder = Path(box.root).parent
    assert not folder.exists()


async def test_a_program_that_is_alone_sees_no_files_of_others_and_leaves_none(box: Sandbox) -> None:
    await box.write_file("mine", b"1")
    result = await box.run_alone("import os\nprint(os.getcwd())\nsorted(os.listdir())")
    assert result.value == ["input", "output"], result
    assert not Path(result.stdout.strip()).exists()


async def test_a_timeout_ends_the_whole_tree_there(box: Sandbox, clock: Clock) -> None:
    program = "import subprocess, time\nprint(subprocess.Popen(['sleep', '600']).pid, flush=True)\ntime.sleep(600)"
    result = await clock.run_out(box.stream(program, timeout=30), 30, after="\n")
    assert result.error is not None and result.error.kind is ErrorKind.TIMEOUT
    assert not Path(f"/proc/{int(result.stdout)}").exists()


async def test_a_lost_connection_is_a_failed_result_and_the_next_run_works(box: Sandbox, server: SshServer) -> None:
    await box.write_file("kept", b"still here")

    async for event in box.stream("import time\nprint('begun', flush=True)\ntime.sleep(60)"):
        if isinstance(event, actbox.Output):
            server.cut_connections()
    assert isinstance(event, actbox.Completed)
    result = event.result
    assert (result.exit_code, result.stdout) == (125, "begun\n")
    assert result.error is not None and result.error.kind is ErrorKind.SANDBOX
    assert (await box.run("open('kept').read()")).value == "still here"
    assert (await box.run("1 + 1")).value == 2


async def test_a_host_whose_key_is_not_known_is_refused(server: SshServer, tmp_path: Path) -> None:
    (tmp_path / "none known").write_text("")
    options = {**server.options, "known_hosts": tmp_path / "none known"}
    with pytest.raises(actbox.SandboxUnavailable, match=r"Host key verification failed.*ssh -p \d+ .*ssh-keyscan"):
        await actbox.open_sandbox("ssh", allow_unisolated=True, **options).start()


async def test_a_host_with_another_key_is_refused(server: SshServer, tmp_path: Path) -> None:
    other = " ".join((server.folder / "client_key.pub").read_text().split()[:2])
    (tmp_path / "known").write_text(f"[127.0.0.1]:{server.port} {other}\n")
    options = {**server.options, "known_hosts": tmp_path / "known"}
    with pytest.raises(actbox.SandboxUnavailable, match="verification failed"):
        await actbox.open_sandbox("ssh", allow_unisolated=True, **options).start()


async def test_nothing_of_this_process_or_of_the_login_is_in_a_programs_environment(
    box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_HOST", "1")
    names = (await box.run("import os\nsorted(os.environ)")).value
    assert {name for name in names if name.startswith(("SSH", "SECRET", "XDG"))} == set()
    assert "PATH" in names


async def test_a_python_that_is_not_there_is_said(server: SshServer) -> None:
    with pytest.raises(actbox.SandboxUnavailable, match="no-such-python"):
        await actbox.open_sandbox("ssh", allow_unisolated=True, python="/no-such-python", **server.options).start()


async def test_too_much_memory_is_refused_there(server: SshServer) -> None:
    policy = Policy(limits=Limits(memory_mib=300))
    async with actbox.open_sandbox(
        "ssh", policy=policy, allow_unisolated=True, python=sys.executable, **server.options
    ) as box:
        result = await box.run("data = bytearray(2_000_000_000)")
    assert result.error is not None and (result.error.kind, result.error.limit) == (ErrorKind.MEMORY, "memory_mib")
