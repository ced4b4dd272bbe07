"""The entries of the journal, the chain of their hashes, and the walk along it that finds damage.

A hash covers an entry and the hash of the entry before, so that a change, a gap or a swap shows. Whoever can write the
database can still write a whole new chain, or cut off its tail; a signature of the last entry (`journal_signing`) and a
head that is kept elsewhere (`expect`) are against that:

| whoever | is found by |
|---|---|
| changes, drops or swaps entries, or changes or drops blobs | the chain alone |
| writes a new chain, or cuts off the tail, without the key | the signed head |
| also puts back an old signed head that they have kept | a process that still has the journal open, or `expect` |
| puts back an earlier copy of the whole database, head and all | the same |
| puts the whole journal of another place with the same key there | the same |
| has the key and can write the database | `expect`, for the entries up to the one that it names |
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from actbox.core.errors import InvalidValue

from .canonical_json import canonical

FIRST: Final = "0" * 64
"""The previous hash of the first entry."""
BLOBS_FIELD: Final = "blobs"
"""The field of a body that lists its fields with blobs."""
_MOST_PROBLEMS: Final = 100
_EXPECTED: Final = re.compile(r"([1-9]\d{0,17}):([0-9a-f]{16,64})")

Row = Sequence[Any]
"""An entry as the database has it: number, time, kind, invocation, body as text, previous hash, hash."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry: its number, its time in microseconds since 1970, its kind, and what it says as JSON data.

    `time` is that of the clock, which may jump; the order is that of the numbers. `invocation` is the identity of the
    invocation that it belongs to, or "". `hash` is the SHA-256 of all of it and of `previous`, the hash of the entry
    before.
    """

    seq: int
    time: int
    kind: str
    invocation: str
    body: Mapping[str, Any]
    previous: str
    hash: str

    @property
    def head(self) -> str:
        """The entry as `expect` of `Journal.verify` takes it, to be kept elsewhere."""
        return f"{self.seq}:{self.hash}"

    @property
    def blobs(self) -> dict[str, str]:
        """The digests of its blobs, by their names."""
        return blobs_of(self.body)

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as plain JSON data."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class JournalVerification:
    """The result of reading a whole journal, or exported files: how many entries there are, and what is wrong."""

    entries: int
    problems: tuple[str, ...] = ()
    signed: bool = False
    """True if a valid signature vouches for the last entry."""
    first: int = 0
    """The number of the first entry; those before it were trimmed, or not exported."""
    head: str = ""
    """The last entry, as `expect` takes it; "" if there is none."""

    @property
    def ok(self) -> bool:
        """True if nothing is wrong."""
        return not self.problems


class Chain:
    """A walk along the chain, which collects problems. It begins after an entry, or at the first one that it is given.

    `expect` is `NUMBER:HASH` of an entry that must be there. Raises `InvalidValue` for another form.
    """

    def __init__(self, after: tuple[int, str] | None, expect: str = "") -> None:
        self.seq, self.hash = after or (0, "")
        self.entries = 0
        self.first = 0
        self.problems: list[str] = []
        self._is_begun = after is not None
        self._expected = _expected(expect)
        self._is_met = self._expected is None
        self._meet(self.seq, self.hash)

    def entry(self, row: Row) -> None:
        """Take the next entry."""
        seq, when, kind, invocation, text, previous, digest = row
        self.entries += 1
        try:
            if type(seq) is not int:
                raise TypeError
            if not self._is_begun:
                self.seq, self.hash, self._is_begun = seq - 1, previous, True
            if seq != self.seq + 1:
                self.problem(f"after entry {self.seq} comes entry {seq}")
            elif previous != self.hash:
                self.problem(f"entry {seq} does not follow from the one before it")
            if hash_of(seq, when, kind, invocation, text, previous) != digest:
                self.problem(f"entry {seq} was changed")
        except (TypeError, ValueError):
            self.unreadable(seq)
            return
        self.seq, self.hash = seq, digest
        self.first = self.first or seq
        if self._expected is not None and seq == self._expected[0]:
            self._meet(seq, digest)

    def unreadable(self, seq: object) -> None:
        """Add the problem that an entry has another form than all entries."""
        self.problem(f"entry {seq!r} cannot be read")

    def problem(self, text: str) -> None:
        """Add a problem, up to a number that one can still read."""
        if len(self.problems) < _MOST_PROBLEMS:
            self.problems.append(text)

    def signature(self, seq: int, digest: str, is_valid: bool) -> bool:
        """Return whether a signature of an entry vouches for the last one; add a problem if not."""
        if not is_valid:
            self.problem("the head is not signed by this key")
        elif seq != self.seq:
            self.problem(f"the head was signed at entry {seq}, but the last entry is {self.seq}")
        elif digest != self.hash:
            self.problem(f"the head was signed for another entry {seq}, of another journal or of another history")
        else:
            return True
        return False

    def result(self, signed: bool) -> JournalVerification:
        """Return the result once all entries were given."""
        if self._expected is not None and not self._is_met:
            number = self._expected[0]
            if number > self.seq:
                self.problem(f"entry {number} is expected, but the last entry is {self.seq}")
            else:
                self.problem(f"entry {number} is expected, and is not there any more to be compared")
        head = f"{self.seq}:{self.hash}" if self.seq else ""
        return JournalVerification(self.entries, tuple(self.problems), signed, self.first, head)

    def _meet(self, seq: int, digest: str) -> None:
        if self._expected is None or seq != self._expected[0]:
            return
        self._is_met = True
        if not digest.startswith(self._expected[1]):
            self.problem(f"entry {seq} is another one than the one that is expected")


def hash_of(seq: int, when: int, kind: str, invocation: str, text: str, previous: str) -> str:
    """Return the hash of an entry; `text` is its body as canonical JSON. Raises `TypeError` and `ValueError`."""
    # With the lengths, no two entries are the same text.
    head = f"{seq} {when} {previous} {len(kind)} {kind} {len(invocation)} {invocation}"
    return hashlib.sha256(f"{head}\n{text}".encode()).hexdigest()


def blobs_of(body: Mapping[str, Any]) -> dict[str, str]:
    """Return the digests of the blobs of a body. Raises `KeyError` or `TypeError` for a body that nobody appended."""
    return {name: body[name] for name in body.get(BLOBS_FIELD, ())}


def row_of(said: Mapping[str, Any]) -> Row:
    """Return an entry that `Entry.to_dict` has written. Raises `KeyError`, `TypeError` and `ValueError`."""
    text = canonical(said["body"])
    row = (said["seq"], said["time"], said["kind"], said["invocation"], text, said["previous"], said["hash"])
    if [type(one) for one in row] != [int, int, str, str, str, str, str]:
        raise TypeError
    return row


def is_blob(digest: object, data: object) -> bool:
    """Return whether data is bytes with a digest."""
    return isinstance(data, bytes) and hashlib.sha256(data).hexdigest() == digest


def from_base64(text: str) -> bytes:
    """Return bytes from text. Raises `TypeError` and `ValueError`."""
    return base64.b64decode(text, validate=True)


def _expected(text: str) -> tuple[int, str] | None:
    if not text:
        return None
    found = _EXPECTED.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise InvalidValue(
            f"an expected entry is NUMBER:HASH with at least 16 digits of its hash, as verify prints it, not {text!r}"
        )
    return int(found[1]), found[2]
