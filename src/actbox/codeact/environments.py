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

from actbox.core.errors import FileError, InvalidValue, SandboxStopped
from actbox.core.policy import Policy
from actbox.sandbox.contract import Sandbox

from .turns import Turns

MOST_ENVIRONMENTS: Final = 32
"""Sandboxes that stay open when nothing runs in them; the one that was not used for longest goes first."""
MOST_FLEETING: Final = 8
"""The same of scopes that do not last, which are counted by themselves."""
_MOST_FORGOTTEN: Final = 1000

Key = tuple[str, str | None]

_CLOSED = "the sandboxes were closed; make a new provider or tool"
_FORGOTTEN = "the files of earlier calls are gone: their sandbox was closed, as it had not been used for long"


@dataclass(eq=False, slots=True)
class Environment:
    """A sandbox and who uses it. `turns` are of what may go on only once here; `warnings` are for the next result."""

    sandbox: Sandbox
    started: Future[None] = field(default_factory=Future)
    users: int = 0
    dropped: bool = False
    lasting: bool = True
    turns: Turns = field(default_factory=Turns)
    warnings: tuple[str, ...] = ()


class Environments:
    """Sandboxes by what they are (`FrozenRun.environment`) and whose they are, opened when they are first used.

    One that is nobody's (scope `None`) keeps no files that anybody would look for. Where a conversation needs another
    sandbox than before, since mounts, hosts or limits were changed, it finds its files there. Runs may use one sandbox
    at once, from several event loops and threads.
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
        """Have a running sandbox for a block. Raises what opening raises, and `SandboxStopped` after `close`.

        Scopes that do not last never have others closed, and at most `MOST_FLEETING` of theirs stay open.
        """
        place, is_new, before = self._take((environment, scope), policy, lasting)
        try:
            if is_new:
                # Shielded: others may wait for it whoever began it is cancelled.
                await asyncio.shield(asyncio.ensure_future(self._start((environment, scope), place, before)))
            elif not place.started.done():
                await asyncio.shield(asyncio.wrap_future(place.started))
            else:
                place.started.result()
            yield place
        finally:
            await self._leave(place)

    async def leave(self, scope: str) -> None:
        """Close what a scope has, when nothing runs there any more; its files are not missed."""
        with self._lock:
            left = [place for key, place in self._kept.items() if key[1] == scope]
            self._kept = OrderedDict((key, place) for key, place in self._kept.items() if key[1] != scope)
            for place in left:
                place.dropped = True
            idle = [place for place in left if not place.users]
        for place in idle:
            await place.sandbox.stop()

    async def close(self) -> None:
        """Stop all sandboxes, and with them what runs there."""
        with self._lock:
            self._closed = True
            kept = list(self._kept.values())
            self._kept.clear()
            for place in kept:
                place.dropped = True
        await asyncio.gather(*map(_end, kept))

    def _take(self, key: Key, policy: Policy, lasting: bool) -> tuple[Environment, bool, Environment | None]:
        """Return the environment, whether it has to be started, and the one that its owner had before."""
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
                place.users += 1  # whoever starts it, also when the caller is cancelled meanwhile
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
            place.started.exception()  # somebody has seen it: this caller
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
        """Have an environment closed when nothing runs there any more, and used by nobody else from now on."""
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
        starting.exception()  # told to whoever waits to run there
    await place.sandbox.stop()


async def _carried_over(before: Environment, place: Environment) -> tuple[str, ...]:
    """Copy files from the environment that the owner had before; return what is to be said of it."""
    if not before.started.done():
        starting = asyncio.wrap_future(before.started)
        await asyncio.wait({starting})
        starting.exception()
    if before.started.exception() is not None:
        return ()  # no program ever ran there
    left = await carry_over(before.sandbox, place.sandbox)
    said = []
    if left:
        said.append(f"files of earlier calls could not be kept: {', '.join(left)}")
    if before.users > 1:
        said.append("another program of this conversation still runs elsewhere: files that it writes are not kept")
    return tuple(said)


async def carry_over(old: Sandbox, new: Sandbox) -> list[str]:
    """Copy the files of one workspace to another, but for those below `input`; return the paths that could not be."""
    left = []
    for entry in await old.list_files(recursive=True):
        if entry.path == "input" or entry.path.startswith("input/"):
            continue
        try:
            if entry.kind == "folder":
                await new.make_dir(entry.path)
            elif entry.kind == "file":
                await new.write_file(entry.path, await old.read_file(entry.path))
            else:
                left.append(entry.path)
        except FileError:
            left.append(entry.path)
    return left
