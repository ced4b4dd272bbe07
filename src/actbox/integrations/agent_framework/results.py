"""Converts a program's outcome to the framework's `Content`: a flat list whose text every chat client sends to its
model.

Chat clients send the texts of a function's result. Some send data too; none sends error items or nested items.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from agent_framework import Content

from actbox.codeact.outcome import CodeActOutcome
from actbox.codeact.runner import ApprovalNeeded
from actbox.content.safe_text import encodable
from actbox.core.errors import ErrorKind
from actbox.core.mounts import OUTPUT
from actbox.core.result import EXIT_NOT_RUN, Artifact

ResultFormat = Literal["content", "json"]
"""`content`: text for the model, files as data items, and for failures an error item as well. `json`: one text, a JSON
object of `stdout`, `stderr`, `exit_code` and `success`, and of `output_files` if there are any."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a call of `execute_code`. `failure` is the kind of error, empty for a success."""

    contents: list[Content]
    failure: str = ""


def answer_of(outcome: CodeActOutcome, result_format: ResultFormat) -> Answer:
    """Return the answer for a program's outcome."""
    result, success = outcome.result, outcome.result.success
    failure = "" if success else (result.error.kind if result.error else ErrorKind.EXIT).value
    if result_format == "json":
        shape = json.dumps(outcome.to_json_shape(), ensure_ascii=False)
        return Answer([Content.from_text(encodable(shape))], failure)
    extra = {"exit_code": result.exit_code, "success": success}
    contents = [
        Content.from_text(encodable(outcome.text), additional_properties=extra),
        *_files(outcome.artifacts),
    ]
    if result.error is not None:
        error = result.error
        contents.append(
            Content.from_error(
                message=encodable(f"{error.type}: {error.message}" if error.type else error.message),
                error_code=error.kind.value,
                error_details=encodable(error.traceback) or None,
            )
        )
    elif not success:
        contents.append(Content.from_error(message=f"the program ended with exit code {result.exit_code}"))
    return Answer(contents, failure)


def not_asked(needed: ApprovalNeeded) -> Answer:
    """Return the answer for a program that needs approval when nobody can be asked."""
    text = f"{needed.request.reason}, and nobody can be asked here"
    kind = ErrorKind.POLICY.value
    extra = {"exit_code": EXIT_NOT_RUN, "success": False}
    contents = [
        Content.from_text(text, additional_properties=extra),
        Content.from_error(message=text, error_code=kind),
    ]
    return Answer(contents, kind)


def _files(artifacts: Iterable[Artifact]) -> list[Content]:
    return [
        Content.from_data(
            artifact.data,
            artifact.media_type,
            name=artifact.name,
            additional_properties={"path": str(OUTPUT / artifact.name)},
        )
        for artifact in artifacts
    ]
