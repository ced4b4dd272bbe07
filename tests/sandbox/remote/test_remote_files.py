"""Files at an agent: as any workspace's, and nothing that the agent says is believed before it is checked."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from actbox import FileError, InvalidValue, Limits, Policy, SandboxStopped
from actbox.sandbox.remote.workspace import RemoteWorkspace
from tests.sandbox.remote.remote_box import RemoteBox

ODD_NAMES = ["-rf", "two words", "new\nline", "ümlaut", "'quote\"", "a" * 200, "..hidden", "$(x)", "\udcff"]


@pytest_asyncio.fixture
async def box() -> AsyncIterator[RemoteBox]:
    async with RemoteBox() as opened:
        yield opened


@pytest.mark.slow
@pytest.mark.parametrize("name", ODD_NAMES)
async def test_names_are_names_whatever_is_in_them(box: RemoteBox, name: str) -> None:
    await box.write_file(f"folder/{name}", b"\0\xff")
    assert [entry.path for entry in await box.list_files("folder")] == [f"folder/{name}"]
    await box.move(f"folder/{name}", f"other/{name}")
    assert await box.read_file(f"other/{name}") == b"\0\xff"
    assert (await box.stat(f"other/{name}")).size == 2
    await box.remove_file("other", recursive=True)
    with pytest.raises(FileError):
        await box.stat("other")


async def test_no_link_is_followed(box: RemoteBox, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    await box.run(f"import os\nos.symlink({str(tmp_path)!r}, 'way')\nos.symlink({str(tmp_path / 'secret')!r}, 'link')")
    for path in ("way/secret", "link"):
        with pytest.raises(FileError):
            await box.read_file(path)
    with pytest.raises(FileError):
        await box.write_file("way/new", b"x")
    await box.write_file("link", b"mine")  # takes the link's place
    assert (tmp_path / "secret").read_text() == "secret"
    assert os.listdir(tmp_path) == ["secret"]
    assert {entry.path: entry.kind for entry in await box.list_files()}["way"] == "link"


@pytest.mark.slow
async def test_what_is_no_file_is_not_read(box: RemoteBox) -> None:
    await box.run("import os\nos.mkfifo('pipe')\nos.mkdir('folder')\nos.mkfifo('output/pipe')")
    for path in ("pipe", "folder"):
        with pytest.raises(FileError):
            await box.read_file(path)
    result = await box.run("open('output/file', 'w').close()")
    assert [artifact.name for artifact in result.artifacts] == ["file"]


@pytest.mark.slow
async def test_only_what_a_run_made_or_changed_is_its_artifact(box: RemoteBox) -> None:
    names = []
    for code in (
        "open('output/a', 'w').write('1')",
        "1",
        "open('output/b', 'w').write('1')",
        "open('output/a', 'w').write('2')",
        "import os\nos.remove('output/a'); os.remove('output/b')",
        "open('output/c', 'w').write('1')",
    ):
        names.append([artifact.name for artifact in (await box.run(code)).artifacts])
    assert names == [["a"], [], ["b"], ["a"], [], ["c"]]
    await box.write_file("output/d", b"the host's")
    assert (await box.run("1")).artifacts == ()


@pytest.mark.slow
async def test_an_output_folder_that_was_removed_is_made_anew(box: RemoteBox) -> None:
    await box.run("import os\nos.rmdir('output')\nos.symlink('/', 'output')")
    result = await box.run("open('output/a', 'w').write('1')")
    assert [artifact.name for artifact in result.artifacts] == ["a"]
    assert any("made anew" in warning for warning in result.warnings)


@pytest.mark.slow
async def test_a_file_larger_than_there_may_be_is_not_taken_in() -> None:
    async with RemoteBox(Policy(limits=Limits(workspace_mib=1, file_mib=8))) as box:
        await box.run("open('big', 'wb').write(bytes(2**21))")
        assert len(await box.read_file("big")) <= 2**20


async def test_paths_outside_the_workspace_are_refused(box: RemoteBox) -> None:
    for path in ("../x", "/etc/passwd", "", "a\0b"):
        with pytest.raises(InvalidValue):
            await box.read_file(path)


@pytest.mark.slow
async def test_after_the_end_there_are_no_files(box: RemoteBox) -> None:
    workspace = box._workspace
    assert isinstance(workspace, RemoteWorkspace)
    await box.stop()
    with pytest.raises(SandboxStopped):
        workspace.read("a")


@pytest.mark.slow
async def test_a_folder_of_many_files_is_listed_whole(box: RemoteBox) -> None:
    await box.run("for n in range(20_000): open(f'output/{n:05}-' + 'x' * 60, 'w').close()")
    entries = await box.list_files("output")
    assert len(entries) == 20_000
    assert entries == sorted(entries, key=lambda entry: entry.path)
