"""`actbox show` shows files of many formats on the terminal, as a page, and as JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from actbox import ErrorInfo, ErrorKind, ExecutionResult
from actbox.cli.app import run_app
from actbox.content import Message, TextContent
from actbox.content.transcripts import read_transcript


@pytest.fixture
def transcript(tmp_path):
    path = tmp_path / "talk.jsonl"
    messages = [
        Message(role=role, contents=(TextContent(text=text),)) for role, text in (("user", "hi"), ("tool", "ho"))
    ]
    path.write_text("".join(json.dumps(message.to_dict()) + "\n" for message in messages))
    return str(path)


def test_a_transcript_is_shown_on_the_terminal(capfd, transcript):
    assert run_app(["show", transcript]) == 0
    text = capfd.readouterr().out
    assert "user" in text and "hi" in text and "ho" in text


def test_a_failed_result_is_shown_and_showing_it_is_no_failure(capfd, tmp_path):
    error = ErrorInfo(kind=ErrorKind.RUNTIME, type="KeyError", message="'x'", line=3)
    path = tmp_path / "result.json"
    path.write_text(json.dumps(ExecutionResult(stdout="\x1b[2Jhi", exit_code=1, error=error).to_dict()))
    assert run_app(["show", str(path)]) == 0
    text = capfd.readouterr().out
    assert "KeyError" in text and "line 3" in text and "^[[2Jhi" in text


@pytest.mark.slow
def test_what_run_prints_as_json_can_be_shown(actbox, on_one_engine):
    done = actbox("run", "-c", "print('hello')", "--json", *on_one_engine)
    assert b"hello" in actbox("show", "-", "--format", "result", input=done.stdout).stdout


def test_the_page_goes_to_a_file(capfd, transcript, tmp_path):
    assert run_app(["show", transcript, "--html", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text()
    assert page.startswith("<!doctype html>") and "<title>talk.jsonl</title>" in page and "ho" in page
    out, err = capfd.readouterr()
    assert out == "" and "page.html" in err


def test_the_page_goes_to_standard_output(capfd, transcript):
    assert run_app(["show", transcript, "--html", "-"]) == 0
    out, err = capfd.readouterr()
    assert out.startswith("<!doctype html>") and err == ""


@pytest.mark.slow
def test_a_page_never_replaces_what_is_shown_or_a_file_that_is_no_page(capfd, transcript, tmp_path):
    notes, link, page = tmp_path / "notes.txt", tmp_path / "link.html", tmp_path / "page.html"
    notes.write_text("dear diary")
    link.symlink_to(transcript)
    before = Path(transcript).read_text()
    for out, said in ((transcript, "the file to show"), (link, "the file to show"), (notes, "not an HTML page")):
        assert run_app(["show", transcript, "--html", str(out)]) == 2
        assert said in capfd.readouterr().err
    assert Path(transcript).read_text() == before and notes.read_text() == "dear diary"
    page.touch()
    for _ in range(2):
        assert run_app(["show", transcript, "--html", str(page)]) == 0
    assert run_app(["show", transcript, "--html", "/dev/null"]) == 0


def test_json_is_in_a_format_that_can_be_shown_again(capfd, transcript):
    assert run_app(["show", transcript, "--json"]) == 0
    text = capfd.readouterr().out
    assert json.loads(text)["format"] == "actbox"
    with open(transcript) as file:
        assert read_transcript(text).messages == read_transcript(file.read()).messages


def test_standard_input_is_read(actbox):
    message = Message(contents=(TextContent(text="from a pipe"),))
    done = actbox("show", "-", "--format", "actbox", input=json.dumps(message.to_dict()).encode())
    assert done.returncode == 0 and b"from a pipe" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("how", [[], ["--json"], ["--html", "-"]])
def test_a_reader_that_goes_away_ends_it_as_sigpipe_would(transcript, how):
    read, write = os.pipe()
    os.close(read)
    try:
        command = [sys.executable, "-m", "actbox", "show", transcript, "--format", "actbox", *how]
        done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, timeout=60, check=False)
    finally:
        os.close(write)
    assert done.returncode == 141 and done.stderr == b""


@pytest.mark.parametrize(
    ("content", "arguments", "said"),
    [
        (None, [], "there is no such file"),
        (b"", [], "the file is empty"),
        (b"[]", [], "there are no messages"),
        (b"plain words", [], "hint: give a result of"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", [], "is binary data, not text"),
        (b"\xff\xfe\0", [], "is binary data, not text"),
        (b"{", [], "line 1 is not JSON"),
        (b'{"a": 1', [], "hint: the file may have been cut off"),
        (b'{"a": 1}', [], "hint: --format NAME"),
        (b'{"contents": [{"type": "text"}]}', [], "read as actbox: contents[0].text: Field required"),
        (b"{}\n\xff", [], "line 2: byte 0xff is not UTF-8"),
        (b'{"a": 1}', [], "none of the formats"),
        (b'{"a": 1}', ["--format", "antropic"], "no such format"),
        (b'{"a": 1}', ["--format", "result"], "no result"),
        (b'{"contents": []}', ["--json", "--html", "-"], "both given"),
        (b'{"contents": []}', ["--html", "/no/such/folder/page.html"], "cannot write"),
    ],
)
def test_an_error_of_use_says_what_and_what_to_do(capfd, tmp_path, content, arguments, said):
    path = tmp_path / "given.json"
    if content is not None:
        path.write_bytes(content)
    assert run_app(["show", str(path), *arguments]) == 2
    out, err = capfd.readouterr()
    assert out == "" and said in err and "hint: " in err


def test_a_folder_is_named(capfd, tmp_path):
    assert run_app(["show", str(tmp_path)]) == 2
    err = capfd.readouterr().err
    assert "it is a directory" in err and "hint: give one file" in err


def test_utf_16_with_its_mark_is_read(capfd, tmp_path):
    path = tmp_path / "talk.json"
    path.write_bytes(json.dumps(Message(contents=(TextContent(text="h\xe4"),)).to_dict()).encode("utf-16"))
    assert run_app(["show", str(path)]) == 0
    assert "h\xe4" in capfd.readouterr().out


def test_what_is_left_out_is_told_beside_what_is_shown(capfd, transcript):
    with open(transcript, "a") as file:
        file.write('{"ro')
    assert run_app(["show", transcript]) == 0
    out, err = capfd.readouterr()
    assert "ho" in out and "talk.jsonl: line 3 is not JSON" in err and "left out" in err
