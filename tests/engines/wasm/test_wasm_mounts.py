"""Folders of the host that a program on WebAssembly is given: it has these, as they were given, and nothing beside."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import actbox
from actbox import ErrorKind, FileMount, Policy


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file and a folder in it, beside a secret."""
    (tmp_path / "secret").write_text("of the host")
    inner = tmp_path / "data"
    (inner / "sub").mkdir(parents=True)
    (inner / "a.txt").write_text("given")
    return inner


def _policy(*mounts: FileMount) -> Policy:
    return Policy(mounts=mounts)


@pytest.mark.slow
async def test_a_folder_that_is_read_only_cannot_be_changed_in_any_way(folder: Path) -> None:
    program = """
import os
came = []
def attempt(call):
    try:
        call()
        came.append(True)
    except OSError:
        pass
for top in ("/data", "/data/sub/..", "/input/again", "/workspace/input/again"):
    for mode in ("w", "a", "r+"):
        attempt(lambda: open(top + "/a.txt", mode).write("evil"))
    attempt(lambda: open(top + "/new", "w"))
    attempt(lambda: os.unlink(top + "/a.txt"))
    attempt(lambda: os.truncate(top + "/a.txt", 0))
    attempt(lambda: os.mkdir(top + "/d"))
    attempt(lambda: os.rmdir(top + "/sub"))
    attempt(lambda: os.rename(top + "/a.txt", top + "/b.txt"))
    attempt(lambda: os.rename(top + "/a.txt", "/workspace/taken"))
    attempt(lambda: os.link(top + "/a.txt", "/workspace/hard"))
    os.utime(top + "/a.txt", (1, 1))  # which the library does not refuse, and does not do
came
"""
    policy = _policy(FileMount(folder, "/data"), FileMount(folder, "again"))
    before = (folder / "a.txt").stat().st_mtime_ns
    async with actbox.open_sandbox("wasm", policy=policy) as box:
        result = await box.run(program)
    assert result.value == [], result.error
    assert sorted(os.listdir(folder)) == ["a.txt", "sub"]
    assert ((folder / "a.txt").read_text(), (folder / "a.txt").stat().st_mtime_ns) == ("given", before)


async def test_nothing_leads_out_of_a_mounted_folder(folder: Path) -> None:
    (folder / "link").symlink_to("../secret")
    (folder / "up").symlink_to("..")
    (folder / "far").symlink_to(folder.parent / "secret")
    program = """
import os, posix
came = []
for path in ("link", "up/secret", "far", "../secret", "sub/../../secret", "mine"):
    for call in (lambda: open("/data/" + path).read(), lambda: posix.symlink("../secret", "/data/mine")):
        try:
            came.append(call())
        except OSError:
            pass
    try:
        open("/data/" + path, "a").write("evil")
    except OSError:
        pass
came
"""
    async with actbox.open_sandbox("wasm", policy=_policy(FileMount(folder, "/data", "rw"))) as box:
        result = await box.run(program)
        assert "of the host" not in str(result.to_dict())
    assert (folder.parent / "secret").read_text() == "of the host"


@pytest.mark.slow
async def test_what_is_mounted_is_listed_where_it_lies_and_sessions_see_it(folder: Path) -> None:
    policy = _policy(FileMount(folder, "sales"), FileMount(folder, "/output/out", "rw"))
    async with actbox.open_sandbox("wasm", policy=policy) as box, box.session() as session:
        for place in (box, session):
            result = await place.run("import os\nsorted(os.listdir('/input') + os.listdir('/output/out'))")
            assert result.value == ["a.txt", "sales", "sub"], result.error
        await box.run("open('/output/out/made', 'w').write('by a program')")
    assert (folder / "made").read_text() == "by a program"


async def test_another_that_has_come_to_lie_there_is_not_mounted(folder: Path) -> None:
    policy = _policy(FileMount(folder, "/data"))
    folder.rename(folder.with_name("moved"))
    folder.mkdir()
    box = actbox.open_sandbox("wasm", policy=policy)
    with pytest.raises(actbox.SandboxUnavailable, match="another than when it was mounted"):
        await box.start()


@pytest.mark.parametrize(
    ("name", "path", "mode"),
    [("a.txt", "/data/a.txt", "ro"), ("a.txt", "a.txt", "rw"), ("", "/input", "ro"), ("", "/data", "overlay")],
)
def test_what_cannot_be_mounted_is_refused_with_the_engine_that_can(
    folder: Path, name: str, path: str, mode: str
) -> None:
    with pytest.raises(actbox.Unsupported, match=r"wasm engine .*linux can"):
        actbox.open_sandbox("wasm", policy=_policy(FileMount(folder / name, path, mode)))  # type: ignore[arg-type]


@pytest.mark.slow
async def test_a_folder_that_a_program_has_put_a_link_in_the_place_of_is_mounted_no_more(tmp_path: Path) -> None:
    (tmp_path / "project/sub").mkdir(parents=True)
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/key").write_text("of the host")
    mounts = FileMount(tmp_path / "project", "/project", "rw"), FileMount(tmp_path / "project/sub", "/data", "rw")
    async with actbox.open_sandbox("wasm", policy=_policy(*mounts)) as box:
        put = await box.run(
            "import os, posix\nos.rename('/project/sub', '/project/moved')\nposix.symlink('../secret', '/project/sub')"
        )
        assert put.success, put.error
        for program in ("open('/data/key').read()", "open('/data/made', 'w').write('evil')"):
            result = await box.run(program)
            assert result.error is not None
            assert (result.error.kind, result.value) == (ErrorKind.SANDBOX, None)
            assert "project/sub is another than" in result.error.message
        assert os.listdir(tmp_path / "secret") == ["key"]
        (tmp_path / "project/sub").unlink()
        (tmp_path / "project/moved").rename(tmp_path / "project/sub")
        assert (await box.run("open('/data/made', 'w').write('x')")).success
    assert (tmp_path / "project/sub/made").read_text() == "x"


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="the system does not show what a process has open")
def test_a_folder_is_given_as_it_was_looked_at_whatever_comes_to_lie_there_then(folder: Path) -> None:
    from actbox.sandbox.engines.wasm.worker_process import _Folders, _OtherFolder

    status = folder.stat()
    volume = (str(folder), "/data", True, [status.st_dev, status.st_ino])
    folders = _Folders([volume])
    folder.rename(folder.with_name("moved"))
    folder.symlink_to(".")
    ((given, inside, read_only),) = folders.given
    assert (sorted(os.listdir(given)), inside, read_only) == (["a.txt", "sub"], "/data", True)
    folders.close()
    with pytest.raises(_OtherFolder):
        _Folders([volume])


def test_where_a_folder_cannot_be_held_none_is_mounted_that_a_program_could_move(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actbox.sandbox.engines.wasm.folders._OPENS_ONCE", False)
    actbox.open_sandbox("wasm", policy=_policy(FileMount(folder, "/data"), FileMount(folder / "sub", "/sub", "rw")))
    with pytest.raises(actbox.Unsupported, match="safe from programs"):
        actbox.open_sandbox("wasm", policy=_policy(FileMount(folder, "/data", "rw"), FileMount(folder / "sub", "/sub")))
