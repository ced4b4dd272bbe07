"""Output on this process's standard output and error: guest text, JSON documents, and the description of a failure."""

from __future__ import annotations

import io
import json
import os
import queue
import re
import select
import threading
from collections.abc import Callable, Mapping
from typing import Any, Literal, Self, TextIO

from actbox.content.safe_text import TerminalText
from actbox.core.errors import ErrorInfo, ErrorKind

from .errors import in_flags
from .interrupt import Broken

Stream = Literal["stdout", "stderr"]

_SURROGATE = re.compile("[\ud800-\udfff]")
# JSON text may have these as they are, but they control a terminal, or turn the direction of writing.
_ACTS = re.compile("[\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_DESCRIPTORS: dict[Stream, int] = {"stdout": 1, "stderr": 2}


class LiveOutput:
    """A writer of guest text, live and in order, that never blocks the event loop. A context manager.

    A reader that stops reading (a pager, a full pipe) blocks `write(2)`. So a thread does the writing: a run's time
    limit and Ctrl-C hold all the same. What waits here is bounded by the run's own output limit. Leaving the context
    waits until all is written, unless the output was abandoned or its reader has gone away (`broken`).
    """

    def __init__(self) -> None:
        self.broken = Broken()
        self._patience: float | None = None
        self._filters = {stream: TerminalText() for stream, fd in _DESCRIPTORS.items() if os.isatty(fd)}
        self._queue: queue.SimpleQueue[tuple[int, bytes] | None] = queue.SimpleQueue()
        # A daemon thread: a reader that never reads again must not keep this process alive.
        self._thread = threading.Thread(target=self._write_all, name="actbox-output", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._queue.put(None)
        self._thread.join(self._patience)

    def write(self, stream: Stream, text: str) -> None:
        """Queue a piece of text. For a terminal it is made safe; anything else gets it unchanged, as UTF-8."""
        safe = self._filters.get(stream)
        self._put(stream, safe.feed(text) if safe else text)

    def end_streams(self) -> None:
        """End the streams: colors that the guest left on are reset."""
        for stream, safe in self._filters.items():
            self._put(stream, safe.end())

    def abandon(self, after: float = 0) -> None:
        """Wait for queued text at most these seconds."""
        self._patience = after

    def text_file(self, stream: Stream) -> TextIO:
        """Return the stream as a text file, for writers such as `rich` whose text is safe already."""
        return _TextFile(lambda text: self._put(stream, text), _DESCRIPTORS[stream])

    def _put(self, stream: Stream, text: str) -> None:
        if text:
            self._queue.put((_DESCRIPTORS[stream], to_bytes(text)))

    def _write_all(self) -> None:
        while (item := self._queue.get()) is not None:
            if self.broken.is_set():
                continue
            try:
                _write(*item)
            except OSError:
                self.broken.set()


class _TextFile(io.StringIO):
    """A text file whose text is queued."""

    def __init__(self, put: Callable[[str], None], descriptor: int) -> None:
        super().__init__()
        self._put = put
        self._is_terminal = os.isatty(descriptor)

    def write(self, text: str) -> int:
        self._put(text)
        return len(text)

    def isatty(self) -> bool:
        return self._is_terminal


def to_bytes(text: str) -> bytes:
    """Return text as UTF-8; a lone surrogate that stands for a byte becomes that byte, any other is escaped."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace")


def _write(fd: int, data: bytes) -> None:
    # Not through sys.stdout: a thread blocked in it would crash the interpreter's exit.
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:  # the caller's shell left it non-blocking
            select.select([], [fd], [])


def describe_failure(error: ErrorInfo) -> str:
    """Return the lines that explain a program's failure: its traceback or one sentence, then a hint.

    A program that ended itself with a code of its choice has nothing to explain: for `ErrorKind.EXIT` there are none.
    """
    if error.kind is ErrorKind.EXIT:
        return ""
    if error.traceback:
        text = error.traceback
    else:
        name = f"{error.kind.value} ({error.type})" if error.type else error.kind.value
        text = f"{name}: {error.message}"
    lines = [text.rstrip("\n")]
    if error.hint:
        lines.append(f"hint: {in_flags(error.hint)}")
    return "\n".join(lines) + "\n"


def print_document(document: Mapping[str, Any]) -> bool:
    """Write the document and a newline; return False if the reader has closed the pipe."""
    return print_text(to_json(document) + "\n")


def print_text(text: str) -> bool:
    """Write text that is safe for a terminal; return False if the reader has closed the pipe."""
    try:
        _write(1, to_bytes(text))
    except BrokenPipeError:
        return False
    return True


def to_json(document: Mapping[str, Any]) -> str:
    """Return the document as JSON that every reader takes.

    A number that JSON cannot write (NaN, infinity) becomes null, as in JavaScript, and half of a surrogate pair, which
    is no character and which some readers refuse even when escaped, becomes U+FFFD.
    """
    try:
        text = json.dumps(document, allow_nan=False, ensure_ascii=False)
    except ValueError:
        finite = json.loads(json.dumps(document), parse_constant=lambda _: None)
        text = json.dumps(finite, ensure_ascii=False)
    return _ACTS.sub(lambda found: f"\\u{ord(found[0]):04x}", _SURROGATE.sub("\ufffd", text))
