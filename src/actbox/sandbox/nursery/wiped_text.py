"""A buffer for the kernel's texts in which a program has a word: names that it gave, numbers that it chose.

In a lane the next guest inherits this process's memory, also what Python has freed there. So such a text is read into
this buffer, looked at where it lies, and wiped.
"""

from __future__ import annotations

import os
import re

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Iterator

TEXT = bytearray(8192)  # several times the length of a process's `stat` and `status`
_view = memoryview(TEXT)
# Of a process's `stat`, what pid 1 uses: all up to its number of pages.
_FIELDS = re.compile(rb"\)(?: [^ ]+){22}")


def read(descriptor: int) -> int:
    """Read a text into `TEXT`, as far as there is room; return its length. Whoever calls this wipes it."""
    return os.readv(descriptor, [TEXT])


def wipe(begin: int, end: int) -> None:
    """Overwrite a part of `TEXT`."""
    TEXT[begin:end] = bytes(end - begin)


def lines(descriptor: int) -> Iterator[int]:
    """Read a text of any length into `TEXT`, some lines at a time; wipe it at the end.

    Yield the place of the newline that ends the last whole line each time. A newline stands before the first one too.
    """
    TEXT[0] = ord("\n")
    filled = most = 1
    try:
        while True:
            filled += os.readv(descriptor, [_view[filled:]])
            most = max(most, filled)
            end = TEXT.rfind(b"\n", 0, filled)
            yield end
            if filled < len(TEXT):  # the kernel gives as much as there is room for
                return
            if end:
                _view[: filled - end] = _view[end:filled]
                filled -= end
            else:  # the beginning of a line that is longer than any that matters
                filled = 1
    finally:
        wipe(0, most)


def without_name(descriptor: int) -> bytes:
    """Read a `stat` or `status` file, without the name that the process gave itself, and its signals.

    In a lane the next guest inherits this memory.
    """
    length = read(descriptor)
    if TEXT.startswith(b"Name:"):
        wipe(len(b"Name:"), TEXT.find(b"\n", 0, length))
        wipe(TEXT.find(b"\nSigQ:", 0, length), TEXT.find(b"\nCapInh:", 0, length))
    else:
        end = TEXT.rfind(b")", 0, length)
        wipe(TEXT.find(b"(") + 1, end)
        if (needed := _FIELDS.match(TEXT, end, length)) is not None:
            wipe(needed.end(), length)
            length = needed.end()
    return bytes(memoryview(TEXT)[:length])
