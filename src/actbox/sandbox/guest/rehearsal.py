"""Runs trial programs before the first program comes, so that their memory pages are written already.

A forked process shares its parent's memory until it writes, and each first write to a page costs some microseconds.
Much of what a run writes is the same for every program.
"""

from __future__ import annotations

import linecache
import sys

from . import wire
from .limits import apply_limits
from .program import compile_program, new_main, programs, run_in
from .value import describe_value

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


def rehearse() -> None:
    """Compile and run small programs as a run would, and remove what they leave."""
    # The first and the last steps of a run, without a program.
    apply_limits({}, 0)
    print(end="", flush=True)
    before = sys.modules.get("__main__")
    for program in [code for name, code in _LIBRARIES.items() if name in sys.modules] + [_PROGRAM]:
        _, value = run_in(new_main({"ToolError": None}), compile_program(program, _NAME))
    wire.has_long_number("1" * (wire.MAX_DIGITS + 1))
    reader = wire.FrameReader(wire.ENVELOPE_BYTES)
    for _ in reader.feed(wire.encode({"t": "done", "exit": 0, **describe_value(value, 1000)}, wire.ENVELOPE_BYTES)):
        pass
    linecache.cache.pop(_NAME, None)
    programs.clear()
    if before is not None:
        sys.modules["__main__"] = before
