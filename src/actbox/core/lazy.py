"""Attributes of a package that are imported when they are first used (PEP 562): imports take most of a start."""

from __future__ import annotations

import importlib
import sys

TYPE_CHECKING = False  # importing typing takes longer than the rest of `import actbox`
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


def lazy_attributes(package: str, names_of: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package.

    `names_of` maps a submodule, such as `core.errors`, to the names that it defines, separated by spaces. The names of
    "" are submodules themselves.
    """
    submodule_of = {name: submodule for submodule, names in names_of.items() for name in names.split()}

    def attribute(name: str) -> Any:
        if name not in submodule_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        submodule = submodule_of[name]
        found = importlib.import_module(f".{submodule or name}", package)
        value = getattr(found, name) if submodule else found
        setattr(sys.modules[package], name, value)
        return value

    return attribute
