"""That a container is given what its policy means, also where programs put links in the place of that meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import actbox
from actbox import FileMount, Policy, SandboxUnavailable
from actbox.sandbox.engines.container import mounts
from actbox.sandbox.engines.container.client import Client
from actbox.sandbox.nursery.host_mounts import HostMounts
from tests.engines.container.containers import RUNTIMES, names_of, needs

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
    if not mounts.has_privilege():
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
    monkeypatch.setattr(mounts, "has_privilege", lambda: False)
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
    monkeypatch.setattr(mounts, "has_privilege", lambda: False)
    with pytest.raises(SandboxUnavailable, match=f"{folders.inner} cannot be mounted beside {folders.project}"):
        async with actbox.open_sandbox("container", policy=folders.policy, runtime="runsc"):
            pass
    policy = Policy(mounts=[FileMount(folders.inner, "/data")])
    async with actbox.open_sandbox("container", policy=policy, runtime="runsc") as box:
        assert (await box.run("open('/data/name').read()")).value == "inner"


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("place", ["/workspace/proj", "/workspace/output/proj", "/workspace/a/b"])
async def test_a_container_that_is_emptied_for_the_next_leaves_what_is_mounted(
    tmp_path: Path, runtime: str, place: str
) -> None:
    client = needs(runtime)
    tmp_path.chmod(0o755)
    (tmp_path / "sub").mkdir(0o755)
    (tmp_path / "sub" / "deep").write_text("deep")
    (tmp_path / "file").write_text("file")
    policy = Policy(mounts=[FileMount(tmp_path, place, "rw"), FileMount(tmp_path / "file", "/workspace/one", "ro")])
    async with actbox.open_sandbox("container", policy=policy, runtime=runtime) as box:
        own = names_of(client)
        assert (await box.run_alone("open('left', 'w').close()")).success
        first = names_of(client) - own
        found = await box.run_alone(f"import os; [sorted(os.listdir({place!r})), os.path.exists('left')]")
        assert found.value == [["file", "sub"], False]
        assert names_of(client) - own == first, "another container was made"
    assert (tmp_path / "sub" / "deep").read_text() == "deep"
    assert [path.stat().st_mode & 0o777 for path in (tmp_path, tmp_path / "sub")] == [0o755, 0o755]


async def test_a_folder_above_a_mount_that_a_program_has_renamed_is_not_emptied(tmp_path: Path) -> None:
    needs()
    tmp_path.chmod(0o755)
    (tmp_path / "file").write_text("file")
    policy = Policy(mounts=[FileMount(tmp_path, "/workspace/a/b", "rw")])
    async with actbox.open_sandbox("container", policy=policy) as box:
        assert (await box.run_alone("import os; os.rename('a', 'c'); os.mkdir('a')")).success
        assert (await box.run_alone("import os; os.listdir('a/b')")).value == ["file"]
    assert (tmp_path / "file").read_text() == "file"
