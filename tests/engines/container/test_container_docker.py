"""What Docker does in another way than Podman; needs a Docker daemon that answers, on this machine for a part."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import actbox
from actbox import ErrorKind, FileMount, Limits, Policy, SandboxUnavailable
from actbox.core.errors import ActboxError
from actbox.sandbox.engines.container import container as container_module
from actbox.sandbox.engines.container import orphans
from actbox.sandbox.engines.container.cache import OURS
from actbox.sandbox.engines.container.client import Client, find_client
from actbox.sandbox.engines.container.container import Container
from actbox.sandbox.engines.container.engine import ContainerSandbox
from actbox.sandbox.engines.linux.stock import inodes_for
from tests.engines.container.containers import image_with_python, names_of, somebodys_container

pytestmark = pytest.mark.engines


@pytest.fixture
def client() -> Client:
    """Docker; without a daemon that answers the test is skipped."""
    try:
        client = find_client(client="docker")
        client.run("info", "--format", "{{.ServerVersion}}", seconds=20)
    except ActboxError as error:
        pytest.skip(f"Docker does not work here: {error}")
    return client


def container_of(box: actbox.Sandbox) -> Container:
    assert isinstance(box, ContainerSandbox) and isinstance(box._agent_place, Container)
    return box._agent_place


async def test_runs_tools_sessions_and_files_are_those_of_every_engine(client: Client) -> None:
    @actbox.tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    before = names_of(client)
    async with actbox.open_sandbox("container", client="docker") as box:
        await box.write_file("input/given.txt", b"given")
        code = (
            "import asyncio\nboth = await asyncio.gather(add(1, 2), add(3, 4))\n"
            "open('/output/made.txt', 'w').write(open('/input/given.txt').read())\nboth"
        )
        result = await box.run(code, tools=[add])
        assert (result.error, result.value) == (None, [3, 7])
        assert [(artifact.name, artifact.data) for artifact in result.artifacts] == [("made.txt", b"given")]
        async with box.session() as session:
            await session.run("x = 20")
            stuck = await session.run("while True: pass", timeout=0.5)
            assert stuck.state_kept and stuck.exit_code == 124
            assert (await session.run("x + 1")).value == 21
        stuck = await box.run(
            "import subprocess\nsubprocess.Popen(['setsid', 'sleep', '777'])\nwhile True: pass", timeout=1
        )
        assert stuck.exit_code == 124
        found = await box.execute(["sh", "-c", "cat /proc/[0-9]*/cmdline; exit 3"])
        assert found.exit_code == 3 and "777" not in found.stdout.replace("\0", " ").split()
        killed = await box.run("import os\nos.kill(-1, 9)\nimport time\ntime.sleep(600)", timeout=50)
        assert killed.error is not None and killed.error.kind is ErrorKind.SANDBOX
        assert (await box.run("open('/input/given.txt').read()")).value == "given"
        assert [result.value async for result in box.map(["1", "2", "3"], concurrency=2)] == [1, 2, 3]
        folder = container_of(box).folder
    assert names_of(client) == before
    assert not os.path.exists(folder)


async def test_how_a_container_is_made_can_be_read_from_its_daemon(client: Client) -> None:
    limits = Limits(cpus=0.5)
    code = """
import os
status = dict(line.split(':', 1) for line in open('/proc/self/status'))
files = [os.statvfs(path).f_files for path in ('/workspace', '/tmp')]
[*files, status['Seccomp_filters'].strip(), status['CapBnd'].strip()]
"""
    async with actbox.open_sandbox("container", client="docker", policy=Policy(limits=limits)) as box:
        assert {"cpus", "processes"} <= set(box.traits.enforced)
        assert not any("number of files and directories" in note for note in box.traits.notes)
        container = container_of(box)
        made = client.json("container", "inspect", container.name)[0]
        seen = (await box.run(code)).value
        if container._first_process():  # the daemon is this machine's
            assert container.memory_group._file is not None and container.memory_group._file.exists()
            assert int(seen[2]) == 2
    assert seen[:2] == [inodes_for(limits.workspace_mib)] * 2
    assert int(seen[3], 16) == 0
    host = made["HostConfig"]
    assert (host["NetworkMode"], host["ReadonlyRootfs"], host["Privileged"]) == ("none", True, False)
    assert host["CapDrop"] == ["ALL"] and not host["CapAdd"]
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert host["Memory"] == host["MemorySwap"] >= limits.memory_mib * 2**20
    assert limits.processes < host["PidsLimit"] < limits.processes + 100
    assert host["NanoCpus"] == 500_000_000
    assert not made["Config"]["User"].startswith("0")


async def test_all_places_can_be_one_file_system(client: Client) -> None:
    policy = Policy(limits=Limits(disk_mib=16))
    code = "for place in ('/workspace', '/tmp', '/dev/shm'): open(f'{place}/a', 'wb').write(bytes(6 * 2**20))"
    if "disk_mib" not in actbox.open_sandbox("container", client="docker").traits.enforced:
        pytest.skip("only root can mount a file system for all places")
    async with actbox.open_sandbox("container", client="docker", policy=policy) as box:
        result = await box.run(code)
        assert result.error is not None
        assert (result.error.kind, result.error.limit) == (ErrorKind.DISK, "disk_mib")
        assert (await box.run("open('/dev/shm/a', 'wb').write(bytes(9 * 2**20))")).success


async def test_mounts_are_what_was_checked_and_follow_their_mode(client: Client, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    shared, told = tmp_path / 'a, "b"', tmp_path / "told"
    shared.mkdir()
    shared.chmod(0o777)
    told.write_text("told")
    policy = Policy(mounts=[FileMount(shared, "/data/deep", "rw"), FileMount(told, "/input/told")])
    async with actbox.open_sandbox("container", client="docker", policy=policy) as box:
        code = "open('/data/deep/new', 'w').write(open('/input/told').read())\nopen('/input/told', 'a')"
        error = (await box.run(code)).error
        assert error is not None and error.type in ("OSError", "PermissionError")
    assert (shared / "new").read_text() == "told"


async def test_a_daemon_that_shows_other_files_is_not_believed(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One whose own folders have the same paths, as when this process is in a container that has its socket."""
    given = container_module.mount_arguments
    elsewhere, mine = tmp_path / "elsewhere", tmp_path / "mine"
    elsewhere.mkdir(mode=0o755)
    mine.mkdir()

    hidden = ""

    def given_elsewhere(client: Client, host: str, inside: str, mode: str) -> Sequence[str]:
        return given(client, str(elsewhere) if inside == hidden else host, inside, mode)

    monkeypatch.setattr(container_module, "mount_arguments", given_elsewhere)
    before = names_of(client)
    policy = Policy(mounts=[FileMount(mine, "/data")])
    hidden = "/workspace/input"
    with pytest.raises(SandboxUnavailable, match="does not show containers the files"):
        await actbox.open_sandbox("container", client="docker", policy=policy).start()
    hidden = "/data"
    with pytest.raises(SandboxUnavailable, match="came to lie there"):
        await actbox.open_sandbox("container", client="docker", policy=policy).start()
    assert names_of(client) == before


@pytest.fixture
def image(client: Client, tmp_path: Path) -> Iterator[str]:
    with image_with_python(client, tmp_path) as name:
        yield name


async def test_an_image_by_name_and_a_container_of_ones_own_can_be_used(client: Client, image: str) -> None:
    async with actbox.open_sandbox("container", client="docker", image=image) as box:
        assert (await box.run("import os\nos.path.exists('/usr/bin/env')")).value is False
        made_on = container_of(box)._build.root.image
    assert made_on.startswith(OURS)
    client.run("image", "rm", made_on)
    with somebodys_container(client) as name:
        async with actbox.open_sandbox("container", client="docker", container=name) as box:
            assert (await box.run("import os\nos.getuid()")).value == 4242
        assert client.json("container", "inspect", name)[0]["State"]["Running"] is True


def test_what_a_killed_process_has_left_is_removed_by_the_next(client: Client) -> None:
    program = (
        "import asyncio, actbox\nbox = actbox.open_sandbox('container', client='docker')\n"
        "async def main():\n    await box.start()\n"
        "    print(box._agent_place.name, box._agent_place.folder, flush=True)\n"
        "    await asyncio.sleep(600)\nasyncio.run(main())"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        name, folder = process.stdout.readline().split()
        assert name not in orphans.reap(client)
        process.kill()
        process.wait()
    assert name in orphans.reap(client)
    assert name not in names_of(client, process.pid)
    orphans.remove_folder(folder)


def test_why_docker_refuses_is_told_and_not_what_it_advises(client: Client) -> None:
    missing = f"localhost/{secrets.token_hex(4)}"
    with pytest.raises(SandboxUnavailable, match=missing):
        client.run("run", "--pull", "never", missing)
