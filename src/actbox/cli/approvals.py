"""`actbox approvals`: the questions about governed capabilities that wait for an answer."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import json
import os
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from actbox.content.safe_text import spelt_out

from .errors import UsageError

if TYPE_CHECKING:
    from actbox.capabilities.approvals import Approval, Approvals

VARIABLE = "ACTBOX_DATABASE"
"""The environment variable that names the database where `--database` does not."""
_MICRO = 1_000_000
_MOST_LINE = 200
_MOST_HOURS = 1e6


def list_approvals(database: str, state: str, form: str) -> int:
    """Print the approvals in a state, the newest first; "" for all."""
    with _Opened(database, read_only=True) as approvals:
        for one in asyncio.run(approvals.list(cast(Any, state or None))):
            print(json.dumps(one.to_dict()) if form == "json" else _line(one))
    return 0


def show_approval(database: str, id: str, form: str) -> int:
    """Print all that an approver is shown of one approval."""
    from actbox.capabilities.approval_questions import coverage
    from actbox.capabilities.approval_view import parts

    with _Opened(database, read_only=True) as approvals:
        found = asyncio.run(approvals.find(id))
    if form == "json":
        print(json.dumps(found.to_dict(), indent=1))
        return 0
    print(_line(found))
    about = {"caller": found.caller, "run": found.run, "data": str(found.labels), "trouble": found.trouble}
    if found.decided_by:
        about["answered"] = f"by {found.decided_by}, {found.decided_from}"
        about["reason"] = found.reason
    if found.scope not in ("", "once"):
        about["covers"] = "; ".join(coverage(found, _ends(found)))
    for name, value in about.items():
        if value:
            print(f"{name}: {spelt_out(value)}")
    for part in parts(found):
        print(f"\n{spelt_out(part.title)}:")
        for line in part.lines:
            print(f"  {spelt_out(line)}")
    return 0


def approve(
    database: str,
    id: str,
    *,
    by: str,
    scope: str,
    pattern: Sequence[str],
    reason: str,
    hours: float | None,
    sure: bool,
) -> int:
    """Approve a question. Each of `pattern` is NAME=PATTERN.

    An approval for more than one call is printed in full first, and asks once more unless `sure`.
    """
    from actbox.capabilities.approval_questions import as_approved, coverage

    patterns = _patterns(pattern)
    scope = "pattern" if patterns else scope
    if hours is not None and not 0 < hours < _MOST_HOURS:
        raise UsageError(f"--hours is a number above 0, not {hours:g}", "such as --hours 8")
    with _Opened(database) as approvals:
        given = as_approved(asyncio.run(approvals.find(id)), scope, patterns)
        if scope != "once":
            ends = "" if hours is None else f"for {hours:g} hours"
            print("This approves", *map(spelt_out, coverage(given, ends)), sep="\n  ")
            if others := asyncio.run(approvals.also_covered(given)):
                print("and so also these that wait:", *map(_line, others), sep="\n  ")
            if not sure and not _agrees():
                return 1
        answer = approvals.approve(
            id,
            by=by or getpass.getuser(),
            scope=cast(Any, scope),
            pattern=patterns or None,
            until=None if hours is None else time.time() + hours * 3600,
            reason=reason,
            source=_source(),
        )
        print(_line(asyncio.run(answer)))
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


def serve(database: str, *, host: str, port: int, names: Sequence[str], cleared: str, token_file: Path | None) -> int:
    """Serve the approvers' page until it is interrupted, and print its address with the token."""
    import uvicorn

    from actbox.capabilities.approval_page import LOOPBACK, app, entrance, new_token

    is_loopback = host in ("127.0.0.1", "::1", "localhost")
    if not is_loopback and not names:
        raise UsageError(
            f"beyond loopback ({host}) the page is asked by a name that it has to know",
            "--name approvals.example.com; whoever reads the traffic can answer, so put it behind HTTPS",
        )
    token = new_token() if token_file is None else _token(token_file)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with _Opened(database) as approvals, socket.socket(family, socket.SOCK_STREAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, port))
        except OSError as error:
            raise UsageError(f"cannot listen on {host}, port {port}: {error.strerror}", "--port 0 takes any") from None
        page = app(approvals, token, hosts=(*LOOPBACK, *names), cleared=cleared or None)
        name = names[0] if names else f"[{host}]" if ":" in host else host
        listening.listen()
        print(entrance(f"http://{name}:{listening.getsockname()[1]}", token), flush=True)
        config = uvicorn.Config(page, log_level="warning", access_log=False, server_header=False)
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listening])
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

    def __init__(self, database: str, *, read_only: bool = False) -> None:
        self._address, self._read_only = database_address(database), read_only

    def __enter__(self) -> Approvals:
        from actbox.capabilities import Approvals

        self._open = Approvals.open(self._address, read_only=self._read_only)
        return self._open

    def __exit__(self, *error: object) -> None:
        self._open.close()


def _line(one: Approval) -> str:
    who = f" by {spelt_out(one.decided_by)}" if one.decided_by else ""
    scope = f" ({one.scope})" if one.scope else ""
    arguments = spelt_out(json.dumps(one.arguments, ensure_ascii=False))
    what = spelt_out(f"{one.capability} {one.version}")
    more = f" … and {len(arguments) - _MOST_LINE:,} characters more" if len(arguments) > _MOST_LINE else ""
    return f"{one.id}  {one.state}{scope}{who}  {local_time(one.created)}  {what}  {arguments[:_MOST_LINE]}{more}"


def _ends(one: Approval) -> str:
    return "" if one.expires is None else f"until {local_time(one.expires)}"


def _agrees() -> bool:
    if not sys.stdin.isatty():
        raise UsageError("an approval for more than one call asks once more, and nobody is at a terminal", "--yes")
    return input("Approve all this? [y/n] ").strip().lower() in ("y", "yes")


def _token(path: Path) -> str:
    """Return the token in a file; make one that only this user can read if there is no file."""
    from actbox.capabilities.approval_page import new_token

    try:
        with contextlib.suppress(FileExistsError):
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(f"{new_token()}\n")
        return path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the token's file {path} cannot be used: {error}", "name a new file: it is made") from None


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
