"""Serial numbers for objects: each object has its own, and no number is reused after an object is gone."""

from __future__ import annotations

import itertools
import threading
from weakref import WeakKeyDictionary

_numbers = itertools.count(1)
_lock = threading.Lock()
_given: WeakKeyDictionary[object, int] = WeakKeyDictionary()


def new_serial() -> int:
    """Return a number that was never returned before in this process."""
    return next(_numbers)


def serial_of(thing: object) -> int:
    """Return the object's serial number, the same at every call.

    Not `id()`, which another thing can have once this one is collected. The thing must be compared by identity.
    """
    with _lock:
        number = _given.get(thing)
        if number is None:
            number = _given[thing] = next(_numbers)
        return number
