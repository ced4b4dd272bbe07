"""Translation between Strands' terms and ours: interpreter names, sentences that name `open_sandbox`, and results."""

from __future__ import annotations

import re
from typing import Final, NoReturn

from strands.sandbox import ExecutionResult, OutputFile, StreamChunk
from strands.sandbox.errors import SandboxTimeoutError

import actbox
from actbox.content.safe_text import encodable
from actbox.core.errors import ErrorInfo, ErrorKind
from actbox.sandbox.languages import wrong_language
from actbox.sandbox.traits import Traits

_LANGUAGES: Final = {
    "python": "python",
    "python3": "python",
    "py": "python",
    "javascript": "javascript",
    "js": "javascript",
    "node": "javascript",
    "nodejs": "javascript",
    "typescript": "typescript",
    "ts": "typescript",
    "rtfs": "rtfs",
}
# The seconds by which a run that timed out may have exceeded the caller's timeout.
_SLACK_SECONDS = 1.0
_SHELLS: Final = {"sh": "sh", "shell": "sh", "bash": "bash", "dash": "dash", "zsh": "zsh"}


def language_of(name: str, traits: Traits) -> str:
    """Return the language that a name stands for. Raises `Unsupported` if the engine does not run it."""
    language = _LANGUAGES.get(str(name).lower(), str(name))
    if language not in traits.languages:
        raise wrong_language(traits.engine, language, traits.languages)
    return language


def shell_of(name: str, traits: Traits) -> str | None:
    """Return the shell that a name stands for; `None` if it is no shell or the engine runs no commands."""
    return _SHELLS.get(str(name).lower()) if traits.commands else None


def as_strands_says(sentence: str, call: str = r"StrandsSandbox(\1)") -> str:
    """Return a sentence of the library with `call` in place of each `open_sandbox(…)` in it."""
    return re.sub(r"open_sandbox\(([^()]*)\)", call, sentence)


def messages_of(result: actbox.ExecutionResult) -> str:
    """Return a result's messages besides its output: why it failed, as an interpreter would print it, and warnings."""
    lines = [f"warning: {warning}" for warning in result.warnings]
    if result.error is not None:
        lines += _lines_of(result.error)
    text = "".join(f"{line}\n" for line in lines)
    return f"\n{text}" if text and result.stderr and not result.stderr.endswith("\n") else text


def _lines_of(error: ErrorInfo) -> list[str]:
    if error.kind is ErrorKind.EXIT:  # a program that exits with a code has printed its reason itself
        return []
    traceback = error.traceback.rstrip("\n")
    what = traceback or ": ".join(filter(None, (error.type, error.message)))
    return [what, f"hint: {error.hint}"] if error.hint else [what]


def chunk_of(event: actbox.Output) -> StreamChunk:
    """Return a piece of output in Strands' form."""
    return StreamChunk(encodable(event.text), event.stream)


def strands_result(result: actbox.ExecutionResult, messages: str) -> ExecutionResult:
    """Return a result in Strands' form; `messages`, from `messages_of`, are appended to its standard error."""
    files = [OutputFile(item.name, item.data, item.media_type) for item in result.artifacts]
    return ExecutionResult(result.exit_code, encodable(result.stdout), encodable(result.stderr) + messages, files)


def raise_timeout(result: actbox.ExecutionResult, timeout: float | None) -> NoReturn:
    """Raise Strands' timeout error with the output so far; `timeout` is the requested one."""
    assert result.error is not None
    sentence = result.error.message
    if timeout is not None and result.usage.wall_ms / 1000 + _SLACK_SECONDS < timeout:
        sentence += f"; the sandbox's policy allows no more, though {timeout:g} seconds were asked for"
    error = SandboxTimeoutError(timeout, encodable(result.stdout), encodable(result.stderr))
    error.args = (f"Execution timed out: {sentence}",)
    raise error
