"""Sessions: what lasts from run to run, and what does not."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio

import actbox
from actbox import Completed, ErrorKind, Output, Program, Sandbox, SandboxStopped, Session, ToolStarted
from actbox.sandbox.channel.link import Link
from tests.clock import Clock
from tests.conftest import OpenBox
from tests.contract.left_behind import nothing_left_behind
from tests.waiting import until

pytestmark = pytest.mark.one_engine_first


@pytest_asyncio.fixture
async def session(box: Sandbox) -> AsyncIterator[Session]:
    """A session that has begun."""
    if not box.traits.sessions:
        pytest.skip(f"{box.traits.engine} has no sessions")
    async with box.session() as opened:
        yield opened


async def is_there(box: Sandbox, name: str) -> None:
    """Wait until a file is in the workspace."""

    async def found() -> bool:
        return name in {entry.path for entry in await box.list_files()}

    await until(found)


OpenSession = Callable[..., Awaitable[Session]]


@pytest.fixture
def open_session(open_box: OpenBox) -> OpenSession:
    """Return a function that opens a session in a box of its own."""

    async def open_one(**given: object) -> Session:
        box: Sandbox = await open_box(**given)
        if not box.traits.sessions:
            pytest.skip(f"{box.traits.engine} has no sessions")
        opened = box.session()
        await opened.start()
        return opened

    return open_one


def add(a: int, b: int = 10) -> int:
    """Add."""
    return a + b


# What lasts


async def test_variables_imports_functions_and_classes_last(session: Session) -> None:
    begun = await session.run("import math\nx = [1]\ndef double(n): return 2 * n\nclass Point:\n    y = 3\np = Point()")
    assert begun.success
    assert begun.state_kept is True
    again = await session.run("x.append(math.floor(2.5))\n[x, double(21), p.y, isinstance(p, Point)]")
    assert again.value == [[1, 2], 42, 3, True]


async def test_the_working_folder_and_the_environment_last(session: Session) -> None:
    await session.run("import os\nos.makedirs('deep/er')\nos.chdir('deep/er')\nos.environ['KEPT'] = 'yes'")
    assert (await session.run("[os.getcwd().endswith('deep/er'), os.environ['KEPT']]")).value == [True, "yes"]


async def test_an_open_file_goes_on_where_it_was(session: Session) -> None:
    await session.run("f = open('lines.txt', 'w+')\nf.write('one\\ntwo\\n')\nf.seek(0)\nfirst = f.readline()")
    assert (await session.run("[first, f.readline()]")).value == ["one\n", "two\n"]


async def test_a_generator_goes_on_in_the_next_run(session: Session) -> None:
    await session.run("def count():\n    n = 0\n    while True:\n        n += 1\n        yield n\nc = count()\nnext(c)")
    assert (await session.run("next(c)")).value == 2


async def test_an_asynchronous_generator_goes_on_in_the_next_run(session: Session) -> None:
    await session.run("async def count():\n    for n in range(9):\n        yield n\nc = count()\nawait anext(c)")
    assert (await session.run("await anext(c)")).value == 1


async def test_a_thread_and_a_child_process_go_on(session: Session) -> None:
    await session.run(
        "import queue, subprocess, threading\nq, answers = queue.Queue(), queue.Queue()\n"
        "def work():\n    while True: answers.put(2 * q.get())\n"
        "threading.Thread(target=work, daemon=True).start()\n"
        "cat = subprocess.Popen(['cat'], stdin=subprocess.PIPE, stdout=subprocess.PIPE)"
    )
    told = await session.run("q.put(21)\n[answers.get(), cat.communicate(b'meow')[0].decode()]")
    assert told.value == [42, "meow"]


async def test_the_module_is_the_same(session: Session) -> None:
    await session.run("import sys\nme = sys.modules['__main__']\nme.x = 5")
    assert (await session.run("[x, me is sys.modules['__main__'], __name__]")).value == [5, True, "__main__"]


async def test_a_class_of_an_earlier_run_can_be_pickled(session: Session) -> None:
    await session.run("class Point:\n    def __init__(self, x): self.x = x")
    assert (await session.run("import pickle\npickle.loads(pickle.dumps(Point(3))).x")).value == 3


# What does not


async def test_the_value_of_an_earlier_run_is_not_given_again(session: Session) -> None:
    assert (await session.run("41 + 1")).value == 42
    again = await session.run("x = 1")
    assert (again.value, again.value_text) == (None, None)


async def test_output_and_artifacts_are_those_of_the_run(session: Session) -> None:
    first = await session.run("print('one')\nopen('output/a.txt', 'w').write('a')\nNone")
    second = await session.run("print('two')\nopen('output/b.txt', 'w').write('b')\nNone")
    assert [first.stdout, second.stdout] == ["one\n", "two\n"]
    assert [[a.name for a in result.artifacts] for result in (first, second)] == [["a.txt"], ["b.txt"]]


@pytest.mark.slow
async def test_figures_are_saved_at_the_end_of_each_run(session: Session) -> None:
    for number in (1, 2):
        result = await session.run("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nNone")
        assert [artifact.name for artifact in result.artifacts] == [f"figure-{number}.png"]


async def test_two_sessions_share_files_and_no_variables(box: Sandbox, session: Session) -> None:
    async with box.session() as other:
        await session.run("x = 1\nopen('shared.txt', 'w').write('hello')")
        told = await other.run("['x' in globals(), open('shared.txt').read()]")
    assert told.value == [False, "hello"]
    assert (await box.run("'x' in globals()")).value is False
    assert (await box.run("1")).state_kept is None


@pytest.mark.slow
async def test_usage_is_that_of_the_run(session: Session) -> None:
    first = await session.run("sum(range(10_000_000))\nadd(1)\nadd(2)", tools=[add])
    second = await session.run("1")
    assert first.usage.tool_calls == 2
    assert second.usage.tool_calls == 0
    assert second.usage.cpu_ms < first.usage.cpu_ms


# Programs: inputs, files, tools, names


@pytest.mark.slow
async def test_inputs_are_bound_in_each_run_and_last(session: Session) -> None:
    await session.run(Program("a + 1", inputs={"a": 1, "b": 2}))
    assert (await session.run(Program("[a, b]", inputs={"a": 5}))).value == [5, 2]


async def test_files_of_a_program_are_placed(session: Session) -> None:
    assert (await session.run(Program("open('input/d.txt').read()", files={"d.txt": "data"}))).value == "data"


async def test_tools_may_differ_from_run_to_run(session: Session) -> None:
    def greet(name: str) -> str:
        return f"hello {name}"

    assert (await session.run("kept = add\nadd(1, 2)", tools=[add])).value == 3
    told = await session.run("['add' in globals(), greet('you')]", tools=[greet])
    assert told.value == [False, "hello you"]
    gone = await session.run("kept(1)", tools=[greet])
    assert gone.error is not None
    assert gone.error.kind is ErrorKind.TOOL
    missing = await session.run("add(1)")
    assert missing.error is not None
    assert missing.error.type == "NameError"


async def test_a_name_that_a_program_gave_another_meaning_is_not_taken_away(session: Session) -> None:
    await session.run("add = 'mine'", tools=[add])
    assert (await session.run("add")).value == "mine"


@pytest.mark.slow
async def test_each_program_decides_by_itself_whether_tools_are_awaited(session: Session) -> None:
    assert (await session.run("add(1)", tools=[add])).value == 11
    both = "import asyncio\nawait asyncio.gather(add(1), add(2))"
    assert (await session.run(both, tools=[add])).value == [11, 12]
    assert (await session.run("add(1)", tools=[add])).value == 11


@pytest.mark.slow
async def test_tool_calls_are_numbered_in_each_run(session: Session) -> None:
    for _ in range(2):
        events = [event async for event in session.stream("add(1)\nadd(2)", tools=[add])]
        assert [event.call_id for event in events if isinstance(event, ToolStarted)] == [1, 2]


async def test_a_traceback_shows_the_lines_of_every_run_that_it_goes_through(session: Session) -> None:
    await session.run("def fail(n):\n    return n / 0  # the first")
    result = await session.run("\n\nfail(1)  # the second")
    assert result.error is not None
    assert "# the first" in result.error.traceback
    assert "# the second" in result.error.traceback
    assert 'File "program.py", line 2, in fail' in result.error.traceback
    assert 'File "program-2.py", line 3' in result.error.traceback
    assert result.error.line == 3


async def test_a_program_of_another_name_keeps_it(session: Session) -> None:
    for shown in ("step.py", "step-2.py"):
        result = await session.run(Program("1 / 0", name="step.py"))
        assert result.error is not None
        assert f'File "{shown}", line 1' in result.error.traceback


# Errors


@pytest.mark.parametrize(
    "end", ["1 / 0", "raise MemoryError", "import sys\nsys.exit(3)", "x = = 1", "bytearray(2**50)"]
)
async def test_what_was_bound_before_an_error_stays(session: Session, end: str) -> None:
    await session.run("earlier = 1")
    result = await session.run(f"before = 2\n{end}")
    assert not result.success
    assert result.state_kept is True
    told = await session.run("[earlier, globals().get('before')]")
    assert told.value == [1, None if "= =" in end else 2]


async def test_an_exit_ends_the_run_and_not_the_session(session: Session) -> None:
    result = await session.run("import sys\nsys.exit(7)")
    assert result.exit_code == 7
    assert session.alive
    assert (await session.run("sys.exit()")).success
    assert (await session.run("import sys\nawait __import__('asyncio').sleep(0)\nsys.exit(4)")).exit_code == 4
    assert (await session.run("1")).value == 1


@pytest.mark.parametrize(
    ("end", "code", "kind"),
    [
        ("os._exit(3)", 3, ErrorKind.EXIT),
        ("os._exit(0)", 0, None),
        ("os.kill(os.getpid(), 9)", 137, ErrorKind.CRASH),
        ("os.abort()", 134, ErrorKind.CRASH),
    ],
)
async def test_a_session_whose_process_ended_says_so(
    session: Session, end: str, code: int, kind: ErrorKind | None
) -> None:
    result = await session.run(f"import os\nprint('before', flush=True)\n{end}")
    assert result.exit_code == code
    assert (result.error.kind if result.error else None) is kind
    assert result.stdout == "before\n"
    assert result.state_kept is False
    assert not session.alive
    later = await session.run("1")
    assert later.error is not None
    assert later.error.kind is ErrorKind.SANDBOX
    assert later.error.message.startswith("the session has ended: ")
    assert "open a new one" in later.error.hint
    assert (later.exit_code, later.state_kept) == (125, False)


async def test_a_session_that_ended_between_two_runs_says_so(session: Session) -> None:
    await session.run("import os, threading\nthreading.Timer(0.05, os._exit, [5]).start()")
    while session.alive:
        await asyncio.sleep(0.01)
    result = await session.run("1")
    assert result.error is not None
    assert result.error.message == "the session has ended: the program ended itself with exit code 5"


async def test_a_forked_child_ends_with_its_program(session: Session) -> None:
    forked = await session.run("import os, sys\nx = 1\npid = os.fork()\nif pid:\n    status = os.waitpid(pid, 0)[1]\nx")
    assert forked.value == 1
    assert (await session.run("status")).value == 0


# Time


@pytest.mark.usefixtures("patient")
async def test_the_state_survives_a_program_that_runs_out_of_time(session: Session, clock: Clock) -> None:
    events = session.stream("x = 'kept'; print('begun')\nwhile True:\n    pass", timeout=30)
    result = await clock.run_out(events, 30, after="begun")
    assert result.error is not None
    assert result.error.kind is ErrorKind.TIMEOUT
    assert result.error.line in (2, 3)
    assert "still there" in result.error.hint
    assert (result.exit_code, result.state_kept) == (124, True)
    assert (await session.run("x")).value == "kept"


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize(
    "wait",
    [
        "import time\ntime.sleep(60)",
        "never()",
        "await never()",
        pytest.param("import asyncio\nawait asyncio.sleep(60)", marks=pytest.mark.long),
        "import asyncio\nasyncio.run(asyncio.sleep(60))",
        "import asyncio\nawait asyncio.gather(never(), never())",
        "import asyncio\nasync def spin():\n    while True: pass\nawait asyncio.create_task(spin())",
        "import subprocess\nsubprocess.run(['sleep', '60'])",
        pytest.param("import threading\nthreading.Event().wait()", marks=pytest.mark.long),
    ],
)
async def test_whatever_a_program_waits_for_it_can_be_interrupted(session: Session, clock: Clock, wait: str) -> None:
    async def never() -> None:
        await asyncio.Event().wait()

    for _ in range(2):
        events = session.stream(f"x = 1\nprint('begun')\n{wait}", tools=[never], timeout=30)
        result = await clock.run_out(events, 30, after="begun")
        assert result.error is not None
        assert result.error.kind is ErrorKind.TIMEOUT
        assert result.state_kept is True
    assert (await session.run("[x, add(1)]", tools=[add])).value == [1, 11]
    assert (await session.run("await add(x)", tools=[add])).value == 11


@pytest.mark.usefixtures("patient")
@pytest.mark.slow
@pytest.mark.parametrize("call", ["add(1, 2)", "await add(1, 2)", "await asyncio.wait_for(add(1, 2), 9)"])
async def test_tool_calls_stay_in_order_however_often_they_are_interrupted(session: Session, call: str) -> None:
    await session.run("import asyncio")
    for number in range(20):
        code = f"while True:\n    assert {call} == 3"
        result = await session.run(code, tools=[add], timeout=0.02 + number / 1000)
        assert result.error is not None
        assert (result.error.kind, result.state_kept) == (ErrorKind.TIMEOUT, True)
    assert (await session.run("add(5)", tools=[add])).value == 15


async def test_an_interrupt_that_comes_while_an_answer_is_handed_on_loses_no_task(session: Session) -> None:
    """The guest sends it to itself, right where a task is to be told that what it waits for is there."""
    result = await session.run(
        "import asyncio, os, signal\nloop = asyncio.get_running_loop()\nhand_on = loop.call_soon\n"
        "def interrupted(*args, **kwargs):\n"
        "    del loop.call_soon\n    os.kill(os.getpid(), signal.SIGINT)\n    return hand_on(*args, **kwargs)\n"
        "loop.call_soon = interrupted\nawait add(1)",
        tools=[add],
        timeout=30,
    )
    assert result.error is not None
    assert (result.error.type, result.state_kept) == ("KeyboardInterrupt", True)
    assert (await session.run("await add(5)", tools=[add])).value == 15


@pytest.mark.usefixtures("patient")
async def test_a_program_is_interrupted_although_answers_to_it_are_always_underway(
    session: Session, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a machine that is so busy that the guest has never read the last answer when the host looks."""
    await session.run("x = 1")
    begun = asyncio.Event()

    async def tell() -> None:
        begun.set()

    run = asyncio.create_task(session.run("while True:\n    tell()", tools=[tell], timeout=30))
    await begun.wait()
    monkeypatch.setattr(Link, "unheard", True)
    clock.turn(30)
    result = await run
    assert result.error is not None
    assert (result.error.kind, result.state_kept) == (ErrorKind.TIMEOUT, True)


@pytest.mark.usefixtures("patient")
@pytest.mark.slow
@pytest.mark.parametrize("run", ["await spin()", "asyncio.run(spin())"])
async def test_a_loop_that_is_never_idle_can_be_interrupted(session: Session, run: str) -> None:
    await session.run("import asyncio\nasync def spin():\n    while True: await asyncio.sleep(0)")
    for number in range(40):
        result = await session.run(run, timeout=0.02 + number / 2000)
        assert result.error is not None
        assert (result.error.kind, result.state_kept) == (ErrorKind.TIMEOUT, True)


@pytest.mark.usefixtures("patient")
@pytest.mark.slow
async def test_a_program_whose_time_is_over_before_its_guest_has_read_it_is_interrupted(session: Session) -> None:
    """The guest is stopped meanwhile, as on a machine that has much else to do."""
    await session.run(
        "import os, subprocess\nx = 1\nme = os.getpid()\n"
        "stop = f'sleep 0.1; kill -STOP {me}; sleep 0.5; kill -CONT {me}'\nsubprocess.Popen(['/bin/sh', '-c', stop])"
    )
    await asyncio.sleep(0.3)
    result = await session.run("while True: pass", timeout=0.05)
    assert result.error is not None
    assert (result.error.kind, result.state_kept) == (ErrorKind.TIMEOUT, True)
    assert (await session.run("x")).value == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "refusal",
    [
        "import time\nwhile True:\n    try:\n        print('begun', flush=True)\n        time.sleep(60)\n"
        "    except KeyboardInterrupt: pass",
        "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('begun')\nwhile True: pass",
        pytest.param(
            "import asyncio\nwhile True:\n    try:\n        print('begun', flush=True)\n"
            "        await asyncio.sleep(60)\n    except asyncio.CancelledError: pass",
            marks=pytest.mark.long,
        ),
    ],
)
async def test_a_program_that_refuses_to_be_interrupted_ends_its_session(
    session: Session, clock: Clock, refusal: str
) -> None:
    result = await clock.run_out(session.stream(refusal, timeout=30), 30, after="begun")
    assert result.error is not None
    assert result.error.kind is ErrorKind.TIMEOUT
    assert "state of the session is lost" in result.error.hint
    assert (result.exit_code, result.state_kept) == (124, False)
    assert not session.alive


@pytest.mark.usefixtures("patient")
@pytest.mark.slow
async def test_output_of_a_program_that_is_interrupted_is_its_own(session: Session, clock: Clock) -> None:
    # Not a bare loop: before CPython 3.13 its jump back is not in the `try`, and is where the interrupt comes.
    code = "try:\n    print('begun')\n    while True: sum(range(1000))\nfinally:\n    print('cleaned up')"
    result = await clock.run_out(session.stream(code, timeout=30), 30, after="begun\n")
    assert result.stdout == "begun\ncleaned up\n"
    assert (await session.run("print('next')")).stdout == "next\n"


@pytest.mark.usefixtures("patient")
@pytest.mark.usefixtures("patient")
@pytest.mark.slow
async def test_a_handler_for_interrupts_does_not_outlast_its_program(session: Session) -> None:
    await session.run("import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)")
    result = await session.run("while True: pass", timeout=0.3)
    assert result.state_kept is True


async def test_an_interrupt_between_two_runs_is_ignored(box: Sandbox, session: Session) -> None:
    await session.run(
        "import os, signal, threading\ndef interrupt():\n    os.kill(os.getpid(), signal.SIGINT)\n"
        "    open('interrupted', 'x').close()\nthreading.Timer(0.05, interrupt).start()"
    )
    await is_there(box, "interrupted")
    assert (await session.run("'fine'")).value == "fine"


@pytest.mark.usefixtures("patient")
@pytest.mark.slow
async def test_a_program_may_interrupt_itself(session: Session) -> None:
    code = "import signal\ntry:\n    signal.raise_signal(signal.SIGINT)\nexcept KeyboardInterrupt:\n    pass"
    assert (await session.run(code)).success
    assert (await session.run("while True: pass", timeout=0.2)).state_kept is True


@pytest.mark.usefixtures("patient")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "code", "kind"),
    [
        ({"output_bytes": 10_000}, "while True: print('x' * 100)", ErrorKind.OUTPUT_LIMIT),
        ({"tool_calls": 5}, "while True: add(1)", ErrorKind.BUDGET),
        ({"wall_seconds": 30}, "print('begun')\nwhile True: pass", ErrorKind.TIMEOUT),
    ],
)
async def test_limits_that_hold_for_each_run_leave_the_state(
    open_session: OpenSession, clock: Clock, limit: dict[str, float], code: str, kind: ErrorKind
) -> None:
    session = await open_session(**limit)
    for _ in range(2):
        if kind is ErrorKind.TIMEOUT:
            result = await clock.run_out(session.stream(f"x = 1\n{code}"), 30, after="begun")
        else:
            result = await session.run(f"x = 1\n{code}", tools=[add])
        assert result.error is not None
        assert (result.error.kind, result.state_kept) == (kind, True)
    assert (await session.run("x")).value == 1


@pytest.mark.slow
async def test_a_session_that_takes_too_much_processor_time_is_ended(open_session: OpenSession) -> None:
    session = await open_session(cpu_seconds=1)
    assert (await session.run("pass")).state_kept is True
    ended = await session.run("while True: pass")
    assert ended.error is not None
    assert (ended.error.kind, ended.error.limit) == (ErrorKind.TIMEOUT, "cpu_seconds")
    assert ended.state_kept is False


@pytest.mark.slow
async def test_programs_of_a_session_share_its_processor_time(open_session: OpenSession) -> None:
    session = await open_session(cpu_seconds=1)
    spend = "import time\nend = time.process_time() + 0.4\nwhile time.process_time() < end: pass"
    results = [await session.run(spend) for _ in range(8)]
    assert results[0].state_kept is True
    # It may be found out between two programs as well: then the next is told, as one of a session that has ended.
    ended = next(result for result in results if result.state_kept is False)
    assert ended.error is not None
    assert "the program used more than 1 second of processor time" in ended.error.message


# Event loop


async def test_a_task_goes_on_between_two_runs(session: Session) -> None:
    await session.run(
        "import asyncio\nticks = []\nasync def tick():\n    while True:\n"
        "        ticks.append(1)\n        await asyncio.sleep(0.01)\ntask = asyncio.create_task(tick())\n"
        "await asyncio.sleep(0)"
    )
    before = (await session.run("len(ticks)")).value
    for _ in range(500):
        await asyncio.sleep(0.02)
        if (await session.run("len(ticks)")).value > before:
            break
    else:
        pytest.fail("it does not go on")
    assert (await session.run("task.cancel()\nawait asyncio.sleep(0)\ntask.cancelled()")).value is True


async def test_all_programs_that_await_share_one_loop(session: Session) -> None:
    await session.run("import asyncio\nloop = asyncio.get_running_loop()\nlock = asyncio.Lock()\nawait lock.acquire()")
    assert (await session.run("await asyncio.sleep(0)\n[asyncio.get_running_loop() is loop, lock.locked()]")).value == [
        True,
        True,
    ]


async def test_a_program_without_await_may_run_a_loop_of_its_own(session: Session) -> None:
    await session.run("import asyncio\nqueue = asyncio.Queue()\nawait queue.put(7)")
    assert (await session.run("async def f(): return 3\nasyncio.run(f())")).value == 3
    assert (await session.run("await queue.get()")).value == 7


async def test_a_loop_that_was_closed_is_made_anew(session: Session) -> None:
    await session.run("import asyncio\nawait asyncio.sleep(0)")
    await session.run("asyncio.get_event_loop().close()")
    assert (await session.run("await asyncio.sleep(0, 'fine')")).value == "fine"


async def test_what_is_printed_between_two_runs_belongs_to_the_next(session: Session) -> None:
    await session.run(
        "import asyncio\nasync def later():\n    await asyncio.sleep(0.05)\n    print('later')\n"
        "task = asyncio.create_task(later())\nawait asyncio.sleep(0)"
    )
    result = await session.run("await task\nprint('now')")
    assert result.stdout == "later\nnow\n"


async def test_a_failed_task_is_reported_in_a_later_run(session: Session) -> None:
    await session.run(
        "import asyncio, gc\nasync def fail(): raise ValueError('lost')\ntask = asyncio.create_task(fail())\n"
        "await asyncio.sleep(0)"
    )
    result = await session.run("await asyncio.sleep(0.01)\ndel task\ngc.collect()\nNone")
    assert "Task exception was never retrieved" in result.stderr
    assert "ValueError: lost" in result.stderr


@pytest.mark.slow
async def test_a_task_that_exits_between_two_runs_does_not_end_the_session(box: Sandbox, session: Session) -> None:
    await session.run(
        "import asyncio, os, sys\nasync def leave():\n    while not os.path.exists('go'): await asyncio.sleep(0.01)\n"
        "    open('left', 'x').close()\n    sys.exit(3)\n"
        "task = asyncio.create_task(leave())\nawait asyncio.sleep(0)"
    )
    await box.write_text("go", "")
    await is_there(box, "left")
    result = await session.run("task.done()")
    assert result.value is True
    assert "SystemExit: 3" in result.stderr


async def test_a_tool_that_is_called_between_two_runs_fails(box: Sandbox, session: Session) -> None:
    await session.run(
        "import asyncio, os\nfailed = []\nasync def call():\n"
        "    while not os.path.exists('go'): await asyncio.sleep(0.01)\n"
        "    try: await add(1)\n    except ToolError as error: failed.append(str(error))\n"
        "    open('called', 'x').close()\ntask = asyncio.create_task(call())\nawait asyncio.sleep(0)",
        tools=[add],
    )
    await box.write_text("go", "")
    await is_there(box, "called")
    assert (await session.run("failed")).value == ["tools answer only while a program of the session runs"]


@pytest.mark.slow
async def test_a_tool_call_that_is_not_awaited_in_its_run_fails_and_disturbs_no_other(session: Session) -> None:
    async def slow(number: int) -> int:
        if number == 1:
            await asyncio.Event().wait()
        return number

    await session.run(
        "import asyncio\nasync def call():\n    try: return await slow(1)\n    except ToolError: return 'failed'\n"
        "task = asyncio.create_task(call())\nawait asyncio.sleep(0.01)",
        tools=[slow],
    )
    told = await session.run("[await slow(2), await task]", tools=[slow])
    assert told.value == [2, "failed"]


# Order


@pytest.mark.slow
async def test_runs_of_one_session_queue_in_the_order_of_their_calls(session: Session) -> None:
    await session.run("import time\nseen = []")
    code = "seen.append((NUMBER, 'in'))\ntime.sleep(0.02)\nseen.append((NUMBER, 'out'))"
    await asyncio.gather(*(session.run(code.replace("NUMBER", str(number))) for number in range(5)))
    expected = [(number, word) for number in range(5) for word in ("in", "out")]
    assert (await session.run("seen")).value == expected


async def test_a_run_that_waits_in_the_queue_can_be_cancelled(session: Session) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        begun.set()
        await go_on.wait()

    first = asyncio.create_task(session.run("hold()\nx = 1", tools=[hold]))
    await begun.wait()
    second = asyncio.create_task(session.run("x = 2"))
    await asyncio.sleep(0.05)
    second.cancel()
    go_on.set()
    assert (await first).success
    assert (await session.run("x")).value == 1


@pytest.mark.usefixtures("patient")
async def test_a_cancelled_run_is_interrupted_and_the_state_survives(session: Session) -> None:
    begun = asyncio.Event()

    async def begin() -> None:
        begun.set()

    task = asyncio.create_task(session.run("x = 1\nbegin()\nwhile True: pass", tools=[begin]))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await session.run("x")).value == 1


@pytest.mark.usefixtures("patient")
@pytest.mark.slow
async def test_closing_a_stream_interrupts_the_program(session: Session) -> None:
    events = session.stream("x = 1\nprint('begun', flush=True)\nwhile True: pass")
    async for event in events:
        assert isinstance(event, Output)
        break
    await events.aclose()  # type: ignore[attr-defined]
    assert (await session.run("x")).value == 1


async def test_a_cancelled_program_that_refuses_to_end_ends_its_session(session: Session) -> None:
    code = (
        "import time\nwhile True:\n    try:\n        print('begun', flush=True)\n        time.sleep(60)\n"
        "    except KeyboardInterrupt: pass"
    )
    events = session.stream(code)
    await anext(events)
    await events.aclose()  # type: ignore[attr-defined]
    assert not session.alive


async def test_a_run_streams_its_events(session: Session) -> None:
    events = [event async for event in session.stream("print(add(1))", tools=[add])]
    assert [type(event).__name__ for event in events] == ["ToolStarted", "ToolFinished", "Output", "Completed"]
    assert isinstance(events[-1], Completed)


async def test_whoever_has_read_the_result_holds_up_nobody(session: Session) -> None:
    events = session.stream("1")
    async for event in events:
        if isinstance(event, Completed):
            break
    assert (await asyncio.wait_for(session.run("2"), 60)).value == 2


# Beginning and ending


async def test_a_session_begins_with_its_first_run(box: Sandbox) -> None:
    if not box.traits.sessions:
        pytest.skip("no sessions")
    session = box.session()
    assert session.alive
    assert (await session.run("x = 1\nx")).value == 1
    await session.start()
    assert (await session.run("x")).value == 1


async def test_a_closed_session_says_so(box: Sandbox, session: Session) -> None:
    await session.close()
    await session.close()
    assert not session.alive
    with pytest.raises(SandboxStopped, match="closed"):
        await session.run("1")
    assert (await box.run("1")).value == 1


@pytest.mark.usefixtures("patient")
async def test_closing_ends_the_interpreter_as_a_script_ends(box: Sandbox, session: Session) -> None:
    await session.run(
        "import asyncio, atexit\natexit.register(lambda: open('at-exit', 'w').write('done'))\n"
        "held = open('held', 'w')\nheld.write('written')\n"
        "async def work():\n    try: await asyncio.sleep(60)\n    finally: open('task', 'w').write('cleaned')\n"
        "task = asyncio.create_task(work())\nawait asyncio.sleep(0)"
    )
    await session.close()
    found = [await box.read_text(name) for name in ("at-exit", "held", "task")]
    assert found == ["done", "written", "cleaned"]


async def test_closing_cancels_the_program_that_runs(session: Session) -> None:
    begun = asyncio.Event()

    async def begin() -> None:
        begun.set()

    running = asyncio.create_task(session.run("import time\nbegin()\ntime.sleep(60)", tools=[begin]))
    waiting = asyncio.create_task(session.run("1"))
    await begun.wait()
    await session.close()
    result = await running
    assert result.error is not None
    assert (result.error.kind, result.state_kept) == (ErrorKind.CANCELLED, False)
    with pytest.raises(SandboxStopped):
        await waiting


async def test_stopping_the_sandbox_ends_its_sessions(open_box: OpenBox) -> None:
    box = await open_box()
    if not box.traits.sessions:
        pytest.skip("no sessions")
    idle, busy, unused = box.session(), box.session(), box.session()
    begun = asyncio.Event()

    async def begin() -> None:
        begun.set()

    await idle.run("x = 1")
    running = asyncio.create_task(busy.run("import time\nbegin()\ntime.sleep(60)", tools=[begin]))
    await begun.wait()
    await box.stop()
    result = await running
    assert result.error is not None
    assert (result.error.kind, result.state_kept) == (ErrorKind.CANCELLED, False)
    await box.start()
    for session in (idle, busy, unused):
        assert not session.alive
        with pytest.raises(SandboxStopped):
            await session.run("1")


async def test_a_session_needs_a_sandbox_that_runs(engine: str) -> None:
    box = actbox.open_sandbox(engine, allow_unisolated=True)
    if not box.traits.sessions:
        pytest.skip("no sessions")
    with pytest.raises(SandboxStopped):
        box.session()


async def test_what_cannot_be_forked_says_so(box: Sandbox) -> None:
    if box.traits.fork:
        pytest.skip("sessions can be forked here")
    with pytest.raises(actbox.Unsupported):
        box.session(forkable=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "end",
    [
        pytest.param("1", marks=pytest.mark.long),
        pytest.param("1 / 0", marks=pytest.mark.long),
        "while True: pass",
        pytest.param("import os\nos._exit(1)", marks=pytest.mark.long),
        "close",
    ],
)
async def test_however_a_session_ends_nothing_is_left_behind(
    open_box: OpenBox, end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # tests that run beside this one make folders too
    box = await open_box()
    if not box.traits.sessions:
        pytest.skip("no sessions")
    async with box.session() as warm:
        await warm.run("1")
    async with nothing_left_behind():
        async with box.session() as session:
            await session.run("import subprocess\np = subprocess.Popen(['sleep', '60'])")
            if end != "close":
                await session.run(end, timeout=0.3)
    async with nothing_left_behind():
        started = asyncio.create_task(box.session().start())
        await asyncio.sleep(0)
        started.cancel()
        with pytest.raises(asyncio.CancelledError):
            await started


@pytest.mark.slow
def test_the_plain_face_has_sessions(engine: str) -> None:
    with actbox.sync.open_sandbox(engine, allow_unisolated=True) as box:
        if not box.traits.sessions:
            pytest.skip("no sessions")
        with box.session() as session:
            assert session.run("x = 20").state_kept is True
            assert session.alive
            events = list(session.stream("print(add(x))", tools=[add]))
            assert isinstance(events[-1], Completed)
            assert events[-1].result.stdout == "30\n"
        assert not session.alive


# A hostile program

FIND_CHANNEL = (
    "import os, socket, stat, struct, time\n"
    "open_ones = [n for n in range(3, 100) if os.path.exists(f'/proc/self/fd/{n}')]\n"
    "channel = next(n for n in open_ones if stat.S_ISSOCK(os.fstat(n).st_mode))\n"
    "def say(m): os.write(channel, struct.pack('!II', len(m), 0) + m)\n"
)


@pytest.mark.parametrize(
    "abuse",
    [
        "os.close(channel)\ntime.sleep(60)",
        "os.write(channel, b'\\xff' * 8)\ntime.sleep(60)",
        'say(b\'{"t":"nonsense"}\')\ntime.sleep(60)',
        'say(b\'{"t":"done","exit":0,"run":7}\')\ntime.sleep(60)',
        'say(b\'{"t":"done","exit":0}\')\ntime.sleep(60)',
    ],
)
async def test_a_program_that_abuses_the_channel_ends_its_session(session: Session, abuse: str) -> None:
    assert (await session.run("x = 1")).success
    result = await session.run(FIND_CHANNEL + abuse)
    assert result.error is not None
    assert (result.error.kind, result.state_kept) == (ErrorKind.PROTOCOL, False)
    assert not session.alive


async def test_a_forged_result_does_not_become_that_of_the_next_program(session: Session) -> None:
    forged = '{"t":"done","exit":0,"run":%d,"value":"forged"}'
    await session.run(FIND_CHANNEL)
    await session.run(f"say(b'{forged % 2}')\nsay(b'{forged % 2}')")
    result = await session.run("'true'")
    assert result.value != "forged"
    assert result.error is not None
    assert result.error.kind is ErrorKind.PROTOCOL
