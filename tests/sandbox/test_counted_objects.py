"""Epoll watches and locks of files, which no limit of the kernel's bounds: a sandbox may have so many of each."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import actbox
from actbox import ErrorKind
from actbox.sandbox.engines.linux import engine
from actbox.sandbox.engines.linux.cgroups import RunGroup
from actbox.sandbox.nursery import counted_objects, passes
from actbox.sandbox.nursery.counted_objects import MOST, CountedObjects
from actbox.sandbox.nursery.held_by_pipes import HeldByPipes
from actbox.sandbox.nursery.machine_files import MachineFiles
from actbox.sandbox.nursery.watch import LOOK_EVERY_SECONDS, Watcher
from tests.conftest import engine_check
from tests.escape.planted import Change, changed_nursery

needs_linux = pytest.mark.skipif(not engine_check("linux").works, reason="the linux engine does not work here")

POLICY = actbox.Policy(limits=actbox.Limits(open_files=1024))
# One open file can be watched by as many numbers as there are: two hundred of them in each instance.
WATCHES = """
import os, select, socket, time
ours, theirs = socket.socketpair()
numbers = [os.dup(ours.fileno()) for _ in range(200)]
held = []
def watch(count):
    while count > 0:
        held.append(select.epoll())
        for number in numbers:
            held[-1].register(number, select.EPOLLIN)
        count -= len(numbers)
"""


@pytest.mark.slow
@needs_linux
@pytest.mark.parametrize(
    "more",
    ["watch(40_000)", "for _ in range(4):\n    if os.fork() == 0: break\nwatch(12_000)"],
    ids=["alone", "together"],
)
def test_a_program_that_watches_more_than_it_may_is_ended(more: str) -> None:
    result = actbox.run(f"{WATCHES}{more}\ntime.sleep(60)", engine="linux", policy=POLICY)
    assert result.error is not None
    assert (result.error.kind, result.error.limit) == (ErrorKind.BUDGET, "epoll_watches")
    assert f"more than {MOST:,} descriptors by epoll" in result.error.message


@pytest.mark.slow
@needs_linux
def test_watches_that_forked_processes_share_count_once() -> None:
    code = (
        f"{WATCHES}watch(12_000)\nchildren = []\nfor _ in range(6):\n    children.append(os.fork())\n"
        "    if children[-1] == 0:\n        time.sleep(1.5)\n        os._exit(0)\n"
        "for child in children: os.waitpid(child, 0)\nlen(held)"
    )
    result = actbox.run(code, engine="linux", policy=POLICY)
    assert (result.value, result.error) == (60, None)


# Processes with all descriptors that they may have make a count long. Others fork and end before it reaches them.
HOPPING = """
import os, select, time
def fill():
    try:
        while True: os.eventfd(0)
    except OSError: pass
    time.sleep(600)
def hop():
    kept = [os.eventfd(0) for _ in range(100)]
    for _ in range(100):
        kept.append(select.epoll())
        for number in kept[:100]: kept[-1].register(number, select.EPOLLIN)
    while True:
        time.sleep(0.05)
        if os.fork(): os._exit(0)
for what in [fill] * 24 + [hop] * 8:
    if os.fork() == 0: what()
time.sleep(600)
"""


@pytest.mark.slow
@needs_linux
def test_watches_do_not_hide_in_processes_that_end_before_a_count_reaches_them() -> None:
    result = actbox.run(HOPPING, engine="linux")
    assert result.error is not None
    assert (result.error.kind, result.error.limit) == (ErrorKind.BUDGET, "epoll_watches")


LOCKS = """
import fcntl, os, struct, time
files = [open(f"/tmp/{number}", "w") for number in range(100)]
def lock(count):
    for place in range(0, 2 * count // len(files), 2):
        for file in files:
            fcntl.fcntl(file, fcntl.F_SETLK, struct.pack("hhqqi", fcntl.F_WRLCK, 0, place, 1, 0))
"""


@pytest.mark.slow
@needs_linux
def test_a_program_that_holds_more_locks_than_it_may_is_ended() -> None:
    result = actbox.run(f"{LOCKS}lock(40_000)\ntime.sleep(60)", engine="linux", policy=POLICY)
    assert result.error is not None
    assert (result.error.kind, result.error.limit) == (ErrorKind.BUDGET, "file_locks")
    assert f"more than {MOST:,} locks of files" in result.error.message


@pytest.mark.slow
@needs_linux
def test_a_program_may_hold_many_locks() -> None:
    result = actbox.run(f"{LOCKS}lock(20_000)\ntime.sleep(0.5)", engine="linux", policy=POLICY)
    assert result.error is None


@needs_linux
def test_a_process_cannot_hide_what_it_watches() -> None:
    """A process that executes a file that it may not read shows nothing of itself to others of its user."""
    code = (
        "import os, shutil, subprocess\nshutil.copy('/bin/sleep', 'hidden')\nos.chmod('hidden', 0o111)\n"
        "subprocess.run(['./hidden', '60'])"
    )
    result = actbox.run(code, engine="linux", policy=POLICY)
    assert result.error is not None
    assert result.error.limit == "epoll_watches"


@needs_linux
def test_a_process_that_asks_not_to_be_looked_into_goes_on() -> None:
    code = "import ctypes, time\ndone = ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\ntime.sleep(0.7)\ndone"
    result = actbox.run(code, engine="linux", policy=POLICY)
    assert (result.value, result.error) == (0, None)


@pytest.mark.slow
@needs_linux
def test_a_guest_that_takes_long_to_be_born_hides_nothing() -> None:
    """Before it is under the filter it shows nothing of itself, for as long as a busy machine leaves it there."""
    shown = "        linux.set_dumpable(True)  # so"
    late = Change("sandbox/nursery/child.py", shown, "        __import__('time').sleep(1)\n" + shown)
    with changed_nursery([late]):
        result = actbox.run("40 + 2", engine="linux")
    assert (result.value, result.error) == (42, None)


ZOMBIES = {
    "of a program that waits later": "child = subprocess.Popen(['true'])\ntime.sleep(1)\nchild.wait()",
    "of a shell that never waits": "subprocess.run(['sh', '-c', 'true & exec sleep 1']).returncode",
    "of multiprocessing": (
        "child = multiprocessing.get_context('fork').Process(target=int)\nchild.start()\ntime.sleep(1)\n"
        "child.join()\nchild.exitcode"
    ),
    "of an event loop that is busy": (
        "async def main():\n    child = await asyncio.create_subprocess_exec('true')\n    time.sleep(1)\n"
        "    return await child.wait()\nasyncio.run(main())"
    ),
    "whose other threads live on": (
        "child = os.fork()\nif child == 0:\n"
        "    threading.Thread(target=lambda: (time.sleep(1), os._exit(0))).start()\n"
        "    ctypes.CDLL(None).pthread_exit(None)\nos.waitpid(child, 0)[1]"
    ),
}


@pytest.mark.slow
@needs_linux
@pytest.mark.parametrize("code", ZOMBIES.values(), ids=ZOMBIES)
def test_a_zombie_hides_nothing(code: str) -> None:
    code = f"import asyncio, ctypes, multiprocessing, os, subprocess, threading, time\n{code}"
    result = actbox.run(code, engine="linux", policy=POLICY)
    assert (result.value, result.error) == (0, None)


@pytest.mark.slow
@needs_linux
def test_watches_count_after_the_first_thread_has_ended() -> None:
    code = (
        f"{WATCHES}watch(40_000)\nimport ctypes, threading\n"
        "threading.Thread(target=time.sleep, args=(60,)).start()\nctypes.CDLL(None).pthread_exit(None)"
    )
    result = actbox.run(code, engine="linux", policy=POLICY)
    assert result.error is not None
    assert result.error.limit == "epoll_watches"


# The text of each of these descriptors has a line for each of thousands of watches of inotify.
LONG_DESCRIPTORS = """
import ctypes, os, time
libc = ctypes.CDLL(None)
watcher = libc.inotify_init1(0)
for number in range(8_000):
    os.mkdir(f'/tmp/{number}')
    libc.inotify_add_watch(watcher, f'/tmp/{number}'.encode(), 0x2)
for _ in range(200): os.dup(watcher)
for _ in range(40):
    if os.fork() == 0: time.sleep(60)
"""


@pytest.mark.slow
@needs_linux
def test_a_program_cannot_keep_its_processor_time_uncounted_by_long_descriptors() -> None:
    limits = actbox.Limits(open_files=1024, cpu_seconds=3)
    result = actbox.run(f"{LONG_DESCRIPTORS}while True: pass", engine="linux", policy=actbox.Policy(limits=limits))
    assert result.error is not None
    assert result.error.limit == "cpu_seconds"


@pytest.mark.slow
@needs_linux
async def test_a_program_cannot_keep_its_memory_uncounted_by_long_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no control group counts memory, pid 1 counts it between two parts of a pass over descriptors."""
    monkeypatch.setattr(engine, "support", lambda: None)
    # A sandbox may have been made before, with groups: they keep the default limit at most, which nothing here reaches.
    monkeypatch.setattr(RunGroup, "set_limits", lambda group, limits: None)
    code = (
        f"{LONG_DESCRIPTORS}time.sleep(0.5)\n"  # by then a pass is under way
        "for _ in range(6):\n    if os.fork() == 0:\n        own = b'x' * (150 * 2**20)\n        time.sleep(60)\n"
        "time.sleep(60)"
    )
    limits = actbox.Limits(open_files=1024, memory_mib=512)
    async with actbox.open_sandbox("linux", policy=actbox.Policy(limits=limits)) as box:
        result = await box.run(code)
    assert result.error is not None
    assert (result.error.kind, result.error.limit) == (ErrorKind.MEMORY, "memory_mib"), result.error


class Counted:
    """Counts what this process and the children that it forks hold, and notes whose text it reads."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, opened: contextlib.ExitStack) -> None:
        self.read: list[str] = []
        self._children: list[int] = []
        self._opened = opened
        plain = os.open
        proc = plain("/proc", os.O_RDONLY | os.O_DIRECTORY)
        opened.callback(os.close, proc)

        def noting(path: str, *more: Any, **named: Any) -> int:
            if "/fdinfo/" in str(path):
                self.read.append(str(path).rpartition("/")[2])
            return plain(path, *more, **named)

        monkeypatch.setattr(os, "open", noting)
        monkeypatch.setattr(passes, "_REST", 0)
        monkeypatch.setattr(counted_objects, "_REST", 0)
        monkeypatch.setattr(counted_objects, "_BETWEEN_STOPS_SECONDS", 0)
        self.stops = 0
        self.objects = CountedObjects(proc, lambda path: None, self)
        ours, _theirs = (opened.enter_context(end) for end in socket.socketpair())
        self.numbers = [self.dup(ours.fileno()) for _ in range(200)]

    @contextlib.contextmanager
    def stopped(self) -> Iterator[list[tuple[int, int]]]:
        self.stops += 1
        yield self.processes()

    def living(self) -> list[tuple[int, int]]:
        return self.processes()

    def processes(self) -> list[tuple[int, int]]:
        return [(pid, 0) for pid in (os.getpid(), *self._children)]

    def dup(self, number: int) -> int:
        copy = os.dup(number)
        self._opened.callback(os.close, copy)
        return copy

    def watch(self, count: int) -> list[int]:
        instances = [self._opened.enter_context(select.epoll()) for _ in range(count // len(self.numbers))]
        for instance in instances:
            for number in self.numbers:
                instance.register(number, select.EPOLLIN)
        return [instance.fileno() for instance in instances]

    def fork(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        ready, tell = os.pipe()
        child = os.fork()
        if child == 0:
            meanwhile()
            os.write(tell, b"x")
            signal.pause()
        self._children.append(child)
        self._opened.callback(os.waitpid, child, 0)
        self._opened.callback(os.kill, child, signal.SIGKILL)
        os.read(ready, 1)
        os.close(ready)
        os.close(tell)

    def one_pass(self) -> str:
        """Return the limit that one whole pass has found."""
        return self.objects.passed(self.processes())


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    if not Path("/proc/self/fdinfo").is_dir():
        pytest.skip("this system has no /proc")
    with contextlib.ExitStack() as opened:
        yield Counted(monkeypatch, opened)


@pytest.mark.slow
def test_counting_ends_where_the_bound_is_passed(counted: Counted) -> None:
    instances = counted.watch(MOST + 20_000)
    assert counted.one_pass() == "epoll_watches"
    assert len(set(counted.read) & {str(instance) for instance in instances}) == MOST // 200 + 1


@pytest.mark.slow
def test_copies_of_a_descriptor_count_once(counted: Counted) -> None:
    for instance in counted.watch(17_000):
        counted.dup(instance)
    assert counted.one_pass() == ""


@pytest.mark.slow
def test_what_forked_processes_share_counts_once_beside_another_file_of_that_number(counted: Counted) -> None:
    """The parent has another file by the numbers by which its children share theirs."""
    instances = counted.watch(17_000)
    null = os.open("/dev/null", os.O_RDONLY)
    counted._opened.callback(os.close, null)
    kept = [counted.dup(instance) for instance in instances]
    for instance in instances:
        os.dup2(null, instance)
    for _ in range(2):
        counted.fork(lambda: [os.dup2(copy, instances[place]) for place, copy in enumerate(kept)])
    assert counted.one_pass() == ""


@pytest.mark.slow
def test_locks_that_processes_have_on_one_shared_file_all_count(counted: Counted, tmp_path: Path) -> None:
    files = [counted._opened.enter_context((tmp_path / str(number)).open("w")) for number in range(200)]

    def lock(first: int) -> None:
        for file in files:
            for place in range(first, first + 200, 2):
                fcntl.lockf(file, fcntl.LOCK_EX, 1, place)

    lock(0)
    assert counted.one_pass() == ""
    counted.fork(lambda: lock(1_000))
    assert counted.one_pass() == "file_locks"


def test_a_count_that_is_too_long_is_taken_again_in_the_stopped_tree(
    counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    instances = counted.watch(2_000)
    monkeypatch.setattr(passes, "_SECONDS_AT_ONCE", 0)
    counted.one_pass()
    assert counted.stops == 1
    assert counted.read.count(str(instances[-1])) == 1


@pytest.mark.parametrize("has_child", [True, False], ids=["a child began", "none began"])
def test_a_count_that_has_lost_a_process_is_taken_again_in_the_stopped_tree_if_another_began(
    has_child: bool, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passes, "_SECONDS_AT_ONCE", 60)
    counted.one_pass()
    assert counted.stops == 0
    gone = os.posix_spawn("/bin/true", ["true"], {})
    os.waitpid(gone, 0)
    before = [(gone, 0), *counted.processes()]
    if has_child:
        counted.fork()
    counted.objects.passed(before)
    assert counted.stops == has_child


STOPPED_CHILD = """
import signal
continued, changes = [], []
signal.signal(signal.SIGCONT, lambda *_: continued.append(1))
child = os.fork()
if child == 0:
    while True: time.sleep(0.01)
os.kill(child, signal.SIGSTOP)
os.waitpid(child, os.WUNTRACED)
watch(6_000)
end = time.monotonic() + 30
while not continued and time.monotonic() < end: time.sleep(0.01)
time.sleep(0.3)
while (found := os.waitpid(child, os.WNOHANG | os.WUNTRACED | os.WCONTINUED))[0]: changes.append(found[1])
os.kill(child, signal.SIGKILL)
len(continued), changes
"""


@pytest.mark.slow
@needs_linux
def test_a_process_that_a_program_keeps_stopped_stays_so_while_its_watches_are_counted() -> None:
    result = actbox.run(f"{WATCHES}{STOPPED_CHILD}", engine="linux", policy=POLICY)
    assert result.value == (1, []), result


def test_a_count_that_finds_much_is_taken_again_in_the_stopped_tree(
    counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passes, "_SECONDS_AT_ONCE", 60)
    counted.watch(MOST // 8 - 200)
    counted.one_pass()
    assert counted.stops == 0
    counted.watch(600)
    counted.one_pass()
    assert counted.stops == 1


def test_a_tree_is_stopped_only_now_and_then(counted: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "_SECONDS_AT_ONCE", 0)
    monkeypatch.setattr(counted_objects, "_BETWEEN_STOPS_SECONDS", 60)
    for _ in range(10):
        counted.one_pass()
    assert counted.stops == 1


def test_a_tree_that_takes_too_long_to_count_has_passed_the_limit(
    counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passes, "_SECONDS_AT_ONCE", 0)
    monkeypatch.setattr(counted_objects, "_LONGEST_COUNT_SECONDS", 0)
    assert counted.one_pass() == "epoll_watches"


def test_an_idle_tree_is_looked_at_again_soon_while_a_pass_is_under_way(
    counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passes, "_SECONDS_AT_ONCE", 0)
    monkeypatch.setattr(counted_objects, "_BETWEEN_STOPS_SECONDS", 60)
    counted.one_pass()
    watcher = Watcher(counted.objects._proc, {}, MachineFiles.__new__(MachineFiles))
    watcher._looks = watcher._idle_looks = 10
    watcher._objects = counted.objects
    assert watcher.pause() > LOOK_EVERY_SECONDS
    counted.one_pass()
    assert watcher.pause() == LOOK_EVERY_SECONDS
    monkeypatch.setattr(counted.objects, "_stop_after", 0)
    counted.one_pass()
    assert watcher.pause() > LOOK_EVERY_SECONDS
    watcher.memory._pipes.held([os.getpid()], 0)
    assert watcher.pause() == LOOK_EVERY_SECONDS


def test_pipes_are_asked_in_bounded_calls_that_come_to_all_they_hold(
    counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    for _ in range(20):
        reader, writer = os.pipe()
        counted._opened.callback(os.close, reader)
        counted._opened.callback(os.close, writer)
        os.write(writer, b"x")
    plain = os.readlink
    monkeypatch.setattr(os, "readlink", lambda path, **given: (asked.append(path), plain(path, **given))[1])
    monkeypatch.setattr(passes, "_SECONDS_AT_ONCE", 0)
    pipes = HeldByPipes(counted.objects._proc)
    found = [pipes.held([os.getpid()], 0)]
    while pipes.under_way:
        before = len(asked)
        found.append(pipes.held([os.getpid()], 0))
        assert len(asked) <= before + 1
    assert found == sorted(found)
    assert found[-1] >= 20 * 65536


def test_a_long_text_is_read_once_for_all_copies_of_a_descriptor(counted: Counted) -> None:
    (instance,) = counted.watch(200)
    copies = {str(counted.dup(instance)) for _ in range(100)}
    counted.one_pass()
    assert len({str(instance), *copies} & set(counted.read)) == 1
