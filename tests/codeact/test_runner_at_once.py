"""`CodeActRunner`: runs that go on at once, in several event loops, and when it is closed."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from actbox import ErrorKind, Tool
from actbox.codeact import CodeActOutcome, CodeActRunner
from tests.codeact.runners import did, frozen, in_threads, kind_of, opens

pytestmark = pytest.mark.one_engine_first


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


@pytest.mark.slow
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


def test_runs_whose_output_is_cleared_take_turns_across_event_loops(runner: CodeActRunner) -> None:
    first_is_there, second_begins = threading.Event(), threading.Event()

    def arrive() -> None:
        """Say that the first program is at work, and give the second one time to disturb it."""
        first_is_there.set()
        second_begins.wait(0.5)

    def disturb() -> None:
        """Say that the second program has begun."""
        second_begins.set()

    run = frozen(tools=[arrive, disturb], file_surface=True, clear_output=True)
    first = "import os\nopen('/output/a', 'x').close()\narrive()\nos.listdir('/output')"

    def work(number: int) -> CodeActOutcome:
        if number:
            assert first_is_there.wait(30)
        return asyncio.run(did(runner, run, "disturb()\n'second'" if number else first, scope="loops"))

    outcomes = in_threads(2, work)
    assert [getattr(outcome, "result", outcome).value for outcome in outcomes] == [["a"], "second"]


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
