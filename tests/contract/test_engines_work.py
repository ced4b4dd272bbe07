"""An engine that breaks must not hide behind tests that are skipped where it does not work."""

from __future__ import annotations

import subprocess
import sys

import pytest

import actbox
from tests.conftest import engine_check

# What the linux engine cannot do without, tried by itself: a user namespace with an id mapped, and a mount in it.
_MAKES_NAMESPACES = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
NEWUSER_NEWNS, MS_REC_PRIVATE = 0x10020000, 0x44000
uid = os.getuid()
if libc.unshare(NEWUSER_NEWNS):
    raise SystemExit("unshare: " + os.strerror(ctypes.get_errno()))
open("/proc/self/setgroups", "w").write("deny")
open("/proc/self/uid_map", "w").write(f"0 {uid} 1")
if libc.mount(b"none", b"/", None, MS_REC_PRIVATE, None) or libc.mount(b"x", b"/sys", b"tmpfs", 0, None):
    raise SystemExit("mount: " + os.strerror(ctypes.get_errno()))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the linux engine needs Linux")
def test_the_linux_engine_works_where_a_process_may_make_namespaces() -> None:
    tried = subprocess.run([sys.executable, "-c", _MAKES_NAMESPACES], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        pytest.skip(f"a process may make no namespaces here: {tried.stderr.strip()}")
    found = engine_check("linux")
    assert found.works, f"{found.reason}. {found.advice}"


def test_the_process_engine_works_everywhere() -> None:
    assert engine_check("process").works


@pytest.mark.parametrize("engine", actbox.ENGINES)
def test_an_engine_that_does_not_work_says_why_and_what_to_do(engine: str) -> None:
    found = engine_check(engine)
    if found.works:
        assert found.traits is not None
        assert found.traits.engine == engine
        assert (found.reason, found.advice) == ("", "")
    else:
        assert found.reason
        assert found.advice


@pytest.mark.parametrize("engine", actbox.ENGINES)
def test_what_traits_say_is_enforced_are_limits_that_there_are(engine: str) -> None:
    traits = engine_check(engine).traits
    if traits is None:
        pytest.skip(f"{engine} does not work here and so has no traits")
    assert set(traits.enforced) <= set(actbox.Limits().to_dict())
    assert all(traits.enforced.values())
    if traits.isolated:
        assert set(traits.enforced) == set(actbox.Limits().to_dict())
