"""What notebooks show of results, messages and transcripts."""

from __future__ import annotations

import nbformat
import pytest

from actbox import ExecutionResult
from actbox.content import Message, TextContent
from actbox.content.transcripts import Transcript
from actbox.core import presentation

SAID = Message(role="user", contents=(TextContent(text="hello <b>"),))


@pytest.mark.parametrize(
    "thing",
    [ExecutionResult(stdout="hello <b>\n"), SAID, Transcript((SAID,), "actbox")],
    ids=["result", "message", "transcript"],
)
def test_it_is_shown_as_html_and_as_text(thing):
    bundle = thing._repr_mimebundle_(include=None, exclude=None)
    assert "hello <b>" in bundle["text/plain"]
    assert "hello &lt;b&gt;" in bundle["text/html"]
    assert thing._repr_html_() == bundle["text/html"]
    output = nbformat.v4.new_output("execute_result", data=bundle, execution_count=1)
    cell = nbformat.v4.new_code_cell("thing", outputs=[output])
    nbformat.validate(nbformat.v4.new_notebook(cells=[cell]))


def test_nothing_is_shown_specially_where_no_room_above_says_how(monkeypatch):
    monkeypatch.setattr(presentation, "in_notebooks", lambda shown: {})
    assert ExecutionResult()._repr_html_() is None
    assert ExecutionResult()._repr_mimebundle_() == {}
