"""The exit codes of the command line, and the error that a wrong command line gets."""

from __future__ import annotations

from typing import Final

USAGE: Final = 2
"""The command line makes no sense."""
SANDBOX_FAILED: Final = 125
"""No sandbox could be had, or it failed; the program is not to blame."""
SIGNALLED: Final = 128
"""Plus the number of the signal that ended the command, as shells count."""
BROKEN_PIPE: Final = SIGNALLED + 13
"""Nobody reads the output any more: what a shell reports for a command that SIGPIPE ended."""


class UsageError(Exception):
    """A wrong command line: one sentence that names what is wrong, and a hint that shows what would be right."""

    def __init__(self, sentence: str, hint: str) -> None:
        super().__init__(sentence)
        self.hint = hint


class NoSandbox(Exception):
    """No sandbox could be had: one sentence that says why, and a hint where there is more to say than that."""

    def __init__(self, sentence: str, hint: str) -> None:
        super().__init__(sentence)
        self.hint = hint


def exit_status(code: int) -> int:
    """Return what a process can report for a result's exit code: 0 to 255, and 0 only for 0."""
    return code & 0xFF or (1 if code else 0)
