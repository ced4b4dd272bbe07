"""The journal: an append-only audit trail, each entry chained to the one before it by its hash.

An entry that was appended is on disk, in order, in a database that several processes may share. A key makes the
journal sign its head, the number and hash of its last entry, so that a tail that was cut off is noticed too: by
`verify`, and by the next entry, which is refused. `journal_chain` says whom that stops, and whom not.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from sqlalchemy import ColumnElement, Connection, delete, func, insert, select, update

from actbox.core.errors import InvalidValue
from actbox.core.secrets import Secret
from actbox.sandbox.blocking import run_blocking
from actbox.sandbox.egress.redaction import Spellings

from .canonical_json import canonical
from .database import Database, Statement, StoreError
from .journal_chain import BLOBS_FIELD, FIRST, Chain, Entry, JournalVerification, blobs_of, hash_of, is_blob
from .journal_export import Seal, verify_lines, write_lines
from .journal_signing import Key, is_signed, read_key, sign
from .journal_tables import ANCHORS, BLOBS, ENTRIES, HEADS, KEYS, SCHEMA_VERSION, TABLES

__all__ = ["Entry", "Journal", "JournalVerification", "Remembered", "verify_lines"]

_AT_ONCE: Final = 5_000
_LOCK: Final = 0x616374626F79  # any number that others will not take
_MICRO: Final = 1_000_000
_PREFIX: Final = "ccos."
_LARGE_BYTES: Final = 256 * 1024
"""Blobs above this size are hashed, and searched for secrets, in a thread."""
_TAIL: Final = Statement(
    "SELECT e.seq, e.hash, h.seq, h.hash, h.signature FROM journal_entries e LEFT JOIN journal_heads h ON h.id = 1"
    " ORDER BY e.seq DESC LIMIT 1"
)
_ADD_ENTRY: Final = Statement(
    "INSERT INTO journal_entries (seq, time, kind, invocation, body, previous, hash)"
    " VALUES (:seq, :time, :kind, :invocation, :body, :previous, :hash)"
)
_KEEP_BLOB: Final = Statement(
    "INSERT INTO journal_blobs (digest, data, used) VALUES (:digest, :data, :used)"
    " ON CONFLICT (digest) DO UPDATE SET used = excluded.used"
)
_KEEP_HEAD: Final = Statement(
    "INSERT INTO journal_heads (id, seq, hash, signature) VALUES (1, :seq, :hash, :signature)"
    " ON CONFLICT (id) DO UPDATE SET seq = excluded.seq, hash = excluded.hash, signature = excluded.signature"
)
_HeadRow = tuple[int, str, bytes]


@dataclass(frozen=True, slots=True)
class Remembered:
    """The state of an idempotency key; all `False` and `None` for a key that the journal has not seen."""

    is_open: bool = False
    """True if an invocation with it has begun, and none has ended."""
    is_other: bool = False
    """True if it belongs to another request."""
    outcome: Mapping[str, Any] | None = None
    """The outcome of the invocation that has ended."""
    seq: int = 0
    """The number of its last entry."""


class Journal:
    """An open journal. Close it with `close()`."""

    def __init__(self, database: Database, key: Key | None) -> None:
        """Use `Journal.open`."""
        self._database = database
        self._key = key
        self._secrets: tuple[Secret, ...] = ()
        self._spellings: Spellings | None = None
        # Of the writer's thread alone:
        self._tail = (0, FIRST)
        self._seen = 0
        self._signed: _HeadRow | None = None

    @classmethod
    def open(
        cls,
        address: str,
        key: str | os.PathLike[str] | None = None,
        *,
        secrets: Iterable[Secret] = (),
        read_only: bool = False,
    ) -> Journal:
        """Open a journal in a database, `sqlite:///path` or `postgresql://…`; make it if need be. Blocks.

        `key` is the path of an Ed25519 key in PEM form, made for you if there is none there; a public key suffices to
        verify. A journal that a key has signed from its beginning takes entries only with that key. `secrets` are as
        for `hide`. Raises `InvalidValue`, and `StoreError` for a database that cannot be used.
        """
        database = Database.open(address, TABLES, part="journal", version=SCHEMA_VERSION, read_only=read_only)
        try:
            journal = cls(database, None if key is None else read_key(Path(key), may_make=not read_only))
            journal.hide(secrets)
            if not read_only:
                if isinstance(journal._key, Ed25519PublicKey):
                    raise InvalidValue(
                        f"{key} is a public key, which only verifies: open the journal with read_only=True"
                    )
                database.surround(journal._begin, journal._finish, journal._committed)
                database.write_now(lambda connection: None)  # a wrong key shows now
        except BaseException:
            database.close()
            raise
        return journal

    def hide(self, secrets: Iterable[Secret]) -> None:
        """Keep the values of secrets out of all later entries, blobs and remembered outcomes.

        `[secret NAME]` stands in the place of a value, unchanged or in a usual encoding such as base64.
        """
        self._secrets = tuple(dict.fromkeys((*self._secrets, *secrets)))
        self._spellings = Spellings(self._secrets) if self._secrets else None

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
        prepare = partial(self._appending, kind, body, invocation, blobs or {}, opens, opens_again, closes, outcome)
        is_large = sum(map(len, (blobs or {}).values())) > _LARGE_BYTES
        return await self._database.write(await run_blocking(prepare) if is_large else prepare())

    def append_now(
        self, kind: str, body: Mapping[str, Any], *, invocation: str = "", blobs: Mapping[str, bytes] | None = None
    ) -> Entry:
        """Do as `append`, for callers without an event loop. Blocks."""
        return self._database.write_now(self._appending(kind, body, invocation, blobs or {}))

    async def remembered(self, key: str) -> Remembered:
        """Return what is known of an idempotency key, `KEY:REQUEST` by two digests, as long as its entries are kept.

        Raises `StoreError` if the outcome was changed.
        """
        name, _, request = key.partition(":")
        query = select(KEYS.c.request, KEYS.c.seq, KEYS.c.outcome, BLOBS.c.data).where(KEYS.c.key == name)
        joined = query.select_from(KEYS.outerjoin(BLOBS, BLOBS.c.digest == KEYS.c.outcome))
        row = await self._database.read(lambda connection: connection.execute(joined).first())
        if row is None:
            return Remembered()
        if row.outcome is None:
            return Remembered(is_open=True, is_other=row.request != request)
        if not is_blob(row.outcome, row.data):
            raise StoreError("the journal's memory of this idempotency key was changed: verify the journal")
        return Remembered(is_other=row.request != request, outcome=json.loads(row.data), seq=row.seq)

    async def entries(
        self,
        *,
        after: int = 0,
        invocation: str | None = None,
        kind: str | None = None,
        capability: str | None = None,
        caller: str | None = None,
        since: float | None = None,
    ) -> AsyncIterator[Entry]:
        """Yield the entries with numbers above `after`, oldest first; only those with all that is given.

        A `capability` is found with and without `ccos.` before it. `since` is in seconds since 1970, by the time of the
        entries. Raises `StoreError` for an entry that cannot be read.
        """
        columns = {ENTRIES.c.invocation: invocation, ENTRIES.c.kind: kind}
        conditions = [column == value for column, value in columns.items() if value is not None]
        if since is not None:
            conditions.append(ENTRIES.c.time >= _micro(since))
        while found := await self._database.read(partial(_read, after=after, conditions=conditions)):
            for entry in found:
                if _is_about(entry, capability, caller):
                    yield entry
            after = found[-1].seq

    async def last(self) -> int:
        """Return the number of the last entry, 0 if there is none."""
        seq = (await self._database.read(_last))[0]
        if type(seq) is not int:
            raise StoreError(f"the last entry of the journal has the number {seq!r}: verify the journal")
        return seq

    async def blob(self, digest: str) -> bytes | None:
        """Return a blob by its hash, `None` if the journal has it no more."""
        query = select(BLOBS.c.data).where(BLOBS.c.digest == digest)
        found: bytes | None = await self._database.read(lambda connection: connection.execute(query).scalar())
        return found

    async def verify(self, *, expect: str = "") -> JournalVerification:
        """Read all of the journal, and say what was changed, dropped, swapped or cut off.

        `expect` is the `head` of an entry or an earlier verification that was kept elsewhere: the journal must still
        have that entry. Raises `InvalidValue` for another form of it.
        """
        return await self._database.read(lambda connection: self._verified(connection, expect))

    async def export(self, path: str | os.PathLike[str], *, after: int = 0, blobs: bool = False) -> int:
        """Write the entries with numbers above `after` to a new file, one JSON object a line; return how many.

        The signed head follows them, with `blobs` after their blobs. `verify_lines` verifies such a file.
        """
        return await self._database.read(lambda connection: _export(connection, Path(path), after, blobs))

    async def trim(self, *, before: float, into: str | os.PathLike[str] | None = None) -> int:
        """Remove the entries from before a time (seconds since 1970), and their blobs; return how many entries.

        The first entry from that time or later, and all after it, stay, whatever their times, and so does the newest.
        The last of those that are removed stays as the anchor of the chain, and an entry says so. The outcomes of
        idempotency keys that were remembered by these entries are forgotten.

        `into` is a new file that gets them first, in the form of `export` with blobs, signed if the journal has its
        key.
        """
        limit = _micro(before)
        return await self._database.write(lambda connection: self._trimmed(connection, limit, into))

    def close(self) -> None:
        """Write what waits, and close the journal. Blocks."""
        self._database.close()

    def _begin(self, connection: Connection) -> None:
        """Begin a transaction: keep other writers out, and find the tail of the chain. Raises `StoreError`."""
        if connection.dialect.name == "postgresql":
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
        tail, head = _tail(connection)
        if head is not None and self._key is None:
            raise StoreError("the journal is signed; it takes entries only with its key")
        if head is None and self._key is not None and tail[0]:
            raise StoreError("the journal has entries and no signed head; keep it, and begin another with this key")
        if (
            head is not None
            and self._key is not None
            and head != self._signed
            and not is_signed(self._key, "head", *head)
        ):
            raise StoreError("the journal's head is not signed by this key; keep the journal, and begin another")
        if (head is not None and head[:2] != tail) or type(tail[0]) is not int or tail[0] < self._seen:
            most = max(self._seen, head[0] if head is not None else 0)
            raise StoreError(
                f"the journal's tail was changed: it had entry {most}, and now ends with entry {tail[0]}; nothing is"
                " added to it: verify it, keep it, and begin another"
            )
        self._tail, self._seen, self._signed = tail, tail[0], head

    def _finish(self, connection: Connection) -> None:
        """End a transaction: sign the tail, if it is another than before, or the journal is new."""
        seq, digest = self._tail
        if not isinstance(self._key, Ed25519PrivateKey) or (seq == self._seen and self._signed is not None):
            return
        signature = sign(self._key, "head", seq, digest)
        _KEEP_HEAD.execute(connection, {"seq": seq, "hash": digest, "signature": signature})
        self._signed = (seq, digest, signature)

    def _committed(self) -> None:
        self._seen = self._tail[0]

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
        fields = {**body, **({"key": opens or closes} if opens or closes else {})}
        data = {name: self._without_secrets(one) for name, one in blobs.items()}
        if closes:
            data["outcome"] = self._text(outcome or {}).encode()
        if taken := {BLOBS_FIELD, *data} & {*fields}:
            raise InvalidValue(f"an entry's field {min(taken)!r} is the journal's own, or that of a blob")
        digests = {name: hashlib.sha256(one).hexdigest() for name, one in data.items()}
        said = self._text({**fields, **digests, **({BLOBS_FIELD: sorted(digests)} if digests else {})})
        by_digest = {digest: data[name] for name, digest in digests.items()}

        def work(connection: Connection) -> Entry:
            seq = self._tail[0] + 1
            if opens:
                _open_key(connection, opens, seq, opens_again)
            if closes:
                change = {"seq": seq, "outcome": digests["outcome"]}
                connection.execute(update(KEYS).where(KEYS.c.key == closes.partition(":")[0]).values(change))
            return self._append(connection, kind, invocation, said, by_digest)

        return work

    def _append(
        self, connection: Connection, kind: str, invocation: str, said: str, blobs: Mapping[str, bytes]
    ) -> Entry:
        """Add an entry to the tail; `said` is its body as canonical JSON."""
        seq, previous = self._tail[0] + 1, self._tail[1]
        now = time.time_ns() // 1000
        digest = hash_of(seq, now, kind, invocation, said, previous)
        row = {"seq": seq, "time": now, "kind": kind, "invocation": invocation, "body": said}
        _ADD_ENTRY.execute(connection, row | {"previous": previous, "hash": digest})
        for name, data in blobs.items():
            _KEEP_BLOB.execute(connection, {"digest": name, "data": data, "used": seq})
        entry = Entry(seq, now, kind, invocation, json.loads(said), previous, digest)
        self._tail = (seq, digest)  # last, so that an entry that was not written is none
        return entry

    def _text(self, body: Mapping[str, Any]) -> str:
        said = canonical(body, "the entry")
        if self._spellings is None or self._without_secrets(said.encode()) == said.encode():
            return said
        return canonical(self._cleaned(json.loads(said)))

    def _cleaned(self, data: Any) -> Any:
        """Return JSON data without the values of secrets, in keys and numbers neither."""
        if isinstance(data, dict):
            return {self._cleaned(name): self._cleaned(value) for name, value in data.items()}
        if isinstance(data, list):
            return [self._cleaned(one) for one in data]
        if data is None or isinstance(data, bool):
            return data
        own = (data if isinstance(data, str) else json.dumps(data)).encode("utf-8", "surrogatepass")
        clean = self._without_secrets(own)
        return data if clean == own else clean.decode("utf-8", "replace")

    def _without_secrets(self, data: bytes) -> bytes:
        return data if self._spellings is None else self._spellings.redact(data)

    def _verified(self, connection: Connection, expect: str) -> JournalVerification:
        anchor = connection.execute(select(ANCHORS.c.seq, ANCHORS.c.hash).order_by(ANCHORS.c.seq.desc())).first()
        chain = Chain((anchor.seq, anchor.hash) if anchor is not None else (0, FIRST), expect)
        trims = []
        for rows in connection.execute(_rows(0).execution_options(yield_per=_AT_ONCE)).partitions():
            blobs: dict[str, int] = {}
            keys: dict[str, bool] = {}
            for row in rows:
                chain.entry(row)
                seq, _, kind, _, said, _, _ = row
                try:
                    if kind == "trim":
                        about = json.loads(said)
                        trims.append((about["last"], about["hash"]))
                    elif _HAS_BLOBS in said:
                        body = _parse(said)[0]
                        for digest in blobs_of(body).values():
                            blobs[str(digest)] = seq
                        key = body.get("key")
                        if isinstance(key, str) and len(key) == _KEY_LENGTH and kind in ("begun", "ended"):
                            keys[key] = kind == "ended" or keys.get(key, False)
                except (ValueError, TypeError, KeyError, AttributeError):
                    chain.unreadable(seq)
            present = connection.execute(select(BLOBS.c.digest).where(BLOBS.c.digest.in_(blobs))) if blobs else ()
            for digest in blobs.keys() - {one.digest for one in present}:
                chain.problem(f"entry {blobs[digest]} has the blob {digest[:12]}, which is gone")
            _check_remembered(connection, chain, keys)
        if anchor is not None and tuple(anchor) not in trims:
            chain.problem(f"the entries up to {anchor.seq} are gone, and no entry says that they were removed")
        for digest, data in connection.execute(_BLOBS_WHOLE):
            if not is_blob(digest, data):
                chain.problem(f"the blob {str(digest)[:12]} was changed")
        _check_keys(connection, chain)
        head, signed = _head(connection), False
        if self._key is not None and head is not None:
            signed = chain.signature(head[0], head[1], is_signed(self._key, "head", *head))
        elif self._key is not None:
            chain.problem("the signed head is missing")
        return chain.result(signed)

    def _trimmed(self, connection: Connection, limit: int, into: str | os.PathLike[str] | None) -> int:
        kept = select(func.min(ENTRIES.c.seq)).where(ENTRIES.c.time >= limit)
        cut = min(connection.execute(kept).scalar() or math.inf, self._tail[0]) - 1
        row = connection.execute(select(ENTRIES.c.seq, ENTRIES.c.hash).where(ENTRIES.c.seq == cut)).first()
        if row is None:
            return 0
        if into is not None:
            key = self._key if isinstance(self._key, Ed25519PrivateKey) else None
            seal: Seal | None = None if key is None else ("archive", *row, sign(key, "archive", *row))
            write_lines(Path(into), _entries(connection, 0, row.seq), _blobs(connection, 0, row.seq), seal)
        connection.execute(delete(ANCHORS))
        connection.execute(insert(ANCHORS), {"seq": row.seq, "hash": row.hash})
        removed = connection.execute(delete(ENTRIES).where(ENTRIES.c.seq <= row.seq)).rowcount
        connection.execute(delete(BLOBS).where(BLOBS.c.used <= row.seq))
        connection.execute(delete(KEYS).where(KEYS.c.seq <= row.seq, KEYS.c.outcome.is_not(None)))
        said = canonical({"last": row.seq, "hash": row.hash, "removed": removed})
        self._append(connection, "trim", "", said, {})
        return removed


_KEY_LENGTH: Final = 129
"""The length of an idempotency key, two digests with a colon between them."""
_HAS_BLOBS: Final = f'"{BLOBS_FIELD}":['
_parse: Final = json.JSONDecoder().raw_decode  # half the time of `json.loads`, for each entry of a journal
_BLOBS_WHOLE: Final = select(BLOBS.c.digest, BLOBS.c.data).execution_options(yield_per=100)


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


def _check_remembered(connection: Connection, chain: Chain, keys: Mapping[str, bool]) -> None:
    """Add a problem for each idempotency key of some entries that is not remembered any more, with its outcome if it
    has ended; it would run again.
    """
    if not keys:
        return
    names = [key.partition(":")[0] for key in keys]
    query = select(KEYS.c.key, KEYS.c.request, KEYS.c.outcome).where(KEYS.c.key.in_(names))
    known = {f"{row.key}:{row.request}": row.outcome is not None for row in connection.execute(query)}
    for key, has_ended in keys.items():
        if key not in known or (has_ended and not known[key]):
            chain.problem(f"the idempotency key {key[:12]} was forgotten")


def _check_keys(connection: Connection, chain: Chain) -> None:
    """Add a problem for each idempotency key that has another outcome than the entry that has ended it."""
    query = select(KEYS.c.key, KEYS.c.request, KEYS.c.outcome, ENTRIES.c.body)
    both = query.select_from(KEYS.outerjoin(ENTRIES, ENTRIES.c.seq == KEYS.c.seq)).where(KEYS.c.outcome.is_not(None))
    for row in connection.execute(both.execution_options(yield_per=_AT_ONCE)):
        try:
            said = json.loads(row.body)
            is_same = (said["key"], said["outcome"]) == (f"{row.key}:{row.request}", row.outcome)
        except (ValueError, TypeError, KeyError):
            is_same = False
        if not is_same:
            chain.problem(f"the idempotency key {str(row.key)[:12]} was changed")


def _last(connection: Connection) -> tuple[int, str]:
    """Return the number and hash of the last entry, also if it is only an anchor any more."""
    for table in (ENTRIES, ANCHORS):
        found = connection.execute(select(table.c.seq, table.c.hash).order_by(table.c.seq.desc()).limit(1)).first()
        if found is not None:
            return found.seq, found.hash
    return 0, FIRST


def _tail(connection: Connection) -> tuple[tuple[int, str], _HeadRow | None]:
    """Return the number and hash of the last entry, and the signed head."""
    found = _TAIL.execute(connection).fetchone()
    if found is None:
        return _last(connection), _head(connection)
    seq, digest, *head = found
    return (seq, digest), (head[0], head[1], head[2]) if head[0] is not None else None


def _head(connection: Connection) -> _HeadRow | None:
    found = connection.execute(select(HEADS.c.seq, HEADS.c.hash, HEADS.c.signature)).first()
    return None if found is None else (found.seq, found.hash, found.signature)


def _rows(after: int, last: int | None = None) -> Any:
    query = select(ENTRIES).where(ENTRIES.c.seq > after).order_by(ENTRIES.c.seq)
    return query if last is None else query.where(ENTRIES.c.seq <= last)


def _entries(connection: Connection, after: int, last: int | None = None) -> Iterator[Entry]:
    with connection.execute(_rows(after, last).execution_options(yield_per=_AT_ONCE)) as rows:
        yield from map(_entry, rows)


def _blobs(connection: Connection, after: int, last: int | None = None) -> Iterator[tuple[str, bytes]]:
    """Yield the blobs that an entry after one, and none after another, has."""
    query = _BLOBS_WHOLE.where(BLOBS.c.used > after)
    with connection.execute(query if last is None else query.where(BLOBS.c.used <= last)) as rows:
        for row in rows:
            yield row.digest, row.data


def _read(connection: Connection, *, after: int, conditions: Iterable[ColumnElement[bool]]) -> list[Entry]:
    return [_entry(row) for row in connection.execute(_rows(after).where(*conditions).limit(_AT_ONCE))]


def _entry(row: Any) -> Entry:
    try:
        body = json.loads(row.body)
        if not isinstance(body, dict) or (type(row.seq), type(row.time)) != (int, int):
            raise TypeError
    except (ValueError, TypeError, RecursionError):
        raise StoreError(f"entry {row.seq!r} of the journal cannot be read: verify the journal") from None
    return Entry(row.seq, row.time, row.kind, row.invocation, body, row.previous, row.hash)


def _is_about(entry: Entry, capability: str | None, caller: str | None) -> bool:
    if caller is not None and entry.body.get("caller") != caller:
        return False
    named = str(entry.body.get("capability", "")).removeprefix(_PREFIX)
    return capability is None or named == capability.removeprefix(_PREFIX)


def _export(connection: Connection, path: Path, after: int, blobs: bool) -> int:
    head = _head(connection)
    seal: Seal | None = None if head is None or head[:2] != _last(connection) else ("head", *head)
    return write_lines(path, _entries(connection, after), _blobs(connection, after) if blobs else (), seal)


def _micro(seconds: float) -> int:
    """Return a time in microseconds. Raises `InvalidValue` for what is none."""
    try:
        return max(-(2**62), min(int(seconds * _MICRO), 2**62))
    except (TypeError, ValueError, OverflowError):
        raise InvalidValue(f"a time is a number of seconds since 1970, not {seconds!r}") from None
