"""Canonical JSON of approvals and journal entries: equal data is equal text, so that digests of it can be compared."""

from __future__ import annotations

import json
from typing import Final

from actbox.core.errors import InvalidValue

_ENCODER: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def canonical(data: object, what: str = "this") -> str:
    """Return JSON data as text. Raises `InvalidValue`, which says `what` it is, for anything else."""
    try:
        return _ENCODER.encode(data)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidValue(f"{what} is no JSON data: {error}") from None
