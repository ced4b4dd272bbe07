"""Asking whoever sits at the terminal whether a program may run, or a call be made."""

from __future__ import annotations

import json
import os
import select
import termios
import threading
from typing import Any, Final

from actbox.tools import ApprovalDecision, ApprovalRequest
from actbox.tools.threads import ThreadPool

from .output import to_bytes
from .terminal import spelt_out

MOST_ARGUMENT_CHARACTERS: Final = 2000
"""Of one argument; how many more there are is said."""

_READ_BYTES = 4096
# How often a thread that waits for an answer looks whether there still is a question.
_LOOK_EVERY_SECONDS = 0.1
_NO_TERMINAL = ApprovalDecision(False, "no person is at a terminal to be asked", cause="unavailable")
_UNANSWERED = ApprovalDecision(False, "the question was left unanswered", cause="unavailable")
# One question at a time, in the order in which they came.
_threads = ThreadPool(limit=1)
_turn = threading.Lock()


class TerminalApprover:
    """Shows what is asked and reads `y` or `n`; what follows the `n` is the reason. No answer is no.

        from actbox.cli import TerminalApprover
        agent = CodeAgent(model, box, tools=tools, approver=TerminalApprover())

    `input` and `output` are descriptors of terminals, standard input and standard error unless told. Where one of them
    is none, everything is refused. What was typed before a question was shown is no answer to it. Text of a program is
    shown so that it cannot act on the terminal or hide: control, formatting and colour codes are spelt out, each line
    of code has its number in front of it.
    """

    def __init__(self, *, input: int = 0, output: int = 2, by: str = "the person at the terminal") -> None:
        self._input = input
        self._output = output
        self._by = by

    async def decide(self, request: ApprovalRequest) -> ApprovalDecision:
        """Ask, and wait for the answer; when cancelled, say that the question is withdrawn."""
        if not (os.isatty(self._input) and os.isatty(self._output)):
            return _NO_TERMINAL
        withdrawn = threading.Event()
        try:
            return await _threads.run(self._ask, question(request), withdrawn)
        finally:
            withdrawn.set()  # which a thread that still waits for an answer notices

    def _ask(self, text: str, withdrawn: threading.Event) -> ApprovalDecision:
        with _turn:
            termios.tcflush(self._input, termios.TCIFLUSH)
            self._write(text)
            return self._read_answer(withdrawn)

    def _read_answer(self, withdrawn: threading.Event) -> ApprovalDecision:
        while True:
            self._write("May it? [y/n, or n and a reason] ")
            while not withdrawn.is_set() and not select.select([self._input], [], [], _LOOK_EVERY_SECONDS)[0]:
                pass
            if withdrawn.is_set():
                self._write("\nWithdrawn: the run has ended.\n")
                return _NO_TERMINAL
            try:
                typed = os.read(self._input, _READ_BYTES)
            except OSError:  # the terminal has gone away
                return _NO_TERMINAL
            if not typed:  # Ctrl-D: somebody is there, and does not answer
                self._write("\n")
                return _UNANSWERED
            word, _, reason = typed.decode("utf-8", "replace").strip().partition(" ")
            if word.lower() in ("y", "yes"):
                return ApprovalDecision(True, by=self._by)
            if word.lower() in ("n", "no"):
                return ApprovalDecision(False, reason.strip(), self._by)

    def _write(self, text: str) -> None:
        view = memoryview(to_bytes(text))
        while view:
            view = view[os.write(self._output, view) :]


def question(request: ApprovalRequest) -> str:
    """Return a request as text for a terminal: what is asked and why, the arguments, the code."""
    what = "This program is to run" if request.what == "run" else f"The program calls {spelt_out(request.tool)}"
    why = spelt_out(request.reason)
    lines = ["", f"{what}. {why[:1].upper()}{why[1:]}."]
    lines += [f"  {spelt_out(name)} = {_argument(value)}" for name, value in request.arguments.items()]
    if request.excerpt:
        lines.append("The program:" if request.what == "run" else "Around the call, by the program's own word:")
    width = len(str(request.excerpt[-1][0])) if request.excerpt else 0
    for number, code in request.excerpt:
        mark = ">" if number == request.line else " "
        lines.append(f" {mark} {number:{width}} | {spelt_out(code)}")
    return "\n".join(lines) + "\n"


def _argument(value: Any) -> str:
    text = spelt_out(repr(value) if isinstance(value, bytes) else json.dumps(value, ensure_ascii=False, default=repr))
    more = len(text) - MOST_ARGUMENT_CHARACTERS
    return text if more <= 0 else f"{text[:MOST_ARGUMENT_CHARACTERS]} … and {more:,} characters more"
