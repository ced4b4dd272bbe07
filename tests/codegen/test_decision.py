"""The decision for direct code, a coding agent or RTFS: each row of the table, and the intent that it is made from."""

from __future__ import annotations

import json
from typing import Any

import pytest

from actbox.codeact import ModelReply, ScriptedModel
from actbox.codeact.model import TokenUsage, ToolCall
from actbox.codegen import Decision, DecisionTable, Intent, ask_intent, decide


def of(**fields: Any) -> Decision:
    """Return the decision about an intent with these fields."""
    return decide(Intent(goal="add", **fields))


# The rows of the table

ROWS = [
    ("direct", {"lines": 19}, "about 19 lines are at most 20"),
    ("direct", {"lines": 20}, "about 20 lines are at most 20"),
    ("delegated", {"lines": 21}, "about 21 lines are more than 20"),
    ("direct", {"dependencies": ()}, "no dependencies"),
    ("direct", {"dependencies": ("pandas>=2", "Matplotlib")}, "dependencies: pandas, matplotlib, all standard"),
    ("delegated", {"dependencies": ("pandas", "numpy", "scipy")}, "3 dependencies are more than 2"),
    ("delegated", {"dependencies": ("pandas", "obscure_lib==1")}, "unusual dependencies: obscure-lib"),
    ("direct", {"dependencies": ("csv", "json", "math", "node:fs", "pandas")}, "dependencies: pandas, all standard"),
    ("direct", {"language": "python"}, "the language is python"),
    ("direct", {"language": "javascript"}, "the language is javascript"),
    ("direct", {"error_likelihood": "low"}, "errors are unlikely"),
    ("delegated", {"error_likelihood": "high"}, "errors are likely, so that it needs iteration"),
    ("direct", {"quality": "good_enough"}, "good enough is asked for"),
    ("delegated", {"quality": "production"}, "production quality is asked for"),
]


@pytest.mark.parametrize(("way", "fields", "reason"), ROWS, ids=[reason for _, _, reason in ROWS])
def test_each_row_of_the_table_decides_and_says_so(way: str, fields: dict[str, Any], reason: str) -> None:
    decision = of(**fields)
    assert decision.way == way
    assert reason in decision.reasons
    assert reason in decision.reason


@pytest.mark.parametrize("language", ["rust", "go", "sql"])
def test_a_special_language_is_delegated_where_it_runs_and_else_returned_unrun(language: str) -> None:
    intent = Intent(goal="add", language=language)
    specialist = f"the language {language} is for a specialist"
    assert decide(intent, runs=("python", language)) == Decision(
        way="delegated", language=language, reasons=(specialist,)
    )
    returned = decide(intent)
    assert (returned.way, returned.language) == ("returned", language)
    assert returned.reasons == (f"no engine here runs {language}, so the code is returned without a run", specialist)


def test_only_the_rows_that_are_beyond_the_limits_are_the_reasons_for_an_agent() -> None:
    assert of(lines=80, quality="production").reasons == (
        "about 80 lines are more than 20",
        "production quality is asked for",
    )


def test_the_numbers_can_be_others() -> None:
    intent = Intent(goal="add", lines=30, dependencies=("obscure", "b", "c"))
    table = DecisionTable(most_lines=30, most_dependencies=3, standard_packages=("obscure", "b", "c"))
    assert decide(intent, table=table).way == "direct"


def test_without_a_coding_agent_the_model_itself_writes_it() -> None:
    decision = decide(Intent(goal="add", lines=80), has_coding_agent=False)
    assert decision.way == "direct"
    assert decision.reasons == ("there is no coding agent to delegate to", "about 80 lines are more than 20")


# RTFS


@pytest.mark.parametrize("fields", [{"pure": True}, {"language": "rtfs"}, {"pure": True, "inputs": ("values",)}])
def test_a_pure_computation_is_rtfs(fields: dict[str, Any]) -> None:
    assert of(**fields) == Decision(
        way="rtfs", language="rtfs", reasons=("it is a pure computation on the given values",)
    )


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"inputs": ("sales.csv",)}, "it reads sales.csv"),
        ({"outputs": ("chart.png",)}, "it writes chart.png"),
        ({"dependencies": ("pandas",)}, "it needs pandas"),
        ({"lines": 21}, "about 21 lines are more than 20"),
    ],
)
def test_more_than_a_computation_is_no_rtfs_and_the_reason_says_why(fields: dict[str, Any], why: str) -> None:
    decision = of(language="rtfs", **fields)
    assert decision.language == "python"
    assert decision.reasons[0] == f"RTFS cannot do it: {why}"


def test_a_pure_computation_in_another_language_stays_in_it() -> None:
    assert of(pure=True, language="python").way == "direct"
    assert decide(Intent(goal="add", pure=True), runs=("python",)).language == "python"


# The intent

SAID = {
    "goal": "Analyze CSV, create chart",
    "required": ["Data processing", "visualization"],
    "language": "Python3",
    "inputs": ["sales.csv"],
    "outputs": ["chart.png"],
    "lines": 35,
    "dependencies": ["pandas", "matplotlib"],
    "error_likelihood": "high",
    "quality": "production",
    "pure": False,
}
MEANT = Intent(
    goal="Analyze CSV, create chart",
    required=("Data processing", "visualization"),
    language="python",
    inputs=("sales.csv",),
    outputs=("chart.png",),
    lines=35,
    dependencies=("pandas", "matplotlib"),
    error_likelihood="high",
    quality="production",
)


def call(arguments: Any, name: str = "intent") -> ModelReply:
    return ModelReply(tool_calls=(ToolCall("1", name, arguments),), usage=TokenUsage(3, 4))


@pytest.mark.parametrize(
    "reply",
    [
        call(SAID),
        call(json.dumps(SAID)),
        json.dumps(SAID),
        f"```json\n{json.dumps(SAID)}\n```",
        json.dumps({"name": "intent", "arguments": SAID}),
    ],
    ids=["tool call", "arguments as text", "object", "fenced object", "call as text"],
)
async def test_the_model_says_its_intent_in_any_of_these_forms(reply: str | ModelReply) -> None:
    model = ScriptedModel([reply])
    asked = await ask_intent(model, "Analyze this CSV and create a chart")
    assert (asked.intent, asked.noted) == (MEANT, "")
    assert asked.reply.usage == (reply.usage if isinstance(reply, ModelReply) else TokenUsage())
    assert len(model.asked) == 1


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "<html><body>502 Bad Gateway</body></html>",
        "```python\nprint(1)\n```",
        call(SAID, "no_such_tool"),
        call("no json"),
        call({}),
        call([1]),
        '{"a": 1}',
        "[" * 90_000,
        "x" * 5_000_000,
    ],
    ids=["nothing", "HTML", "code", "unknown tool", "no JSON", "empty", "a list", "other JSON", "nested", "5 MB"],
)
async def test_a_reply_without_an_intent_leaves_the_callers_own(reply: str | ModelReply) -> None:
    asked = await ask_intent(ScriptedModel([reply]), "add", language="py", inputs=["a.csv"], outputs=["b.png"])
    assert asked.intent == Intent(goal="add", language="python", inputs=("a.csv",), outputs=("b.png",))
    assert asked.noted == "the model gave no intent"


async def test_the_callers_word_holds_against_the_models() -> None:
    asked = await ask_intent(ScriptedModel([call(SAID)]), "add", language="javascript", inputs=["a"], outputs=["b"])
    assert (asked.intent.language, asked.intent.inputs, asked.intent.outputs) == ("javascript", ("a",), ("b",))
    assert (await ask_intent(ScriptedModel([call(SAID)]), "add", language="auto")).intent == MEANT


def test_fields_in_other_forms_are_read_and_unreadable_ones_are_left_out() -> None:
    said = {
        "language": "Node.js",
        "inputs": "a.csv",
        "outputs": [{"name": "b.png"}, None, 3],
        "lines": "10-15 lines",
        "error_likelihood": "High",
        "quality": "Production quality",
        "pure": "true",
        "dependencies": {"no": "list"},
    }
    assert Intent.of(said, "add") == Intent(
        goal="add",
        language="javascript",
        inputs=("a.csv",),
        outputs=("b.png", "3"),
        lines=15,
        error_likelihood="high",
        quality="production",
        pure=True,
    )
    assert Intent.of({"goal": ["x"], "lines": [], "language": None}, "add") == Intent(goal="add")
