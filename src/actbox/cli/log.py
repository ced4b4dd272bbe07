"""`actbox log`: the journal of governed capabilities, shown, followed, verified, exported and trimmed."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from actbox.content.safe_text import spelt_out

from .approvals import database_address, local_time
from .errors import BROKEN_PIPE, UsageError
from .output import print_document, print_text

if TYPE_CHECKING:
    from actbox.capabilities.journal import Entry, Journal, JournalVerification

Form = Literal["text", "json"]

_LOOK_EVERY: Final = 0.5
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_DIGITS: Final = 12
"""The digits of a digest that people are shown."""


def show_log(database: str, form: str, *, since: str, blobs: bool, **filters: Any) -> int:
    """Print the entries that all filters let through, oldest first; parameters are those of `Journal.entries`."""
    start = None if not since else time_of(since)
    given = {name: value for name, value in filters.items() if value}

    async def show(journal: Journal) -> int:
        return await _print_all(journal, journal.entries(since=start, **given), _form(form), blobs=blobs)

    return with_journal(database, show)


def tail_log(database: str, form: str, *, lines: int, follow: bool) -> int:
    """Print the last entries, and with `follow` new ones as they come, until it is interrupted."""

    async def tail(journal: Journal) -> int:
        after = max(0, await journal.last() - max(0, lines))
        while True:
            newest = await journal.last()
            if code := await _print_all(journal, journal.entries(after=after), _form(form), until=newest):
                return code
            if not follow:
                return 0
            after = max(after, newest)
            await asyncio.sleep(_LOOK_EVERY)

    return with_journal(database, tail)


def verify_log(database: str, *, key: Path | None, files: tuple[Path, ...], expect: str) -> int:
    """Verify the journal, or exported files in their order; return 1 if something is wrong, else 0."""
    from actbox.capabilities.journal import verify_lines

    if files:
        return _print_verification(verify_lines(*files, key=key, expect=expect), key)

    async def verify(journal: Journal) -> int:
        return _print_verification(await journal.verify(expect=expect), key)

    return with_journal(database, verify, key=key)


def export_log(database: str, file: Path, *, after: int, blobs: bool) -> int:
    """Write entries of the journal to a new file, one JSON object a line."""

    async def export(journal: Journal) -> int:
        print(f"{await journal.export(file, after=after, blobs=blobs)} entries written to {file}")
        return 0

    return with_journal(database, export)


def trim_log(database: str, *, before: str, into: Path | None, key: Path | None) -> int:
    """Remove old entries from the journal, after writing them to a new file if one is given."""
    limit = time_of(before)

    async def trim(journal: Journal) -> int:
        removed = await journal.trim(before=limit, into=into)
        print(f"{removed} entries removed" + (f", and written to {into}" if into is not None and removed else ""))
        return 0

    if key is not None and not key.is_file():
        raise UsageError(f"there is no key {key}", "name the key that the registry signs with")
    return with_journal(database, trim, key=key, read_only=False)


def with_journal(
    database: str, work: Callable[[Journal], Awaitable[int]], *, key: Path | None = None, read_only: bool = True
) -> int:
    """Return the exit code of work on the journal of a database that is there already."""
    from actbox.capabilities import Journal

    journal = Journal.open(database_address(database), key, read_only=read_only)

    async def run() -> int:
        return await work(journal)

    try:
        return asyncio.run(run())
    finally:
        journal.close()


async def _print_all(
    journal: Journal, entries: AsyncIterator[Entry], form: Form, *, until: int | None = None, blobs: bool = False
) -> int:
    """Print entries; return the exit code for a reader that has closed the pipe, else 0."""
    async with aclosing(entries):  # type: ignore[type-var]  # it is a generator
        async for entry in entries:
            if until is not None and entry.seq > until:
                break
            if form == "json":
                is_printed = print_document(entry.to_dict())
            else:
                more = (
                    [_blob(name, await journal.blob(digest)) for name, digest in entry.blobs.items()] if blobs else []
                )
                is_printed = print_text("\n".join((_line(entry), *more)) + "\n")
            if not is_printed:
                return BROKEN_PIPE
    return 0


def _line(entry: Entry) -> str:
    body = {name: value for name, value in entry.body.items() if name != "blobs" and value not in ("", [], {})}
    first = [str(body.pop(name)) for name in ("capability", "version", "caller") if name in body]
    for name in {*entry.blobs, "key"} & {*body}:
        body[name] = str(body[name])[:_DIGITS]
    said = "  ".join((entry.kind, entry.invocation, *first, json.dumps(body, ensure_ascii=False)))
    return f"{entry.seq}  {local_time(entry.time)}  {spelt_out(said)}"


def _blob(name: str, data: bytes | None) -> str:
    if data is None:
        return f"    {spelt_out(name)}: it is not kept any more"
    try:
        lines = data.decode().splitlines() or [""]
    except UnicodeDecodeError:
        lines = [f"{len(data):,} bytes, no text"]
    return "\n".join(f"    {spelt_out(name)}: {spelt_out(line)}" for line in lines)


def _print_verification(found: JournalVerification, key: Path | None) -> int:
    for problem in found.problems:
        print(spelt_out(problem))
    which = f"entries {found.first} to {found.head.partition(':')[0]}" if found.entries else "no entries"
    verdict = "nothing is wrong" if found.ok else "something is wrong"
    tail = "its key vouches for the last one" if found.signed else "no key vouches for the last one"
    print(f"{which}: {verdict}; {tail}" + ("" if key is not None else " (--key PATH)"))
    if found.head and found.ok:
        print(f"head {found.head}")
    return 0 if found.ok else 1


def _form(form: str) -> Form:
    if form == "text":
        return "text"
    if form == "json":
        return "json"
    raise UsageError(f"there is no format {form!r}", "--format text, or json")


def time_of(given: str) -> float:
    """Return a time in seconds since 1970: a date, with or without a time of day, or how long ago it was."""
    if ago := re.fullmatch(r"(\d{1,9})([smhd])", given):
        return time.time() - int(ago[1]) * _UNITS[ago[2]]
    try:
        return datetime.fromisoformat(given).timestamp()
    except (ValueError, OverflowError):
        raise UsageError(f"{given!r} is no time", "such as 2026-11-29, 2026-11-29T10:30, 12h or 30d") from None
