"""How much is measured: all that the table promises, or a short pass to see that the programs work."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Effort:
    """`fast` and `slow` are samples, for what takes milliseconds and for what takes tens of them and more."""

    fast: int
    slow: int
    seconds: float
    """How long a sustained rate is measured."""
    crowd: int
    """How many sandboxes are alive at once."""
    fan_out: int
    """The number of sandboxes that a fan-out asks for at once."""
    output_mib: int
    repeats: int
    """For what takes a second or more."""


FULL = Effort(fast=500, slow=100, seconds=30, crowd=500, fan_out=100, output_mib=200, repeats=20)
QUICK = Effort(fast=30, slow=5, seconds=2, crowd=40, fan_out=20, output_mib=50, repeats=2)
