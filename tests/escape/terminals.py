"""Attempts on the terminal of a person who reads a run's output, by sequences that a terminal obeys."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys

from actbox import Output
from actbox.content.safe_text import TerminalText
from tests.escape.attempt import Bare, Group, Verdict, escaped_if, unproven
from tests.escape.ground import Ground

GROUP = Group("terminal escapes", Bare.HOST_STOPS_IT, slow=frozenset(["send a sequence by the command line itself"]))
_MARK = "END-OF-IT"
# All that may reach a terminal: printable text, newline, tab, and sequences that only colour (SGR).
_HARMLESS = re.compile(r"(?:[^\x00-\x1f\x7f-\x9f\ud800-\udfff]|[\n\t]|\x1b\[[0-9;:]*m)*")

_SEQUENCES = {
    "set the title": r"\x1b]0;owned\x07",
    "set the title, ended otherwise": r"\x1b]2;owned\x1b\\",
    "write the clipboard": r"\x1b]52;c;cm0gLXJmIC8=\x07",
    "read the clipboard": r"\x1b]52;c;?\x07",
    "show a link that leads elsewhere": r"\x1b]8;;http://attacker.example\x07bank\x1b]8;;\x07",
    "have the terminal type its title": r"\x1b[21t",
    "have the terminal type its answer": r"\x1b[c\x1b[>c\x1b[5n\x1b[6n\x05",
    "have the terminal type a setting": r"\x1bP$q\"p\x1b\\",
    "define what a key types": r"\x1bP1;1|17/726d\x1b\\",
    "move up and write over": r"\x1b[1A\x1b[2Kall is well",
    "write over the line": r"password:\rall is well",
    "go back over letters": r"bad\x08\x08\x08ok ",
    "clear the screen": r"\x1b[2J\x1b[3J\x1b[H",
    "reset the terminal": r"\x1bc",
    "switch to another screen": r"\x1b[?1049h",
    "hide the cursor and catch the mouse": r"\x1b[?25l\x1b[?1000h",
    "wrap what is pasted": r"\x1b[?2004h",
    "switch to line drawing": r"\x1b(0\x0e",
    "ring": r"\x07" * 20,
    "use the 8-bit form of an escape": r"\x9b2J\x9d0;owned\x9c\x90q\x9c",
    "use bytes that are no text": r"\udc9b2J",
    "hide a sequence within a colour": r"\x1b[31\x1b]0;owned\x07m",
    "give a colour without end": r"\x1b[" + "1;" * 200 + r"\x1b]0;owned\x07",
    "send a file to the printer": r"\x1b[5i rm \x1b[4i",
    "draw a picture": r"\x1bPq#0;2;0;0;0~\x1b\\",
    "download a file": r"\x1b]1337;File=name=LnByb2ZpbGU=:b3duZWQ=\x07",
    "run a command of the terminal's": r"\x1b]777;notify;a;b\x07\x1b]50;x\x07",
    "delete what was printed before": r"\x7f\x7f\x7f",
}


def _prints(what: str, code: str) -> None:
    async def prints(ground: Ground) -> Verdict:
        box = await ground.open()
        shown = {"stdout": TerminalText(), "stderr": TerminalText()}
        text = ""
        async for event in box.stream(code):
            if isinstance(event, Output):
                text += shown[event.stream].feed(event.text)
        text += shown["stdout"].end() + shown["stderr"].end()
        if _MARK not in text:
            return unproven(text)
        return escaped_if(_HARMLESS.fullmatch(text) is None, ascii(text))

    GROUP.function(what)(prints)


for _what, _sequence in _SEQUENCES.items():
    _prints(_what, f'print("{_sequence}".replace(chr(0), "") + "{_MARK}")')

_CUT = (
    "import sys, time\nfor c in {text}:\n    sys.{stream}.write(c)\n    sys.{stream}.flush()\n    time.sleep(0.001)\nprint('"
    + _MARK
    + "')"
)
_prints(
    "send a sequence letter by letter", _CUT.format(text=r'"\x1b]0;owned\x07 \x1b[2J\x9b2J\r\n\rx"', stream="stdout")
)
_prints("send a sequence as an error", _CUT.format(text=r'"\x1b]0;owned\x07"', stream="stderr"))
_prints(
    "send a sequence half on each stream",
    rf'import sys\nsys.stdout.write("\x1b]0;")\nsys.stdout.flush()\nsys.stderr.write("owned\x07")\nprint("{_MARK}")'.replace(
        r"\n", "\n"
    ),
)


@GROUP.function("send a sequence by the command line itself")
async def _(ground: Ground) -> Verdict:
    """The real command, on a real terminal: in its output, an exception, a file's name and a syntax error."""
    worst = r"\x1b]0;owned\x07\x1b[2J\x9b2J"
    programs = (
        f'print("{worst}")\nopen("output/a\\x1b]0;owned\\x07", "w").write("x")\nraise ValueError("{worst}")',
        '"\x1b]0;owned\x07\x1b[2J" = 1',
        f'class E(Exception): pass\nE.__name__ = "{worst}"\nraise E("{worst}")',
    )
    options = ("--sandbox", ground.engine, *(() if ground.traits.isolated else ("--allow-unisolated",)))
    for program in programs:
        shown = await asyncio.to_thread(_on_a_terminal, [*options, "-c", program])
        acted_on = re.sub(r"\x1b\[[0-9;:]*m", "", shown.replace("\r\n", "\n"))
        if not shown or _HARMLESS.fullmatch(acted_on) is None:
            return escaped_if(bool(shown), ascii(shown)) if shown else unproven("the command showed nothing")
    return escaped_if(False)


def _on_a_terminal(arguments: list[str]) -> str:
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "actbox", "run", *arguments]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env={**os.environ, "TERM": "xterm"}
    ):
        os.close(theirs)
        shown = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            shown += piece
    os.close(ours)
    return shown.decode("utf-8", "surrogateescape")
