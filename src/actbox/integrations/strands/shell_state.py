"""A shell that keeps its directory and exported variables between commands, in a sandbox that keeps neither.

Each command runs in a fresh shell. When it ends, the shell reports its directory and its environment beside its output
(`shell_wrapper`), and the next shell starts with them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing

from strands.sandbox import ExecutionResult, Sandbox, StreamChunk
from strands.sandbox.constants import ENV_KEY_PATTERN

from actbox.core.errors import InvalidValue
from actbox.sandbox.run_slots import Slots

from .shell_wrapper import GONE, MANY, OWN, Report, run_wrapped

# Variables that every shell sets itself.
_NOT_KEPT = frozenset({"PWD", "OLDPWD", "SHLVL", "_"})
# Variables are passed to each command in one argument, whose size the kernel limits.
_MOST_BYTES = 100_000
_MOST_VARIABLES = 10_000
_MOST_FOLDER_BYTES = 20_000
_MOST_NAMED = 20

_NO_REPORT = "the command ended without telling its directory and variables: both are as they were before it"


class ShellState:
    """The shell of one caller. Its commands run one after the other, as in a terminal."""

    def __init__(self) -> None:
        self.folder = ""
        """The directory in which the next command starts; empty before the first."""
        self._first_folder = ""
        """The directory in which a fresh shell starts."""
        self._before = ""
        self._fresh: dict[str, str] = {}
        self._variables: dict[str, str] = {}
        self._unset: frozenset[str] = frozenset()
        self._turn = Slots(1, tools_wait=True)

    async def run(
        self, sandbox: Sandbox, command: str, timeout: float | None
    ) -> AsyncGenerator[StreamChunk | ExecutionResult | str]:
        """Run a command and yield its output, its result, and a sentence if some of its state cannot be kept.

        Raises `InvalidValue` for an invalid command, `SandboxTimeoutError`, and other errors of the sandbox; the state
        is then unchanged.
        """
        if "\0" in command:
            raise InvalidValue("a command cannot have a NUL character in it")
        async with self._turn:
            if not self._first_folder:
                await self._begin(sandbox, timeout)
            report = Report()
            async with aclosing(self._run(sandbox, command, timeout, report)) as output:
                async for item in output:
                    yield item
            if note := self._apply(report.state):
                yield note

    async def _begin(self, sandbox: Sandbox, timeout: float | None) -> None:
        """Record the directory and variables of a fresh shell."""
        self.folder = "."
        report = Report()
        async with aclosing(self._run(sandbox, ":", timeout, report)) as output:
            async for _ in output:
                pass
        self._apply(report.state)
        self._fresh, self._variables = self._variables, {}
        self._first_folder = self.folder

    def _run(
        self, sandbox: Sandbox, command: str, timeout: float | None, report: Report
    ) -> AsyncGenerator[StreamChunk | ExecutionResult]:
        state = {"folder": self.folder, "before": self._before, "unset": " ".join(sorted(self._unset))}
        variables = self._variables | {f"{OWN}{name}": value for name, value in state.items()}
        return run_wrapped(sandbox, command, timeout, variables, report)

    def _apply(self, reported: list[str] | None) -> str:
        """Store the state that a command has reported; return a sentence if some of it cannot be kept."""
        if reported == [GONE]:
            folder, self.folder = self.folder, self._first_folder
            return f"the directory {folder} has gone: nothing ran, and the next command starts in {self.folder}"
        try:
            folders, variables = (None if part == MANY else bytes.fromhex(part) for part in reported or [])
        except ValueError:
            return _NO_REPORT
        places = folders.split(b"\0") if folders and len(folders) <= _MOST_FOLDER_BYTES else []
        if len(places) != 2 or not places[0].endswith(b"\n") or variables == b"":
            return _NO_REPORT
        return "; ".join([*self._apply_folder(places[0][:-1], places[1]), *self._apply_variables(variables)])

    def _apply_folder(self, folder_bytes: bytes, before_bytes: bytes) -> Iterator[str]:
        try:
            folder, before = folder_bytes.decode(), before_bytes.decode()
        except UnicodeDecodeError:
            yield f"the directory stays {self.folder}, since the name of the new one is no UTF-8"
            return
        if folder:
            self.folder, self._before = folder, before
        else:
            self.folder = self._first_folder
            yield f"the directory has gone: the next command starts in {self.folder}"

    def _apply_variables(self, pairs: bytes | None) -> Iterator[str]:
        stay = "the variables stay what they were: the exported ones"
        if pairs is not None and pairs.count(b"\0") > _MOST_VARIABLES:
            yield f"{stay} are more than {_MOST_VARIABLES:,}"
            return
        found, not_text = _variables_of(pairs.split(b"\0")) if pairs is not None else ({}, [])
        changed = {name: value for name, value in found.items() if self._fresh.get(name) != value}
        if not_text:
            further = "…" if len(not_text) > _MOST_NAMED else ""
            yield f"not kept, since it is no UTF-8: {', '.join(not_text[:_MOST_NAMED])}{further}"
        if pairs is None or sum(len(name) + len(value.encode()) for name, value in changed.items()) > _MOST_BYTES:
            yield f"{stay} have more than {_MOST_BYTES:,} bytes"
        else:
            self._variables, self._unset = changed, frozenset(self._fresh).difference(found, not_text)


def _variables_of(pairs: list[bytes]) -> tuple[dict[str, str], list[str]]:
    """Return the variables that can be set again, and the names of those whose values are not text."""
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
