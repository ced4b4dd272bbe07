"""How containers come about, are used again, and go: also when whoever made them is killed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import actbox
from actbox import FileMount, InvalidValue, Policy, SandboxUnavailable
from actbox.sandbox.engines.container import cache, image, orphans
from actbox.sandbox.engines.container.client import Client, find_client
from actbox.sandbox.engines.container.container import Container
from actbox.sandbox.engines.container.engine import ContainerSandbox, Options
from actbox.sandbox.engines.container.mounts import can_hold
from actbox.sandbox.host_processes import namespace
from tests.engines.container.containers import RUNTIMES, names_of, needs, somebodys_container
from tests.sandbox.remote.forked import seen_in_a_child

pytestmark = pytest.mark.engines


def container_of(box: actbox.Sandbox) -> Container:
    assert isinstance(box, ContainerSandbox) and isinstance(box._agent_place, Container)
    return box._agent_place


@pytest.fixture
def stranger() -> int:
    """A user of this machine that this process is not, and can give files to."""
    if os.geteuid() != 0:
        pytest.skip("only root can give a file to somebody else")
    return 65534


async def test_a_stopped_sandbox_leaves_no_container_no_folder_and_no_mount(tmp_path: Path) -> None:
    client = needs()
    if not can_hold():
        pytest.skip("only where root makes a container are the files of a mount shown to programs as their own")
    (tmp_path / "a").write_text("x")
    async with actbox.open_sandbox("container", policy=Policy(mounts=[FileMount(tmp_path, "/data", "rw")])) as box:
        container = container_of(box)
        assert (await box.run("open('/data/b', 'w').write('y')\nopen('/data/a').read()")).value == "x"
    assert container.name not in names_of(client)
    assert not os.path.exists(container.folder)
    assert container.folder not in Path("/proc/self/mounts").read_text()
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]
    assert (tmp_path / "b").stat().st_uid == os.getuid()


async def test_programs_apart_use_containers_again_and_see_nothing_of_each_other() -> None:
    client = needs()
    before = names_of(client)
    async with actbox.open_sandbox("container") as box:
        look = "import os\nseen = [os.listdir(p) for p in ('/workspace/output', '/workspace', '/tmp', '/dev/shm')]\n"
        leave = "".join(
            f"open('{p}/x', 'w').close()\n" for p in ("/workspace/output", "/workspace", "/tmp", "/dev/shm")
        )
        results = [result async for result in box.map([look + leave + "seen"] * 12, concurrency=2)]
        assert all(result.error is None for result in results), results
        for result in results:
            assert [sorted(names) for names in result.value] == [[], ["input", "output"], [], []]
            assert [artifact.name for artifact in result.artifacts] == ["x"]
        assert len(names_of(client) - before) <= 1 + 2 + 1
    assert names_of(client) - before == set()


@pytest.mark.parametrize("runtime", RUNTIMES, ids=lambda name: name or "usual")
async def test_inputs_and_mounts_are_in_a_container_that_is_used_again(runtime: str, tmp_path: Path) -> None:
    needs(runtime)
    tmp_path.chmod(0o755)
    (tmp_path / "a").write_text("mounted")
    policy = Policy(mounts=[FileMount(tmp_path, "/input/deep/data"), FileMount(tmp_path / "a", "/input/file")])
    code = """
import os
seen = [open('/input/' + path).read() for path in (name, 'deep/data/a', 'file')]
[*seen, sorted(os.listdir('/input')), os.listdir('/input/deep')]
"""
    async with actbox.open_sandbox("container", policy=policy, runtime=runtime) as box:
        for name in ("one", "two/too"):
            files = {name: b"given", "deep/more": b"x"} if name == "one" else {name: b"given"}
            result = await box.run_alone(actbox.Program(code, inputs={"name": name}, files=files))
            deep = {"data", "more"} if name == "one" else {"data"}
            assert (result.error, result.value[:3]) == (None, ["given", "mounted", "mounted"])
            assert (result.value[3], set(result.value[4])) == (sorted(["deep", "file", name.split("/")[0]]), deep)


_LEAVES_A_CONTAINER = """
import asyncio, os, sys, actbox
async def main():
    box = actbox.open_sandbox("container")
    await box.start()
    print(box._agent_place.name, box._agent_place.folder, flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""


def test_what_a_killed_process_has_left_is_removed_by_the_next() -> None:
    client = needs()
    with subprocess.Popen([sys.executable, "-c", _LEAVES_A_CONTAINER], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        name, folder = process.stdout.readline().split()
        assert name in names_of(client, process.pid)
        assert name not in orphans.reap(client)
        process.kill()
        process.wait()
    assert name in orphans.reap(client)
    assert name not in names_of(client, process.pid)
    orphans.remove_folder(folder)
    assert not os.path.exists(folder)


def test_a_folder_that_somebody_else_has_made_is_not_touched(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, stranger: int
) -> None:
    """Anybody may give a folder the name of a container's whose process has gone, and put links in it."""
    victim = tmp_path / "victim"
    victim.mkdir()
    for name in ("kept", "input", "made"):
        (victim / name).write_text("x")
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    kind = f"actbox-container-{namespace()}"
    evil = place / f"{kind}-1-evil"
    for name in (f"{kind}-1-evil", f"{kind}-1-open", f"{kind}-1-ours", "actbox-container-1-1-elsewhere"):
        folder = place / name
        folder.mkdir(mode=0o700)
        for inner in ("shown", "input", "made"):
            (folder / inner).symlink_to(victim)
    os.chown(evil, stranger, stranger)
    (place / f"{kind}-1-open").chmod(0o777)
    (place / f"{kind}-1-link").symlink_to(victim)
    orphans.reap_folders()
    assert sorted(path.name for path in victim.iterdir()) == ["input", "kept", "made"]
    assert sorted(path.name for path in evil.iterdir()) == ["input", "made", "shown"]
    assert sorted(path.name for path in place.iterdir()) == [
        "actbox-container-1-1-elsewhere",
        *(f"{kind}-1-evil", f"{kind}-1-link", f"{kind}-1-open", f"{kind}-1-ours"),
    ]
    (place / f"{kind}-1-dead" / "shown").mkdir(parents=True)
    (place / f"{kind}-1-dead").chmod(0o700)
    orphans.reap_folders()
    assert not (place / f"{kind}-1-dead").exists()


def test_a_container_of_a_process_that_is_counted_elsewhere_is_left_alone() -> None:
    client = needs()
    labels = {**orphans.labels_of_this_process(), "io.actbox.namespace": "1", "io.actbox.start": "1"}
    with somebodys_container(client, labels) as name:
        assert name not in orphans.reap(client)


def test_a_container_that_does_not_say_since_when_is_left_alone_while_there_is_such_a_process() -> None:
    client = needs()
    labels = {**orphans.labels_of_this_process(), "io.actbox.boot": "", "io.actbox.start": ""}
    with somebodys_container(client, labels) as name:
        assert name not in orphans.reap(client)
        assert client.json("container", "inspect", name)[0]["State"]["Running"] is True


def test_a_container_that_does_not_say_whose_it_is_is_left_alone() -> None:
    client = needs()
    labels = {**orphans.labels_of_this_process(), "io.actbox.pid": "none"}
    with somebodys_container(client, labels) as name:
        assert name not in orphans.reap(client)
        assert client.json("container", "inspect", name)[0]["State"]["Running"] is True


@pytest.fixture
def image_of_its_own(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """What has the next sandbox make an image that no other test has."""

    def use_another() -> None:
        monkeypatch.setitem(image._LINKS, f"link-{secrets.token_hex(4)}", "nowhere")

    return use_another


async def test_an_image_of_ours_that_was_removed_is_made_anew(image_of_its_own: Callable[[], None]) -> None:
    client = needs()
    image_of_its_own()
    for _ in range(2):
        async with actbox.open_sandbox("container") as box:
            assert (await box.run("1")).value == 1
            made = container_of(box)._build.root.image
        client.run("rmi", made)


async def test_of_the_images_that_are_made_those_used_last_are_kept(
    image_of_its_own: Callable[[], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One that a container is made of stays, however long ago that was made; so does what is not ours."""
    client = needs()
    real = Client.run

    def run(self: Client, *arguments: str, **options: Any) -> str:
        said = real(self, *arguments, **options)
        if arguments[0] == "import":
            made.append(arguments[-1])
        if arguments[:2] == ("image", "ls"):  # those of other tests, which go on at once, are none of this one's
            return "\n".join(name for name in said.split() if name in made)
        return said

    monkeypatch.setattr(Client, "run", run)
    monkeypatch.setattr(cache, "MOST_IMAGES", 2)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made: list[str] = []
    boxes = []
    try:
        for _ in range(4):
            image_of_its_own()
            assert image.host_root(client).image == made[-1]
            if len(made) == 1:
                boxes.append(actbox.open_sandbox("container"))
                await boxes[0].start()
                assert container_of(boxes[0])._build.root.image == made[0]
            if len(made) == 3:  # the second has been used again since
                cache.note_use(client, made[1])
        assert [name for name in made if not image.has_gone(client, name)] == [made[0], made[1], made[3]]
        assert len(list((tmp_path / "actbox" / "images" / client.name).iterdir())) <= 3
    finally:
        for box in boxes:
            await box.stop()
        for name in made:
            if not image.has_gone(client, name):
                client.run("rmi", name)


def test_mounts_and_packages_make_no_images_of_their_own(tmp_path: Path) -> None:
    client = needs()
    images = {
        ContainerSandbox(Policy(mounts=mounts), Options())._build().root.image
        for mounts in ([], [FileMount(tmp_path, "/data/deep")], [FileMount(tmp_path, "/opt/it")])
    }
    assert images == {image.host_root(client).image}


async def test_a_container_of_ones_own_is_used_and_left_as_it_was() -> None:
    client = needs()
    with somebodys_container(client) as name:
        async with actbox.open_sandbox("container", container=name) as box:
            assert "processes" not in box.traits.enforced
            assert box.root != "/workspace"
            await box.write_file("a/b", b"x")
            result = await box.run("import os\nopen('output/c', 'w').write(open('a/b').read())\nos.getuid()")
            assert (result.error, result.value) == (None, 4242)
            assert [artifact.data for artifact in result.artifacts] == [b"x"]
            root = box.root
        assert client.json("container", "inspect", name)[0]["State"]["Running"] is True
        assert root.rpartition("/")[2] not in client.run("exec", name, "ls", "/tmp")


async def test_an_image_by_name_brings_its_own_interpreter() -> None:
    client = needs()
    name = "localhost/actbox-tests-image"
    with somebodys_container(client) as container:
        image = client.json("container", "inspect", container)[0]["ImageName"]
    # The host's image is one without an interpreter of its own, so that there is nothing to run in it.
    with pytest.raises(SandboxUnavailable, match="Python"):
        async with actbox.open_sandbox("container", image=image):
            pass
    with pytest.raises(SandboxUnavailable, match="pull"):
        async with actbox.open_sandbox("container", image=name):
            pass


@pytest.mark.parametrize("kind", ["ours", "somebody's"])
def test_a_forked_child_is_refused_and_its_parent_goes_on(kind: str) -> None:
    client = needs()
    with contextlib.ExitStack() as stack:
        options = {"container": stack.enter_context(somebodys_container(client))} if kind == "somebody's" else {}
        loop = asyncio.new_event_loop()
        stack.callback(loop.close)
        box = actbox.open_sandbox("container", **options)
        loop.run_until_complete(box.start())
        stack.callback(lambda: loop.run_until_complete(box.stop()))
        loop.run_until_complete(box.write_file("x", b"parent"))
        seen = seen_in_a_child(box)
        for what in ("run", "write", "read"):
            assert "belongs to the parent of this forked process" in seen[what], seen
        assert seen["stop"] == "done"
        for number in range(3):
            result = loop.run_until_complete(box.run(f"print(open('x').read(), {number})"))
            assert (result.error, result.stdout) == (None, f"parent {number}\n")


def test_a_sandbox_that_only_a_forked_child_starts_is_the_childs() -> None:
    client = needs()
    before = names_of(client)
    box = actbox.open_sandbox("container")
    assert isinstance(box, ContainerSandbox)

    class Started:
        """It starts before it is used."""

        async def run(self, code: str) -> object:
            await box.start()
            return await box.run(code)

        write_file, read_file, stop = box.write_file, box.read_file, box.stop

    assert set(seen_in_a_child(Started()).values()) == {"done"}  # type: ignore[arg-type]
    assert names_of(client) == before


async def test_a_container_that_is_removed_under_a_run_is_a_failed_result() -> None:
    client = needs()
    async with actbox.open_sandbox("container") as box:
        begun = asyncio.Event()

        async def begin() -> None:
            begun.set()

        running = asyncio.create_task(box.run("begin()\nimport time\ntime.sleep(600)", tools=[begin]))
        async with asyncio.timeout(60):
            await begun.wait()
        await asyncio.to_thread(client.run, "rm", "--force", container_of(box).name)
        result = await running
        assert result.error is not None and result.error.kind is actbox.ErrorKind.SANDBOX
        error = (await box.run("1")).error
        assert error is not None and error.kind is actbox.ErrorKind.SANDBOX
        assert "has been removed" in error.message and "start it again" in error.message
        await box.stop()
        await box.start()
        assert (await box.run("1")).value == 1


def test_options_that_make_no_sense_are_refused() -> None:
    for options in ({"image": "-v"}, {"runtime": "--x"}, {"client": "lxc"}, {"container": "a", "image": "b"}):
        with pytest.raises(InvalidValue):
            actbox.open_sandbox("container", **options)


def test_a_machine_without_podman_and_docker_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = actbox.check("container")
    assert not found.works
    assert "podman" in found.reason and "apt-get install podman" in found.advice
    with pytest.raises(SandboxUnavailable):
        find_client()


def test_a_daemon_that_does_not_answer_is_said_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\necho 'Cannot connect to the Docker daemon' >&2\nexit 1\n")
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin-not:/bin-not")
    assert isinstance(find_client(), Client)
    found = actbox.check("container")
    assert not found.works and "docker" in found.reason and found.advice
