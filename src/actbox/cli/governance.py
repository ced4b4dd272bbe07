"""`actbox approvals` and `actbox log`: the questions that wait for an answer, and the journal of what was done."""

from __future__ import annotations

import asyncio
import getpass
import json
import os
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from actbox.content.safe_text import spelt_out

from .errors import UsageError

if TYPE_CHECKING:
    from actbox.capabilities.approvals import Approval, Approvals
    from actbox.capabilities.journal import Entry, Journal

VARIABLE = "ACTBOX_DATABASE"
"""The environment variable that names the database where `--database` does not."""
_MICRO = 1_000_000
_LOOK_EVERY = 1.0


def list_approvals(database: str, state: str) -> int:
    """Print the approvals in a state, the newest first; "" for all."""
    with _Opened(database) as approvals:
        for one in asyncio.run(approvals.list(state or None)):  # type: ignore[arg-type]  # it checks the state
            print(_line(one))
    return 0


def show_approval(database: str, id: str, form: str) -> int:
    """Print all that an approver is shown of one approval."""
    with _Opened(database) as approvals:
        found = asyncio.run(approvals.find(id))
    if form == "json":
        print(json.dumps(found.to_dict(), indent=1))
        return 0
    print(_line(found))
    for name, value in (("caller", found.caller), ("run", found.run), ("labels", found.labels), *found.shown.items()):
        text = value if isinstance(value, str) else json.dumps(value) if isinstance(value, (dict, list)) else str(value)
        if text:
            print(f"{name}: {spelt_out(text)}" if "\n" not in text else f"{name}:\n{spelt_out(text)}")
    return 0


def approve(
    database: str, id: str, *, by: str, scope: str, pattern: Sequence[str], reason: str, hours: float | None
) -> int:
    """Approve a question. Each of `pattern` is NAME=PATTERN."""
    until = None if hours is None else time.time() + hours * 3600
    with _Opened(database) as approvals:
        given = approvals.approve(
            id,
            by=by or getpass.getuser(),
            scope="pattern" if pattern else scope,  # type: ignore[arg-type]  # it checks the scope
            pattern=_patterns(pattern) or None,
            until=until,
            reason=reason,
            source=_source(),
        )
        print(_line(asyncio.run(given)))
    return 0


def deny(database: str, id: str, *, by: str, reason: str) -> int:
    """Refuse a question."""
    with _Opened(database) as approvals:
        print(_line(asyncio.run(approvals.deny(id, by=by or getpass.getuser(), reason=reason, source=_source()))))
    return 0


def revoke(database: str, id: str, *, by: str, reason: str) -> int:
    """Take an approval back."""
    with _Opened(database) as approvals:
        print(_line(asyncio.run(approvals.revoke(id, by=by or getpass.getuser(), reason=reason, source=_source()))))
    return 0


def show_log(database: str, *, invocation: str, after: int, form: str) -> int:
    """Print the entries of the journal, oldest first."""

    async def print_all(journal: Journal) -> None:
        async for entry in journal.entries(after=after, invocation=invocation or None):
            _print(entry, form)

    with _Opened(database, journal=True) as journal:
        asyncio.run(print_all(journal))
    return 0


def tail_log(database: str, *, form: str) -> int:
    """Print new entries of the journal as they come, until it is interrupted."""

    async def follow(journal: Journal) -> None:
        last = 0
        async for entry in journal.entries():
            last = entry.seq
        while True:
            async for entry in journal.entries(after=last):
                _print(entry, form)
                last = entry.seq
            await asyncio.sleep(_LOOK_EVERY)

    with _Opened(database, journal=True) as journal:
        try:
            asyncio.run(follow(journal))
        except KeyboardInterrupt:
            return 130
    return 0


def verify_log(database: str, *, key: Path | None, file: Path | None) -> int:
    """Verify the journal, or a file of exported entries; the exit code is 1 if something is wrong."""
    from actbox.capabilities.journal import verify_lines

    if file is not None:
        found = verify_lines(file)
    else:
        with _Opened(database, journal=True, key=key) as journal:
            found = asyncio.run(journal.verify())
    for problem in found.problems:
        print(problem)
    tail = "the signed head vouches for the last one" if found.signed else "no signed head vouches for the last one"
    print(f"{found.entries} entries, {'nothing is wrong' if found.ok else 'something is wrong'}; {tail}")
    return 0 if found.ok else 1


def export_log(database: str, file: Path, after: int) -> int:
    """Write entries of the journal to a new file, one JSON object a line."""
    with _Opened(database, journal=True) as journal:
        count = asyncio.run(journal.export(file, after=after))
    print(f"{count} entries written to {file}")
    return 0


class _Opened:
    """The approvals, or the journal, of a database that is there already, for a block."""

    def __init__(self, database: str, *, journal: bool = False, key: Path | None = None) -> None:
        self._address = database or os.environ.get(VARIABLE, "")
        self._journal, self._key = journal, key
        if not self._address:
            raise UsageError("no database is named", f"--database sqlite:///path, or the variable {VARIABLE}")

    def __enter__(self) -> Any:
        from actbox.capabilities import Approvals, Journal

        path = self._address.removeprefix("sqlite:///")
        if path != self._address and not Path(path).is_file():
            raise UsageError(f"there is no database {path}", "name the file that the registry writes to")
        self._open: Approvals | Journal = (
            Journal.open(self._address, key=self._key, read_only=True)
            if self._journal
            else Approvals.open(self._address)
        )
        return self._open

    def __exit__(self, *error: object) -> None:
        self._open.close()


def _line(one: Approval) -> str:
    who = f" by {one.decided_by}" if one.decided_by else ""
    scope = f" ({one.scope})" if one.scope else ""
    arguments = spelt_out(json.dumps(one.shown["arguments"]))[:200]
    return f"{one.id}  {one.state}{scope}{who}  {_when(one.created)}  {one.capability} {one.version}  {arguments}"


def _print(entry: Entry, form: str) -> None:
    if form == "json":
        print(json.dumps(entry.to_dict()), flush=True)
        return
    body = dict(entry.body)
    first = " ".join(str(body.pop(name, "")) for name in ("capability", "version", "caller")).strip()
    rest = spelt_out(json.dumps(body))
    print(f"{entry.seq}  {_when(entry.time)}  {entry.kind}  {entry.invocation}  {spelt_out(first)}  {rest}", flush=True)


def _patterns(given: Sequence[str]) -> Mapping[str, str]:
    found = {}
    for text in given:
        name, sign, pattern = text.partition("=")
        if not sign or not name:
            raise UsageError(f"--pattern {text!r} is not NAME=PATTERN", "such as --pattern 'path=reports/*'")
        found[name] = pattern
    return found


def _source() -> str:
    return f"command line on {socket.gethostname()}"


def _when(micro: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(micro / _MICRO))
