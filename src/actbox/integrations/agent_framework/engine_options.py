"""What the constructors of single engines take beside what all take."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypedDict

from actbox.core.errors import InvalidValue
from actbox.core.limits import Limits

from .surface import ProviderOptions

_MIB = 2**20


class HyperlightGuest(TypedDict, total=False):
    """What runs in Hyperlight's virtual machine: a backend, its module by name or by path, and memory as `"25Mi"`."""

    backend: str
    module: str | None
    module_path: str | None
    heap_size: str | None
    stack_size: str | None


def monty_limits(given: Mapping[str, Any] | None, options: ProviderOptions) -> ProviderOptions:
    """Return the options with limits by Monty's own names. Raises `InvalidValue` for one that cannot be kept."""
    if not given:
        return options
    limits = options.get("limits", Limits())
    for name, value in given.items():
        if name == "max_duration_secs":
            limits = replace(limits, wall_seconds=value)
        elif name == "max_memory":
            limits = replace(limits, memory_mib=max(1, math.ceil(value / _MIB)))
        else:
            raise InvalidValue(
                f"resource_limits has {name!r}, which cannot be kept; there are max_duration_secs and max_memory, and"
                " all others in limits=Limits(…)"
            )
    return {**options, "limits": limits}
