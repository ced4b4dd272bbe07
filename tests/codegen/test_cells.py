"""Notebooks: each cell starts where the last solved one ended, and Jupyter opens what is saved."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import nbformat
import pytest

import actbox
from actbox.codeact import ScriptedModel
from actbox.codegen import CodingAgent, Notebook, RetryPolicy, Task
from actbox.codegen.outcome import Finished
from actbox.core.errors import SandboxStopped
from actbox.sandbox.contract import Session
from tests.conftest import engine_check

PICTURE = """
import struct, zlib
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
head = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
picture = b"\\x89PNG\\r\\n\\x1a\\n" + head + chunk(b"IDAT", zlib.compress(b"\\0\\0")) + chunk(b"IEND", b"")
open("output/chart.png", "wb").write(picture)
open("output/rows.csv", "w").write("a,b\\n1,2\\n")
print("drawn")
"""


def python(*programs: str) -> ScriptedModel:
    return ScriptedModel([f"```python\n{program.strip()}\n```" for program in programs])


@pytest.fixture
async def box() -> AsyncIterator[actbox.Sandbox]:
    found = engine_check("linux")
    if not found.works:
        pytest.skip(found.reason)
    async with actbox.open_sandbox("linux") as box:
        yield box


@pytest.fixture
async def session(box: actbox.Sandbox) -> AsyncIterator[Session]:
    async with box.session(forkable=True) as session:
        await session.run("base = 10")
        yield session


async def test_a_cell_starts_where_the_last_solved_one_ended(box: actbox.Sandbox, session: Session) -> None:
    model = python("rows = [base, 2]\nprint('loaded')", "rows.append(3)\n1 / 0", "sum(rows)")
    async with Notebook(CodingAgent(model, box, retry=RetryPolicy(max_attempts=1)), session) as notebook:
        *_, last = [event async for event in notebook.stream("Load the rows.")]
        assert isinstance(last, Finished) and last.outcome.session is notebook.session
        assert not (await notebook.solve("Divide them.")).solved
        outcome = await notebook.solve(Task("Add them up.", checks=[lambda result: result.value == 12]))
        assert (outcome.answer, [cell.outcome.solved for cell in notebook.cells]) == (12, [True, False, True])
        assert (await notebook.session.run("len(rows)")).value == 2  # the failed cell has changed nothing
    asked = model.asked[-1][1].text
    assert "rows = [base, 2]" in asked  # the model reads the solved cells and what they printed
    assert "loaded" in asked
    assert "1 / 0" not in asked
    assert (await session.run("'rows' in globals()")).value is False  # and the caller's session is as it was


async def test_a_closed_notebook_has_no_copies_left(box: actbox.Sandbox, session: Session) -> None:
    notebook = Notebook(CodingAgent(python("x = 1", "x += 1", "x"), box), session)
    first = await notebook.solve("One.")
    second = await notebook.solve("Two.")
    assert first.session is not None
    assert second.session is notebook.session
    assert not first.session.alive  # the next cell has closed it
    await notebook.close()
    assert not second.session.alive
    assert session.alive
    with pytest.raises(SandboxStopped):
        await notebook.solve("Three.")


async def test_jupyter_opens_a_saved_notebook(box: actbox.Sandbox, session: Session, tmp_path: Path) -> None:
    model = python("total = 40 + 2\ntotal", PICTURE, "nothing")
    async with Notebook(CodingAgent(model, box, retry=RetryPolicy(max_attempts=1)), session) as notebook:
        await notebook.solve("Add.")
        await notebook.solve(Task("Draw.", outputs=["chart.png"]))
        await notebook.solve("Fail.")
        path = notebook.save(tmp_path / "cells.ipynb")
    document = nbformat.read(path, as_version=nbformat.NO_CONVERT)  # type: ignore[no-untyped-call]
    nbformat.validate(document)
    assert (document.nbformat, document.nbformat_minor) == (4, 5)
    assert [cell.cell_type for cell in document.cells] == ["markdown", "code", "markdown", "code", "markdown"]
    added, drawn = (cell for cell in document.cells if cell.cell_type == "code")
    assert added.source.startswith("total = 40 + 2")
    assert [(one.output_type, one.data["text/plain"]) for one in added.outputs] == [("execute_result", "42")]
    printed, chart, rows = drawn.outputs
    assert printed.text == "drawn\n"
    assert chart.data["image/png"].startswith("iVBOR")
    assert rows.data["text/csv"] == "a,b\n1,2\n"
    assert "NameError" in document.cells[-1].source
    assert json.loads(path.read_text())["cells"][0]["source"] == "Add."
