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
from strands.hooks import BeforeToolsEvent
from strands.session import FileSessionManager

from actbox.integrations.strands import StrandsSandbox
from actbox.integrations.strands.paused_runs import paused_runs
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


def forget_the_program() -> None:
    """Have the program that waits be gone, as where the process has ended."""
    paused_runs._expire([*paused_runs._approvals._open][-1])


@pytest.mark.slow
def test_a_program_goes_on_where_its_agent_is_no_more(made: Make) -> None:
    asked = asked_and_left([made(block("note('a')\nprint(pay('b'))\nnote('c')\nkept = 41"))])
    later = made(block("final_answer(kept + 1)"))
    result = later(answers(asked))
    assert DONE == ["noted a", "paid b", "noted c"]
    assert observations(later)[0] == "[stdout]\nyes"
    assert result.state["codeact"]["answer"] == 42


@pytest.mark.slow
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
    forget_the_program()
    while linux._sessions:
        threading.Event().wait(0.01)
    assert DONE == []


# Where it stands


@pytest.mark.parametrize("stays", [True, False])
def test_an_agent_that_is_brought_back_has_the_variables_and_counts_on(made: Make, stays: bool) -> None:
    first = [made(block("x = 1"), block("print(pay('b'))\ny = 2"))]
    lives = first[0] if stays else None
    asked = first[0]("go") if stays else asked_and_left(first)
    assert asked.stop_reason == "interrupt"
    later = made(block("final_answer([x, y])"))
    state = later(answers(asked)).state["codeact"]
    assert state == {"stopped": "final_answer", "answer": [1, 2], "turns": 3, "programs": 3}
    assert all("[warnings]" not in text for text in observations(later))
    del lives


@pytest.mark.slow
def test_where_the_program_is_gone_it_counts_on_and_its_turns_are_no_more_than_there_may_be(made: Make) -> None:
    asked = made(block("x = 1"), block("print(pay('b'))"), max_turns=3)("go")
    forget_the_program()
    later = made(block("x"), max_turns=3)
    result = later(answers(asked))
    assert result.state["codeact"] == {"stopped": "max_turns", "answer": None, "turns": 3, "programs": 3}
    assert "what they had defined is lost" in observations(later)[1]


def asks_about_calls(agent: Agent) -> Agent:
    """Have an agent ask people about calls of its model's."""

    def asks(event: BeforeToolsEvent) -> None:
        event.interrupt("may it")

    agent.add_hook(asks, BeforeToolsEvent)
    return agent


@pytest.mark.slow
def test_what_is_lost_is_told_also_where_people_were_asked_about_something_else(made: Make) -> None:
    asked = asks_about_calls(made(block("x = 1"), [("note", {"text": "a"})]))("go")
    later = asks_about_calls(made(block("print('x' in globals())"), block("final_answer('done')")))
    result = later(answers(asked))
    assert observations(later)[1].startswith("[stdout]\nFalse\n\n[warnings]\nthe session of the programs before")
    assert result.state["codeact"] == {"stopped": "final_answer", "answer": "done", "turns": 4, "programs": 3}
    assert DONE == []


def test_where_nothing_was_defined_nothing_is_said_to_be_lost(made: Make) -> None:
    asked = asks_about_calls(made([("note", {"text": "a"})]))("go")
    later = asks_about_calls(made(block("1"), "done"))
    result = later(answers(asked))
    assert observations(later) == ["[value]\n1"]
    assert result.state["codeact"]["turns"] == 3
