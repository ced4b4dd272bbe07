"""Coding agents and what goes wrong around them: models, budgets, cancellation, inputs, tests and sandboxes."""

from __future__ import annotations

import asyncio
import os
import secrets
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import actbox
from actbox import InvalidValue, Sandbox, SandboxStopped
from actbox.capabilities import Budget, Prices, TokenPrice
from actbox.codeact import ModelReply, ScriptedModel, ToolCall
from actbox.codeact.model import TokenUsage
from actbox.codegen import CodingAgent, ErrorClass, RetryPolicy, Task, TextCheck, input_schemas, places
from actbox.codegen.outcome import AttemptEvent, AttemptStarted, Finished
from tests.codegen.stories import Model, Waiting, block, linux_box, reply
from tests.waiting import until

QUICK = RetryPolicy(attempt_backoff_ms=[0])
PRICES = Prices(models={"scripted": TokenPrice(input=1, output=1)})


@pytest_asyncio.fixture
async def box() -> AsyncIterator[Sandbox]:
    async with linux_box() as opened:
        yield opened


# Models


class Panic(BaseException):
    """An exception of a foreign library that is no `Exception`, such as those of programs in Rust."""


@pytest.mark.parametrize(
    "error",
    [
        ConnectionError("reset"),
        TimeoutError("read timed out"),
        asyncio.CancelledError("its own scope"),
        Panic("unreachable"),
        ExceptionGroup("two", [ValueError("a")]),
        StopAsyncIteration(),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_a_model_that_raises_ends_the_task_and_loses_no_attempt(box: Sandbox, error: BaseException) -> None:
    async def fails() -> str:
        raise error

    said = iter([lambda: block("1 / 0"), fails])
    outcome = await CodingAgent(Model(lambda _: next(said)()), box, retry=QUICK).solve("divide")
    assert (outcome.stopped, outcome.failure) == ("model", error)
    assert [attempt.error_class for attempt in outcome.attempts] == [ErrorClass.RUNTIME_ERROR]
    assert outcome.reason.startswith(type(error).__name__) and outcome.usage.model_calls == 2


@pytest.mark.parametrize("said", [None, 42, ModelReply(text=None), {"text": "1"}])  # type: ignore[arg-type]
async def test_a_model_whose_answer_is_no_reply_has_failed(box: Sandbox, said: Any) -> None:
    outcome = await CodingAgent(Model(lambda _: said), box).solve("add")
    assert (outcome.stopped, type(outcome.failure)) == ("model", TypeError)


async def test_a_model_that_never_ends_its_answer_is_left(box: Sandbox) -> None:
    model = Waiting()
    outcome = await CodingAgent(model, box, model_seconds=0.01).solve("add")
    assert (outcome.stopped, outcome.reason, model.was_cancelled) == (
        "model",
        "the model waiting did not answer in 0.01 s",
        True,
    )


@pytest.mark.parametrize(
    ("said", "form"),
    [
        ("", "nothing"),
        ("<!doctype html><html></html>", "html"),
        ("x = 1\n" * 900_000, "too_long"),
        (ModelReply(tool_calls=(ToolCall("c", "write_code", {"code": "1", "tests": "x" * 5_000_000}),)), "too_long"),
        (ModelReply(tool_calls=(ToolCall("c", "read_file", {"path": "/etc/passwd"}),)), "unknown_tool"),
    ],
    ids=["nothing", "html", "5 MB", "5 MB in a call", "unknown tool"],
)
async def test_a_reply_without_a_program_is_answered_and_then_mended(box: Sandbox, said: Any, form: str) -> None:
    model = ScriptedModel([said, block("42")])
    outcome = await CodingAgent(model, box, retry=QUICK).solve("answer")
    assert (outcome.answer, [one.error_class for one in outcome.attempts]) == (42, [ErrorClass.NO_CODE, None])
    assert outcome.attempts[0].response.form == form
    assert sum(len(repr(message)) for message in model.asked[1]) < 50_000
    assert "Send one whole program" in model.asked[1][-1].text


async def test_another_language_is_said_and_mended(box: Sandbox) -> None:
    model = ScriptedModel([block("fn main() {}", "rust"), block("42")])
    outcome = await CodingAgent(model, box, retry=QUICK).solve("answer")
    assert outcome.answer == 42 and outcome.usage.runs == 1
    assert "The program is in rust; write it in python." in model.asked[1][-1].text


@pytest.mark.parametrize("said", ["", "I am sorry.", block("1 / 0"), block("while:")])
async def test_a_model_that_says_the_same_for_ever_is_asked_twice(box: Sandbox, said: str) -> None:
    outcome = await CodingAgent(Model(lambda _: said), box, retry=RetryPolicy(max_attempts=50)).solve("add")
    assert (outcome.stopped, outcome.usage.model_calls, len(outcome.attempts)) == ("repetition", 2, 2)


# Budgets


@pytest.mark.parametrize("dimension", ["steps", "tokens", "usd", "wall_seconds"])
async def test_a_budget_of_nothing_asks_no_model(box: Sandbox, dimension: str) -> None:
    model = ScriptedModel([block("1")])
    outcome = await CodingAgent(model, box, budget=Budget(**{dimension: 0}), prices=PRICES).solve("one")
    assert (outcome.stopped, model.asked, outcome.attempts) == ("budget", [], ())
    assert dimension in outcome.reason


async def test_without_processor_time_the_program_is_returned_unrun(box: Sandbox) -> None:
    outcome = await CodingAgent(ScriptedModel([reply("1")]), box, budget=Budget(cpu_seconds=0)).solve("one")
    assert (outcome.stopped, outcome.usage.runs, outcome.code.strip()) == ("budget", 0, "1")
    (attempt,) = outcome.attempts
    assert (attempt.error_class, attempt.result, attempt.tokens.input_tokens) == (
        ErrorClass.RESOURCE_EXHAUSTED,
        None,
        1,
    )


async def test_without_tool_calls_no_tool_is_called(box: Sandbox) -> None:
    did: list[int] = []

    @actbox.tool(retry_safe=True)
    def note(number: int) -> None:
        """Note."""
        did.append(number)

    async def noted(budget: Budget) -> ErrorClass | None:
        model = ScriptedModel([block("note(1)\nnote(2)")])
        agent = CodingAgent(model, box, tools=[note], budget=budget, retry=RetryPolicy(max_attempts=1))
        return (await agent.solve("note")).attempts[0].error_class

    assert (await noted(Budget(tool_calls=0)), did) == (ErrorClass.RUNTIME_ERROR, [])
    assert (await noted(Budget(tool_calls=1)), did) == (ErrorClass.RUNTIME_ERROR, [1])
    assert (await noted(Budget(tool_calls=2)), did) == (None, [1, 1, 2])


@pytest.mark.parametrize(
    ("budget", "programs"),
    [
        (Budget(steps=2), 2),
        (Budget(tokens=40), 2),
        (Budget(usd=40e-6), 2),
        (Budget(cpu_seconds=0.05), 1),
        (Budget(wall_seconds=0.5), 1),
    ],
    ids=lambda given: next(iter(given.amounts())) if isinstance(given, Budget) else "",
)
async def test_a_budget_that_is_used_up_midway_returns_all_attempts(
    box: Sandbox, budget: Budget, programs: int
) -> None:
    burns = "import time\nwhile time.process_time() < 0.2: pass\n"
    program = "import time; time.sleep(60)" if budget.wall_seconds else f"{burns if budget.cpu_seconds else ''}1 / 0"
    model = ScriptedModel([reply(f"{program} # {number}", 10, 10) for number in range(9)])
    agent = CodingAgent(model, box, retry=RetryPolicy(9, [0]), budget=budget, prices=PRICES)
    outcome = await agent.solve("divide")
    assert (outcome.stopped, len(outcome.attempts), len(model.asked)) == ("budget", programs, programs)
    assert all(attempt.result is not None and attempt.error_class for attempt in outcome.attempts)
    assert outcome.usage.usd == pytest.approx(programs * 20e-6)
    assert agent.account.used["tokens"] == programs * 20


@pytest.mark.parametrize("budget", [Budget(tokens=15), Budget(usd=15e-6)])
async def test_a_program_that_costs_more_than_there_was_is_returned_unrun(box: Sandbox, budget: Budget) -> None:
    outcome = await CodingAgent(ScriptedModel([reply("1", 10, 10)]), box, budget=budget, prices=PRICES).solve("one")
    assert (outcome.stopped, outcome.code.strip(), outcome.usage.runs) == ("budget", "1", 0)
    assert outcome.attempts[0].cost == pytest.approx(20e-6)


async def test_wall_time_that_ends_an_answer_is_the_budgets(box: Sandbox) -> None:
    outcome = await CodingAgent(Waiting(), box, budget=Budget(wall_seconds=0.05)).solve("add")
    assert (outcome.stopped, outcome.attempts) == ("budget", ())


async def test_a_budget_in_dollars_needs_a_price(box: Sandbox) -> None:
    with pytest.raises(InvalidValue, match="nobody knows the price of 'scripted'"):
        await CodingAgent(ScriptedModel([]), box, budget=Budget(usd=1)).solve("add")


async def test_checks_are_bounded_by_the_wall_time_and_charged(box: Sandbox) -> None:
    async def check(result: object) -> bool:
        return await asyncio.Event().wait()

    agent = CodingAgent(ScriptedModel([block("1")]), box, budget=Budget(wall_seconds=2))
    outcome = await agent.solve(Task("one", checks=[check]))
    assert (outcome.stopped, outcome.attempts[0].error_class) == ("budget", ErrorClass.RESOURCE_EXHAUSTED)
    assert outcome.attempts[0].result is not None and outcome.attempts[0].result.value == 1
    assert agent.account.left_of("wall_seconds") == 0


async def test_a_budget_that_ends_inside_an_example_ends_the_task(box: Sandbox) -> None:
    burns = "import time\nwhile time.process_time() < 0.3 * n: pass\nn"
    task = Task("n", inputs={"n": 1}, examples=[actbox.codegen.Example(0, 0)])
    outcome = await CodingAgent(ScriptedModel([block(burns)] * 2), box, budget=Budget(cpu_seconds=0.2)).solve(task)
    assert (outcome.stopped, outcome.usage.model_calls, len(outcome.attempts)) == ("budget", 1, 1)
    assert outcome.attempts[0].result is not None and outcome.attempts[0].result.value == 1


# Cancellation


class Marked:
    """A command that sleeps, and by whose number its processes are found."""

    def __init__(self) -> None:
        self.number = str(10**9 + secrets.randbelow(10**9))
        self.program = f"import subprocess\nsubprocess.run(['sleep', '{self.number}'])"

    def runs(self) -> bool:
        """Return True if a process of it runs, in whatever sandbox."""
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    found = Path("/proc", name, "cmdline").read_bytes()
                except OSError:
                    continue
                if found.split(b"\0")[:2] == [b"sleep", self.number.encode()]:
                    return True
        return False


State = tuple[CodingAgent, Task, Callable[[], Awaitable[object]]]


def in_state(state: str, box: Sandbox, marked: Marked, patch: pytest.MonkeyPatch) -> State:
    """Return an agent and a task, and a function that waits until the agent is in a state."""
    waiting = Waiting()
    sleeps = ScriptedModel([block(marked.program)])
    one = ScriptedModel([block("def f():\n    return 1\nf()")])
    is_there = asyncio.Event()

    async def runs() -> None:
        await until(marked.runs)

    async def check(result: object) -> bool:
        is_there.set()
        return await asyncio.Event().wait()

    if state == "planning":
        return CodingAgent(waiting, box), Task("add", language="auto"), waiting.is_asked.wait
    if state == "looking at inputs":
        patch.setattr(input_schemas, "_LOOKING", marked.program)
        return CodingAgent(one, box), Task("add", inputs={"a.csv": "a,b\n"}), runs
    if state == "writing tests":
        return CodingAgent(waiting, box, write_tests=True), Task("add"), waiting.is_asked.wait
    if state == "asking":
        return CodingAgent(waiting, box), Task("add"), waiting.is_asked.wait
    if state == "waiting":

        async def waits() -> None:
            await until(lambda: one.asked)
            for _ in range(10):
                await asyncio.sleep(0)

        return CodingAgent(one, box, retry=RetryPolicy(attempt_backoff_ms=[600_000])), Task("add"), waits
    if state == "running":
        return CodingAgent(sleeps, box), Task("add"), runs
    if state == "running candidates":
        return CodingAgent(ScriptedModel([block(marked.program)] * 3), box), Task("add", best_of=3), runs
    if state == "checking":
        return CodingAgent(one, box), Task("add", checks=[check]), is_there.wait
    if state == "testing":
        tests = (
            f"import solution\ndef test_it():\n    assert solution.f() == 1\n    {marked.program.replace(chr(10), ';')}"
        )
        return CodingAgent(one, box), Task("add", checks=[TextCheck(tests)]), runs
    assert state == "an example"
    task = Task("add", inputs={"n": 0}, examples=[actbox.codegen.Example(1, 1)])
    return CodingAgent(ScriptedModel([block(f"if n:\n    {marked.program.replace(chr(10), ';')}\nn")]), box), task, runs


STATES = [
    *("planning", "looking at inputs", "writing tests", "asking", "waiting", "running", "running candidates"),
    *("checking", "testing", "an example"),
]
WITH_A_PROGRAM = STATES[4:]


@pytest.mark.parametrize("state", STATES)
async def test_cancel_ends_the_task_in_each_state(box: Sandbox, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    marked = Marked()
    agent, task, is_there = in_state(state, box, marked, monkeypatch)
    before, cancel = asyncio.all_tasks(), asyncio.Event()
    solving = asyncio.create_task(agent.solve(task, cancel=cancel))
    await is_there()
    cancel.set()
    outcome = await solving
    assert (outcome.solved, outcome.stopped) == (False, "cancelled")
    classes = [attempt.error_class for attempt in outcome.attempts]
    assert classes == [ErrorClass.CANCELLED] * (task.best_of if state in WITH_A_PROGRAM else 0)
    assert all(attempt.code for attempt in outcome.attempts)
    await until(lambda: asyncio.all_tasks() <= before)
    await until(lambda: not marked.runs())
    assert (await box.run("1")).value == 1


@pytest.mark.parametrize("state", STATES)
async def test_cancelling_the_task_of_the_caller_leaves_nothing(
    box: Sandbox, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    marked = Marked()
    agent, task, is_there = in_state(state, box, marked, monkeypatch)
    before = asyncio.all_tasks()
    solving = asyncio.create_task(agent.solve(task))
    await is_there()
    solving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await solving
    await until(lambda: asyncio.all_tasks() <= before)
    await until(lambda: not marked.runs())


@pytest.mark.parametrize("by_event", [True, False])
async def test_cancelling_while_a_session_is_copied_leaves_no_copy(box: Sandbox, by_event: bool) -> None:
    begun, cancel, copies = asyncio.Event(), asyncio.Event(), []
    async with box.session(forkable=True) as session:
        await session.run("x = 1")
        fork = type(session).fork

        async def recorded(self: Any) -> Any:
            begun.set()
            copies.append(await fork(self))
            return copies[-1]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(session), "fork", recorded)
            agent = CodingAgent(ScriptedModel([block("import time; time.sleep(600)")]), box)
            solving = asyncio.create_task(agent.solve("wait", session=session, cancel=cancel))
            await begun.wait()
            if by_event:
                cancel.set()
            else:
                solving.cancel()
            await asyncio.wait([solving])
        assert solving.cancelled() is not by_event
        assert not any(copy.alive for copy in copies)
        assert (await session.run("x")).value == 1


async def test_a_check_that_blocks_does_not_hold_up_cancellation(box: Sandbox) -> None:
    cancel, loop, goes_on = asyncio.Event(), asyncio.get_running_loop(), threading.Event()

    def check(result: object) -> bool:
        loop.call_soon_threadsafe(cancel.set)
        return goes_on.wait(60)

    outcome = await CodingAgent(ScriptedModel([block("1")]), box).solve(Task("one", checks=[check]), cancel=cancel)
    assert (outcome.stopped, goes_on.is_set()) == ("cancelled", False)
    goes_on.set()


async def test_a_task_that_is_cancelled_before_it_begins_asks_no_model(box: Sandbox) -> None:
    cancel, model = asyncio.Event(), ScriptedModel([])
    cancel.set()
    outcome = await CodingAgent(model, box).solve("add", cancel=cancel)
    assert (outcome.stopped, model.asked) == ("cancelled", [])


async def test_a_model_that_answers_when_it_is_cancelled_is_not_obeyed(box: Sandbox) -> None:
    waiting = Waiting()

    async def says() -> str:
        try:
            await waiting.complete([], [])
        except asyncio.CancelledError:
            pass
        return block("1")

    cancel = asyncio.Event()
    solving = asyncio.create_task(CodingAgent(Model(lambda _: says()), box).solve("add", cancel=cancel))
    await waiting.is_asked.wait()
    cancel.set()
    assert (await solving).stopped == "cancelled"


async def test_a_sandbox_that_the_agent_opens_ends_with_the_task(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Sandbox] = []

    def recorded(*engine: Any, **options: Any) -> Sandbox:
        opened.append(actbox.open_sandbox(*engine, **options))
        return opened[-1]

    monkeypatch.setattr(places, "open_sandbox", recorded)
    waiting = Waiting()
    solving = asyncio.create_task(CodingAgent(waiting, box).solve(Task("add", language="rtfs")))
    await waiting.is_asked.wait()
    (own,) = opened
    assert (await own.run(actbox.Program("(+ 1 2)", "rtfs"))).value == 3
    solving.cancel()
    await asyncio.wait([solving])
    with pytest.raises(SandboxStopped):
        await own.run(actbox.Program("(+ 1 2)", "rtfs"))


# Inputs and tests


def test_inputs_that_are_missing_or_huge_are_refused_before_anything_happens(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match=r"sales.csv.*No such file"):
        Task("add", inputs={"sales.csv": tmp_path / "sales.csv"})
    with open(tmp_path / "huge.csv", "wb") as file:
        file.truncate(2**40)
    with pytest.raises(InvalidValue, match="256 MiB"):
        Task("add", inputs={"huge.csv": tmp_path / "huge.csv"})


async def test_files_that_are_not_what_their_name_says_are_described_and_given(box: Sandbox) -> None:
    files = {"a.xlsx": b"PK\x03\x04 no", "b.parquet": b"PAR1", "c.csv": os.urandom(2_000), "d.png": b"a,b\n1,2\n"}
    model = ScriptedModel([block("import os\nsorted(os.listdir('input'))")])
    outcome = await CodingAgent(model, box).solve(Task("list", inputs=files))
    assert outcome.answer == sorted(files)
    assert all(f"- {name}: " in model.asked[0][1].text for name in files)


async def test_tests_that_delete_the_inputs_delete_nothing(box: Sandbox) -> None:
    tests = "import os, solution\ndef test_it():\n    os.remove('input/a.txt')\n    assert solution.read() == 'text'\n"
    kept = "def read():\n    return open('input/a.txt').read()\nread()"
    task = Task("read", inputs={"a.txt": "text"}, checks=[TextCheck(tests, written_by="model")])
    outcome = await CodingAgent(ScriptedModel([block(f"{kept}{' ' * n}") for n in range(3)]), box, retry=QUICK).solve(
        task
    )
    assert outcome.attempts and all(one.result is not None and one.result.value == "text" for one in outcome.attempts)


async def test_a_program_does_not_find_its_checks(box: Sandbox) -> None:
    word = f"zyzzyva_{secrets.token_hex(8)}"
    program = """\
import gc, os
found = [path for top in ("/workspace", "/tmp") for folder, _, names in os.walk(top)
         for name in names if (path := os.path.join(folder, name)) and b"zyzz" + b"yva_" in open(path, "rb").read()]
found += [one for one in gc.get_objects() if isinstance(one, dict) and any("zyzz" + "yva_" in str(key) for key in one)]
found
"""
    check = TextCheck(f"def test_{word}():\n    import solution\n    assert solution.found == []\n")
    outcome = await CodingAgent(ScriptedModel([block(program)]), box).solve(Task("look", checks=[check]))
    assert (outcome.solved, outcome.answer) == (True, [])


async def test_a_check_that_raises_fails_whatever_it_raises(box: Sandbox) -> None:
    async def check(result: object) -> bool:
        raise asyncio.CancelledError("its own scope")

    model = ScriptedModel([block("1")])
    outcome = await CodingAgent(model, box, retry=RetryPolicy(max_attempts=1)).solve(Task("one", checks=[check]))
    assert outcome.attempts[0].checks is not None
    assert outcome.attempts[0].checks.sentences == ("check: CancelledError: its own scope",)


# Sandboxes


async def test_a_sandbox_that_stops_between_attempts_ends_the_task(box: Sandbox) -> None:
    async def stops() -> str:
        await box.stop()
        return block("1")

    said = iter([lambda: block("1 / 0"), stops])
    outcome = await CodingAgent(Model(lambda _: next(said)()), box, retry=QUICK).solve("divide")
    assert (outcome.stopped, len(outcome.attempts)) == ("sandbox", 2)
    assert [one.error_class for one in outcome.attempts] == [ErrorClass.RUNTIME_ERROR, ErrorClass.SANDBOX]


async def test_a_sandbox_that_stops_while_a_program_runs_ends_the_task(box: Sandbox) -> None:
    agent = CodingAgent(ScriptedModel([block("print('up', flush=True)\nimport time; time.sleep(600)")]), box)
    async for event in agent.stream("wait"):
        if isinstance(event, AttemptEvent):
            await box.stop()
        elif isinstance(event, Finished):
            outcome = event.outcome
    assert (outcome.stopped, outcome.attempts[0].error_class) == ("cancelled", ErrorClass.CANCELLED)
    assert "the sandbox was stopped" in outcome.reason and outcome.code.startswith("print")


async def test_a_sandbox_that_stops_before_the_inputs_were_looked_at_or_the_tests_run_ends_the_task(
    box: Sandbox,
) -> None:
    async def stops(result: object) -> bool:
        await box.stop()
        return True

    task = Task("one", checks=[stops, TextCheck("def test_it():\n    assert True\n")])
    outcome = await CodingAgent(ScriptedModel([block("1")]), box).solve(task)
    assert (outcome.stopped, outcome.attempts[0].error_class) == ("sandbox", ErrorClass.SANDBOX)
    assert outcome.attempts[0].result is not None and outcome.attempts[0].result.value == 1
    outcome = await CodingAgent(ScriptedModel([]), box).solve(Task("one", inputs={"a.csv": "a\n"}))
    assert (outcome.stopped, outcome.attempts) == ("sandbox", ())
    assert "the inputs could not be looked at" in outcome.reason


# Properties

_REPLIES = st.sampled_from(
    [
        *("", "words", "<html>", block("1"), block("1 / 0"), block("while:"), block("fn main() {}", "rust")),
        block("send('a')\n1 / 0"),
        block("send('a')\nsend('b')\n2"),
        block("try:\n    send('c')\nexcept Exception:\n    pass\n'wrong'"),
        block("from solution import f\ndef test_f():\n    assert f() == 1\n"),
        ModelReply(tool_calls=(ToolCall("i", "intent", {"language": "python", "lines": 3}),)),
        ModelReply(block("def f():\n    return 1\nf()"), usage=TokenUsage(5, 5)),
    ]
)
_POLICIES = st.builds(
    RetryPolicy,
    max_attempts=st.integers(1, 4),
    attempt_backoff_ms=st.just([0]),
    error_specific=st.dictionaries(st.sampled_from(list(ErrorClass)), st.integers(0, 2), max_size=3),
    max_coding_turns=st.none() | st.integers(1, 4),
)


@pytest.mark.slow
@given(
    st.lists(_REPLIES, min_size=1, max_size=6),
    _POLICIES,
    st.integers(1, 3),
    st.booleans(),
    st.sampled_from(["python", "auto"]),
    st.none() | st.integers(0, 5),
)
@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
def test_a_task_always_ends_within_its_bounds_and_no_effect_happens_twice(
    replies: list[str | ModelReply], retry: RetryPolicy, best_of: int, tests: bool, language: str, steps: int | None
) -> None:
    sent: list[str] = []

    @actbox.tool
    def send(to: str) -> None:
        """Send."""
        sent.append(to)

    async def solved() -> Any:
        said = (replies[number % len(replies)] for number in range(1_000))
        async with linux_box() as box:
            agent = CodingAgent(
                Model(lambda _: next(said)),
                box,
                retry=retry,
                tools=[send],
                write_tests=tests,
                budget=Budget(steps=steps),
            )
            task = Task("one", language=language, best_of=best_of, checks=[lambda result: result.value in (1, 2)])
            events = [event async for event in agent.stream(task)]
        return events[-1].outcome, sum(isinstance(event, AttemptStarted) for event in events)

    outcome, started = asyncio.run(solved())
    planning, most = tests + (language == "auto"), retry.max_coding_turns
    each = retry.max_attempts if most is None else min(retry.max_attempts, most)
    calls = outcome.usage.model_calls
    assert calls <= best_of * each + (planning if most is None else min(planning, most - 1))
    assert best_of > 1 or most is None or calls <= most
    assert steps is None or calls <= steps
    assert started <= best_of * retry.max_attempts + 1  # the chosen one's program runs again, with its effects
    assert len(sent) == len(set(sent))
    assert outcome.solved == (outcome.stopped == "solved")
    known = {"solved", "attempts", "repetition", "max_turns", "budget", "returned", *ErrorClass}
    assert outcome.stopped in known, outcome
    assert all(attempt.error_class or attempt.held_back or attempt.result for attempt in outcome.attempts)
