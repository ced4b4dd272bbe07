"""Sandboxes for whoever has only a shell."""

from __future__ import annotations

from actbox.sandbox.channel.http import ToolAddress

from .answers import ShellError
from .errands import Errand
from .process import ProcessShell, ShellProcess
from .sandbox import ShellSandbox
from .traits import shell_traits

__all__ = ["Errand", "ProcessShell", "ShellError", "ShellProcess", "ShellSandbox", "ToolAddress", "shell_traits"]
