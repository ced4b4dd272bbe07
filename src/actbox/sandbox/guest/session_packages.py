"""Packages that a session gets while it lives: lines with `pip install`, missing modules, and the host's layers.

The host adds layers of packages to a directory that the session sees read-only. Here they are put on the import path.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import shlex
import sys
from importlib.machinery import PathFinder

from . import pip_command
from .channel import ChannelClosed, HostChannel
from .imports import after_import
from .tool_error import NotInstalled, ToolError

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import FrameType, ModuleType
    from typing import Any, Container, Dict, List, Optional, Sequence, Set

INSTALL = "<install>"
"""The name under which the guest calls the host for packages; no tool can have it as a name in a program."""
_MARKS = re.compile(r"\s*[!%]{0,2}\s*")


class SessionPackages:
    """The guest's side of a session's packages: an import hook, an audit hook, and the functions of its `pip`."""

    def __init__(self, channel: HostChannel, programs: Container[str], folder: str) -> None:
        """`programs` are the file names of the session's programs; `folder` has the `pip` command."""
        self._channel = channel
        self._programs = programs
        self._unknown: Set[str] = set()
        self._scripts: Optional[str] = None  # of the latest layer
        os.environ["PATH"] = "%s/bin:%s" % (folder, os.environ.get("PATH", ""))
        self.see([folder])
        after_import("pip", self._connect)
        sys.meta_path.append(self)
        sys.addaudithook(self._before_process)

    def see(self, folders: Sequence[str]) -> None:
        """Import from these layers, oldest first; later layers come before earlier ones. Repeating it is harmless."""
        places = os.environ.get("PATH", "").split(":")
        inherited = [place for place in os.environ.get("PYTHONPATH", "").split(":") if place]
        for folder in folders:
            site, scripts = folder + "/site", folder + "/bin"
            if site not in sys.path:
                sys.path.insert(1, site)
            if site not in inherited:  # processes that a program starts import from there
                inherited.insert(0, site)
            if scripts not in places:
                places.insert(places.index(self._scripts) if self._scripts in places else len(places), scripts)
                self._scripts = scripts
        os.environ["PYTHONPATH"] = ":".join(inherited)
        os.environ["PATH"] = ":".join(places)
        importlib.invalidate_caches()

    def install(self, requirements: List[str]) -> List[str]:
        """Have the host install packages; return the name with the version of each new one. Raises `NotInstalled`."""
        installed: List[str] = self._ask({"requirements": requirements})["installed"]
        self._unknown.clear()
        return installed

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]] = None, target: Optional[ModuleType] = None
    ) -> Optional[ModuleSpec]:
        """Find a module that a program misses, once the host has installed its package. Raises `NotInstalled`."""
        if path is not None or "." in fullname or fullname in self._unknown or not self._is_program_importing():
            return None
        try:
            answer = self._ask({"module": fullname})
        except (ToolError, ChannelClosed):  # no program runs, or this is a process that one has started
            return None
        if not answer["installed"]:
            self._unknown.add(fullname)
            return None
        return PathFinder.find_spec(fullname)

    def _ask(self, arguments: Dict[str, Any]) -> Dict[str, Any]:
        answer: Dict[str, Any] = self._channel.call(INSTALL, arguments)
        if "error" in answer:
            raise _refusal(**answer["error"])
        self.see(answer["folders"])
        return answer

    def _is_program_importing(self) -> bool:
        """Return True if a line of a program imports, and not a library, which may well do without the module."""
        frame: Optional[FrameType] = sys._getframe(2)
        while frame is not None:
            name = frame.f_code.co_filename
            if not name.startswith("<frozen importlib") and name != after_import.__code__.co_filename:
                return name in self._programs
            frame = frame.f_back
        return False

    def _connect(self, module: ModuleType) -> None:
        if hasattr(module, "requirements_of"):  # it is ours
            module.install = self.install  # type: ignore[attr-defined]

    def _before_process(self, event: str, args: Any) -> None:
        """Install what a process is about to install: it cannot ask the host itself. Raises `NotInstalled`."""
        if event == "subprocess.Popen":
            words, folder = args[1], os.fsdecode(args[2] or "")
        elif event == "os.system":
            words, folder = args[0], ""
        else:
            return
        for arguments in pip_command.commands_in(words):
            if arguments[:1] == ["install"]:
                # Otherwise the process says why, and ends with an error.
                with contextlib.suppress(pip_command.CannotDo, ToolError, ChannelClosed):
                    self.install(pip_command.requirements_of(arguments[1:], folder))


def with_pip_called(source: str, error: SyntaxError) -> str:
    """Return a source whose line with a syntax error is a pip command, as in `%pip install x`, with a call instead.

    Return "" if the line is anything else.
    """
    lines = source.split("\n")
    number = (error.lineno or 0) - 1
    if not 0 <= number < len(lines):
        return ""
    line = lines[number]
    try:
        words = shlex.split(line[_MARKS.match(line).end() :], comments=True)  # type: ignore[union-attr]
    except ValueError:
        return ""
    arguments = pip_command.arguments_of(words)
    if arguments is None:
        return ""
    indent = line[: len(line) - len(line.lstrip())]
    lines[number] = "%s__import__('pip').run(%r)" % (indent, arguments)
    return "\n".join(lines)


def _refusal(kind: str, type: str, message: str, hint: str) -> NotInstalled:
    # The class has the name that the host gives the refusal, such as PackageBlocked.
    made: Any = _class_of(type or "NotInstalled")
    error: NotInstalled = made(message)
    error.kind, error.hint = kind, hint
    return error


def _class_of(name: str) -> Any:
    return type(name, (NotInstalled,), {"__module__": "builtins"})
