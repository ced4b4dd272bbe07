"""What a Strands agent's tools cost from code: one nested call, and a program of `programmatic_tool_caller`.

Not called `strands`, which would hide the package of that name.
"""

from __future__ import annotations

import asyncio
import statistics
from typing import Any

from effort import Effort
from figures import Row, Target, figure, single
from stopwatch import PAUSE_SECONDS, in_pairs
from tool_calls import Bell

import actbox

MOST_CALL_MS = 1.0
MOST_ADDED_MS = 3.0

_CODE = "print(1+1)"


async def measure(effort: Effort) -> list[Row]:
    """Measure nested calls beside what Strands and the sandbox need for them alone, and what the tool adds to a run."""
    from strands import Agent, tool
    from strands.models.model import Model

    from actbox.integrations.strands import StrandsSandbox
    from actbox.integrations.strands.caller import NAME, programmatic_tool_caller
    from actbox.integrations.strands.executor import Answered, run_tool

    class Silent(Model):
        """A model that nobody asks."""

        def update_config(self, **model_config: Any) -> None: ...
        def get_config(self) -> Any:
            return {"context_window_limit": 200_000}

        async def structured_output(self, *args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError
            yield

        async def stream(self, *args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError
            yield

    async with StrandsSandbox("linux") as sandbox:

        def agent_with(bell: Bell) -> Agent:
            @tool
            async def add(a: int, b: int) -> int:
                """Add two numbers."""
                return await bell.add_async(a, b)

            @tool
            def add_in_a_thread(a: int, b: int) -> int:
                """Add two numbers."""
                return bell.add(a, b)

            return Agent(
                model=Silent(),
                tools=[add, add_in_a_thread, programmatic_tool_caller],
                sandbox=sandbox,
                callback_handler=None,
            )

        async def unreported(event: dict[str, Any]) -> None: ...

        async def use(agent: Agent, name: str, given: dict[str, Any]) -> Answered:
            """Make one call as the agent's executor does."""
            use: Any = {"toolUseId": "use", "name": name, "input": given}
            came = await asyncio.create_task(run_tool(agent, use, {}, report=unreported))
            assert isinstance(came, Answered), came
            assert came.result["status"] == "success", came.result
            return came

        rows = []
        for name, kind in (("add", "an async tool"), ("add_in_a_thread", "a sync tool")):
            program = f"for number in range({effort.fast}):\n    {name}(number, 1)"
            nested, alone, bare = Bell(), Bell(), Bell()
            await use(agent_with(nested), NAME, {"code": program})
            agent = agent_with(alone)
            for number in range(effort.fast):
                await use(agent, name, {"a": number, "b": 1})
            functions = {"add": bare.add_async, "add_in_a_thread": bare.add}
            result = await sandbox.box.run(program, tools=[actbox.Tool.from_function(functions[name], name=name)])
            assert result.success, result
            figures = [figure(trip / 1000 for trip in bell.round_trips()) for bell in (nested, alone, bare)]
            rows.append(
                Row(
                    f"a call of {kind} of a Strands agent from a program",
                    "ms",
                    figures[0],
                    Target(p50=MOST_CALL_MS),
                    {"Strands' executor alone": figures[1], "box.run without Strands": figures[2]},
                )
            )

        agent = agent_with(Bell())

        async def by_the_tool() -> None:
            came = await use(agent, NAME, {"code": _CODE})
            assert came.result["content"] == [{"text": "[stdout]\n2"}], came

        async def by_the_sandbox() -> None:
            result = await sandbox.box.run(_CODE)
            assert result.stdout == "2\n", result

        pairs = await in_pairs(by_the_tool, by_the_sandbox, effort.fast, pause=PAUSE_SECONDS)
        ours, others = (figure(times) for times in zip(*pairs, strict=True))
        added = statistics.median(mine - other for mine, other in pairs)
        label = f"run of `{_CODE}` by `programmatic_tool_caller`, through Strands' executor, paced"
        rows += [
            Row(label, "ms", ours, peers={"box.run": others}),
            Row("what it adds to `box.run`", "ms", single(added, len(pairs)), Target(p50=MOST_ADDED_MS)),
        ]
    return rows
