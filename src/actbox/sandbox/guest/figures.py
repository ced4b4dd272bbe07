"""Saves figures as PNG files in the output directory: those that `plt.show()` shows, and those open at the end."""

from __future__ import annotations

import io
import os
import sys
from _weakrefset import WeakSet

from .imports import after_import

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, List, Set

_PYPLOT = "matplotlib.pyplot"
_DPI = 144
collected: WeakSet[Any] = WeakSet()
"""Figures that were saved, as long as an object of theirs exists."""

_folder = ""

displayed: Set[int] = set()
"""Hashes of the PNG pictures that this program has displayed; a figure that still looks the same is not saved again."""


def catch_figures() -> None:
    """Make `plt.show()` save the figures that are open."""
    after_import(_PYPLOT, lambda pyplot: setattr(pyplot, "show", show))


def save_into(folder: str) -> None:
    """Set the output directory."""
    global _folder
    _folder = folder


def save_open_figures() -> None:
    """Save the figures that are open, and close them."""
    pyplot = sys.modules.get(_PYPLOT)
    numbers: List[int] = pyplot.get_fignums() if pyplot is not None else []
    for number in numbers:
        figure = pyplot.figure(number)  # type: ignore[union-attr]
        picture = png_of(figure)
        if hash(picture) not in displayed:
            save_new("figure", ".png", picture)
        collected.add(figure)
    if numbers:
        pyplot.close("all")  # type: ignore[union-attr]


def show(*args: Any, **kwargs: Any) -> None:
    """Save every open figure as a PNG artifact and close it."""
    save_open_figures()


def png_of(figure: Any) -> bytes:
    """Return a figure as PNG."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=_DPI, bbox_inches="tight")
    return buffer.getvalue()


def save_new(stem: str, suffix: str, content: bytes) -> None:
    """Write a new numbered file into the output directory, making it if needed: `figure-1.png`, `figure-2.png`, ….

    Files with the same stem get different numbers, whatever their suffixes.
    """
    os.makedirs(_folder, exist_ok=True)
    taken = {os.path.splitext(name)[0] for name in os.listdir(_folder)}
    number = 1
    while True:
        if "%s-%d" % (stem, number) in taken:
            number += 1
            continue
        try:
            file = open(os.path.join(_folder, "%s-%d%s" % (stem, number, suffix)), "xb")
        except FileExistsError:
            number += 1
            continue
        with file:
            file.write(content)
        return
