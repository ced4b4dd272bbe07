"""Guest output on its way to this process's own standard output and error."""

from __future__ import annotations

import os
import queue
import select
import threading
from typing import Literal, Self

from .interrupt import Broken
from .terminal import TerminalText

Stream = Literal["stdout", "stderr"]

_DESCRIPTORS: dict[Stream, int] = {"stdout": 1, "stderr": 2}


class LiveOutput:
    """Writes guest text as it comes, in order, without ever holding up the event loop. A context manager.

    A reader that stops reading (a pager, a full pipe) blocks `write(2)`. So a thread does the writing: a run's time
    limit and Ctrl-C hold all the same. What waits here is bounded by the run's own output limit. Leaving the context
    waits until all is written, unless the output was abandoned or its reader has gone away (`broken`).
    """

    def __init__(self) -> None:
        self.broken = Broken()
        self._abandoned = False
        self._filters = {stream: TerminalText() for stream, fd in _DESCRIPTORS.items() if os.isatty(fd)}
        self._queue: queue.SimpleQueue[tuple[int, bytes] | None] = queue.SimpleQueue()
        # A daemon: a reader that never reads again must not keep this process alive.
        self._thread = threading.Thread(target=self._write_all, name="actbox-output", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._queue.put(None)
        if not self._abandoned:
            self._thread.join()

    def write(self, stream: Stream, text: str) -> None:
        """Queue a piece of text. For a terminal it is made safe; anything else gets it unchanged, as UTF-8."""
        safe = self._filters.get(stream)
        self._put(stream, safe.feed(text) if safe else text)

    def end_streams(self) -> None:
        """Say that the guest has printed all it will, so that colours which it left on end with it."""
        for stream, safe in self._filters.items():
            self._put(stream, safe.end())

    def abandon(self) -> None:
        """Do not wait for what is queued still."""
        self._abandoned = True

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


def to_bytes(text: str) -> bytes:
    """Return text as UTF-8; a lone surrogate that stands for a byte is that byte again, any other is spelt out."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace")


def _write(fd: int, data: bytes) -> None:
    # Not through sys.stdout: a thread that is blocked in it when the interpreter ends would bring that down.
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:  # the caller's shell left it non-blocking
            select.select([], [fd], [])
