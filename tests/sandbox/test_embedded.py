"""What all engines share that evaluate programs in a library's interpreter, tried with the simplest of them."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import actbox
from actbox import Completed, ErrorInfo, ErrorKind, Limits, Output, Policy, Program, ToolFinished, ToolStarted, tool
from actbox.sandbox.channel.decoding import STEP_BYTES
from actbox.sandbox.embedded import CallRefused, EmbeddedSandbox, Evaluation, Outcome, State
from actbox.sandbox.embedded.sandbox import Evaluate
from actbox.sandbox.traits import Traits
from actbox.tools.approval import ApprovalDecision, ApprovalRequest
from tests.clock import Clock
from tests.sandbox.deep_folders import deepen, few_descriptors


class Interpreter(State):
    """Runs programs as coroutines of this process: `call`, `say` and `evaluation` are what they have of the host."""

    def __init__(self, names: dict[str, Any] | None = None) -> None:
        self.names = names or {}
        self._alive = True

    @property
    def alive(self) -> bool:
        return self._alive

    async def evaluate(self, evaluation: Evaluation) -> Outcome:
        self.names |= {
            "evaluation": evaluation,
            "asyncio": asyncio,
            "call": lambda name, **given: evaluation.calls.call(name, given),
            "say": lambda text: evaluation.say("stdout", text),
            **evaluation.program.inputs,
        }
        code = compile(evaluation.program.code, "program", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        try:
            running = eval(code, self.names)
            if running is not None:
                await running
        except asyncio.CancelledError:
            self._alive = "fragile" not in self.names
            raise
        except (ValueError, actbox.ToolError) as error:
            kind = ErrorKind.TOOL if isinstance(error, actbox.ToolError) else ErrorKind.RUNTIME
            kind = ErrorKind.POLICY if isinstance(error, CallRefused) else kind
            return Outcome(exit_code=1, error=ErrorInfo(kind=kind, type=type(error).__name__, message=str(error)))
        value = self.names.get("value")
        return Outcome(value=value, value_text=repr(value))

    async def close(self) -> None:
        self._alive = False

    async def copy(self) -> State:
        return Interpreter(dict(self.names))


class ToySandbox(EmbeddedSandbox):
    traits = Traits(engine="toy", isolation="none", isolated=False, sessions=True, fork=True, commands=False)

    def _fresh(self) -> AbstractAsyncContextManager[Evaluate]:
        return contextlib.nullcontext(Interpreter().evaluate)

    async def open_state(self) -> State:
        return Interpreter()


@pytest_asyncio.fixture
async def box() -> AsyncIterator[ToySandbox]:
    async with ToySandbox(Policy(limits=Limits(output_bytes=1000, tool_calls=10))) as opened:
        yield opened


def double(n: int) -> int:
    """Double a number."""
    return 2 * n


async def test_a_program_has_its_value_and_what_it_printed_as_it_goes(box: ToySandbox) -> None:
    events = [event async for event in box.stream("say('a')\nsay('b')\nvalue = 3")]
    assert events[:2] == [Output("stdout", "a"), Output("stdout", "b")]
    (completed,) = events[2:]
    assert isinstance(completed, Completed)
    assert (completed.result.stdout, completed.result.value, completed.result.exit_code) == ("ab", 3, 0)


async def test_every_run_starts_fresh(box: ToySandbox) -> None:
    await box.run("left = 1")
    assert (await box.run("value = 'left' in globals()")).value is False


async def test_calls_are_told_as_events_and_answered_with_copies(box: ToySandbox) -> None:
    answer = {"a": [1]}
    program = "first = await call('give')\nfirst['a'].append(2)\nvalue = [first, await call('give')]"
    events = [event async for event in box.stream(program, tools=[tool(lambda: answer, name="give")])]
    assert [type(event) for event in events] == [ToolStarted, ToolFinished, ToolStarted, ToolFinished, Completed]
    assert events[-1].result.value == [{"a": [1, 2]}, {"a": [1]}]  # type: ignore[union-attr]
    assert answer == {"a": [1]}
    assert events[-1].result.usage.tool_calls == 2  # type: ignore[union-attr]


@pytest.mark.slow
async def test_a_large_call_is_read_and_answered_in_small_steps(
    box: ToySandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    handled: list[int] = []
    loads, dumps = json.loads, json.dumps

    def read(text: str, **options: Any) -> Any:
        handled.append(len(text))
        return loads(text, **options)

    def write(value: Any, **options: Any) -> str:
        text = dumps(value, **options)
        handled.append(len(text))
        return text

    monkeypatch.setattr(json, "loads", read)
    monkeypatch.setattr(json, "dumps", write)

    async def give(values: list[list[int]]) -> list[list[int]]:
        return values

    result = await box.run("value = len(await call('give', values=[[1, 2, 3]] * 100_000))", tools=[give])
    assert result.value == 100_000
    assert max(handled) <= 2 * STEP_BYTES


async def test_calls_may_be_under_way_at_once(box: ToySandbox) -> None:
    together = asyncio.Barrier(3)

    async def meet() -> int:
        await together.wait()
        return 1

    result = await box.run("value = sum(await asyncio.gather(call('meet'), call('meet'), call('meet')))", tools=[meet])
    assert result.value == 3


async def test_a_call_may_be_made_from_another_thread(box: ToySandbox) -> None:
    code = "value = await asyncio.to_thread(evaluation.calls.call_blocking, 'double', {'n': 4})"
    assert (await box.run(code, tools=[double])).value == 8


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("call('nobody')", "nobody"),
        ("call('double', n='x')", "n"),
        ("call('double', n={1, 2})", "argument 'n' should be a valid integer; got {1, 2}"),
        ("call('double', n='x' * 20_000_000)", "too large"),
        ("call('x' * 300)", "256"),
    ],
)
async def test_a_call_that_cannot_be_made_is_an_error_of_the_program(box: ToySandbox, call: str, said: str) -> None:
    error = (await box.run(f"await {call}", tools=[double])).error
    assert error is not None and error.kind is ErrorKind.TOOL
    assert said in error.message


async def test_more_calls_than_the_limit_end_the_run(box: ToySandbox) -> None:
    result = await box.run("for n in range(20): await call('double', n=n)", tools=[double])
    assert result.error is not None
    assert (result.error.kind, result.error.limit, result.usage.tool_calls) == (ErrorKind.BUDGET, "tool_calls", 10)


async def test_a_call_that_nobody_approves_is_refused(box: ToySandbox) -> None:
    class NotToday:
        async def decide(self, request: ApprovalRequest) -> ApprovalDecision:
            return ApprovalDecision(approved=False, reason="not today")

    tools = actbox.Toolset.of([tool(double, approval="always_require")]).asking(NotToday())
    result = await box.run("await call('double', n=1)", tools=tools)
    assert result.error is not None and result.error.kind is ErrorKind.POLICY
    assert "not today" in result.error.message


async def test_too_much_output_ends_the_run_and_the_first_of_it_is_kept(box: ToySandbox) -> None:
    result = await box.run("while True:\n  say('é' * 99)\n  await asyncio.sleep(0)")
    assert result.error is not None
    assert (result.error.kind, result.error.limit) == (ErrorKind.OUTPUT_LIMIT, "output_bytes")
    assert result.stdout == "é" * 500


async def test_output_of_another_thread_comes_before_the_end(box: ToySandbox) -> None:
    code = "await asyncio.to_thread(lambda: [say(str(n)) for n in range(10)])"
    events = [event async for event in box.stream(code)]
    assert [event.text for event in events[:-1]] == list("0123456789")  # type: ignore[union-attr]
    assert events[-1].result.stdout == "0123456789"  # type: ignore[union-attr]


async def test_a_program_that_takes_too_long_is_stopped_and_what_it_printed_is_kept(
    box: ToySandbox, clock: Clock
) -> None:
    events = box.stream("say('begun')\nawait asyncio.Event().wait()", timeout=30)
    result = await clock.run_out(events, 30, after="begun")
    assert result.error is not None
    assert (result.error.kind, result.error.limit, result.exit_code) == (ErrorKind.TIMEOUT, "wall_seconds", 124)
    assert result.stdout == "begun"


async def test_cancelling_the_caller_ends_the_program(box: ToySandbox) -> None:
    code = (
        "import os\ntry:\n  open(evaluation.folder + '/begun', 'w').close()\n  await asyncio.sleep(60)\n"
        "finally:\n  os.rename(evaluation.folder + '/begun', evaluation.folder + '/ended')"
    )
    running = asyncio.create_task(box.run(code))
    while "begun" not in {entry.path for entry in await box.list_files()}:
        assert not running.done()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert [entry.path for entry in await box.list_files()] == ["ended", "input", "output"]
    assert box.is_quiet


async def test_closing_the_stream_ends_the_program(box: ToySandbox) -> None:
    stream = box.stream("say('begun')\nawait asyncio.sleep(60)")
    async for _ in stream:
        break
    await stream.aclose()
    assert box.is_quiet


async def test_stopping_the_sandbox_ends_programs_and_says_so() -> None:
    box = ToySandbox(Policy())
    await box.start()
    folder = Path((await box.run("value = evaluation.folder")).value)
    begun = asyncio.Event()

    async def begin() -> None:
        begun.set()

    running = asyncio.create_task(box.run("await call('begin')\nawait asyncio.sleep(60)", tools=[begin]))
    await begun.wait()
    await box.stop()
    error = (await running).error
    assert error is not None and error.kind is ErrorKind.CANCELLED
    assert not folder.exists()
    with pytest.raises(actbox.SandboxStopped):
        await box.run("1")
    with pytest.raises(actbox.SandboxStopped):
        await box.list_files()


@pytest.mark.slow
async def test_a_workspace_is_removed_however_deep_it_has_become(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    async with ToySandbox(Policy()) as box:
        deepen((await box.run("value = evaluation.folder")).value)
        async with box.session(forkable=True) as session:
            with pytest.raises(actbox.SandboxUnavailable, match="cannot be copied"):
                await session.fork()
        assert len(os.listdir(tmp_path)) == 1
        with few_descriptors():
            await box.stop()
    assert os.listdir(tmp_path) == []


async def test_a_fault_of_the_engine_is_a_result(box: ToySandbox) -> None:
    result = await box.run("raise KeyError('inside')")
    assert result.error is not None
    assert (result.error.kind, result.exit_code) == (ErrorKind.SANDBOX, 125)
    assert "KeyError" in result.error.message


async def test_files_go_in_and_artifacts_come_out(box: ToySandbox) -> None:
    code = (
        "from pathlib import Path\nfolder = Path(evaluation.folder)\n"
        "(folder / 'output/out.txt').write_text((folder / 'input/a/b.txt').read_text() * 2)"
    )
    result = await box.run(Program(code, files={"a/b.txt": "hi"}))
    assert [(artifact.name, artifact.data) for artifact in result.artifacts] == [("out.txt", b"hihi")]
    assert await box.read_text("/input/a/b.txt") == "hi"
    assert (await box.run("1")).artifacts == ()


async def test_a_program_alone_sees_nothing_of_others(box: ToySandbox) -> None:
    await box.write_text("mine", "x")
    code = "import os\nvalue = sorted(os.listdir(evaluation.folder))"
    assert (await box.run_alone(code)).value == ["input", "output"]
    await box.run_alone("open(evaluation.folder + '/left', 'w').close()")
    assert (await box.run_alone(code)).value == ["input", "output"]
    assert {result.value async for result in box.map([f"value = {n}" for n in range(5)])} == set(range(5))


async def test_state_lasts_in_a_session_and_copies_go_their_own_way(box: ToySandbox) -> None:
    async with box.session(forkable=True) as session:
        await session.run("n = 1")
        await session.write_text("kept", "origin")
        async with await session.fork() as copy:
            await copy.run("n += 1")
            await copy.write_text("kept", "copy")
            assert (await copy.run("value = n")).value == 2
            assert await copy.read_text("kept") == "copy"
        result = await session.run("value = n")
        assert (result.value, result.state_kept) == (1, True)
        assert await session.read_text("kept") == "origin"
    with pytest.raises(actbox.SandboxStopped):
        await session.run("1")


@pytest.mark.slow
async def test_a_session_says_whether_its_state_outlived_a_timeout(box: ToySandbox, clock: Clock) -> None:
    async with box.session() as session:
        await session.run("n = 1")
        events = session.stream("say('begun')\nawait asyncio.Event().wait()", timeout=30)
        result = await clock.run_out(events, 30, after="begun")
        assert result.error is not None and result.error.kind is ErrorKind.TIMEOUT
        assert result.state_kept
        assert (await session.run("value = n")).value == 1
        events = session.stream("fragile = 1\nsay('begun')\nawait asyncio.Event().wait()", timeout=30)
        result = await clock.run_out(events, 30, after="begun")
        assert not result.state_kept and not session.alive
        lost = await session.run("1")
        assert lost.error is not None
        assert (lost.error.kind, lost.exit_code, lost.state_kept) == (ErrorKind.SANDBOX, 125, False)


async def test_a_session_ends_with_its_sandbox() -> None:
    async with ToySandbox(Policy()) as box:
        session = box.session()
        await session.run("1")
        begun = asyncio.Event()

        async def begin() -> None:
            begun.set()

        running = asyncio.create_task(session.run("await call('begin')\nawait asyncio.sleep(60)", tools=[begin]))
        await begun.wait()
    assert not (await running).success
    assert not session.alive
    with pytest.raises(actbox.SandboxStopped):
        await session.run("1")


@pytest.mark.parametrize(
    "policy",
    [
        Policy(domains=(actbox.AllowedDomain("example.com"),)),
        Policy(mounts=(actbox.FileMount("/tmp", "here"),)),
    ],
)
def test_what_a_policy_gives_and_the_engine_has_not_is_refused(policy: Policy) -> None:
    with pytest.raises(actbox.Unsupported, match="linux"):
        ToySandbox(policy)


async def test_what_the_engine_lacks_is_refused(box: ToySandbox) -> None:
    with pytest.raises(actbox.Unsupported, match="no commands"):
        await box.execute("true")
    with pytest.raises(actbox.Unsupported, match="fortran"):
        await box.run(Program("1", language="fortran"))
    with pytest.raises(actbox.InvalidValue, match="both an input and a tool"):
        await box.run(Program("1", inputs={"double": 1}), tools=[double])


async def test_runs_go_on_at_once(box: ToySandbox) -> None:
    barrier = asyncio.Barrier(10)

    async def meet() -> None:
        await asyncio.wait_for(barrier.wait(), 30)

    results = await asyncio.gather(*(box.run("await call('meet')", tools=[meet]) for _ in range(10)))
    assert all(result.success for result in results), results
    assert box.is_quiet
