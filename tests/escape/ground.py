"""The surroundings of an attempt: an engine, the targets on this host, and the sandboxes that are opened for it and
closed afterwards.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import AsyncIterator, Collection
from pathlib import Path
from typing import Any

import actbox
from actbox import ErrorKind, Event, Limits, Output, Policy, Sandbox, Session, Traits
from actbox.sandbox.egress.upstream import Upstream
from actbox.sandbox.engines.linux.hierarchies import support
from tests.escape.attempt import Attempt, NotApplicable, Outcome, Verdict, unproven
from tests.escape.program import source_of, verdict_of
from tests.escape.promises import why_not_promised

# No attempt needs as much; a machine that is busy may.
_SECONDS = 60


def need_counted_memory() -> None:
    """Raise `NotApplicable` where no control group counts memory.

    Processes can share no memory there, and pid 1 looks at its processes every few milliseconds: a lane ends with each
    run that was long enough for a look.
    """
    groups = support()
    if groups is None or "memory" not in groups.places:
        raise NotApplicable("this machine has no control group that counts memory for this user")


class Ground:
    """The argument of a function that makes an attempt.

    `engine` names the engine, `traits` are its own, `things` are this host's (`host_things.py`).
    """

    def __init__(self, engine: str, traits: Traits, things: dict[str, Any]) -> None:
        self.engine = engine
        self.traits = traits
        self.things = things
        self._opened: list[Sandbox] = []

    def folder(self) -> Path:
        """Return a new folder of this host, which any user may read; the engines that are tried share the host's."""
        made = Path(tempfile.mkdtemp(dir=self.things["host_folder"]))
        made.chmod(0o755)
        return made

    async def open(self, policy: Policy | None = None, *, upstream: Upstream | None = None, **limits: Any) -> Sandbox:
        """Open a sandbox for this attempt alone. Raises `NotApplicable` where the engine cannot keep the policy."""
        for name in limits:
            if name not in self.traits.enforced:
                raise NotApplicable(f"the {self.engine} engine does not enforce {name}")
        if limits:
            policy = Policy(limits=Limits(**limits))
        for mount in policy.mounts if policy else ():
            if mount.mode not in self.traits.mounts:
                raise NotApplicable(f"the {self.engine} engine has no {mount.mode} mounts")
        try:
            box = actbox.open_sandbox(
                self.engine, policy=policy, upstream=upstream, allow_unisolated=not self.traits.isolated
            )
        except actbox.Unsupported as error:
            raise NotApplicable(str(error)) from None
        await box.start()
        self._opened.append(box)
        return box

    async def open_session(self, policy: Policy | None = None, *, forkable: bool = False) -> Session:
        """Open a session in a sandbox for this attempt alone."""
        if not self.traits.sessions or (forkable and not self.traits.fork):
            kind = "sessions that can be forked" if forkable else "sessions"
            raise NotApplicable(f"the {self.engine} engine has no {kind}")
        session = (await self.open(policy)).session(forkable=forkable)
        await session.start()
        return session

    async def tries(
        self,
        place: Sandbox | Session,
        code: str,
        *,
        ended_by: Collection[ErrorKind] = (),
        tools: Any = None,
        timeout: float = _SECONDS,
    ) -> Verdict:
        """Run an attempt's program in a sandbox or session, and return what came of it."""
        result = await place.run(source_of(code, self.things), tools=tools, timeout=timeout)
        return verdict_of(result, ended_by)

    async def close(self) -> None:
        """Close what was opened."""
        while self._opened:
            await self._opened.pop().stop()


class Fresh:
    """Tries attempts one after the other: programs in one sandbox, each with a workspace of its own."""

    def __init__(self, ground: Ground, box: Sandbox) -> None:
        self._ground = ground
        self._box = box

    async def attempt(self, attempt: Attempt) -> Verdict:
        """Make an attempt, and return what came of it."""
        missing = what_is_missing(attempt) or self._why_not_promised(attempt)
        if missing:
            return Verdict(Outcome.NOT_APPLICABLE, missing)
        if isinstance(attempt.tries, str):
            source = source_of(attempt.tries, self._ground.things)
            return verdict_of(await self._box.run_alone(source, timeout=_SECONDS))
        try:
            return await attempt.tries(self._ground)
        except NotApplicable as reason:
            return Verdict(Outcome.NOT_APPLICABLE, str(reason))
        except Exception as error:
            return unproven(f"the attempt itself failed: {error!r}")
        finally:
            await self._ground.close()

    def _why_not_promised(self, attempt: Attempt) -> str:
        traits = self._ground.traits
        return why_not_promised(attempt, traits) if traits.isolated else ""


class Forked:
    """Tries attempts that are programs, each in a copy of one session that may be forked."""

    def __init__(self, ground: Ground, box: Sandbox) -> None:
        self._ground = ground
        self._box = box
        self._origin: Session | None = None

    async def attempt(self, attempt: Attempt) -> Verdict:
        """Make an attempt, and return what came of it."""
        if not self._ground.traits.fork:
            return Verdict(Outcome.NOT_APPLICABLE, f"the {self._ground.engine} engine cannot fork sessions")
        missing = what_is_missing(attempt)
        if missing:
            return Verdict(Outcome.NOT_APPLICABLE, missing)
        if not isinstance(attempt.tries, str):
            return Verdict(Outcome.NOT_APPLICABLE, "it opens its own sandbox or session, and is tried there")
        if attempt.forkable_may:
            return Verdict(
                Outcome.NOT_APPLICABLE, "a session that may be forked has this right; the group forks uses it"
            )
        async with await self._fork() as copy:
            return await self._ground.tries(copy, attempt.tries)

    async def _fork(self) -> Session:
        """Fork the origin, or a new one: it trusts its copies, and one may have ended all that it could."""
        if self._origin is not None and self._origin.alive:
            try:
                return await self._origin.fork()
            except actbox.ActboxError:  # its end was not known yet
                await self._origin.close()
        self._origin = self._box.session(forkable=True)
        return await self._origin.fork()

    async def close(self) -> None:
        """End the session."""
        if self._origin is not None:
            await self._origin.close()


def what_is_missing(attempt: Attempt) -> str:
    """Return why an attempt would prove nothing on this host; nothing if it would."""
    if attempt.target and not os.path.lexists(attempt.target):
        return f"this machine has no {attempt.target}"
    return ""


@contextlib.asynccontextmanager
async def one_box(ground: Ground) -> AsyncIterator[Sandbox]:
    """Open the sandbox that attempts share."""
    async with actbox.open_sandbox(ground.engine, allow_unisolated=not ground.traits.isolated) as box:
        yield box


async def first_output(events: AsyncIterator[Event]) -> str:
    """Return the first piece of what a program prints."""
    async for event in events:
        if isinstance(event, Output):
            return event.text
    raise AssertionError("the program printed nothing")
