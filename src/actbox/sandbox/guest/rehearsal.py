"""Runs trial programs before the first program comes, so that their memory pages are written already.

A forked process shares its parent's memory until it writes, and each first write to a page costs some microseconds.
Much of what a run writes is the same for every program.
"""

from __future__ import annotations

import linecache
import os
import sys
import weakref

from . import display, wire
from .finish import flush_all, is_alone
from .limits import apply_limits
from .program import compile_program, new_main, programs, run_in
from .spawned import note_tools
from .tools import bind_tools, bind_types
from .value import describe_value

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Dict

_NAME = "<rehearsal>"
_PROGRAM = """
def f(n):
    return [str(n)]

x = f(1 + 1)
x
"""
# Typical first uses of preloaded libraries; most of the pages that they write are the library's own.
_LIBRARIES = {
    "numpy": "import numpy\nnumpy.arange(4.0).reshape(2, 2).sum(axis=0).tolist()",
    "pandas": "import pandas\nt = pandas.DataFrame({'a': [1, 2], 'b': ['x', 'y']})\nstr(t), str(t['a'].sum())",
}


_MESSAGE = {
    "t": "run",
    "name": _NAME,
    "code": _PROGRAM,
    "variables": {"ACTBOX_REHEARSAL": "1"},
    "limits": {"memory_mib": 512, "cpu_seconds": 30.0, "file_mib": 64, "open_files": 256, "processes": 33},
    "inputs": {},
    "tools": [],
}


def rehearse(channel: Any = None) -> None:
    """Take the steps of a run with small programs, sending nothing, and remove what they leave.

    In a guest `channel` is its `HostChannel`; a process that forks guests has none.
    """
    before = sys.modules.get("__main__")
    reader = wire.FrameReader(wire.ENVELOPE_BYTES)
    (message,) = reader.feed(wire.encode(_MESSAGE, wire.ENVELOPE_BYTES))
    os.environ.update(message["variables"])
    for name in message["variables"]:
        del os.environ[name]
    apply_limits({}, 0)
    done: Dict[str, Any] = {"t": "done", "exit": 0}
    for program in [code for name, code in _LIBRARIES.items() if name in sys.modules] + [message["code"]]:
        compiled = compile_program(program, message["name"])
        names = bind_tools(message["tools"], channel, compiled.awaits, message["name"])
        names.update(message["inputs"])
        note_tools(message["tools"])
        bind_types(message, names)
        main = new_main(names)
        _, value = run_in(main, compiled)
        done.update(describe_value(value, 1000))
        main.__dict__.clear()
    display.finish(done)
    flush_all()
    _end_logging()
    if channel is not None:
        is_alone()  # which hears of a child that has ended, and a guest has none yet
    wire.has_long_number("1" * (wire.MAX_DIGITS + 1))
    wire.encode(done, wire.ENVELOPE_BYTES)
    linecache.cache.pop(_NAME, None)
    programs.clear()
    if before is not None:
        sys.modules["__main__"] = before


def _end_logging() -> None:
    """End logging as Python does at its end, but for one handler that nobody else has."""
    if "logging" in sys.modules:
        import logging

        handler = logging.Handler()
        logging.shutdown([weakref.ref(handler)])
