"""`display`: shows objects while a program runs, as in a notebook.

Their text is printed. The rich forms of the object shown last go into the result, unless the program has a value of its
own; the richest form of each other object becomes a file in the output directory, numbered in the order of display.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType

from .figures import displayed, save_new
from .imports import after_import

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from typing import Any, Dict, Optional, Union

    Forms = Dict[str, Union[str, bytes]]

_SUFFIXES = {
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/svg+xml": ".svg",
    "image/gif": ".gif",
    "image/webp": ".webp",
    "application/pdf": ".pdf",
    "text/html": ".html",
    "text/markdown": ".md",
    "text/latex": ".tex",
}
_OF_PNG = ("1", "L", "LA", "I", "I;16", "P", "RGB", "RGBA")
_STAND_INS = ("IPython", "IPython.display", "IPython.core", "IPython.core.display")

_last: Forms = {}


def catch_pictures(in_kernel: bool = False) -> None:
    """Make `PIL.Image.show()` save into the output directory, and replace IPython's `display`.

    `in_kernel` leaves IPython unchanged: its kernel forwards displayed objects itself.
    """
    after_import("PIL.Image", lambda module: setattr(module.Image, "show", _show_image))
    if in_kernel:
        return
    for name in ("IPython.core.display_functions", "IPython.display"):
        after_import(name, lambda module: setattr(module, "display", display))
    sys.meta_path.append(_StandIns())


def display(*objects: Any, raw: bool = False, **options: Any) -> None:
    """Show objects: print their text, and add their rich forms to the result. With `raw`, `objects` are the forms."""
    from .value import forms_of, keep_form, text_of  # which imports the tools, among which this is

    global _last
    for shown in objects:
        given = dict(shown) if raw else {}
        print(given.pop("text/plain", "") if raw else text_of(shown))
        forms: Forms = {} if raw else forms_of(shown)
        for media_type, form in given.items():
            if isinstance(media_type, str):
                keep_form(forms, media_type, form)
        if forms:
            displayed.add(hash(forms.get("image/png")))
            _save(_last)
            _last = forms


def finish(done: Dict[str, Any]) -> None:
    """Add the forms of the object shown last to a successful result without a value; otherwise save them as a file."""
    global _last
    forms, _last = _last, {}
    displayed.clear()
    if "error" not in done and "text" not in done:
        done["forms"] = forms
        return
    try:
        _save(forms)
    except Exception as error:
        print("what was shown could not be saved: %s" % error, file=sys.stderr)


def _save(forms: Forms) -> None:
    """Save the richest of these forms: a picture first, then a document, then whichever comes first."""
    for media_type in [*_SUFFIXES, *forms]:
        form = forms.get(media_type)
        if form:
            other = ".json" if media_type.endswith("json") else ".txt" if isinstance(form, str) else ".bin"
            content = form.encode("utf-8", "backslashreplace") if isinstance(form, str) else form
            save_new("display", _SUFFIXES.get(media_type, other), content)
            return


def _show_image(image: Any, title: Optional[str] = None) -> None:
    """Save the picture as a PNG artifact."""
    import io

    buffer = io.BytesIO()
    (image if image.mode in _OF_PNG else image.convert("RGB")).save(buffer, "PNG")
    save_new("image", ".png", buffer.getvalue())


class _StandIns:
    """Provides `IPython.display` if IPython is not installed, with `display` and its most used classes."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> Optional[ModuleSpec]:
        if name not in _STAND_INS:
            return None
        from importlib.machinery import ModuleSpec

        return ModuleSpec(name, self, is_package=name in ("IPython", "IPython.core"))  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        if module.__name__ == "IPython":
            from importlib import import_module

            import_module("IPython.display")
            module.__dict__["get_ipython"] = lambda: None
        elif module.__name__ != "IPython.core":
            module.__dict__.update(display=display, clear_output=_clear_output, Image=_Image)
            for kind, media_type in _KINDS.items():
                module.__dict__[kind] = type(kind, (_Shown,), {"media_type": media_type, "__module__": module.__name__})


_KINDS = {
    "HTML": "text/html",
    "JSON": "application/json",
    "Latex": "text/latex",
    "Markdown": "text/markdown",
    "Pretty": "text/plain",
    "SVG": "image/svg+xml",
}


class _Shown:
    """Data with a class for its media type, as in IPython."""

    media_type = ""

    def __init__(self, data: Any = None, url: Any = None, filename: Optional[str] = None, **options: Any) -> None:
        if data is None and filename is not None:
            with open(filename, encoding="utf-8") as file:
                data = file.read()
        if data is None:
            raise ValueError("pass data or filename: a url is not fetched to be shown")
        self.data = data

    def __repr__(self) -> str:
        return str(self.data)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> Dict[str, Any]:
        return {self.media_type: self.data}


class _Image(_Shown):
    """A picture, given by its bytes or by its file's name."""

    def __init__(self, data: Any = None, url: Any = None, filename: Optional[str] = None, **options: Any) -> None:
        if isinstance(data, (str, os.PathLike)):
            data, filename = None, os.fspath(data)
        if data is None and filename is not None:
            with open(filename, "rb") as file:
                data = file.read()
        super().__init__(data)
        self.media_type = "image/jpeg" if bytes(self.data).startswith(b"\xff\xd8") else "image/png"

    def __repr__(self) -> str:
        return "<a picture of %d bytes>" % len(self.data)


_Image.__name__ = _Image.__qualname__ = "Image"


def _clear_output(wait: bool = False) -> None:
    """Do nothing: printed output cannot be taken back."""
