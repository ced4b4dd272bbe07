"""Numbers that tell things apart: one for each, never given twice, also when the thing is gone."""

from __future__ import annotations

import itertools
import threading
from weakref import WeakKeyDictionary

_numbers = itertools.count(1)
_lock = threading.Lock()
_given: WeakKeyDictionary[object, int] = WeakKeyDictionary()


def new_serial() -> int:
    """Return a number that was not given before in this process."""
    return next(_numbers)


def serial_of(thing: object) -> int:
    """Return the thing's own number, the same whenever it is asked for.

    Not `id()`, which another thing can have once this one is collected. The thing must be compared by identity.
    """
    with _lock:
        number = _given.get(thing)
        if number is None:
            number = _given[thing] = next(_numbers)
        return number
