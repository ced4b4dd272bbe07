"""What counts as the answer of an agent in CodeAct, and how it stands in the conversation."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("strands", reason="the extra actbox[strands] is not installed")

from strands import tool
from strands.session import FileSessionManager

from actbox.content.render import MAX_CHARS
from actbox.integrations.strands import StrandsSandbox, codeact_invocation
from tests.integrations.strands_agents.acting import acting, block, observations, roles, seen


@tool
def price(item: str) -> int:
    """Return the price of an item."""
    return 450


# What is no JSON data


@pytest.mark.parametrize(
    ("value", "kept", "said"),
    [
        ("b'x'", {"!bytes": "eA=="}, '{"!bytes": "eA=="}'),
        ("{'a': [float('nan')]}", {"a": [{"!float": "nan"}]}, '{"a": [{"!float": "nan"}]}'),
        ("(1, 2)", {"!tuple": [1, 2]}, "[1, 2]"),
        ("__import__('datetime').date(2026, 1, 2)", {"!date": "2026-01-02"}, '"2026-01-02"'),
    ],
)
async def test_an_answer_that_is_no_json_data_is_kept_in_the_tagged_form(
    linux: StrandsSandbox, value: str, kept: Any, said: str
) -> None:
    agent = acting(linux, block(f"final_answer({value})"))
    result = await agent.invoke_async("go")
    assert result.state["codeact"] == {"stopped": "final_answer", "answer": kept, "turns": 1, "programs": 1}
    assert agent.messages[-1]["content"] == [{"text": said}]


@pytest.mark.slow
async def test_a_large_answer_is_worked_off_beside_the_event_loop(
    linux: StrandsSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed, large = codeact_invocation.pack, []

    def pack(value: Any) -> Any:
        if isinstance(value, list):
            large.append(threading.get_ident())
        return packed(value)

    monkeypatch.setattr(codeact_invocation, "pack", pack)
    agent = acting(linux, block("final_answer([1] * 400_000)"))
    result = await agent.invoke_async("go")
    assert result.state["codeact"]["answer"] == [1] * 400_000
    assert agent.messages[-1]["content"][0]["text"].startswith("[1, 1, ")
    assert len(large) == 2  # as it is and spelled out, once each
    assert threading.get_ident() not in large


# What cannot be stored as it is


@pytest.mark.parametrize(
    ("value", "said"), [("'a\\ud800'", r"a\ud800"), ("{'\\ud800': ['é\\udcff']}", r'{"\ud800": ["é\udcff"]}')]
)
async def test_half_of_a_surrogate_pair_in_an_answer_is_spelt_out(
    linux: StrandsSandbox, tmp_path: Path, value: str, said: str
) -> None:
    manager = FileSessionManager(session_id="s", storage_dir=str(tmp_path))
    agent = acting(linux, block(f"final_answer({value})"), agent={"session_manager": manager})
    events: list[Any] = [event async for event in agent.stream_async("go")]
    assert agent.messages[-1]["content"] == [{"text": said}]
    assert [event["data"] for event in events if "data" in event][-1] == said
    kept = [json.loads(path.read_text()) for path in tmp_path.rglob("message_*.json")]
    assert [{"text": said}] in [message["message"]["content"] for message in kept]
    answer = events[-1]["result"].state["codeact"]["answer"]
    assert answer == ("a\ud800" if said.startswith("a") else {"\ud800": ["é\udcff"]})


@pytest.mark.slow
async def test_a_long_answer_is_cut_in_the_conversation_and_whole_in_the_state(linux: StrandsSandbox) -> None:
    agent = acting(linux, block("final_answer(['x' * 100_000, 'end'])"))
    result = await agent.invoke_async("go")
    text = agent.messages[-1]["content"][0]["text"]
    assert MAX_CHARS - 10 < len(text) <= MAX_CHARS
    assert text.startswith('["xxx')
    assert text.endswith('xxx", "end"]')
    assert 'of 100,011 characters left out; whole: AgentResult.state["codeact"]["answer"]' in text
    assert result.state["codeact"]["answer"] == ["x" * 100_000, "end"]


# A call of `final_answer` that nobody awaits


@pytest.mark.slow
@pytest.mark.parametrize(
    "program",
    [
        "item = await price('tea')\nfinal_answer(item)",
        "item = await price('tea')\nkept = final_answer(item)\nprint(item)",
        "async def answer():\n    final_answer(1)\nawait answer()",
    ],
)
async def test_an_answer_that_is_not_awaited_is_told_from_one_that_is(linux: StrandsSandbox, program: str) -> None:
    agent = acting(linux, block(program), block("await final_answer(await price('tea'))"), tools=[price])
    result = await agent.invoke_async("go")
    first, second = observations(agent)
    assert "the answer was not given" in first.partition("[warnings]\n")[2]
    assert "write `await final_answer(…)`" in first
    assert second == "It gave the final answer."
    assert result.state["codeact"]["answer"] == 450
    assert "call final_answer(value) in a program, like any of the functions below" in seen(agent)[0]["system"]


@pytest.mark.parametrize("program", ["await price('tea')", "x = 'final_answer(1)'", "print('await')"])
async def test_programs_that_answer_nothing_are_told_nothing_of_it(linux: StrandsSandbox, program: str) -> None:
    agent = acting(linux, block(program), "done", tools=[price])
    await agent.invoke_async("go")
    assert "the answer was not given" not in observations(agent)[0]


# A call that is written as text


CALL = '{"name": "price", "arguments": {"item": "tea"}}'


@pytest.mark.slow
@pytest.mark.parametrize(
    "said",
    [
        CALL,
        f"```json\n{CALL}\n```",
        f"```\n{CALL}\n```",
        f"```python\n[{CALL}]\n```",
        f"I look it up.\n\n```json\n{CALL}\n```",
        f"<tool_call>\n{CALL}\n</tool_call>",
    ],
)
async def test_a_call_that_is_written_as_json_is_no_answer(linux: StrandsSandbox, said: str) -> None:
    agent = acting(linux, said, block("final_answer(price('tea'))"), tools=[price])
    result = await agent.invoke_async("go")
    assert result.state["codeact"] == {"stopped": "final_answer", "answer": 450, "turns": 2, "programs": 1}
    told_it = agent.messages[2]["content"][0]["text"]
    assert told_it.startswith("There is no tool 'price' to call directly")
    assert "fenced ```python block" in told_it
    assert roles(agent) == ["user", "assistant"] * 3


@pytest.mark.parametrize(
    "said", [CALL.replace("price", "weight"), '{"name": "price"}', f"Write ```json\n{CALL}\n``` so."]
)
async def test_json_that_calls_none_of_the_tools_is_an_answer(linux: StrandsSandbox, said: str) -> None:
    result = await acting(linux, said, tools=[price]).invoke_async("go")
    assert result.state["codeact"] == {"stopped": "answer", "answer": said, "turns": 1, "programs": 0}


@pytest.mark.slow
async def test_a_program_runs_that_has_a_call_in_json_beside_it(linux: StrandsSandbox) -> None:
    agent = acting(linux, f"{block('final_answer(1)')}\n\nNot so:\n\n```json\n{CALL}\n```", tools=[price])
    assert (await agent.invoke_async("go")).state["codeact"]["answer"] == 1


async def test_writing_calls_as_json_for_ever_is_capped_too(linux: StrandsSandbox) -> None:
    agent = acting(linux, lambda messages: CALL, tools=[price], max_turns=3)
    result = await agent.invoke_async("go")
    assert len(seen(agent)) == 3
    assert result.stop_reason == "limit_turns"
    assert result.state["codeact"] == {"stopped": "max_turns", "answer": None, "turns": 3, "programs": 0}
    assert result.message == agent.messages[-1]
    assert "There is no tool 'price' to call directly" in str(result)
    assert roles(agent) == ["user", "assistant"] * 3 + ["user"]
