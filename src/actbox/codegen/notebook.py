"""`Notebook`: cells that build on each other; a coding agent writes each of them from a goal.

async with box.session(forkable=True) as session, Notebook(agent, session) as notebook:
    await notebook.solve(Task("Load the sales.", inputs={"sales.csv": Path("sales.csv")}))
    outcome = await notebook.solve("Which region sold most?")
    notebook.save("sales.ipynb")
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Self

from actbox.capabilities.budgets import Account, Budget
from actbox.codeact.blocks import fenced, joined
from actbox.content.items import (
    CodeInterpreterCall,
    CodeInterpreterResult,
    Content,
    DataContent,
    JsonObject,
    TextContent,
    code_content,
)
from actbox.content.messages import Message
from actbox.content.render import LEAST_CHARS, render
from actbox.content.results import content_from_result
from actbox.content.safe_text import encodable
from actbox.content.wire import jupyter
from actbox.core.counted import counted
from actbox.core.errors import SandboxStopped
from actbox.core.labels import PUBLIC
from actbox.core.result import ExecutionResult
from actbox.sandbox.contract import Session

from .coding_agent import CodingAgent, last_outcome
from .outcome import CodingEvent, Finished, Outcome
from .task import Task

MOST_CELLS_CHARS: Final = 20_000
"""The most characters of earlier cells that a model reads whole; of the cells before these it reads the goals."""
MOST_FILE_BYTES: Final = 10 * 2**20
"""The most bytes of a file that a saved notebook has in it."""

_BEFORE: Final = (
    "The program goes on where these cells of a notebook have ended: their variables, imports, functions and files are"
    " still there. Do not compute again what is there."
)


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a notebook: its goal, and the outcome with all attempts."""

    goal: str
    outcome: Outcome

    @property
    def code(self) -> str:
        """The program that solved the cell, else the last one that was tried; "" without any."""
        return self.outcome.code


class Notebook:
    """A list of cells. Each cell is a task, whose program starts from the state that the last solved cell left.

    `session` is a forkable session of the agent's sandbox. It stays as it is and belongs to the caller: every attempt
    runs in a copy, and the copy in which a cell was solved is where the next cell starts. A cell that is not solved
    changes nothing, nor does one whose program ran elsewhere, because it is in another language than the session's.

    The model reads the goals and programs of the cells whose state is there, and their results if these are public. It
    does not know the variables that `session` had before: name them in the context of a task.

    `close()`, or the end of `async with`, closes the copies.
    """

    def __init__(self, agent: CodingAgent, session: Session) -> None:
        self.cells: list[Cell] = []
        """All cells in their order, those that were not solved too."""
        self._agent = agent
        self._given = session
        self._copy: Session | None = None
        self._turn = asyncio.Lock()
        self._is_closed = False

    @property
    def session(self) -> Session:
        """The session with the state from which the next cell starts; that of a solved cell is closed by the next."""
        return self._copy or self._given

    async def solve(
        self, task: Task | str, *, budget: Budget | Account | None = None, cancel: asyncio.Event | None = None
    ) -> Outcome:
        """Add a cell, and return its outcome, whose session belongs to the notebook. Calls at once wait their turn.

        `budget` and `cancel` are as in `CodingAgent.solve`, which also says what is raised. Nothing is added then.
        """
        return await last_outcome(self.stream(task, budget=budget, cancel=cancel))

    async def stream(
        self, task: Task | str, *, budget: Budget | Account | None = None, cancel: asyncio.Event | None = None
    ) -> AsyncGenerator[CodingEvent]:
        """Yield the events of a cell as they happen; it is added before the last one, which is `Finished`."""
        asked = Task(task) if isinstance(task, str) else task
        async with self._turn:
            if self._is_closed:
                raise SandboxStopped("the notebook is closed")
            given = replace(asked, context=joined(asked.context, _text_of(self.cells)))
            events = self._agent.stream(given, session=self.session, budget=budget, cancel=cancel)
            async with aclosing(events):
                async for event in events:
                    if isinstance(event, Finished):
                        await self._add(Cell(asked.goal, event.outcome))
                    yield event

    async def _add(self, cell: Cell) -> None:
        self.cells.append(cell)
        if cell.outcome.session is not None:
            before, self._copy = self._copy, cell.outcome.session
            if before is not None:
                await before.close()

    def to_dict(self) -> dict[str, Any]:
        """Return the notebook as a document of Jupyter (nbformat 4.5), plain JSON data.

        A solved cell is its goal as Markdown and its program as code, with what was printed, the value and the files. A
        cell that was not solved is Markdown, so that running all cells does not stop at it.
        """
        messages = [message for number, cell in enumerate(self.cells, 1) for message in _messages(cell, number)]
        return jupyter.notebook(jupyter.write(messages).document)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the notebook as an `.ipynb` file, and return its path. A file of the same name is replaced.

        Programs read `input/` and write `output/` in the notebook's directory when they run again in Jupyter, where
        there are no tools and no `final_answer`. Raises `OSError`.
        """
        place = Path(path)
        place.write_text(encodable(json.dumps(self.to_dict(), ensure_ascii=False, indent=1)) + "\n", encoding="utf-8")
        return place

    async def close(self) -> None:
        """Close the copies of the session. A second call does nothing."""
        async with self._turn:
            self._is_closed = True
            copy, self._copy = self._copy, None
            if copy is not None:
                await copy.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()


def _text_of(cells: Sequence[Cell]) -> str:
    """Return the cells whose state is kept as a model reads them: the last ones whole, of those before the goals."""
    texts: list[str] = []
    left = MOST_CELLS_CHARS
    for number, cell in reversed(list(enumerate(cells, 1))):
        if cell.outcome.session is None or cell.outcome.last is None:
            continue  # it left no state
        heading = f"Cell {number}: {cell.goal}"
        text = joined(heading, fenced(cell.code.rstrip(), cell.outcome.last.language), _result_text(cell.outcome))
        left -= len(text)
        texts.append(text if left >= 0 else heading[:LEAST_CHARS])
    return joined(_BEFORE, *reversed(texts)) if texts else ""


def _result_text(outcome: Outcome) -> str:
    """Return what a program has printed and come to; "" for nothing, or if not every model may read it."""
    result = None if outcome.last is None else outcome.last.result
    if result is None or not (result.stdout or result.value_text or result.artifacts) or not result.label <= PUBLIC:
        return ""
    return render(result, max_chars=LEAST_CHARS)


# The form of Jupyter


def _messages(cell: Cell, number: int) -> Iterator[Message]:
    last, outcome = cell.outcome.last, cell.outcome
    if outcome.solved and last is not None and last.result is not None:
        yield Message(role="user", contents=(TextContent(text=cell.goal),))
        call_id = f"cell-{number}"
        kept: dict[str, JsonObject] = {jupyter.NAME: {"execution_count": number}}
        if last.language != "python":
            kept[jupyter.NAME] |= {"metadata": {"vscode": {"languageId": last.language}}}
        call = CodeInterpreterCall(
            call_id=call_id, inputs=(code_content(cell.code, last.language),), provider_data=kept
        )
        outputs = tuple(_outputs(last.result, number))
        yield Message(contents=(call, CodeInterpreterResult(call_id=call_id, outputs=outputs, outcome="ok")))
        return
    said = f"Not solved: {joined(outcome.stopped, fenced(outcome.reason, 'text') if outcome.reason else '')}"
    code = "" if last is None else fenced(cell.code.rstrip(), last.language)
    yield Message(role="user", contents=(TextContent(text=joined(cell.goal, said, code)),))


def _outputs(result: ExecutionResult, number: int) -> Iterator[Content]:
    """Yield the outputs of a cell: what was printed, the value in its forms as one output, and each file."""
    found = content_from_result(result)[0]
    assert isinstance(found, CodeInterpreterResult)
    value: dict[str, Any] = {"bundle": {"output_type": "execute_result", "execution_count": number, "metadata": {}}}
    for item in found.outputs:
        if item.provider_data.get("actbox", {}).get("part") == "value":
            if isinstance(item, TextContent):
                item = DataContent(media_type="text/plain", data=encodable(item.text).encode())
            yield item.model_copy(update={"provider_data": {jupyter.NAME: value}})
            value = {"form": 1}
        elif isinstance(item, DataContent) and item.name is not None:
            yield from _file(item, item.name)
        else:
            yield item


def _file(item: DataContent, name: str) -> Iterator[Content]:
    """Yield a file, with its name and size as text, which Jupyter shows where it cannot draw the type."""
    about = f"output/{name}: {item.media_type}, {counted(len(item.data), 'byte')}"
    is_small = len(item.data) <= MOST_FILE_BYTES
    if not is_small:
        about += ", left out of this notebook"
    if is_small and item.media_type == "text/plain":
        about += f"\n{item.text}"
    bundle: dict[str, Any] = {"output_type": "display_data", "metadata": {"name": name}}
    yield DataContent(
        media_type="text/plain", data=about.encode(), name=name, provider_data={jupyter.NAME: {"bundle": bundle}}
    )
    if is_small and item.media_type != "text/plain":
        yield item.model_copy(update={"provider_data": {jupyter.NAME: {"form": 1}}})
