"""Questions to approvers, their answers, and the calls that an answer covers: plain data."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, get_args
from urllib.parse import unquote

from actbox.core.errors import InvalidValue
from actbox.core.labels import Label

from .canonical_json import canonical

State = Literal["pending", "approved", "used", "denied", "revoked", "expired"]
"""A question is `pending` until it is answered or `expired`. An answer for one call is `used` by that call. Every
approval can be `revoked`."""
Scope = Literal["once", "run", "pattern", "always"]
"""The calls that an approval covers: this one; the same arguments again in this run; arguments that fit a pattern; or
the same arguments again in any run."""

MOST_FITTED: Final = 4096
"""The most characters of a text that can fit a pattern with wildcards."""
_NOT_COMPARED: Final = ("arguments", "reason", "labels", "line", "program")
_MOST_PATTERN: Final = 1000
_MOST_WILDCARDS: Final = 20
_MOST_TOLD: Final = 200
_WILDCARD: Final = re.compile(r"(\*\*|\*|\?)")
_NOT_PLAIN: Final = frozenset("/\\?#@:%")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question to an approver: may this capability be used with these arguments?

    `arguments` is JSON data. `bound` is further JSON data that an approval is bound to, such as the amount of a budget.
    `shown` is what the approver sees besides: `program` (its source), `tools` (their names), `files` (by path an object
    with the texts `before` and `after`, `None` for no file), costs. `run` is the identity of the run or conversation
    that a `run` approval holds for.
    """

    capability: str
    version: str
    arguments: Mapping[str, Any]
    labels: Label = field(default_factory=Label)
    caller: str = ""
    run: str = ""
    reason: str = ""
    bound: Mapping[str, Any] = field(default_factory=dict)
    shown: Mapping[str, Any] = field(default_factory=dict)

    @property
    def arguments_hash(self) -> str:
        """The SHA-256 of the arguments."""
        return hashlib.sha256(canonical(self.arguments).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A question with its answer. Times are microseconds since 1970, `None` for never.

    `shown` has all that an approver sees, the `arguments` among it. `expires` is the time at which an approval ends, or
    at which a question does whose process has ended. `pattern` has, for a `pattern` approval, a pattern for the text of
    some arguments, by their names; see `fits`. `trouble` says who could not be told about the question, and why.
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
    trouble: str

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The arguments that were shown."""
        found: Mapping[str, Any] = self.shown["arguments"]
        return found

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


def fits(text: object, pattern: str) -> bool:
    r"""Return True if a whole text fits a pattern.

    `**` stands for any text. `*` stands for any text, and `?` for one character, without `/ \ ? # @ : %` and without
    characters that cannot be printed. Everything else stands for itself. A text with a part `..` between its slashes
    fits no wildcard, and neither does one of more than `MOST_FITTED` characters.
    """
    if not isinstance(text, str):
        return False
    if not _WILDCARD.search(pattern):
        return text == pattern
    if len(text) > MOST_FITTED or ".." in re.split(r"[/\\]", unquote(text)):
        return False
    reached = {0}
    for piece in _WILDCARD.split(pattern):
        if piece == "**":
            reached = set(range(min(reached), len(text) + 1))
        elif piece == "*":
            begun, reached = reached, set()
            for place in range(len(text) + 1):
                if place in begun or (place - 1 in reached and _is_plain(text[place - 1])):
                    reached.add(place)
        elif piece == "?":
            reached = {place + 1 for place in reached if place < len(text) and _is_plain(text[place])}
        else:
            reached = {place + len(piece) for place in reached if text.startswith(piece, place)}
        if not reached:
            return False
    return len(text) in reached


def as_approved(asked: Approval, scope: str, pattern: Mapping[str, str] | None = None) -> Approval:
    """Return a question as it would be if it were approved. Raises `InvalidValue` for a scope that it cannot have."""
    pattern = pattern or {}
    if scope not in get_args(Scope) or (scope == "pattern") != bool(pattern):
        raise InvalidValue("an approval is for once, run, always, or for a pattern of arguments, and only then has one")
    if scope == "run" and not asked.run:
        raise InvalidValue("the question belongs to no run that an approval could be for")
    for name, one in pattern.items():
        if name not in asked.arguments:
            raise InvalidValue(f"the question has no argument {name!r} that a pattern could be for")
        if not isinstance(one, str) or len(one) > _MOST_PATTERN or len(_WILDCARD.findall(one)) > _MOST_WILDCARDS:
            most = f"{_MOST_PATTERN} characters and {_MOST_WILDCARDS} wildcards"
            raise InvalidValue(f"the pattern for {name} is text of at most {most}")
        if not fits(asked.arguments[name], one):
            raise InvalidValue(f"the argument {name} itself does not fit the pattern {one!r}")
    return replace(asked, state="approved", scope=scope, pattern=pattern)


def covers(given: Approval, asked: Approval) -> bool:
    """Return True if an approval for more than one call covers a question: nothing differs from what was shown."""
    if given.state != "approved" or given.scope not in ("run", "pattern", "always"):
        return False
    if (given.capability, given.version, given.caller) != (asked.capability, asked.version, asked.caller):
        return False
    if given.scope == "run" and (given.run != asked.run or not asked.run):
        return False
    if not asked.labels <= given.labels or canonical(given.shown["bound"]) != canonical(asked.shown["bound"]):
        return False
    if given.scope != "pattern":
        return given.arguments_hash == asked.arguments_hash and _besides(given) == _besides(asked)
    if set(given.arguments) != set(asked.arguments):
        return False
    return all(
        fits(value, given.pattern[name])
        if name in given.pattern
        else canonical(value) == canonical(given.arguments[name])
        for name, value in asked.arguments.items()
    )


def _besides(one: Approval) -> str:
    """Return what an approver is shown besides the arguments, such as the difference of files, as text."""
    return canonical({name: value for name, value in one.shown.items() if name not in _NOT_COMPARED})


def coverage(given: Approval, ends: str = "") -> tuple[str, ...]:
    """Return in sentences the calls that an approval covers. `ends` says when it does, such as "for 8 hours"."""
    if given.scope == "once":
        return ("this one call",)
    lines = [
        f"calls of {given.capability} {given.version}".rstrip(),
        f"by the caller {given.caller}" if given.caller else "by callers without a name",
        f"in the run {given.run}" if given.scope == "run" else "in any run",
        f"with data labelled {given.labels}, or lower",
    ]
    for name, value in given.arguments.items():
        if name not in given.pattern:
            lines.append(f"{name}: exactly {_cut(json.dumps(value, ensure_ascii=False))}")
        elif not _WILDCARD.search(given.pattern[name]):
            lines.append(f"{name}: exactly {json.dumps(given.pattern[name], ensure_ascii=False)}")
        else:
            lines.append(f"{name}: any text that fits {given.pattern[name]}")
    lines += [f"{name}: exactly {_cut(json.dumps(value))}" for name, value in given.shown["bound"].items()]
    if given.pattern:
        lines.append(r"where ** is any text, and * and ? are any text and any character without / \ ? # @ : %")
    return (*lines, ends or "until it is revoked")


def _is_plain(character: str) -> bool:
    return character.isprintable() and character not in _NOT_PLAIN


def _cut(text: str) -> str:
    more = len(text) - _MOST_TOLD
    return text if more <= 0 else f"{text[:_MOST_TOLD]} … and {more:,} characters more, as shown"
