"""Files of programs in the `monty` engine: the workspace, mounts of each mode, and what keeps them within bounds."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import pytest

import actbox
from actbox import ErrorKind, FileMount, Limits, Policy, Program, Sandbox
from actbox.sandbox.guest.beneath import read_file
from tests.sandbox.deep_folders import few_descriptors


async def value_of(box: Sandbox, code: str | Program) -> object:
    result = await box.run(code)
    assert result.success, result.error
    return result.value


async def test_files_go_in_and_artifacts_come_out(box: Sandbox) -> None:
    code = "text = open('input/a/b.txt').read()\nopen('output/out.txt', 'w').write(text * 2)\ntext"
    result = await box.run(Program(code, files={"a/b.txt": "hi\r\n"}))
    assert result.value == "hi\n"
    assert [(artifact.name, artifact.data) for artifact in result.artifacts] == [("out.txt", b"hi\nhi\n")]


async def test_a_file_is_written_piece_by_piece_and_read_back(box: Sandbox) -> None:
    code = """\
import json, os
from pathlib import Path
from typing import Literal
with open('a.txt', 'w') as file:
    file.write('1\\n')
    file.write('2\\n3\\n')
with open('a.txt', 'a') as file:
    file.write('4')
Path('b.bin').write_bytes(b'\\xff')
open('b.bin', 'ab').write(b'\\x00')
[open('a.txt').readlines(), list(open('b.bin', 'rb').read()), os.path.getsize('a.txt'), Path('a.txt').exists(),
 Path('/workspace/a.txt').is_file(), Path('.').is_dir(), Path('none').exists()]
"""
    assert await value_of(box, code) == [["1\n", "2\n", "3\n", "4"], [255, 0], 7, True, True, True, False]


async def test_folders_are_made_listed_walked_and_removed(box: Sandbox) -> None:
    code = """\
import os
from pathlib import Path
from typing import Literal
os.makedirs('a/b/c')
Path('a/b/x.txt').write_text('x')
os.rename('a/b/x.txt', 'output/y.txt')
Path('a/b/z.txt').write_text('z')
walked = [[root, sorted(folders), files] for root, folders, files in os.walk('a')]
found = [str(path) for path in Path('a').glob('**/*.txt')]
os.remove('a/b/z.txt')
os.rmdir('a/b/c')
[sorted(os.listdir('/')), sorted(os.listdir()), walked, found, os.listdir('a/b'), os.listdir('/output'), os.getcwd()]
"""
    assert await value_of(box, code) == [
        ["input", "output", "workspace"],
        ["a", "input", "output"],
        [["a", ["b"], []], ["a/b", ["c"], ["z.txt"]], ["a/b/c", [], []]],
        ["a/b/z.txt"],
        [],
        ["y.txt"],
        "/workspace",
    ]


@pytest.mark.parametrize(
    ("code", "type_"),
    [
        ("open('none')", "FileNotFoundError"),
        ("open('/etc/passwd')", "FileNotFoundError"),
        ("open('../../etc/passwd')", "FileNotFoundError"),
        ("open('none/a', 'w')", "FileNotFoundError"),
        ("open('output')", "IsADirectoryError"),
        ("open('output', 'w')", "IsADirectoryError"),
        ("open('/etc/new', 'w')", "PermissionError"),
        ("open('input/a', 'w')", "OSError"),
        ("open('/input/a', 'w')", "OSError"),
        ("import os\nos.remove('input')", "OSError"),
        ("import os\nos.rmdir('output')", "OSError"),
        ("import os\nos.rmdir('/workspace')", "OSError"),
        ("import os\nos.mkdir('output')", "FileExistsError"),
        ("import os\nos.listdir('none')", "FileNotFoundError"),
        ("open('t', 'wb').write(b'\\xff')\nopen('t').read()", "UnicodeDecodeError"),
    ],
)
async def test_what_cannot_be_done_raises_what_python_raises(box: Sandbox, code: str, type_: str) -> None:
    error = (await box.run(code)).error
    assert error is not None and error.type == type_, error
    assert "/tmp" not in error.message


async def test_links_are_not_followed_and_pipes_not_waited_for(box: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s")
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "out").symlink_to("/etc")
    os.mkfifo(tmp_path / "pipe")
    async with actbox.open_sandbox("monty", policy=Policy(mounts=(FileMount(tmp_path, "/data", "rw"),))) as mounted:
        for path in ("/data/link", "/data/out/passwd", "/data/pipe"):
            for mode in ("r", "w", "a"):
                error = (await mounted.run(f"open({path!r}, {mode!r}).read()")).error
                assert error is not None and error.type in ("OSError", "NotADirectoryError", "FileNotFoundError"), error
    assert "root" in Path("/etc/passwd").read_text()


async def test_mounts_are_read_only_writable_or_changed_for_one_run(tmp_path: Path) -> None:
    for name in ("ro", "rw", "over"):
        (tmp_path / name / "inner").mkdir(parents=True)
        (tmp_path / name / "a.txt").write_text(name)
        (tmp_path / name / "inner/b.txt").write_text("b")
    (tmp_path / "one.txt").write_text("one")
    policy = Policy(
        mounts=(
            FileMount(tmp_path / "ro", "given"),
            FileMount(tmp_path / "rw", "/data/rw", "rw"),
            FileMount(tmp_path / "over", "/over", "overlay"),
            FileMount(tmp_path / "one.txt", "one.txt"),
        )
    )
    async with actbox.open_sandbox("monty", policy=policy) as box:
        code = """\
import os
def tried(*args):
    try:
        return open(*args).write('new')
    except OSError as error:
        return str(error)[:10]
written = [tried('/input/given/a.txt', 'w'), tried('/data/rw/a.txt', 'a'), tried('/over/inner/b.txt', 'a'),
           tried('/input/one.txt', 'w'), tried('/data/new', 'w')]
os.remove('/over/a.txt')
os.makedirs('/over/c/d')
open('/over/c/d/e.txt', 'w').write('e')
[written, open('/workspace/input/given/a.txt').read(), open('input/one.txt').read(), open('/data/rw/a.txt').read(),
 open('/over/inner/b.txt').read(), sorted(os.listdir('/over')), os.listdir('/over/c/d'), os.listdir('/input'),
 sorted(os.listdir('/')), os.listdir('/data'), os.path.exists('/over/a.txt')]
"""
        assert await value_of(box, code) == [
            ["[Errno 30]", 3, 3, "[Errno 30]", "[Errno 13]"],
            "ro",
            "one",
            "rwnew",
            "bnew",
            ["c", "inner"],
            ["e.txt"],
            ["given", "one.txt"],
            ["data", "input", "output", "over", "workspace"],
            ["rw"],
            False,
        ]
        # What was changed in the overlay is gone with the run, and the host has nothing of it.
        assert await value_of(box, "import os\n[sorted(os.listdir('/over')), open('/over/inner/b.txt').read()]") == [
            ["a.txt", "inner"],
            "b",
        ]
    assert (tmp_path / "ro/a.txt").read_text() == "ro"
    assert (tmp_path / "rw/a.txt").read_text() == "rwnew"
    assert sorted(os.listdir(tmp_path / "over")) == ["a.txt", "inner"]
    assert (tmp_path / "one.txt").read_text() == "one"


async def test_a_folder_at_input_is_seen_together_with_the_files_that_are_given(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("mounted")
    (tmp_path / "b.txt").write_text("mounted")
    async with actbox.open_sandbox("monty", policy=Policy(mounts=(FileMount(tmp_path, "/input"),))) as box:
        code = "import os\n[os.listdir('/input'), open('input/a.txt').read(), open('/input/b.txt').read()]"
        program = Program(code, files={"a.txt": "given"})
        assert await value_of(box, program) == [["a.txt", "b.txt"], "given", "mounted"]
        error = (await box.run("open('/input/c', 'w')")).error
        assert error is not None and error.kind is ErrorKind.POLICY
    assert sorted(os.listdir(tmp_path)) == ["a.txt", "b.txt"]


async def test_an_overlay_lasts_as_long_as_its_session(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    async with actbox.open_sandbox("monty", policy=Policy(mounts=(FileMount(tmp_path, "/over", "overlay"),))) as box:
        async with box.session() as session:
            await session.run("import os\nos.remove('/over/a')\nopen('/over/b', 'w').write('b')")
            assert (await session.run("os.listdir('/over')")).value == ["b"]
        assert (await box.run("import os\nos.listdir('/over')")).value == ["a"]


async def test_a_mount_in_whose_place_something_else_has_come_to_lie_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    box = actbox.open_sandbox("monty", policy=Policy(mounts=(FileMount(tmp_path / "data", "data"),)))
    (tmp_path / "data").rename(tmp_path / "old")
    (tmp_path / "data").mkdir()
    with pytest.raises(actbox.SandboxUnavailable, match="another"):
        await box.start()
    (tmp_path / "data").rmdir()
    with pytest.raises(actbox.SandboxUnavailable, match="cannot be mounted"):
        await box.start()


async def test_changes_of_an_overlay_are_kept_on_request(tmp_path: Path) -> None:
    for path in ("a", "b", "same", "folder/c", "folder/d"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(path)
    mount = FileMount(tmp_path, "/over", "overlay", keep_changes=True)
    code = """\
import os
open('/over/a', 'a').write('2')
os.remove('/over/b')
open('/over/same', 'a')
os.rename('/over/folder/c', '/over/folder/e')
os.makedirs('/over/new/deep')
open('/over/new/deep/f', 'w').write('f')
open('/over/gone', 'w')
os.remove('/over/gone')
"""
    expected = [
        ("removed", "folder/c", None, b"folder/c"),
        ("removed", "b", None, b"b"),
        ("changed", "a", b"a2", b"a"),
        ("added", "folder/e", b"folder/c", None),
        ("added", "new/deep/f", b"f", None),
    ]
    async with actbox.open_sandbox("monty", policy=Policy(mounts=(mount,))) as box:
        for program in (code, f"{code}1 / 0"):
            changes = (await box.run(program)).changes
            assert [(each.kind, each.path, each.data, each.before) for each in changes] == expected
            assert {each.mount for each in changes} == {"/over"}
        assert (await box.run("1")).changes == ()
    few = Policy(mounts=(mount,), limits=Limits(artifacts=2))
    async with actbox.open_sandbox("monty", policy=few) as box:
        result = await box.run(code)
        assert len(result.changes) == 2 and "more than 2 changed files" in result.warnings[0]


def test_a_secret_cannot_be_placed_as_a_file() -> None:
    with pytest.raises(actbox.Unsupported, match="linux"):
        secret = actbox.Secret("key", "s3cret-value-1234", as_file=True)
        actbox.open_sandbox("monty", policy=Policy(secrets=(secret,)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "limit"),
    [
        ("open('a', 'wb').write(b'x' * 1_500_000)", "file_mib"),
        ("for n in range(9): open('a', 'ab').write(b'x' * 200_000)", "file_mib"),
        ("for n in range(9): open(f'output/{n}', 'wb').write(b'x' * 900_000)", "workspace_mib"),
        ("import pathlib\nfor n in range(4000): pathlib.Path(f'{n}').mkdir()", "workspace_mib"),
        ("for n in range(4000): open(f'{n}', 'w').close()", "workspace_mib"),
    ],
)
async def test_files_and_the_workspace_have_limits(code: str, limit: str) -> None:
    async with actbox.open_sandbox("monty", policy=Policy(limits=Limits(file_mib=1, workspace_mib=3))) as box:
        error = (await box.run(code)).error
        assert error is not None and (error.kind, error.limit) == (ErrorKind.DISK, limit)
        total = sum(entry.size for entry in await box.list_files(recursive=True) if entry.kind == "file")
        assert total <= 3 * 2**20
        # Room that is given back can be used again.
        code = "import os\nfor n in range(20):\n    open('b', 'wb').write(b'x' * 200_000)\n    os.remove('b')"
        for entry in await box.list_files():
            await box.remove_file(entry.path, recursive=True)
        assert (await box.run(code)).success


async def test_all_files_have_a_limit_that_may_be_lower(tmp_path: Path) -> None:
    limits = Limits(disk_mib=1)
    async with actbox.open_sandbox("monty", policy=Policy(limits=limits)) as box:
        error = (await box.run("for n in range(9): open(f'output/{n}', 'wb').write(b'x' * 200_000)")).error
        assert error is not None and (error.kind, error.limit) == (ErrorKind.DISK, "disk_mib")
    mounts = (FileMount(tmp_path, "/m", "overlay"),)
    with pytest.raises(actbox.Unsupported, match=r"the monty engine .*Limits\.disk_mib"):
        actbox.open_sandbox("monty", policy=Policy(limits=limits, mounts=mounts))


@pytest.mark.parametrize("read", ["pathlib.Path('/m/large').read_bytes()", "open('/m/large').read()"])
async def test_a_file_that_is_larger_than_the_memory_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: str
) -> None:
    asked: list[int | None] = []

    def reading(folder: int, name: str, most: int | None = None) -> bytes:
        asked.append(most)
        return read_file(folder, name, most)

    monkeypatch.setattr("actbox.sandbox.engines.monty.folders.read_file", reading)
    (tmp_path / "large").touch()
    os.truncate(tmp_path / "large", 33 * 2**20)
    policy = Policy(mounts=(FileMount(tmp_path, "/m"),), limits=Limits(memory_mib=32))
    async with actbox.open_sandbox("monty", policy=policy) as box:
        error = (await box.run(f"import pathlib\n{read}")).error
        assert error is not None and (error.kind, error.limit) == (ErrorKind.MEMORY, "memory_mib"), error
        assert asked == []
        caught = f"import pathlib\ntry:\n    {read}\nexcept OSError as error:\n    print(error)"
        assert "Cannot allocate memory" in (await box.run(caught)).stdout


@pytest.mark.parametrize("mode", ["rw", "overlay"])
async def test_a_file_that_is_renamed_into_another_place_is_bounded_like_one_that_is_written(
    tmp_path: Path, mode: Literal["rw", "overlay"]
) -> None:
    for name, size in (("large", 3 * 2**20), ("small", 2**19)):
        (tmp_path / name).write_bytes(bytes(size))
    policy = Policy(mounts=(FileMount(tmp_path, "/m", mode),), limits=Limits(file_mib=2, workspace_mib=1))
    async with actbox.open_sandbox("monty", policy=policy) as box:
        for code, limit in (
            ("os.rename('/m/large', '/workspace/large')", "file_mib"),
            ("os.rename('/m/small', 'one')\nopen('two', 'wb').write(bytes(600_000))", "workspace_mib"),
        ):
            error = (await box.run(f"import os\n{code}")).error
            assert error is not None and (error.kind, error.limit) == (ErrorKind.DISK, limit), error
        assert "large" not in [entry.path for entry in await box.list_files()]


async def test_a_file_of_an_overlay_that_is_renamed_to_its_own_name_stays(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("there")
    async with actbox.open_sandbox("monty", policy=Policy(mounts=(FileMount(tmp_path, "/m", "overlay"),))) as box:
        assert (await box.run("import os\nos.rename('/m/file', '/m/file')\nopen('/m/file').read()")).value == "there"


async def test_the_limit_of_the_workspace_is_for_all_changes_of_overlays_too(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(900_000))
    policy = Policy(mounts=(FileMount(tmp_path, "/m", "overlay"),), limits=Limits(workspace_mib=1))
    emptied = "open('/m/large', 'w').close()\nfor n in range(2): open(f'/m/{n}', 'wb').write(bytes(600_000))"
    renamed = (
        "import os\nopen('/m/one', 'wb').write(bytes(600_000))\nopen('a', 'w').close()\nos.rename('a', 'b')\n"
        "open('/m/two', 'wb').write(bytes(600_000))"
    )
    added = "open('/m/large', 'ab').write(b'x')\nopen('/m/one', 'wb').write(bytes(600_000))"
    async with actbox.open_sandbox("monty", policy=policy) as box:
        for code in (emptied, renamed, added):
            error = (await box.run(code)).error
            assert error is not None and (error.kind, error.limit) == (ErrorKind.DISK, "workspace_mib"), code


@pytest.mark.slow
async def test_deep_folders_are_counted_and_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    code = """
import os
os.mkdir('t')
for n in range(500):
    os.mkdir('u')
    os.rename('t', 'u/d')
    os.rename('u', 't')
open('file', 'w').write('x')
"""
    policy = Policy(mounts=(FileMount(Path(__file__).parent, "/m", "overlay"),))
    async with actbox.open_sandbox("monty", policy=policy) as box:
        result = await box.run(code)
        assert result.success, result.error
        with few_descriptors():
            assert (await box.run("open('file', 'w').write('x')")).success
        code = "import pathlib\npathlib.Path('/m/' + 'd/' * 1000).mkdir(parents=True)"
        error = (await box.run(code)).error
        assert error is not None and "File name too long" in error.message
        with few_descriptors():
            await box.stop()
    assert os.listdir(tmp_path) == []


async def test_artifacts_are_collected_again_when_a_file_changes(box: Sandbox) -> None:
    assert [a.name for a in (await box.run("open('output/a', 'w').write('1')")).artifacts] == ["a"]
    assert [a.name for a in (await box.run("1")).artifacts] == []
    assert [a.name for a in (await box.run("open('output/a', 'a').write('22')")).artifacts] == ["a"]
