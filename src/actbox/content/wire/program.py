"""What among the inputs of a call of code is its program, and what are files that it is to find."""

from __future__ import annotations

from actbox.content.items import CodeInterpreterCall, Content, DataContent, TextContent


def program_and_files(call: CodeInterpreterCall) -> tuple[str, list[Content]]:
    """Return the program and the other inputs. Named text that is in no programming language is a file."""
    program = [item for item in call.inputs if _is_program(item)]
    files = [item for item in call.inputs if not _is_program(item)]
    return "".join(item.text for item in program if isinstance(item, TextContent | DataContent)), files


def _is_program(item: Content) -> bool:
    if isinstance(item, DataContent):
        return item.is_text and (item.name is None or bool(item.language))
    return isinstance(item, TextContent)
