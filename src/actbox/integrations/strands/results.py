"""Events and results of ours in the form of Strands' sandboxes."""

from __future__ import annotations

from typing import NoReturn

from strands.sandbox import ExecutionResult, OutputFile, StreamChunk
from strands.sandbox.errors import SandboxTimeoutError

import actbox
from actbox.content.safe_text import encodable
from actbox.core.errors import ErrorInfo, ErrorKind

# So much more than the caller's timeout a run may have lasted that ran into it.
_SLACK_SECONDS = 1.0


def said_of(result: actbox.ExecutionResult) -> str:
    """Return what a result says beside what was printed: why it failed, as an interpreter would, and the warnings."""
    said = [f"warning: {warning}" for warning in result.warnings]
    if result.error is not None:
        said += _lines_of(result.error)
    text = "".join(f"{line}\n" for line in said)
    return f"\n{text}" if text and result.stderr and not result.stderr.endswith("\n") else text


def _lines_of(error: ErrorInfo) -> list[str]:
    if error.kind is ErrorKind.EXIT:  # whoever ends with a code has said why
        return []
    traceback = error.traceback.rstrip("\n")
    what = traceback or ": ".join(filter(None, (error.type, error.message)))
    return [what, f"hint: {error.hint}"] if error.hint else [what]


def chunk_of(event: actbox.Output) -> StreamChunk:
    """Return a piece of output."""
    return StreamChunk(encodable(event.text), event.stream)


def result_of(result: actbox.ExecutionResult, said: str) -> ExecutionResult:
    """Return a result; `said` is what `said_of` says, and ends its standard error."""
    files = [OutputFile(item.name, item.data, item.media_type) for item in result.artifacts]
    return ExecutionResult(result.exit_code, encodable(result.stdout), encodable(result.stderr) + said, files)


def raise_timeout(result: actbox.ExecutionResult, timeout: float | None) -> NoReturn:
    """Raise Strands' error for a run that ran out of time, with what it had printed; `timeout` was asked for."""
    assert result.error is not None
    said = result.error.message
    if timeout is not None and result.usage.wall_ms / 1000 + _SLACK_SECONDS < timeout:
        said += f"; the sandbox's policy allows no more, though {timeout:g} seconds were asked for"
    error = SandboxTimeoutError(timeout, encodable(result.stdout), encodable(result.stderr))
    error.args = (f"Execution timed out: {said}",)
    raise error
