"""The files of a workspace: nothing outside is reached, and an approver sees what is written."""

from __future__ import annotations

import asyncio
import base64
import os
from pathlib import Path
from typing import Any

import pytest

from actbox.capabilities import Label
from actbox.capabilities.approvals import Approvals
from actbox.capabilities.files import MOST_READ, MOST_WRITTEN, Folder, workspace_files
from actbox.capabilities.outcome import Outcome
from actbox.capabilities.registry import Registry
from actbox.capabilities.standard import standard_registry
from actbox.core.errors import InvalidValue


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "workspace/notes").mkdir(parents=True)
    (tmp_path / "workspace/notes/one.txt").write_text("first\nsecond\n")
    (tmp_path / "outside.txt").write_text("not for agents")
    return tmp_path / "workspace"


def registry(workspace: Path, label: str = "public", **more: Any) -> Registry:
    return Registry(workspace_files(Folder(workspace, label)), **{"granted": ["filesystem"], **more})


async def use(registry: Registry, name: str, labels: str | None = None, **given: Any) -> Outcome:
    return await registry.invoke(f"files.{name}", given, labels=labels)


async def test_a_file_is_written_read_and_listed(workspace: Path) -> None:
    files = registry(workspace, "internal")
    done = await use(files, "write", path="new/two.txt", content="zwei ü")
    assert done.output == {"path": "new/two.txt", "size": 7, "created": True} and done.labels == Label("internal")
    assert (workspace / "new/two.txt").read_text() == "zwei ü"
    done = await use(files, "read", path="/workspace/new/two.txt")
    assert done.output == {"content": "zwei ü", "size": 7} and done.labels == Label("internal")
    again = await use(files, "write", path="new/two.txt", content=base64.b64encode(b"\xff").decode(), encoding="base64")
    assert again.output["created"] is False
    assert (await use(files, "read", path="new/two.txt", encoding="base64")).output["content"] == "/w=="
    done = await use(files, "list", recursive=True)
    assert done.labels == Label("internal") and done.output["complete"]
    assert [(one["path"], one["kind"], one["size"]) for one in done.output["entries"] if one["kind"] == "file"] == [
        ("new/two.txt", "file", 1),
        ("notes/one.txt", "file", 13),
    ]


@pytest.mark.parametrize("path", ["../outside.txt", "/etc/passwd", "link.txt", "out/outside.txt", "notes/../link.txt"])
async def test_nothing_outside_is_reached(workspace: Path, path: str) -> None:
    (workspace / "link.txt").symlink_to(workspace.parent / "outside.txt")
    (workspace / "out").symlink_to(workspace.parent)
    files = registry(workspace)
    for done in (await use(files, "read", path=path), await use(files, "list", path=path)):
        assert done.error is not None and done.error.kind in ("invalid", "failed"), done
        assert "not for agents" not in str(done)
    if path != "link.txt":  # a link is replaced by the file, not followed
        assert not (await use(files, "write", path=path, content="x")).ok
    await use(files, "write", path="link.txt", content="x")
    assert (workspace.parent / "outside.txt").read_text() == "not for agents"


async def test_sizes_and_contents_that_cannot_be_are_refused(workspace: Path) -> None:
    files = registry(workspace)
    with (workspace / "big").open("wb") as big:
        big.truncate(MOST_READ + 1)
    (workspace / "odd").write_bytes(b"\xff")
    os.mkfifo(workspace / "pipe")
    for name, given, message in (
        ("read", {"path": "big"}, f"more than {MOST_READ:,} bytes"),
        ("read", {"path": "odd"}, "no text in UTF-8"),
        ("read", {"path": "pipe"}, "not a regular file"),
        ("read", {"path": "none"}, "No such file"),
        ("read", {"path": ""}, "non-empty"),
        ("write", {"path": "a", "content": "x" * (MOST_WRITTEN + 1)}, "are the most"),
        ("write", {"path": "a", "content": "no base64!", "encoding": "base64"}, "cannot be written"),
        ("write", {"path": "a", "content": "\ud800"}, "cannot be written"),
    ):
        done = await use(files, name, **given)
        assert done.error is not None and message in done.error.message, done.error
    assert not (workspace / "a").exists()


async def test_a_long_list_is_cut_and_says_so(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actbox.capabilities.files.MOST_LISTED", 2)
    for name in ("two", "three"):
        (workspace / "notes" / name).touch()
    done = await use(registry(workspace), "list", path="notes")
    assert len(done.output["entries"]) == 2 and not done.output["complete"]


async def test_data_of_a_higher_label_is_not_written_where_it_would_lose_it(workspace: Path) -> None:
    approvals = Approvals.open(f"sqlite:///{workspace.parent}/approvals.db")
    for files in (registry(workspace), registry(workspace, approvals=approvals, granted=[])):
        done = await use(files, "write", labels="pii.email", path="a.txt", content="ann@example.com")
        assert done.error is not None and (done.error.step, done.error.kind) == ("label", "refused")
    assert not (workspace / "a.txt").exists() and not await approvals.list()
    assert (await use(registry(workspace, "pii"), "write", labels="pii.email", path="a.txt", content="a")).ok
    approvals.close()


async def test_an_approver_sees_the_difference_and_approves_that_alone(workspace: Path) -> None:
    approvals = Approvals.open(f"sqlite:///{workspace.parent}/approvals.db")
    files = registry(workspace, "internal", approvals=approvals, granted=[])

    async def asked(content: str) -> tuple[asyncio.Future[Outcome], Any]:
        writing = asyncio.ensure_future(use(files, "write", path="notes/one.txt", content=content))
        while not (waiting := await approvals.list("pending")):
            await asyncio.sleep(0)
        return writing, waiting[0]

    writing, question = await asked("first\nthird\n")
    assert question.shown["files"] == {"notes/one.txt": {"before": "first\nsecond\n", "after": "first\nthird\n"}}
    assert question.labels == Label("internal") and question.shown["risk"] == "medium"
    await approvals.approve(question.id, by="ann")
    assert (await writing).ok and (workspace / "notes/one.txt").read_text() == "first\nthird\n"

    writing, question = await asked("fourth\n")
    (workspace / "notes/one.txt").write_text("meanwhile\n")
    await approvals.approve(question.id, by="ann")
    done = await writing
    assert done.error is not None and "has changed since its difference was shown" in done.error.message
    assert (workspace / "notes/one.txt").read_text() == "meanwhile\n"
    done = await use(files, "write", path="new.txt", content="\nü" * (MOST_WRITTEN // 3))
    assert done.error is not None and "an approver can be shown at most" in done.error.message
    approvals.close()


async def test_the_standard_registry_has_them(workspace: Path) -> None:
    async with standard_registry(workspace=workspace) as files, standard_registry() as without:
        assert (await use(files, "read", path="notes/one.txt")).output["size"] == 13
        done = await use(without, "read", path="notes/one.txt")
        assert done.error is not None and done.error.message == "nothing here carries out files.read"


def test_a_workspace_is_a_directory(workspace: Path) -> None:
    with pytest.raises(InvalidValue, match="is no directory"):
        Folder(workspace / "notes/one.txt")
