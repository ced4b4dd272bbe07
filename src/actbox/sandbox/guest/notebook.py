"""Recognizes lines that only a notebook, a prompt or a chat understands, and suggests what to write instead."""

from __future__ import annotations

import re

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import List

_INSTALLS = re.compile(
    r"\s*[!%]*\s*(?:python[\d.]*\s+-m\s+)?(?:pip[\d.]*|uv\s+pip|conda|mamba)\s+install\b(?P<arguments>.*)"
)
NO_INSTALLS = "a program cannot install packages here: leave this line out, and "
"""The start of the hint for a line that installs packages which are not there."""
_SHELL_CELLS = ("%%bash", "%%sh", "%%shell", "%%script", "%%system", "%%!")
# An assignment of a shell command's or a magic's output, as in notebooks: `files = !ls`.
_ASSIGNED = re.compile(r"[\w\s,.]+=\s*([!%].*)")
_PACKAGE = re.compile(r"[A-Za-z0-9][\w.-]*")


def notebook_hint(line: str) -> str:
    """Return what to write instead of a line from a notebook, a prompt or a chat; nothing for any other line."""
    installs = _INSTALLS.match(line)
    if installs:
        return _instead_of_installing(installs["arguments"].split())
    text = line.strip()
    if text.startswith((">>>", "...")):
        return "leave the prompts (`>>>` and `...`) out, and what an interpreter printed: send the program alone"
    if text.startswith(("```", "~~~")):
        return "leave the fences (```) out: send the program alone"
    if text.startswith("?") or text.endswith("?"):
        return "a line with `?` is a notebook's: call help(%s) instead, or leave it out" % text.strip("?")
    assigned = _ASSIGNED.match(text)
    if assigned:
        text = assigned[1]
    if text.startswith("!"):
        return "a line with `!` is a notebook's: call subprocess.run(...) instead, or leave it out"
    name = text.split()[0] if text else ""
    if name in _SHELL_CELLS:
        instead = "write what follows in Python, or give it to subprocess.run(['bash', '-c', '...'], check=True)"
        return "a cell with `%s` is a notebook's: %s" % (name, instead)
    if text.startswith("%"):
        return "a line with `%%` is a notebook's: leave `%s` out" % name
    return ""


def _instead_of_installing(arguments: List[str]) -> str:
    found = [_PACKAGE.match(argument) for argument in arguments]
    names = [name[0] for name in found if name]
    missing = [name for name in names if not is_installed(name)]
    if names and not missing:
        return "leave this line out: installed here already: %s" % ", ".join(names)
    hint = NO_INSTALLS + "use the standard library or what is there"
    return "%s (not installed: %s)" % (hint, ", ".join(missing)) if missing else hint


def is_installed(name: str, editable: bool = False) -> bool:
    """Return whether a package is installed in this environment; with `editable`, whether as an editable install."""
    try:
        from importlib.metadata import PackageNotFoundError, distribution
    except ImportError:  # an interpreter without packages
        return False
    try:
        found = distribution(name)
    except (PackageNotFoundError, ValueError):  # the latter for an empty name
        return False
    return not editable or re.search(r'"editable"\s*:\s*true', found.read_text("direct_url.json") or "") is not None
