"""Instructions for models: how to answer, how programs run, and how programs call tools."""

from __future__ import annotations

from typing import Any, Final

from actbox.core.packages import PackagePolicy
from actbox.tools import Toolset, stubs

from .final_answer import FINAL_ANSWER
from .model import ToolSpec
from .package_instructions import NO_PACKAGES, may_ask, packages_sentence

EXECUTE_CODE = "execute_code"

_RULES = """\
You solve tasks by writing Python programs, which run in a sandbox. To run one, answer with a fenced ```python block, or
call {execute_code}. You then see what it printed, the value of its last expression, its error and its files.

- Each program starts fresh: no variable of an earlier one is left. Files below /workspace stay.
- Full CPython; network: {network}. {packages}
- Files that were given are below input/. What you write below output/ is kept as a result.
- A figure that is open when the program ends, or shown by plt.show(), is kept as a PNG.
- Print only what you need to read. If a program fails, read the error, correct the program, and send all of it again.
- When you know the answer, call {final_answer}(value) in a program, {how}
  or answer in plain words without code."""
LIKE_THE_OTHERS: Final = "like any of the functions below,"
_BY_ITSELF: Final = f"`await {FINAL_ANSWER}(value)` in one that uses `await`,"
HOW_TOOLS_ARE_CALLED: Final = (
    "They, and the types that they name, are there by name and need no import; modules do. Arguments may be given by"
    " position or by name, and results are plain data. In a program that uses `await` they are coroutines, so that"
    " after `import asyncio` `await asyncio.gather(f(1), f(2))` makes both calls at once; in one that does not, they"
    " are plain calls. `call_tool(name, **arguments)` calls one by its name. A call that fails raises ToolError,"
    " which the program may catch."
)
HOW_TOOLS_ARE_CALLED_IN_JAVASCRIPT: Final = (
    "They are there by name and need no import. All are async: `await f({a: 1, b: 2})`, or `await f(1, 2)` with the"
    " arguments in their order; `await Promise.all([f(1), f(2)])` makes several calls. `call_tool(name, {…})` calls one"
    " by its name. A call that fails throws ToolError, which the program may catch."
)


def agent_instructions(
    toolset: Toolset, *, network: str = "none", extra: str = "", packages: PackagePolicy | None = None
) -> str:
    """Return the system text for an agent whose programs have these tools. `packages` are the sandbox's rules."""
    rules = _RULES.format(
        execute_code=EXECUTE_CODE,
        final_answer=FINAL_ANSWER,
        network=network,
        packages=NO_PACKAGES
        if packages is None
        else packages_sentence(packages, by_argument=True, may_ask=may_ask(packages, toolset)),
        how=LIKE_THE_OTHERS if len(toolset) else _BY_ITSELF,
    )
    declared = stubs(toolset, awaitable=False)
    tools = f"Your programs can call these functions. {HOW_TOOLS_ARE_CALLED}\n\n```python\n{declared}```"
    parts = [extra.strip(), rules, tools if len(toolset) else ""]
    return "\n\n".join(part for part in parts if part)


def execute_code_spec(*, packages: bool = False) -> ToolSpec:
    """Return the tool specification of `execute_code`, for models that prefer tool calls to fenced blocks.

    With `packages` its programs may ask for packages.
    """
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"code": {"type": "string", "description": "The whole program."}},
        "required": ["code"],
        "additionalProperties": False,
    }
    return ToolSpec(
        name=EXECUTE_CODE,
        description="Run a Python program in the sandbox and see what came of it.",
        input_schema=with_dependencies(schema) if packages else schema,
    )


def with_dependencies(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema of the arguments of `execute_code` to which `dependencies` are added."""
    dependencies = {
        "type": "array",
        "items": {"type": "string"},
        "description": "Packages that the program needs and that are not there, such as `openpyxl>=3.1`.",
    }
    return {**schema, "properties": {**schema["properties"], "dependencies": dependencies}}
