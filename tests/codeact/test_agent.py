"""The agent in a real sandbox, with a scripted model."""

from __future__ import annotations

from typing import Any

import pytest

from actbox import ActboxError, ErrorKind, InvalidValue, Output, Policy, Sandbox, open_sandbox, tool
from actbox.codeact import (
    Answered,
    CodeAgent,
    CodeFinished,
    CodeStarted,
    ModelReply,
    ModelSpoke,
    RunEvent,
    ScriptedModel,
    SystemMessage,
    TokenUsage,
    ToolCall,
    ToolResultMessage,
    TurnStarted,
)
from tests.conftest import engine_check


def population(city: str) -> int:
    """Return how many people live in a city."""
    return {"Oslo": 700, "Bergen": 300}[city]


async def test_an_agent_makes_a_mistake_reads_the_error_and_mends_it(box: Sandbox) -> None:
    model = ScriptedModel(
        [
            "First:\n```python\nprint(population('Osloo'))\n```",
            "```python\ntotal = population('Oslo') + population('Bergen')\n"
            "open('output/t.txt', 'w').write(str(total))\nfinal_answer({'total': total})\n```",
        ]
    )
    outcome = await CodeAgent(model, box, tools=[population]).run("How many together?")
    assert outcome.answer == {"total": 1000}
    assert outcome.stopped == "final_answer"
    assert [result.success for result in outcome.results] == [False, True]
    assert outcome.results[0].error is not None
    assert outcome.results[0].error.kind is ErrorKind.TOOL
    assert [artifact.data for artifact in outcome.artifacts] == [b"1000"]
    assert (outcome.usage.model_calls, outcome.usage.runs, outcome.usage.tool_calls) == (2, 2, 4)
    instructions = model.asked[0][0]
    assert isinstance(instructions, SystemMessage)
    assert "def population(city: str) -> int:" in instructions.text
    assert "KeyError: 'Osloo'" in model.asked[1][-1].text


@pytest.mark.parametrize("value", [b"x", {"img": b"x"}, float("inf"), (1, {2}), {1: None}])
async def test_an_answer_is_any_value_that_crosses(box: Sandbox, value: Any) -> None:
    spelled = repr(value).replace("inf", "float('inf')")
    outcome = await CodeAgent(ScriptedModel([f"```python\nfinal_answer({spelled})\n```"]), box).run("?")
    assert (outcome.answer, outcome.stopped) == (value, "final_answer")


@pytest.mark.slow
async def test_an_answer_that_cannot_cross_fails_its_program(box: Sandbox) -> None:
    model = ScriptedModel(["```python\nfinal_answer([len])\n```", "```python\nfinal_answer('AA==')\n```"])
    outcome = await CodeAgent(model, box).run("?")
    assert (outcome.answer, outcome.stopped) == ("AA==", "final_answer")
    assert "[0] is of type builtin_function_or_method" in model.asked[1][-1].text


@pytest.mark.slow
async def test_an_answer_given_without_await_is_told_from_one_that_was_given(box: Sandbox) -> None:
    turns = ["import asyncio\nawait asyncio.sleep(0)\ngiven = final_answer(1)\ndel given", "await final_answer(1)"]
    model = ScriptedModel([f"```python\n{turn}\n```" for turn in turns])
    outcome = await CodeAgent(model, box).run("?")
    assert outcome.answer == 1
    assert "write `await final_answer(…)`" in model.asked[1][-1].text
    assert "call final_answer(value) in a program, like any of the functions below" in model.asked[0][0].text


async def test_programs_may_come_as_tool_calls(box: Sandbox) -> None:
    model = ScriptedModel(
        [
            ModelReply("", (ToolCall("c1", "execute_code", {"code": "6 * 7"}),), TokenUsage(10, 5)),
            ModelReply("It is 42.", (), TokenUsage(20, 3)),
        ]
    )
    outcome = await CodeAgent(model, box).run("6 * 7?")
    assert (outcome.answer, outcome.stopped) == ("It is 42.", "answer")
    assert outcome.usage.tokens == TokenUsage(30, 8)
    last = model.asked[1][-1]
    assert isinstance(last, ToolResultMessage)
    assert "42" in last.text


async def test_a_model_reads_where_its_program_failed_and_what_it_had_called(box: Sandbox) -> None:
    model = ScriptedModel(["```python\ntotal = population('Oslo')\nfinal_answer(total)\ntotal['a']\n```", "sorry"])
    await CodeAgent(model, box, tools=[population]).run("?")
    text = model.asked[1][-1].text
    assert "> 3 | total['a']" in text
    assert text.endswith('1. population({"city": "Oslo"}) → returned')


async def test_an_answer_that_does_not_count_is_not_said_to_be_given(box: Sandbox) -> None:
    model = ScriptedModel(["```python\nfinal_answer(1)\n1 / 0\n```", "sorry"])
    await CodeAgent(model, box).run("?")
    assert "tool calls" not in model.asked[1][-1].text


@pytest.mark.slow
async def test_a_model_that_never_stops_is_stopped(box: Sandbox) -> None:
    outcome = await CodeAgent(ScriptedModel(["```python\n1\n```"] * 5), box, max_turns=3).run("?")
    assert (outcome.answer, outcome.stopped, len(outcome.results)) == (None, "max_turns", 3)


@pytest.mark.slow
async def test_an_answer_given_by_a_program_that_then_fails_does_not_count(box: Sandbox) -> None:
    model = ScriptedModel(["```python\nfinal_answer(1)\n1 / 0\n```", "```python\nfinal_answer(2)\n```"])
    assert (await CodeAgent(model, box).run("?")).answer == 2


@pytest.mark.slow
async def test_none_is_an_answer(box: Sandbox) -> None:
    outcome = await CodeAgent(ScriptedModel(["```python\nawait final_answer(None)\n```"]), box).run("?")
    assert (outcome.answer, outcome.stopped) == (None, "final_answer")


async def test_everything_is_told_as_it_happens(box: Sandbox) -> None:
    model = ScriptedModel(["Look:\n```python\nprint('hi')\nfinal_answer(1)\n```"])
    events = [event async for event in CodeAgent(model, box).stream("?")]
    kinds = [type(event) for event in events]
    assert kinds[:3] == [TurnStarted, ModelSpoke, CodeStarted]
    assert kinds[-2:] == [CodeFinished, Answered]
    assert any(isinstance(event, RunEvent) and isinstance(event.event, Output) for event in events)


async def test_a_scripted_model_says_that_it_is_one_and_when_it_has_ended(box: Sandbox) -> None:
    model = ScriptedModel([])
    assert model.name == "scripted"
    with pytest.raises(ActboxError, match="scripted"):
        await CodeAgent(model, box).run("?")


async def test_source_beyond_bounds_is_an_observation_and_no_exception(box: Sandbox) -> None:
    model = ScriptedModel(["```python\n#" + "x" * (9 * 2**20) + "\n```", "sorry"])
    outcome = await CodeAgent(model, box).run("?")
    assert outcome.answer == "sorry"
    assert "8 MiB" in model.asked[1][-1].text


async def test_a_cap_below_one_turn_is_refused(box: Sandbox) -> None:
    with pytest.raises(InvalidValue, match="max_turns"):
        CodeAgent(ScriptedModel([]), box, max_turns=0)


async def test_a_model_reads_no_result_above_its_clearance_and_its_program_may_answer_all_the_same() -> None:
    if not engine_check("linux").works:
        pytest.skip("the linux engine does not work here")
    load = tool(name="load", label="pii.email", cleared="pii.email")(lambda: "ann@example.org")
    model = ScriptedModel(
        [f"```python\n{code}\n```" for code in ("print(load())\nraise ValueError(load())", "final_answer(load())")]
    )
    async with open_sandbox("linux", policy=Policy(egress_max="public")) as box:
        outcome = await CodeAgent(model, box, tools=[load]).run("Who is it?")
    assert outcome.answer == "ann@example.org"
    assert outcome.results[0].error is not None
    assert "kept from you" in model.asked[1][-1].text
    assert "ann" not in model.asked[1][-1].text
