"""The responses to a request: lines of text on standard output, each one letter and base64.

They are text because not every shell passes bytes on unchanged. The first line is a token that only this request knows,
so that a greeting of the shell before it is not mistaken for a response. Programs never have this standard output:
theirs are pipes of the request's process.

s: a program has started. o, e: its output. c: its channel data (empty: it closed the channel). m: how many bytes of
channel data went through the mailbox before the next `c`. p: why the mailbox failed (JSON). x: how the program ended
(JSON). f: an artifact's name (JSON), followed by its content. b: bytes of a file. r: a part of the reply (JSON). z: the
end.
"""

from __future__ import annotations

import base64
import json
import os

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any

PIECE_BYTES = 48 * 1024


class ResponseWriter:
    """Writes the lines, each at once. Raises `OSError` if the reader is gone."""

    def __init__(self, token: str, descriptor: int = 1) -> None:
        self._descriptor = descriptor
        self._write(b"\n%s\n" % token.encode("ascii"))

    def send(self, kind: str, data: bytes = b"") -> None:
        """Write bytes of one kind, in as many lines as needed."""
        letter = kind.encode("ascii")
        for start in range(0, len(data) or 1, PIECE_BYTES):
            self._write(letter + base64.b64encode(data[start : start + PIECE_BYTES]) + b"\n")

    def send_json(self, kind: str, value: Any) -> None:
        """Write a value as JSON."""
        self.send(kind, json.dumps(value).encode("ascii"))

    def _write(self, line: bytes) -> None:
        view = memoryview(line)
        while view:
            view = view[os.write(self._descriptor, view) :]
