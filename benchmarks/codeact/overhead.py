"""Subject of `make bench`: what CodeAct's core and Agent Framework add to a run, and what goes before an agent runs."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

from agent_framework import Agent, AgentSession, Message, SessionContext
from agent_framework_openai import OpenAIChatCompletionClient
from effort import Effort
from figures import Row, Target, figure, single
from stopwatch import PAUSE_SECONDS, Action, Contender, in_pairs, in_turns

import actbox
from actbox.codeact.config import CodeActConfig
from actbox.codeact.outcome import CodeActOutcome
from actbox.codeact.runner import CodeActRunner
from actbox.integrations.agent_framework import LinuxCodeActProvider

from .task import TOOLS

MANY_TOOLS = 200
MOST_ADDED_MS = 0.3
MOST_BEFORE_RUN_MS = 5.0
MOST_FRAMEWORK_MS = 1.5

_CODE = "print(1+1)"
_PRINTED = "2\n"


async def measure(effort: Effort) -> list[Row]:
    """Measure the core and the framework beside the sandbox alone, and what goes before a run."""
    return [*await core(effort), *await framework(effort), *await before_run(effort)]


async def core(effort: Effort) -> list[Row]:
    """Measure runs through the core beside runs of the sandbox alone, all with the task's tools.

    Without files, which is what a provider has that was given tools alone, the core runs each program in a workspace
    that is thrown away: `box.run_alone` does the same without the core.
    """
    runner = CodeActRunner(lambda policy: actbox.open_sandbox("linux", policy=policy))
    tools = [actbox.tool(function) for function in TOOLS]
    try:
        async with actbox.open_sandbox("linux") as box:

            async def run() -> None:
                _check(await box.run(_CODE, tools=tools))

            async def run_alone() -> None:
                _check(await box.run_alone(_CODE, tools=tools))

            def by_the_core(config: CodeActConfig) -> Action:
                async def action() -> None:
                    outcome = await runner.execute(config.freeze(), {"code": _CODE})
                    assert isinstance(outcome, CodeActOutcome), outcome
                    _check(outcome.result)

                return action

            with_files, without = CodeActConfig(tools=TOOLS, file_surface=True), CodeActConfig(tools=TOOLS)
            rows = []
            for files, config, beside, bare, target in (
                ("with files", with_files, "box.run", run, Target(p50=MOST_ADDED_MS)),
                ("without files", without, "box.run", run, Target(p50=MOST_ADDED_MS)),
                ("without files", without, "box.run_alone", run_alone, Target()),
            ):
                rows += await _beside(
                    (f"run of `{_CODE}` by CodeAct's core, {files}, paced", by_the_core(config)),
                    (beside, bare),
                    f"what the core adds to `{beside}`, {files}",
                    target,
                    effort,
                )
            return rows
    finally:
        await runner.close()


async def framework(effort: Effort) -> list[Row]:
    """Measure a program as the framework runs it, by the tool that a provider gave an agent, beside `box.run`."""
    tools = [actbox.tool(function) for function in TOOLS]
    async with LinuxCodeActProvider(tools=TOOLS) as provider, actbox.open_sandbox("linux") as box:
        context = SessionContext(input_messages=[Message("user", ["What is 1+1?"])])
        await provider.before_run(agent=_agent(), session=AgentSession(), context=context, state={})
        (execute_code,) = context.tools

        async def by_the_framework() -> None:
            contents = await execute_code.invoke(arguments={"code": _CODE}, tool_call_id="call")
            if not any(_PRINTED.strip() in (content.text or "") for content in contents):
                raise RuntimeError(f"{_CODE!r} gave {contents!r}")

        async def run() -> None:
            _check(await box.run(_CODE, tools=tools))

        return await _beside(
            (f"run of `{_CODE}` by Agent Framework's call of `execute_code`, paced", by_the_framework),
            ("box.run", run),
            "what a program of Agent Framework adds to `box.run`",
            Target(p50=MOST_FRAMEWORK_MS),
            effort,
        )


async def _beside(
    ours: tuple[str, Action], other: tuple[str, Action], difference: str, target: Target, effort: Effort
) -> list[Row]:
    """Return a row of one named action beside another, and a row of the median difference of their pairs."""
    (measure, action), (name, bare) = ours, other
    pairs = await in_pairs(action, bare, effort.fast, pause=PAUSE_SECONDS)
    times, others = (figure(taken) for taken in zip(*pairs, strict=True))
    added = statistics.median(mine - its for mine, its in pairs)
    return [
        Row(measure, "ms", times, peers={name: others}),
        Row(difference, "ms", single(added, len(pairs)), target),
    ]


def _agent() -> Agent[Any]:
    """Return an agent whose model is never asked."""
    return Agent(client=OpenAIChatCompletionClient("none", api_key="none", base_url="http://127.0.0.1:9/v1"))


async def before_run(effort: Effort) -> list[Row]:
    """Measure what a provider with many tools does each time before an agent runs."""
    async with LinuxCodeActProvider(tools=[_tool(number) for number in range(MANY_TOOLS)]) as provider:
        agent, session, state = _agent(), AgentSession(), dict[str, Any]()

        async def action() -> None:
            context = SessionContext(input_messages=[Message("user", ["What is 1+1?"])])
            await provider.before_run(agent=agent, session=session, context=context, state=state)
            if [tool.name for tool in context.tools] != ["execute_code"]:
                raise RuntimeError(f"the run was given {context.tools!r} and not execute_code")

        async def replace_one() -> None:
            provider.add_tools(_tool(0))

        contenders = {
            "nothing changed": Contender(action, effort.fast),
            "one was replaced since": Contender(action, effort.fast, before=replace_one),
        }
        times = await in_turns(contenders)
    measure, target = f"`before_run` with {MANY_TOOLS} tools", Target(p50=MOST_BEFORE_RUN_MS)
    return [Row(f"{measure}, {name}", "ms", figure(found), target) for name, found in times.items()]


def _tool(number: int) -> Callable[..., Any]:
    def look_up(key: str, limit: int = 10) -> list[dict[str, str]]:
        return [{"key": key}] * limit

    look_up.__name__ = f"look_up_{number}"
    look_up.__doc__ = f"Look up entries of register {number} by their key."
    return look_up


def _check(result: actbox.ExecutionResult) -> None:
    if result.stdout != _PRINTED:
        raise RuntimeError(f"{_CODE!r} gave {result!r}")
