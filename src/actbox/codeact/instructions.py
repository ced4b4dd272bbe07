"""What the model of a `CodeAgent` is told: how to answer, how its programs run, and what they may call."""

from __future__ import annotations

from actbox.tools import Toolset, stubs

from .calling import HOW_TOOLS_ARE_CALLED
from .final_answer import FINAL_ANSWER
from .model import ToolSpec

EXECUTE_CODE = "execute_code"

_RULES = """\
You solve tasks by writing Python programs, which run in a sandbox. To run one, answer with a fenced ```python block, or
call {execute_code}. You then see what it printed, the value of its last expression, its error and its files.

- Each program starts fresh: no variable of an earlier one is left. Files below /workspace stay.
- Full CPython; network: {network}. A package that is not installed is an ImportError: use another.
- Files that were given are below input/. What you write below output/ is kept as a result.
- A figure that is open when the program ends, or shown by plt.show(), is kept as a PNG.
- Print only what you need to read. If a program fails, read the error, mend the program, and send all of it again.
- When you know the answer, call {final_answer}(value) in a program, `await {final_answer}(value)` in one that uses
  `await`, or answer in plain words without code."""


def agent_instructions(toolset: Toolset, *, network: str = "none", extra: str = "") -> str:
    """Return the system text for an agent whose programs have these tools."""
    rules = _RULES.format(
        execute_code=EXECUTE_CODE,
        final_answer=FINAL_ANSWER,
        network=network,
    )
    tools = f"Your programs can call these functions. {HOW_TOOLS_ARE_CALLED}\n\n```python\n{stubs(toolset)}```"
    parts = [extra.strip(), rules, tools if len(toolset) else ""]
    return "\n\n".join(part for part in parts if part)


def execute_code_spec() -> ToolSpec:
    """Return the tool by which a model may send a program, for models that prefer tool calls to fenced blocks."""
    return ToolSpec(
        name=EXECUTE_CODE,
        description="Run a Python program in the sandbox and see what came of it.",
        input_schema={
            "type": "object",
            "properties": {"code": {"type": "string", "description": "The whole program."}},
            "required": ["code"],
            "additionalProperties": False,
        },
    )
