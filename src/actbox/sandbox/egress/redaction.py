"""Takes the values of secrets out of what a host answers, should it echo them.

Pure: bytes in, bytes out. Found are the value itself, each of its characters in any spelling of `characters`, and its
bytes in base64 or hexadecimal, also where they are split over lines or pieces. A host that means to tell a program the
value can always spell it in a way that is not here.

One pattern finds where a value may begin. From there each way to spell it is walked along, character by character, at
all places at once that it may have come to: time grows with the length of the text, whatever the text is.
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

_HELD_IN = 64  # bytes of a value; what is held back is for a multiple, so as not to tell the length of a value
_LEAST_ENCODED = 4  # bytes of an encoded form below which it would be found everywhere
_BEGINNING = 16  # characters of a value that are looked for at every place
_CONTEXT = FULL_LINE + 1  # bytes that patterns look back over, with the first half of a line's end


class Spellings:
    """All the ways in which the values of some secrets, at least one, may be spelled."""

    def __init__(self, secrets: Sequence[Secret]) -> None:
        self._secrets = tuple(secrets)
        self.values = _Values(self._secrets)
        longest = max(len(secret.value.encode()) for secret in secrets)
        self.reach = MOST_BYTES * _HELD_IN * -(-longest // _HELD_IN)
        """No spelling has more bytes."""

    def redact(self, data: bytes) -> bytes:
        """Return some bytes that are whole, such as a header's value, with `[secret NAME]` for each value."""
        redactor = Redactor(self)
        return redactor.feed(data) + redactor.finish()

    def in_a_name(self, name: bytes) -> bool:
        """Return whether a value stands in a header's name, the case of whose letters is lost on the way."""
        return any(self._in_any_case.ends(name, start) for start in self._in_any_case.starts(name))

    @functools.cached_property
    def _in_any_case(self) -> _Values:
        return _Values(self._secrets, re.IGNORECASE)


class Redactor:
    """Replaces values by `[secret NAME]` in one stream."""

    def __init__(self, spellings: Spellings) -> None:
        self._values = spellings.values
        self._reach = spellings.reach
        self._data = b""  # the end of what has been decided, then what is held back
        self._decided = 0  # all offsets are into `_data`
        self._searched = 0  # before it no value begins that has not been found
        self._found = 0  # where the values end that have been found
        self._replaced = b""  # by what

    def feed(self, data: bytes) -> bytes:
        """Return what may be passed on. What follows the last end of a line is held back, as far as a value may reach.

        An end of a line counts unless base64 might go on over it: after sixteen letters or digits. How much is held
        back depends on nothing but that and the length of the data. If only the beginning of a value were held, a
        program could have a host repeat its guesses, and learn from silence which one is right so far.
        """
        before = len(self._data)
        self._data += data
        within_reach = max(self._decided, len(self._data) - self._reach)
        lines = WHOLE_LINES.match(self._data, max(within_reach, before - 1))
        return self._decide(lines.end() if lines else within_reach)

    def finish(self) -> bytes:
        """Return what was held back, at the end of the stream."""
        return self._decide(len(self._data))

    def _decide(self, until: int) -> bytes:
        """Return what to say for the data up to there; values that begin before it also end in the data."""
        data, out = self._data, []
        said = max(self._decided, min(self._found, until))
        searched = len(data) - self._values.reach
        for start in self._values.starts(data, self._searched):
            if start >= until:
                searched = min(start, searched)  # one that begins before it may be seen later
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
    """One way to spell a value: each of its characters in turn, and what may follow them.

    `rest` are the bytes of the first character after its first one.
    """

    characters: list[Patterns]
    rest: bytes
    more: re.Pattern[bytes] | None
    instead: bytes

    def may_begin(self, first: int) -> bool:
        """Return whether a spelling may begin with a byte."""
        return first in b"%&\\" or any(pattern.match(bytes([first]) + self.rest) for pattern in self.characters[0])

    def end(self, data: bytes, start: int) -> int | None:
        """Return where the longest spelling ends that starts there."""
        ends = {start}
        for patterns in self.characters:
            ends = {found.end() for pattern in patterns for at in ends if (found := pattern.match(data, at))}
            if not ends:
                return None
        end = max(ends)
        found = self.more.match(data, end) if self.more else None
        return found.end() if found else end

    def beginning(self) -> bytes:
        """Return a pattern for the first characters, of which few have more than one pattern, so as to be quick."""
        first: list[bytes] = []
        several = 0
        for patterns in self.characters[:_BEGINNING]:
            first.append(b"(?:%b)" % b"|".join(pattern.pattern for pattern in patterns))
            several += len(patterns) > 1
            if several == 3:
                break
        return b"".join(first)


class _Values:
    """Where the values of some secrets begin and end in some data."""

    def __init__(self, secrets: Sequence[Secret], flags: int = 0) -> None:
        ways = [way for secret in secrets for way in _ways(secret, flags)]
        self.reach = MOST_BYTES * _BEGINNING
        """What has to be there for a beginning to be seen."""
        self._ways = {first: [way for way in ways if way.may_begin(first)] for first in range(256)}
        firsts = b"".join(re.escape(bytes([first])) for first, beginning in self._ways.items() if beginning)
        # The set in front is what makes searching quick; the rest is looked for from the byte before.
        beginnings = b"|".join(way.beginning() for way in ways)
        self._start = re.compile(rb"[%b](?<=(?=%b)(?s:.))" % (firsts, beginnings), flags)

    def starts(self, data: bytes, searched: int = 0) -> Iterator[int]:
        """Yield the places where values may begin."""
        return (found.start() for found in self._start.finditer(data, searched))

    def ends(self, data: bytes, start: int) -> list[tuple[int, bytes]]:
        """Return where values end that begin there, the longest first, each with what stands for it."""
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
