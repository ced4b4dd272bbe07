"""The code of ours that runs inside the virtual machine, as text."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

_INSIDE = Path(__file__).parent / "inside"
_GUEST = Path(__file__).parents[2] / "guest"
_HERE = "engines.hyperlight.inside"
_JAVASCRIPT = ("channel", "values", "tools", "files", "timers", "program")
# The channel of other guests is a socket; the guest's modules find ours under its name.
_CHANNEL = "from ..engines.hyperlight.inside.channel import HostChannel, ToolError"


@cache
def guest_code(language: str) -> dict[str, Any]:
    """Return what a worker needs to make a machine and to start a run in it."""
    if language == "javascript":
        parts = ((_INSIDE / "javascript" / f"{name}.js").read_text("utf-8") for name in _JAVASCRIPT)
        prelude = '(() => {"use strict";\n' + "".join(parts) + "})();"
        return {"sources": {"prelude": prelude}, "warm": "1", "boot": _JAVASCRIPT_BOOT, "start": "await __actbox('%s')"}
    return {
        "sources": _modules(),
        "warm": "None",
        "boot": (_INSIDE / "boot.py").read_text("utf-8") + _PYTHON_READY,
        "start": f"import sys; sys.modules['_actbox.{_HERE}.program'].run('%s')",
    }


def _modules() -> dict[str, str]:
    """Return the modules in the order in which they import one another."""
    guest = {f"guest.{name}": (_GUEST / f"{name}.py").read_text("utf-8") for name in ("tools", "value", "program")}
    inside = {
        f"{_HERE}.{name}": (_INSIDE / f"{name}.py").read_text("utf-8")
        for name in ("http", "failure", "files", "program")
    }
    return {
        "guest.wire": (_GUEST / "wire.py").read_text("utf-8"),
        f"{_HERE}.channel": (_INSIDE / "channel.py").read_text("utf-8"),
        "guest.channel": _CHANNEL,
        **guest,
        **inside,
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
