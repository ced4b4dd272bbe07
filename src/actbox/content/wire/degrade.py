"""What becomes of an item in a format that has nothing like it: the rules, in one place.

1. A call of code becomes a call of a function with the arguments `code` and `language`, its result that function's
   result; where there are no functions either, both become text, code in a fence.
2. Data and files become text that names them: their content is not in a message that cannot carry it.
3. An error becomes text that begins with `error`.
4. Reasoning, usage and annotations are left out where there is no place for them.
5. An exit code that is wanted where nobody said one is 0, or 1 for a failure.

What items are as text is in `items.as_text`. Each use is noted as a loss by the writer that makes it; that of the exit
code is noted here.
"""

from __future__ import annotations

from collections.abc import Sequence

from actbox.content.items import (
    CodeInterpreterCall,
    CodeInterpreterResult,
    Content,
    DataContent,
    ErrorContent,
    FunctionCall,
    FunctionResult,
    JsonObject,
    TextContent,
    as_text,
    outputs_as_text,
)

from .losses import Losses

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


def exit_code(result: CodeInterpreterResult, losses: Losses) -> int:
    """Return the exit code where it alone says how code ended, and note what is made up or left out."""
    code = result.exit_code
    if code is None:
        code = 1 if result.success is False else 0
        losses.add("code_interpreter_result.exit_code", "made up: 0, or 1 for a failure")
    if result.outcome not in (None, "ok" if code == 0 else "failed"):
        losses.add("code_interpreter_result.outcome", "left out: the exit code says whether it succeeded")
    return code


def program_and_files(call: CodeInterpreterCall) -> tuple[str, list[Content]]:
    """Return the program and the other inputs. Named text that is in no programming language is a file."""
    program = [item for item in call.inputs if _is_program(item)]
    files = [item for item in call.inputs if not _is_program(item)]
    return "".join(item.text for item in program if isinstance(item, TextContent | DataContent)), files


def program_for(
    call: CodeInterpreterCall, tool: str, language: str, losses: Losses, *, files: str = "files are left out"
) -> str:
    """Return the program of a call for a provider's tool, and note what of the call has no place there."""
    program, others = program_and_files(call)
    if others:
        losses.add("code_interpreter_call.inputs", files)
    if call.name not in (None, tool):
        losses.add("code_interpreter_call.name", f"becomes {tool}")
    if program and call.language != language:
        losses.add("code_interpreter_call.language", "left out: the tool takes Python only")
    return program


def add_printed(printed: dict[str, str], output: Content, losses: Losses) -> None:
    """Add an output to what code printed on `stdout` and on `stderr`, where there are no other outputs."""
    text = as_text(output)
    if isinstance(output, TextContent):
        stream: str = output.stream or "stdout"
    else:
        stream = "stderr" if isinstance(output, ErrorContent) else "stdout"
        losses.add(f"code_interpreter_result.{output.type}", f"becomes text on {stream}")
        between = "" if printed[stream].endswith("\n") or not printed[stream] else "\n"
        text = text and f"{between}{text}\n"
    if text and stream == "stdout" and printed["stderr"]:
        losses.add("code_interpreter_result.outputs", "what came on stdout is put before stderr")
    printed[stream] += text


def text_for(outputs: Sequence[Content], losses: Losses, *, how: str = "becomes text") -> str:
    """Return the outputs of a function as one text, and note what is lost."""
    for output in outputs:
        if not isinstance(output, TextContent):
            losses.add(output.type, how)
        elif output.stream is not None:
            losses.add("text.stream", "left out: all text is alike")
    return outputs_as_text(outputs)


def _is_program(item: Content) -> bool:
    if isinstance(item, DataContent):
        return item.is_text and (item.name is None or bool(item.language))
    return isinstance(item, TextContent)
