"""What comes back through a shell is read with suspicion: pure, text in and answers out."""

from __future__ import annotations

import base64
import json

import pytest

from actbox import Limits
from actbox.sandbox.shell.guest import ArtifactCollector
from actbox.sandbox.shell.responses import ResponseParser, ShellError


def _line(kind: str, data: bytes = b"") -> str:
    return kind + base64.b64encode(data).decode() + "\n"


def test_answers_come_however_the_text_is_cut() -> None:
    text = "Welcome\ntoken is not here\r\ntoken\n" + _line("o", b"one") + _line("z")
    for size in (1, 2, 7, len(text)):
        answers = ResponseParser("token")
        pieces = [text[start : start + size] for start in range(0, len(text), size)]
        assert [answer for piece in pieces for answer in answers.feed(piece)] == [("o", b"one"), ("z", b"")]


@pytest.mark.parametrize("line", ["", "?", "oé", "o*", "oYQ", "r" + "A" * 200_000, "y" + "AAAA"])
def test_what_is_no_answer_is_an_error(line: str) -> None:
    with pytest.raises(ShellError):
        list(ResponseParser("token").feed(f"token\n{line}\n"))


def test_a_line_without_an_end_is_not_waited_for() -> None:
    answers = ResponseParser("token")
    with pytest.raises(ShellError, match="longer than any answer"):
        list(answers.feed("token\n"))
        for _ in range(100):
            list(answers.feed("b" + "A" * 10_000))


def test_a_greeting_takes_no_more_memory_than_it_may() -> None:
    answers = ResponseParser("token")
    for _ in range(100):
        assert list(answers.feed("x" * 100_000)) == []
    assert len(answers._rest) < 500_000


@pytest.mark.parametrize("name", ["", "/etc/passwd", "../up", "a/../b", "a\0b", 7, None])
def test_an_artifact_has_a_name_below_the_output_folder(name: object) -> None:
    with pytest.raises(ShellError):
        ArtifactCollector(Limits()).take("f", json.dumps(name).encode())


def test_no_more_artifacts_are_taken_than_the_limits_allow() -> None:
    gathered = ArtifactCollector(Limits(artifacts=1, artifact_mib=1))
    gathered.take("f", b'"one"')
    gathered.take("b", bytes(2**20))
    with pytest.raises(ShellError, match="more artifacts"):
        gathered.take("b", b"x")
    with pytest.raises(ShellError, match="more artifacts"):
        gathered.take("f", b'"two"')


def test_an_artifact_that_came_in_part_is_none() -> None:
    gathered = ArtifactCollector(Limits())
    gathered.take("f", b'"half"')
    gathered.take("b", b"ha")
    gathered.failed("the connection broke")
    assert gathered.result() == ([], ["output/ could not be collected: the connection broke"])
