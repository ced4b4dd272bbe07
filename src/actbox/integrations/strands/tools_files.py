"""The tools `file_read`, `file_write` and `file_editor`, over the files of the agent's sandbox."""

from __future__ import annotations

import posixpath
from typing import Any, Final, Literal

from strands import tool
from strands.sandbox import Sandbox
from strands.tools.decorator import DecoratedFunctionTool
from strands.types.tools import ToolContext
from strands.vended_tools import make_file_editor as make_strands_file_editor

from actbox.content.render import MAX_CHARS, cut
from actbox.content.safe_text import encodable
from actbox.core.counted import counted
from actbox.core.errors import InvalidValue

from .files import FilesOfWorkspace
from .tool_calls import LASTING, check_not_cancelled
from .tool_state import check_tool, sandbox_of

READ_DESCRIPTION: Final = (
    "Returns a text file of the sandbox, whole or from one line to another; of one that is long, the beginning and the"
    f" end. Paths are absolute, or relative to the working directory. {LASTING}"
)
WRITE_DESCRIPTION: Final = (
    "Creates or replaces a text file in the sandbox, with its parent directories. Paths are absolute, or relative to"
    f" the working directory. {LASTING}"
)
EDITOR_DESCRIPTION: Final = (
    "Shows, creates and edits text files in the sandbox, and lists directories: `view` (with a range of lines),"
    f" `create`, `str_replace` and `insert`. Paths are absolute, or relative to the working directory. {LASTING}"
)


def make_file_read(
    *,
    sandbox: Sandbox | None = None,
    name: str = "file_read",
    description: str = READ_DESCRIPTION,
    max_chars: int = MAX_CHARS,
) -> DecoratedFunctionTool[..., Any]:
    """Return a tool that reads text files of `sandbox`, by default that of the calling agent.

    It returns at most `max_chars` characters. A file that is not UTF-8 is an error that names its size.
    """
    check_tool(sandbox, name)

    @tool(name=name, description=description, context="tool_context")
    async def read(path: str, tool_context: ToolContext, first_line: int = 1, last_line: int | None = None) -> str:
        """Read a text file.

        Args:
            path: Where it is.
            tool_context: Given by the framework.
            first_line: The first line to return, counted from 1.
            last_line: The last line to return; all of them without it.
        """
        check_not_cancelled(tool_context)
        if first_line < 1 or (last_line is not None and last_line < first_line):
            raise InvalidValue(f"lines are counted from 1, and the first comes first: not {first_line} to {last_line}")
        data = await sandbox_of(sandbox, tool_context).read_file(path)
        try:
            text = data.decode()
        except UnicodeDecodeError:
            raise InvalidValue(f"{path} is no UTF-8 text: it has {counted(len(data), 'byte')}; use code") from None
        if first_line > 1 or last_line is not None:
            lines = text.split("\n")
            count = len(lines) if lines[-1] else len(lines) - 1
            if first_line > max(count, 1):
                raise InvalidValue(f"there is no line {first_line} in {path}: it has {counted(count, 'line')}")
            text = "\n".join(lines[first_line - 1 : last_line])
        return cut(text, max_chars)

    return read


def make_file_write(
    *, sandbox: Sandbox | None = None, name: str = "file_write", description: str = WRITE_DESCRIPTION
) -> DecoratedFunctionTool[..., Any]:
    """Return a tool that writes text files of `sandbox`, by default that of the calling agent."""
    check_tool(sandbox, name)

    @tool(name=name, description=description, context="tool_context")
    async def write(path: str, content: str, tool_context: ToolContext) -> str:
        """Write a text file.

        Args:
            path: Where it is to be.
            content: Its whole text.
            tool_context: Given by the framework.
        """
        check_not_cancelled(tool_context)
        data = content.encode()
        await sandbox_of(sandbox, tool_context).write_file(path, data)
        return f"{path} has been written: {counted(len(data), 'byte')}"

    return write


def make_file_editor(
    *,
    sandbox: Sandbox | None = None,
    name: str = "file_editor",
    description: str = EDITOR_DESCRIPTION,
    max_chars: int = MAX_CHARS,
) -> DecoratedFunctionTool[..., Any]:
    """Return Strands' own editor for the files of `sandbox`, by default that of the calling agent.

    It returns at most `max_chars` characters, and none that cannot be sent.
    """
    check_tool(sandbox, name)

    @tool(name=name, description=description, context="tool_context")
    async def edit(
        command: Literal["view", "create", "str_replace", "insert"],
        path: str,
        tool_context: ToolContext,
        file_text: str | None = None,
        view_range: list[int] | None = None,
        old_str: str | None = None,
        new_str: str | None = None,
        insert_line: int | None = None,
    ) -> str:
        """Show or edit a file.

        Args:
            command: What to do: `view`, `create`, `str_replace` or `insert`.
            path: Where the file or folder is.
            tool_context: Given by the framework.
            file_text: The text of a new file, for `create`.
            view_range: The first and the last line to show, counted from 1; -1 is the end.
            old_str: What is to be replaced, which must be there exactly once, for `str_replace`.
            new_str: What comes in its place, or is to be inserted.
            insert_line: After how many lines to insert, for `insert`.
        """
        check_not_cancelled(tool_context)
        active = sandbox_of(sandbox, tool_context)
        editor = make_strands_file_editor(sandbox=active)  # without a sandbox it would edit files of this machine
        shown = await editor(
            command=command,
            path=_whole_path(path, active),
            tool_context=tool_context,
            file_text=file_text,
            view_range=view_range,
            old_str=old_str,
            new_str=new_str,
            insert_line=insert_line,
        )
        return cut(encodable(shown), max_chars)

    return edit


def _whole_path(path: str, sandbox: Sandbox) -> str:
    """Return an absolute path: for a relative one Strands' editor would suggest a path on this machine."""
    whole = sandbox.path_of(path) if isinstance(sandbox, FilesOfWorkspace) else path
    if not posixpath.isabs(whole):
        raise InvalidValue(f"{path!r} is no absolute path, which this sandbox needs")
    if not whole.strip("/\\"):
        raise InvalidValue("the editor does not show the root; `.` is the working directory")
    return whole


file_read = make_file_read()
"""The tool with its defaults, in the calling agent's sandbox."""
file_write = make_file_write()
"""The tool with its defaults, in the calling agent's sandbox."""
file_editor = make_file_editor()
"""The tool with its defaults, in the calling agent's sandbox."""
