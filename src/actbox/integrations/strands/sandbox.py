"""`StrandsSandbox`: any actbox sandbox as the sandbox of a Strands agent."""

from __future__ import annotations

from strands.types.tools import AgentTool

from .agent_sandbox import AgentSandbox
from .tools_files import make_file_editor
from .tools_python import make_python
from .tools_shell import make_shell


class StrandsSandbox(AgentSandbox):
    """A sandbox for `Agent(sandbox=…)`, whose shell, code and files are those of one actbox sandbox.

    `sandbox` is the name of an engine, as `actbox.open_sandbox` takes it with `policy` and the engine's own `options`
    (also `env`, `allow_unisolated`, `upstream`), or an actbox sandbox, which then belongs to this object. It starts at
    its first use, or by `start()` or `async with`, and stops by `stop()` or when the process ends; after a stop only
    `start()` opens it again. Several event loops and agents may use it at once: calls share the files below the working
    directory, and nothing else.

    `working_dir` is the directory in which commands and code start and to which paths are relative, by default
    `/workspace`. It is created if it lies below that; elsewhere it must exist when the sandbox starts, as in an image
    or a mount, and files written there may be gone after the command that wrote them. The file methods reach files
    below `/workspace`, `/input` and `/output`, where they follow no link, and in the mounts of `policy`, where programs
    in the sandbox read and write for them; they read regular files of at most `Limits.file_mib`.

    `code_tools` are host functions that belong to the sandbox: code in it calls them, and models do not see them. A
    function may have Strands' `@tool`, unless it takes the `ToolContext` of the calling agent.

    `timeout` is in seconds and may only lower the policy's wall limit (`Limits.wall_seconds`, by default 60). Output
    beyond the policy's limit ends a run, and its standard error says so.
    """

    def get_tools(self) -> list[AgentTool]:
        """Return the tools `shell`, `file_editor` and `python` (named `python_repl`), as far as the engine supports
        them.

        They are this package's tools, and use this sandbox; an agent's own tools with the same names take precedence.
        """
        tools: list[AgentTool] = []
        if self.traits.commands:
            tools.append(make_shell(sandbox=self))
        if self.traits.files:
            tools.append(make_file_editor(sandbox=self))
        if "python" in self.traits.languages:
            tools.append(make_python(sandbox=self, name="python_repl"))
        return tools
