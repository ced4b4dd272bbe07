"""The journal: an append-only audit trail, each entry chained to the one before it by its hash.

An entry that was appended is on disk, in order, in a database that several processes may share. A key makes the
journal sign its head, the number and hash of its last entry, so that a tail that was cut off is noticed too. Whoever
has the key and can write the database can write another history; whoever has only one of them cannot, unnoticed.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    load_pem_public_key,
)
from sqlalchemy import Connection, delete, func, insert, select, update

from actbox.core.errors import InvalidValue

from .database import Database, StoreError
from .journal_tables import ANCHORS, BLOBS, ENTRIES, FORM, HEADS, KEYS, TABLES

FIRST = "0" * 64
"""The previous hash of the first entry."""
_HEAD = 1
_MOST_PROBLEMS = 100
_AT_ONCE = 5_000
_LOCK = 0x616374626F79
_HIDDEN = "«secret»"


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry: its number, its time in microseconds since 1970, its kind, and what it says as JSON data.

    `invocation` is the identity of the invocation that it belongs to, or "". `hash` is the SHA-256 of all of it and of
    `previous`, the hash of the entry before.
    """

    seq: int
    time: int
    kind: str
    invocation: str
    body: Mapping[str, Any]
    previous: str
    hash: str

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as plain JSON data."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of reading a whole journal: how many entries there are, and what is wrong with it."""

    entries: int
    problems: tuple[str, ...] = ()
    signed: bool = False
    """True if a head with a valid signature vouches for the tail."""

    @property
    def ok(self) -> bool:
        """True if nothing is wrong."""
        return not self.problems


@dataclass(frozen=True, slots=True)
class Remembered:
    """What a journal knows of an idempotency key; all `False` and `None` for one that it has not seen."""

    is_open: bool = False
    """True if an invocation with it has begun, and none has ended."""
    is_other: bool = False
    """True if it belongs to another request."""
    outcome: Mapping[str, Any] | None = None
    """The outcome of the invocation that has ended."""


class Journal:
    """An open journal. Close it with `close()`."""

    def __init__(self, database: Database, key: Ed25519PrivateKey | Ed25519PublicKey | None) -> None:
        """Use `Journal.open`."""
        self._database = database
        self._key = key
        self._hidden: tuple[str, ...] = ()

    @classmethod
    def open(cls, address: str, key: str | os.PathLike[str] | None = None, *, read_only: bool = False) -> Journal:
        """Open a journal in a database, `sqlite:///path` or `postgresql://…`; make it if need be. Blocks.

        `key` is the path of an Ed25519 key in PEM form, made for you if there is none there; a public key suffices to
        verify. Raises `InvalidValue`, and `StoreError` for a database that cannot be used.
        """
        database = Database.open(address, TABLES, part="journal", version=FORM, read_only=read_only)
        try:
            return cls(database, None if key is None else _key(Path(key), may_make=not read_only))
        except BaseException:
            database.close()
            raise

    def hide(self, values: Iterable[str]) -> None:
        """Keep secret values out of all later entries and blobs: a sign stands in their place."""
        self._hidden = tuple({*self._hidden, *(value for value in values if value)})

    async def append(
        self,
        kind: str,
        body: Mapping[str, Any],
        *,
        invocation: str = "",
        blobs: Mapping[str, bytes] | None = None,
        opens: str = "",
        opens_again: bool = False,
        closes: str = "",
        outcome: Mapping[str, Any] | None = None,
    ) -> Entry:
        """Append an entry, and return it once it is on disk. `body` is JSON data.

        `blobs` are kept by their hash, each once; the entry has the hash under the blob's name. `opens` is an
        idempotency key, `KEY:REQUEST` by two digests, which the entry marks as begun (`opens_again`: even if it is that
        already), and `closes` one that it ends, with the `outcome` to remember. All of it is written, or nothing.

        Raises `StoreError` if it cannot be written, and `InvalidValue` for what is no JSON data, or a key that another
        invocation has begun.
        """
        work = self._appending(kind, body, invocation, blobs or {}, opens, opens_again, closes, outcome)
        return await self._database.write(work)

    def append_now(
        self, kind: str, body: Mapping[str, Any], *, invocation: str = "", blobs: Mapping[str, bytes] | None = None
    ) -> Entry:
        """Do as `append`, for callers without an event loop. Blocks."""
        return self._database.write_now(self._appending(kind, body, invocation, blobs or {}))

    async def remembered(self, key: str) -> Remembered:
        """Return what is known of an idempotency key, `KEY:REQUEST` by two digests."""
        name, _, request = key.partition(":")
        query = select(KEYS.c.request, KEYS.c.outcome).where(KEYS.c.key == name)
        row = await self._database.read(lambda connection: connection.execute(query).first())
        if row is None:
            return Remembered()
        outcome = json.loads(row.outcome) if row.outcome is not None else None
        return Remembered(is_open=outcome is None, is_other=row.request != request, outcome=outcome)

    async def entries(self, *, after: int = 0, invocation: str | None = None) -> AsyncIterator[Entry]:
        """Yield the entries with numbers above `after`, oldest first; only those of one invocation if it is given."""
        while found := await self._database.read(partial(_read, after=after, invocation=invocation)):
            for entry in found:
                yield entry
            after = found[-1].seq

    async def blob(self, digest: str) -> bytes | None:
        """Return a blob by its hash, `None` if the journal has it no more."""
        query = select(BLOBS.c.data).where(BLOBS.c.digest == digest)
        found: bytes | None = await self._database.read(lambda connection: connection.execute(query).scalar())
        return found

    async def verify(self) -> Verification:
        """Read all of the journal, and say what was changed, dropped, swapped or cut off."""
        return await self._database.read(self._verified)

    async def export(self, path: str | os.PathLike[str], *, after: int = 0) -> int:
        """Write the entries with numbers above `after` to a new file, one JSON object a line; return how many.

        `verify_lines` verifies such a file.
        """
        return await self._database.read(lambda connection: _write_lines(connection, Path(path), after))

    async def trim(self, *, before: float, into: str | os.PathLike[str] | None = None) -> int:
        """Remove the entries from before a time (seconds since 1970), and their blobs; return how many entries.

        `into` is a new file that gets them first, in the form of `export`. The last of those that are removed stays as
        the anchor of the chain, and an entry says so. The newest entry always stays.
        """
        return await self._database.write(lambda connection: self._trimmed(connection, before, into))

    def close(self) -> None:
        """Write what waits, and close the journal. Blocks."""
        self._database.close()

    def _appending(
        self,
        kind: str,
        body: Mapping[str, Any],
        invocation: str,
        blobs: Mapping[str, bytes],
        opens: str = "",
        opens_again: bool = False,
        closes: str = "",
        outcome: Mapping[str, Any] | None = None,
    ) -> Callable[[Connection], Entry]:
        data = {name: self._without_secrets(data) for name, data in blobs.items()}
        digests = {name: hashlib.sha256(one).hexdigest() for name, one in data.items()}
        text, remembered = self._text({**body, **digests}), self._text(outcome or {})
        by_digest = {digest: data[name] for name, digest in digests.items()}

        def work(connection: Connection) -> Entry:
            entry = self._append(connection, kind, invocation, text, by_digest)
            if opens:
                _open_key(connection, opens, entry.seq, opens_again)
            if closes:
                ended = update(KEYS).where(KEYS.c.key == closes.partition(":")[0]).values(outcome=remembered)
                connection.execute(ended)
            return entry

        return work

    def _append(
        self, connection: Connection, kind: str, invocation: str, text: str, blobs: Mapping[str, bytes]
    ) -> Entry:
        if connection.dialect.name == "postgresql":
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
        seq, previous = _last(connection)
        seq, now = seq + 1, time.time_ns() // 1000
        digest = _digest(seq, now, kind, invocation, text, previous)
        row = {"seq": seq, "time": now, "kind": kind, "invocation": invocation, "body": text}
        connection.execute(insert(ENTRIES), row | {"previous": previous, "hash": digest})
        for name, data in blobs.items():
            known = connection.execute(update(BLOBS).where(BLOBS.c.digest == name).values(used=seq)).rowcount
            if not known:
                connection.execute(insert(BLOBS), {"digest": name, "data": data, "used": seq})
        if isinstance(self._key, Ed25519PrivateKey):
            connection.execute(delete(HEADS))
            signature = self._key.sign(_signed_text(seq, digest))
            connection.execute(insert(HEADS), {"id": _HEAD, "seq": seq, "hash": digest, "signature": signature})
        return Entry(seq, now, kind, invocation, json.loads(text), previous, digest)

    def _text(self, body: Mapping[str, Any]) -> str:
        try:
            text = json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidValue(f"an entry of the journal is JSON data: {error}") from None
        for value in self._hidden:
            text = text.replace(json.dumps(value)[1:-1], _HIDDEN)
        return text

    def _without_secrets(self, data: bytes) -> bytes:
        for value in self._hidden:
            data = data.replace(value.encode(), _HIDDEN.encode())
        return data

    def _verified(self, connection: Connection) -> Verification:
        anchor = connection.execute(select(ANCHORS.c.seq, ANCHORS.c.hash).order_by(ANCHORS.c.seq.desc())).first()
        check = _Check(*(anchor or (0, FIRST)))
        count, trims = 0, []
        for row in _rows(connection, 0):
            check.entry(*row)
            count += 1
            if row.kind == "trim":
                said = json.loads(row.body)
                trims.append((said.get("last"), said.get("hash")))
        if anchor is not None and tuple(anchor) not in trims:
            check.problem(f"the entries up to {anchor.seq} are gone, and no entry says that they were removed")
        for digest, data in connection.execute(select(BLOBS.c.digest, BLOBS.c.data)):
            if hashlib.sha256(data).hexdigest() != digest:
                check.problem(f"the blob {digest[:12]} was changed")
        signed = self._is_signed(connection, check)
        return Verification(count, tuple(check.problems), signed)

    def _is_signed(self, connection: Connection, check: _Check) -> bool:
        """Return whether a head vouches for the last entry; add a problem if one should and does not."""
        head = connection.execute(select(HEADS.c.seq, HEADS.c.hash, HEADS.c.signature)).first()
        if self._key is None:
            return False
        if head is None:
            if check.seq:
                check.problem("the signed head is missing")
            return False
        public = self._key.public_key() if isinstance(self._key, Ed25519PrivateKey) else self._key
        try:
            public.verify(head.signature, _signed_text(head.seq, head.hash))
        except InvalidSignature:
            check.problem("the head is not signed by this key")
            return False
        if (head.seq, head.hash) != (check.seq, check.hash):
            check.problem(f"the head was signed at entry {head.seq}, but the last entry is {check.seq}")
            return False
        return True

    def _trimmed(self, connection: Connection, before: float, into: str | os.PathLike[str] | None) -> int:
        seq, _ = _last(connection)
        cut = connection.execute(
            select(func.max(ENTRIES.c.seq)).where(ENTRIES.c.time < int(before * 1e6), ENTRIES.c.seq < seq)
        ).scalar()
        if cut is None:
            return 0
        if into is not None:
            _write_lines(connection, Path(into), 0, cut)
        last = connection.execute(select(ENTRIES.c.hash).where(ENTRIES.c.seq == cut)).scalar_one()
        connection.execute(insert(ANCHORS), {"seq": cut, "hash": last})
        removed = connection.execute(delete(ENTRIES).where(ENTRIES.c.seq <= cut)).rowcount
        connection.execute(delete(BLOBS).where(BLOBS.c.used <= cut))
        self._append(connection, "trim", "", self._text({"last": cut, "hash": last, "removed": removed}), {})
        return removed


def verify_lines(path: str | os.PathLike[str]) -> Verification:
    """Verify a file that `export` or `trim` has written. Raises `OSError`."""
    check: _Check | None = None
    count = 0
    with open(path, encoding="utf-8") as lines:
        for count, line in enumerate(lines, 1):
            try:
                said = json.loads(line)
                text = json.dumps(said["body"], sort_keys=True, separators=(",", ":"))
                row = (
                    said["seq"],
                    said["time"],
                    said["kind"],
                    said["invocation"],
                    text,
                    said["previous"],
                    said["hash"],
                )
            except (ValueError, KeyError, TypeError):
                return Verification(count, (*(check.problems if check else ()), f"line {count} is no entry"))
            check = check or _Check(row[0] - 1, row[5])
            check.entry(*row)
    return Verification(count, tuple(check.problems) if check else ())


def _open_key(connection: Connection, key: str, seq: int, again: bool) -> None:
    """Mark an idempotency key as begun. Raises `InvalidValue` for one that is, unless it may begin again."""
    name, _, request = key.partition(":")
    known = connection.execute(select(KEYS.c.request, KEYS.c.outcome).where(KEYS.c.key == name)).first()
    if known is None:
        connection.execute(insert(KEYS), {"key": name, "request": request, "seq": seq})
    elif not again or known.request != request or known.outcome is not None:
        raise InvalidValue("another invocation has begun with the same idempotency key")
    else:
        connection.execute(update(KEYS).where(KEYS.c.key == name).values(seq=seq))


class _Check:
    """A walk along the chain, which knows the last entry that it has seen."""

    def __init__(self, seq: int, digest: str) -> None:
        self.seq, self.hash = seq, digest
        self.problems: list[str] = []

    def entry(self, seq: int, when: int, kind: str, invocation: str, text: str, previous: str, digest: str) -> None:
        if seq != self.seq + 1:
            self.problem(f"after entry {self.seq} comes entry {seq}")
        elif previous != self.hash:
            self.problem(f"entry {seq} does not follow from the one before it")
        if _digest(seq, when, kind, invocation, text, previous) != digest:
            self.problem(f"entry {seq} was changed")
        self.seq, self.hash = seq, digest

    def problem(self, text: str) -> None:
        if len(self.problems) < _MOST_PROBLEMS:
            self.problems.append(text)


def _digest(seq: int, when: int, kind: str, invocation: str, text: str, previous: str) -> str:
    head = json.dumps([seq, when, kind, invocation, previous])
    return hashlib.sha256(f"{head}\n{text}".encode()).hexdigest()


def _signed_text(seq: int, digest: str) -> bytes:
    return f"actbox journal head {seq} {digest}".encode()


def _last(connection: Connection) -> tuple[int, str]:
    for table in (ENTRIES, ANCHORS):
        found = connection.execute(select(table.c.seq, table.c.hash).order_by(table.c.seq.desc()).limit(1)).first()
        if found is not None:
            return found.seq, found.hash
    return 0, FIRST


def _rows(connection: Connection, after: int, last: int | None = None) -> Iterator[Any]:
    query = select(ENTRIES).where(ENTRIES.c.seq > after).order_by(ENTRIES.c.seq)
    if last is not None:
        query = query.where(ENTRIES.c.seq <= last)
    return iter(connection.execute(query.execution_options(yield_per=_AT_ONCE)))


def _read(connection: Connection, *, after: int, invocation: str | None) -> list[Entry]:
    query = select(ENTRIES).where(ENTRIES.c.seq > after).order_by(ENTRIES.c.seq).limit(_AT_ONCE)
    if invocation is not None:
        query = query.where(ENTRIES.c.invocation == invocation)
    return [_entry(row) for row in connection.execute(query)]


def _entry(row: Any) -> Entry:
    return Entry(row.seq, row.time, row.kind, row.invocation, json.loads(row.body), row.previous, row.hash)


def _write_lines(connection: Connection, path: Path, after: int, last: int | None = None) -> int:
    count = 0
    try:
        with open(path, "x", encoding="utf-8") as file:
            for row in _rows(connection, after, last):
                file.write(json.dumps(_entry(row).to_dict()) + "\n")
                count += 1
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror}") from None
    return count


def _key(path: Path, *, may_make: bool) -> Ed25519PrivateKey | Ed25519PublicKey:
    """Return the key in a file; make one that only this user can read if there is no file. Raises `InvalidValue`."""
    try:
        if may_make and not path.exists():
            made = Ed25519PrivateKey.generate()
            text = made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(text)
        text = path.read_bytes()
        key = load_pem_private_key(text, None) if b"PRIVATE KEY" in text else load_pem_public_key(text)
    except OSError as error:
        raise InvalidValue(f"the journal's key {path} cannot be used: {error.strerror}") from None
    except (ValueError, TypeError) as error:
        raise InvalidValue(f"the journal's key {path} is no key in PEM form: {error}") from None
    if not isinstance(key, (Ed25519PrivateKey, Ed25519PublicKey)):
        raise InvalidValue(f"the journal's key {path} is no Ed25519 key")
    return key
