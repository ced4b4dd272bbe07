"""`TerminalApprover`: asks the person at the terminal whether a program may run, call a tool or have a package."""

from __future__ import annotations

import json
import os
import select
import termios
import threading
from typing import Any, Final

from actbox.content.safe_text import spelt_out
from actbox.core.packages import PackageFacts
from actbox.tools import ApprovalDecision, ApprovalRequest
from actbox.tools.approval import NOT_ELEVATED
from actbox.tools.threads import ThreadPool

from .output import to_bytes

MOST_ARGUMENT_CHARACTERS: Final = 2000
"""The most characters of one argument that are shown; the number of further ones is given."""

_READ_BYTES = 4096
# Seconds between two checks, by a thread that waits for an answer, whether the question still stands.
_LOOK_EVERY_SECONDS = 0.1
_NO_TERMINAL = ApprovalDecision(False, "no person is at a terminal to be asked", cause="unavailable")
_UNANSWERED = ApprovalDecision(False, "the question was left unanswered", cause="unavailable")
# `iterencode` yields one scalar after another, so the event loop can go on in between.
_written_in_pieces = json.JSONEncoder(ensure_ascii=False, default=repr).iterencode
# A single thread: questions are asked one at a time, in the order in which they came.
_threads = ThreadPool(limit=1)
_turn = threading.Lock()


class TerminalApprover:
    """An approver that shows the request and reads `y` or `n`; text after the `n` is the reason. No answer counts as
    no. For packages it also reads `a`, which approves the same ones for later programs of this process too.

        from actbox.cli import TerminalApprover
        agent = CodeAgent(model, box, tools=tools, approver=TerminalApprover())

    `input` and `output` are descriptors of terminals, by default standard input and standard error. If one of them is
    no terminal, everything is refused. `elevated` says that whoever sits there may approve packages that no list of the
    policy has; without it nobody is asked about them. Text typed before the question was shown is not an answer. Text
    of a program is shown so that it cannot control the terminal or hide: control, formatting and color codes are
    escaped, and each line of code has its number.
    """

    def __init__(
        self, *, input: int = 0, output: int = 2, by: str = "the person at the terminal", elevated: bool = False
    ) -> None:
        self._input = input
        self._output = output
        self._by = by
        self._elevated = elevated

    async def decide(self, request: ApprovalRequest) -> ApprovalDecision:
        """Ask, and wait for the answer; on cancellation, print that the question is withdrawn."""
        if not (os.isatty(self._input) and os.isatty(self._output)):
            return _NO_TERMINAL
        if request.elevated and not self._elevated:
            return ApprovalDecision(False, NOT_ELEVATED, cause="unavailable")
        withdrawn = threading.Event()
        try:
            return await _threads.run(self._ask, request, withdrawn)
        finally:
            withdrawn.set()  # a thread that still waits for an answer checks this

    def _ask(self, request: ApprovalRequest, withdrawn: threading.Event) -> ApprovalDecision:
        text = question(request)
        with _turn:
            termios.tcflush(self._input, termios.TCIFLUSH)
            self._write(text)
            return self._read_answer(withdrawn, may_stand=request.what == "install" and not request.elevated)

    def _read_answer(self, withdrawn: threading.Event, may_stand: bool) -> ApprovalDecision:
        while True:
            self._write(f"May it? [{'y/a for always/n' if may_stand else 'y/n'}, or n and a reason] ")
            while not withdrawn.is_set() and not select.select([self._input], [], [], _LOOK_EVERY_SECONDS)[0]:
                pass
            if withdrawn.is_set():
                self._write("\nWithdrawn: the run has ended.\n")
                return _NO_TERMINAL
            try:
                typed = os.read(self._input, _READ_BYTES)
            except OSError:  # the terminal is gone
                return _NO_TERMINAL
            if not typed:  # Ctrl-D: the person declines to answer
                self._write("\n")
                return _UNANSWERED
            word, _, reason = typed.decode("utf-8", "replace").strip().partition(" ")
            if word.lower() in ("y", "yes"):
                return ApprovalDecision(True, by=self._by, elevated=self._elevated)
            if may_stand and word.lower() in ("a", "always"):
                return ApprovalDecision(True, by=self._by, standing=True, elevated=self._elevated)
            if word.lower() in ("n", "no"):
                return ApprovalDecision(False, reason.strip(), self._by)

    def _write(self, text: str) -> None:
        view = memoryview(to_bytes(text))
        while view:
            view = view[os.write(self._output, view) :]


def question(request: ApprovalRequest) -> str:
    """Return a request as text for a terminal: the question and its reason, the arguments, the code."""
    what = {
        "run": "This program is to run",
        "call": f"The program calls {spelt_out(request.tool)}",
        "install": "This program asks for a package",
    }[request.what]
    why = spelt_out(request.reason)
    lines = ["", f"{what}. {why[:1].upper()}{why[1:]}."]
    for name, value in request.arguments.items():
        hides = " (its type may hide a part)" if name in request.hidden else ""
        lines.append(f"  {name if name.isidentifier() else _cut(name)} = {_cut(value)}{hides}")
    lines += [f"  {spelt_out(_described(package))}" for package in request.packages]
    if request.excerpt:
        lines.append("Around the call, by the program's own word:" if request.what == "call" else "The program:")
    width = len(str(request.excerpt[-1][0])) if request.excerpt else 0
    for number, code in request.excerpt:
        mark = ">" if number == request.line else " "
        lines.append(f" {mark} {number:{width}} | {spelt_out(code)}")
    return "\n".join(lines) + "\n"


def _described(package: PackageFacts) -> str:
    brought = f" for {package.brought_by[-1]}" if package.brought_by else ""
    size = f"{package.size / 2**20:.1f} MiB" if package.size is not None else "of unknown size"
    about = f"{size}, uploaded {package.released[:10]}, licence {package.licence}"
    return f"{package.name} {package.version}{brought} ({package.trust}): {about}"


def _cut(value: Any) -> str:
    """Return the beginning of a value's JSON text, escaped for the terminal. Different values give the same text only
    if they are cut.
    """
    length = 0
    begun = ""
    for piece in _written_in_pieces(value):
        begun += piece[: MOST_ARGUMENT_CHARACTERS - len(begun)]
        length += len(piece)
    text = spelt_out(begun)
    more = length - len(begun)
    return text if not more else f"{text} … and {more:,} characters more"
