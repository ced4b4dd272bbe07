"""An attempt to break out of a sandbox, and its possible outcomes.

An attempt is a program that says itself how far it got (`program.py`), or, where it needs the host's side too (a tool, an
artifact, a second run, a session), a function that is given the ground it is tried on (`ground.py`). Both kinds stand in
one table a group, and all groups in `registry.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.escape.ground import Ground


class Outcome(Enum):
    """The outcome of an attempt. Only `STOPPED` speaks for a sandbox."""

    STOPPED = "stopped"
    ESCAPED = "escaped"
    NOT_APPLICABLE = "not applicable"
    """It could not be started here; the reason says why."""
    UNPROVEN = "unproven"
    """It neither got through nor was refused: the attempt itself is at fault, and counts as a failure."""


@dataclass(frozen=True)
class Verdict:
    """The outcome of an attempt, with its reason."""

    outcome: Outcome
    why: str = ""


class NotApplicable(Exception):
    """An attempt cannot be started here; the message says why."""


class Bare(Enum):
    """The effect of an attempt where nothing isolates. An attempt that gets through there is known to be able to
    succeed.
    """

    GETS_THROUGH = "gets through"
    GETS_THROUGH_AS_ROOT = "not tried: it gets through for root only"
    HARMFUL = "not tried: it could do harm to this machine"
    NOTHING_THERE = "not tried: where nothing isolates there need be nothing that it could get at"
    """No wall, proxy, mount or pid 1 of a sandbox, or not what only some machines have."""
    HOST_STOPS_IT = "not tried: what stops it is on the host's side, and the same on every engine"


Function = Callable[["Ground"], Awaitable[Verdict]]


@dataclass(frozen=True)
class Attempt:
    """One attempt: its group, what it tries, and the program or the function that tries it.

    `target` is a path of this host without which the attempt would prove nothing. `forkable_may` says that a session
    which can be forked may do just this. `proven_by` names the planted weakness that lets the attempt through
    (`weaknesses.py`), where it does not get through already because nothing isolates.
    """

    group: str
    what: str
    tries: str | Function
    bare: Bare
    target: str = ""
    forkable_may: bool = False
    proven_by: str = ""

    @property
    def proven(self) -> bool:
        """Whether it has been shown able to succeed: it gets through where what stops it is taken away."""
        return bool(self.proven_by) or self.bare in (Bare.GETS_THROUGH, Bare.GETS_THROUGH_AS_ROOT)

    @property
    def name(self) -> str:
        """The group and what is tried."""
        return f"{self.group}: {self.what}"


@dataclass
class Group:
    """The attempts of one kind, in the order in which they are tried.

    Of those that are added without a word about it, `harmful` are those that could do harm where nothing isolates, and
    `bare` is what the others do there. `slow` are those that tests mark so.
    """

    name: str
    bare: Bare
    harmful: frozenset[str] = frozenset()
    slow: frozenset[str] = frozenset()
    attempts: list[Attempt] = field(default_factory=list)

    def programs(self, table: Mapping[str, str], bare: Bare | None = None, *, forkable_may: bool = False) -> None:
        """Add programs: what each tries, and its source, which runs after `program.PRELUDE`."""
        for what, code in table.items():
            self.attempts.append(Attempt(self.name, what, code, self._bare(what, bare), forkable_may=forkable_may))

    def targets(self, table: Mapping[str, tuple[str, str]], bare: Bare | None = None) -> None:
        """Add programs that are after a path of the host: what each tries, the path, and its source."""
        for what, (path, code) in table.items():
            self.attempts.append(Attempt(self.name, what, code, self._bare(what, bare), target=path))

    def function(self, what: str, bare: Bare | None = None) -> Callable[[Function], Function]:
        """Add the decorated function."""

        def add(function: Function) -> Function:
            self.attempts.append(Attempt(self.name, what, function, self._bare(what, bare)))
            return function

        return add

    def _bare(self, what: str, bare: Bare | None) -> Bare:
        return bare or (Bare.HARMFUL if what in self.harmful else self.bare)


def stopped(why: object = "") -> Verdict:
    """Return that an attempt was stopped."""
    return Verdict(Outcome.STOPPED, str(why)[:500])


def escaped_if(got_through: bool, why: object = "") -> Verdict:
    """Return that an attempt got through, or that it was stopped."""
    return Verdict(Outcome.ESCAPED if got_through else Outcome.STOPPED, str(why)[:500])


def unproven(why: object) -> Verdict:
    """Return that an attempt proves nothing."""
    return Verdict(Outcome.UNPROVEN, str(why)[:500])
