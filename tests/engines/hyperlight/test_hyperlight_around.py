"""What is around the machine, over a stand-in: the worker, questions and answers, the pool, and our code inside."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import actbox
from actbox import ErrorKind, FileMount, Limits, Policy, Sandbox, SandboxStopped
from actbox.sandbox.engines.hyperlight import sources
from actbox.sandbox.engines.hyperlight.engine import HyperlightSandbox
from actbox.sandbox.engines.hyperlight.guest_files import GuestFiles
from actbox.sandbox.engines.hyperlight.machine import Machine, MachineLost
from actbox.sandbox.engines.hyperlight.options import GuestOptions
from actbox.sandbox.workspace import Workspace, open_folder
from actbox.testing import SandboxContract
from tests.clock import Clock
from tests.engines.hyperlight.conftest import STAND_IN
from tests.sandbox.deep_folders import deepen, deepened, few_descriptors
from tests.waiting import wait_until

trying = import_module("actbox.sandbox.engines.hyperlight.check")
pytestmark = pytest.mark.usefixtures("stand_in")


@pytest.mark.engines  # a process for each machine; the tests below are the ordinary run's
class TestHyperlightOverAStandIn(SandboxContract):
    """The kit, but for what only a machine does."""

    share_box = True
    # What stands in for a machine is a process, which can have others beside it.
    test_processes_are_counted = test_a_share_of_the_processors_is_not_exceeded = None  # type: ignore[assignment]

    async def open(self, policy: Policy) -> Sandbox:
        return actbox.open_sandbox("hyperlight", policy=policy)


@pytest_asyncio.fixture
async def box() -> AsyncIterator[HyperlightSandbox]:
    async with actbox.open_sandbox("hyperlight", machines=2) as opened:
        assert isinstance(opened, HyperlightSandbox)
        yield opened


def waiting(box: HyperlightSandbox) -> list[int]:
    return [machine.pid for machine in box._pool._waiting]


def is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.slow
async def test_a_machine_is_used_again_and_every_run_is_fresh(box: HyperlightSandbox) -> None:
    (first,) = waiting(box)
    await box.run("import builtins; builtins.left = 1; open('/tmp/a', 'w').close()")
    result = await box.run("import builtins, os; [hasattr(builtins, 'left'), os.listdir('/tmp')]")
    assert result.value == [False, []]
    assert waiting(box) == [first]


@pytest.mark.slow
async def test_the_machine_of_a_session_that_is_over_is_used_again_and_knows_nothing_of_it(
    box: HyperlightSandbox,
) -> None:
    (first,) = waiting(box)
    async with box.session() as session:
        assert (await session.run("import builtins; builtins.left = x = 1; open('/tmp/a', 'w').close()")).success
        assert waiting(box) == []
    assert waiting(box) == [first]
    result = await box.run("import builtins, os; [hasattr(builtins, 'left'), 'x' in globals(), os.listdir('/tmp')]")
    assert result.value == [False, False, []]
    async with box.session() as session:
        await session.run("while True: pass", timeout=0.3)
    assert waiting(box) == []


@pytest.mark.slow
async def test_further_machines_are_given_what_the_first_has_compiled(
    box: HyperlightSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert set(sources.guest_code(box._pool.options)["sources"]) == {"compiled"}
    without = {**sources._code("python"), "sources": {"texts": {}}}
    monkeypatch.setattr(sources, "_code", lambda language: without)  # the text is not sent again
    (first,) = waiting(box)
    os.kill(first, signal.SIGKILL)
    while is_there(first):
        await asyncio.sleep(0.01)
    assert (await box.run("1 + 1")).value == 2


@pytest.mark.slow
async def test_what_a_program_printed_comes_before_it_is_ended_and_its_process_is_gone(
    box: HyperlightSandbox, clock: Clock
) -> None:
    (pid,) = waiting(box)
    events = box.stream("print('before')\nwhile True: pass", timeout=30)
    result = await clock.run_out(events, 30, after="before\n")
    assert result.error is not None
    assert (result.error.kind, result.stdout) == (ErrorKind.TIMEOUT, "before\n")
    assert not is_there(pid)
    assert (await box.run("1 + 1")).value == 2


@pytest.mark.slow
async def test_output_is_whole_and_in_order_however_much_of_it_there_is(box: HyperlightSandbox) -> None:
    code = "import sys\nfor n in range(3000): print(n); n % 1000 or print('-', n, file=sys.stderr)\n"
    code += "note()\nprint('x' * 300_000)"

    def note() -> None:
        """Do nothing."""

    told: list[Any] = [event async for event in box.stream(code, tools=[note])]
    result = told[-1].result
    assert result.stdout == "".join(f"{n}\n" for n in range(3000)) + "x" * 300_000 + "\n"
    assert result.stderr == "- 0\n- 1000\n- 2000\n"
    (called,) = [place for place, event in enumerate(told) if isinstance(event, actbox.ToolStarted)]
    before = [event.text for event in told[:called] if isinstance(event, actbox.Output) and event.stream == "stdout"]
    assert "".join(before) == "".join(f"{n}\n" for n in range(3000))


async def endless(box: HyperlightSandbox) -> asyncio.Task[actbox.ExecutionResult]:
    """Return the run of a program that has begun, and does not end."""
    begun = asyncio.Event()

    async def begin() -> None:
        begun.set()

    running = asyncio.create_task(box.run("begin()\nwhile True: pass", tools=[begin]))
    await begun.wait()
    return running


async def test_a_cancelled_run_leaves_no_process(box: HyperlightSandbox) -> None:
    (pid,) = waiting(box)
    running = await endless(box)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not is_there(pid)


async def test_processor_time_is_limited() -> None:
    async with actbox.open_sandbox("hyperlight", policy=Policy(limits=Limits(cpu_seconds=1000))) as box:
        assert isinstance(box, HyperlightSandbox)
        (pid,) = waiting(box)
        running = await endless(box)
        os.kill(pid, signal.SIGPROF)  # what the kernel sends when the time is used up
        result = await running
    assert result.error is not None
    assert (result.error.kind, result.error.limit, result.exit_code) == (ErrorKind.TIMEOUT, "cpu_seconds", 124)


@pytest.mark.slow
async def test_a_worker_that_ends_by_itself_is_a_fault_of_the_sandbox(box: HyperlightSandbox) -> None:
    (pid,) = waiting(box)
    running = await endless(box)
    os.kill(pid, signal.SIGKILL)
    result = await running
    assert result.error is not None
    assert (result.error.kind, result.exit_code) == (ErrorKind.SANDBOX, 125)
    assert (await box.run("1 + 1")).value == 2


@pytest.mark.slow
async def test_a_machine_that_was_lost_while_it_waited_is_replaced(box: HyperlightSandbox) -> None:
    (pid,) = waiting(box)
    os.kill(pid, signal.SIGKILL)
    while is_there(pid):
        await asyncio.sleep(0.01)
    assert (await box.run("1 + 1")).value == 2


@pytest.mark.slow
async def test_no_more_machines_run_at_once_than_may_and_waiting_is_no_run_time(box: HyperlightSandbox) -> None:
    together, most = 0, 0
    two = asyncio.Event()

    async def meet() -> None:
        nonlocal together, most
        together += 1
        most = max(most, together)
        if together == 2:
            two.set()
        await two.wait()
        await asyncio.sleep(0.1)
        together -= 1

    results = await asyncio.gather(*(box.run("meet()", tools=[meet]) for _ in range(5)))
    assert all(result.success for result in results)
    assert most == 2
    assert all(result.usage.queue_ms > 100 for result in results[2:])
    assert len(waiting(box)) <= 2


@pytest.mark.slow
async def test_a_tool_may_run_a_program_though_all_machines_are_taken(box: HyperlightSandbox) -> None:
    async def nested() -> Any:
        return (await box.run("1 + 1")).value

    results = await asyncio.gather(*(box.run("nested()", tools=[nested]) for _ in range(2)))
    assert [result.value for result in results] == [2, 2]


@pytest.mark.slow
async def test_siblings_share_the_machines(box: HyperlightSandbox) -> None:
    before = waiting(box)
    assert (await box.run_alone("1 + 1")).value == 2
    assert waiting(box) == before


@pytest.mark.slow
async def test_stop_ends_every_process() -> None:
    box = actbox.open_sandbox("hyperlight")
    assert isinstance(box, HyperlightSandbox)
    await box.start()
    running = await endless(box)
    async with box.session() as session:
        await session.run("x = 1")
        await box.stop()
        assert not session.alive
    assert (await running).error.kind is ErrorKind.CANCELLED  # type: ignore[union-attr]
    assert waiting(box) == []
    assert not subprocess.run(["pgrep", "-P", str(os.getpid()), "-f", "_actbox.engines"], capture_output=True).stdout
    with pytest.raises(SandboxStopped):
        await box.run("1")


@pytest.mark.slow
def test_no_worker_outlives_its_host() -> None:
    """Not even one whose program holds the interpreter, so that nothing in it could notice."""
    script = f"""
import asyncio, os, sys
sys.path.insert(0, {STAND_IN!r})
import actbox
from actbox.sandbox.engines.hyperlight import engine
engine.why_no_hypervisor = lambda: ("", "")
async def main():
    async with actbox.open_sandbox("hyperlight") as box:
        pid = box._pool._waiting[0].pid
        async def begin():
            print(pid, flush=True)
        await box.run("begin()\\nwhile True: pass", tools=[begin])
asyncio.run(main())
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as host:
        assert host.stdout is not None
        pid = int(host.stdout.readline())
        host.kill()
        host.wait()
    wait_until(lambda: not is_there(pid))


@pytest.mark.slow
@pytest.mark.parametrize(
    "forged",
    [
        "channel._dispatch('actbox', json.dumps({'q': 'AAAA'}))",
        "channel._dispatch('actbox', json.dumps({'q': ''}))",
        "channel.ask({'t': 'nothing'})",
        "channel.ask({'t': 'done', 'exit': 0, 'error': {'kind': 'RUNTIME', 'type': '', 'message': ''}})",
        "channel.ask({'t': 'done', 'exit': 0}); channel.ask({'t': 'sleep', 'seconds': 1})",
        "channel.ask({'t': 'file', 'op': 'open', 'path': '/workspace/../etc/passwd', 'mode': 'r'})",
        "channel.ask({'t': 'file', 'op': 'open', 'path': 'etc', 'mode': 'r'})",
        "channel.ask({'t': 'file', 'op': 'open', 'path': '/workspace/a', 'mode': 'rw'})",
        "channel.ask({'t': 'file', 'op': 'read', 'handle': 1, 'at': -1, 'size': 5})",
        "channel.ask({'t': 'file', 'op': '_grow', 'path': '/'})",
        "channel.ask({'t': 'sleep', 'seconds': float('1e99')})",
    ],
)
async def test_a_program_that_breaks_the_channels_rules_is_ended(box: HyperlightSandbox, forged: str) -> None:
    code = f"import json\nimport sys\nchannel = sys.stdout.buffer.raw._channel\n{forged}\nwhile True: pass"
    result = await box.run(code)
    assert result.error is not None
    assert (result.error.kind, result.exit_code) == (ErrorKind.PROTOCOL, 125)


@pytest.mark.slow
async def test_a_question_without_end_is_refused_before_it_takes_memory() -> None:
    limits = Limits(message_bytes=200_000)
    async with actbox.open_sandbox("hyperlight", policy=Policy(limits=limits)) as box:
        result = await box.run(
            "import json, sys, binascii\n"
            "dispatch = sys.stdout.buffer.raw._channel._dispatch\n"
            "piece = binascii.b2a_base64(bytes(8000)).decode()\n"
            "for _ in range(1000): dispatch('actbox', json.dumps({'m': piece}))"
        )
    assert result.error is not None
    assert "too long" in result.error.message


@pytest.mark.slow
async def test_a_session_that_breaks_its_machine_has_ended(box: HyperlightSandbox) -> None:
    async with box.session() as session:
        assert (await session.run("x = 1")).state_kept
        result = await session.run("import os; os._exit(3)")
        assert (result.exit_code, result.state_kept) == (3, False)
        assert not session.alive


@pytest.mark.slow
async def test_mounts_are_seen_and_written_by_their_modes(tmp_path: Path) -> None:
    for name in ("read", "write", "root"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text(name)
    (tmp_path / "read" / "link").symlink_to("/etc/passwd")
    mounts = [
        FileMount(tmp_path / "read", "/input/read"),
        FileMount(tmp_path / "write", "/data/write", "rw"),
        FileMount(tmp_path / "root", "/input"),
        FileMount(tmp_path / "read" / "a.txt", "/one.txt"),
    ]
    code = """
import os
def attempt(do):
    try: return do()
    except OSError as error: return type(error).__name__
[
    open('/input/read/a.txt').read(), open('/data/write/a.txt').read(), open('/input/a.txt').read(),
    open('/one.txt').read(),
    open('/workspace/input/b.txt').read(), os.listdir('/input'), os.listdir('/data'), os.listdir('/input/read'),
    attempt(lambda: open('/input/read/new', 'w')), attempt(lambda: os.remove('/input/a.txt')),
    attempt(lambda: open('/input/read/link').read()), attempt(lambda: open('/data/new', 'w')),
    open('/data/write/new', 'w').write('x'), os.path.isdir('/data'),
]
"""
    async with actbox.open_sandbox("hyperlight", policy=Policy(mounts=mounts)) as box:
        result = await box.run(actbox.Program(code, files={"b.txt": b"b"}))
    assert result.value == [
        "read",
        "write",
        "root",
        "read",
        "b",
        ["a.txt", "b.txt", "read"],
        ["write"],
        ["a.txt", "link"],
        "OSError",
        "OSError",
        "OSError",
        "OSError",
        1,
        True,
    ], result.error
    assert (tmp_path / "write" / "new").read_text() == "x"


@pytest.mark.slow
async def test_files_are_bounded() -> None:
    limits = Limits(file_mib=1, workspace_mib=2, open_files=3)
    code = """
def attempt(do):
    try: do()
    except OSError as error: return error.strerror
def fill(name, size):
    with open(name, 'wb') as file: file.write(bytes(size))
held = [open(f'h{n}', 'w') for n in range(3)]
too_many = attempt(lambda: open('h3', 'w'))
held.clear()
[too_many, attempt(lambda: fill('big', 2_000_000)), attempt(lambda: [fill(f'f{n}', 500_000) for n in range(5)]),
 attempt(lambda: open('t', 'wb').truncate(2**40))]
"""
    async with actbox.open_sandbox("hyperlight", policy=Policy(limits=limits)) as box:
        result = await box.run(code)
        empty = await box.run("import os\nfor n in range(2000): os.mkdir(f'/output/{n}')")
    assert result.value == ["Too many open files", "File too large", "No space left on device", "File too large"]
    assert empty.error is not None
    assert (empty.error.kind, empty.error.limit) == (ErrorKind.DISK, "workspace_mib")


@pytest.mark.slow
def test_deep_folders_are_counted_and_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "workspace/input").mkdir(parents=True)
    workspace = Workspace(open_folder(str(tmp_path / "workspace")), "/workspace")
    files = GuestFiles(workspace, (), Limits(workspace_mib=1))
    files.open()
    files.do({"op": "mkdir", "path": "/tmp/made"})
    (temporary,) = (folder for folder in tmp_path.iterdir() if folder.name != "workspace")
    deepen(temporary / "made")
    with deepened(tmp_path / "workspace"), few_descriptors():
        for path in ("/tmp/more", "/workspace/more"):
            with pytest.raises(OSError, match="No space"):
                for n in range(300):  # it is counted now and then
                    files.do({"op": "mkdir", "path": f"{path}{n}"})
        files.close()
    workspace.close()
    assert [folder.name for folder in tmp_path.iterdir()] == ["workspace"]


@pytest.mark.slow
async def test_modules_of_the_workspace_can_be_imported(box: HyperlightSandbox) -> None:
    await box.write_text("mine.py", "answer = 42\n")
    assert (await box.run("import mine; mine.answer")).value == 42


def test_a_machine_that_is_never_ready_is_given_up_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    package = tmp_path / "hyperlight_sandbox"
    package.mkdir()
    (package / "__init__.py").write_text("import time\ntime.sleep(600)\n")
    monkeypatch.setattr(trying, "CHECK_SECONDS", 0.5)
    monkeypatch.setattr(trying, "why_no_hypervisor", lambda: ("", ""))
    monkeypatch.syspath_prepend(str(tmp_path))
    found = trying.check()
    assert (found.works, found.reason) == (False, "the virtual machine was not ready within 0.5 seconds")
    assert "another engine" in found.advice


async def test_a_worker_without_the_library_says_so() -> None:
    process = Machine._spawn()
    options = {**GuestOptions.of(Limits()).to_command(), "backend": "wasm", "path": ["/nowhere"]}
    options |= {"sources": {}, "warm": "", "boot": "", "start": ""}
    options["heap_size"] = "not a size"
    from actbox.sandbox.engines.hyperlight.machine import _json

    await process._send(b"c", _json(options))
    kind, data = await process._frame(10_000)
    assert (kind, b"failed" in data) == (b"s", True)
    with pytest.raises(MachineLost):
        await process._frame(10_000)
    await process.end()
