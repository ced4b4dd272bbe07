"""Tests marked `own_process` run in a forked child: they change what cannot be changed back.

`@pytest.mark.own_process(flags)` puts the child into a user namespace of its own, where it is root over the other
namespaces named by `flags` (`CLONE_NEW*`, or 0 for none). Without an argument it only forks. With `uid=` it becomes
that user first.
"""

from __future__ import annotations

import os
import traceback
import warnings
from typing import NoReturn

import pytest

from actbox.sandbox.nursery import linux


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "own_process(flags=0, uid=None): run in a forked child, in own namespaces")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    marker = pyfuncitem.get_closest_marker("own_process")
    if marker is None:
        return None
    readable, writable = os.pipe()
    with warnings.catch_warnings():
        # The threads of a parallel test run do not live on in the child, and it needs nothing of theirs.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        os.close(readable)
        _be_child(pyfuncitem, marker, writable)
    os.close(writable)
    with open(readable, "rb") as report:
        said = report.read().decode()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if said or status:
        pytest.fail(said or f"the child ended with {status}", pytrace=False)
    return True


def _be_child(test: pytest.Function, marker: pytest.Mark, report: int) -> NoReturn:
    try:
        uid = marker.kwargs.get("uid")
        if uid is not None:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            linux.set_dumpable(True)  # a change of user clears it, and with it the right to write one's own maps
        if marker.args:
            _enter_namespaces(marker.args[0])
        names = test._fixtureinfo.argnames
        test.obj(**{name: test.funcargs[name] for name in names})
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
