"""The workspace, files given, files kept, mounts."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path

import pytest

import actbox
from actbox import ArtifactCreated, FileError, FileMount, InvalidValue, Policy, Program, Sandbox
from tests.conftest import OpenBox, engine_check

ODD_NAMES = ["-rf", "two words", "new\nline", "ümlaut", "'quote\"", "a" * 200, "..hidden", "$(x)"]


def needs_own_root(box: Sandbox) -> None:
    if box.root != "/workspace":
        pytest.skip(f"{box.traits.engine} has no root of its own: {box.traits.notes}")


@pytest.mark.parametrize("name", ODD_NAMES)
async def test_files_go_in_and_come_out_whatever_they_are_called(box: Sandbox, name: str) -> None:
    await box.write_file(f"folder/{name}", b"\0\xff")
    assert await box.read_file(f"folder/{name}") == b"\0\xff"
    result = await box.run(Program("open('folder/' + name, 'rb').read() == b'\\0\\xff'", inputs={"name": name}))
    assert result.value is True
    assert [entry.path for entry in await box.list_files("folder")] == [f"folder/{name}"]
    await box.move(f"folder/{name}", f"other/{name}")
    assert (await box.stat(f"other/{name}")).size == 2
    await box.remove_file(f"other/{name}")
    assert await box.list_files("other") == []


async def test_what_the_host_writes_the_program_may_change(box: Sandbox) -> None:
    await box.write_text("deep/er/file.txt", "one")
    result = await box.run("open('deep/er/file.txt', 'a').write(' two')\nopen('deep/er/new.txt', 'w').close()")
    assert result.success, result.error
    assert await box.read_text("deep/er/file.txt") == "one two"


async def test_files_last_from_run_to_run_and_commands_see_them(box: Sandbox) -> None:
    await box.run("open('kept.txt', 'w').write('kept')")
    assert (await box.run("open('kept.txt').read()")).value == "kept"
    assert (await box.execute("cat kept.txt")).stdout == "kept"


async def test_listing_tells_kinds_and_sizes(box: Sandbox) -> None:
    await box.run(
        "import os\nos.makedirs('d/e')\nopen('d/f', 'w').write('xyz')\nos.symlink('f', 'd/l')\nos.mkfifo('d/p')"
    )
    entries = await box.list_files("d", recursive=True)
    assert [(entry.path, entry.kind) for entry in entries] == [
        ("d/e", "folder"),
        ("d/f", "file"),
        ("d/l", "link"),
        ("d/p", "other"),
    ]
    assert entries[1].size == 3
    assert (await box.stat("d/l")).kind == "link"
    assert {"input", "output"} <= {entry.path for entry in await box.list_files()}


async def test_folders_are_made_and_removed(box: Sandbox) -> None:
    await box.make_dir("a/b/c")
    await box.make_dir("a/b/c")
    with pytest.raises(FileError, match="a"):
        await box.remove_file("a")
    await box.remove_file("a", recursive=True)
    with pytest.raises(FileError, match="a"):
        await box.stat("a")


async def test_a_missing_file_is_an_error_that_names_it_and_nothing_of_the_host(box: Sandbox) -> None:
    with pytest.raises(FileError, match=r"no/such\.txt") as caught:
        await box.read_file("no/such.txt")
    assert caught.value.errno == 2
    assert "/proc/" not in str(caught.value)


@pytest.mark.parametrize("path", ["../up", "a/../../b", "/etc/passwd", "/", "", "a\0b", "/workspacex/a"])
async def test_paths_that_leave_the_workspace_are_refused(box: Sandbox, path: str) -> None:
    for call in (box.read_file(path), box.write_file(path, b""), box.remove_file(path, recursive=True)):
        with pytest.raises(InvalidValue):
            await call


async def test_no_file_method_follows_a_link(box: Sandbox, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    await box.run(Program("import os\nos.symlink(path, 'l')\nos.symlink('/', 'root')", inputs={"path": str(secret)}))
    for call in (box.read_file("l"), box.list_files("root"), box.read_file("root" + str(secret))):
        with pytest.raises(FileError):
            await call
    with pytest.raises(FileError):
        await box.write_file(f"root{tmp_path}/planted.txt", b"x")
    await box.write_file("l", b"replaced")
    assert secret.read_text() == "secret"
    assert not (tmp_path / "planted.txt").exists()
    await box.remove_file("root")
    assert secret.exists()


async def test_a_named_pipe_blocks_nobody(box: Sandbox) -> None:
    await box.run("import os\nos.mkfifo('pipe')\nos.mkfifo('output/pipe')")
    with pytest.raises(FileError, match="regular"):
        await box.read_file("pipe")
    await box.write_file("pipe", b"now a file")
    assert await box.read_file("pipe") == b"now a file"


async def test_the_workspace_has_one_place_with_three_names(box: Sandbox) -> None:
    needs_own_root(box)
    await box.write_text("/input/a.txt", "in")
    await box.write_text("/workspace/b.txt", "b")
    code = "open('/output/c.txt', 'w').write('c')\n"
    code += "[open(p).read() for p in ('/input/a.txt', '/workspace/input/a.txt', 'b.txt')]"
    assert (await box.run(code)).value == ["in", "in", "b"]
    assert await box.read_text("output/c.txt") == await box.read_text("/output/c.txt") == "c"


async def test_a_program_cannot_write_its_inputs(isolated_box: Sandbox) -> None:
    await isolated_box.write_text("input/a.txt", "in")
    for code in ("open('input/a.txt', 'w')", "open('/input/b.txt', 'w')", "import os\nos.rename('input', 'x')"):
        result = await isolated_box.run(code)
        assert not result.success
    assert await isolated_box.read_text("input/a.txt") == "in"


async def test_files_of_a_program_are_below_input(box: Sandbox) -> None:
    program = Program(
        "open('input/a/b.csv').read() + open('input/c', 'rb').read().decode()", files={"a/b.csv": "1", "c": b"2"}
    )
    assert (await box.run(program)).value == "12"


async def test_files_below_output_are_artifacts_with_a_media_type(box: Sandbox) -> None:
    code = (
        "import os\nos.makedirs('output/sub')\n"
        "for name in ('a.csv', 'sub/b.json', 'c.png', 'd.weird', 'e.md'): open('output/' + name, 'w').write(name)"
    )
    events = [event async for event in box.stream(code)]
    made = [event.artifact for event in events if isinstance(event, ArtifactCreated)]
    assert [(item.name, item.media_type) for item in made] == [
        ("a.csv", "text/csv"),
        ("c.png", "image/png"),
        ("d.weird", "application/octet-stream"),
        ("e.md", "text/markdown"),
        ("sub/b.json", "application/json"),
    ]
    assert all(item.data == item.name.encode() for item in made)


async def test_only_what_a_run_created_or_changed_is_its_artifact(box: Sandbox) -> None:
    await box.run("open('output/old', 'w').write('1')\nopen('output/changed', 'w').write('1')")
    second = await box.run("open('output/changed', 'r+').write('2')\nopen('output/new', 'w').write('3')")
    assert [artifact.name for artifact in second.artifacts] == ["changed", "new"]


@pytest.mark.slow
async def test_a_changed_file_with_its_old_time_is_an_artifact_all_the_same(box: Sandbox) -> None:
    await box.run("open('output/a', 'w').write('1')")
    again = await box.run(
        "import os\ns = os.stat('output/a')\nopen('output/a', 'w').write('2')\n"
        "os.utime('output/a', ns=(s.st_atime_ns, s.st_mtime_ns))"
    )
    assert [artifact.data for artifact in again.artifacts] == [b"2"]


async def test_artifacts_of_a_failed_run_are_kept(box: Sandbox) -> None:
    result = await box.run("open('output/partial', 'w').write('x')\n1 / 0")
    assert [artifact.name for artifact in result.artifacts] == ["partial"]


@pytest.mark.slow
async def test_too_many_and_too_large_artifacts_are_left_out_with_a_warning(open_box: OpenBox) -> None:
    box = await open_box(artifacts=3, artifact_mib=1)
    result = await box.run("for n in range(9): open(f'output/{n}', 'w').write('x')")
    assert len(result.artifacts) == 3
    assert any("more than 3 files" in warning for warning in result.warnings)
    result = await box.run("open('output/large', 'wb').write(b'x' * (2 << 20))")
    assert result.artifacts == ()
    assert any("output/large" in warning for warning in result.warnings)


async def test_an_output_folder_nested_too_deeply_is_a_warning(box: Sandbox) -> None:
    result = await box.run(
        "import os\nos.chdir('output')\nfor _ in range(60):\n    os.mkdir('d')\n    os.chdir('d')\nopen('f', 'w')"
    )
    assert any("deeply" in warning for warning in result.warnings)


async def test_an_output_folder_that_was_replaced_is_a_warning_and_the_next_run_has_one(box: Sandbox) -> None:
    result = await box.run("import os\nos.rmdir('output')\nos.symlink('/etc', 'output')")
    assert result.artifacts == ()
    assert any("no longer a directory" in warning for warning in result.warnings)


async def test_names_that_are_no_text_are_made_text(box: Sandbox) -> None:
    result = await box.run("open(b'output/\\xff', 'w').write('x')")
    assert [artifact.name for artifact in result.artifacts] == ["\ufffd"]


@pytest.mark.slow
@pytest.mark.one_engine_first
async def test_figures_become_artifacts_when_shown_and_at_the_end(box: Sandbox) -> None:
    code = (
        "import matplotlib.pyplot as plt\n"
        "plt.plot([1, 2])\nplt.show()\n"
        "plt.plot([2, 1])\nplt.show()\n"
        "plt.figure()\nplt.plot([3])\n"
    )
    result = await box.run(code)
    assert result.success, result.error
    assert [(item.name, item.media_type) for item in result.artifacts] == [
        (f"figure-{n}.png", "image/png") for n in (1, 2, 3)
    ]
    assert all(item.data.startswith(b"\x89PNG") for item in result.artifacts)
    assert len({item.data for item in result.artifacts}) == 3
    assert result.stderr == ""


@pytest.mark.slow
@pytest.mark.one_engine_first
async def test_an_open_figure_that_was_displayed_is_saved_again_only_if_it_has_changed(box: Sandbox) -> None:
    code = "import matplotlib.pyplot as plt\nfigure, axes = plt.subplots()\naxes.plot([1])\ndisplay(figure)\n"
    result = await box.run(code)
    assert result.success, result.error
    assert (list(result.value_forms), result.artifacts) == (["image/png"], ())
    for end, names in (("1", ["display-1.png"]), ("axes.plot([2, 3])", ["display-2.png", "figure-1.png"])):
        assert [item.name for item in (await box.run(code + end)).artifacts] == names


@pytest.mark.slow
@pytest.mark.one_engine_first
async def test_a_figure_as_the_last_value_has_a_png_form(box: Sandbox) -> None:
    result = await box.run("from matplotlib.figure import Figure\nf = Figure()\nf.subplots().plot([1])\nf")
    assert bytes(result.value_forms["image/png"]).startswith(b"\x89PNG")  # type: ignore[arg-type]


async def test_artifacts_save_below_a_folder_and_nowhere_else(box: Sandbox, tmp_path: Path) -> None:
    result = await box.run("import os\nos.mkdir('output/d')\nopen('output/d/a.txt', 'w').write('x')")
    path = result.artifacts[0].save(tmp_path / "out")
    assert path.read_text() == "x"
    (tmp_path / "out" / "link").symlink_to(tmp_path)
    for name in ("../escape", "/abs", "link/escape"):
        with pytest.raises(ValueError, match="leave"):
            actbox.Artifact(name, b"x").save(tmp_path / "out")
    assert not (tmp_path / "escape").exists()


# Mounts


@pytest.fixture
def host_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.txt").write_text("host")
    (folder / "out").symlink_to("/etc/shadow")
    (tmp_path / "outside.txt").write_text("outside")
    (folder / "up").symlink_to("../outside.txt")
    return folder


@pytest.fixture
def mounting(engine: str) -> None:
    traits = engine_check(engine).traits
    assert traits is not None
    if not traits.mounts:
        pytest.skip(f"{engine} has no mounts")


async def test_a_read_only_mount_is_read_and_not_written(mounting: None, open_box: OpenBox, host_folder: Path) -> None:
    box = await open_box(Policy(mounts=(FileMount(host_folder, "data"),)))
    assert (await box.run("open('/input/data/a.txt').read()")).value == "host"
    assert (await box.run("open('input/data/a.txt').read()")).value == "host"
    result = await box.run("open('/input/data/a.txt', 'w')")
    assert result.error.kind is actbox.ErrorKind.POLICY
    assert not (await box.run("import os\nos.chmod('/input/data/a.txt', 0o777)")).success
    assert (host_folder / "a.txt").read_text() == "host"


async def test_a_writable_mount_changes_the_hosts_files(mounting: None, open_box: OpenBox, host_folder: Path) -> None:
    box = await open_box(Policy(mounts=(FileMount(host_folder, "/data", "rw"),)))
    result = await box.run("open('/data/a.txt', 'a').write('+')\nopen('/data/sub/new.txt', 'w').write('new')")
    assert result.success, result.error
    assert (host_folder / "a.txt").read_text() == "host+"
    new = host_folder / "sub" / "new.txt"
    assert new.read_text() == "new"
    assert new.stat().st_uid == os.geteuid()


async def test_an_overlay_mount_is_changed_for_one_run_only(
    mounting: None, engine: str, open_box: OpenBox, host_folder: Path
) -> None:
    traits = engine_check(engine).traits
    if traits is not None and "overlay" not in traits.mounts:
        pytest.skip(f"{engine} can mount: {', '.join(traits.mounts)}")
    box = await open_box(Policy(mounts=(FileMount(host_folder, "/workspace/over", "overlay"),)))
    code = "import os\nopen('over/a.txt', 'a').write('+')\nos.remove('over/up')\nopen('over/a.txt').read()"
    assert (await box.run(code)).value == "host+"
    assert (await box.run("open('over/a.txt').read()")).value == "host"
    assert (host_folder / "a.txt").read_text() == "host"
    assert (host_folder / "up").is_symlink()


async def test_a_single_file_may_be_mounted(mounting: None, open_box: OpenBox, host_folder: Path) -> None:
    box = await open_box(Policy(mounts=(FileMount(host_folder / "a.txt", "one.txt"),)))
    assert (await box.run("import os\n[open('/input/one.txt').read(), os.listdir('/input')]")).value == [
        "host",
        ["one.txt"],
    ]


async def test_links_in_a_mounted_tree_lead_nowhere_outside(
    mounting: None, open_box: OpenBox, host_folder: Path
) -> None:
    box = await open_box(Policy(mounts=(FileMount(host_folder, "/data", "rw"),)))
    for name in ("out", "up"):
        assert not (await box.run(f"open('/data/{name}').read()")).success
    assert not (await box.run("open('/data/up', 'w').write('changed')")).success
    assert (host_folder.parent / "outside.txt").read_text() == "outside"


async def test_mounts_of_one_sandbox_are_not_in_another(mounting: None, open_box: OpenBox, host_folder: Path) -> None:
    await open_box(Policy(mounts=(FileMount(host_folder, "/visible_only_there"),)))
    box = await open_box()
    assert (await box.run("import os\nos.path.exists('/visible_only_there')")).value is False


async def test_what_an_engine_cannot_mount_it_refuses(engine: str, host_folder: Path) -> None:
    traits = engine_check(engine).traits
    assert traits is not None
    if traits.mounts:
        pytest.skip(f"{engine} can mount: {', '.join(traits.mounts)}")
    with pytest.raises(actbox.Unsupported, match="mounts"):
        actbox.open_sandbox(engine, policy=Policy(mounts=(FileMount(host_folder, "x"),)), allow_unisolated=True)


def test_an_engine_that_cannot_keep_the_domains_does_not_talk_of_mounts() -> None:
    policy = Policy(domains=(actbox.AllowedDomain("example.com"),))
    with pytest.raises(actbox.Unsupported) as refused:
        actbox.open_sandbox("process", policy=policy, allow_unisolated=True)
    assert str(refused.value) == "the process engine does not support Policy.domains; the linux engine does"


@pytest.mark.slow
async def test_a_tree_however_deep_is_removed_and_listing_it_is_refused(box: Sandbox) -> None:
    await box.run("import os\nfor _ in range(3000):\n    os.mkdir('d')\n    os.chdir('d')\nopen('f', 'w').close()")
    with pytest.raises(FileError, match="nested"):
        await box.list_files(recursive=True)
    await box.remove_file("d", recursive=True)
    assert [entry.path for entry in await box.list_files()] == ["input", "output"]


async def test_removing_a_tree_does_not_follow_its_links(box: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("x")
    code = (
        "import os\nos.makedirs('d/e')\nos.symlink(path, 'd/l')\nos.symlink(path, 'd/e/l')\nos.symlink('..', 'd/e/up')"
    )
    await box.run(Program(code, inputs={"path": str(tmp_path)}))
    await box.remove_file("d", recursive=True)
    assert (tmp_path / "kept").read_text() == "x"


async def test_the_workspace_itself_cannot_be_removed(box: Sandbox) -> None:
    for path in (".", "/workspace", "./"):
        with pytest.raises(InvalidValue, match="stop"):
            await box.remove_file(path, recursive=True)


async def test_half_of_a_surrogate_pair_is_in_no_path(box: Sandbox) -> None:
    for call in (
        box.write_text("\ud800", "x"),
        box.write_file("a/\ud800", b"x"),
        box.read_file("\ud800"),
        box.read_text("\ud800"),
        box.list_files("\ud800"),
        box.remove_file("\ud800"),
        box.run(Program("1", files={"\ud800": b"x"})),
    ):
        with pytest.raises(InvalidValue, match="surrogate"):
            await call


async def test_arguments_of_a_wrong_type_are_refused_by_name(box: Sandbox) -> None:
    for call, words in (
        (box.write_file("a", "text"), "write_text"),  # type: ignore[arg-type]
        (box.write_text("a", "\ud800"), "UTF-8"),
        (box.run(5), "text"),  # type: ignore[arg-type]
        (box.run(b"1"), "text"),  # type: ignore[arg-type]
        (box.run("1", tools=5), "tools"),  # type: ignore[arg-type]
        (box.execute(5), "command"),  # type: ignore[arg-type]
        (box.execute("true", stdin="text"), "stdin"),  # type: ignore[arg-type]
        (box.execute("true", cwd=3), "cwd"),  # type: ignore[arg-type]
    ):
        with pytest.raises(InvalidValue, match=words):
            await call


async def test_a_full_workspace_takes_no_file_keeps_no_half_of_one_and_can_be_emptied(open_box: OpenBox) -> None:
    box = await open_box(workspace_mib=1)
    with pytest.raises(FileError) as caught:
        await box.write_file("large", b"x" * (2 << 20))
    assert caught.value.errno == errno.ENOSPC
    assert {entry.path for entry in await box.list_files()} == {"input", "output"}
    await box.run("open('filler', 'wb').write(b'x' * (2 << 20))")
    with pytest.raises(FileError):
        await box.write_file("more", b"x" * 10_000)
    await box.remove_file("filler")
    await box.write_file("more", b"x" * 10_000)


async def test_files_of_a_program_that_cannot_be_placed_are_named(box: Sandbox) -> None:
    with pytest.raises(InvalidValue, match="'a'"):
        await box.run(Program("1", files={"a/b": b"1", "a": b"2"}))


@pytest.mark.slow
async def test_a_file_may_be_written_while_a_program_reads_it(box: Sandbox) -> None:
    await box.write_file("a", b"0" * 100_000)
    code = (
        "import time\nseen = set()\nend = time.time() + 0.5\n"
        "while time.time() < end: seen.add(open('a').read())\n"
        "all(len(text) == 100_000 and len(set(text)) == 1 for text in seen)"
    )
    running = asyncio.create_task(box.run(code))
    number = 0
    while not running.done():
        number += 1
        await box.write_file("a", str(number % 10).encode() * 100_000)
    assert (await running).value is True


@pytest.mark.slow
@pytest.mark.parametrize(
    "program",
    [
        "import os; os.rmdir('/workspace/output')",
        "import os; os.rename('/workspace/output', '/workspace/elsewhere')",
        "import os; os.rmdir('/workspace/output'); open('/workspace/output', 'w').write('x')",
        "import os; os.rmdir('/workspace/output'); os.symlink('/etc', '/workspace/output')",
    ],
)
async def test_an_output_folder_that_was_removed_or_replaced_is_there_for_the_next_program(
    box: Sandbox, program: str
) -> None:
    program = program.replace("/workspace/", "")  # where programs begin
    assert (await box.run(program)).error is None
    result = await box.run("open('output/a.txt', 'w').write('x')")
    assert result.error is None, result.error
    assert [artifact.name for artifact in result.artifacts] == ["a.txt"]
    assert any("made anew" in warning for warning in result.warnings)
    assert (await box.run("1")).warnings == ()


@pytest.mark.one_engine_first
async def test_pictures_that_are_shown_become_artifacts(box: Sandbox) -> None:
    modes = ("RGB", "CMYK", "F", "1")
    code = f"from PIL import Image\nfor mode in {modes}: Image.new(mode, (2, 2)).show()"
    result = await box.run(code)
    assert result.success, result.error
    assert [item.name for item in result.artifacts] == [f"image-{n}.png" for n in (1, 2, 3, 4)]
    assert all(item.data.startswith(b"\x89PNG") for item in result.artifacts)


@pytest.mark.slow
@pytest.mark.one_engine_first
async def test_a_table_that_is_displayed_has_its_html_form(box: Sandbox) -> None:
    result = await box.run("import pandas\ndisplay(pandas.DataFrame({'a': [1]}))")
    assert result.stdout == "   a\n0  1\n"
    assert "<table" in str(result.value_forms["text/html"])


async def test_what_a_failed_program_displayed_last_is_a_file(box: Sandbox) -> None:
    result = await box.run("class P:\n    def _repr_svg_(self): return '<svg/>'\ndisplay(P())\n1 / 0")
    assert ([item.name for item in result.artifacts], result.value_forms) == (["display-1.svg"], {})


@pytest.mark.slow
async def test_what_is_displayed_in_a_session_is_of_its_own_run(box: Sandbox) -> None:
    async with box.session() as session:
        shown = await session.run("from IPython.display import HTML\ndisplay(HTML('<b>1</b>'))")
        assert shown.value_forms == {"text/html": "<b>1</b>"}
        assert (await session.run("x = 1")).value_forms == {}
