"""What came of one call of `execute_code`: the result, what the model reads of it, and the files that come back."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Self

from actbox.content.render import cut, render, render_stderr
from actbox.core.call_log import CallLog
from actbox.core.counted import counted
from actbox.core.errors import ErrorInfo, ErrorKind
from actbox.core.result import Artifact, ExecutionResult

if TYPE_CHECKING:
    from .settings import CodeActSettings

EXIT_NOT_RUN: Final = 125
"""The exit code of a program that did not run."""

# What the guest calls the figures that a program has shown, or left open at its end.
_FIGURE = re.compile(r"figure-[0-9]+\.png")


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeActOutcome:
    """What came of one call.

    `text` is all that a model is to read of it. `result` has the files that come back and says of others, in its
    warnings, why they do not; `left_files` says whether there were any. `calls` are the calls of tools that the
    `program` made, which is empty where the model sent none.
    """

    result: ExecutionResult
    program: str = field(repr=False)
    calls: CallLog = field(repr=False)
    left_files: bool
    text: str = field(repr=False)
    max_chars: int = field(repr=False)

    @classmethod
    def of(
        cls, result: ExecutionResult, settings: CodeActSettings, *, program: str, calls: CallLog, file_surface: bool
    ) -> Self:
        """Return what a model and its agent get of a result."""
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
        )

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        """The files that come back."""
        return self.result.artifacts

    def with_calls_told(self) -> Self:
        """Return the same with a text that has the calls of tools also where the program ended well."""
        text = render(
            self.result,
            program=self.program,
            calls=self.calls,
            max_chars=self.max_chars,
            has_run=self.left_files,
            always_calls=True,
        )
        return replace(self, text=text)

    def to_json_shape(self) -> dict[str, Any]:
        """Return the object of .NET's providers: `stdout`, `stderr`, `exit_code`, `success`.

        `stdout` ends with the text of the last expression's value where there is one, `stderr` with the error and what
        else is to be known. Each has half of the characters at most. `output_files` has the paths of the files that
        come back, where there are any.
        """
        result, most = self.result, self.max_chars // 2
        value = f"{result.value_text}\n" if result.value_text is not None else ""
        shape: dict[str, Any] = {
            "stdout": cut(_ended(result.stdout) + value if value else result.stdout, most),
            "stderr": render_stderr(
                result, program=self.program, calls=self.calls, max_chars=most, has_run=self.left_files
            ),
            "exit_code": result.exit_code,
            "success": result.success,
        }
        if result.artifacts:
            shape["output_files"] = [f"/output/{artifact.name}" for artifact in result.artifacts]
        return shape


def not_run(kind: ErrorKind, message: str, *, hint: str = "", type: str = "") -> ExecutionResult:
    """Return the result of a program that did not run."""
    error = ErrorInfo(kind=kind, type=type, message=message, hint=hint)
    return ExecutionResult(exit_code=EXIT_NOT_RUN, error=error)


def _files(
    artifacts: Iterable[Artifact], settings: CodeActSettings, *, file_surface: bool
) -> tuple[tuple[Artifact, ...], list[str]]:
    kept: list[Artifact] = []
    left_out: list[str] = []
    total = 0
    for artifact in artifacts:
        if not file_surface and not _FIGURE.fullmatch(artifact.name):
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
    return tuple(kept), left_out


def _ended(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"
