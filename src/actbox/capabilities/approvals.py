"""Approvals that last: questions and answers in a database, bound to exactly what was shown.

A question waits in the database until somebody answers, in this process or another, or until it expires. An answer
covers one call, or the same arguments again, or arguments that fit a pattern: always of one capability in one version,
for one caller, and for data of no higher labels than were shown.

Questions of a process that has been killed expire within ten minutes. Times are those of the machine's clock. An
approval that was found expired stays so if the clock is set back, and no clock makes a question outlast its timeout.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, get_args

from sqlalchemy import ColumnElement, Connection, insert, select, update

from actbox.core.errors import ActboxError, InvalidValue
from actbox.core.labels import Label
from actbox.sandbox.blocking import run_blocking
from actbox.tools import ApprovalDecision, ApprovalRequest
from actbox.tools.approval import NOT_ELEVATED

from .approval_questions import Answer, Approval, Question, Scope, State, as_approved, covers
from .approval_tables import REQUESTS, SCHEMA_VERSION, TABLES
from .canonical_json import canonical
from .database import Database, StoreError

__all__ = ["AlreadyAnswered", "Answer", "Approval", "Approvals", "Question", "Scope", "State"]

_log = logging.getLogger("actbox")

_MAY_EXPIRE: Final = ("pending", "approved")
_CAUSES: Final[Mapping[str, Literal["timeout", "revoked"]]] = {"expired": "timeout", "revoked": "revoked"}
_LEASE: Final = 600.0
"""The seconds for which a question stays open without its process, and a yes for one call waits to be used."""
_RENEW_EVERY: Final = _LEASE / 4
_LOOK_EVERY: Final = 0.1
_LOOK_AT_LEAST_EVERY: Final = 2.0
_MOST_SHOWN: Final = 4_000_000
_MOST_TEXT: Final = 2000
_MICRO: Final = 1_000_000
_LATEST: Final = 2**63 / _MICRO


class AlreadyAnswered(ActboxError):
    """Raised for an answer to a question that has one, or that nobody may answer any more."""


class Approvals:
    """The approvals of one database. It is an `Approver` too, for programs, tools and packages."""

    def __init__(
        self,
        database: Database,
        timeout: float | None,
        notify: Sequence[Callable[[Approval], object]],
        elevated: bool,
    ) -> None:
        """Use `Approvals.open`."""
        self._database = database
        self._timeout = timeout
        self._notify = notify
        self._elevated = elevated
        self._waiting: dict[str, tuple[asyncio.AbstractEventLoop, asyncio.Event]] = {}
        """For each question that somebody waits for here, the event that is set when it is answered here."""

    @classmethod
    def open(
        cls,
        address: str,
        *,
        timeout: float | None = 3600.0,
        notify: Sequence[Callable[[Approval], object]] = (),
        elevated: bool = False,
        read_only: bool = False,
    ) -> Approvals:
        """Open the approvals in a database, `sqlite:///path` or `postgresql://…`; make them if need be. Blocks.

        A question expires after `timeout` seconds, `None` for never. Each of `notify`, sync or async, is called with a
        new question, in the background: its failure is logged and kept as the question's `trouble`, and it is cancelled
        when the question is answered. `elevated` says that whoever answers here may approve packages that no list of
        the policy has; without it nobody is asked about them.

        Raises `InvalidValue`, and `StoreError` for a database that cannot be used.
        """
        if timeout is not None and not 0 < timeout < float("inf"):
            raise InvalidValue(f"an approval's timeout is seconds above zero, or None, not {timeout!r}")
        database = Database.open(address, TABLES, part="approvals", version=SCHEMA_VERSION, read_only=read_only)
        return cls(database, timeout, tuple(notify), elevated)

    async def require(self, question: Question) -> Answer:
        """Return the answer to a question: at once if an approval covers it, else when somebody has answered.

        If the caller is cancelled, the question expires. Raises `StoreError`, and `InvalidValue` for arguments that
        are no JSON data, or for too much to show.
        """
        asked = _pending(question, self._timeout)
        try:
            given = await self._database.write(lambda connection: _asked(connection, asked))
        except asyncio.CancelledError:  # the question is written down all the same
            await asyncio.shield(self._withdraw(asked.id))
            raise
        if given is not None:
            return Answer(True, given.id, given.decided_by, given.reason)
        telling = [asyncio.ensure_future(self._tell(tell, asked)) for tell in self._notify]
        try:
            return await self._answered(asked)
        except BaseException:
            await asyncio.shield(self._withdraw(asked.id))
            raise
        finally:
            self._waiting.pop(asked.id, None)
            for one in telling:
                one.cancel()
            await asyncio.gather(*telling, return_exceptions=True)

    async def find(self, id: str) -> Approval:
        """Return one approval. Raises `InvalidValue` if there is none of this id."""
        return await self._database.read(lambda connection: _found(connection, id))

    async def list(self, state: State | None = None, *, most: int = 1000) -> tuple[Approval, ...]:
        """Return the approvals in a state, or in any, the newest first."""
        if state is not None and state not in get_args(State):
            raise InvalidValue(f"an approval's state is one of {', '.join(get_args(State))}, not {state!r}")
        query = select(REQUESTS).order_by(REQUESTS.c.created.desc(), REQUESTS.c.id).limit(most)
        if state == "expired":
            query = query.where((REQUESTS.c.state == state) | (REQUESTS.c.state.in_(_MAY_EXPIRE) & ~_is_live()))
        elif state is not None:
            query = query.where(REQUESTS.c.state == state, _is_live() | REQUESTS.c.state.not_in(_MAY_EXPIRE))
        rows = await self._database.read(lambda connection: connection.execute(query).all())
        return tuple(map(_approval, rows))

    async def also_covered(self, given: Approval) -> tuple[Approval, ...]:
        """Return the other questions that wait and that an approval would answer too; see `as_approved`."""
        return tuple(one for one in await self.list("pending") if one.id != given.id and covers(given, one))

    async def approve(
        self,
        id: str,
        *,
        by: str,
        scope: Scope = "once",
        pattern: Mapping[str, str] | None = None,
        until: float | None = None,
        reason: str = "",
        source: str = "",
    ) -> Approval:
        """Approve a question; the first answer counts. Return the approval.

        `by` says who answers and `source` from where. `pattern` is for the scope `pattern`: the names of arguments with
        patterns for their text (see `fits`); other arguments must be those that were shown. `until` is the time, in
        seconds since 1970, at which an approval for more than one call ends: calls that run then go on, and no further
        one begins. An approval for more than one call answers other questions that wait, too.

        Raises `AlreadyAnswered`, and `InvalidValue` for a scope or pattern that the question cannot have, and for a
        time that has passed.
        """
        given = as_approved(await self.find(id), scope, pattern)
        now = _now()
        if until is None:
            expires = now + int(_LEASE * _MICRO) if scope == "once" else None
        elif scope == "once":
            raise InvalidValue("an approval for one call ends with it: `until` is for more than one")
        elif isinstance(until, bool) or not now / _MICRO < until < _LATEST:
            raise InvalidValue(f"an approval ends at a time to come, in seconds since 1970, not {until!r}")
        else:
            expires = int(until * _MICRO)
        values = {"state": "approved", "scope": scope, "pattern": canonical(given.pattern), "expires": expires}
        return await self._decide(id, by, reason, source, values)

    async def deny(self, id: str, *, by: str, reason: str = "", source: str = "") -> Approval:
        """Refuse a question; the first answer counts. Return the approval. Raises `AlreadyAnswered`."""
        return await self._decide(id, by, reason, source, {"state": "denied"})

    async def revoke(self, id: str, *, by: str, reason: str = "", source: str = "") -> Approval:
        """Take an approval back: it covers no further call, and what runs by it is stopped by whoever invoked it.

        Raises `AlreadyAnswered` if it is none.
        """
        return await self._decide(id, by, reason, source, {"state": "revoked"}, ("approved", "used"))

    async def is_revoked(self, id: str) -> bool:
        """Return whether an approval was taken back."""
        query = select(REQUESTS.c.state).where(REQUESTS.c.id == id)
        return bool(await self._database.read(lambda connection: connection.execute(query).scalar()) == "revoked")

    async def decide(self, request: ApprovalRequest) -> ApprovalDecision:
        """Answer a question of a program, a tool call or packages, as an `Approver`."""
        if request.elevated and not self._elevated:
            return ApprovalDecision(False, NOT_ELEVATED, cause="unavailable")
        bound: dict[str, Any] = {
            "tools": list(request.tools),
            "hidden": dict(request.hidden),
            "packages": [{"name": one.name, "version": one.version, "sha256": one.sha256} for one in request.packages],
            "elevated": request.elevated,
        }
        question = Question(
            capability=f"{request.what}:{request.tool}" if request.tool else request.what,
            version="",
            arguments={"program": request.program} if request.what == "run" else request.arguments,
            labels=Label("pii"),  # a request does not say which data it has, and unknown counts as pii
            reason=request.reason,
            bound={name: value for name, value in bound.items() if value},
            shown={"program": request.program, "line": request.line},
        )
        answer = await self.require(question)
        cause: Literal["decided", "timeout"] = "timeout" if answer.cause == "timeout" else "decided"
        return ApprovalDecision(answer.approved, answer.reason, answer.by, cause, elevated=answer.approved)

    def close(self) -> None:
        """Close the approvals. Blocks."""
        self._database.close()

    async def _answered(self, asked: Approval) -> Answer:
        """Return the answer once there is one; a `once` approval is used up by it."""
        loop, told = asyncio.get_running_loop(), asyncio.Event()
        self._waiting[asked.id] = loop, told
        ends = None if self._timeout is None else loop.time() + self._timeout
        renewed, wait = loop.time(), _LOOK_EVERY
        while True:
            told.clear()
            found, given = await self._database.read(lambda connection: _looked_up(connection, asked))
            if found.state == "pending" and given is not None:  # an approval for more than one call came meanwhile
                how = {"scope": "once", "decided": _now(), "decided_by": given.decided_by}
                how |= {"state": "used", "decided_from": f"approval {given.id}", "reason": given.reason}
                if await self._set(asked.id, ("pending",), how):
                    return Answer(True, given.id, given.decided_by, given.reason)
            elif found.state == "approved":
                if found.scope != "once" or await self._set(asked.id, ("approved",), {"state": "used"}):
                    return Answer(True, found.id, found.decided_by, found.reason)
            elif found.state != "pending":
                why = found.reason or ("nobody has answered in time" if found.state == "expired" else "")
                return Answer(False, found.id, found.decided_by, why, _CAUSES.get(found.state, "decided"))
            elif ends is not None and loop.time() >= ends:  # the machine's clock was set back
                await self._set(asked.id, ("pending",), {"state": "expired"})
            else:
                if loop.time() - renewed > _RENEW_EVERY:
                    await self._set(asked.id, ("pending",), {"expires": _lapses(asked.created, self._timeout)})
                    renewed = loop.time()
                with contextlib.suppress(TimeoutError):  # or another process answers
                    await asyncio.wait_for(told.wait(), wait)
                wait = min(wait * 1.1, _LOOK_AT_LEAST_EVERY)

    async def _tell(self, tell: Callable[[Approval], object], asked: Approval) -> None:
        """Tell somebody about a question; a failure is logged and kept with the question."""
        try:
            told = await run_blocking(tell, asked)
            if inspect.isawaitable(told):
                await told
        except Exception as error:
            name = getattr(tell, "__qualname__", type(tell).__name__)
            _log.error("%s could not tell anybody about the approval %s", name, asked.id, exc_info=error)
            trouble = f"{name} could not tell anybody: {type(error).__name__}: {error}"[:_MOST_TEXT]
            with contextlib.suppress(StoreError):
                text = (
                    REQUESTS.c.trouble + trouble.encode("utf-8", "backslashreplace").decode().replace("\0", "") + "\n"
                )
                await self._set(asked.id, get_args(State), {"trouble": text})

    async def _withdraw(self, id: str) -> None:
        """Let a question expire that nobody waits for any more, with a yes for one call that nobody has used."""
        unused = (REQUESTS.c.state == "pending") | ((REQUESTS.c.state == "approved") & (REQUESTS.c.scope == "once"))
        change = update(REQUESTS).where(REQUESTS.c.id == id, unused).values(state="expired")
        try:
            await self._database.write(lambda connection: connection.execute(change))
        except StoreError as error:  # it then expires by its time
            _log.error("the approval %s could not be withdrawn", id, exc_info=error)

    async def _decide(
        self,
        id: str,
        by: str,
        reason: str,
        source: str,
        values: Mapping[str, Any],
        before: Sequence[State] = ("pending",),
    ) -> Approval:
        _check_texts(by=by, reason=reason, source=source)
        if not by.strip():
            raise InvalidValue("an answer says by whom it is")
        told = {"decided": _now(), "decided_by": by, "decided_from": source, "reason": reason}
        is_first = await self._set(id, before, {**values, **told})
        found = await self.find(id)
        if not is_first:
            if found.state == "pending":
                raise AlreadyAnswered(f"the approval {id} is pending, and there is nothing to take back: deny it")
            who = f" by {found.decided_by}" if found.decided_by else ""
            raise AlreadyAnswered(f"the approval {id} is {found.state} already{who}")
        if (waiting := self._waiting.get(id)) is not None:
            loop, event = waiting
            with contextlib.suppress(RuntimeError):  # its event loop has ended
                loop.call_soon_threadsafe(event.set)
        return found

    async def _set(self, id: str, before: Sequence[State], values: Mapping[str, Any]) -> bool:
        """Change an approval that is in one of some states; return whether it was."""
        is_so = (
            (REQUESTS.c.id == id) & REQUESTS.c.state.in_(before) & (_is_live() | REQUESTS.c.state.not_in(_MAY_EXPIRE))
        )
        change = update(REQUESTS).where(is_so).values(**values)
        return bool(await self._database.write(lambda connection: connection.execute(change).rowcount))


def _pending(question: Question, timeout: float | None) -> Approval:
    """Return a question as it is written down. Raises `InvalidValue`."""
    _check_texts(capability=question.capability, version=question.version, caller=question.caller, run=question.run)
    data = {"arguments": question.arguments, "bound": question.bound, "reason": question.reason}
    shown = canonical({**question.shown, **data}, "the question")
    if len(shown) > _MOST_SHOWN:
        raise InvalidValue(f"an approver can be shown at most {_MOST_SHOWN:,} characters, and this has {len(shown):,}")
    created = _now()
    return Approval(
        id=secrets.token_hex(8),
        state="pending",
        capability=question.capability,
        version=question.version,
        arguments_hash=question.arguments_hash,
        labels=question.labels,
        caller=question.caller,
        run=question.run,
        shown=json.loads(shown),
        created=created,
        expires=_lapses(created, timeout),
        scope="",
        pattern={},
        decided=None,
        decided_by="",
        decided_from="",
        reason="",
        trouble="",
    )


def _lapses(created: int, timeout: float | None) -> int:
    """Return the time at which a question expires unless its process says before that it still waits."""
    lease = _now() + int(_LEASE * _MICRO)
    return lease if timeout is None else min(lease, created + int(timeout * _MICRO))


def _asked(connection: Connection, asked: Approval) -> Approval | None:
    """Return an approval that covers a question; without one write the question down."""
    given, ended = _standing(connection, asked)
    if ended:  # for good, even if the clock is set back
        was = REQUESTS.c.id.in_(ended) & (REQUESTS.c.state == "approved")
        connection.execute(update(REQUESTS).where(was).values(state="expired"))
    if given is None:
        row = {**asked.to_dict(), "shown": canonical(asked.shown), "pattern": ""}
        connection.execute(insert(REQUESTS), row)
    return given


def _looked_up(connection: Connection, asked: Approval) -> tuple[Approval, Approval | None]:
    """Return a question as it is now, and while it waits an approval that covers it."""
    found = _found(connection, asked.id)
    return found, _standing(connection, asked)[0] if found.state == "pending" else None


def _standing(connection: Connection, asked: Approval) -> tuple[Approval | None, list[str]]:
    """Return an approval that covers a question, and the ids of those that have ended."""
    query = select(REQUESTS).where(
        REQUESTS.c.capability == asked.capability,
        REQUESTS.c.version == asked.version,
        REQUESTS.c.caller == asked.caller,
        REQUESTS.c.state == "approved",
        REQUESTS.c.scope != "once",
    )
    all_given = [_approval(row) for row in connection.execute(query)]
    ended = [one.id for one in all_given if one.state == "expired"]
    return next((one for one in all_given if covers(one, asked)), None), ended


def _found(connection: Connection, id: str) -> Approval:
    row = connection.execute(select(REQUESTS).where(REQUESTS.c.id == id)).first()
    if row is None:
        raise InvalidValue(f"there is no approval {id[:100]!r}")
    return _approval(row)


def _is_live() -> ColumnElement[bool]:
    return REQUESTS.c.expires.is_(None) | (REQUESTS.c.expires >= _now())


def _approval(row: Any) -> Approval:
    shown, pattern = json.loads(row.shown), json.loads(row.pattern or "{}")
    found = Approval(**{**row._asdict(), "shown": shown, "pattern": pattern, "labels": Label.parse(row.labels)})
    has_ended = row.state in _MAY_EXPIRE and row.expires is not None and row.expires < _now()
    return replace(found, state="expired") if has_ended else found


def _check_texts(**texts: object) -> None:
    """Raise `InvalidValue` for what no database takes as a text, or for too long ones."""
    for name, text in texts.items():
        if not isinstance(text, str) or len(text) > _MOST_TEXT or "\0" in text or not _is_unicode(text):
            raise InvalidValue(f"{name} of an approval is Unicode text of at most {_MOST_TEXT} characters without NUL")


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _now() -> int:
    return time.time_ns() // 1000
