"""Host tools, called from inside."""

from __future__ import annotations

import asyncio
import builtins
import enum
import threading
import time
from dataclasses import dataclass
from typing import Any

import pytest

import actbox
from actbox import Completed, ErrorKind, Sandbox, ToolFinished, ToolStarted
from actbox.sandbox.channel.calls import MAX_CALLS_AT_ONCE
from tests.clock import Clock
from tests.conftest import OpenBox

pytestmark = pytest.mark.one_engine_first


def add(a: int, b: int = 10) -> int:
    """Add."""
    return a + b


async def slow(number: int, seconds: float = 0.2) -> int:
    await asyncio.sleep(seconds)
    return number


def slow_sync(number: int, seconds: float = 0.2) -> int:
    time.sleep(seconds)
    return number


def boom() -> None:
    raise ValueError("it broke at /home/someone/secret.py")


def no_json() -> Any:
    return {"items": [1, object()]}


def give_bytes(count: int) -> bytes:
    return b"\0\xff" * count


def echo(value: Any) -> Any:
    return value


async def test_tools_are_functions_by_name(box: Sandbox) -> None:
    result = await box.run("[add(1, 2), add(1), add(a=5), add(b=1, a=1), call_tool('add', a=2, b=3)]", tools=[add])
    assert result.value == [3, 11, 15, 2, 5]
    assert result.usage.tool_calls == 5


@pytest.mark.parametrize("await_it", ["", "import asyncio\nawait asyncio.sleep(0)\n"])
async def test_without_tools_there_is_no_call_tool(box: Sandbox, await_it: str) -> None:
    found = await box.run(f"{await_it}['call_tool' in globals(), 'ToolError' in globals()]")
    assert found.value == [False, True]
    result = await box.run(f"{await_it}call_tool('add', a=1)", tools=[])
    assert result.error is not None
    assert result.error.type == "NameError"
    assert (await box.run(f"{await_it}'call_tool' in globals()", tools=[add])).value is True


def total(first: int, *numbers: float) -> float:
    """Add them up."""
    return first + sum(numbers)


async def test_a_tool_with_further_positional_arguments_takes_them(box: Sandbox) -> None:
    code = "[total(1), total(1, 2, 3), total(1, numbers=[2]), call_tool('total', first=1, numbers=[4])]"
    assert (await box.run(code, tools=[total])).value == [1, 6.0, 3.0, 5.0]
    twice = await box.run("total(1, 2, numbers=[3])", tools=[total])
    assert twice.error is not None and "two values for the argument 'numbers'" in twice.error.message


async def test_too_many_arguments_are_counted_in_the_error(box: Sandbox) -> None:
    def one(n: int) -> int:
        return n

    error = (await box.run("one(1, 2)", tools=[one])).error
    assert error is not None
    assert "one() takes at most 1 positional argument (n), not 2" in error.message


@dataclass
class Order:
    id: int
    tags: tuple[str, ...] = ()


class Colour(enum.Enum):
    RED = "red"


def place(order: Order, colour: Colour) -> Order:
    """Place an order."""
    assert isinstance(order, Order) and isinstance(colour, Colour)
    return order


PLACES = (
    "x: Order = {'id': 1, 'tags': ('a',)}\ndef f(o: Order, c: Colour = 'red') -> Order:\n    return place(o, c)\n"
    "[f(x), f(Order(id=2)), isinstance(x, dict)]"
)


async def test_the_types_that_stubs_name_exist_in_the_program(box: Sandbox) -> None:
    result = await box.run(PLACES, tools=[place])
    assert result.error is None, result.error
    assert result.value == [{"id": 1, "tags": ("a",)}, {"id": 2, "tags": ()}, True]
    wrong = await box.run("place(Order(id='one'), 'red')", tools=[place])
    assert wrong.error is not None and "argument 'order' at ['id'] should be a valid integer" in wrong.error.message


@pytest.mark.slow
async def test_a_sessions_own_class_is_not_replaced_by_a_type_of_that_name(box: Sandbox) -> None:
    async with box.session() as session:
        assert (await session.run(PLACES, tools=[place])).success
        assert (await session.run("f(x)['id']", tools=[place])).value == 1
        assert (await session.run("class Order:\n    mine = True", tools=[place])).success
        assert (await session.run("Order.mine", tools=[place])).value is True


async def test_a_program_that_awaits_gets_coroutines(box: Sandbox) -> None:
    result = await box.run("[await add(1, 2), await call_tool('add', a=1)]", tools=[add])
    assert result.value == [3, 11]


async def test_await_inside_a_function_counts_too(box: Sandbox) -> None:
    code = "import asyncio\nasync def main():\n    return await add(1, 2)\nasyncio.run(main())"
    assert (await box.run(code, tools=[add])).value == 3


async def test_gathered_calls_run_at_once(box: Sandbox) -> None:
    inside, all_inside = 0, asyncio.Event()

    async def meet(number: int) -> int:
        nonlocal inside
        inside += 1
        if inside == 20:
            all_inside.set()
        await asyncio.wait_for(all_inside.wait(), 30)
        return number

    code = "import asyncio\nawait asyncio.gather(*(meet(n) for n in range(20)))"
    assert (await box.run(code, tools=[meet])).value == list(range(20))


@pytest.mark.slow
async def test_gathered_calls_of_plain_functions_run_at_once(box: Sandbox) -> None:
    barrier = threading.Barrier(4)

    def meet(number: int) -> int:
        barrier.wait(30)
        return number

    code = "import asyncio\nawait asyncio.gather(*(meet(n) for n in range(20)))"
    assert (await box.run(code, tools=[meet])).value == list(range(20))


async def test_two_threads_may_call_at_once(box: Sandbox) -> None:
    barrier = asyncio.Barrier(5)

    async def meet(number: int) -> int:
        await asyncio.wait_for(barrier.wait(), 30)
        return number

    code = (
        "import threading\nout = {}\ndef work(n): out[n] = [meet(n) for _ in range(3)]\n"
        "threads = [threading.Thread(target=work, args=(n,)) for n in range(5)]\n"
        "[t.start() for t in threads]\n[t.join() for t in threads]\n[out[n] for n in range(5)]"
    )
    assert (await box.run(code, tools=[meet])).value == [[n] * 3 for n in range(5)]


@pytest.mark.slow
async def test_threads_and_a_loop_may_call_at_once(box: Sandbox) -> None:
    code = (
        "import asyncio, threading\nout = []\n"
        "def work(): out.append(asyncio.run(slow(1)))\n"
        "threads = [threading.Thread(target=work) for _ in range(4)]\n[t.start() for t in threads]\n"
        "mine = await asyncio.gather(*(slow(n) for n in range(4)))\n"
        "await asyncio.to_thread(lambda: [t.join() for t in threads])\n[mine, out]"
    )
    assert (await box.run(code, tools=[slow], timeout=50)).value == [[0, 1, 2, 3], [1, 1, 1, 1]]


async def test_a_failed_call_is_a_tool_error_with_the_tools_name(box: Sandbox) -> None:
    code = "try:\n    boom()\nexcept ToolError as error:\n    print(error.tool, '|', error)"
    result = await box.run(code, tools=[boom])
    assert result.stdout.startswith("boom | ValueError: it broke")


@pytest.mark.parametrize(
    "kind",
    [
        *("KeyError", "ValueError", "FileNotFoundError", "ZeroDivisionError", "TimeoutError"),
        *("SyntaxError", "SystemError", "UserWarning"),
    ],
)
async def test_a_tools_exception_is_catchable_as_the_builtin_that_it_was(box: Sandbox, kind: str) -> None:
    class Own(getattr(builtins, kind)):  # type: ignore[misc]
        pass

    def fail() -> None:
        raise Own("it broke")

    code = f"try:\n    fail()\nexcept {kind} as error:\n    print(isinstance(error, ToolError), error.tool, error)"
    assert (await box.run(code, tools=[fail])).stdout.replace("'", "") == "True fail Own: it broke\n"
    uncaught = (await box.run("fail()", tools=[fail])).error
    assert uncaught is not None
    assert (uncaught.kind, uncaught.type) == (ErrorKind.TOOL, "ToolError")


async def test_the_errors_in_a_tools_exception_group_are_catchable_one_by_one(box: Sandbox) -> None:
    async def fail() -> None:
        raise ExceptionGroup("two", [ValueError("a"), ExceptionGroup("one", [OSError(2, "gone", "/etc/host")])])

    code = (
        "try:\n    fail()\nexcept* ValueError as group:\n    print([*map(str, group.exceptions)])\n"
        "except* OSError as group:\n    [gone] = group.exceptions\n"
        "    print(isinstance(group, ToolError), gone.errno, gone)"
    )
    result = await box.run(code, tools=[fail])
    assert result.stdout == "['ValueError: a']\nTrue 2 FileNotFoundError: gone\n"
    uncaught = (await box.run("try:\n    fail()\nexcept* ValueError:\n    pass", tools=[fail])).error
    assert uncaught is not None
    assert (uncaught.kind, uncaught.type) == (ErrorKind.TOOL, "ToolError")


@pytest.mark.parametrize("raised", [StopIteration, StopAsyncIteration, SystemExit, MemoryError])
async def test_an_exception_that_would_end_more_than_the_call_is_a_tool_error_alone(
    box: Sandbox, raised: type[BaseException]
) -> None:
    def fail() -> None:
        raise raised("x")

    code = "try:\n    fail()\nexcept ToolError as error:\n    print([kind.__name__ for kind in type(error).__mro__])"
    assert (await box.run(code, tools=[fail])).stdout == "['ToolError', 'Exception', 'BaseException', 'object']\n"


async def test_an_uncaught_tool_error_is_of_its_own_kind(box: Sandbox) -> None:
    result = await box.run("print('a')\nboom()", tools=[boom])
    assert result.error is not None
    assert result.error.kind is ErrorKind.TOOL
    assert result.error.line == 2
    assert "conftest" not in result.error.traceback
    assert "Traceback" in result.error.traceback


async def test_a_result_that_is_no_json_names_tool_place_and_type(box: Sandbox) -> None:
    result = await box.run("no_json()", tools=[no_json])
    assert result.error is not None
    for part in ("no_json", "result['items'][1]", "object"):
        assert part in result.error.message


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("add('x')", "'a'"),
        ("add()", "'a' is missing"),
        ("add(1, c=2)", "'c'"),
        ("add(1, 2, 3)", "at most 2"),
        ("add(1, a=2)", "two values"),
        ("add({1, 2})", "should be a valid integer; got {1, 2}"),
        ("add([0, {'x': object()}])", "arguments['a'][1]['x'] is of type object, which cannot cross"),
        ("call_tool('ad', a=1)", "did you mean 'add'"),
        ("call_tool(1)", "name"),
    ],
)
async def test_a_wrong_call_says_what_is_wrong(box: Sandbox, call: str, words: str) -> None:
    result = await box.run(call, tools=[add])
    assert result.error is not None
    assert words in result.error.message


async def test_a_misspelled_tool_is_suggested(box: Sandbox) -> None:
    result = await box.run("ad(1)", tools=[add])
    assert result.error is not None
    assert result.error.type == "NameError"
    assert "add" in result.error.hint


@pytest.mark.parametrize(
    ("code", "written"),
    [
        ("x = add(1)\nx['a']", "await add(…)"),
        ("add(1)['a']", "await add(…)"),
        ("add(1).real", "await add(…)"),
        ("x = call_tool('add', a=1)\nx + 1", "await call_tool(…)"),
        ("x = add(1)\nawait add(x)", "await add(…)"),
        ("def f(y):\n    return len(y)\nf(add(1))", "await add(…)"),
        ("async def mine():\n    pass\nx = mine()\nint(x)", "await mine(…)"),
        ("import json\nasync def mine():\n    pass\njson.dumps(mine())", "write `await` before the call"),
    ],
)
async def test_a_call_that_was_not_awaited_is_told_and_names_no_line_of_ours(
    box: Sandbox, code: str, written: str
) -> None:
    result = await box.run("import asyncio\nawait asyncio.sleep(0)\n" + code, tools=[add])
    assert result.error is not None
    assert written in result.error.hint
    assert "guest" not in result.stderr
    assert "/" not in result.stderr


async def test_a_warning_of_a_coroutine_that_outlives_its_program_names_no_line_of_ours(box: Sandbox) -> None:
    result = await box.run("import asyncio\nawait asyncio.sleep(0)\nx = add(1)\nprint(2)", tools=[add])
    assert result.success
    assert result.stderr == "RuntimeWarning: coroutine 'add' was never awaited\n"


async def test_what_only_speaks_of_coroutines_has_no_such_hint(box: Sandbox) -> None:
    result = await box.run("import asyncio\nasyncio.run(5)", tools=[add])
    assert result.error is not None
    assert "coroutine" in result.error.message
    assert result.error.hint == ""


async def test_every_kind_of_json_and_bytes_survive_both_ways(box: Sandbox) -> None:
    values = [None, True, 0, -1.5, "ü\0\ud800", [1, [2]], {"a": {"b": []}, "\0": 1}, 2**70, ""]
    code = "for value in values:\n    assert echo(value) == value, value\nassert echo(b'\\0\\xff') == b'\\0\\xff'\n"
    code += "assert echo({'x': [b'a', {'\\0': 1}]}) == {'x': [b'a', {'\\0': 1}]}"
    result = await box.run(actbox.Program(code, inputs={"values": values}), tools=[echo])
    assert result.error is None, result.error


async def test_bytes_are_a_result(box: Sandbox) -> None:
    assert (await box.run("give_bytes(100_000) == b'\\0\\xff' * 100_000", tools=[give_bytes])).value is True


async def test_a_large_result_arrives_whole(box: Sandbox) -> None:
    assert (await box.run("len(echo('x' * 5_000_000))", tools=[echo])).value == 5_000_000


async def test_too_large_a_result_or_argument_is_a_tool_error(open_box: OpenBox) -> None:
    box = await open_box(message_bytes=10_000)

    def large() -> str:
        return "x" * 20_000

    result = await box.run("large()", tools=[large])
    assert result.error.kind is ErrorKind.TOOL
    assert "10,000" in result.error.message
    result = await box.run("echo('x' * 20_000)", tools=[echo])
    assert result.error.kind is ErrorKind.TOOL
    assert "too large" in result.error.message


@pytest.mark.slow
async def test_ten_thousand_calls_work(box: Sandbox) -> None:
    result = await box.run("sum(add(n, 0) for n in range(10_000))", tools=[add])
    assert result.value == sum(range(10_000))
    assert result.usage.tool_calls == 10_000


async def test_one_call_more_than_the_budget_ends_the_run(open_box: OpenBox) -> None:
    box = await open_box(tool_calls=50)
    assert (await box.run("for n in range(50): add(n)", tools=[add])).success
    over = await box.run("for n in range(51): add(n)\nprint('never')", tools=[add])
    assert over.error.kind is ErrorKind.BUDGET
    assert over.error.limit == "tool_calls"
    assert over.usage.tool_calls == 50
    assert over.stdout == ""


@pytest.mark.slow
async def test_thousands_of_calls_at_once_all_return(box: Sandbox) -> None:
    code = "import asyncio\nlen(set(await asyncio.gather(*(slow(n, 0.01) for n in range(5000)))))"
    assert (await box.run(code, tools=[slow])).value == 5000


@pytest.mark.slow
async def test_of_calls_at_once_those_that_are_too_many_wait_in_the_guest(box: Sandbox) -> None:
    begun = most = 0
    go_on = asyncio.Event()

    async def held() -> None:
        nonlocal begun, most
        begun += 1
        most = max(most, begun)
        if begun == MAX_CALLS_AT_ONCE:  # from now on only what must not be could come
            asyncio.get_running_loop().call_later(0.5, go_on.set)
        await go_on.wait()
        begun -= 1

    code = f"import asyncio\nlen(await asyncio.gather(*(held() for _ in range({MAX_CALLS_AT_ONCE + 500}))))"
    assert (await box.run(code, tools=[held], timeout=50)).value == MAX_CALLS_AT_ONCE + 500
    assert most == MAX_CALLS_AT_ONCE


@pytest.mark.slow
async def test_large_results_at_once_do_not_block_each_other(box: Sandbox) -> None:
    code = "import asyncio\nsum(map(len, await asyncio.gather(*(echo('x' * 400_000) for n in range(100)))))"
    assert (await box.run(code, tools=[echo], timeout=50)).value == 40_000_000


@pytest.mark.slow
async def test_a_call_that_takes_for_ever_is_started_and_not_finished(box: Sandbox, clock: Clock) -> None:
    cancelled = asyncio.Event()

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    release = threading.Event()

    def forever_sync() -> None:
        release.wait(60)

    code = "import asyncio\nawait asyncio.gather(forever(), forever_sync())"
    events = []
    async for event in box.stream(code, tools=[forever, forever_sync], timeout=30):
        events.append(event)
        if sum(isinstance(event, ToolStarted) for event in events) == 2:
            clock.turn(30)
    release.set()
    assert {event.tool for event in events if isinstance(event, ToolStarted)} == {"forever", "forever_sync"}
    assert not [event for event in events if isinstance(event, ToolFinished)]
    assert isinstance(events[-1], Completed)
    assert events[-1].result.error is not None
    assert events[-1].result.error.kind is ErrorKind.TIMEOUT
    await asyncio.wait_for(cancelled.wait(), 60)


async def test_events_tell_of_calls_in_order_with_output(box: Sandbox) -> None:
    events = [event async for event in box.stream("print('a')\nadd(1, 2)\nprint('b')", tools=[add])]
    kinds = [type(event).__name__ for event in events]
    assert kinds == ["Output", "ToolStarted", "ToolFinished", "Output", "Completed"]
    started, finished = events[1], events[2]
    assert isinstance(started, ToolStarted)
    assert isinstance(finished, ToolFinished)
    assert (started.tool, started.arguments) == ("add", {"a": 1, "b": 2})
    assert (finished.call_id, finished.value, finished.error) == (started.call_id, 3, None)


async def test_a_forked_process_cannot_call_tools(box: Sandbox) -> None:
    code = (
        "import os\n"
        "if os.fork() == 0:\n"
        "    try: add(1)\n"
        "    except ToolError as error: print(error)\n"
        "    os._exit(0)\n"
        "os.wait()\nadd(1, 2)"
    )
    result = await box.run(code, tools=[add])
    assert "first process only" in result.stdout
    assert result.value == 3


async def test_a_forked_process_that_ends_like_a_program_does_not_end_the_run(box: Sandbox) -> None:
    code = "import os\npid = os.fork()\nif pid:\n    os.wait()\nprint('parent' if pid else 'child')\n'value'"
    result = await box.run(code)
    assert sorted(result.stdout.split()) == ["child", "parent"]
    assert result.value == "value"


async def test_what_a_program_may_call_cannot_change_during_its_run(box: Sandbox) -> None:
    tools = [add]

    def grow() -> str:
        tools.append(echo)
        return "grown"

    tools.append(grow)
    result = await box.run("grow()\ncall_tool('echo', value=1)", tools=tools)
    assert result.error is not None
    assert "no tool 'echo'" in result.error.message


async def test_a_tool_sees_the_callers_context(box: Sandbox) -> None:
    import contextvars

    who = contextvars.ContextVar("who", default="nobody")

    async def ask() -> str:
        return who.get()

    def ask_sync() -> str:
        return who.get()

    who.set("me")
    assert (await box.run("[ask(), ask_sync()]", tools=[ask, ask_sync])).value == ["me", "me"]


async def test_an_input_and_a_tool_of_one_name_are_refused(box: Sandbox) -> None:
    with pytest.raises(actbox.InvalidValue, match="add"):
        await box.run(actbox.Program("1", inputs={"add": 1}), tools=[add])


async def test_a_tool_that_is_cancelled_by_itself_is_a_failed_call(box: Sandbox) -> None:
    async def give_up() -> None:
        raise asyncio.CancelledError

    async def wait_for_the_cancelled() -> None:
        task = asyncio.create_task(asyncio.sleep(9))
        task.cancel()
        await task

    for function in (give_up, wait_for_the_cancelled):
        result = await box.run(f"{function.__name__}()", tools=[function], timeout=50)
        assert result.error is not None
        assert result.error.kind is ErrorKind.TOOL
        assert "cancelled" in result.error.message


async def test_output_beyond_the_limit_is_found_also_at_the_very_end(open_box: OpenBox) -> None:
    box = await open_box(output_bytes=10)

    async def hold_the_loop() -> None:
        time.sleep(0.3)

    code = "print('123456789', flush=True)\nhold_the_loop()\nprint('more')"
    result = await box.run(code, tools=[hold_the_loop])
    assert result.error.kind is ErrorKind.OUTPUT_LIMIT
    assert result.stdout == "123456789\n"


async def test_a_call_that_the_program_gave_up_disturbs_no_other(box: Sandbox) -> None:
    is_given_up = asyncio.Event()

    async def late() -> int:
        await is_given_up.wait()
        return 1

    async def give_up() -> None:
        is_given_up.set()

    code = (
        "import asyncio\ntry:\n    await asyncio.wait_for(late(), 0.05)\n"
        "except TimeoutError:\n    print('gave up')\n"
        "await give_up()\nfirst = await slow(2, 0.01)\nawait asyncio.sleep(0.1)\n[first, await slow(3, 0.01)]"
    )
    result = await box.run(code, tools=[late, give_up, slow])
    assert result.stdout == "gave up\n"
    assert result.value == [2, 3]


@pytest.mark.slow
async def test_a_call_that_nobody_awaits_is_told_by_python_itself(box: Sandbox) -> None:
    result = await box.run("add(1)\nawait add(2)", tools=[add])
    assert result.success
    assert "never awaited" in result.stderr
    assert result.usage.tool_calls == 1


async def test_a_tool_may_use_the_sandbox_that_called_it(box: Sandbox) -> None:
    async def inner(code: str) -> Any:
        return (await box.run(code)).value

    assert (await box.run("inner('20 + 1') * 2", tools=[inner])).value == 42


async def test_cancelling_a_run_cancels_its_tools(box: Sandbox) -> None:
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def forever() -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    task = asyncio.create_task(box.run("forever()", tools=[forever]))
    await asyncio.wait_for(begun.wait(), 60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(cancelled.wait(), 60)


async def test_tools_that_take_long_count_as_wall_time_only(box: Sandbox) -> None:
    usage = (await box.run("slow(1, 0.3)", tools=[slow])).usage
    assert usage.wall_ms >= 300
    assert usage.cpu_ms < 200


@pytest.mark.parametrize("give_up", ["SystemExit(3)", "StopIteration()", "asyncio.CancelledError()"])
async def test_whatever_a_tool_raises_the_program_gets_it_as_a_tool_error(box: Sandbox, give_up: str) -> None:
    def raises() -> None:
        raise eval(give_up)

    async def raises_async() -> None:
        raise eval(give_up)

    for tool in (raises, raises_async):
        code = f"try:\n    {tool.__name__}()\nexcept ToolError as error:\n    print(error.tool)"
        result = await box.run(code, tools=[tool], timeout=30)
        assert result.stdout == f"{tool.__name__}\n", result.error


async def test_a_program_that_ends_does_not_wait_for_calls_of_its_daemon_threads(box: Sandbox) -> None:
    code = (
        "import threading, time\nthreading.Thread(target=slow, args=(1, 300), daemon=True).start()\n"
        "time.sleep(0.1)\n'end'"
    )
    result = await box.run(code, tools=[slow], timeout=30)
    assert result.value == "end"


@pytest.mark.one_engine_first
async def test_a_tool_called_display_takes_the_place_of_the_built_in_one(box: Sandbox) -> None:
    def display(number: int) -> int:
        return number + 1

    result = await box.run("display(1)", tools=[display])
    assert (result.value, result.stdout) == (2, ""), result
