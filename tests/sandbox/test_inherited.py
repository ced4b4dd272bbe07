"""Properties that a process inherits from its parent: a guest has none of a host that has set all of them oddly."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import engine_check

ROOT = Path(__file__).parents[2]
IS_ROOT = os.geteuid() == 0
IGNORED_BY_PYTHON = 1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1
OF_THE_C_LIBRARY = 0b11 << 31  # signals 32 and 33, which a program cannot set, and the library sets when it needs them

# Blocked signals, niceness, scheduling and processors are a thread's own: a thread of the host sets them oddly and then
# opens the first sandbox.
ODD_THREAD = """
import contextlib, ctypes, json, os, resource, signal, sys, threading
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
    signal.signal(number, signal.SIG_IGN)

def oddly():
    signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
    os.nice(5)
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    use()

def in_a_thread():
    thread = threading.Thread(target=oddly)
    thread.start()
    thread.join()
"""

HOST = (
    ODD_THREAD
    + """
import actbox
from actbox.sandbox.engines.linux import stock

os.umask(0o077)
os.chdir(sys.argv[1])
with open("/proc/self/oom_score_adj", "w") as file:
    file.write("300")
for which, soft in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_STACK, 1 << 20), (resource.RLIMIT_AS, 1 << 36)):
    resource.setrlimit(which, (soft, resource.getrlimit(which)[1]))
for which, most in ((resource.RLIMIT_RTPRIO, 50), (resource.RLIMIT_NICE, 30), (resource.RLIMIT_MEMLOCK, 50 << 20)):
    with contextlib.suppress(ValueError):  # only root may raise these
        resource.setrlimit(which, (most, most))
ctypes.CDLL(None).personality(0x0040000)  # ADDR_NO_RANDOMIZE

GUEST = '''
import ctypes, os, resource
def status():
    return dict(line.split(":", 1) for line in open("/proc/self/status"))
libc = ctypes.CDLL(None)
{
    "signals": {name: int(status()[name], 16) for name in ("SigBlk", "SigIgn")},
    "niceness": os.getpriority(os.PRIO_PROCESS, 0),
    "policy": os.sched_getscheduler(0),
    "processors": sorted(os.sched_getaffinity(0)),
    "umask": os.umask(0o022),
    "folder": os.getcwd(),
    "oom": int(open("/proc/self/oom_score_adj").read()),
    "limits": {name: resource.getrlimit(getattr(resource, "RLIMIT_" + name)) for name in
               ("CORE", "STACK", "AS", "RTPRIO", "NICE", "MEMLOCK", "MSGQUEUE")},
    "personality": libc.personality(0xFFFFFFFF),
    "groups": sorted({line.rstrip().rpartition(":")[2] for line in open("/proc/self/cgroup")}),
    "threads": os.environ.get("OMP_NUM_THREADS"),
    "C library": ctypes.cast(libc.getpid, ctypes.c_void_p).value,
}
'''
found = {"main processors": sorted(os.sched_getaffinity(0)), "stack": resource.getrlimit(resource.RLIMIT_STACK)[1]}

def use():
    found["guest"] = actbox.run(GUEST, engine="linux").value
    with actbox.sync.open_sandbox("linux") as box:
        found["command"] = box.execute("grep -E '^Sig(Blk|Ign)' /proc/self/status").stdout.split()[1::2]
    (one,) = stock._stocks.values()
    with open(f"/proc/{one.nursery.pid}/oom_score_adj") as file:
        found["nursery"] = {"oom": int(file.read()), "nice": os.getpriority(os.PRIO_PROCESS, one.nursery.pid)}

in_a_thread()
print(json.dumps(found))
"""
)


def from_a_host(code: str, *arguments: str) -> Any:
    """Return what a host prints, a Python of its own, as JSON."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "7"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@functools.cache
def odd_host() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        found = from_a_host(HOST, folder)
    assert isinstance(found, dict)
    return found


@pytest.fixture
def linux() -> None:
    found = engine_check("linux")
    if not found.works:
        pytest.skip(f"the linux engine does not work here: {found.reason}")


@pytest.fixture
def guest(linux: None) -> dict[str, Any]:
    found = odd_host()["guest"]
    assert isinstance(found, dict)
    return found


@pytest.mark.slow
def test_no_signal_is_blocked_or_ignored_but_those_that_python_makes_exceptions(guest: dict[str, Any]) -> None:
    blocked, ignored = guest["signals"].values()
    assert (blocked, ignored & ~OF_THE_C_LIBRARY) == (0, IGNORED_BY_PYTHON)


def test_a_command_blocks_and_ignores_no_signal(linux: None) -> None:
    blocked, ignored = (int(word, 16) for word in odd_host()["command"])
    assert (blocked, ignored & ~OF_THE_C_LIBRARY) == (0, 0)


def test_the_niceness_is_0_where_it_may_be(guest: dict[str, Any]) -> None:
    usual = 0 if IS_ROOT else 5
    assert (guest["niceness"], odd_host()["nursery"]["nice"]) == (usual, usual)


def test_the_scheduling_is_the_usual_one(guest: dict[str, Any]) -> None:
    assert guest["policy"] == os.SCHED_OTHER


def test_the_processors_are_those_of_the_hosts_main_thread(guest: dict[str, Any]) -> None:
    assert guest["processors"] == odd_host()["main processors"]


def test_the_umask_and_the_working_folder_are_a_guests_own(guest: dict[str, Any]) -> None:
    assert (guest["umask"], guest["folder"]) == (0o022, "/workspace")


def test_a_guest_is_the_first_to_go_where_memory_ends_and_its_nursery_goes_with_the_host(guest: dict[str, Any]) -> None:
    assert (guest["oom"], odd_host()["nursery"]["oom"]) == (1000, 300)


def test_limits_are_those_of_the_policy_or_the_usual_ones(guest: dict[str, Any]) -> None:
    limits = guest["limits"]
    assert limits["CORE"] == [1, 1]
    assert limits["RTPRIO"] == limits["NICE"] == limits["MSGQUEUE"] == [0, 0]
    assert limits["MEMLOCK"][1] <= 8 << 20
    assert limits["AS"] == [-1, -1]
    hard = odd_host()["stack"]
    assert limits["STACK"] == [8 << 20 if hard == -1 else min(8 << 20, hard), hard]


def test_the_personality_is_the_plain_one(guest: dict[str, Any]) -> None:
    assert guest["personality"] == 0


@pytest.mark.slow
def test_a_host_without_random_addresses_has_guests_with_them(guest: dict[str, Any]) -> None:
    odd_host.cache_clear()
    assert odd_host()["guest"]["C library"] != guest["C library"]


def test_a_guest_is_in_no_control_group_that_it_could_name(guest: dict[str, Any]) -> None:
    assert guest["groups"] in (["/"], [])


def test_variables_about_threads_are_a_guests_own(guest: dict[str, Any]) -> None:
    assert guest["threads"] == "1"


@pytest.mark.slow
def test_the_session_key_ring_is_left_behind(linux: None) -> None:
    code = """
import ctypes, json
from actbox.sandbox.nursery import seccomp
from actbox.sandbox.nursery.inherited import reset_inherited
from actbox.sandbox.nursery.syscall_numbers import NUMBERS
numbers, libc = NUMBERS[seccomp.native_architecture()], ctypes.CDLL(None)
JOIN, SEARCH, SESSION = 1, 10, ctypes.c_long(-3)
libc.syscall(numbers["keyctl"], JOIN, None)
added = libc.syscall(numbers["add_key"], b"user", b"actbox-test", b"secret", 6, SESSION) > 0
def sees():
    return libc.syscall(numbers["keyctl"], SEARCH, SESSION, b"user", b"actbox-test", 0) > 0
before = sees()
reset_inherited()
print(json.dumps([added, before, sees()]))
"""
    added, before, after = from_a_host(code)
    if not added:
        pytest.skip("this kernel, or a filter around this process, lets nobody add keys")
    assert (before, after) == (True, False)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["linux", "process"])
def test_a_session_that_runs_out_of_time_keeps_its_state_if_the_host_blocks_signals(engine: str) -> None:
    if not engine_check(engine).works:
        pytest.skip(f"the {engine} engine does not work here")
    code = f"""{ODD_THREAD}
import actbox
from actbox.sandbox import session_runs, watchdog
session_runs.GRACE_SECONDS, watchdog.GRACE_SECONDS = 60.0, 120.0  # on a busy machine an interrupt may take its time
found = []

def use():
    with actbox.sync.open_sandbox({engine!r}, allow_unisolated=True) as box, box.session() as session:
        session.run("x = 41")
        late = session.run("while True: pass", timeout=0.5)
        found.extend([late.error.kind.value, session.run("x + 1").value])
        ended = session.run("import signal, subprocess, time\\np = subprocess.Popen(['sleep', '600'])\\n"
            "p.terminate()\\np.wait()")
        rung = session.run("signal.signal(signal.SIGALRM, lambda *_: 1 / 0)\\nsignal.alarm(1)\\ntime.sleep(600)")
        found.extend([ended.value, rung.error.type])

in_a_thread()
print(json.dumps(found))
"""
    assert from_a_host(code) == ["TIMEOUT", 42, -signal.SIGTERM, "ZeroDivisionError"]
