"""Subject of `make bench`: what CodeAct's core adds to a run, and what a provider does before an agent runs."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

from actbox.integrations.agent_framework import LinuxCodeActProvider
from agent_framework import Agent, AgentSession, Message, SessionContext
from agent_framework_openai import OpenAIChatCompletionClient
from effort import Effort
from figures import Row, Target, figure, single
from stopwatch import PAUSE_SECONDS, Contender, in_turns

import actbox
from actbox.codeact.config import CodeActConfig
from actbox.codeact.runner import CodeActRunner

from .task import TOOLS

MANY_TOOLS = 200
MOST_ADDED_MS = 0.3
MOST_BEFORE_RUN_MS = 5.0

_CODE = "print(1+1)"
_PRINTED = "2\n"
_CORE, _BARE = "the core", "bare box.run"


async def measure(effort: Effort) -> list[Row]:
    """Measure the core beside the sandbox alone, and what goes before a run."""
    return [*await core(effort), await before_run(effort)]


async def core(effort: Effort) -> list[Row]:
    """Measure a run through the core, and the same program in the sandbox alone, both with the task's tools."""
    config, tools = CodeActConfig(tools=TOOLS), [actbox.tool(function) for function in TOOLS]
    runner = CodeActRunner(lambda policy: actbox.open_sandbox("linux", policy=policy))
    try:
        async with actbox.open_sandbox("linux", policy=config.freeze().policy) as box:

            async def by_the_core() -> None:
                outcome = await runner.execute(config.freeze(), {"code": _CODE})
                _check(outcome.result)

            async def bare() -> None:
                _check(await box.run(_CODE, tools=tools))

            contenders = {_CORE: Contender(by_the_core, effort.fast), _BARE: Contender(bare, effort.fast)}
            times = await in_turns(contenders, pause=PAUSE_SECONDS)
    finally:
        await runner.close()
    ours, beside = times[_CORE], times[_BARE]
    added = statistics.median(ours) - statistics.median(beside)
    return [
        Row(f"run of `{_CODE}` by CodeAct's core, paced", "ms", figure(ours), peers={_BARE: figure(beside)}),
        Row("such a run less one by `box.run`", "ms", single(added, len(ours)), Target(p50=MOST_ADDED_MS)),
    ]


async def before_run(effort: Effort) -> Row:
    """Measure what a provider with many tools does each time before an agent runs."""
    client = OpenAIChatCompletionClient("none", api_key="none", base_url="http://127.0.0.1:9/v1")  # is never asked
    async with LinuxCodeActProvider(tools=[_tool(number) for number in range(MANY_TOOLS)]) as provider:
        agent, session, state = Agent(client=client), AgentSession(), dict[str, Any]()

        async def action() -> None:
            context = SessionContext(input_messages=[Message("user", ["What is 1+1?"])])
            await provider.before_run(agent=agent, session=session, context=context, state=state)
            if [tool.name for tool in context.tools] != ["execute_code"]:
                raise RuntimeError(f"the run was given {context.tools!r} and not execute_code")

        times = await in_turns({"ours": Contender(action, effort.fast)})
    return Row(f"`before_run` with {MANY_TOOLS} tools", "ms", figure(times["ours"]), Target(p50=MOST_BEFORE_RUN_MS))


def _tool(number: int) -> Callable[..., Any]:
    def look_up(key: str, limit: int = 10) -> list[dict[str, str]]:
        return [{"key": key}] * limit

    look_up.__name__ = f"look_up_{number}"
    look_up.__doc__ = f"Look up entries of register {number} by their key."
    return look_up


def _check(result: Any) -> None:
    if result.stdout != _PRINTED:
        raise RuntimeError(f"{_CODE!r} gave {result!r}")
