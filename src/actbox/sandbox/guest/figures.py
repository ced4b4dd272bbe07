"""Figures: what `plt.show()` shows, and what is still open at the end, become PNG files in the output folder."""

from __future__ import annotations

import io
import os
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Callable, List, Optional, Sequence

_PYPLOT = "matplotlib.pyplot"
_DPI = 144


def catch_figures(folder: str) -> Callable[[], None]:
    """Let `plt.show()` save into `folder`, from now on; return a function that saves what is open at the end."""

    def save_open_figures() -> None:
        pyplot = sys.modules.get(_PYPLOT)
        numbers: List[int] = pyplot.get_fignums() if pyplot is not None else []
        for number in numbers:
            _save(pyplot.figure(number), folder)  # type: ignore[union-attr]
        if numbers:
            pyplot.close("all")  # type: ignore[union-attr]

    def show(*args: Any, **kwargs: Any) -> None:
        """Save every open figure as a PNG artifact and close it."""
        save_open_figures()

    if _PYPLOT in sys.modules:
        sys.modules[_PYPLOT].show = show  # type: ignore[attr-defined]
    else:
        sys.meta_path.insert(0, _AfterImport(_PYPLOT, lambda pyplot: setattr(pyplot, "show", show)))
    return save_open_figures


def png_of(figure: Any) -> bytes:
    """Return a figure as PNG."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=_DPI, bbox_inches="tight")
    return buffer.getvalue()


def _save(figure: Any, folder: str) -> None:
    content = png_of(figure)
    os.makedirs(folder, exist_ok=True)
    number = 1
    while True:
        try:
            descriptor = os.open(
                os.path.join(folder, "figure-%d.png" % number), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644
            )
        except FileExistsError:
            number += 1
            continue
        with open(descriptor, "wb") as file:
            file.write(content)
        return


class _AfterImport(MetaPathFinder):
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
                spec.loader = _Wrapped(spec.loader, self._then)
                return spec
        return None


class _Wrapped(Loader):
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
