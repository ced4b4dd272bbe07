"""The functions that every program has: tables of names, arities, documentation and code."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from actbox.rtfs.functions import Function

from .arithmetic import ARITHMETIC
from .errors import ERRORS, LENIENT_ERRORS
from .higher_order import HIGHER_ORDER
from .maps import MAPS
from .predicates import PREDICATES
from .sequences import SEQUENCES
from .strings import JSON, REGULAR_EXPRESSIONS, STRINGS

LIBRARY: Mapping[str, Function] = MappingProxyType(
    {
        name: function
        for table in (
            ARITHMETIC,
            PREDICATES,
            STRINGS,
            REGULAR_EXPRESSIONS,
            SEQUENCES,
            MAPS,
            HIGHER_ORDER,
            JSON,
            ERRORS,
        )
        for name, function in table.functions.items()
    }
)
"""By name."""

LENIENT: Mapping[str, Function] = MappingProxyType(LENIENT_ERRORS.functions)
"""What lenient mode has beside it."""

__all__ = ["LENIENT", "LIBRARY", "Function"]
