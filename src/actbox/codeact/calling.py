"""How programs call tools, as every model is told it."""

from __future__ import annotations

from typing import Final

HOW_TOOLS_ARE_CALLED: Final = (
    "They are there by name and need no import; modules do. Arguments may be given by position or by name, and results"
    " are plain data. In a program that uses `await` they are coroutines, so that after `import asyncio`"
    " `await asyncio.gather(f(1), f(2))` makes both calls at once; in one that does not, they are plain calls."
    " `call_tool(name, **arguments)` calls one by its name. A call that fails raises ToolError, which the program may"
    " catch."
)
HOW_TOOLS_ARE_CALLED_IN_JAVASCRIPT: Final = (
    "They are there by name and need no import. All are async: `await f({a: 1, b: 2})`, or `await f(1, 2)` with the"
    " arguments in their order; `await Promise.all([f(1), f(2)])` makes several calls. `call_tool(name, {…})` calls one"
    " by its name. A call that fails throws ToolError, which the program may catch."
)
