"""A shell that keeps its folder and its exported variables from command to command, in a sandbox that keeps neither.

Each command runs in a fresh shell. What it changes travels beside its output: the shell itself writes its folder and
its environment to a file when it ends, and the next one is begun with what was read from there.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from strands.sandbox import ExecutionResult, Sandbox, StreamChunk
from strands.sandbox.constants import ENV_KEY_PATTERN

from actbox.core.errors import ActboxError, InvalidValue
from actbox.sandbox.slots import Slots

from .sandbox import StrandsSandbox

# A constant: the command lies in a file, all else comes in variables. `command` passes over functions of the same name,
# and `-p` over a PATH that leads nowhere. An EXIT trap of the command's own takes the place of this one.
_WRAPPER: Final = r"""
cd -- "$__actbox_folder" || { command printf gone >"$__actbox_file"; exit 126; }
if [ -n "$__actbox_before" ]; then OLDPWD=$__actbox_before; else unset OLDPWD; fi
__actbox_place=$__actbox_file
unset __actbox_folder __actbox_before __actbox_file __actbox_kept __actbox_unset $__actbox_unset
__actbox_keep() {
    __actbox_code=$?
    if [ -z "${__actbox_kept-}" ]; then
        { command pwd -P; command printf '\0%s\0' "${OLDPWD-}"; command -p env -0; } >|"$__actbox_place.new" &&
            command -p mv -f -- "$__actbox_place.new" "$__actbox_place" && __actbox_kept=1
    fi 2>/dev/null
    return "$__actbox_code"
}
trap '__actbox_keep; exit "$__actbox_code"' EXIT
__actbox_command=$(command -p cat -- "$__actbox_place.command"; echo .)
command -p rm -f -- "$__actbox_place.command"
eval "${__actbox_command%.}"
__actbox_keep
exit "$__actbox_code"
"""
_OWN = "__actbox_"
# What every shell sets anew.
_NOT_KEPT = frozenset({"PWD", "OLDPWD", "SHLVL", "_"})
# They are given to each command in one piece, of which a kernel takes so much.
_MOST_BYTES = 100_000

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
            place = await _place_in(sandbox)
            try:
                async with aclosing(self._run(sandbox, place, command, timeout)) as output:
                    async for item in output:
                        yield item
                left = await _left(sandbox, place)
            finally:
                await _clear(sandbox, place)
            if note := self._take(left):
                yield note

    async def _begin(self, sandbox: Sandbox, timeout: float) -> None:
        """Learn where a fresh shell starts, and with which variables."""
        self.folder = "."
        place = await _place_in(sandbox)
        try:
            async with aclosing(self._run(sandbox, place, ":", timeout)) as output:
                async for _ in output:
                    pass
            self._take(await _left(sandbox, place))
        finally:
            await _clear(sandbox, place)
        self._fresh, self._variables = self._variables, {}
        self._first_folder = self.folder

    async def _run(
        self, sandbox: Sandbox, place: str, command: str, timeout: float
    ) -> AsyncGenerator[StreamChunk | ExecutionResult]:
        await sandbox.write_file(f"{place}.command", command.encode("utf-8", "surrogateescape"))
        told = {"file": place, "folder": self.folder, "before": self._before, "unset": " ".join(sorted(self._unset))}
        variables = self._variables | {f"{_OWN}{name}": value for name, value in told.items()}
        async with aclosing(sandbox.execute_streaming(_WRAPPER, timeout=timeout, env=variables)) as output:
            async for item in output:
                yield item

    def _take(self, left: bytes | None) -> str:
        """Take over what a command has left; return a sentence where not all of it could be."""
        if left == b"gone":
            folder, self.folder = self.folder, self._first_folder
            return f"the folder {folder} has gone: nothing ran, and the next command starts in {self.folder}"
        parts = [] if left is None else left.split(b"\0")
        if len(parts) < 3 or not parts[0].endswith(b"\n"):
            return _UNTOLD
        notes = []
        try:
            folder, before = parts[0][:-1].decode(), parts[1].decode()
        except UnicodeDecodeError:
            notes.append(f"the folder stays {self.folder}, since the name of the new one is no UTF-8")
        else:
            if folder:
                self.folder, self._before = folder, before
            else:
                self.folder = self._first_folder
                notes.append(f"the folder has gone: the next command starts in {self.folder}")
        found, not_text = _variables_of(parts[2:])
        if not_text:
            notes.append(f"not kept, since it is no UTF-8: {', '.join(not_text)}")
        changed = {name: value for name, value in found.items() if self._fresh.get(name) != value}
        if sum(len(name) + len(value.encode()) for name, value in changed.items()) > _MOST_BYTES:
            notes.append(f"the variables stay what they were: the exported ones have more than {_MOST_BYTES:,} bytes")
        else:
            self._variables, self._unset = changed, frozenset(self._fresh).difference(found, not_text)
        return "; ".join(notes)


def _variables_of(pairs: list[bytes]) -> tuple[dict[str, str], list[str]]:
    """Return the variables that a shell can be given again, and the names of those whose values are no text."""
    found: dict[str, str] = {}
    not_text = []
    for pair in pairs:
        name, _, value = pair.decode("utf-8", "surrogateescape").partition("=")
        if not ENV_KEY_PATTERN.fullmatch(name) or name.startswith(_OWN) or name in _NOT_KEPT:
            continue
        try:
            value.encode()
            found[name] = value
        except UnicodeEncodeError:
            not_text.append(name)
    return found, not_text


async def _place_in(sandbox: Sandbox) -> str:
    """Return a path for the files of one command, which commands and file methods know by the same name."""
    root = (await sandbox.ready()).root if isinstance(sandbox, StrandsSandbox) else "/tmp"
    return f"{root}/.actbox-shell-{secrets.token_hex(8)}"


async def _left(sandbox: Sandbox, place: str) -> bytes | None:
    try:
        return await sandbox.read_file(place)
    except FileNotFoundError:
        return None


async def _clear(sandbox: Sandbox, place: str) -> None:
    for path in (place, f"{place}.command", f"{place}.new"):
        with contextlib.suppress(OSError, ActboxError):  # it has gone, or the sandbox has
            await sandbox.remove_file(path)
