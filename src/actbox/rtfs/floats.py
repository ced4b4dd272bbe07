"""Floats as text: as the literal that reads as the same float, and as `str` gives it."""

from __future__ import annotations

from decimal import Decimal
from math import isfinite, isinf, isnan


def float_literal(value: float) -> str:
    """Return a float as RTFS writes it: digits on both sides of the point, as few as tell it from its neighbours."""
    if isnan(value):
        return "##NaN"
    if isinf(value):
        return "##Inf" if value > 0 else "##-Inf"
    digits, exponent, power = repr(value).partition("e")
    return (digits if "." in digits else f"{digits}.0") + exponent + power.lstrip("+")


def float_text(value: float) -> str:
    """Return the shortest digits that read as this number, never with an exponent, whole numbers without a point."""
    if not isfinite(value):
        return "NaN" if value != value else "inf" if value > 0 else "-inf"
    digits = repr(value)
    if "e" in digits:
        digits = format(Decimal(digits), "f")
    return digits.removesuffix(".0")
