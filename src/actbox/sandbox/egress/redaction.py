"""Removes the values of secrets from a host's responses, in case it echoes them.

Pure: bytes in, bytes out. It finds the value itself, each of its characters in any spelling of `characters`, and its
bytes in base64 or hexadecimal, also if split over lines or pieces. A host that wants to give a program the value can
always use a spelling that is not covered.

One pattern finds possible beginnings of a value. From there each spelling is followed character by character, at all
positions it may have reached at once: the time grows linearly with the length of the text, whatever the text is.
"""

from __future__ import annotations

import base64
import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from actbox.core.secrets import Secret

from .characters import (
    FULL_LINE,
    MOST_BYTES,
    WHOLE_LINES,
    Patterns,
    after_break,
    base64_end,
    in_base64,
    in_hex,
    spelled,
)

_HELD_IN = 64  # bytes of a value; the held-back size is a multiple, so that it does not reveal a value's length
_LEAST_ENCODED = 4  # shorter encoded forms, in bytes, would be found everywhere
_BEGINNING = 16  # characters of a value that are searched for at every position
_CONTEXT = FULL_LINE + 1  # bytes that patterns look back over, with the first half of a line end


class Spellings:
    """All spellings of the values of some secrets, at least one."""

    def __init__(self, secrets: Sequence[Secret]) -> None:
        self._secrets = tuple(secrets)
        self.values = _Values(self._secrets)
        longest = max(len(secret.value.encode()) for secret in secrets)
        self.reach = MOST_BYTES * _HELD_IN * -(-longest // _HELD_IN)
        """The most bytes of any spelling."""

    def redact(self, data: bytes) -> bytes:
        """Return complete data, such as a header's value, with `[secret NAME]` for each value."""
        redactor = Redactor(self)
        return redactor.feed(data) + redactor.finish()

    def in_a_name(self, name: bytes) -> bool:
        """Return whether a value occurs in a header's name, in any case of its letters, since names lose their case."""
        return any(self._in_any_case.ends(name, start) for start in self._in_any_case.starts(name))

    @functools.cached_property
    def _in_any_case(self) -> _Values:
        return _Values(self._secrets, re.IGNORECASE)


class Redactor:
    """Replaces values by `[secret NAME]` in one stream."""

    def __init__(self, spellings: Spellings) -> None:
        self._values = spellings.values
        self._reach = spellings.reach
        self._data = b""  # the end of the decided data, then the data held back
        self._decided = 0  # all offsets are into `_data`
        self._searched = 0  # no undiscovered value begins before this
        self._found = 0  # the end of the values found so far
        self._replaced = b""  # their replacement

    def feed(self, data: bytes) -> bytes:
        """Return the data that may be passed on.

        Data after the last line end is held back, as far as a value may reach.

        A line end counts unless base64 might continue over it: after sixteen letters or digits. The amount held back
        depends only on that and on the length of the data. If only the start of a possible value were held, a program
        could have a host repeat its guesses, and learn from the delay which one is right so far.
        """
        before = len(self._data)
        self._data += data
        within_reach = max(self._decided, len(self._data) - self._reach)
        lines = WHOLE_LINES.match(self._data, max(within_reach, before - 1))
        return self._decide(lines.end() if lines else within_reach)

    def finish(self) -> bytes:
        """Return the data held back, at the end of the stream."""
        return self._decide(len(self._data))

    def _decide(self, until: int) -> bytes:
        """Return the output for the data up to `until`; values that begin before it also end in the data."""
        data, out = self._data, []
        said = max(self._decided, min(self._found, until))
        searched = len(data) - self._values.reach
        for start in self._values.starts(data, self._searched):
            if start >= until:
                searched = min(start, searched)  # an earlier one may be seen later
                break
            for end, instead in self._values.ends(data, start):
                if start >= self._found:
                    out += [data[said:start], instead]
                elif end > self._found and instead != self._replaced:
                    out.append(instead)
                if end > self._found:
                    self._found, self._replaced = end, instead
                    said = min(end, until)
        searched = max(until, searched)
        out.append(data[said:until])
        forget = max(0, until - _CONTEXT)
        self._data = data[forget:]
        self._decided, self._searched, self._found = until - forget, searched - forget, max(0, self._found - forget)
        return b"".join(out)


@dataclass(frozen=True, slots=True, repr=False)
class _Way:
    """One way to spell a value: its characters in turn, and what may follow them.

    `rest` are the bytes of the first character after its first byte.
    """

    characters: list[Patterns]
    rest: bytes
    more: re.Pattern[bytes] | None
    instead: bytes

    def may_begin(self, first: int) -> bool:
        """Return whether a spelling may begin with this byte."""
        return first in b"%&\\" or any(pattern.match(bytes([first]) + self.rest) for pattern in self.characters[0])

    def end(self, data: bytes, start: int) -> int | None:
        """Return the end of the longest spelling that starts at this position, or `None`."""
        ends = {start}
        for patterns in self.characters:
            ends = {found.end() for pattern in patterns for at in ends if (found := pattern.match(data, at))}
            if not ends:
                return None
        end = max(ends)
        found = self.more.match(data, end) if self.more else None
        return found.end() if found else end

    def beginning(self) -> bytes:
        """Return a fast pattern for the first characters, with few characters that have more than one pattern."""
        first: list[bytes] = []
        several = 0
        for patterns in self.characters[:_BEGINNING]:
            first.append(b"(?:%b)" % b"|".join(pattern.pattern for pattern in patterns))
            several += len(patterns) > 1
            if several == 3:
                break
        return b"".join(first)


class _Values:
    """Finds the values of some secrets in data: where they begin and end."""

    def __init__(self, secrets: Sequence[Secret], flags: int = 0) -> None:
        ways = [way for secret in secrets for way in _ways(secret, flags)]
        self.reach = MOST_BYTES * _BEGINNING
        """The bytes that must be present for a beginning to be recognized."""
        self._ways = {first: [way for way in ways if way.may_begin(first)] for first in range(256)}
        firsts = b"".join(re.escape(bytes([first])) for first, beginning in self._ways.items() if beginning)
        # The set in front makes searching fast; the rest is matched from the byte before.
        beginnings = b"|".join(way.beginning() for way in ways)
        self._start = re.compile(rb"[%b](?<=(?=%b)(?s:.))" % (firsts, beginnings), flags)

    def starts(self, data: bytes, searched: int = 0) -> Iterator[int]:
        """Yield the positions where values may begin."""
        return (found.start() for found in self._start.finditer(data, searched))

    def ends(self, data: bytes, start: int) -> list[tuple[int, bytes]]:
        """Return the ends of values that begin at `start`, the longest first, each with its replacement."""
        ends = [(end, way.instead) for way in self._ways[data[start]] if (end := way.end(data, start)) is not None]
        return sorted(ends, key=lambda found: -found[0])


def _ways(secret: Secret, flags: int) -> list[_Way]:
    raw = secret.value.encode()
    instead = f"[secret {secret.name}]".encode()
    ways = [_Way([spelled(char, flags) for char in secret.value], secret.value[0].encode()[1:], None, instead)]
    if len(raw) * 2 >= _LEAST_ENCODED:
        ways.append(_Way(_over_lines([in_hex(digit, flags) for digit in raw.hex()]), b"", None, instead))
    for before, shared in enumerate((0, 2, 3)):
        whole = base64.b64encode(bytes(before) + raw).rstrip(b"=").decode()[shared:]
        own, last = (whole, None) if (before + len(raw)) % 3 == 0 else (whole[:-1], base64_end(whole[-1], flags))
        if len(own) >= _LEAST_ENCODED:
            ways.append(_Way(_over_lines([in_base64(letter, flags) for letter in own]), b"", last, instead))
    return ways


def _over_lines(characters: list[Patterns]) -> list[Patterns]:
    return [characters[0], *map(after_break, characters[1:])]
