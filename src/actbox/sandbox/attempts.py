"""A program that may need packages: it gets those that it names, and begins again with one that it misses.

It begins again only if the policy admits the package and the program has had no effect: no tool was called, no file
written, no request made, and no output shown. Otherwise its model is told what to send.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import aclosing
from dataclasses import replace
from typing import Protocol

from actbox.core.errors import ErrorInfo, ErrorKind
from actbox.core.events import Completed, Event, NetworkRequest, Output, RunRestarted, ToolStarted
from actbox.core.policy import Policy
from actbox.core.program import Program
from actbox.core.result import ExecutionResult
from actbox.tools import Approver

from .dependencies import NotProvided, Provided, package_of
from .guest.notebook import NO_INSTALLS

MOST_PACKAGES = 8
"""The most packages that one program may miss, one after the other, and get."""

# A marker is unknown for a tick of the kernel's clock after a change: for 1 to 10 ms.
_TICK_SECONDS = 0.001
_MOST_TICKS = 25

_MOST_NAMED, _MOST_NAME = 3, 60
# True for programs from Python, for tool calls and for fenced blocks: each has at least the script block.
_NAME_THEM = (
    "name the packages in `dependencies`, or in a script block at the top of the program (`# /// script`,"
    ' `# dependencies = ["NAME"]`, `# ///`); in a session, `%pip install` works'
)
_NOT_THERE = ("is not installed in this environment", "is not installed here", "has the standard library only")
"""Words of the engines' hints for a module that is not installed."""
_MISSING = re.compile(r"No module named '([\w.]+)'", re.ASCII)
_MISSING_IN_NODE = re.compile(r"Cannot find (?:module|package) '([\w@./-]+)'", re.ASCII)


class Attempt(Protocol):
    """A run of the program; it closes its packages."""

    @property
    def requests(self) -> int:
        """How many requests to the network the program has made."""

    def events(self) -> AsyncGenerator[Event]:
        """Run the program and yield its events."""


class Attempts:
    """The attempts at one program. Call `finish` or `events` once."""

    def __init__(
        self,
        program: Program,
        policy: Policy,
        approver: Approver | None,
        provide: Callable[[Program, Callable[[Event], None]], Awaitable[Provided]],
        run_of: Callable[[Program, Provided, Callable[[], Awaitable[None]]], Attempt],
        changes: Callable[[], object] | None,
    ) -> None:
        """`run_of` returns a run, which closes its packages and calls a function when the program's files are there.

        `changes` returns a marker of the workspace, `None` right after a change; without it nobody can tell changes.
        """
        self._program = program
        self._policy = policy
        self._may_ask = approver is not None or (policy.packages is not None and policy.packages.approver is not None)
        self._provide = provide
        self._run_of = run_of
        self._changes = changes
        self._before: object = None
        self._added: tuple[str, ...] = ()
        self._had: tuple[str, ...] = ()
        """The packages of `_added` with which the program has begun."""
        self._called: dict[str, None] = {}
        """The tools that the attempt has called."""
        self._is_seen = False

    async def finish(self) -> ExecutionResult:
        """Run the program and return its result; its output counts as shown only with that."""
        async with aclosing(self._events()) as events:
            async for event in events:
                if isinstance(event, Completed):
                    return event.result
        raise AssertionError("a run ended without Completed")

    async def events(self) -> AsyncGenerator[Event]:
        """Run the program and yield its events."""
        self._is_seen = True
        async with aclosing(self._events()) as events:
            async for event in events:
                yield event

    async def _events(self) -> AsyncGenerator[Event]:
        while True:
            effects = list[str]()
            result: ExecutionResult | None = None
            async with aclosing(self._once(effects)) as events:
                async for event in events:
                    if isinstance(event, Completed):
                        result = event.result
                    else:
                        yield event
            assert result is not None, "a run ended without Completed"
            found = self._package_missed(result)
            package = found if isinstance(found, str) else ""
            effects += self._left(result) if package else []
            if package and not effects:
                self._added = (*self._added, package)
                self._program = replace(self._program, dependencies=(*self._program.dependencies, package))
                yield RunRestarted(package)
                continue
            if isinstance(found, ErrorInfo):
                result = _not_admitted(result, found)
            yield Completed(self._concluded(result, package, effects))
            return

    async def _once(self, effects: list[str]) -> AsyncGenerator[Event]:
        """Yield the events of one attempt, and add what has had an effect while it ran."""
        told: asyncio.Queue[Event | None] = asyncio.Queue()
        providing = asyncio.ensure_future(self._provide(self._program, told.put_nowait))
        providing.add_done_callback(lambda done: told.put_nowait(None))
        try:
            while (asked := await told.get()) is not None:
                yield asked
            run = self._run_of(self._program, await providing, self._mark)
            self._had, self._called = self._added, {}
            hosts: dict[str, None] = {}
            async with aclosing(run.events()) as events:
                async for event in events:
                    if isinstance(event, Output) and self._is_seen and "output was shown" not in effects:
                        effects.append("output was shown")
                    if isinstance(event, ToolStarted):
                        self._called[event.tool] = None
                    if isinstance(event, NetworkRequest):
                        hosts[event.host] = None
                    if isinstance(event, Completed) and run.requests:
                        effects.append("it has made requests to the network" + _named(hosts))
                    yield event
        except NotProvided as refusal:
            yield Completed(refusal.result)
        finally:  # what was provided for a caller who has gone belongs to nobody
            providing.cancel()
            for packages in await asyncio.gather(providing, return_exceptions=True):
                if not isinstance(packages, BaseException):
                    packages.close()

    def _package_missed(self, result: ExecutionResult) -> str | ErrorInfo:
        """Return the package that the program missed, its error if it may not have it, "" for any other end.

        The program may have lied about it.
        """
        error = result.error
        if error is None or error.kind is not ErrorKind.MISSING_DEPENDENCY or self._policy.packages is None:
            return ""
        in_node = self._program.language != "python"
        found = (_MISSING_IN_NODE if in_node else _MISSING).match(error.message)
        is_missing = error.type == ("Error" if in_node else "ModuleNotFoundError")
        if found is None or not is_missing or len(self._added) >= MOST_PACKAGES:
            return ""
        most = self._policy.clearance(None)
        if most is not None and not result.label <= most:
            return ""  # its name would leave with the request to the package index
        package = package_of(found[1], self._policy, self._may_ask, self._program.language)
        return "" if package in self._added else package

    async def _mark(self) -> None:
        """Note how the workspace is before the program begins."""
        if self._changes is None:
            return
        for _ in range(_MOST_TICKS):
            self._before = self._changes()
            if self._before is not None:
                return
            await asyncio.sleep(_TICK_SECONDS)  # it has just changed, and the next change could have the same time

    def _left(self, result: ExecutionResult) -> list[str]:
        """Return what the program has done that a second attempt would do again."""
        left = []
        if result.usage.tool_calls:
            left.append("it has called tools" + _named(self._called))
        writable = any(mount.mode == "rw" for mount in self._policy.mounts)
        unknown = self._changes is None or self._before is None or self._changes() != self._before
        if writable or result.artifacts or result.changes or unknown:
            files = [f"/output/{one.name}" for one in result.artifacts]
            files += [f"{one.mount}/{one.path}" for one in result.changes]
            left.append("it may have written files" + _named(files))
        return left

    def _concluded(self, result: ExecutionResult, package: str, effects: list[str]) -> ExecutionResult:
        if self._had:
            names = ", ".join(self._had)
            said = f"the program missed {names}, and was begun again with it before it had had any effect"
            result = replace(result, warnings=(*result.warnings, said))
        error = result.error
        if error is not None and error.hint.startswith(NO_INSTALLS):  # they can be had, but not by such a line
            result = replace(result, error=replace(error, hint=NO_INSTALLS + _NAME_THEM))
        if package and result.error is not None:
            hint = (
                f"{package} can be had, but the program was not begun again, because {' and '.join(effects)}: send what"
                f" is left of it with {package!r} in `dependencies`"
            )
            if self._program.language == "python":
                block = f'`# /// script`, `# dependencies = ["{package}"]`, `# ///`'
                hint += f", or in a script block at its top ({block})"
            result = replace(result, error=replace(result.error, hint=hint))
        return result


def _not_admitted(result: ExecutionResult, refusal: ErrorInfo) -> ExecutionResult:
    """Return the result of a program that misses a package which the policy does not admit."""
    error = result.error
    assert error is not None
    if refusal.kind is ErrorKind.POLICY:
        said = f"{refusal.type}: {refusal.message}"
        trace = error.traceback.replace(f"{error.type}: {error.message}", said)
        error = replace(refusal, line=error.line, traceback=trace)
    elif any(words in error.hint for words in _NOT_THERE):  # other hints know more
        error = replace(error, hint=refusal.hint)
    return replace(result, error=error)


def _named(names: Iterable[str]) -> str:
    """Return a few names in parentheses, "" for none."""
    first, *more = [ascii(one)[1:-1][:_MOST_NAME] for one in names] or [""]
    shown = ", ".join([first, *more[: _MOST_NAMED - 1], *(["…"] if len(more) >= _MOST_NAMED else [])])
    return f" ({shown})" if first else ""
