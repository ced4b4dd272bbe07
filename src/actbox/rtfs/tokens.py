"""The tokens of RTFS as one regular expression, and the patterns of its names and atoms.

No alternative gives back what it has taken, so scanning any text takes time in proportion to its length.
"""

from __future__ import annotations

import re
from typing import Final

_INSIDE = r"[\w$+\-*/=<>!?%.@]"
_WORD = rf"(?!\d)[\w$+\-*/=<>!?%]{_INSIDE}*+"
NAME: Final = rf"(?:resource:ref(?!{_INSIDE})|{_WORD}(?::[\w.\-]++/{_INSIDE}++)?)"
"""A pattern for the name of a symbol or keyword: plain, namespaced (`a.b/c`) or versioned (`a.b:v1.0/c`)."""
INTEGER: Final = r"[+-]?[0-9]++"
FLOAT: Final = r"[+-]?[0-9]++\.[0-9]++(?:[eE][+-]?[0-9]++)?"
TIMESTAMP: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[._][0-9]{1,9})?Z(?:_[0-9]{1,9})?"
UUID: Final = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
RESOURCE: Final = r"resource://[^\s()\[\]{}\"\x00\ud800-\udfff]++"
_STRING = r'"[^"\\]*+(?:\\[\s\S][^"\\]*+)*+"'
_COMMENT = r";[^\n]*+|\#\|[\s\S]*?\|\#"
_APART = rf"(?!{_INSIDE})"

_KINDS = {
    "opener": r"[(\[{]|\#\(",
    "closer": r"[)\]}]",
    "keyword": rf":{NAME}",
    "uuid": rf"{UUID}{_APART}",
    "resource": RESOURCE,
    "integer": rf"{INTEGER}(?![\w$+\-*/=<>!?%.@:])",
    "float": rf"{FLOAT}{_APART}",
    "timestamp": rf"{TIMESTAMP}{_APART}",
    "number": rf"[+-]?[0-9](?:{_INSIDE}|:)*+|\.[0-9]{_INSIDE}*+",
    "symbol": NAME,
    "string": _STRING,
    "prefix": r"`|~@|~|\^",
    "context": rf"@:?{NAME}",
    "special": rf"\#\#(?:-?Inf|NaN){_APART}",
    "method": rf"\.{NAME}",
    "mark": r"&|:(?=[\s()\[\]{}:;]|\Z)",
    "comment": _COMMENT,
    "other": r"[\s\S]",
    "end": r"\Z",
}

TOKEN: Final = re.compile(
    r"[ \t\r\n]*+(?:" + "|".join(f"(?P<{kind}>{pattern})" for kind, pattern in _KINDS.items()) + ")"
)
"""One token and the space before it; the group that matched is the token's kind. At the end of the text: `end`.

`number` is a malformed one, and `other` a character that begins no token.
"""

_NUMBERS = {kind: number for number, kind in enumerate(_KINDS, start=1)}
OPENER: Final = _NUMBERS["opener"]
CLOSER: Final = _NUMBERS["closer"]
KEYWORD: Final = _NUMBERS["keyword"]
UUID_TOKEN: Final = _NUMBERS["uuid"]
RESOURCE_TOKEN: Final = _NUMBERS["resource"]
INTEGER_TOKEN: Final = _NUMBERS["integer"]
FLOAT_TOKEN: Final = _NUMBERS["float"]
TIMESTAMP_TOKEN: Final = _NUMBERS["timestamp"]
SYMBOL: Final = _NUMBERS["symbol"]
STRING: Final = _NUMBERS["string"]
PREFIX: Final = _NUMBERS["prefix"]
CONTEXT: Final = _NUMBERS["context"]
SPECIAL_FLOAT: Final = _NUMBERS["special"]
METHOD: Final = _NUMBERS["method"]
MARK: Final = _NUMBERS["mark"]
COMMENT: Final = _NUMBERS["comment"]
END: Final = _NUMBERS["end"]

ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"'}
"""The characters that may follow a backslash in a string, and what each escape stands for."""
CLOSERS: Final = {"(": ")", "[": "]", "{": "}", "#(": ")"}
"""Each opener's closer."""
SPECIAL_FLOATS: Final = {"##Inf": float("inf"), "##-Inf": float("-inf"), "##NaN": float("nan")}
CONSTANTS: Final[dict[str, bool | None]] = {"true": True, "false": False, "nil": None}
"""The words that are literals."""
NO_SYMBOL: Final = re.compile(rf"[+-][0-9][\s\S]*|{UUID}|true|false|nil")
"""A pattern for names that read as something else when they stand alone."""
INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1
