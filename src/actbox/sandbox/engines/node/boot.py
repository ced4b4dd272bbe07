"""Loads the guest into Node: all its files as one text on Node's command line, so that no file must be visible."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Final

from actbox.core.limits import Limits

_GUEST: Final = Path(__file__).parent / "guest"
# Files that all guests in JavaScript share.
_SHARED: Final = Path(__file__).parents[2] / "guest"
# The descriptor of a guest's channel in its own process.
_CHANNEL: Final = 3
# Node's own memory besides a program's heap: code, stacks, and the young part of the heap.
_BESIDE_HEAP_MIB: Final = 96
_LEAST_HEAP_MIB: Final = 16

# Each file becomes a function, called when it is first required.
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
    """Return the guest's JavaScript for `node --eval`."""
    files = ",".join(
        f"{json.dumps(f'./{file.name}')}: function (module, require) {{{file.read_text('utf-8')}}}\n"
        for file in sorted([*_GUEST.glob("*.js"), *_SHARED.glob("*.js")])
    )
    return _LOADER % (files, _CHANNEL)


def node_command(node: str, limits: Limits) -> list[str]:
    """Return the command that starts a guest in Node."""
    return [node, f"--max-old-space-size={heap_mib(limits.memory_mib)}", "--eval", guest_source()]


def heap_mib(memory_mib: int) -> int:
    """Return the size of V8's heap in MiB for a run's memory: V8 collects garbage before the heap is full."""
    return max(memory_mib - _BESIDE_HEAP_MIB, memory_mib // 2, _LEAST_HEAP_MIB)
