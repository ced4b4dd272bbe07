"""Errors of the command line: exit codes, two exceptions, and the library's sentences reworded for the command line.

The library's sentences name Python arguments; `in_flags` names command-line flags in their place.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

USAGE: Final = 2
"""The exit code for a wrong command line."""
SANDBOX_FAILED: Final = 125
"""The exit code when no sandbox could be opened, or it failed; the program is not to blame."""
SIGNALLED: Final = 128
"""The base of the exit codes for a command that a signal ended: add the signal's number, as shells do."""
BROKEN_PIPE: Final = SIGNALLED + 13
"""The exit code when the reader of the output is gone, as a shell reports for SIGPIPE."""


class UsageError(Exception):
    """A wrong command line: a sentence that names the mistake, and a hint that shows a right one."""

    def __init__(self, sentence: str, hint: str) -> None:
        super().__init__(sentence)
        self.hint = hint


class NoSandbox(Exception):
    """No sandbox could be opened: a sentence that says why, and a hint if there is more to say."""

    def __init__(self, sentence: str, hint: str) -> None:
        super().__init__(sentence)
        self.hint = hint


def exit_status(code: int) -> int:
    """Return the exit status that a process can report for a result's exit code: 0 to 255, and 0 only for 0."""
    return code & 0xFF or (1 if code else 0)


_WORDS: Final = {
    "allow_unisolated=True": "--allow-unisolated",
    "Limits.memory_mib": "--memory",
    "Limits.wall_seconds": "--timeout",
    "Policy.domains": "--domain",
    "Policy.mounts": "--mount",
    "Policy.preload": "--preload",
    "Budget.usd": "--budget-usd",
    "Task.best_of": "--best-of",
    "Task.goal": "GOAL",
    "Task.inputs": "--input",
    "Task.outputs": "--output",
    "Task.language": "--language",
    "base_url": "--base-url",
}
_OPENING: Final = re.compile(r"open_sandbox\('(\w+)'((?:, \w+=(?:'[^']*'|True))*)\)")
_ENGINE: Final = re.compile(r"\bengine='(\w+)'")
_LANGUAGE: Final = re.compile(r"\blanguage='(\w+)'")
_PRICE: Final = re.compile(r"prices=Prices\(models=\{'([^']*)': TokenPrice\(input=…, output=…\)\}\)")
_KEYWORD: Final = re.compile(r"\b(\w+)='([^']*)'")


def in_flags(sentence: str, options: Sequence[str] = ()) -> str:
    """Return a sentence of the library reworded for the command line. `options` are the engine's own, by name."""
    sentence = _OPENING.sub(lambda found: f"--sandbox {found[1]}{_flags(found[2])}", sentence)
    sentence = _ENGINE.sub(r"--sandbox \1", sentence)
    sentence = _LANGUAGE.sub(r"--language \1", sentence)
    sentence = _PRICE.sub(r'--prices FILE, with input and output in its table [models."\1"]', sentence)
    sentence = _KEYWORD.sub(lambda found: _option(found) if found[1] in options else found[0], sentence)
    for word, flag in _WORDS.items():
        sentence = sentence.replace(word, flag)
    return sentence


def _flags(keywords: str) -> str:
    return _KEYWORD.sub(_option, keywords).replace(",", "")


def _option(keyword: re.Match[str]) -> str:
    return f"--option {keyword[1]}={keyword[2]}"
