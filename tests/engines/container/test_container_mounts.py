"""That a container is given what its policy means, also where programs put links in the place of that meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import actbox
from actbox import FileMount, Policy, SandboxUnavailable
from actbox.sandbox.engines.container import shown
from actbox.sandbox.engines.container.client import Client
from actbox.sandbox.nursery.host_mounts import HostMounts
from tests.engines.container.containers import names_of, needs

pytestmark = pytest.mark.engines


class Folders:
    """A folder that programs may change, one in it that is mounted by itself, and one that nobody may see."""

    def __init__(self, place: Path) -> None:
        self.project, self.secret = place / "project", place / "secret"
        self.inner = self.project / "sub"
        self.inner.mkdir(parents=True)
        self.secret.mkdir()
        for folder in (place, self.project, self.inner, self.secret):
            folder.chmod(0o755)
        (self.inner / "name").write_text("inner")
        (self.secret / "name").write_text("secret")
        self.policy = Policy(mounts=[FileMount(self.project, "/proj", "rw"), FileMount(self.inner, "/data")])

    def swap(self) -> None:
        """Do as a program of another run may."""
        if not self.inner.is_symlink():
            self.inner.rename(self.project / "moved")
            self.inner.symlink_to(self.secret)


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    needs()
    return Folders(tmp_path)


async def test_a_link_that_takes_a_mounts_place_when_it_was_checked_is_not_followed(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not shown.has_privilege():
        pytest.skip("only root mounts by itself what it has checked")
    check = HostMounts._check

    def check_and_swap(self: HostMounts, source: int, mount: dict[str, Any]) -> None:
        check(self, source, mount)
        if mount["host_path"] == str(folders.inner):
            folders.swap()

    monkeypatch.setattr(HostMounts, "_check", check_and_swap)
    async with actbox.open_sandbox("container", policy=folders.policy) as box:
        assert (await box.run("open('/data/name').read()")).value == "inner"


async def test_what_takes_a_mounts_place_while_a_path_is_mounted_is_seen_before_any_program_runs(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = needs()
    before = names_of(client)
    monkeypatch.setattr(shown, "has_privilege", lambda: False)
    async with actbox.open_sandbox("container", policy=folders.policy) as box:
        assert (await box.run("open('/data/name').read()")).value == "inner"
    run = Client.run

    def swap_and_run(self: Client, *arguments: str, **options: Any) -> str:
        if arguments[0] == "run":
            folders.swap()
        return run(self, *arguments, **options)

    monkeypatch.setattr(Client, "run", swap_and_run)
    with pytest.raises(SandboxUnavailable, match="something else came to lie there"):
        async with actbox.open_sandbox("container", policy=folders.policy):
            pass
    assert names_of(client) == before


async def test_where_that_cannot_be_seen_what_programs_can_replace_is_not_mounted(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs("runsc")
    monkeypatch.setattr(shown, "has_privilege", lambda: False)
    with pytest.raises(SandboxUnavailable, match=f"{folders.inner} cannot be mounted beside {folders.project}"):
        async with actbox.open_sandbox("container", policy=folders.policy, runtime="runsc"):
            pass
    policy = Policy(mounts=[FileMount(folders.inner, "/data")])
    async with actbox.open_sandbox("container", policy=policy, runtime="runsc") as box:
        assert (await box.run("open('/data/name').read()")).value == "inner"
