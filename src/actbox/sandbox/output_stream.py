"""One of a guest's output pipes as the host reads it."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import functools
import sys
from collections.abc import Callable
from encodings.utf_8 import IncrementalDecoder
from typing import Final, Literal

from . import reading
from .readiness import Removal, when_readable

MOST_READ_BYTES: Final = reading.MOST_BYTES
"""The most bytes read at once, and the most that a pipe holds."""
MOST_PARTS: Final = 256
"""The most parts that a pipe holds, of a page each; with `O_DIRECT`, which a guest may set, a read takes one part."""
_SET_PIPE_SIZE: int | None = getattr(fcntl, "F_SETPIPE_SZ", 1031 if sys.platform == "linux" else None)


class Stream:
    """One of the guest's output pipes, with the text that was read from it for the result."""

    def __init__(self, descriptor: int, name: Literal["stdout", "stderr"]) -> None:
        self.descriptor = descriptor
        self.name = name
        self.open = True
        self.stop_listening: Removal | None = None
        self._wide = False
        self.decoder: IncrementalDecoder | None = None
        """Made with the first output; many programs write to one of the pipes only."""
        self.parts: list[str] = []

    def widen(self) -> None:
        """Enlarge the pipe so that the guest writes more at once; a pipe that was full once will carry much output."""
        if not self._wide and _SET_PIPE_SIZE is not None:
            self._wide = True
            with contextlib.suppress(OSError):  # this user has many pipes, and may enlarge no more
                fcntl.fcntl(self.descriptor, _SET_PIPE_SIZE, MOST_READ_BYTES)

    def listen(self, loop: asyncio.AbstractEventLoop, read: Callable[[Stream], object]) -> None:
        """Call `read(self)` in the event loop whenever the pipe has data."""
        self.stop_listening = when_readable(loop, self.descriptor, functools.partial(read, self))

    def leave(self) -> None:
        """Stop calling `read` when data arrives."""
        if self.stop_listening is not None:
            self.stop_listening()
            self.stop_listening = None

    @property
    def text(self) -> str:
        """The text read from the pipe in this run."""
        return "".join(self.parts)
