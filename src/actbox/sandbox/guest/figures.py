"""Figures: what `plt.show()` shows, and what is still open at the end, become PNG files in the output folder."""

from __future__ import annotations

import io
import os
import sys

from .imports import after_import

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Callable, List

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

    after_import(_PYPLOT, lambda pyplot: setattr(pyplot, "show", show))
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
