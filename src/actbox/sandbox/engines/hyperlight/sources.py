"""The code of ours that runs inside the virtual machine, as text."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

from .options import GuestOptions

_INSIDE = Path(__file__).parent / "inside"
_GUEST = Path(__file__).parents[2] / "guest"
_HERE = "engines.hyperlight.inside"
_JAVASCRIPT = ("channel", "values", "tools", "files", "timers", "program")
# The channel of other guests is a socket, and their tracebacks are those of `traceback`, which this interpreter lacks:
# the guest's modules find ours under their names.
_CHANNEL = f"from ..{_HERE}.channel import HostChannel, ToolError"
_TRACES = f"from ..{_HERE}.traces import is_own, trace"


_compiled: dict[tuple[str, int, int], str] = {}


def guest_code(options: GuestOptions) -> dict[str, Any]:
    """Return what a worker needs to make a machine and to start a run in it."""
    code = _code(options.language)
    known = _compiled.get(_guest(options), "")
    return {**code, "sources": {"compiled": known}} if known else code


def keep_compiled(options: GuestOptions, compiled: str) -> None:
    """Keep what a machine has compiled of ours, before any program, for others of this process with the same guest."""
    if compiled:
        _compiled[_guest(options)] = compiled


def _guest(options: GuestOptions) -> tuple[str, int, int]:
    """Return what tells a guest's interpreter from any other: its file, and when that was written."""
    file = options.to_command()["module"]
    try:
        found = os.stat(file)
    except OSError:  # a module's name, or a file with which no machine will start
        return file, 0, 0
    return file, found.st_mtime_ns, found.st_size


@cache
def _code(language: str) -> dict[str, Any]:
    if language == "javascript":
        parts = ((_INSIDE / "javascript" / f"{name}.js").read_text("utf-8") for name in _JAVASCRIPT)
        prelude = '(() => {"use strict";\n' + "".join(parts) + "})();"
        return {"sources": {"prelude": prelude}, "warm": "1", "boot": _JAVASCRIPT_BOOT, "start": "await __actbox('%s')"}
    return {
        "sources": {"texts": _modules()},
        "warm": "None",
        "boot": (_INSIDE / "boot.py").read_text("utf-8") + _PYTHON_READY,
        "start": f"import sys; sys.modules['_actbox.{_HERE}.program'].run('%s')",
    }


def _modules() -> dict[str, str]:
    """Return the modules in the order in which they import one another."""

    def guest(*names: str) -> dict[str, str]:
        return {f"guest.{name}": (_GUEST / f"{name}.py").read_text("utf-8") for name in names}

    def inside(*names: str) -> dict[str, str]:
        return {f"{_HERE}.{name}": (_INSIDE / f"{name}.py").read_text("utf-8") for name in names}

    return {
        **guest("wire"),
        **inside("channel", "traces"),
        "guest.channel": _CHANNEL,
        "guest.traces": _TRACES,
        **guest("tools", "value", "program", "failure"),
        **inside("http", "failure", "files", "program"),
    }


_PYTHON_READY = f"""
from wit_world.imports import tools
sys.modules['_actbox.{_HERE}.program'].start(tools.dispatch)
"""
# The prelude's own lines are counted from far below any program's.
_JAVASCRIPT_BOOT = """
let have = '', size = 1;
while (have.length < size) {
  const answer = call_tool('actbox', { p: have.length });
  size = answer.size;
  have += atob(answer.piece);
}
(0, eval)('\\n'.repeat(200000) + JSON.parse(have).prelude);
"""
