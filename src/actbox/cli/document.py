"""One JSON document on standard output, strict enough for every reader."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any

_SURROGATE = re.compile("[\ud800-\udfff]")


def print_document(document: Mapping[str, Any]) -> bool:
    """Write the document and a newline; return whether somebody was there to read it."""
    view = memoryview(to_json(document).encode() + b"\n")
    try:
        while view:
            view = view[os.write(1, view) :]
    except BrokenPipeError:
        return False
    return True


def to_json(document: Mapping[str, Any]) -> str:
    """Return the document as JSON that every reader takes.

    A number that JSON cannot write (NaN, infinity) becomes null, as in JavaScript, and half of a surrogate pair, which
    is no character and which some readers refuse even when escaped, becomes U+FFFD.
    """
    try:
        text = json.dumps(document, allow_nan=False, ensure_ascii=False)
    except ValueError:
        finite = json.loads(json.dumps(document), parse_constant=lambda _: None)
        text = json.dumps(finite, ensure_ascii=False)
    return _SURROGATE.sub("\ufffd", text)
