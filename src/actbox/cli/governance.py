"""`actbox approvals`: the questions about governed capabilities that wait for an answer."""

from __future__ import annotations

import asyncio
import getpass
import json
import os
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from actbox.content.safe_text import spelt_out

from .errors import UsageError

if TYPE_CHECKING:
    from actbox.capabilities.approvals import Approval, Approvals

VARIABLE = "ACTBOX_DATABASE"
"""The environment variable that names the database where `--database` does not."""
_MICRO = 1_000_000


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


def database_address(given: str) -> str:
    """Return the address of a database that is there already: the one that is given, else that of the variable.

    Raises `UsageError`.
    """
    address = given or os.environ.get(VARIABLE, "")
    if not address:
        raise UsageError("no database is named", f"--database sqlite:///path, or the variable {VARIABLE}")
    path = address.removeprefix("sqlite:///")
    if path != address and not Path(path).is_file():
        raise UsageError(f"there is no database {path}", "name the file that the registry writes to")
    return address


class _Opened:
    """The approvals of a database that is there already, for a block."""

    def __init__(self, database: str) -> None:
        self._address = database_address(database)

    def __enter__(self) -> Approvals:
        from actbox.capabilities import Approvals

        self._open = Approvals.open(self._address)
        return self._open

    def __exit__(self, *error: object) -> None:
        self._open.close()


def _line(one: Approval) -> str:
    who = f" by {one.decided_by}" if one.decided_by else ""
    scope = f" ({one.scope})" if one.scope else ""
    arguments = spelt_out(json.dumps(one.shown["arguments"]))[:200]
    return f"{one.id}  {one.state}{scope}{who}  {local_time(one.created)}  {one.capability} {one.version}  {arguments}"


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


def local_time(micro: int) -> str:
    """Return a time in microseconds since 1970 as people here read it."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(micro / _MICRO))
