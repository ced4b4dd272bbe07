"""The codec of the tagged form, in which values cross between a host and its guests.

It is `sandbox/guest/tagged.py`, which is sent into sandboxes and needs only the standard library.
"""

from __future__ import annotations

from actbox.sandbox.guest.members import Comparisons, Members
from actbox.sandbox.guest.tagged import CannotCross, Packed, copy_of, crossed, opened, pack, unpack

__all__ = ["CannotCross", "Comparisons", "Members", "Packed", "copy_of", "crossed", "opened", "pack", "unpack"]
