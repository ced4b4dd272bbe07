"""Tool calls that a model writes as text."""

from __future__ import annotations

import pytest

from actbox.codeact.calls_as_text import MOST_CHARS, call_as_text
from actbox.codeact.model import ToolCall

CALL = '{"name": "price", "arguments": {"item": "tea"}}'


@pytest.mark.parametrize(
    "answer",
    [
        f" {CALL}\n",
        f"[{CALL}]",
        CALL.replace("arguments", "parameters"),
        CALL.replace("name", "tool").replace("arguments", "input"),
        CALL.replace("name", "function"),
        f'{{"type": "function", "function": {CALL}}}',
        f'{{"tool_calls": [{{"id": "1", "function": {CALL}}}]}}',
        f"I look:\n```json\n{CALL}\n```\n",
        f"I look:\n<tool_call>\n{CALL}\n</tool_call>\nand wait.",
        f"<tool_call>{CALL}",
        f"<function_call>{CALL}</function_call>",
    ],
)
def test_a_call_is_found_in_each_of_its_forms(answer: str) -> None:
    assert call_as_text(answer) == ToolCall("", "price", {"item": "tea"})


def test_arguments_may_be_json_text() -> None:
    assert call_as_text('{"name": "price", "arguments": "{}"}') == ToolCall("", "price", "{}")


@pytest.mark.slow
@pytest.mark.parametrize(
    "answer",
    [
        "",
        "It is 4.50.",
        '{"total": 450}',
        '{"name": "tea"}',
        '{"name": 1, "arguments": {}}',
        '{"name": "price", "arguments": [1]}',
        f"As in\n```json\n{CALL}\n```\none writes a call.",
        f"```python\n{CALL}\n```",
        "[" * 50_000 + '{"',
        CALL + " " * MOST_CHARS,
    ],
)
def test_other_answers_have_none(answer: str) -> None:
    assert call_as_text(answer) is None
