"""Takes the values of secrets out of what a host answers, should it echo them.

Pure: bytes in, bytes out. Found are the value itself and what the usual encodings make of it, also where it is split
over pieces. A host that means to tell a program the value can always spell it in a way that is not here.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Sequence
from urllib.parse import quote, quote_plus

from actbox.core.secrets import Secret

_HELD_IN = 64  # bytes; what is held back is a multiple, so as not to tell the length of a value
_LEAST_ENCODED = 4  # bytes of an encoded form below which it would be found everywhere


class Spellings:
    """All the ways in which the values of some secrets, at least one, may be spelled."""

    def __init__(self, secrets: Sequence[Secret]) -> None:
        self._instead: dict[bytes, bytes] = {}
        for secret in secrets:
            for form in _forms(secret.value):
                self._instead.setdefault(form, f"[secret {secret.name}]".encode())
        self.forms = sorted(self._instead, key=len, reverse=True)
        self.pattern = re.compile(b"|".join(map(re.escape, self.forms)))
        self._in_any_case = re.compile(self.pattern.pattern, re.IGNORECASE)

    def redact(self, data: bytes) -> bytes:
        """Return some bytes that are whole, such as a header's value, with `[secret NAME]` for each value."""
        return self.pattern.sub(self.replacement, data)

    def in_a_name(self, name: bytes) -> bool:
        """Return whether a value stands in a header's name, the case of whose letters is lost on the way."""
        return self._in_any_case.search(name) is not None

    def replacement(self, match: re.Match[bytes]) -> bytes:
        """Return what stands for a place where `pattern` was found."""
        return self._instead[match[0]]


class Redactor:
    """Replaces values by `[secret NAME]` in one stream."""

    def __init__(self, spellings: Spellings) -> None:
        self._spellings = spellings
        self._hold = -(-len(spellings.forms[0]) // _HELD_IN) * _HELD_IN
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Return what may be passed on. What follows the last end of a line is held back, as far as a value may reach.

        How much that is depends on nothing but the length of the data. If only the beginning of a value were held, a
        program could have a host repeat its guesses, and learn from silence which one is right so far.
        """
        data = self._held + data
        lines = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1  # no spelling has an end of line in it
        decided = max(lines, len(data) - self._hold)
        out = []
        done = 0
        for match in self._spellings.pattern.finditer(data):
            if match.start() >= decided:
                break
            out += [data[done : match.start()], self._spellings.replacement(match)]
            done = match.end()
        cut = max(decided, done)
        out.append(data[done:cut])
        self._held = data[cut:]
        return b"".join(out)

    def finish(self) -> bytes:
        """Return what was held back, at the end of the stream."""
        held, self._held = self._held, b""
        return self._spellings.redact(held)


def _forms(value: str) -> set[bytes]:
    """Return the ways in which a value may be spelled in a response."""
    raw = value.encode()
    spelled = {
        quote(value, safe=""),
        quote(value),
        quote(value, safe="/:@!$&'()*+,;="),
        quote_plus(value),
        "".join(f"%{byte:02X}" for byte in raw),
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        json.dumps(value)[1:-1].replace("/", "\\/"),
        html.escape(value),
        html.escape(value, quote=False),
        repr(value)[1:-1],
    }
    forms = {text.encode() for text in spelled} | {raw}
    forms |= {re.sub(rb"%[0-9A-F]{2}", lambda found: found[0].lower(), form) for form in forms}
    forms |= {re.sub(rb"\\u[0-9a-f]{4}", lambda found: b"\\u" + found[0][2:].upper(), form) for form in forms}
    encoded = {raw.hex().encode(), raw.hex().upper().encode()} | _in_base64(raw)
    return forms | {form for form in encoded if len(form) >= _LEAST_ENCODED}


def _in_base64(raw: bytes) -> set[bytes]:
    """Return the value in base64, alone and, without the characters its neighbours share, in the midst of a text."""
    forms = set()
    for before in range(3):
        whole = base64.b64encode(bytes(before) + raw).rstrip(b"=")
        shared_front = (0, 2, 3)[before]
        shared_back = 0 if (before + len(raw)) % 3 == 0 else 1
        forms.add(whole[shared_front : len(whole) - shared_back])
    forms.add(base64.b64encode(raw))
    forms.add(base64.b64encode(raw).rstrip(b"="))
    return forms | {form.translate(bytes.maketrans(b"+/", b"-_")) for form in forms}
