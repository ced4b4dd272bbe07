"""`CodeActRunner`: from what a model sent to what it reads, at once, in several event loops, and when it is closed."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import actbox
from actbox import ErrorKind, Limits, Policy, Sandbox, Tool
from actbox.codeact import CodeActConfig, CodeActOutcome, CodeActRunner, FrozenRun

pytestmark = pytest.mark.one_engine_first


def opens(engine: str) -> Callable[[Policy], Sandbox]:
    return lambda policy: actbox.open_sandbox(engine, policy=policy, allow_unisolated=True)


@pytest.fixture(scope="module")
def shared() -> Iterator[dict[str, CodeActRunner]]:
    """Runners by engine, used in the event loops of many tests, one after the other."""
    runners: dict[str, CodeActRunner] = {}
    yield runners
    for runner in runners.values():
        asyncio.run(runner.close())


@pytest.fixture
def runner(isolated_engine: str, shared: dict[str, CodeActRunner]) -> CodeActRunner:
    if isolated_engine not in shared:
        shared[isolated_engine] = CodeActRunner(opens(isolated_engine))
    return shared[isolated_engine]


def frozen(**given: Any) -> FrozenRun:
    return CodeActConfig(**given).freeze()


async def did(runner: CodeActRunner, run: FrozenRun, code: Any, **given: Any) -> CodeActOutcome:
    outcome = await runner.execute(run, {"code": code}, **given)
    assert isinstance(outcome, CodeActOutcome)
    return outcome


def kind_of(outcome: CodeActOutcome) -> ErrorKind | None:
    return outcome.result.error.kind if outcome.result.error is not None else None


class Meeting:
    """A tool that returns when so many programs have called it: they can only end if they run at once."""

    def __init__(self, count: int) -> None:
        self._barrier = asyncio.Barrier(count)

    async def meet(self) -> str:
        """Wait for the others."""
        await self._barrier.wait()
        return "met"


class Waiting:
    """A tool that is called and waits until it is let go."""

    def __init__(self) -> None:
        self.called = asyncio.Event()
        self.go_on = asyncio.Event()
        self.cancelled = False

    async def wait(self) -> str:
        """Wait."""
        self.called.set()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return "done"


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
            assert (await did(runner, run, f"{code}\n{leave}", scope="s")).result.value == [False] * 4


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


# Files that come back


async def test_files_of_output_come_back_up_to_the_caps_and_warnings_say_which_do_not(runner: CodeActRunner) -> None:
    run = frozen(file_surface=True, max_output_files=2, max_output_file_bytes=100, max_output_total_bytes=150)
    code = (
        "for name, size in (('a', 90), ('b', 101), ('c', 61), ('d', 60), ('e', 0)):\n"
        "    open(f'/output/{name}', 'w').write('x' * size)"
    )
    outcome = await did(runner, run, code)
    assert [(file.name, file.size) for file in outcome.artifacts] == [("a", 90), ("d", 60)]
    assert outcome.result.warnings == (
        "output/b (101 bytes) does not come back, since one file may have 100 bytes",
        "output/c (61 bytes) does not come back, since all files of one call may have 150 bytes",
        "output/e (0 bytes) does not come back, since 2 files may come back from one call",
    )
    for warning in outcome.result.warnings:
        assert warning in outcome.text
    assert outcome.to_json_shape()["output_files"] == ["/output/a", "/output/d"]


async def test_without_a_file_surface_only_figures_come_back(runner: CodeActRunner) -> None:
    code = (
        "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\n"
        "open('/output/secret.txt', 'w').write('x')\nopen('/output/figure-x.png', 'w').write('x')"
    )
    outcome = await did(runner, frozen(), code)
    assert outcome.result.success, outcome.text
    (figure,) = outcome.artifacts
    assert (figure.name, figure.media_type) == ("figure-1.png", "image/png")
    assert "secret" not in outcome.text
    with_files = await did(runner, frozen(file_surface=True), code)
    assert sorted(file.name for file in with_files.artifacts) == ["figure-1.png", "figure-x.png", "secret.txt"]


async def test_a_workspace_root_lies_at_input_and_cannot_be_changed(runner: CodeActRunner, tmp_path: Path) -> None:
    (tmp_path / "users.json").write_text("[1]")
    (tmp_path / "more").mkdir()
    run = frozen(workspace_root=tmp_path)
    assert run.file_surface
    assert "/input (read-only)" in run.description
    assert run.state()["file_mounts"] == [{"host_path": str(tmp_path), "mount_path": "/input", "mode": "ro"}]
    outcome = await did(runner, run, "import os; [sorted(os.listdir('/input')), open('/input/users.json').read()]")
    assert outcome.result.value == [["more", "users.json"], "[1]"]
    outcome = await did(runner, run, "open('/input/new', 'w')")
    assert outcome.result.error is not None
    assert not (tmp_path / "new").exists()


async def test_mounts_lie_below_a_workspace_root(runner: CodeActRunner, tmp_path: Path) -> None:
    root, other = tmp_path / "root", tmp_path / "other"
    root.mkdir()
    other.mkdir()
    (root / "a").write_text("root")
    (other / "b").write_text("other")
    run = frozen(workspace_root=root, file_mounts=[(other, "data")])
    outcome = await did(runner, run, "[open('/input/a').read(), open('/input/data/b').read()]")
    assert outcome.result.value == ["root", "other"], outcome.text


@pytest.mark.parametrize("clear", [False, True])
async def test_output_is_kept_from_call_to_call_unless_it_is_to_be_cleared(runner: CodeActRunner, clear: bool) -> None:
    run = frozen(file_surface=True, clear_output=clear)
    code = "import os; os.makedirs('/output/a/b'); open('/output/a/b/c', 'w'); open('/workspace/kept', 'w')"
    assert (await did(runner, run, code, scope="s")).result.success
    outcome = await did(runner, run, "import os; [os.listdir('/output'), os.path.exists('/workspace/kept')]", scope="s")
    assert outcome.result.value == [[] if clear else ["a"], True]


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
    shape = (await did(runner, frozen(limits=Limits(wall_seconds=1)), code)).to_json_shape()
    assert list(shape) == ["stdout", "stderr", "exit_code", "success"]
    assert words in shape["stderr"]
    assert shape["exit_code"] != 0
    assert shape["success"] is False
    assert shape["stdout"] == ("before\n" if "before" in code else "")
    assert json.loads(json.dumps(shape)) == shape


# At once


@pytest.mark.parametrize("given", [{}, {"file_surface": True}])
@pytest.mark.parametrize("scopes", [("s", "s"), ("s", "t")])
async def test_runs_of_one_provider_go_on_at_once(runner: CodeActRunner, given: Any, scopes: tuple[str, str]) -> None:
    run = frozen(tools=[Meeting(2).meet], **given)
    outcomes = await asyncio.gather(*(did(runner, run, "meet()", scope=scope) for scope in scopes))
    assert [outcome.result.value for outcome in outcomes] == ["met", "met"]


async def test_runs_whose_output_is_cleared_take_turns_in_one_conversation(runner: CodeActRunner) -> None:
    run = frozen(file_surface=True, clear_output=True)
    code = "import os, time\nopen('/output/a', 'x').close()\ntime.sleep(0.05)\nos.listdir('/output')"
    outcomes = await asyncio.gather(*(did(runner, run, code, scope="turns") for _ in range(3)))
    assert [outcome.result.value for outcome in outcomes] == [["a"]] * 3


async def test_cancelling_whoever_waits_ends_the_program(runner: CodeActRunner) -> None:
    waiting = Waiting()
    for given in ({}, {"file_surface": True}, {"file_surface": True, "clear_output": True}):
        waiting.called.clear()
        waiting.cancelled = False
        run = frozen(tools=[waiting.wait], **given)
        task = asyncio.create_task(did(runner, run, "wait()\nopen('/workspace/late', 'w')", scope="cancelled"))
        await waiting.called.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert waiting.cancelled
        after = await did(runner, run, "import os; os.path.exists('/workspace/late')", scope="cancelled")
        assert after.result.value is False


@pytest.mark.parametrize("given", [{}, {"file_surface": True}])
async def test_closing_ends_runs_as_cancelled_and_no_run_begins_later(isolated_engine: str, given: Any) -> None:
    runner, waiting = CodeActRunner(opens(isolated_engine)), Waiting()
    run = frozen(tools=[waiting.wait], **given)
    tasks = [asyncio.create_task(did(runner, run, "print('so far')\nwait()", scope=scope)) for scope in "ab"]
    await waiting.called.wait()
    await runner.close()
    for outcome in await asyncio.gather(*tasks):
        assert kind_of(outcome) is ErrorKind.CANCELLED
        assert outcome.to_json_shape()["exit_code"] != 0
    after = await did(runner, run, "1")
    assert kind_of(after) is ErrorKind.CANCELLED
    assert "closed" in after.text
    await runner.close()


# Several event loops


@pytest.mark.parametrize("given", [{}, {"file_surface": True}, {"file_surface": True, "clear_output": True}])
def test_one_runner_serves_event_loops_one_after_the_other(runner: CodeActRunner, given: Any) -> None:
    run = frozen(tools=[Tool.from_function(lambda: 7, name="seven")], **given)
    for _ in range(3):
        assert asyncio.run(did(runner, run, "seven() * 6", scope="s")).result.value == 42


def in_threads(count: int, work: Callable[[int], Any]) -> list[Any]:
    """Call a function in threads at once; return what they returned, in order."""
    found: dict[int, Any] = {}

    def call(number: int) -> None:
        try:
            found[number] = work(number)
        except BaseException as error:
            found[number] = error

    threads = [threading.Thread(target=call, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return [found.get(number) for number in range(count)]


@pytest.mark.parametrize("given", [{}, {"file_surface": True}])
def test_one_runner_serves_event_loops_in_threads_at_once(runner: CodeActRunner, given: Any) -> None:
    barrier = threading.Barrier(3)

    def meet() -> str:
        """Wait for the others, in a thread."""
        barrier.wait(30)
        return "met"

    run = frozen(tools=[meet], **given)
    outcomes = in_threads(3, lambda number: asyncio.run(did(runner, run, "meet()", scope="s")))
    assert [getattr(outcome, "result", outcome).value for outcome in outcomes] == ["met"] * 3


@pytest.mark.parametrize("given", [{}, {"file_surface": True}])
def test_closing_from_another_event_loop_ends_what_runs(isolated_engine: str, given: Any) -> None:
    runner = CodeActRunner(opens(isolated_engine))
    called = [threading.Event(), threading.Event()]

    def say(number: int) -> None:
        """Say that the program has begun."""
        called[number].set()

    run = frozen(tools=[say], **given)

    def work(number: int) -> CodeActOutcome | None:
        if number < 2:
            return asyncio.run(did(runner, run, f"say({number})\nimport time\ntime.sleep(60)", scope=f"{number}"))
        assert all(event.wait(30) for event in called)
        asyncio.run(runner.close())
        return None

    *outcomes, _ = in_threads(3, work)
    assert [kind_of(outcome) for outcome in outcomes] == [ErrorKind.CANCELLED] * 2


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
