"""Host calls: who may be called, what travels, and what a host can do wrong."""

import asyncio

import pytest

from actbox.core.errors import InvalidValue
from actbox.rtfs.budget import Budget
from actbox.rtfs.evaluator import Interpreter, evaluate, evaluate_async
from actbox.rtfs.failures import BudgetExhausted, RtfsError
from actbox.rtfs.host import Controlled, HostCallFinished, HostCallStarted, ToolHost
from actbox.rtfs.syntax import Keyword
from actbox.rtfs.values import Map
from actbox.tools import Toolset, tool


class Answering:
    """A host that answers with a function of the arguments."""

    def __init__(self, answer):
        self.answer = answer
        self.calls = []

    def call(self, name, arguments, meta):
        self.calls.append((name, arguments, meta))
        return self.answer(*arguments)


def error(source, **options):
    with pytest.raises(RtfsError) as caught:
        evaluate(source, **options)
    return caught.value


def test_a_call_passes_name_values_and_metadata_and_gives_the_value():
    host = Answering(lambda a, b: {"sum": a + b})
    value = evaluate("(:sum ^{:runtime.timeout-ms 50} (call :math.add 1 (+ 1 1)))", host=host)
    assert value == 3
    assert host.calls == [("math.add", (1, 2), {"runtime.timeout-ms": 50})]


def test_calls_happen_in_tail_position_in_loops_and_in_functions():
    host = Answering(lambda n: n * 2)
    assert evaluate("(defn f [n] (call :double n)) (map f [1 2 3])", host=host).items == (2, 4, 6)
    assert evaluate("(reduce (fn [a x] (+ a (call :double x))) 0 [1 2 3])", host=host) == 12
    assert evaluate("(for [x [1 2]] (call :double x))", host=host).items == (2, 4)


def test_a_controlled_host_passes_on_what_is_allowed_only():
    inner = Answering(lambda: 1)
    host = Controlled(inner, ["a.b"])
    assert evaluate("(call :a.b)", host=host) == 1
    refused = error("(call :a.c)", host=host)
    assert refused.name == "SecurityViolation"
    assert "a.b" in refused.message
    assert len(inner.calls) == 1


def test_a_program_can_catch_what_a_host_raises():
    def broken():
        raise ValueError("secret plans are missing")

    failed = error("(call :plan)", host=Answering(broken))
    assert failed.name == "Generic"
    assert "plan failed: ValueError: secret plans" in failed.message
    assert failed.line == 1
    assert evaluate('(try (call :plan) (catch e "none"))', host=Answering(broken)) == "none"

    def leaves():
        raise SystemExit(3)

    assert error("(call :plan)", host=Answering(leaves)).name == "Generic"


@pytest.mark.slow
def test_what_a_host_returns_must_be_a_value():
    recursive = []
    recursive.append(recursive)
    deep = []
    for _ in range(50_000):
        deep = [deep]
    for answer, name in (
        (object(), "TypeError"),
        ({1, 2}, "TypeError"),
        ({1: 2}, "TypeError"),
        (b"x", "TypeError"),
        (2**64, "InvalidArgument"),
        (recursive, "TypeError"),
    ):
        failed = error("(call :odd)", host=Answering(lambda answer=answer: answer))
        assert failed.name == name
        assert "odd" in failed.message
    assert evaluate("(count (call :deep))", host=Answering(lambda: deep)) == 1
    assert error("(call :large)", host=Answering(lambda: "x" * 2**25)).limit == "value_bytes"
    own = Map({Keyword("k"): 1})
    assert evaluate("(:k (call :own))", host=Answering(lambda: own)) == 1


def test_a_host_may_evaluate_itself_to_a_bounded_depth_only():
    class Again:
        def call(self, name, arguments, meta):
            return evaluate("(call :again)", host=self)

    failed = error("(call :again)", host=Again())
    assert "16 evaluations" in str(failed)

    inner = Answering(lambda: evaluate("(+ 1 2)"))
    assert evaluate("(call :x)", host=inner) == 3


def test_an_interpreter_that_waits_cannot_be_used():
    class Using:
        def call(self, name, arguments, meta):
            return interpreter.eval("1")

    interpreter = Interpreter(host=Using())
    with pytest.raises(RtfsError, match="waits for a host call"):
        interpreter.eval("(call :x)")
    assert interpreter.eval("2") == 2


def test_every_call_is_told_before_and_after():
    events = []

    def sometimes(n):
        if n > 1:
            raise KeyError("gone")
        return n

    evaluate("(try [(call :a 1) (call :a 2)] (catch e nil))", host=Answering(sometimes), on_event=events.append)
    assert [(type(event), event.call_id) for event in events] == [
        (HostCallStarted, 1),
        (HostCallFinished, 1),
        (HostCallStarted, 2),
        (HostCallFinished, 2),
    ]
    assert events[0].arguments == (1,)
    assert events[1].value == 1
    assert events[1].error is None
    assert events[3].error.name == "Generic"


async def test_async_hosts_are_awaited_and_their_time_is_the_program_s():
    async def slowly(n):
        await asyncio.sleep(0)
        return n + 1

    assert await evaluate_async("(map (fn [n] (call :up n)) [1 2])", host=Answering(slowly)) is not None
    assert (await evaluate_async("(call :up 1)", host=Answering(slowly))) == 2

    async def forever(n):
        await asyncio.sleep(60)

    with pytest.raises(BudgetExhausted) as caught:
        await evaluate_async(
            "(try (call :up 1) (catch e 1))", host=Answering(forever), budget=Budget(wall_seconds=0.05)
        )
    assert caught.value.limit == "wall_seconds"


async def test_cancelling_reaches_the_host_call():
    cancelled = asyncio.Event()
    started = asyncio.Event()

    async def waiting():
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.set()

    task = asyncio.create_task(evaluate_async("(call :wait)", host=Answering(waiting)))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cancelled.is_set()


def test_an_async_host_works_from_sync_code_and_says_so_where_it_cannot():
    async def one():
        return 1

    assert evaluate("(call :one)", host=Answering(one)) == 1

    async def inside():
        return error("(call :one)", host=Answering(one))

    assert "evaluate_async" in asyncio.run(inside()).message


@tool
def area(width: int, height: int = 2, *, unit: str = "m") -> dict[str, object]:
    """Say how large a rectangle is."""
    return {"area": width * height, "unit": unit}


@tool
async def fails(reason: str) -> str:
    """Fail."""
    raise ValueError(reason)


@tool(approval="always_require")
def delete(path: str) -> None:
    """Delete."""


def test_the_tools_of_a_toolset_are_called_by_position_and_by_name():
    host = ToolHost([area, fails])
    assert evaluate("(:area (call :area 3))", host=host) == 6
    assert evaluate("(:area (call :area 3 5))", host=host) == 15
    assert evaluate('(:unit (call "area" {:width 3 :unit "cm"}))', host=host) == "cm"
    assert evaluate('(get-in (call :area 3) ["unit"])', host=host) == "m"


def test_what_a_tool_refuses_is_an_error_of_the_program():
    host = ToolHost([area, fails])
    assert error("(call :aera 1)", host=host).name == "UnknownCapability"
    assert "did you mean 'area'" in error("(call :aera 1)", host=host).message
    assert error("(call :area 1 2 3 4)", host=host).name == "ArityMismatch"
    assert "width" in error('(call :area "x")', host=host).message
    assert "ValueError: no luck" in error('(call :fails "no luck")', host=host).message
    assert evaluate('(try (call :fails "x") (catch e "caught"))', host=host) == "caught"
    assert error("(call :area +)", host=host).name == "TypeError"


def test_a_tool_that_requires_approval_is_not_called():
    with pytest.raises(InvalidValue, match="approval"):
        ToolHost([delete])
    assert evaluate('(call :delete "x")', host=ToolHost(Toolset.of([delete]).approved())) is None


async def test_tools_are_awaited_in_the_async_form():
    assert await evaluate_async("(:area (call :area 3))", host=ToolHost([area])) == 6


def test_bindings_that_are_no_values_are_refused_by_name():
    with pytest.raises(InvalidValue, match="'x'"):
        evaluate("x", bindings={"x": object()})
