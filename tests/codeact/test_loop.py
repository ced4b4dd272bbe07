"""The loop by itself: no model, no sandbox."""

from __future__ import annotations

import pytest

from actbox.codeact import blocks
from actbox.codeact.blocks import program_in
from actbox.codeact.loop import Ask, Continue, End, Loop, Run, Step
from actbox.codeact.model import ModelReply, ToolCall, ToolResultMessage, UserMessage


def started(max_turns: int = 5) -> Loop:
    loop = Loop("question", "instructions", max_turns)
    action = loop.begin()
    assert isinstance(action, Ask)
    assert action.turn == 1
    assert [message.text for message in action.messages] == ["instructions", "question"]
    return loop


def test_words_without_code_are_the_answer() -> None:
    assert started().on_reply(ModelReply("  It is 4. ")) == End("It is 4.", "answer")


def test_a_block_runs_and_its_observation_goes_back() -> None:
    loop = started()
    assert loop.on_reply(ModelReply("I try:\n```python\nprint(4)\n```")) == Run("print(4)\n")
    action = loop.on_observation("[stdout]\n4")
    assert isinstance(action, Ask)
    assert action.turn == 2
    last = action.messages[-1]
    assert isinstance(last, UserMessage)
    assert "[stdout]\n4" in last.text


def test_tool_calls_run_one_by_one_and_each_has_its_result() -> None:
    loop = started()
    calls = (ToolCall("c1", "execute_code", {"code": "1"}), ToolCall("c2", "execute_code", '{"code": "2"}'))
    assert loop.on_reply(ModelReply("", calls)) == Run("1", "c1")
    assert loop.on_observation("one") == Run("2", "c2")
    action = loop.on_observation("two")
    assert isinstance(action, Ask)
    assert [m.text for m in action.messages if isinstance(m, ToolResultMessage)] == ["one", "two"]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (ToolCall("c", "search", {"q": 1}), "no tool 'search'"),
        (ToolCall("c", "execute_code", "not json"), "one JSON object"),
        (ToolCall("c", "execute_code", {"source": "1"}), "one JSON object"),
        (ToolCall("c", "execute_code", {"code": 1}), "one JSON object"),
        (ToolCall("c", "execute_code", "[1]"), "one JSON object"),
    ],
)
def test_a_call_that_makes_no_sense_gets_a_result_that_says_so(call: ToolCall, words: str) -> None:
    action = started().on_reply(ModelReply("", (call,)))
    assert isinstance(action, Ask)
    last = action.messages[-1]
    assert isinstance(last, ToolResultMessage)
    assert last.call_id == "c"
    assert words in last.text


def test_a_final_answer_ends_it_also_when_it_is_none() -> None:
    loop = started()
    loop.on_reply(ModelReply("```python\nfinal_answer(None)\n```"))
    assert loop.on_observation("", answered=True, answer=None) == End(None, "final_answer")


def test_turns_are_capped() -> None:
    loop = started(max_turns=2)
    for _ in range(2):
        loop.on_reply(ModelReply("```python\n1\n```"))
        action = loop.on_observation("x")
    assert action == End(None, "max_turns")


def test_steps_out_of_order_are_refused() -> None:
    loop = started()
    with pytest.raises(RuntimeError, match="expects reply"):
        loop.on_observation("x")
    loop.on_reply(ModelReply("done"))
    with pytest.raises(RuntimeError, match="expects nothing"):
        loop.on_reply(ModelReply("more"))


@pytest.mark.parametrize(
    ("answer", "program"),
    [
        ("no code", None),
        ("```python\na\n```", "a\n"),
        ("```py\na\n```\ntext\n```python3\nb\n```", "a\n\nb\n"),
        ("~~~python\na\n~~~", "a\n"),
        ("```\na()\n```", "a()\n"),
        ("```\na = 1\n```", "a = 1\n"),
        ("```\nawait a()\n```", "await a()\n"),
        ("```\nimport a\n```", "import a\n"),
        ("```\nprint(r'\\d', '\\d')\n```", "print(r'\\d', '\\d')\n"),
        ("The answer is 5. The table:\n\n```\ntotal: 5 EUR\n```", None),
        ("```\ntotal: 5\n```", None),
        ("```\n42\n```", None),
        ("```\na\n```", None),
        ("```\n# only a word\n```", None),
        ("```\nprint('cut off\n```", None),
        ("```\na()\n```\n```\nb()\n```", None),
        ('```json\n{"a": 1}\n```', None),
        ("```bash\nls\n```\n```python\na\n```", "a\n"),
        ('````python\ns = """\n```\nb\n```\n"""\n````', 's = """\n```\nb\n```\n"""\n'),
        ("```python\nunclosed = 1\n", "unclosed = 1\n"),
        ("1. First:\n\n   ```python\n   a\n   ```", "a\n"),
        ("```Python title=x\na\n```", "a\n"),
        ("```{python}\na\n```", "a\n"),
        ("    ```python\n    indented code\n", None),
        ("inline ```python a``` code", None),
        ("```python\n```", ""),
    ],
)
def test_programs_are_found_as_markdown_means_them(answer: str, program: str | None) -> None:
    assert program_in(answer) == program


def test_a_list_of_lines_and_a_fenced_program_in_a_tool_call_are_taken_for_what_they_mean() -> None:
    for code in (["print(1)", "print(2)"], "```python\nprint(1)\nprint(2)\n```"):
        loop = Loop("q", "i", 3)
        loop.begin()
        action = loop.on_reply(ModelReply("", (ToolCall("c", "execute_code", {"code": code}),)))
        assert isinstance(action, Run)
        assert action.code.strip() == "print(1)\nprint(2)"


@pytest.mark.parametrize(
    ("language", "answer", "program"),
    [
        ("javascript", "```js\na\n```\n```python\nb\n```", "a\n"),
        ("javascript", "```typescript\na\n```", None),
        ("typescript", "```ts\na\n```\n```javascript\nb\n```", "a\n\nb\n"),
        ("python", "```js\na\n```", None),
        ("javascript", "~~~\na()\n~~~", "a()\n"),
        ("typescript", "~~~\nlet a = 1\n~~~", "let a = 1\n"),
        ("javascript", "~~~\nimport 'fs'\n~~~", "import 'fs'\n"),
        ("javascript", "~~~\ntotal (gross): 5 EUR\na => b\n~~~", None),
        ("rtfs", "```\n(+ 1 2)\n```", "(+ 1 2)\n"),
        ("rtfs", "```\ntotal: 5 EUR\n```", None),
        ("rtfs", "```\n(+ 1 2\n```", None),
        ("rtfs", "```rtfs\n(+ 1 2)\n```", "(+ 1 2)\n"),
    ],
)
def test_programs_may_be_in_another_language(language: str, answer: str, program: str | None) -> None:
    assert program_in(answer, language) == program
    loop = Loop("q", "i", 3, language=language)
    loop.begin()
    action = loop.on_reply(ModelReply(answer))
    assert action == (End(answer, "answer") if program is None else Run(program))


def test_where_programs_come_in_blocks_only_every_call_is_told_so() -> None:
    loop = Loop("q", "i", 2, language="javascript", by_call=False)
    loop.begin()
    action = loop.on_reply(ModelReply("", (ToolCall("c", "execute_code", {"code": "1"}),)))
    assert isinstance(action, Ask)
    said = action.messages[-1]
    assert isinstance(said, ToolResultMessage)
    assert said.text.startswith("There is no tool 'execute_code' to call directly.")
    assert said.text.endswith("in a fenced ```javascript block.")
    assert loop.on_reply(ModelReply("", (ToolCall("c", "x", {}),))) == End(None, "max_turns")


def test_a_policy_decides_after_each_program_and_each_reply_without_one() -> None:
    steps: list[Step] = []

    def three(step: Step) -> Continue | End:
        steps.append(step)
        return End(step.outcome, "third", "it was the third") if len(steps) == 3 else Continue("go on")

    loop = Loop("q", "i", 9, after=three)
    loop.begin()
    reply = ModelReply("words")
    action = loop.on_reply(reply)
    assert isinstance(action, Ask)
    assert action.messages[-1] == UserMessage("go on")
    two = ModelReply("", tuple(ToolCall(code, "execute_code", {"code": code}) for code in "ab"))
    assert loop.on_reply(two) == Run("a", "a")
    assert loop.on_observation("one", outcome=1) == Run("b", "b")
    assert loop.messages[-1] == ToolResultMessage("a", "execute_code", "go on")
    assert loop.on_observation("two", outcome=2) == End(2, "third", "it was the third")
    assert [(step.reply, step.program, step.text, step.outcome) for step in steps] == [
        (reply, None, "", None),
        (two, Run("a", "a"), "one", 1),
        (two, Run("b", "b"), "two", 2),
    ]


def test_a_driver_may_read_the_programs_of_a_reply_itself() -> None:
    loop = started()
    calls = (ToolCall("c1", "write_code", {"source": "a"}), ToolCall("c2", "other", {}))
    assert loop.on_reply(ModelReply("", calls), [Run("a", "c1", ("numpy",))]) == Run("a", "c1", ("numpy",))
    loop.on_observation("seen")
    assert [message for message in loop.messages if isinstance(message, ToolResultMessage)] == [
        ToolResultMessage("c2", "other", "This call was not taken for a program: send one program in each reply."),
        ToolResultMessage("c1", "write_code", "seen"),
    ]
    assert loop.on_reply(ModelReply("```python\nb\n```"), []) == End("```python\nb\n```", "answer")


@pytest.mark.parametrize("steps", range(4))
def test_a_driver_may_stop_the_loop_in_any_state(steps: int) -> None:
    loop = Loop("q", "i", 9)
    for step in (
        loop.begin,
        lambda: loop.on_reply(ModelReply("```python\n1\n```")),
        lambda: loop.on_observation("x"),
    )[:steps]:
        step()
    assert loop.stop("budget", "nothing is left") == End(None, "budget", "nothing is left")
    with pytest.raises(RuntimeError, match="has ended"):
        loop.stop("budget")


def test_what_stands_within_lines_is_not_read_for_the_blocks() -> None:
    assert "inline" not in blocks._PARSER.get_active_rules()["core"]
    assert program_in("![" * 1000 + "\n\n```python\n1\n```") == "1\n"
