"""A run of nothing, before the first program comes: what it touches is in this process's own memory from then on.

A forked process shares its parent's memory until it writes, and each first write to a page costs some microseconds.
Much of what a run writes to is the same for every program.
"""

from __future__ import annotations

import gc
import linecache
import sys

from . import wire
from .limits import apply_limits
from .program import compile_program, new_main, run_in
from .value import describe_value

_NAME = "<rehearsal>"


def rehearse() -> None:
    """Compile and run a small program as a run would, and leave nothing of it behind."""
    # What a run does first and last, with nothing in it.
    apply_limits({}, 0)
    print(end="", flush=True)
    before = sys.modules.get("__main__")
    main = new_main({"ToolError": None})
    _, value = run_in(main, compile_program("def f(n):\n    return [str(n)]\n\nx = f(1 + 1)\nx", _NAME))
    reader = wire.FrameReader(wire.ENVELOPE_BYTES)
    for _ in reader.feed(wire.encode({"t": "done", "exit": 0, **describe_value(value, 1000)}, wire.ENVELOPE_BYTES)):
        pass
    linecache.cache.pop(_NAME, None)
    if before is not None:
        sys.modules["__main__"] = before
    gc.freeze()
