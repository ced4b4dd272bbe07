"""Notebooks: a call of code and its result are a cell, and cells come back as they were."""

from __future__ import annotations

import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actbox.content import (
    Annotation,
    CodeInterpreterCall,
    CodeInterpreterResult,
    DataContent,
    ErrorContent,
    HostedFileContent,
    Message,
    TextContent,
    UnknownContent,
    code_content,
)
from actbox.content.wire.formats import find_format
from actbox.content.wire.jupyter import FORMAT, notebook, read, write
from actbox.content.wire.losses import Loss
from tests.content import items_to_try
from tests.content.matrix import WRITTEN

CODE = {
    "id": "a1",
    "cell_type": "code",
    "execution_count": 3,
    "metadata": {"collapsed": False},
    "source": "print('hi')\ndf",
    "outputs": [
        {"output_type": "stream", "name": "stdout", "text": "hi\n"},
        {"output_type": "stream", "name": "stderr", "text": "careful\n"},
        {
            "output_type": "execute_result",
            "execution_count": 3,
            "metadata": {},
            "data": {"text/plain": "   a\n0  1", "text/html": "<table></table>", "application/json": {"a": [1]}},
        },
        {"output_type": "display_data", "metadata": {"image/png": {"width": 9}}, "data": {"image/png": "iVBORw0="}},
        {"output_type": "error", "ename": "KeyError", "evalue": "'b'", "traceback": ["Traceback", "KeyError: 'b'"]},
    ],
}
SAID = {"id": "a2", "cell_type": "markdown", "metadata": {}, "source": "# Why"}
RAW = {"id": "a3", "cell_type": "raw", "metadata": {"format": "text/latex"}, "source": "\\LaTeX"}
NOTEBOOK = notebook([SAID, CODE, RAW])


def test_a_cell_of_code_is_a_call_and_its_result() -> None:
    (message,) = read(CODE)
    call, result = message.contents
    assert isinstance(call, CodeInterpreterCall)
    assert isinstance(result, CodeInterpreterResult)
    assert (call.code, call.language, call.call_id) == ("print('hi')\ndf", "python", result.call_id)
    assert result.text == "hi\ncareful\n"
    assert result.success is False
    media_types = [item.media_type for item in result.outputs if isinstance(item, DataContent)]
    assert media_types == ["text/plain", "text/html", "application/json", "image/png"]
    (error,) = (item for item in result.outputs if isinstance(item, ErrorContent))
    assert (error.message, error.code) == ("KeyError: 'b'", "KeyError")


def test_what_was_read_is_written_the_same() -> None:
    written = write(read(NOTEBOOK))
    assert written.document == [SAID, CODE, RAW]
    assert written.losses == ()
    nbformat.validate(nbformat.from_dict(notebook(written.document)))


def test_lines_are_read_as_one_text() -> None:
    (message,) = read({"cell_type": "markdown", "metadata": {}, "source": ["# Why\n", "Because."]})
    assert message.text == "# Why\nBecause."


def test_the_language_is_that_of_the_notebook() -> None:
    document = {**NOTEBOOK, "metadata": {"kernelspec": {"language": "R", "name": "ir"}}}
    assert read(document)[1].contents[0].language == "r"


def test_a_result_of_ours_becomes_a_cell() -> None:
    call = CodeInterpreterCall(call_id="c", inputs=(code_content("1/0"), HostedFileContent(file_id="f")))
    outputs = (
        TextContent(text="out", stream="stdout"),
        DataContent(media_type="image/png", data=b"png", name="chart.png"),
        DataContent(media_type="text/csv", data=b"a,b", name="t.csv"),
        HostedFileContent(file_id="f2", name="big.bin"),
        ErrorContent(message="ZeroDivisionError: division by zero", code="ZeroDivisionError", details="Trace\nback"),
    )
    result = CodeInterpreterResult(call_id="c", outputs=outputs, exit_code=1)
    written = write([Message(contents=(TextContent(text="Let me see."), call, result))])
    said, cell = written.document
    nbformat.validate(nbformat.from_dict(notebook(written.document)))
    assert said["cell_type"] == "markdown"
    kinds = [output["output_type"] for output in cell["outputs"]]
    assert kinds == ["stream", "display_data", "display_data", "stream", "error"]
    assert cell["outputs"][1]["data"] == {"image/png": "cG5n"}
    assert cell["outputs"][-1]["evalue"] == "division by zero"
    assert {loss.what for loss in written.losses} == {
        "code_interpreter_call.inputs",
        "code_interpreter_call.call_id",
        "code_interpreter_result.exit_code",
        "hosted_file",
    }


def test_a_language_of_its_own_stays_with_a_cell() -> None:
    call = CodeInterpreterCall(call_id="cell-1", inputs=(code_content("1", "javascript"),))
    assert read(write([Message(contents=(call,))]).document)[0].contents[0].language == "javascript"


def test_that_a_run_failed_is_in_its_cell_also_without_an_error() -> None:
    call = CodeInterpreterCall(call_id="cell-1", inputs=(code_content("1"),))
    ended = [CodeInterpreterResult(call_id="cell-1", exit_code=code) for code in (0, 137)]
    written = write([Message(contents=(call, *ended))])
    assert read(written.document)[0].contents[1].success is False
    assert "code_interpreter_result.exit_code" in {loss.what for loss in written.losses}


def test_two_results_of_one_call_are_in_its_cell() -> None:
    call = CodeInterpreterCall(call_id="c", inputs=(code_content("x"),))
    results = [CodeInterpreterResult(call_id="c", outputs=(TextContent(text=text),)) for text in "ab"]
    (cell,) = write([Message(contents=(results[0], call, results[1]))]).document
    assert [output["text"] for output in cell["outputs"]] == ["a", "b"]


def test_a_result_without_its_call_is_a_cell_without_code() -> None:
    written = write([Message(contents=(CodeInterpreterResult(call_id="c", outputs=(TextContent(text="a"),)),))])
    assert written.document[0]["source"] == ""
    assert [loss.what for loss in written.losses] == ["code_interpreter_result"]


@pytest.mark.parametrize(
    "output",
    [
        {"output_type": "stream", "name": "stdlog", "text": "a"},
        {"output_type": "stream", "name": "stdout", "text": None},
        {"output_type": "error", "ename": "E", "evalue": "v", "traceback": None},
        {"output_type": "execute_result", "data": None},
        {"output_type": "smell"},
        None,
        [],
    ],
)
def test_an_output_that_is_not_as_it_should_be_is_kept(output) -> None:
    cell = {**CODE, "outputs": [output]}
    result = read(cell)[0].contents[1]
    assert result.outputs == (UnknownContent(format="jupyter", raw=output),)
    assert write(read(cell)).document == [cell]


def test_an_error_that_was_changed_is_written_as_it_is_now() -> None:
    call, result = read(CODE)[0].contents
    *others, error = result.outputs
    changed = error.model_copy(update={"message": "KeyError: 'c'", "details": "Trace\nback"})
    contents = (call, result.model_copy(update={"outputs": (*others, changed)}))
    (cell,) = write([Message(contents=contents)]).document
    assert cell["outputs"][-1] == {**CODE["outputs"][-1], "evalue": "'c'", "traceback": ["Trace", "back"]}
    assert cell["outputs"][:-1] == CODE["outputs"][:-1]


def test_a_line_break_within_a_line_of_a_traceback_is_kept() -> None:
    cell = {**CODE, "outputs": [{"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["a\nb", "c"]}]}
    assert write(read(cell)).document == [cell]


def test_annotations_of_printed_text_have_no_place_in_a_cell() -> None:
    printed = TextContent(text="out", stream="stdout", annotations=(Annotation(url="https://example.org"),))
    result = CodeInterpreterResult(call_id="cell-1", outputs=(printed,))
    call = CodeInterpreterCall(call_id="cell-1", inputs=(code_content("1"),))
    assert "text.annotations" in {loss.what for loss in write([Message(contents=(call, result))]).losses}


def test_a_picture_that_is_no_base64_is_kept() -> None:
    cell = {**CODE, "outputs": [{"output_type": "display_data", "metadata": {}, "data": {"image/png": "?"}}]}
    assert write(read(cell)).document == [cell]


@pytest.mark.parametrize("document", [{}, [1], [{"cell_type": "code"}, "x"], {"cells": [None]}])
def test_what_is_no_notebook_is_refused_by_the_cell(document) -> None:
    with pytest.raises(ValueError, match="cell"):
        read(document)


bundles = st.dictionaries(items_to_try.media_types, items_to_try.texts | st.just("iVBORw0="), max_size=3)
outputs = st.one_of(
    st.builds(
        lambda name, text: {"output_type": "stream", "name": name, "text": text},
        st.sampled_from(["stdout", "stderr"]),
        items_to_try.texts,
    ),
    st.builds(lambda data: {"output_type": "display_data", "metadata": {}, "data": data}, bundles),
    st.builds(
        lambda name, value, lines: {"output_type": "error", "ename": name, "evalue": value, "traceback": lines},
        items_to_try.words,
        items_to_try.texts,
        st.lists(st.text("abc", max_size=5), max_size=3),
    ),
    items_to_try.json_values,
)


@given(items_to_try.texts, st.lists(outputs, min_size=1, max_size=4))
def test_any_cell_comes_back_as_it_was(source, outputs) -> None:
    cell = {**CODE, "source": source, "outputs": outputs}
    assert write(read(cell)).document == [cell]


@given(items_to_try.json_values)
def test_no_document_is_a_crash(document) -> None:
    try:
        read(document)
    except ValueError:
        return
    write(read(document))


def test_notebooks_are_told_by_their_looks() -> None:
    assert FORMAT.looks_like(NOTEBOOK) == 1
    assert FORMAT.looks_like([CODE]) > 0.5
    assert FORMAT.looks_like([{"role": "user", "content": "hi"}]) == 0


def test_the_metadata_of_a_notebook_is_kept_and_the_cells_alone_say_that_they_lack_it() -> None:
    own = {**NOTEBOOK, "nbformat_minor": 4, "metadata": {"kernelspec": {"name": "ir", "language": "R"}, "title": "t"}}
    messages = read(own)
    written = write(messages)
    assert [loss.what for loss in written.losses] == ["notebook.metadata"]
    assert notebook(written.document, messages) == own


@pytest.mark.parametrize("name", [name for name in WRITTEN if name not in ("jupyter", "actbox")])
def test_other_formats_say_that_what_a_notebook_says_of_itself_is_left_out(name):
    document = {
        "cells": [{"cell_type": "markdown", "metadata": {}, "source": "hi"}],
        "metadata": {"kernelspec": {"name": "python3"}, "custom": {"a": 1}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    losses = find_format(name).write(read(document)).losses
    assert Loss("message.provider_data", "left out: only jupyter has these fields") in losses
    assert find_format("actbox").write(read(document)).losses == ()
