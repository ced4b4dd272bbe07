"""The outcome of one call of `execute_code`: the result, its text for the model, and the returned files."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Self

from actbox.content.render import (
    LEAST_CHARS,
    cut,
    cut_json,
    json_length,
    leaves_out,
    render,
    render_stderr,
    render_stdout,
)
from actbox.content.safe_text import encodable, spelt_out
from actbox.core.call_log import CallLog
from actbox.core.counted import counted
from actbox.core.errors import ActboxError, ErrorInfo, ErrorKind, InvalidValue, SandboxStopped, Unsupported
from actbox.core.mounts import OUTPUT
from actbox.core.result import EXIT_NOT_RUN, Artifact, ExecutionResult

from .withholding import may_read, sentence_for_model

if TYPE_CHECKING:
    from .settings import CodeActSettings

MOST_NAMES: Final = 5
"""The most files that a warning names when no files are returned."""
MOST_NAME_CHARS: Final = 100

RUN_GONE: Final = "RunGone"
"""The type of the error for a program that had begun and whose run is gone."""

_log = logging.getLogger("actbox")

# The guest gives these names to files shown with `display`, and to figures left open at the end of a program.
_SHOWN = re.compile(r"(?:figure|image)-[0-9]+\.png|display-[0-9]+\.[a-z]{2,4}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeActOutcome:
    """The outcome of one call of `execute_code`.

    `text` is everything that a model reads of it. `result` has the returned files, and its warnings explain why other
    files are not returned; `left_files` is true if there are any. `calls` are the tool calls of the `program`, which is
    empty if the model sent none. `whole` says where the part that the text omits can be found. `withheld` is the result
    of the sandbox if its label is one that the model may not read: then `result` has a sentence in its place, which is
    the same whatever the program did, and `calls` is empty.
    """

    result: ExecutionResult
    program: str = field(repr=False)
    calls: CallLog = field(repr=False)
    left_files: bool
    text: str = field(repr=False)
    max_chars: int = field(repr=False)
    whole: str = ""
    withheld: ExecutionResult | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls, result: ExecutionResult, settings: CodeActSettings, *, program: str, calls: CallLog, file_surface: bool
    ) -> Self:
        """Return the outcome for a result of the sandbox, with the caps of the settings applied to its files."""
        withheld, cleared = None, settings.model_clearance
        if not may_read(result, cleared):
            withheld, calls = result, CallLog()
            result = sentence_for_model(result, cleared)
        left_files = bool(result.artifacts)
        kept, left_out = _files(result.artifacts, settings, file_surface=file_surface)
        result = replace(result, artifacts=kept, warnings=(*result.warnings, *left_out))
        return cls(
            result=result,
            program=program,
            calls=calls,
            left_files=left_files,
            text=render(result, program=program, calls=calls, max_chars=settings.max_chars, has_run=left_files),
            max_chars=settings.max_chars,
            withheld=withheld,
        )

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        """The files that are returned."""
        return self.result.artifacts

    @property
    def is_cut(self) -> bool:
        """True if the text leaves out a part of the printed output or of the value."""
        return leaves_out(self.result, self.text)

    def printed(self) -> str:
        """Return the whole printed output and the value, for storing when the text leaves out a part."""
        stderr = f"\n[stderr]\n{encodable(self.result.stderr)}" if self.result.stderr else ""
        return render_stdout(self.result) + stderr

    def with_whole(self, whole: str) -> Self:
        """Return a copy whose text says where the whole output is: one line, such as a path."""
        return replace(self, whole=whole, text=self._render(whole=whole))

    def with_calls_listed(self) -> Self:
        """Return a copy whose text lists the tool calls also if the program succeeded."""
        return replace(self, text=self._render(whole=self.whole, always_calls=True))

    def _render(self, *, whole: str, always_calls: bool = False) -> str:
        return render(
            self.result,
            program=self.program,
            calls=self.calls,
            max_chars=self.max_chars,
            whole=whole,
            has_run=self.left_files,
            always_calls=always_calls,
        )

    def to_json_shape(self) -> dict[str, Any]:
        """Return the result as the object of .NET's providers: `stdout`, `stderr`, `exit_code`, `success`.

        `stdout` ends with the text of the last expression's value if there is one, `stderr` with the error and the
        warnings. `output_files` has the paths of the returned files, if there are any.

        The object as JSON text with unescaped non-ASCII characters (`ensure_ascii=False`) has at most `max_chars`
        characters: paths get at most a quarter, and a warning has the number of those not listed. Of the rest `stderr`
        gets what it needs up to two thirds, and `stdout` the remainder.
        """
        result, paths = self.result, self._paths()
        missing = len(result.artifacts) - len(paths)
        if missing:
            result = replace(result, warnings=(*result.warnings, f"{counted(missing, 'more file')} not listed here"))
        shape: dict[str, Any] = {"stdout": "", "stderr": "", "exit_code": result.exit_code, "success": result.success}
        if paths:
            shape["output_files"] = paths
        room = self.max_chars - json_length(shape)
        stderr = render_stderr(
            result,
            program=self.program,
            calls=self.calls,
            max_chars=max(2 * room // 3, LEAST_CHARS),
            has_run=self.left_files,
            whole=self.whole,
        )
        # The two quotes of each text are counted with the shape already.
        shape["stderr"] = cut_json(stderr, 2 + 2 * room // 3, whole=self.whole)
        shape["stdout"] = cut_json(render_stdout(result), 2 + self.max_chars - json_length(shape), whole=self.whole)
        return shape

    def _paths(self) -> list[str]:
        """Return the paths of the returned files, as many as fit into a quarter of `max_chars`."""
        paths: list[str] = []
        for artifact in self.result.artifacts:
            paths.append(f"{OUTPUT}/{encodable(artifact.name)}")
            if json_length(paths) > self.max_chars // 4:
                return paths[:-1]
        return paths


def not_run(kind: ErrorKind, message: str, *, hint: str = "", type: str = "") -> ExecutionResult:
    """Return the result of a program that did not run."""
    error = ErrorInfo(kind=kind, type=type, message=message, hint=hint)
    return ExecutionResult(exit_code=EXIT_NOT_RUN, error=error)


def run_gone(why: str) -> ExecutionResult:
    """Return the result of a program that had begun and whose run is gone, for the reason `why`."""
    hint = "find out what was done already before you send a program that does the rest"
    return not_run(ErrorKind.CANCELLED, why, hint=hint, type=RUN_GONE)


def could_not_run(error: Exception) -> ExecutionResult:
    """Return the result of a program whose sandbox raised an error; a fault of ours goes into the log, whole."""
    match error:
        case SandboxStopped():
            return not_run(ErrorKind.CANCELLED, str(error))
        case Unsupported() | InvalidValue():
            return not_run(ErrorKind.UNSUPPORTED, str(error))
        case ActboxError():
            return not_run(ErrorKind.SANDBOX, str(error), hint="`actbox doctor` says what works here")
    _log.error("a program could not be run", exc_info=error)
    return not_run(ErrorKind.SANDBOX, f"the program could not be run: {type(error).__name__}: {error}")


def _files(
    artifacts: Iterable[Artifact], settings: CodeActSettings, *, file_surface: bool
) -> tuple[tuple[Artifact, ...], list[str]]:
    kept: list[Artifact] = []
    left_out: list[str] = []
    elsewhere: list[str] = []
    total = 0
    for artifact in artifacts:
        if not file_surface and not _SHOWN.fullmatch(artifact.name):
            elsewhere.append(cut(spelt_out(artifact.name), MOST_NAME_CHARS))
            continue
        why = ""
        if artifact.size > settings.max_output_file_bytes:
            why = f"one file may have {counted(settings.max_output_file_bytes, 'byte')}"
        elif len(kept) >= settings.max_output_files:
            why = f"{counted(settings.max_output_files, 'file')} may come back from one call"
        elif total + artifact.size > settings.max_output_total_bytes:
            why = f"all files of one call may have {counted(settings.max_output_total_bytes, 'byte')}"
        if why:
            left_out.append(
                f"output/{artifact.name} ({counted(artifact.size, 'byte')}) does not come back, since {why}"
            )
        else:
            kept.append(artifact)
            total += artifact.size
    if elsewhere:
        more = len(elsewhere) - MOST_NAMES
        names = ", ".join(elsewhere[:MOST_NAMES]) + (f" and {counted(more, 'more', 'more')}" if more > 0 else "")
        left_out.append(f"files written to /output do not come back here, and are gone: {names}; print what is needed")
    return tuple(kept), left_out
