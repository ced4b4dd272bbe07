"""`CodeActRunner`: the files that programs see, and those that come back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from actbox import tool
from actbox.codeact import CodeActConfig, CodeActRunner
from actbox.core.labels import Label
from tests.codeact.runners import did, frozen, opens
from tests.conftest import engine_check

pytestmark = pytest.mark.one_engine_first


async def test_files_of_output_come_back_up_to_the_caps_and_warnings_say_which_do_not(runner: CodeActRunner) -> None:
    run = frozen(file_surface=True, max_output_files=2, max_output_file_bytes=100, max_output_total_bytes=150)
    code = (
        "for name, size in (('a', 90), ('b', 101), ('c', 61), ('d', 60), ('e', 0)):\n"
        "    open(f'/output/{name}', 'w').write('x' * size)"
    )
    outcome = await did(runner, run, code)
    assert [(file.name, file.size) for file in outcome.artifacts] == [("a", 90), ("d", 60)]
    assert outcome.result.warnings == (
        "output/b (101 bytes) does not come back, since one file may have 100 bytes",
        "output/c (61 bytes) does not come back, since all files of one call may have 150 bytes",
        "output/e (0 bytes) does not come back, since 2 files may come back from one call",
    )
    for warning in outcome.result.warnings:
        assert warning in outcome.text
    assert outcome.to_json_shape()["output_files"] == ["/output/a", "/output/d"]


@pytest.mark.slow
async def test_without_a_file_surface_only_what_was_shown_comes_back(runner: CodeActRunner) -> None:
    code = (
        "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\ndisplay({'text/html': '<b>1</b>'}, raw=True)\n"
        "open('/output/secret.txt', 'w').write('x')\nopen('/output/figure-x.png', 'w').write('x')"
    )
    outcome = await did(runner, frozen(), code)
    assert outcome.result.success, outcome.text
    shown = [(file.name, file.media_type) for file in outcome.artifacts]
    assert shown == [("display-1.html", "text/html"), ("figure-1.png", "image/png")]
    warning = "files written to /output do not come back here, and are gone: figure-x.png, secret.txt; print what is"
    assert [each[: len(warning)] for each in outcome.result.warnings] == [warning]
    assert warning in outcome.text
    with_files = await did(runner, frozen(file_surface=True), code)
    assert sorted(file.name for file in with_files.artifacts) == [
        *("display-1.html", "figure-1.png", "figure-x.png", "secret.txt"),
    ]


async def test_a_workspace_root_lies_at_input_and_cannot_be_changed(
    runner: CodeActRunner, isolated_engine: str, tmp_path: Path
) -> None:
    (tmp_path / "users.json").write_text("[1]")
    (tmp_path / "more").mkdir()
    run = frozen(workspace_root=tmp_path)
    assert run.file_surface
    assert "/input (read-only)" in run.description
    assert run.state()["file_mounts"] == [{"host_path": str(tmp_path), "mount_path": "/input", "mode": "ro"}]
    outcome = await did(runner, run, "import os; [sorted(os.listdir('/input')), open('/input/users.json').read()]")
    if isolated_engine == "container":
        assert "mounts below /input, not at it; the linux engine can do both" in outcome.text
        return
    assert outcome.result.value == [["more", "users.json"], "[1]"]
    outcome = await did(runner, run, "open('/input/new', 'w')")
    assert outcome.result.error is not None
    assert not (tmp_path / "new").exists()


async def test_mounts_lie_below_a_workspace_root(runner: CodeActRunner, isolated_engine: str, tmp_path: Path) -> None:
    root, other = tmp_path / "root", tmp_path / "other"
    root.mkdir()
    other.mkdir()
    (root / "a").write_text("root")
    (other / "b").write_text("other")
    run = frozen(workspace_root=root, file_mounts=[(other, "data")])
    outcome = await did(runner, run, "[open('/input/a').read(), open('/input/data/b').read()]")
    if isolated_engine == "container":
        assert "mounts below /input, not at it; the linux engine can do both" in outcome.text
        return
    assert outcome.result.value == ["root", "other"], outcome.text


@pytest.mark.parametrize("clear", [False, True])
async def test_output_is_kept_from_call_to_call_unless_it_is_to_be_cleared(runner: CodeActRunner, clear: bool) -> None:
    run = frozen(file_surface=True, clear_output=clear)
    code = "import os; os.makedirs('/output/a/b'); open('/output/a/b/c', 'w'); open('/workspace/kept', 'w')"
    assert (await did(runner, run, code, scope="s")).result.success
    outcome = await did(runner, run, "import os; [os.listdir('/output'), os.path.exists('/workspace/kept')]", scope="s")
    assert outcome.result.value == [[] if clear else ["a"], True]


@pytest.mark.parametrize("clear", [False, True])
@pytest.mark.parametrize("after", ["", "; open('/workspace/output', 'w')", "; os.symlink('/etc', '/workspace/output')"])
async def test_an_output_folder_that_a_program_has_taken_away_ends_nothing(
    runner: CodeActRunner, clear: bool, after: str
) -> None:
    run = frozen(file_surface=True, clear_output=clear)
    gone = f"import os, shutil; shutil.rmtree('/workspace/output'){after}"
    assert (await did(runner, run, gone, scope="gone")).result.success
    outcome = await did(runner, run, "open('/output/a', 'w').write('x')", scope="gone")
    assert [file.name for file in outcome.artifacts] == ["a"], outcome.text
    assert "output/ was made anew" in outcome.text
    assert (await did(runner, run, "1", scope="gone")).result.warnings == ()


LONG = "import sys; print('a' * 3000 + 'middle' + 'z' * 3000); print('e' * 3000, file=sys.stderr); 'v' * 3000"


@pytest.mark.parametrize("clear", [False, True])
async def test_what_the_text_leaves_out_is_kept_in_a_file_that_a_later_program_can_read(
    runner: CodeActRunner, clear: bool
) -> None:
    run = frozen(file_surface=True, clear_output=clear, max_chars=2_000)
    outcome = await did(runner, run, LONG, scope="long")
    assert "middle" not in outcome.text
    assert len(outcome.text) <= 2_000
    said = re.search("characters left out; whole: the file (/workspace/printed-[0-9a-f]{8}.txt) …", outcome.text)
    assert said is not None
    assert said[1] in outcome.to_json_shape()["stdout"]
    assert outcome.artifacts == ()
    read = await did(runner, run, f"text = open({said[1]!r}).read(); [len(text), 'middle' in text]", scope="long")
    assert read.result.value == [6007 + 3003 + 1 + 9 + 3001, True]
    assert read.artifacts == ()


async def test_without_files_it_is_said_that_what_the_text_leaves_out_was_not_kept(runner: CodeActRunner) -> None:
    outcome = await did(runner, frozen(max_chars=2_000), LONG)
    assert "characters left out; whole: not kept; print less …" in outcome.text
    assert "whole" not in (await did(runner, frozen(), LONG)).text


async def test_files_that_move_to_another_sandbox_bring_their_label(tmp_path: Path) -> None:
    if not engine_check("linux").works:
        pytest.skip("the linux engine does not work here")
    sent: list[str] = []
    config = CodeActConfig(
        tools=[tool(name="load", label="pii.email")(lambda: "ann"), tool(name="send")(sent.append)],
        egress_max="public",
        file_surface=True,
    )
    runner = CodeActRunner(opens("linux"))
    try:
        first = await did(runner, config.freeze(), "open('kept', 'w').write(load())\nprint('ann')")
        config.add_file_mounts((tmp_path, "there"))  # which is another sandbox
        second = await did(runner, config.freeze(), "send(open('kept').read())")
    finally:
        await runner.close()
    assert sent == []
    for outcome in (first, second):
        assert outcome.withheld is not None
        assert outcome.withheld.label == Label("pii.email")
        assert "ann" not in outcome.text
