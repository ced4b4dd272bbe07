"""Podman where it passes everything on to a service, which has a runtime of its own."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import actbox
from actbox import FileMount, Policy, SandboxUnavailable
from actbox.sandbox.engines.container import control_groups
from actbox.sandbox.engines.container.client import find_client
from tests.engines.container.containers import names_of, needs
from tests.waiting import wait_until

pytestmark = pytest.mark.engines


@pytest.fixture(scope="module")
def socket() -> Iterator[str]:
    """A service on this machine, with the runtime that Podman has here without one."""
    client = needs()
    if not client.is_local:
        pytest.skip("only Podman has such a service, where it does not use one already")
    with tempfile.TemporaryDirectory() as folder:
        socket = f"{folder}/socket"
        service = subprocess.Popen(client.command("system", "service", "--time", "0", f"unix://{socket}"))
        try:
            wait_until(lambda: Path(socket).exists())
            yield socket
        finally:
            service.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                service.wait(30)
            service.kill()
            service.wait()


@pytest.fixture(params=["by its address", "by the name of a connection"])
def service(request: pytest.FixtureRequest, socket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "by its address":
        monkeypatch.setenv("CONTAINER_HOST", f"unix://{socket}")
        return
    settings = tmp_path / "containers.conf"
    settings.write_text(f'[engine.service_destinations.here]\nuri = "unix://{socket}"\n')
    monkeypatch.setenv("CONTAINERS_CONF", str(settings))
    monkeypatch.setenv("CONTAINER_CONNECTION", "here")


@pytest.mark.usefixtures("service")
async def test_programs_run_in_containers_of_a_service_with_their_files(tmp_path: Path) -> None:
    mounted = tmp_path / "mounted"
    mounted.mkdir(mode=0o755)
    (mounted / "file").write_text("x")
    policy = Policy(mounts=[FileMount(mounted, "/data")])
    async with actbox.open_sandbox("container", client="podman", policy=policy) as box:
        result = await box.run("open('/data/file').read()")
        assert (result.error, result.value) == (None, "x")
    assert names_of(find_client(client="podman")) == set()


@pytest.mark.usefixtures("service")
async def test_what_only_the_services_machine_knows_is_asked_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    client = find_client(client="podman")
    assert not client.is_local
    asked = control_groups.controllers(client)
    assert asked == control_groups.ALL & set(client.json("info", "--format", "{{json .Host.CgroupControllers}}"))
    with pytest.raises(SandboxUnavailable, match="cannot tell it to use runsc"):
        await actbox.open_sandbox("container", client="podman", runtime="runsc").start()
