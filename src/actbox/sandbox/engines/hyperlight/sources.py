"""The code for the inside of the virtual machine, as text."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

from .options import GuestOptions

_INSIDE = Path(__file__).parent / "inside"
_GUEST = Path(__file__).parents[2] / "guest"
_HERE = "engines.hyperlight.inside"
# Files of the JavaScript guest that use one shared namespace, because the machine has no modules.
_SHARED = ("tagged", "messages")
_MODULE = """\
((module, require) => {%s})({ set exports(given) { Object.assign(shared, given); } }, () => shared);
"""
_JAVASCRIPT = ("channel", "values", "tools", "files", "timers", "program")
# The guest's `channel` and `traces` modules need sockets and `traceback`, which this interpreter lacks. These texts
# replace them by ours.
_CHANNEL = f"from ..{_HERE}.channel import HostChannel"
_TRACES = f"from ..{_HERE}.traces import is_own, trace"


_compiled: dict[tuple[str, int, int], str] = {}


def guest_code(options: GuestOptions) -> dict[str, Any]:
    """Return the code that a worker needs to start a machine and to start a run in it."""
    code = _code(options.language)
    known = _compiled.get(_guest(options), "")
    return {**code, "sources": {"compiled": known}} if known else code


def keep_compiled(options: GuestOptions, compiled: str) -> None:
    """Cache our modules as compiled by a machine before any program ran, for later machines with the same guest."""
    if compiled:
        _compiled[_guest(options)] = compiled


def _guest(options: GuestOptions) -> tuple[str, int, int]:
    """Return a key of a guest's interpreter: the file, its modification time and its size."""
    file = options.to_command()["module"]
    try:
        found = os.stat(file)
    except OSError:  # a module's name, or a missing file, with which no machine starts
        return file, 0, 0
    return file, found.st_mtime_ns, found.st_size


@cache
def _code(language: str) -> dict[str, Any]:
    if language == "javascript":
        shared = (_MODULE % (_GUEST / f"{name}.js").read_text("utf-8") for name in _SHARED)
        own = ((_INSIDE / "javascript" / f"{name}.js").read_text("utf-8") for name in _JAVASCRIPT)
        prelude = '(() => {"use strict"; const shared = {};\n' + "".join([*shared, *own]) + "})();"
        return {"sources": {"prelude": prelude}, "warm": "1", "boot": _JAVASCRIPT_BOOT, "start": "await __actbox('%s')"}
    return {
        "sources": {"texts": _modules()},
        "warm": "None",
        "boot": (_INSIDE / "boot.py").read_text("utf-8") + _PYTHON_READY,
        "start": f"import sys; sys.modules['_actbox.{_HERE}.program'].run('%s')",
    }


def _modules() -> dict[str, str]:
    """Return the texts of the modules, each after those that it imports."""

    def guest(*names: str) -> dict[str, str]:
        return {f"guest.{name}": (_GUEST / f"{name}.py").read_text("utf-8") for name in names}

    def inside(*names: str) -> dict[str, str]:
        return {f"{_HERE}.{name}": (_INSIDE / f"{name}.py").read_text("utf-8") for name in names}

    return {
        **guest("members", "tagged", "wire", "tool_error"),
        **inside("channel", "traces"),
        "guest.channel": _CHANNEL,
        "guest.traces": _TRACES,
        **guest("imports", "figures", "display", "tools", "value", "indentation", "program", "notebook"),
        **guest("failed_expressions", "error_hints"),
        **inside("files", "program"),
    }


_PYTHON_READY = f"""
from wit_world.imports import tools
sys.modules['_actbox.{_HERE}.program'].start(tools.dispatch)
"""
# Blank lines before the prelude give its lines numbers far above those of any program.
_JAVASCRIPT_BOOT = """
let have = '', size = 1;
while (have.length < size) {
  const answer = call_tool('actbox', { p: have.length });
  size = answer.size;
  have += atob(answer.piece);
}
(0, eval)('\\n'.repeat(200000) + JSON.parse(have).prelude);
"""
