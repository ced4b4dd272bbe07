"""What is done to a module right after the program has imported it, and only then."""

from __future__ import annotations

import sys
from types import ModuleType

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from importlib.abc import Loader
    from importlib.machinery import ModuleSpec
    from typing import Callable, Optional, Sequence


def after_import(name: str, then: Callable[[ModuleType], None]) -> None:
    """Call a function with a module: now if it is there, else right after its first import in the ordinary way."""
    if name in sys.modules:
        then(sys.modules[name])
    else:
        sys.meta_path.insert(0, _AfterImport(name, then))


def fork_by_default() -> None:
    """Let `multiprocessing` fork where the program does not say otherwise, as before CPython 3.14.

    The other ways start the program anew from its file, and here there is none.
    """
    after_import("multiprocessing.context", _set_fork)


def _set_fork(context: ModuleType) -> None:
    contexts = getattr(context, "_concrete_contexts", {})
    if "fork" in contexts and hasattr(context, "DefaultContext"):
        context._default_context = context.DefaultContext(contexts["fork"])  # type: ignore[attr-defined]


class _AfterImport:
    """Calls a function once with a module, right after the module was imported in the ordinary way."""

    def __init__(self, name: str, then: Callable[[ModuleType], None]) -> None:
        self._name = name
        self._then = then

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]], target: Optional[ModuleType] = None
    ) -> Optional[ModuleSpec]:
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)
        for finder in sys.meta_path:
            spec = finder.find_spec(fullname, path, target)
            if spec is not None and spec.loader is not None:
                spec.loader = _Wrapped(spec.loader, self._then)  # type: ignore[assignment]
                return spec
        return None


class _Wrapped:
    def __init__(self, loader: Loader, then: Callable[[ModuleType], None]) -> None:
        self._loader = loader
        self._then = then

    def create_module(self, spec: ModuleSpec) -> Optional[ModuleType]:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._then(module)
