"""Descriptors are passed on also where the kernel refuses a process that may have few open."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from actbox.sandbox.nursery import passing
from tests.conftest import engine_check

ROOT = Path(__file__).parents[3]
# The kernel lets root pass on what it likes: this user has no rights, if the one who runs the tests has any.
_BEGIN = """
import errno, os, resource, socket
if os.geteuid() == 0:
    os.setgroups([])
    os.setresgid(54_321, 54_321, 54_321)
    os.setresuid(54_321, 54_321, 54_321)
resource.setrlimit(resource.RLIMIT_NOFILE, (SOFT, HARD))
held = []
def fill():
    try:
        while True:
            held.append(socket.socketpair())
            held[-1][0].setblocking(False)
            try:
                while True: socket.send_fds(held[-1][0], [b'x'], [0] * 100)
            except BlockingIOError:
                pass
    except OSError as error:
        assert error.errno == errno.ETOOMANYREFS, error
"""


def _run(code: str, soft: int, hard: int) -> None:
    begin = _BEGIN.replace("SOFT", str(soft)).replace("HARD", str(hard))
    command = "from actbox.sandbox.nursery import passing, server\n" + begin + code
    done = subprocess.run(
        [sys.executable, "-c", command],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_process_that_is_refused_sends_as_what_it_could_be() -> None:
    code = """
fill()
one, other = socket.socketpair()
assert passing.send_with(one, b'some', [0, 1]) == 4
data, got, _, _ = socket.recv_fds(other, 10, 10)
assert data == b'some' and len(got) == 2
assert resource.getrlimit(resource.RLIMIT_NOFILE) == (200, 1000)
"""
    _run(code, 200, 1000)


def test_one_that_can_be_no_more_says_so() -> None:
    code = f"""
fill()
one, other = socket.socketpair()
try:
    passing.send_with(one, b'some', [0])
except OSError as error:
    assert error.errno == {errno.ETOOMANYREFS}
else:
    raise AssertionError
"""
    _run(code, 200, 200)


@pytest.mark.parametrize("times", [1, 3])
def test_the_nursery_says_that_it_cannot_answer_and_lives_on(times: int) -> None:
    code = f"""
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
nursery = server._Nursery(theirs)
nursery._answers['give'] = lambda descriptors: ({{'given': 1}}, [os.dup(0)])
def ask():
    passing.send(ours, {{'op': 'give', 'number': 7}}, [])
    assert nursery._answer()
    return passing.receive(ours)
fill()
for _ in range({times}):
    before = len(os.listdir('/proc/self/fd'))
    data, got = ask()
    assert b'Too many references' in data and b'"number": 7' in data and not got, data
    assert len(os.listdir('/proc/self/fd')) == before
for pair in held:
    for one in pair: one.close()
held.clear()
data, got = ask()
assert b'given' in data and b'"number": 7' in data and len(got) == 1, data
"""
    _run(code, 200, 200)


@pytest.mark.slow
def test_a_guest_may_have_half_as_many_open_as_the_host_could() -> None:
    found = engine_check("linux")
    if not found.works:
        pytest.skip(f"the linux engine does not work here: {found.reason}")
    code = (
        "import actbox, resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (400, 400))\n"
        "ask = 'import resource; resource.getrlimit(resource.RLIMIT_NOFILE)'\n"
        "print(actbox.run(ask, engine='linux', policy=actbox.Policy(limits=actbox.Limits(open_files=300))).value)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == "(200, 200)\n", done


def test_a_socket_takes_no_descriptors_where_the_kernel_can_refuse_them() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        passing.refuse_descriptors(ours)
        if tuple(int(part) for part in os.uname().release.split(".")[:2]) < (6, 16):
            pytest.skip("this kernel cannot refuse them")
        with pytest.raises(PermissionError):
            socket.send_fds(theirs, [b"x"], [0])
        socket.send_fds(ours, [b"x"], [0])  # the other end still takes them
