"""What the last expression's value looks like from outside: JSON where it can be, text always, rich forms."""

from __future__ import annotations

import json
import sys

from .tools import plain
from .wire import has_long_number, is_too_deep

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Dict, Tuple, Union

MAX_TEXT = 100_000
MAX_FORM_BYTES = 4 * 2**20

_FORMS = (
    ("_repr_html_", "text/html"),
    ("_repr_markdown_", "text/markdown"),
    ("_repr_latex_", "text/latex"),
    ("_repr_svg_", "image/svg+xml"),
    ("_repr_png_", "image/png"),
    ("_repr_jpeg_", "image/jpeg"),
)


def describe_value(value: Any, max_bytes: int) -> Dict[str, Any]:
    """Return the parts of a result that tell of a value: `value` (if it is JSON), `text` and `forms`."""
    described: Dict[str, Any] = {"text": _text(value), "forms": _forms(value)}
    is_json, as_json = to_json(value, max_bytes)
    if is_json:
        described["value"] = as_json
    return described


def to_json(value: Any, max_bytes: int) -> Tuple[bool, Any]:
    """Return whether a value is JSON (of at most `max_bytes`), and that JSON. NaN and infinity are not."""
    value = plain(value)
    try:
        text = json.dumps(value, allow_nan=False, default=_json_of)
    except Exception:  # whatever a value's own methods raise only means that it is no JSON
        return False, None
    if len(text) > max_bytes or has_long_number(text) or is_too_deep(text):
        return False, None
    return True, json.loads(text)


def _json_of(value: Any) -> Any:
    converted = plain(value)
    if converted is value:
        raise TypeError
    return converted


def _text(value: Any) -> str:
    try:
        text = repr(value)
    except Exception as error:
        return "<%s object whose repr() raised %s>" % (type(value).__name__, type(error).__name__)
    if len(text) > MAX_TEXT:
        return text[:MAX_TEXT] + "… (%d more characters)" % (len(text) - MAX_TEXT)
    return text


def _forms(value: Any) -> Dict[str, Union[str, bytes]]:
    forms: Dict[str, Union[str, bytes]] = {}
    if isinstance(value, type):
        return forms
    bundle = _call(value, "_repr_mimebundle_")
    if isinstance(bundle, tuple) and bundle:
        bundle = bundle[0]
    if isinstance(bundle, dict):
        for media_type, form in bundle.items():
            if isinstance(media_type, str) and media_type != "text/plain":
                _keep(forms, media_type, form)
    for method, media_type in _FORMS:
        if media_type not in forms:
            _keep(forms, media_type, _call(value, method))
    figure = sys.modules.get("matplotlib.figure")
    if figure is not None and isinstance(value, figure.Figure) and "image/png" not in forms:
        from .figures import png_of

        _keep(forms, "image/png", png_of(value))
    return forms


def _call(value: Any, method: str) -> Any:
    function = getattr(value, method, None)
    if not callable(function):
        return None
    try:
        return function()
    except Exception:  # a broken rich form is no form; the text is always there
        return None


def _keep(forms: Dict[str, Union[str, bytes]], media_type: str, form: Any) -> None:
    if isinstance(form, (dict, list)):
        is_json, form = to_json(form, MAX_FORM_BYTES)
        form = json.dumps(form) if is_json else None
    if isinstance(form, (str, bytes)) and len(form) <= MAX_FORM_BYTES:
        forms[media_type] = form
