"""An agent in CodeAct waits for people, and one that a session manager brings back goes on in its place."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("strands", reason="the extra actbox[strands] is not installed")

from strands import Agent, ToolContext, tool
from strands.session import FileSessionManager

from actbox.integrations.strands import StrandsSandbox
from actbox.integrations.strands.paused import paused_runs
from actbox.integrations.strands.plugin import CodeActPlugin
from tests.conftest import engine_check
from tests.integrations.strands_agents.acting import block, observations
from tests.integrations.strands_agents.programs import answers
from tests.integrations.strands_agents.scripted import ScriptedModel

DONE: list[str] = []

Make = Callable[..., Agent]


@pytest.fixture(autouse=True)
def nothing_is_done() -> None:
    DONE.clear()


@tool(context=True)
def pay(order: str, tool_context: ToolContext) -> str:
    """Pay an order, if somebody agrees."""
    said = tool_context.interrupt("agree", reason=order)
    DONE.append(f"paid {order}")
    return str(said)


@tool
def note(text: str) -> str:
    """Note something."""
    DONE.append(f"noted {text}")
    return text


@pytest.fixture
def made(linux: StrandsSandbox, tmp_path: Path) -> Make:
    """Makes the agent of one conversation, as a web service does for each request."""

    def make(*turns: Any, sandbox: Any = linux, **plugin: Any) -> Agent:
        return Agent(
            model=ScriptedModel(*turns),
            tools=[pay, note],
            plugins=[CodeActPlugin(sandbox, **plugin)],
            session_manager=FileSessionManager(session_id="talk", storage_dir=str(tmp_path)),
            callback_handler=None,
        )

    return make


def asked_and_left(agent: list[Agent]) -> Any:
    """Have the only agent of a list ask people, and return what it came to once the agent is no more."""
    is_gone = threading.Event()
    weakref.finalize(agent[0], is_gone.set)
    result = agent[0]("go")
    assert result.stop_reason == "interrupt"
    agent.clear()
    while not is_gone.is_set():
        gc.collect()
        is_gone.wait(0.01)
    return result


def test_a_program_goes_on_where_its_agent_is_no_more(made: Make) -> None:
    asked = asked_and_left([made(block("note('a')\nprint(pay('b'))\nnote('c')\nkept = 41"))])
    later = made(block("final_answer(kept + 1)"))
    result = later(answers(asked))
    assert DONE == ["noted a", "paid b", "noted c"]
    assert observations(later)[0] == "[stdout]\nyes"
    assert result.state["codeact"]["answer"] == 42


def test_an_agent_that_is_brought_back_has_the_sandbox_of_the_one_before(made: Make) -> None:
    engine_check("linux")
    program = "open('mine', 'w').write('x')\nkept = 41\npay('b')"
    kept: dict[str, Any] = {"sandbox": "linux", "keep_session": True}
    asked = asked_and_left([made(block(program), **kept)])
    later = made(block("kept += 1"), "done", block("final_answer([kept, open('mine').read()])"), **kept)
    later(answers(asked))
    assert later("and?").state["codeact"]["answer"] == [42, "x"]


def test_what_a_program_leaves_that_nobody_goes_on_with_ends_with_it(linux: StrandsSandbox, made: Make) -> None:
    asked_and_left([made(block("kept = 41\npay('b')"))])
    assert len(linux._sessions) == 1
    paused_runs._expire([*paused_runs._runs][-1])
    while linux._sessions:
        threading.Event().wait(0.01)
    assert DONE == []
