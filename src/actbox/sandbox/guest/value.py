"""Describes the value of a program's last expression: as text, in the tagged form if it has one, and in rich forms."""

from __future__ import annotations

import binascii
import json
import sys

from . import wire
from .tagged import CannotCross

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Dict, Union

MAX_TEXT = 100_000
MAX_FORM_BYTES = 4 * 2**20
_MAX_LOST = 400

_FORMS = (
    ("_repr_html_", "text/html"),
    ("_repr_markdown_", "text/markdown"),
    ("_repr_latex_", "text/latex"),
    ("_repr_svg_", "image/svg+xml"),
    ("_repr_png_", "image/png"),
    ("_repr_jpeg_", "image/jpeg"),
)
_IN_BASE64 = ("image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf")


def describe_value(value: Any, max_bytes: int) -> Dict[str, Any]:
    """Return the parts of a result that describe a value: `value`, `text` and `forms`.

    A value that cannot be sent, or takes more than `max_bytes`, is left out, and `lost` says why, and where in the
    value. There is no `lost` for a value that was meant to be looked at: one with a rich form that is no table, or a
    part of a figure that was collected.
    """
    described: Dict[str, Any] = {"text": text_of(value), "forms": forms_of(value)}
    carried: Dict[str, Any] = {}
    try:
        wire.put_value(carried, "value", value)
        wire.encode(carried, max_bytes)
        described.update(carried)
        return described
    except CannotCross as error:
        lost = "" if _is_drawn(error.value) else error.within("value")
    except wire.MessageTooLong as error:
        lost = "value: %s (a quarter of message_bytes); write it to a file below output/" % error
    except Exception as error:  # the value's own methods may raise anything
        lost = "value: %s" % (error if isinstance(error, (ValueError, wire.ProtocolError)) else type(error).__name__)
    if lost and (_is_table(value) or not described["forms"]):
        described["lost"] = lost[:_MAX_LOST]
    return described


def _is_table(value: Any) -> bool:
    return not {"DataFrame", "Series"}.isdisjoint(kind.__name__ for kind in type(value).__mro__)


def _is_drawn(value: Any) -> bool:
    """Return whether a value is part of a figure that was collected, such as the result of `plt.plot(…)`."""
    artist = sys.modules.get("matplotlib.artist")
    if artist is None or not isinstance(value, artist.Artist):
        return False
    from .figures import collected

    return value.figure in collected


def text_of(value: Any) -> str:
    """Return a value's `repr`, shortened if it is very long; a sentence if it raises."""
    try:
        text = repr(value)
    except Exception as error:
        return "<%s object whose repr() raised %s>" % (type(value).__name__, type(error).__name__)
    if len(text) > MAX_TEXT:
        return text[:MAX_TEXT] + "… (%d more characters)" % (len(text) - MAX_TEXT)
    return text


def forms_of(value: Any) -> Dict[str, Union[str, bytes]]:
    """Return the rich forms of a value that a notebook would show, by media type."""
    forms: Dict[str, Union[str, bytes]] = {}
    if isinstance(value, type):
        return forms
    bundle = _call(value, "_repr_mimebundle_")
    if isinstance(bundle, tuple) and bundle:
        bundle = bundle[0]
    if isinstance(bundle, dict):
        for media_type, form in bundle.items():
            if isinstance(media_type, str) and media_type != "text/plain":
                keep_form(forms, media_type, form)
    for method, media_type in _FORMS:
        if media_type not in forms:
            keep_form(forms, media_type, _call(value, method))
    figure = sys.modules.get("matplotlib.figure")
    if figure is not None and isinstance(value, figure.Figure) and "image/png" not in forms:
        from .figures import png_of

        keep_form(forms, "image/png", png_of(value))
    return forms


def _call(value: Any, method: str) -> Any:
    function = getattr(value, method, None)
    if not callable(function):
        return None
    try:
        return function()
    except NotImplementedError:  # IPython's way to say that the object has no such form
        return None
    except Exception as error:  # a broken rich form is ignored; the text is always there
        print("%s of a %s raised %s, and is left out" % (method, type(value).__name__, text_of(error)), file=sys.stderr)
        return None


def keep_form(forms: Dict[str, Union[str, bytes]], media_type: str, form: Any) -> None:
    """Add one form of a value as a message carries it: pictures as bytes, JSON as text. A broken form is left out."""
    if isinstance(form, (dict, list)):
        try:
            form = json.dumps(form, allow_nan=False, default=_item)
        except Exception:  # a broken rich form is ignored
            return
        if wire.has_long_number(form) or wire.is_too_deep(form):
            return
    if isinstance(form, str) and media_type in _IN_BASE64:  # as in notebooks
        try:
            form = binascii.a2b_base64(form)
        except ValueError:
            return
    if isinstance(form, (str, bytes)) and len(form) <= MAX_FORM_BYTES:
        forms[media_type] = form


def _item(value: Any) -> Any:
    """Return a NumPy number as a Python number."""
    return value.item()
