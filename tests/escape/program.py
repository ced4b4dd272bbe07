"""An attempt that is a program: the code that it begins with, and the reading of its verdict.

A program's failure is no success of the sandbox by itself. So each says which it was: `verdict(…)` prints `ESCAPED` where
it got through and `STOPPED` where it was refused, and `not_applicable(…)` that it lacks what it needs. Things of this
host come by name: `{name}` in the source is replaced (`host_things.py`).
"""

from __future__ import annotations

import platform
from collections.abc import Collection, Mapping
from typing import Any

from actbox import ErrorKind, ExecutionResult
from actbox.sandbox.nursery.syscall_numbers import NUMBERS
from tests.escape.attempt import Outcome, Verdict, unproven

# Calls younger than the table of the filter: from 424 on the numbers are the same on every architecture.
_YOUNGER = {"statmount": 457, "listmount": 458, "lsm_get_self_attr": 459, "open_tree_attr": 467}

PRELUDE = """
import errno, os, socket, struct, sys
NUMBERS = {numbers!r}

def not_applicable(why):
    print("NOT APPLICABLE", why)
    sys.stdout.flush()
    os._exit(0)

def library():
    try:
        import ctypes
    except ImportError:
        not_applicable("there is no ctypes to make system calls with")
    return ctypes, ctypes.CDLL(None, use_errno=True)

def call(name, *args):
    ctypes, libc = library()
    ctypes.set_errno(0)
    done = getattr(libc, name)(*args)
    return done, errno.errorcode.get(ctypes.get_errno(), "")

def syscall(name, *args):
    if name not in NUMBERS:
        not_applicable("this architecture has no system call " + name)
    return call("syscall", NUMBERS[name], *args)

def buffer(size):
    return library()[0].create_string_buffer(size)

def verdict(escaped, why=""):
    print("ESCAPED" if escaped else "STOPPED", why)

# It is an escape that something can be done at all.
def refused(action):
    try:
        got = action()
    except (AttributeError, ImportError, NameError) as error:
        not_applicable(repr(error))
    except Exception as error:
        verdict(False, repr(error))
    else:
        verdict(True, repr(got)[:200])

# It is an escape that a call is let through to the kernel, even if that then finds its arguments wanting.
def denied(answer, by=("EPERM", "EACCES", "ENOSYS")):
    done, why = answer
    verdict(done >= 0 or why not in by, why)

# A call that may end the process is made in a child, which must live to say that the kernel was reached.
def denied_or_ended(make_call):
    child = os.fork()
    if child == 0:
        done, why = make_call()
        os._exit(42 if done >= 0 or why not in ("EPERM", "EACCES", "ENOSYS") else 1)
    status = os.waitpid(child, 0)[1]
    verdict(os.WIFEXITED(status) and os.WEXITSTATUS(status) == 42, status)

# What is over a limit is held until it is ended. In pieces: where the whole machine stands still meanwhile, whoever
# ends it has a turn before this is over.
def wait_to_be_ended():
    import time
    for _ in range(5):
        time.sleep(2)

print("BEGUN")
"""


def source_of(code: str, things: Mapping[str, Any]) -> str:
    """Return the whole program: the prelude, and the attempt's own source with the host's things in it."""
    for name, value in things.items():
        code = code.replace(f"{{{name}!r}}", repr(value)).replace(f"{{{name}}}", str(value))
    numbers = {**NUMBERS.get(platform.machine(), {}), **_YOUNGER}
    return PRELUDE.replace("{numbers!r}", repr(numbers)) + code


# Messages by which an engine says that it lacks a feature which a program begins with.
_CANNOT_START = (ErrorKind.UNSUPPORTED, ErrorKind.MISSING_DEPENDENCY, ErrorKind.SYNTAX)
_WORDS = (("ESCAPED", Outcome.ESCAPED), ("STOPPED", Outcome.STOPPED), ("NOT APPLICABLE", Outcome.NOT_APPLICABLE))


def verdict_of(result: ExecutionResult, ended_by: Collection[ErrorKind] = ()) -> Verdict:
    """Return a program's verdict: its own, else the one that follows from how it ended, if that is one of
    `ended_by`.
    """
    said = result.stdout.splitlines()
    for word, outcome in _WORDS:
        for line in said:
            if line.startswith(word):
                return Verdict(outcome, line.removeprefix(word).strip()[:500])
    if result.error is not None and result.error.kind in ended_by:
        return Verdict(Outcome.STOPPED, f"{result.error.kind.value}: {result.error.message}"[:500])
    if "BEGUN" not in said and result.error is not None and result.error.kind in _CANNOT_START:
        return Verdict(Outcome.NOT_APPLICABLE, f"the program cannot begin: {result.error.message}"[:500])
    return unproven(f"{result.stdout[-200:]!r}, {result.stderr[-300:]!r}, {result.error}")
