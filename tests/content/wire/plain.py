"""Items without what only one format has of them, to compare what went through another."""

from __future__ import annotations

from typing import Any, TypeVar

from actbox.content.items import Part

PartT = TypeVar("PartT", bound=Part)


def plain(part: PartT) -> PartT:
    """Return a part without `provider_data`, and so all that is in it."""
    changes: dict[str, Any] = {"provider_data": {}}
    for name in ("contents", "inputs", "outputs", "annotations"):
        if hasattr(part, name):
            changes[name] = tuple(plain(inner) for inner in getattr(part, name))
    return part.model_copy(update=changes)


def has_unknown(item: Any) -> bool:
    """Return whether an item is, or has in it, one that only another format knows."""
    inner = (*getattr(item, "inputs", ()), *getattr(item, "outputs", ()))
    return item.type == "unknown" or any(has_unknown(other) for other in inner)
