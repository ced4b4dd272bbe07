"""How the guest gets into Node: all its files as one text on Node's command line, so that none has to be visible."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Final

from actbox.core.limits import Limits

_GUEST: Final = Path(__file__).parent / "guest"
# What a guest's channel is called in its own process.
_CHANNEL: Final = 3
# Node itself, beside the heap of a program: code, stacks, and what is young in the heap.
_BESIDE_HEAP_MIB: Final = 96
_LEAST_HEAP_MIB: Final = 16

# Each file is a function of its own, called when the first other one requires it.
_LOADER: Final = """\
"use strict";
{
  const files = {%s};
  const loaded = {};
  const load = (name) => {
    if (!(name in files)) return require(name);
    if (!(name in loaded)) {
      const module = (loaded[name] = { exports: {} });
      files[name](module, load);
    }
    return loaded[name].exports;
  };
  load("./main.js").main(%d);
}
//# sourceURL=node:actbox
"""


@functools.cache
def guest_source() -> str:
    """Return the guest: JavaScript for `node --eval`."""
    files = ",".join(
        f"{json.dumps(f'./{file.name}')}: function (module, require) {{{file.read_text('utf-8')}}}\n"
        for file in sorted(_GUEST.glob("*.js"))
    )
    return _LOADER % (files, _CHANNEL)


def node_command(node: str, limits: Limits) -> list[str]:
    """Return the command that becomes a guest."""
    return [node, f"--max-old-space-size={heap_mib(limits.memory_mib)}", "--eval", guest_source()]


def heap_mib(memory_mib: int) -> int:
    """Return how much of a run's memory V8's heap may have: V8 looks for garbage before it has all of that."""
    return max(memory_mib - _BESIDE_HEAP_MIB, memory_mib // 2, _LEAST_HEAP_MIB)
