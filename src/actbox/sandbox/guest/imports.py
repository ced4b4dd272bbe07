"""Runs functions on a module right after the program has imported it."""

from __future__ import annotations

import sys
from types import ModuleType

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from importlib.abc import Loader
    from importlib.machinery import ModuleSpec
    from typing import Callable, Dict, List, Optional, Sequence


def after_import(name: str, then: Callable[[ModuleType], None]) -> None:
    """Call a function with a module: now if it is imported already, else right after its first import."""
    if name in sys.modules:
        then(sys.modules[name])
        return
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    _finder.waiting.setdefault(name, []).append(then)


def fork_by_default() -> None:
    """Make `multiprocessing` fork by default, as before CPython 3.14.

    Its other start methods run the program again from its file, and here there is none.
    """
    after_import("multiprocessing.context", _set_fork)


def _set_fork(context: ModuleType) -> None:
    contexts = getattr(context, "_concrete_contexts", {})
    if "fork" in contexts and hasattr(context, "DefaultContext"):
        context._default_context = context.DefaultContext(contexts["fork"])  # type: ignore[attr-defined]


class _AfterImport:
    """Import hook that calls functions once with a module, right after its ordinary import."""

    def __init__(self) -> None:
        self.waiting: Dict[str, List[Callable[[ModuleType], None]]] = {}

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]], target: Optional[ModuleType] = None
    ) -> Optional[ModuleSpec]:
        if fullname not in self.waiting:
            return None
        functions = self.waiting.pop(fullname)
        for finder in sys.meta_path:
            spec = finder.find_spec(fullname, path, target)
            if spec is not None and spec.loader is not None:
                spec.loader = _Wrapped(spec.loader, functions)  # type: ignore[assignment]
                return spec
        return None


_finder = _AfterImport()


class _Wrapped:
    def __init__(self, loader: Loader, functions: List[Callable[[ModuleType], None]]) -> None:
        self._loader = loader
        self._functions = functions

    def create_module(self, spec: ModuleSpec) -> Optional[ModuleType]:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        for function in self._functions:
            function(module)
