"""Approvals that last: questions and answers in a database, bound to exactly what was shown.

A question waits in the database until somebody answers, in this process or another, or until it expires. An answer
covers one call, or the same arguments again, or arguments that fit a pattern: always of one capability in one version,
for data of no higher labels than were shown.
"""

from __future__ import annotations

import asyncio
import fnmatch
import hashlib
import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

from sqlalchemy import ColumnElement, Connection, insert, select, update

from actbox.core.errors import ActboxError, InvalidValue
from actbox.core.labels import Label
from actbox.tools import ApprovalDecision, ApprovalRequest

from .approval_tables import FORM, REQUESTS, TABLES
from .database import Database

State = Literal["pending", "approved", "used", "denied", "revoked", "expired"]
"""A question is `pending` until it is answered or `expired`. An answer for one call is `used` by that call. Every
approval can be `revoked`."""
Scope = Literal["once", "run", "pattern", "always"]
"""Whom an approval covers: this call; the same arguments again in this run; arguments that fit a pattern; or the same
arguments again in any run."""

_MAY_EXPIRE: Final = ("pending", "approved")
_CAUSES: Final[Mapping[str, Literal["timeout", "revoked"]]] = {"expired": "timeout", "revoked": "revoked"}
_STANDING: Final = ("run", "pattern", "always")
_LOOK_EVERY: Final = 0.2
_MOST_SHOWN: Final = 4_000_000
_MICRO: Final = 1_000_000


class AlreadyAnswered(ActboxError):
    """Raised for an answer to a question that has one, or that nobody may answer any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What somebody is asked: may this capability be used with these arguments?

    `arguments` is JSON data. `shown` is what the approver sees besides: code, the difference of files, the calls that a
    program names, costs. `run` is the identity of the run or conversation that a `run` approval holds for.
    """

    capability: str
    version: str
    arguments: Mapping[str, Any]
    labels: Label = field(default_factory=Label)
    caller: str = ""
    run: str = ""
    reason: str = ""
    shown: Mapping[str, Any] = field(default_factory=dict)

    @property
    def arguments_hash(self) -> str:
        """A digest of the arguments."""
        return hashlib.sha256(_canonical(self.arguments).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A question with its answer. Times are microseconds since 1970, `None` for never.

    `pattern` has, for a `pattern` approval, the names of arguments with shell patterns for their text; arguments that
    it does not name must be those that were shown.
    """

    id: str
    state: State
    capability: str
    version: str
    arguments_hash: str
    labels: Label
    caller: str
    run: str
    shown: Mapping[str, Any]
    created: int
    expires: int | None
    scope: str
    pattern: Mapping[str, str]
    decided: int | None
    decided_by: str
    decided_from: str
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """Return the approval as plain JSON data."""
        return {name: getattr(self, name) for name in self.__slots__} | {"labels": str(self.labels)}


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a question. `id` is that of the approval that decided; `cause` says why there is no yes."""

    approved: bool
    id: str
    by: str = ""
    reason: str = ""
    cause: Literal["decided", "timeout", "revoked"] = "decided"


class Approvals:
    """The approvals of one database. It is an `Approver` too, for programs, tools and packages."""

    def __init__(
        self, database: Database, timeout: float | None, notify: Sequence[Callable[[Approval], object]]
    ) -> None:
        """Use `Approvals.open`."""
        self._database = database
        self._timeout = timeout
        self._notify = notify
        self._waiting: dict[str, Future[None]] = {}
        """Set for each question that somebody waits for here when it is answered here."""

    @classmethod
    def open(
        cls,
        address: str,
        *,
        timeout: float | None = 3600.0,
        notify: Sequence[Callable[[Approval], object]] = (),
        read_only: bool = False,
    ) -> Approvals:
        """Open the approvals in a database, `sqlite:///path` or `postgresql://…`; make them if need be. Blocks.

        A question expires after `timeout` seconds, `None` for never. Each of `notify` is called with a new question.
        Raises `InvalidValue`, and `StoreError` for a database that cannot be used.
        """
        if timeout is not None and not 0 < timeout < float("inf"):
            raise InvalidValue(f"an approval's timeout is seconds above zero, or None, not {timeout!r}")
        database = Database.open(address, TABLES, part="approvals", version=FORM, read_only=read_only)
        return cls(database, timeout, tuple(notify))

    async def require(self, question: Question) -> Answer:
        """Return the answer to a question: at once if an approval covers it, else when somebody has answered.

        If the caller is cancelled, the question expires. Raises `StoreError`, and `InvalidValue` for arguments that
        are no JSON data, or for too much to show.
        """
        asked = await self._database.write(lambda connection: self._asked(connection, question))
        if isinstance(asked, Answer):
            return asked
        try:
            for tell in self._notify:
                told = tell(asked)
                if asyncio.iscoroutine(told):
                    await told
            return await self._answered(asked)
        except BaseException:
            await asyncio.shield(self._set(asked.id, ("pending",), {"state": "expired"}))
            raise
        finally:
            self._waiting.pop(asked.id, None)

    async def find(self, id: str) -> Approval:
        """Return one approval. Raises `InvalidValue` if there is none of this id."""
        query = select(REQUESTS).where(REQUESTS.c.id == id)
        row = await self._database.read(lambda connection: connection.execute(query).first())
        if row is None:
            raise InvalidValue(f"there is no approval {id!r}")
        return _approval(row)

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

        `by` says who answers and `source` from where. `pattern` is for the scope `pattern`. `until` is the time, in
        seconds since 1970, at which an approval for more than one call ends. Raises `AlreadyAnswered`, and
        `InvalidValue` for another scope or pattern.
        """
        if scope not in get_args(Scope) or (scope == "pattern") != bool(pattern):
            raise InvalidValue(
                "an approval is for once, run, always, or for a pattern of arguments, and only then has one"
            )
        asked = await self.find(id)
        unknown = sorted(set(pattern or {}) - set(asked.shown["arguments"]))
        if unknown:
            raise InvalidValue(f"the question has no argument {unknown[0]!r} that a pattern could be for")
        values: dict[str, Any] = {"state": "approved", "scope": scope, "pattern": _canonical(pattern or {})}
        values["expires"] = int(until * _MICRO) if until is not None and scope != "once" else None
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
        packages = [{"name": one.name, "version": one.version, "sha256": one.sha256} for one in request.packages]
        arguments = {**request.arguments, **({"packages": packages} if packages else {})}
        if request.what == "run":
            arguments = {"program": request.program}
        shown = {"program": request.program, "line": request.line, "tools": list(request.tools)}
        question = Question(
            capability=f"{request.what}:{request.tool}" if request.tool else request.what,
            version="",
            arguments={**arguments, **({"hidden": dict(request.hidden)} if request.hidden else {})},
            reason=request.reason,
            shown=shown,
        )
        answer = await self.require(question)
        cause: Literal["decided", "timeout"] = "timeout" if answer.cause == "timeout" else "decided"
        return ApprovalDecision(answer.approved, answer.reason, answer.by, cause, elevated=answer.approved)

    def close(self) -> None:
        """Close the approvals. Blocks."""
        self._database.close()

    def _asked(self, connection: Connection, question: Question) -> Answer | Approval:
        """Return the answer that an approval has already given, else write the question down."""
        now, digest = _now(), question.arguments_hash
        standing = select(REQUESTS).where(
            REQUESTS.c.capability == question.capability,
            REQUESTS.c.version == question.version,
            REQUESTS.c.state == "approved",
            REQUESTS.c.scope.in_(_STANDING),
            _is_live(),
        )
        for row in connection.execute(standing):
            given = _approval(row)
            if _covers(given, question, digest):
                return Answer(True, given.id, given.decided_by, given.reason)
        shown = _canonical({**question.shown, "arguments": question.arguments, "reason": question.reason})
        if len(shown) > _MOST_SHOWN:
            raise InvalidValue(
                f"an approver can be shown at most {_MOST_SHOWN:,} characters, and this has {len(shown):,}"
            )
        asked = {
            "id": secrets.token_hex(8),
            "state": "pending",
            "capability": question.capability,
            "version": question.version,
            "arguments_hash": digest,
            "labels": str(question.labels),
            "caller": question.caller,
            "run": question.run,
            "shown": shown,
            "created": now,
            "expires": None if self._timeout is None else now + int(self._timeout * _MICRO),
        }
        connection.execute(insert(REQUESTS), asked)
        return _approval(connection.execute(select(REQUESTS).where(REQUESTS.c.id == asked["id"])).one())

    async def _answered(self, asked: Approval) -> Answer:
        """Return the answer once there is one; a `once` approval is used up by it."""
        while True:
            told = self._waiting.setdefault(asked.id, Future())
            found = await self.find(asked.id)
            if found.state == "approved":
                if found.scope == "once" and not await self._set(asked.id, ("approved",), {"state": "used"}):
                    continue  # revoked in this moment
                return Answer(True, found.id, found.decided_by, found.reason)
            if found.state != "pending":
                why = found.reason or ("nobody has answered in time" if found.state == "expired" else "")
                return Answer(False, found.id, found.decided_by, why, _CAUSES.get(found.state, "decided"))
            await asyncio.wait({asyncio.wrap_future(told)}, timeout=_LOOK_EVERY)  # or another process answers

    async def _decide(
        self,
        id: str,
        by: str,
        reason: str,
        source: str,
        values: Mapping[str, Any],
        before: Sequence[State] = ("pending",),
    ) -> Approval:
        told = {"decided": _now(), "decided_by": by, "decided_from": source, "reason": reason}
        is_first = await self._set(id, before, {**values, **told})
        found = await self.find(id)
        if not is_first:
            who = f" by {found.decided_by}" if found.decided_by else ""
            raise AlreadyAnswered(f"the approval {id} is {found.state} already{who}")
        if (waiting := self._waiting.pop(id, None)) is not None:
            waiting.set_result(None)
        return found

    async def _set(self, id: str, before: Sequence[State], values: Mapping[str, Any]) -> bool:
        """Change an approval that is in one of some states; return whether it was."""
        is_so = (
            (REQUESTS.c.id == id) & REQUESTS.c.state.in_(before) & (_is_live() | REQUESTS.c.state.not_in(_MAY_EXPIRE))
        )
        change = update(REQUESTS).where(is_so).values(**values)
        return bool(await self._database.write(lambda connection: connection.execute(change).rowcount))


def _is_live() -> ColumnElement[bool]:
    return REQUESTS.c.expires.is_(None) | (REQUESTS.c.expires >= _now())


def _covers(given: Approval, question: Question, digest: str) -> bool:
    """Return whether a standing approval covers a question: nothing that differs from what was shown."""
    if given.scope == "run" and (given.run != question.run or not question.run):
        return False
    if not question.labels <= given.labels:
        return False
    if given.scope != "pattern":
        return given.arguments_hash == digest
    shown = given.shown["arguments"]
    if set(shown) != set(question.arguments):
        return False
    return all(
        isinstance(value, str) and fnmatch.fnmatchcase(value, given.pattern[name])
        if name in given.pattern
        else _canonical(value) == _canonical(shown[name])
        for name, value in question.arguments.items()
    )


def _approval(row: Any) -> Approval:
    said = row._asdict()
    if row.state in _MAY_EXPIRE and row.expires is not None and row.expires < _now():
        said["state"] = "expired"
    shown, pattern = json.loads(row.shown), json.loads(row.pattern or "{}")
    return Approval(**{**said, "shown": shown, "pattern": pattern, "labels": Label.parse(row.labels)})


def _canonical(value: object) -> str:
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidValue(f"what an approver is shown is JSON data: {error}") from None


def _now() -> int:
    return time.time_ns() // 1000
