"""What came of a program, as the framework's `Content`: a flat list, whose text every chat client sends to its model.

Chat clients send the texts among a function's results. Some send data too; none sends error items, and none looks into
an item that has others in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Literal

from agent_framework import Content

from actbox.codeact.outcome import CodeActOutcome
from actbox.core.mounts import OUTPUT
from actbox.core.result import Artifact

ResultFormat = Literal["content", "json"]
"""`content`: text for the model to read, files as data items, and for failures an error item besides. `json`: one text,
a JSON object of `stdout`, `stderr`, `exit_code` and `success`, and of `output_files` where there are any."""


def contents_of(outcome: CodeActOutcome, result_format: ResultFormat) -> list[Content]:
    """Return what is given back for a call of `execute_code`."""
    if result_format == "json":
        return [Content.from_text(json.dumps(outcome.to_json_shape(), ensure_ascii=False))]
    result = outcome.result
    said = {"exit_code": result.exit_code, "success": result.success}
    contents = [Content.from_text(outcome.text, additional_properties=said), *_files(outcome.artifacts)]
    if result.error is not None:
        error = result.error
        contents.append(
            Content.from_error(
                message=f"{error.type}: {error.message}" if error.type else error.message,
                error_code=error.kind.value,
                error_details=error.traceback or None,
            )
        )
    elif not result.success:
        contents.append(Content.from_error(message=f"the program ended with exit code {result.exit_code}"))
    return contents


def failed(text: str, *, code: str) -> list[Content]:
    """Return what is given back where no program ran, for a reason that is not the program's."""
    said = {"exit_code": 125, "success": False}
    return [Content.from_text(text, additional_properties=said), Content.from_error(message=text, error_code=code)]


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
