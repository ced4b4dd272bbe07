"""Attributes of a package that are imported when they are first used (PEP 562): imports take most of a start."""

from __future__ import annotations

import importlib
import sys

TYPE_CHECKING = False  # importing typing takes longer than the rest of `import actbox`
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


def lazy_attributes(package: str, names_of: Mapping[str, str], *, extra: str = "") -> Callable[[str], Any]:
    """Return the `__getattr__` of a package.

    `names_of` maps a submodule, such as `core.errors`, to the names that it defines, separated by spaces. The names of
    "" are submodules themselves. `extra` is what the submodules need; `Unsupported` names it if it is not installed.
    """
    submodule_of = {name: submodule for submodule, names in names_of.items() for name in names.split()}

    def attribute(name: str) -> Any:
        if name not in submodule_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        submodule = submodule_of[name]
        try:
            found = importlib.import_module(f".{submodule or name}", package)
        except ModuleNotFoundError as error:
            if not extra:
                raise
            from .errors import Unsupported

            raise Unsupported(f"{name} needs {error.name}: pip install 'actbox[{extra}]'") from None
        value = getattr(found, name) if submodule else found
        setattr(sys.modules[package], name, value)
        return value

    return attribute
