"""CodeAct: the model writes programs, which call the tools in a sandbox, and reads what they print."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any

from agent_framework import Agent, ChatMiddleware, FunctionTool, SupportsChatGetResponse

import actbox
from actbox.codeact.instructions import EXECUTE_CODE
from actbox.content.render import render
from actbox.tools import stubs

from .task import INSTRUCTIONS, Answer

NAME = "CodeAct"


@asynccontextmanager
async def agent(
    client: SupportsChatGetResponse[Any], tools: Sequence[Callable[..., Any]], middleware: ChatMiddleware
) -> AsyncIterator[Agent[Any]]:
    """Open an agent that has one tool, `execute_code`, whose programs have the others."""
    async with _execute_code(tools) as execute_code:
        yield Agent(
            client=client,
            instructions=INSTRUCTIONS,
            tools=[execute_code],
            default_options={"response_format": Answer},
            middleware=[middleware],
        )


@asynccontextmanager
async def _execute_code(tools: Sequence[Callable[..., Any]]) -> AsyncIterator[FunctionTool]:
    toolset = actbox.Toolset([actbox.tool(function) for function in tools])
    async with actbox.open_sandbox("linux") as box:

        async def execute_code(code: Annotated[str, "The whole program."]) -> str:
            return render(await box.run(code, tools=toolset))

        description = (
            "Run a Python program in a sandbox and see what it printed. Each program starts fresh. It can call these "
            f"functions, which are there by name:\n\n{stubs(toolset)}"
        )
        yield FunctionTool(name=EXECUTE_CODE, description=description, func=execute_code)
