"""CodeAct: the model writes programs, which call the tools in a sandbox, and reads what they print."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from agent_framework import Agent, ChatMiddleware, FunctionTool, SupportsChatGetResponse

import actbox
from actbox.codeact.config import CodeActConfig
from actbox.codeact.runner import ApprovalNeeded, CodeActRunner

from .task import INSTRUCTIONS, Answer

NAME = "CodeAct"


@asynccontextmanager
async def agent(
    client: SupportsChatGetResponse[Any], tools: Sequence[Callable[..., Any]], middleware: ChatMiddleware
) -> AsyncIterator[Agent[Any]]:
    """Open an agent that has one tool, `execute_code`, whose programs have the others."""
    run = CodeActConfig(tools=tools).freeze()
    runner = CodeActRunner(lambda policy: actbox.open_sandbox("linux", policy=policy))

    async def execute_code(**arguments: Any) -> str:
        outcome = await runner.execute(run, arguments)
        if isinstance(outcome, ApprovalNeeded):
            raise RuntimeError("nothing here requires approval")
        return outcome.text

    try:
        yield Agent(
            client=client,
            instructions=f"{INSTRUCTIONS}\n{run.instructions}",
            tools=[
                FunctionTool(
                    name=run.tool_name, description=run.description, input_model=run.input_schema, func=execute_code
                )
            ],
            default_options={"response_format": Answer},
            middleware=[middleware],
        )
    finally:
        await runner.close()
