"""What only the developer can mend is raised from an invocation of an agent in CodeAct; its model is not asked on."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("strands", reason="the extra actbox[strands] is not installed")

from strands import tool

import actbox
from actbox.core.errors import InvalidValue, SandboxStopped, SandboxUnavailable
from actbox.integrations.strands import StrandsSandbox
from tests.conftest import engine_check
from tests.integrations.strands_agents.acting import acting, block, observations, seen
from tests.integrations.strands_agents.places import sandbox_on
from tests.integrations.strands_agents.scripted import ScriptedModel


def again(messages: Any) -> str:
    """What a model says that does not give up."""
    return block("1")


@pytest.fixture
def port() -> Iterator[int]:
    """A port that refuses connections, and that nobody else can listen at meanwhile."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


async def test_a_sandbox_that_cannot_start_is_raised(port: int) -> None:
    sandbox = StrandsSandbox("ssh", host="127.0.0.1", port=port, allow_unisolated=True)
    agent = acting(sandbox, again)
    events: list[Any] = []
    with pytest.raises(SandboxUnavailable, match=r"127\.0\.0\.1|ssh"):
        async for event in agent.stream_async("go"):
            events.append(event)
    assert len(seen(agent)) == 1
    assert any(event.get("force_stop") for event in events)
    agent.model = ScriptedModel("I cannot.")
    assert str(await agent.invoke_async("and in words?")) == "I cannot.\n"


def test_a_plain_call_raises_it_too(port: int) -> None:
    agent = acting(StrandsSandbox("ssh", host="127.0.0.1", port=port, allow_unisolated=True), again)
    with pytest.raises(SandboxUnavailable):
        agent("go")


@pytest.mark.slow
async def test_a_sandbox_that_was_stopped_is_raised_and_can_be_started_again() -> None:
    async with sandbox_on("linux") as sandbox:
        agent = acting(sandbox, again)
        await sandbox.stop()
        with pytest.raises(SandboxStopped, match=r"start\(\) opens it again"):
            await agent.invoke_async("go")
        assert len(seen(agent)) == 1
        await sandbox.start()
        agent.model = ScriptedModel(block("final_answer(1)"))
        assert (await agent.invoke_async("go")).state["codeact"]["answer"] == 1


async def test_a_sandbox_of_ours_that_was_stopped_by_itself_is_raised() -> None:
    engine_check("linux")
    box = actbox.open_sandbox("linux")
    async with StrandsSandbox(box) as sandbox:
        agent = acting(sandbox, again)
        await box.stop()
        with pytest.raises(SandboxStopped):
            await agent.invoke_async("go")
        assert len(seen(agent)) == 1


async def test_where_a_program_was_ended_by_it_the_model_is_told_what_that_had_done(linux: StrandsSandbox) -> None:
    @tool
    async def close() -> str:
        """Close the sandbox."""
        await linux.stop()
        return "closed"

    agent = acting(linux, block("print('begun', flush=True)\nclose()\nwhile True: pass"), again, tools=[close])
    with pytest.raises(SandboxStopped):
        await agent.invoke_async("go")
    assert len(seen(agent)) == 2
    (observed,) = observations(agent)
    assert "begun" in observed
    assert "close() → " in observed


async def test_a_tool_that_nobody_is_asked_about_is_raised_before_the_model_is_asked() -> None:
    @actbox.tool(approval="always_require")
    def pay(order: str) -> str:
        """Pay an order."""
        return order

    async with sandbox_on("linux", code_tools=[pay]) as sandbox:
        agent = acting(sandbox, again)
        with pytest.raises(InvalidValue, match="'pay' requires approval, and there is no approver"):
            await agent.invoke_async("go")
        assert seen(agent) == []
        few = acting(sandbox, block("final_answer(1)"), allowed_tools=[])
        assert (await few.invoke_async("go")).state["codeact"]["answer"] == 1
