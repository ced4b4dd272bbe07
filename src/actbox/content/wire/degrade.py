"""What becomes of an item in a format that has nothing like it: the rules, in one place.

1. A call of code becomes a call of a function with the arguments `code` and `language`, its result that function's
   result; where there are no functions either, both become text, code in a fence.
2. Data and files become text that names them: their content is not in a message that cannot carry it.
3. An error becomes text that begins with `error`.
4. Reasoning, usage and annotations are left out where there is no place for them.
5. An exit code that is wanted where nobody said one is 0, or 1 for a failure.

Each use is noted as a loss by the writer that makes it; that of the exit code is noted here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from actbox.content.items import (
    CodeInterpreterCall,
    CodeInterpreterResult,
    Content,
    DataContent,
    ErrorContent,
    FunctionCall,
    FunctionResult,
    HostedFileContent,
    HostedVectorStoreContent,
    JsonObject,
    ReasoningContent,
    TextContent,
    UnknownContent,
    UriContent,
    UsageContent,
    arguments_to_json,
)

from .written import Losses

CODE_FUNCTION = "code_interpreter"
"""The name of the function that a call of code becomes where its tool has none."""


def code_call_as_function(call: CodeInterpreterCall) -> FunctionCall:
    """Return a call of a function with the arguments `code` and `language`."""
    arguments: JsonObject = {"code": call.code, "language": call.language}
    return FunctionCall(call_id=call.call_id, name=call.name or CODE_FUNCTION, arguments=arguments)


def code_result_as_function(result: CodeInterpreterResult) -> FunctionResult:
    """Return the result of a function with the same outputs."""
    return FunctionResult(
        call_id=result.call_id,
        name=result.name or CODE_FUNCTION,
        outputs=result.outputs,
        is_error=result.success is False,
    )


def outputs_as_text(outputs: Iterable[Content]) -> str:
    """Return outputs as a model is to read them where it can be given text only, each on lines of its own."""
    text = ""
    for item in outputs:
        piece = as_text(item)
        if piece and text and not isinstance(item, TextContent) and not text.endswith("\n"):
            text += "\n"
        text += piece
    return text


def exit_code(result: CodeInterpreterResult, losses: Losses) -> int:
    """Return the exit code where it alone says how code ended, and note what is made up or left out."""
    code = result.exit_code
    if code is None:
        code = 1 if result.success is False else 0
        losses.add("code_interpreter_result.exit_code", "made up: 0, or 1 for a failure")
    if result.outcome not in (None, "ok" if code == 0 else "failed"):
        losses.add("code_interpreter_result.outcome", "left out: the exit code says whether it succeeded")
    return code


def as_text(item: Content) -> str:
    """Return an item as text; "" for what is not said to anybody, such as usage."""
    match item:
        case TextContent():
            return item.text
        case ErrorContent():
            return _error(item)
        case DataContent():
            return f"[{item.name or 'data'}: {item.media_type}, {len(item.data):,} bytes]"
        case HostedFileContent():
            return f"[file {item.name or item.file_id}: {item.file_id}]"
        case HostedVectorStoreContent():
            return f"[vector store {item.vector_store_id}]"
        case UriContent():
            return f"[{item.name or item.media_type or 'link'}: {item.uri}]"
        case FunctionCall():
            return f"[calls {item.name} with {arguments_to_json(item.arguments)}]"
        case CodeInterpreterCall():
            return f"```{item.language}\n{item.code.rstrip()}\n```"
        case FunctionResult() | CodeInterpreterResult():
            return outputs_as_text(item.outputs)
        case UnknownContent():
            return f"[{item.format} item: {json.dumps(item.raw, ensure_ascii=False)}]"
        case ReasoningContent() | UsageContent():
            return ""
        case _:
            return f"[{item.type}]"


def _error(item: ErrorContent) -> str:
    code = f" {item.code}" if item.code else ""
    details = f"\n{item.details}" if item.details else ""
    return f"error{code}: {item.message}{details}"
