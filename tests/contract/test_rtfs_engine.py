"""What of the contract holds for an engine whose language has no files, no output and no way out but tools."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio

import actbox
from actbox import (
    ApprovalDecision,
    ApprovalRequest,
    Completed,
    ErrorKind,
    InvalidValue,
    Limits,
    Policy,
    Program,
    Sandbox,
    SandboxStopped,
    ToolError,
    ToolFinished,
    Toolset,
    ToolStarted,
    Unsupported,
    tool,
)
from tests.clock import Clock

ENDLESS = "(defn forever [n] (forever (+ n 1))) (forever 0)"


@pytest_asyncio.fixture
async def box() -> AsyncIterator[Sandbox]:
    async with actbox.open_sandbox("rtfs") as opened:
        yield opened


def rtfs(code: str, **given: Any) -> Program:
    return Program(code, language="rtfs", **given)


def limited(**limits: Any) -> Policy:
    return Policy(limits=Limits(**limits))


def add(a: int, b: int) -> int:
    return a + b


# What there is


def test_it_is_known_by_name_and_auto_never_takes_it() -> None:
    assert "rtfs" in actbox.ENGINES
    found = actbox.check("rtfs")
    assert found.works and found.traits is not None
    assert found.traits.languages == ("rtfs",)
    assert actbox.open_sandbox("auto", allow_unisolated=True).traits.languages == ("python",)


async def test_its_traits_say_what_it_lacks(box: Sandbox) -> None:
    traits = box.traits
    assert (traits.engine, traits.isolated, traits.sessions, traits.fork) == ("rtfs", True, True, True)
    assert traits.isolation.startswith("language: ")
    assert any(note.startswith("deterministic") for note in traits.notes)
    assert (traits.network, traits.mounts) == ("none", ())


@pytest.mark.parametrize(
    "policy",
    [
        Policy(domains=(actbox.AllowedDomain("api.example.com"),)),
        Policy(mounts=(actbox.FileMount("/tmp", "/data"),)),
        Policy(variables={"KEY": "x"}),
        limited(cpus=0.5),
    ],
)
def test_what_it_cannot_keep_of_a_policy_is_unsupported(policy: Policy) -> None:
    with pytest.raises(Unsupported, match="the linux engine"):
        actbox.open_sandbox("rtfs", policy=policy)


async def test_before_start_and_after_stop_it_says_so() -> None:
    box = actbox.open_sandbox("rtfs")
    with pytest.raises(SandboxStopped):
        await box.run("1")
    await box.start()
    await box.start()
    assert (await box.run("1")).value == 1
    await box.stop()
    await box.stop()
    with pytest.raises(SandboxStopped):
        await box.run("1")
    with pytest.raises(SandboxStopped):
        async for _ in box.stream("1"):
            pass


# What a run gives back


async def test_the_last_expression_is_the_value(box: Sandbox) -> None:
    result = await box.run(rtfs('(let [x [1 2.5 nil true "ü"]] {:list x "sum" 3})'))
    assert result.success
    assert result.value == {"list": [1, 2.5, None, True, "ü"], "sum": 3}
    assert result.value_text == '{:list [1 2.5 nil true "ü"] "sum" 3}'
    assert (result.stdout, result.stderr, result.exit_code, result.sandbox) == ("", "", 0, "rtfs")


@pytest.mark.parametrize(
    "source, text", [("(fn [x] x)", "function"), ("##NaN", "NaN"), ("nil", "nil"), ("{1 :a}", "{1 :a}"), (":a", ":a")]
)
async def test_every_value_has_its_text(box: Sandbox, source: str, text: str) -> None:
    result = await box.run(source)
    assert result.success
    assert text in (result.value_text or "")


@pytest.mark.parametrize("source", ["(fn [x] x)", "##NaN", "[##Inf]", '{:a 1 "a" 2}'])
async def test_a_value_that_is_no_json_is_text(box: Sandbox, source: str) -> None:
    result = await box.run(source)
    assert (result.success, result.value) == (True, None)
    assert result.value_text


async def test_a_value_nested_too_deep_for_json_is_text(box: Sandbox) -> None:
    result = await box.run("(reduce (fn [acc i] [acc]) [] (range 0 5000))")
    assert (result.success, result.value) == (True, None)
    assert (result.value_text or "").startswith("[[[[")


@pytest.mark.slow
async def test_a_long_value_is_text_that_is_cut(box: Sandbox) -> None:
    result = await box.run("(range 0 400000)")
    assert result.success, result.error
    assert "more characters" in (result.value_text or "")[-40:]


async def test_inputs_are_names(box: Sandbox) -> None:
    program = rtfs("(+ (get (first rows) :n) extra)", inputs={"rows": [{"n": 40}], "extra": 2})
    assert (await box.run(program)).value == 42


async def test_an_input_that_is_no_value_is_refused(box: Sandbox) -> None:
    with pytest.raises(InvalidValue, match="'big'"):
        await box.run(rtfs("big", inputs={"big": 2**70}))


async def test_every_run_starts_fresh(box: Sandbox) -> None:
    assert (await box.run("(def x 1)")).success
    result = await box.run("x")
    assert result.error is not None and result.error.type == "UndefinedSymbol"


async def test_usage_has_the_time_and_the_calls(box: Sandbox) -> None:
    result = await box.run("(call :add (call :add 1 2) 3)", tools=[add])
    assert result.value == 6
    assert result.usage.tool_calls == 2
    assert result.usage.wall_ms > 0


# Errors


async def test_source_that_is_no_program_is_a_syntax_error_with_its_line(box: Sandbox) -> None:
    result = await box.run("(+ 1\n   2))")
    error = result.error
    assert error is not None
    assert (error.kind, error.type, error.line, result.exit_code) == (ErrorKind.SYNTAX, "ReadError", 2, 1)
    assert "^" in error.traceback


@pytest.mark.slow
async def test_a_large_source_is_a_syntax_error_too(box: Sandbox) -> None:
    result = await box.run("(+ 1 2)\n" * 10_000 + ")")
    assert result.error is not None
    assert (result.error.kind, result.error.line) == (ErrorKind.SYNTAX, 10_001)


@pytest.mark.parametrize(
    "source, name",
    [("(/ 1 0)", "DivisionByZero"), ('(+ 1 "a")', "TypeError"), ("(nth [1] 5)", "IndexOutOfBounds"), ("(1 2)", "")],
)
async def test_an_error_has_the_languages_name_and_the_line(box: Sandbox, source: str, name: str) -> None:
    result = await box.run(f"\n\n{source}")
    error = result.error
    assert error is not None
    assert (error.kind, result.exit_code, error.line) == (ErrorKind.RUNTIME, 1, 3)
    assert error.type == (name or error.type)
    assert result.value is None and result.value_text is None


async def test_an_error_names_the_mend(box: Sandbox) -> None:
    error = (await box.run("(cond true 1)")).error
    assert error is not None and "match" in error.hint


@pytest.mark.parametrize(
    "source, limit",
    [
        (ENDLESS, "steps"),
        ("(defn deep [n] (+ 1 (deep n))) (deep 1)", "depth"),
        ("(range 0 1000000000)", "value_bytes"),
    ],
)
async def test_a_budget_that_is_spent_is_named(source: str, limit: str) -> None:
    async with actbox.open_sandbox("rtfs", policy=limited(cpu_seconds=0.5)) as box:
        result = await box.run(source)
    assert result.error is not None
    assert (result.error.kind, result.error.limit, result.exit_code) == (ErrorKind.BUDGET, limit, 137)
    assert result.error.type == "BudgetExhausted"


async def test_the_same_program_ends_in_the_same_place() -> None:
    async with actbox.open_sandbox("rtfs", policy=limited(cpu_seconds=0.1)) as box:
        first, second = [await box.run(ENDLESS) for _ in range(2)]
    assert first.error == second.error


async def test_memory_is_a_limit_of_the_policy() -> None:
    policy = limited(memory_mib=4, message_bytes=1_000_000)
    async with actbox.open_sandbox("rtfs", policy=policy) as box:
        result = await box.run("".join(f"(def v{n} (range 0 20000))" for n in range(20)))
    assert result.error is not None
    assert (result.error.kind, result.error.limit) == (ErrorKind.MEMORY, "memory_mib")


async def test_a_timeout_ends_the_program(box: Sandbox) -> None:
    result = await box.run(ENDLESS, timeout=0.05)
    assert result.error is not None
    assert (result.error.kind, result.error.limit, result.exit_code) == (ErrorKind.TIMEOUT, "wall_seconds", 124)


async def test_the_event_loop_goes_on_while_a_program_runs(box: Sandbox) -> None:
    running = asyncio.create_task(box.run(ENDLESS, timeout=30))
    for _ in range(20):
        await asyncio.sleep(0)
        assert not running.done()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), True, "5"])
async def test_a_timeout_that_makes_no_sense_is_refused(box: Sandbox, timeout: Any) -> None:
    with pytest.raises(InvalidValue, match="timeout"):
        await box.run("1", timeout=timeout)


# The end, by others


async def test_cancelling_ends_the_program(box: Sandbox) -> None:
    running = asyncio.create_task(box.run(ENDLESS))
    await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert len(asyncio.all_tasks()) == 1


async def test_closing_a_stream_ends_the_program(box: Sandbox) -> None:
    begun = asyncio.Event()

    async def wait() -> None:
        begun.set()
        await asyncio.sleep(60)

    events = box.stream("(call :wait)", tools=[wait])
    assert isinstance(await anext(events), ToolStarted)
    await events.aclose()  # type: ignore[attr-defined]
    assert len(asyncio.all_tasks()) == 1


async def test_a_stream_that_is_cancelled_before_it_began_leaves_nothing_to_wait_for(box: Sandbox) -> None:
    async def first() -> None:
        async for _ in box.stream("1"):
            pass

    task = asyncio.create_task(first())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(box.stop(), 60)


async def test_stop_ends_every_run() -> None:
    box = actbox.open_sandbox("rtfs")
    await box.start()
    running = [asyncio.create_task(box.run(ENDLESS)) for _ in range(3)]
    await asyncio.sleep(0.01)
    await box.stop()
    for result in await asyncio.gather(*running):
        assert result.error is not None
        assert (result.error.kind, result.exit_code) == (ErrorKind.CANCELLED, 137)


# Tools


async def test_a_tool_is_called_by_its_name_in_order_or_by_a_map(box: Sandbox) -> None:
    source = '[(call :add 1 2) (call :add {:a 3 :b 4}) (call "add" 5 6)]'
    assert (await box.run(source, tools=[add])).value == [3, 7, 11]


async def test_async_tools_are_awaited(box: Sandbox) -> None:
    async def double(n: int) -> int:
        await asyncio.sleep(0)
        return 2 * n

    assert (await box.run("(map (fn [n] (call :double n)) [1 2])", tools=[double])).value == [2, 4]


async def test_calls_are_events_around_completed(box: Sandbox) -> None:
    events = [event async for event in box.stream("(call :add 1 2)", tools=[add])]
    started, finished, completed = events
    assert started == ToolStarted(1, "add", {"a": 1, "b": 2})
    assert isinstance(finished, ToolFinished) and (finished.call_id, finished.value, finished.error) == (1, 3, None)
    assert isinstance(completed, Completed) and completed.result.value == 3


async def test_a_tool_that_fails_is_a_tool_error_unless_it_is_caught(box: Sandbox) -> None:
    def fails() -> int:
        raise ToolError("no such city")

    result = await box.run("\n(call :fails)", tools=[fails])
    assert result.error is not None
    assert (result.error.kind, result.error.message, result.error.line) == (ErrorKind.TOOL, "no such city", 2)
    caught = await box.run("(try (call :fails) (catch e (.getMessage e)))", tools=[fails])
    assert caught.value == "no such city"


async def test_a_tool_that_there_is_not_is_named_with_those_that_there_are(box: Sandbox) -> None:
    error = (await box.run("(call :ad 1 2)", tools=[add])).error
    assert error is not None
    assert (error.kind, error.type) == (ErrorKind.TOOL, "UnknownCapability")
    assert "did you mean 'add'?" in error.message


async def test_a_program_without_tools_may_call_nothing(box: Sandbox) -> None:
    error = (await box.run("(call :add 1 2)")).error
    assert error is not None
    assert (error.kind, error.type) == (ErrorKind.POLICY, "SecurityViolation")


@pytest.mark.parametrize("answer", [b"bytes", 2**70])
async def test_an_answer_that_is_no_value_fails_the_call(box: Sandbox, answer: Any) -> None:
    @tool(name="odd")
    def odd() -> Any:
        return answer

    error = (await box.run("(call :odd)", tools=[odd])).error
    assert error is not None and error.kind is ErrorKind.TOOL
    assert "cannot be sent" in error.message


async def test_arguments_nested_too_deep_are_refused(box: Sandbox) -> None:
    def take(x: Any) -> int:
        return 1

    deep = "(reduce (fn [acc i] [acc]) [] (range 0 5000))"
    error = (await box.run(f"(call :take {deep})", tools=[take])).error
    assert error is not None and error.type == "InvalidArgument"


async def test_the_number_of_calls_is_a_limit_that_no_try_catches() -> None:
    async with actbox.open_sandbox("rtfs", policy=limited(tool_calls=3)) as box:
        source = "(map (fn [n] (try (call :add n n) (catch e 0))) (range 0 10))"
        result = await box.run(source, tools=[add])
    assert result.error is not None
    assert (result.error.kind, result.error.limit) == (ErrorKind.BUDGET, "tool_calls")
    assert result.usage.tool_calls == 3


async def test_the_bytes_of_calls_are_a_limit() -> None:
    def text(n: int) -> str:
        return "x" * n

    async with actbox.open_sandbox("rtfs", policy=limited(tool_bytes=10_000)) as box:
        result = await box.run("(map (fn [n] (call :text 4000)) [1 2 3])", tools=[text])
    assert result.error is not None and result.error.limit == "tool_bytes"


async def test_an_answer_larger_than_a_message_fails_the_call() -> None:
    def text(n: int) -> str:
        return "x" * n

    async with actbox.open_sandbox("rtfs", policy=limited(message_bytes=10_000)) as box:
        result = await box.run("(call :text 20000)", tools=[text])
    assert result.error is not None
    assert (result.error.kind, "ask for less" in result.error.message) == (ErrorKind.TOOL, True)


async def test_a_tool_may_run_rtfs_itself(box: Sandbox) -> None:
    async def inner(n: int) -> int:
        result = await box.run(rtfs("(* n 2)", inputs={"n": n}))
        return int(result.value)

    assert (await box.run("(+ 1 (call :inner 20))", tools=[inner])).value == 41


@tool(approval="always_require")
def delete(path: str) -> str:
    return f"deleted {path}"


class Answers:
    def __init__(self, approved: bool, think: Callable[[], None] = lambda: None) -> None:
        self.approved = approved
        self.think = think
        self.asked: list[ApprovalRequest] = []

    async def decide(self, request: ApprovalRequest) -> ApprovalDecision:
        self.asked.append(request)
        self.think()
        return ApprovalDecision(self.approved, "" if self.approved else "not today")


async def test_a_call_that_requires_approval_waits_for_it_and_the_clock_stands_still(
    box: Sandbox, clock: Clock
) -> None:
    approver = Answers(True, lambda: clock.turn(40))
    result = await box.run('(call :delete "x")', tools=Toolset.of([delete]).asking(approver), timeout=30)
    assert result.value == "deleted x", result.error
    assert [request.arguments for request in approver.asked] == [{"path": "x"}]
    assert result.usage.approval_ms >= 40_000


async def test_a_refused_call_is_not_made(box: Sandbox) -> None:
    tools = Toolset.of([delete]).asking(Answers(False))
    events = [event async for event in box.stream('(call :delete "x")', tools=tools)]
    assert not [event for event in events if isinstance(event, ToolStarted)]
    assert isinstance(events[-1], Completed)
    error = events[-1].result.error
    assert error is not None
    assert (error.kind, "not today" in error.message) == (ErrorKind.POLICY, True)


async def test_without_an_approver_such_a_run_is_refused(box: Sandbox) -> None:
    with pytest.raises(InvalidValue, match="approval"):
        await box.run("1", tools=[delete])


# Many


async def test_map_has_a_result_for_each_program(box: Sandbox) -> None:
    programs = ["(+ 1 2)", Program("1"), "(", rtfs("n", inputs={"n": 7})]
    results = [result async for result in box.map(programs, concurrency=2)]
    assert [result.value for result in results] == [3, None, None, 7]
    kinds = [result.error.kind if result.error else None for result in results]
    assert kinds == [None, ErrorKind.UNSUPPORTED, ErrorKind.SYNTAX, None]


async def test_alone_is_what_a_run_is_anyway(box: Sandbox) -> None:
    assert (await box.run_alone("(+ 1 2)")).value == 3
    events = [event async for event in box.stream_alone("(+ 1 2)")]
    assert isinstance(events[-1], Completed) and events[-1].result.value == 3


# What it does not have


async def test_there_are_no_files_and_no_commands(box: Sandbox) -> None:
    calls = (
        box.read_file("x"),
        box.write_file("x", b""),
        box.remove_file("x"),
        box.list_files(),
        box.stat("x"),
        box.make_dir("x"),
        box.move("x", "y"),
        box.read_text("x"),
        box.write_text("x", ""),
        box.execute("ls"),
        box.run(rtfs("1", files={"a.csv": b""})),
    )
    for call in calls:
        with pytest.raises(Unsupported, match=r"inputs=|the linux engine"):
            await call
    with pytest.raises(Unsupported, match="the linux engine"):
        box.execute_stream("ls")


async def test_a_python_program_is_refused_with_the_engine_that_runs_it(box: Sandbox) -> None:
    with pytest.raises(Unsupported, match="the linux engine runs Python"):
        await box.run(Program("1 + 1"))


async def test_an_rtfs_program_on_another_engine_is_refused_with_this_ones_name() -> None:
    async with actbox.open_sandbox("process", allow_unisolated=True) as other:
        with pytest.raises(Unsupported, match="the rtfs engine runs RTFS"):
            await other.run(rtfs("(+ 1 2)"))


def test_the_plain_face_runs_it_too() -> None:
    assert actbox.run("(+ n 2)", inputs={"n": 1}, engine="rtfs").value == 3
    with actbox.sync.open_sandbox("rtfs") as box:
        assert box.run("(+ 1 2)").value == 3


# Sessions


async def test_definitions_last_in_a_session(box: Sandbox) -> None:
    async with box.session() as session:
        assert (await session.run(rtfs("(defn double [x] (* x n))", inputs={"n": 2}))).state_kept is True
        assert (await session.run("(double 21)")).value == 42
        failed = await session.run("(def kept 1) (/ 1 0)")
        assert failed.error is not None and failed.state_kept is True
        stuck = await session.run(ENDLESS, timeout=0.05)
        assert stuck.error is not None and stuck.state_kept is True
        assert (await session.run("[kept n]")).value == [1, 2]
    with pytest.raises(SandboxStopped):
        await session.run("1")
    assert not session.alive


async def test_runs_of_a_session_queue(box: Sandbox) -> None:
    async with box.session() as session:
        slow = asyncio.create_task(session.run("(call :wait) (def x 1)", tools=[wait]))
        await asyncio.sleep(0)
        assert (await session.run("x")).value == 1
        await slow
        events = [event async for event in session.stream("(call :add x 1)", tools=[add])]
    assert isinstance(events[-1], Completed)
    assert (events[-1].result.value, events[-1].result.state_kept) == (2, True)


async def test_tools_are_those_of_each_run_of_a_session(box: Sandbox) -> None:
    async with box.session() as session:
        assert (await session.run("(defn both [] (call :add 1 2)) (both)", tools=[add])).value == 3
        error = (await session.run("(both)")).error
    assert error is not None and error.kind is ErrorKind.POLICY


async def test_stop_ends_sessions_and_what_runs_in_them() -> None:
    box = actbox.open_sandbox("rtfs")
    await box.start()
    session = box.session()
    running = asyncio.create_task(session.run(ENDLESS))
    await asyncio.sleep(0.01)
    await box.stop()
    result = await running
    assert result.error is not None and result.error.kind is ErrorKind.CANCELLED
    assert not session.alive
    with pytest.raises(SandboxStopped):
        box.session()


# Copies of a session


async def test_a_copy_has_the_values_of_that_moment_and_then_its_own(box: Sandbox) -> None:
    async with box.session(forkable=True) as origin:
        await origin.run(
            "(def x [1]) (defn more [] (conj x 2)) (defmacro twice [e] `(* 2 ~e)) (defstruct P :a :int)"
            " (module m (def y 3)) (import m :as k)"
        )
        copy = await origin.fork()
        assert (await copy.run("(def x [7]) [(more) (twice 4) (:a (P {:a 1})) k/y]")).value == [[7, 2], 8, 1, 3]
        assert (await origin.run("(more)")).value == [1, 2]
        await origin.run("(defmacro twice [e] `(* 3 ~e)) (def new 1)")
        assert (await copy.run("(twice 4)")).value == 8
        missing = await copy.run("new")
        assert missing.error is not None and missing.error.type == "UndefinedSymbol"


@pytest.mark.slow
async def test_copies_run_at_once_each_with_its_own_tools_and_limits(box: Sandbox) -> None:
    started: list[str] = []
    both = asyncio.Event()

    async def meet(name: str) -> str:
        started.append(name)
        if len(started) == 2:
            both.set()
        await both.wait()
        return name

    source = "(defn spin [n] (if (= n 0) 0 (spin (- n 1)))) (defn go [name] (do (spin 30000) (call :meet name)))"
    async with box.session(forkable=True) as origin:
        await origin.run(source)
        copy = await origin.fork()
        ours, theirs = await asyncio.gather(
            origin.run('(go "origin")', tools=[meet]), copy.run('(go "copy")', tools=[meet])
        )
        assert (ours.value, theirs.value) == ("origin", "copy")
        endless, fine = await asyncio.gather(copy.run(ENDLESS, timeout=0.2), origin.run("(spin 30000)"))
        assert endless.error is not None and endless.error.kind is ErrorKind.TIMEOUT
        assert fine.value == 0


async def test_copies_of_copies_snapshots_and_branches(box: Sandbox) -> None:
    async with box.session(forkable=True) as origin:
        first = await origin.fork()
        await first.run("(def x 1) (defn next-x [] (+ x 1))")
        second = await first.fork()
        await first.close()
        with pytest.raises(SandboxStopped):
            await first.fork()
        async with await second.snapshot() as snapshot:
            await second.run("(def x 10)")
            assert (await (await snapshot.fork()).run("(next-x)")).value == 2
        async with second.branches(3) as branches:
            results = await branches.run([f"(def x {n}) (next-x)" for n in range(3)])
            kept = branches.keep(2)
        assert [result.value for result in results] == [1, 2, 3]
        assert [branch.alive for branch in branches] == [False, False, True]
        assert (await kept.run("(next-x)")).value == 3
        assert (await second.run("(next-x)")).value == 11


async def test_a_copy_waits_for_the_program_that_runs(box: Sandbox) -> None:
    async with box.session(forkable=True) as origin:
        slow = asyncio.create_task(origin.run("(call :wait) (def x 1)", tools=[wait]))
        await asyncio.sleep(0)
        assert (await (await origin.fork()).run("x")).value == 1
        await slow


async def test_only_a_session_opened_as_forkable_is_forked(box: Sandbox) -> None:
    async with box.session() as session:
        for copying in (session.fork(), session.snapshot()):
            with pytest.raises(Unsupported, match="forkable=True"):
                await copying


async def test_the_sandbox_ends_its_copies() -> None:
    box = actbox.open_sandbox("rtfs")
    await box.start()
    copy = await box.session(forkable=True).fork()
    running = asyncio.create_task(copy.run(ENDLESS))
    await asyncio.sleep(0.01)
    await box.stop()
    result = await running
    assert result.error is not None and result.error.kind is ErrorKind.CANCELLED
    assert not copy.alive


def test_a_session_in_another_event_loop_is_told_so() -> None:
    box = actbox.open_sandbox("rtfs")

    async def begin() -> actbox.Session:
        await box.start()
        session = box.session()
        await session.start()
        return session

    async def go_on(session: actbox.Session) -> None:
        with pytest.raises(InvalidValue, match="event loop"):
            await session.run("1")

    session = asyncio.run(begin())
    asyncio.run(go_on(session))
    asyncio.run(box.stop())


async def wait() -> None:
    until = time.monotonic() + 0.02
    while time.monotonic() < until:
        await asyncio.sleep(0.005)
