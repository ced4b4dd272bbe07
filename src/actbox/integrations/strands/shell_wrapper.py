"""Passes a command and a shell's state into the sandbox, and the new state out, hidden from other commands there.

Other commands of the same sandbox run as the same user and see the same files, so neither the command nor the state is
stored in a file. The command goes in by standard input. The state comes out by standard error, in a frame around a
token that only this command receives and that its child processes do not see. Here the frame is removed from the
output. A command that finds out the token can forge a frame: it then misleads only its own caller.
"""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Final, Literal

from strands.sandbox import ExecutionResult, Sandbox, StreamChunk
from strands.sandbox.errors import SandboxTimeoutError

from actbox.core.errors import ActboxError
from actbox.sandbox.blocking import run_blocking

from .agent_sandbox import AgentSandbox

OWN: Final = "__actbox_"
"""The prefix of the wrapper's own variables."""
GONE: Final = "gone"
"""The report if the command's directory is missing: nothing ran."""
MANY: Final = "many"
"""The report in place of variables that are too large to keep."""

# The most hexadecimal digits of variables that the wrapper sends, and the most characters of its whole report.
_MOST_OF_VARIABLES: Final = 400_000
_MOST_CHARS: Final = 450_000
# `command` skips functions of the same name, and its `-p` ignores a broken PATH. An EXIT trap of the command replaces
# this one. If the command redirects its standard error by `exec`, the frame still goes to the original descriptor.
_WRAPPER: Final = r"""
IFS= read -r __actbox_token
__actbox_command=$(command -p cat; echo .)
exec FD>&2 </dev/null
cd -- "$__actbox_folder" || { command echo "[$__actbox_token:gone]" >&FD; exit 126; }
if [ -n "$__actbox_before" ]; then OLDPWD=$__actbox_before; else unset OLDPWD; fi
unset __actbox_folder __actbox_before __actbox_kept __actbox_unset $__actbox_unset
__actbox_in_hex() { command -p od -An -v -tx1 | command -p tr -d ' \n'; }
__actbox_keep() {
    __actbox_code=$?
    if [ -z "${__actbox_kept-}" ] &&
        __actbox_folders=$({ command pwd -P; command printf '\0%s' "${OLDPWD-}"; } | __actbox_in_hex) &&
        __actbox_variables=$(command -p env -0 | __actbox_in_hex)
    then
        [ "${#__actbox_variables}" -le MOST ] || __actbox_variables=many
        command echo "[$__actbox_token:$__actbox_folders:$__actbox_variables]" >&FD && __actbox_kept=1
    fi 2>/dev/null
    return "$__actbox_code"
}
trap '__actbox_keep; exit "$__actbox_code"' EXIT
eval "${__actbox_command%.}"
__actbox_keep
exit "$__actbox_code"
"""
# For sandboxes whose commands have no standard input.
_FROM_FILE: Final = r"""
exec <"$__actbox_file" || exit 126
command -p rm -f -- "$__actbox_file"
unset __actbox_file
"""
# Scripts often use the last descriptor and the first ones.
_DESCRIPTORS: Final = "7654389"
_END: Final = "]\n"

StreamType = Literal["stdout", "stderr"]


class Report:
    """The report of one command on its state when it ends."""

    def __init__(self) -> None:
        self.token = secrets.token_hex(16)
        """The token that frames the report."""
        self.state: list[str] | None = None
        """`[GONE]`, or the directories and exported variables, each in hexadecimal; `None` without a
        complete report.
        """


async def run_wrapped(
    sandbox: Sandbox, command: str, timeout: float | None, variables: Mapping[str, str], report: Report
) -> AsyncGenerator[StreamChunk | ExecutionResult]:
    """Run a command with variables (the wrapper's own by their names without `OWN`), and fill in its report.

    Yields output and the result without the report. A sandbox of Strands' own gives commands no standard input: there
    the command lies in a file until it begins, so callers must trust each other.
    """
    script = f"{report.token}\n".encode() + command.encode("utf-8", "surrogateescape")
    wrapper = _WRAPPER.replace("FD", _descriptor_beside(command)).replace("MOST", str(_MOST_OF_VARIABLES))
    if isinstance(sandbox, AgentSandbox):
        output = sandbox.execute_streaming(wrapper, timeout=timeout, env=dict(variables), stdin=script)
        async with aclosing(_without_report(output, report)) as items:
            async for item in items:
                yield item
        return

    place = f"/tmp/.actbox-shell-{secrets.token_hex(8)}"
    try:
        await sandbox.write_file(place, script)
        output = sandbox.execute_streaming(
            _FROM_FILE + wrapper, timeout=timeout, env={**variables, f"{OWN}file": place}
        )
        async with aclosing(_without_report(output, report)) as items:
            async for item in items:
                yield item
    finally:
        with contextlib.suppress(OSError, ActboxError):  # the file was read and removed, or the sandbox is gone
            await sandbox.remove_file(place)


def _descriptor_beside(command: str) -> str:
    """Return the number of a descriptor that a command's text does not mention."""
    free = [number for number in _DESCRIPTORS if f"{number}>" not in command and f"{number}<" not in command]
    return free[0] if free else _DESCRIPTORS[0]


async def _without_report(
    output: AsyncGenerator[StreamChunk | ExecutionResult], report: Report
) -> AsyncGenerator[StreamChunk | ExecutionResult]:
    # A sandbox of another kind may put both streams into one.
    frames: dict[StreamType, Frames] = {"stdout": Frames(report.token), "stderr": Frames(report.token)}
    async with aclosing(output):
        try:
            async for item in output:
                if isinstance(item, StreamChunk):
                    if text := frames[item.stream_type].passed(item.data):
                        yield StreamChunk(text, item.stream_type)
                    continue
                for stream, of_stream in frames.items():
                    if text := of_stream.rest():
                        yield StreamChunk(text, stream)
                stdout, in_stdout = await run_blocking(parted, item.stdout, report.token)
                stderr, in_stderr = await run_blocking(parted, item.stderr, report.token)
                inside = in_stderr or in_stdout
                report.state = inside.split(":", 2) if inside else None
                yield dataclasses.replace(item, stdout=stdout, stderr=stderr)
        except SandboxTimeoutError as error:
            error.stdout, _ = await run_blocking(parted, error.stdout, report.token)
            error.stderr, _ = await run_blocking(parted, error.stderr, report.token)
            raise


def parted(text: str, token: str) -> tuple[str, str | None]:
    """Return a text without frames, and the content of the last frame."""
    frames = Frames(token)
    return frames.passed(text) + frames.rest(), frames.inside


class Frames:
    """A filter that removes frames, from `[token:` to `]` and the end of the line, from a text in pieces."""

    def __init__(self, token: str) -> None:
        self.inside: str | None = None
        """The content of the last complete frame; `None` for one that is longer than any of the wrapper's."""
        self._begin = f"[{token}:"
        self._held = ""
        self._pieces: list[str] | None = None
        self._chars = 0

    def passed(self, text: str) -> str:
        """Return the next piece without frames; a possible beginning of a frame is held back."""
        text, self._held = self._held + text, ""
        out = []
        place = 0
        while place < len(text):
            if self._pieces is None:
                begin = text.find(self._begin, place)
                if begin < 0:
                    end = len(text) - self._begun(text[place:])
                    out.append(text[place:end])
                    self._held = text[end:]
                    break
                out.append(text[place:begin])
                self._pieces, self._chars = [], 0
                place = begin + len(self._begin)
            else:
                end = text.find(_END, place)
                piece = text[place:] if end < 0 else text[place:end]
                if end < 0 and piece.endswith("]"):
                    piece, self._held = piece[:-1], "]"
                self._chars += len(piece)
                if self._chars <= _MOST_CHARS:
                    self._pieces.append(piece)
                if end < 0:
                    break
                self.inside = "".join(self._pieces) if self._chars <= _MOST_CHARS else None
                self._pieces = None
                place = end + len(_END)
        return "".join(out)

    def rest(self) -> str:
        """Return the text held back, at the end."""
        held, self._held = self._held, ""
        return held if self._pieces is None else ""

    def _begun(self, text: str) -> int:
        """Return how many characters at the end of a text may begin a frame."""
        most = min(len(text), len(self._begin) - 1)
        return next((count for count in range(most, 0, -1) if text.endswith(self._begin[:count])), 0)
