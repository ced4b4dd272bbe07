"""How often a model is told when to write `await`: once, in each text that tells it how programs call tools."""

from __future__ import annotations

import pytest

from actbox.codeact import CodeActConfig
from actbox.codeact.block_instructions import block_instructions
from actbox.codeact.final_answer import FinalAnswer
from actbox.codeact.instructions import agent_instructions
from actbox.sandbox.traits import Traits
from actbox.tools import Tool, Toolset

TRAITS = Traits(engine="some", isolation="walls", isolated=True, network="none", sessions=True)


def look_up(name: str, limit: int = 10) -> list[str]:
    """Look a name up."""
    return [name] * limit


def many() -> list[Tool]:
    return [Tool.from_function(look_up, name=f"tool_{number}") for number in range(200)]


TOOLS = Toolset([Tool.from_function(look_up), FinalAnswer().tool])
FEW, MANY, JAVASCRIPT = (
    CodeActConfig(tools=[look_up]).freeze(),
    CodeActConfig(tools=many()).freeze(),
    CodeActConfig(tools=[look_up], language="javascript").freeze(),
)
TEXTS = {
    "agent": agent_instructions(TOOLS),
    "agent without tools": agent_instructions(Toolset([])),
    "blocks": block_instructions(TOOLS, TRAITS),
    "blocks in a session": block_instructions(TOOLS, TRAITS, keeps_state=True),
    "description": FEW.description,
    "description of many": MANY.description,
    "by hand": FEW.build_instructions(tools_visible_to_model=False),
    "by hand, visible": FEW.build_instructions(tools_visible_to_model=True),
    "by hand, many": MANY.build_instructions(tools_visible_to_model=True),
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_the_rule_on_await_stands_once(text: str) -> None:
    assert " ".join(text.split()).count("uses `await`") == 1


@pytest.mark.parametrize(
    "text",
    [block_instructions(TOOLS, TRAITS, language="javascript"), JAVASCRIPT.description],
    ids=["blocks", "description"],
)
def test_the_rule_on_await_stands_once_for_javascript(text: str) -> None:
    assert text.count("are async") == 1


def test_an_agent_without_tools_is_told_to_await_the_answer() -> None:
    told = "call final_answer(value) in a program, `await final_answer(value)` in one that uses `await`,\n  or answer"
    assert told in agent_instructions(Toolset([]))


def test_the_caller_of_strands_states_the_rule_once() -> None:
    pytest.importorskip("strands")
    from actbox.integrations.strands.caller import DESCRIPTION

    assert DESCRIPTION.count("uses `await`") == 1


@pytest.mark.parametrize("backend", ["wasm", "javascript"])
def test_a_backend_of_hyperlight_adds_no_rule_of_its_own(backend: str) -> None:
    pytest.importorskip("agent_framework")
    from actbox.integrations.agent_framework.engine_options import hyperlight_options

    options = hyperlight_options(backend, {})
    text = CodeActConfig(tools=[look_up], about=options["about"], language=options["language"]).freeze().description
    assert text.count("uses `await`") + text.count("are async") + text.count("called without") == 1
