"""`CodeActRunner`: from what a model sent to what it reads."""

from __future__ import annotations

import json
from typing import Any

import pytest

import actbox
from actbox import ErrorKind, Limits, Policy, Sandbox, Tool
from actbox.codeact import CodeActConfig, CodeActOutcome, CodeActRunner
from tests.codeact.runners import did, frozen, kind_of, opens

pytestmark = pytest.mark.one_engine_first


# Programs


async def test_a_program_runs_and_what_came_of_it_can_be_read(runner: CodeActRunner) -> None:
    outcome = await did(runner, frozen(), "print('hello')\n6 * 7")
    assert (outcome.result.stdout, outcome.result.value) == ("hello\n", 42)
    assert "hello" in outcome.text
    assert "42" in outcome.text
    assert outcome.calls.records == ()


async def test_tools_are_called_and_the_calls_are_kept(runner: CodeActRunner) -> None:
    def double(number: int) -> int:
        """Double it."""
        return 2 * number

    def fail() -> None:
        """Fail."""
        raise actbox.ToolError("there is none")

    outcome = await did(
        runner, frozen(tools=[double, fail]), "print(double(21))\ncall_tool('double', number=2)\nfail()"
    )
    assert [(call.tool, call.status) for call in outcome.calls.records] == [
        ("double", "returned"),
        ("double", "returned"),
        ("fail", "failed"),
    ]
    assert kind_of(outcome) is ErrorKind.TOOL
    for told in ("there is none", "42", "double", "fail()"):
        assert told in outcome.text


@pytest.mark.parametrize("name", ["call_tool", "search_tools", "describe_tool"])
async def test_without_tools_there_is_nothing_to_call_them_with(runner: CodeActRunner, name: str) -> None:
    outcome = await did(runner, frozen(), f"{name!r} in globals() or {name}")
    assert outcome.result.error is not None
    assert outcome.result.error.type == "NameError"


async def test_many_tools_can_be_searched_and_called(runner: CodeActRunner) -> None:
    tools = [Tool.from_function(lambda n=n: n, name=f"tool_{n}", description=f"Give the number {n}.") for n in range(4)]
    run = frozen(tools=tools, search_above=3)
    outcome = await did(runner, run, "[search_tools('tool_2')[0]['name'], describe_tool('tool_2'), tool_2()]")
    assert outcome.result.value is not None
    name, described, called = outcome.result.value
    assert (name, called) == ("tool_2", 2)
    assert "def tool_2" in described


async def test_a_tool_with_an_odd_name_and_odd_parameters_is_called_as_it_was_described(runner: CodeActRunner) -> None:
    schema = {"type": "object", "properties": {"class": {"type": "string"}, "size": {"type": "integer"}}}
    tool = Tool.from_schema("make-it", "Make it.", schema, lambda **arguments: arguments)
    outcome = await did(runner, frozen(tools=[tool]), "make_it(size=1, **{'class': 'a'})")
    assert outcome.result.value == {"size": 1, "class": "a"}


async def test_tools_that_differ_in_case_only_are_both_called(runner: CodeActRunner) -> None:
    tools = [Tool.from_function(lambda: "upper", name="Look"), Tool.from_function(lambda: "lower", name="look")]
    assert (await did(runner, frozen(tools=tools), "[Look(), look()]")).result.value == ["upper", "lower"]


async def test_no_state_leaks_from_call_to_call(runner: CodeActRunner) -> None:
    for run in (frozen(), frozen(file_surface=True)):
        code = (
            "import os, sys\nfound = ('x' in globals(), 'X' in os.environ, hasattr(sys, 'x'), os.path.exists('/tmp/x'))"
        )
        leave = "x = sys.x = 1\nos.environ['X'] = '1'\nopen('/tmp/x', 'w').close()\nfound"
        for _ in range(2):
            assert (await did(runner, run, f"{code}\n{leave}", scope="s")).result.value == (False,) * 4


@pytest.mark.slow
async def test_a_tool_that_was_removed_in_the_middle_of_a_run_is_still_there_in_it(runner: CodeActRunner) -> None:
    def remove() -> str:
        """Remove what comes next."""
        config.remove_tool("later")
        config.add_tools(Tool.from_function(lambda: "new", name="replaced"))
        return "removed"

    config = CodeActConfig(
        tools=[
            remove,
            Tool.from_function(lambda: "still there", name="later"),
            Tool.from_function(lambda: "old", name="replaced"),
        ]
    )
    run = config.freeze()
    code = "[remove(), later(), replaced()]"
    assert (await did(runner, run, code)).result.value == ["removed", "still there", "old"]
    # The frozen run has it in its next calls too; a run that is frozen later has not.
    assert (await did(runner, run, "later()")).result.value == "still there"
    assert (await did(runner, config.freeze(), "replaced()")).result.value == "new"
    assert (await did(runner, config.freeze(), "later()")).result.error is not None


# What a model sends


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        ({"code": ["x = 40", "x + 2"]}, 42),
        ({"code": "```python\n6 * 7\n```"}, 42),
        (json.dumps({"code": "6 * 7"}), 42),
        (json.dumps(json.dumps({"code": "6 * 7"})), 42),
        ({"code": "x = '" + "a" * 300_000 + "'\nlen(x)"}, 300_000),
    ],
)
async def test_what_is_clearly_meant_runs(runner: CodeActRunner, arguments: Any, value: int) -> None:
    outcome = await runner.execute(frozen(), arguments)
    assert isinstance(outcome, CodeActOutcome)
    assert outcome.result.value == value


@pytest.mark.parametrize("arguments", [None, "", {}, {"code": ""}, {"code": 7}, {"source": "1"}, "print(1)", [], 7])
async def test_what_is_no_program_is_answered_with_how_to_send_one(runner: CodeActRunner, arguments: Any) -> None:
    outcome = await runner.execute(frozen(), arguments)
    assert isinstance(outcome, CodeActOutcome)
    assert kind_of(outcome) is ErrorKind.SYNTAX
    assert '{"code": "…"}' in outcome.text
    assert outcome.to_json_shape()["exit_code"] == 125


@pytest.mark.parametrize("code", ["\ud800", "x = '\0'"])
async def test_a_program_of_odd_characters_is_an_outcome(runner: CodeActRunner, code: str) -> None:
    outcome = await did(runner, frozen(), code)
    assert outcome.result.error is not None
    assert not outcome.to_json_shape()["success"]


async def test_the_text_is_cut_to_its_cap(runner: CodeActRunner) -> None:
    outcome = await did(runner, frozen(max_chars=2_000), "print('x' * 50_000); raise ValueError('y' * 50_000)")
    assert len(outcome.text) <= 2_500
    assert "ValueError" in outcome.text


# The shape that .NET's providers return


async def test_a_success_has_exactly_four_keys(runner: CodeActRunner) -> None:
    shape = (await did(runner, frozen(), "print('hello')")).to_json_shape()
    assert shape == {"stdout": "hello\n", "stderr": "", "exit_code": 0, "success": True}
    shape = (
        await did(runner, frozen(), "import sys; print('a', end=''); print('b', file=sys.stderr); 6 * 7")
    ).to_json_shape()
    assert shape == {"stdout": "a\n42\n", "stderr": "b\n", "exit_code": 0, "success": True}
    assert list(shape) == ["stdout", "stderr", "exit_code", "success"]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("print('before'); 1 / 0", "ZeroDivisionError"),
        ("this is no program", "SyntaxError"),
        ("import sys; sys.exit(3)", "3"),
        ("while True: pass", "TIMEOUT"),
    ],
)
async def test_a_failure_has_its_error_in_stderr_and_an_exit_code(runner: CodeActRunner, code: str, words: str) -> None:
    limits = Limits(wall_seconds=1) if words == "TIMEOUT" else Limits()
    shape = (await did(runner, frozen(limits=limits), code)).to_json_shape()
    assert list(shape) == ["stdout", "stderr", "exit_code", "success"]
    assert words in shape["stderr"]
    assert shape["exit_code"] != 0
    assert shape["success"] is False
    assert shape["stdout"] == ("before\n" if "before" in code else "")
    assert json.loads(json.dumps(shape)) == shape


# What breaks


async def test_what_breaks_unexpectedly_is_an_outcome_and_is_logged(
    isolated_engine: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(policy: Policy) -> Sandbox:
        box = opens(isolated_engine)(policy)

        def stream(*args: Any, **given: Any) -> Any:
            raise RuntimeError("it broke")

        monkeypatch.setattr(box, "stream_alone", stream)
        return box

    runner = CodeActRunner(broken)
    outcome = await did(runner, frozen(), "1")
    assert kind_of(outcome) is ErrorKind.SANDBOX
    assert "RuntimeError: it broke" in outcome.text
    assert "a program could not be run" in caplog.text
    await runner.close()
