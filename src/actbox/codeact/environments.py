"""Sandboxes that stay open from call to call: one for each conversation, a bounded number of them."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from actbox.core.errors import FileError, InvalidValue, SandboxStopped, Unsupported
from actbox.core.policy import Policy
from actbox.sandbox.contract import Sandbox

from .turns import Turns

MOST_ENVIRONMENTS: Final = 32
"""The most idle sandboxes that stay open; the least recently used one is closed first."""
MOST_FLEETING: Final = 8
"""The same bound for the sandboxes of short-lived scopes, which are counted separately."""
_MOST_FORGOTTEN: Final = 1000

Key = tuple[str, str | None]

_CLOSED = "the sandboxes were closed; make a new provider or tool"
_FORGOTTEN = "the files of earlier calls are gone: their sandbox was closed, as it had not been used for long"


@dataclass(eq=False, slots=True)
class Environment:
    """A sandbox and its users. `turns` orders operations that must not overlap in it; `warnings` are for the next
    result.
    """

    sandbox: Sandbox
    started: Future[None] = field(default_factory=Future)
    users: int = 0
    dropped: bool = False
    lasting: bool = True
    turns: Turns = field(default_factory=Turns)
    warnings: tuple[str, ...] = ()


class Environments:
    """A table of sandboxes by configuration (`FrozenRun.environment`) and scope, each opened when it is first used.

    A sandbox without an owner (scope `None`) keeps no files that anybody would look for. If a conversation needs a new
    sandbox, because mounts, hosts or limits were changed, it finds its files there. Several runs may use a sandbox at
    once, from several event loops and threads.
    """

    def __init__(self, open_sandbox: Callable[[Policy], Sandbox], *, most: int = MOST_ENVIRONMENTS) -> None:
        if isinstance(most, bool) or not isinstance(most, int) or most < 1:
            raise InvalidValue(f"most_environments is a whole number of at least 1, not {most!r}")
        self._open = open_sandbox
        self._most = most
        self._lock = threading.Lock()
        self._kept: OrderedDict[Key, Environment] = OrderedDict()
        self._forgotten: OrderedDict[str, None] = OrderedDict()
        self._closed = False

    @asynccontextmanager
    async def use(
        self, environment: str, scope: str | None, policy: Policy, *, lasting: bool = True
    ) -> AsyncGenerator[Environment]:
        """Provide a running sandbox for an `async with` block. Raises the errors of opening, and `SandboxStopped` after
        `close`.

        Scopes that do not last never have others closed, and at most `MOST_FLEETING` of theirs stay open.
        """
        place, is_new, before = self._take((environment, scope), policy, lasting)
        try:
            if is_new:
                # Shielded: others may wait for the start even if the task that began it is cancelled.
                await asyncio.shield(asyncio.ensure_future(self._start((environment, scope), place, before)))
            elif not place.started.done():
                await asyncio.shield(asyncio.wrap_future(place.started))
            else:
                place.started.result()
            yield place
        finally:
            await self._leave(place)

    async def leave(self, scope: str) -> None:
        """Close the sandboxes of a scope once nothing runs in them; their files are lost."""
        with self._lock:
            left = [place for key, place in self._kept.items() if key[1] == scope]
            self._kept = OrderedDict((key, place) for key, place in self._kept.items() if key[1] != scope)
            for place in left:
                place.dropped = True
            idle = [place for place in left if not place.users]
        for place in idle:
            await place.sandbox.stop()

    async def close(self) -> None:
        """Stop all sandboxes, and with them the programs that run there."""
        with self._lock:
            self._closed = True
            kept = list(self._kept.values())
            self._kept.clear()
            for place in kept:
                place.dropped = True
        await asyncio.gather(*map(_end, kept))

    def _take(self, key: Key, policy: Policy, lasting: bool) -> tuple[Environment, bool, Environment | None]:
        """Return the environment, whether it has to be started, and the one that its scope used before."""
        with self._lock:
            if self._closed:
                raise SandboxStopped(_CLOSED)
            place = self._kept.get(key)
            is_new = place is None
            before = None
            if place is None:
                if key[1] is not None:
                    before = next((self._kept[other] for other in reversed(self._kept) if other[1] == key[1]), None)
                place = self._kept[key] = Environment(self._open(policy), lasting=lasting)
                place.users += 1  # counted for the task that starts it, even if the caller is cancelled meanwhile
                if key[1] is not None and key[1] in self._forgotten and before is None:
                    del self._forgotten[key[1]]
                    place.warnings = (_FORGOTTEN,)
            self._kept.move_to_end(key)
            place.users += 1
            if before is not None:
                before.users += 1
            return place, is_new, before

    async def _start(self, key: Key, place: Environment, before: Environment | None) -> None:
        try:
            await place.sandbox.start()
            if before is not None:
                place.warnings = await _carried_over(before, place)
            with self._lock:
                if self._closed:
                    raise SandboxStopped(_CLOSED)
        except BaseException as error:
            self._drop(place)
            place.started.set_exception(error if isinstance(error, Exception) else SandboxStopped("it did not start"))
            place.started.exception()  # marks the exception as retrieved: this caller raises it
            raise
        else:
            place.started.set_result(None)
            if before is not None:
                self._drop(before)
        finally:
            if before is not None:
                await self._leave(before)
            await self._leave(place)

    def _drop(self, place: Environment) -> None:
        """Remove an environment from the table, so that it closes once nothing runs there."""
        with self._lock:
            place.dropped = True
            for key, kept in list(self._kept.items()):
                if kept is place:
                    del self._kept[key]

    async def _leave(self, place: Environment) -> None:
        with self._lock:
            place.users -= 1
            surplus = self._surplus()
            if place.dropped and not place.users:
                surplus.append(place)
        for idle in surplus:
            await idle.sandbox.stop()

    def _surplus(self) -> list[Environment]:
        found = []
        for lasting, most in ((True, self._most), (False, MOST_FLEETING)):
            keys = [key for key, place in self._kept.items() if place.lasting is lasting]
            idle = [key for key in keys if not self._kept[key].users]
            for key in idle[: max(len(keys) - most, 0)]:
                found.append(self._kept.pop(key))
                if key[1] is not None and not any(scope == key[1] for _, scope in self._kept):
                    self._forgotten[key[1]] = None
                    if len(self._forgotten) > _MOST_FORGOTTEN:
                        self._forgotten.popitem(last=False)
        return found


async def _end(place: Environment) -> None:
    if not place.started.done():
        starting = asyncio.wrap_future(place.started)
        await asyncio.wait({starting})
        starting.exception()  # marks the exception as retrieved: the callers that wait for this sandbox raise it
    await place.sandbox.stop()


async def _carried_over(before: Environment, place: Environment) -> tuple[str, ...]:
    """Copy files from the environment that the scope used before, and return warnings about the copy."""
    if not before.started.done():
        starting = asyncio.wrap_future(before.started)
        await asyncio.wait({starting})
        starting.exception()
    if before.started.exception() is not None:
        return ()  # no program ever ran there
    left = await carry_over(before.sandbox, place.sandbox)
    sentences = []
    if left:
        sentences.append(f"files of earlier calls could not be kept: {', '.join(left)}")
    if before.users > 1:
        sentences.append("another program of this conversation still runs elsewhere: files that it writes are not kept")
    return tuple(sentences)


async def carry_over(old: Sandbox, new: Sandbox) -> list[str]:
    """Copy the files of one workspace to another, except those below `input`, and return the paths that could not be
    copied.
    """
    left = []
    for entry in await old.list_files(recursive=True):
        if entry.path == "input" or entry.path.startswith("input/"):
            continue
        try:
            if entry.kind == "folder":
                await new.make_dir(entry.path)
            elif entry.kind == "file":
                await new.write_file(entry.path, await old.read_file(entry.path), mode=entry.mode, label=old.label)
            else:
                left.append(entry.path)
        except (FileError, InvalidValue, Unsupported):  # the latter two for a label that it must not have there
            left.append(entry.path)
    return left
