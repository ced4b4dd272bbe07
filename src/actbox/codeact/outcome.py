"""What came of one call of `execute_code`: the result, what the model reads of it, and the files that come back."""

from __future__ import annotations

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
from actbox.core.errors import ErrorInfo, ErrorKind
from actbox.core.mounts import OUTPUT
from actbox.core.result import EXIT_NOT_RUN, Artifact, ExecutionResult

if TYPE_CHECKING:
    from .settings import CodeActSettings

MOST_NAMES: Final = 5
"""Files that a warning names of those that do not come back since none do."""
MOST_NAME_CHARS: Final = 100

# What the guest calls the figures that a program has shown, or left open at its end.
_FIGURE = re.compile(r"figure-[0-9]+\.png")


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeActOutcome:
    """What came of one call.

    `text` is all that a model is to read of it. `result` has the files that come back and says of others, in its
    warnings, why they do not; `left_files` says whether there were any. `calls` are the calls of tools that the
    `program` made, which is empty where the model sent none. `whole` is where all is of what the text leaves out.
    """

    result: ExecutionResult
    program: str = field(repr=False)
    calls: CallLog = field(repr=False)
    left_files: bool
    text: str = field(repr=False)
    max_chars: int = field(repr=False)
    whole: str = ""

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

    @property
    def is_cut(self) -> bool:
        """Whether the text leaves out something of what was printed, or of the value."""
        return leaves_out(self.result, self.text)

    def printed(self) -> str:
        """Return all that was printed, and the value, as it is kept where the text leaves some of it out."""
        stderr = f"\n[stderr]\n{encodable(self.result.stderr)}" if self.result.stderr else ""
        return render_stdout(self.result) + stderr

    def with_whole(self, whole: str) -> Self:
        """Return the same with a text that says where all is of what it leaves out: one line, such as a path."""
        return replace(self, whole=whole, text=self._render(whole=whole))

    def with_calls_told(self) -> Self:
        """Return the same with a text that has the calls of tools also where the program ended well."""
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
        """Return the object of .NET's providers: `stdout`, `stderr`, `exit_code`, `success`.

        `stdout` ends with the text of the last expression's value where there is one, `stderr` with the error and what
        else is to be known. `output_files` has the paths of the files that come back, where there are any.

        All of it, as JSON text in which characters beyond ASCII stand as they are (`ensure_ascii=False`), has at most
        `max_chars` characters: paths take a quarter of it at most, and a warning tells how many are not listed; of the
        rest `stderr` takes what it needs up to two thirds, and `stdout` what is left.
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
        # Each has its two quotes in the shape already.
        shape["stderr"] = cut_json(stderr, 2 + 2 * room // 3, whole=self.whole)
        shape["stdout"] = cut_json(render_stdout(result), 2 + self.max_chars - json_length(shape), whole=self.whole)
        return shape

    def _paths(self) -> list[str]:
        """Return the paths of the files that come back, as many as a quarter of the characters has room for."""
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


def _files(
    artifacts: Iterable[Artifact], settings: CodeActSettings, *, file_surface: bool
) -> tuple[tuple[Artifact, ...], list[str]]:
    kept: list[Artifact] = []
    left_out: list[str] = []
    elsewhere: list[str] = []
    total = 0
    for artifact in artifacts:
        if not file_surface and not _FIGURE.fullmatch(artifact.name):
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
