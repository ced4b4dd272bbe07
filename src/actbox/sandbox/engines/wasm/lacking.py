"""What CPython has and this engine has not, told from what an error of a program says."""

from __future__ import annotations

import re
import sys
from typing import Final

# What `os` and `signal` have for processes on other systems.
_OF_PROCESSES: Final = (
    r"fork\w*|register_at_fork|exec[lv]\w*|spawn\w+|posix_spawn\w*|system|wait\w*|W[A-Z]+|P_[A-Z]+|POSIX_SPAWN_\w+"
    r"|kill\w*|getppid|[gs]etpgid|[gs]etpgrp|[gs]etsid|nice|pidfd_\w+|pipe2?|startfile|openpty"
)
_KINDS: Final = (
    ("no threads; use asyncio, or an engine of full CPython:", re.compile(r"can't start new thread")),
    (
        "no processes;",
        re.compile(
            r"does not support processes|lacks multiprocessing\.synchronize"
            r"|^No module named '(_multiprocessing|_posixsubprocess|_posixshmem)'"
            rf"|^module 'os' has no attribute '({_OF_PROCESSES})'$"
            rf"|^cannot import name '({_OF_PROCESSES})' from 'os'"
            r"|^name 'execve?' is not defined$"  # which os.execl and its like call
        ),
    ),
    ("no time zones by name;", re.compile(r"^'No time zone found with key ")),
    ("no links in the file system;", re.compile(r"no links can be made in this sandbox")),
    ("no sockets;", re.compile(r"^'_DummySocket' object has no attribute")),
)
_NO_ATTRIBUTE: Final = re.compile(r"module '([\w.]+)' has no attribute '(\w+)'$")
_NO_NAME: Final = re.compile(r"cannot import name '(\w+)' from '([\w.]+)'")
_ERRORS: Final = (
    *("AttributeError", "ImportError", "ModuleNotFoundError", "NameError"),
    *("NotImplementedError", "OSError", "RuntimeError", "ZoneInfoNotFoundError"),
)


def lacking(type: str, message: str) -> str:
    """Return what the engine has not, and which one has it, where that is what an error says; else nothing."""
    if type not in _ERRORS:
        return ""
    for what, words in _KINDS:
        if words.search(message):
            return f"the wasm engine has {what} the linux engine has them"
    if type == "AttributeError" and (found := _NO_ATTRIBUTE.match(message)):
        module, name = found.groups()
    elif type == "ImportError" and (found := _NO_NAME.match(message)):
        name, module = found.groups()
    else:
        return ""
    return f"the wasm engine has no {module}.{name}; the linux engine has it" if _has(module, name) else ""


def _has(module: str, name: str) -> bool:
    """Whether CPython has it here: nothing is imported to know it."""
    return module.partition(".")[0] in sys.stdlib_module_names and hasattr(sys.modules.get(module), name)
