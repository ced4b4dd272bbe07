"""Sandboxes built on nothing but a shell."""

from __future__ import annotations

from actbox.sandbox.channel.http import ToolAddress

from .process import ProcessShell, ShellProcess
from .requests import ControlCommand
from .responses import ShellError
from .sandbox import ShellSandbox
from .traits import shell_traits

__all__ = [
    "ControlCommand",
    "ProcessShell",
    "ShellError",
    "ShellProcess",
    "ShellSandbox",
    "ToolAddress",
    "shell_traits",
]
