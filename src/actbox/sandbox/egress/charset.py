"""In which charsets a text's ASCII characters are the bytes that they are in ASCII, so that values can be found."""

from __future__ import annotations

import encodings
import encodings.aliases
import functools
import re
import string

_CHARSET = re.compile(rb"charset\*?[ \t]*=[^;,]*", re.IGNORECASE)
_NAME = re.compile(rb"charset[ \t]*=[ \t]*(?:\"([^\"\\]*)\"|([^\";, \t]*))[ \t]*", re.IGNORECASE)
_BESIDES = frozenset({"binary", "koi8_u"})  # the first is said of what is no text


def is_like_ascii(content_type: bytes) -> bool:
    """Return whether a Content-Type names such a charset or none. One that is not known here is not."""
    for said in _CHARSET.findall(content_type):
        named = _NAME.fullmatch(said)
        if named is None or not _is_known(named[1] or named[2] or b""):
            return False
    return True


def _is_known(name: bytes) -> bool:
    return not name or encodings.normalize_encoding(name.decode("latin-1")).lower() in _like_ascii()


@functools.cache
def _like_ascii() -> frozenset[str]:
    """Return the names of those that Python knows, tried out; only these are ever looked up, and none of a host's."""
    good = {codec for codec in {"ascii", *encodings.aliases.aliases.values()} if _keeps_ascii(codec)}
    return _BESIDES | good | {alias for alias, codec in encodings.aliases.aliases.items() if codec in good}


def _keeps_ascii(codec: str) -> bool:
    try:
        return string.printable.encode(codec) == string.printable.encode("ascii")
    except (LookupError, UnicodeError, ValueError):  # no charset, or one without some of these
        return False
