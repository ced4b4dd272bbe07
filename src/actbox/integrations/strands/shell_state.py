"""A shell that keeps its folder and its exported variables from command to command, in a sandbox that keeps neither.

Each command runs in a fresh shell. What it changes travels beside its output (`shell_wrapper`): the shell itself tells
its folder and its environment when it ends, and the next one is begun with them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing

from strands.sandbox import ExecutionResult, Sandbox, StreamChunk
from strands.sandbox.constants import ENV_KEY_PATTERN

from actbox.core.errors import InvalidValue
from actbox.sandbox.slots import Slots

from .shell_wrapper import GONE, MANY, OWN, Report, run_wrapped

# What every shell sets anew.
_NOT_KEPT = frozenset({"PWD", "OLDPWD", "SHLVL", "_"})
# They are given to each command in one piece, of which a kernel takes so much.
_MOST_BYTES = 100_000
_MOST_VARIABLES = 10_000
_MOST_FOLDER_BYTES = 20_000
_MOST_NAMED = 20

_UNTOLD = "the command ended without telling its folder and variables: both are as they were before it"


class ShellState:
    """The shell of one caller. Its commands run one after the other, as in a terminal."""

    def __init__(self) -> None:
        self.folder = ""
        """Where the next command starts; empty before the first."""
        self._first_folder = ""
        """Where a fresh shell starts."""
        self._before = ""
        self._fresh: dict[str, str] = {}
        self._variables: dict[str, str] = {}
        self._unset: frozenset[str] = frozenset()
        self._turn = Slots(1, tools_wait=True)

    async def run(
        self, sandbox: Sandbox, command: str, timeout: float
    ) -> AsyncGenerator[StreamChunk | ExecutionResult | str]:
        """Run a command and yield its output, its result, and a sentence where something is not kept as it was left.

        Raises `InvalidValue` for what is no command, `SandboxTimeoutError`, and whatever else the sandbox does; the
        state is then what it was before.
        """
        if "\0" in command:
            raise InvalidValue("a command cannot have a NUL character in it")
        async with self._turn.one():
            if not self._first_folder:
                await self._begin(sandbox, timeout)
            report = Report()
            async with aclosing(self._run(sandbox, command, timeout, report)) as output:
                async for item in output:
                    yield item
            if note := self._take(report.told):
                yield note

    async def _begin(self, sandbox: Sandbox, timeout: float) -> None:
        """Learn where a fresh shell starts, and with which variables."""
        self.folder = "."
        report = Report()
        async with aclosing(self._run(sandbox, ":", timeout, report)) as output:
            async for _ in output:
                pass
        self._take(report.told)
        self._fresh, self._variables = self._variables, {}
        self._first_folder = self.folder

    def _run(
        self, sandbox: Sandbox, command: str, timeout: float, report: Report
    ) -> AsyncGenerator[StreamChunk | ExecutionResult]:
        told = {"folder": self.folder, "before": self._before, "unset": " ".join(sorted(self._unset))}
        variables = self._variables | {f"{OWN}{name}": value for name, value in told.items()}
        return run_wrapped(sandbox, command, timeout, variables, report)

    def _take(self, told: list[str] | None) -> str:
        """Take over what a command has told; return a sentence where not all of it could be."""
        if told == [GONE]:
            folder, self.folder = self.folder, self._first_folder
            return f"the folder {folder} has gone: nothing ran, and the next command starts in {self.folder}"
        try:
            folders, variables = (None if part == MANY else bytes.fromhex(part) for part in told or [])
        except ValueError:
            return _UNTOLD
        places = folders.split(b"\0") if folders and len(folders) <= _MOST_FOLDER_BYTES else []
        if len(places) != 2 or not places[0].endswith(b"\n") or variables == b"":
            return _UNTOLD
        return "; ".join([*self._take_folder(places[0][:-1], places[1]), *self._take_variables(variables)])

    def _take_folder(self, told: bytes, told_before: bytes) -> Iterator[str]:
        try:
            folder, before = told.decode(), told_before.decode()
        except UnicodeDecodeError:
            yield f"the folder stays {self.folder}, since the name of the new one is no UTF-8"
            return
        if folder:
            self.folder, self._before = folder, before
        else:
            self.folder = self._first_folder
            yield f"the folder has gone: the next command starts in {self.folder}"

    def _take_variables(self, told: bytes | None) -> Iterator[str]:
        stay = "the variables stay what they were: the exported ones"
        if told is not None and told.count(b"\0") > _MOST_VARIABLES:
            yield f"{stay} are more than {_MOST_VARIABLES:,}"
            return
        found, not_text = _variables_of(told.split(b"\0")) if told is not None else ({}, [])
        changed = {name: value for name, value in found.items() if self._fresh.get(name) != value}
        if not_text:
            further = "…" if len(not_text) > _MOST_NAMED else ""
            yield f"not kept, since it is no UTF-8: {', '.join(not_text[:_MOST_NAMED])}{further}"
        if told is None or sum(len(name) + len(value.encode()) for name, value in changed.items()) > _MOST_BYTES:
            yield f"{stay} have more than {_MOST_BYTES:,} bytes"
        else:
            self._variables, self._unset = changed, frozenset(self._fresh).difference(found, not_text)


def _variables_of(pairs: list[bytes]) -> tuple[dict[str, str], list[str]]:
    """Return the variables that a shell can be given again, and the names of those whose values are no text."""
    found: dict[str, str] = {}
    not_text = []
    for pair in pairs:
        name, _, value = pair.decode("utf-8", "surrogateescape").partition("=")
        if not ENV_KEY_PATTERN.fullmatch(name) or name.startswith(OWN) or name in _NOT_KEPT:
            continue
        try:
            value.encode()
            found[name] = value
        except UnicodeEncodeError:
            not_text.append(name)
    return found, not_text
