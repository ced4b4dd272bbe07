"""How an errand answers: lines of text on standard output, each of them one letter and base64.

Text, because not every shell hands on bytes as they are. The first line of all is a token that only this errand was
told, so that a greeting which the shell prints before it is not mistaken for an answer. Programs never have this
standard output: theirs are pipes of the errand.

s: a program has started. o, e: what it printed. c: what it sent on its channel (nothing, when it closed that). m: how
many bytes of that went by mail (`mail/`) before what follows of it. p: why mail is not moved any more (JSON). x: how
it ended (JSON). f: the name of an artifact (JSON), whose content follows. b: bytes of a file. r: part of the reply
(JSON). z: the end.
"""

from __future__ import annotations

import base64
import json
import os

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any

PIECE_BYTES = 48 * 1024


class Answers:
    """Writes the lines, each as soon as it is said. A reader that is gone raises `OSError`."""

    def __init__(self, token: str, descriptor: int = 1) -> None:
        self._descriptor = descriptor
        self._write(b"\n%s\n" % token.encode("ascii"))

    def say(self, kind: str, data: bytes = b"") -> None:
        """Say bytes of one kind, in as many lines as it takes."""
        letter = kind.encode("ascii")
        for start in range(0, len(data) or 1, PIECE_BYTES):
            self._write(letter + base64.b64encode(data[start : start + PIECE_BYTES]) + b"\n")

    def say_json(self, kind: str, value: Any) -> None:
        """Say a value as JSON."""
        self.say(kind, json.dumps(value).encode("ascii"))

    def _write(self, line: bytes) -> None:
        view = memoryview(line)
        while view:
            view = view[os.write(self._descriptor, view) :]
