"""Tests marked `own_process` run in a forked child: they change what cannot be changed back.

`@pytest.mark.own_process(flags)` puts the child into a user namespace of its own, where it is root over the other
namespaces named by `flags` (`CLONE_NEW*`, or 0 for none). Without an argument it only forks. With `uid=` it becomes
that user first.

The kernel gives a process with a second thread no user namespace, and other tests may leave hooks that begin a thread
in every forked child, as those of OpenTelemetry's providers do. So the children are forked by a process that was itself
forked before any test ran (`Forks`).
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import traceback
import warnings
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import Any, Final, NoReturn

import pytest

from actbox.sandbox.nursery import linux

MOST_SECONDS: Final = 240
"""A child that takes longer is ended, sooner than pytest would end the test that waits for it."""


class Forks:
    """The process that forks the children: it has the tests as they were collected, and has run none of them."""

    def __init__(self, tests: Mapping[str, pytest.Function]) -> None:
        """`tests` are by their node ids."""
        self._to_it, from_us = multiprocessing.Pipe()
        self._pid = _fork()
        if self._pid == 0:
            self._to_it.close()
            _serve(from_us, tests)
        from_us.close()

    def run(self, test: pytest.Function) -> str:
        """Run a test in a child, and return what it failed with, "" where it passed."""
        names = test._fixtureinfo.argnames
        self._to_it.send((test.nodeid, {name: test.funcargs[name] for name in names}))
        said: str = self._to_it.recv()
        return said

    def close(self) -> None:
        """End it."""
        self._to_it.close()
        os.waitpid(self._pid, 0)


_forks = pytest.StashKey[Forks]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "own_process(flags=0, uid=None): run in a forked child, in own namespaces")


def pytest_collection_finish(session: pytest.Session) -> None:
    tests = {item.nodeid: item for item in session.items if item.get_closest_marker("own_process")}
    if tests and not session.config.option.collectonly:
        session.config.stash[_forks] = Forks(tests)


def pytest_unconfigure(config: pytest.Config) -> None:
    if _forks in config.stash:
        config.stash[_forks].close()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not pyfuncitem.get_closest_marker("own_process"):
        return None
    said = pyfuncitem.config.stash[_forks].run(pyfuncitem)
    if said:
        pytest.fail(said, pytrace=False)
    return True


def _fork() -> int:
    with warnings.catch_warnings():
        # The threads of a parallel test run do not live on in the child, and it needs nothing of theirs.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _serve(requests: Connection, tests: Mapping[str, pytest.Function]) -> NoReturn:
    try:
        while True:
            name, arguments = requests.recv()
            readable, writable = os.pipe()
            pid = _fork()
            if pid == 0:
                _be_child(tests[name], arguments, writable)
            os.close(writable)
            with open(readable, "rb") as report:
                said = report.read().decode()
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            requests.send(said or (f"the child ended with {status}" if status else ""))
    finally:  # where nobody sends any more, and whatever else happens: only its parent goes on with the tests
        os._exit(0)


def _be_child(test: pytest.Function, arguments: dict[str, Any], report: int) -> NoReturn:
    signal.alarm(MOST_SECONDS)
    try:
        marker = test.get_closest_marker("own_process")
        assert marker is not None
        uid = marker.kwargs.get("uid")
        if uid is not None:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            linux.set_dumpable(True)  # a change of user clears it, and with it the right to write one's own maps
        if marker.args:
            _enter_namespaces(marker.args[0])
        test.obj(**arguments)
    except BaseException:
        os.write(report, traceback.format_exc().encode())
        os._exit(1)
    os._exit(0)


def _enter_namespaces(flags: int) -> None:
    uid, gid = os.geteuid(), os.getegid()
    linux.unshare(linux.CLONE_NEWUSER | flags)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    if flags & linux.CLONE_NEWNS:
        linux.mount(None, "/", None, linux.MS_REC | linux.MS_PRIVATE)
