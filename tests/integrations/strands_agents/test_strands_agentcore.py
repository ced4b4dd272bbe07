"""Strands agents whose sandbox is AgentCore's code interpreter: the main stories, over the wire of the service."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

pytest.importorskip("strands", reason="the extra actbox[strands] is not installed")

from strands import tool

from actbox.integrations.strands import AgentCoreSandbox
from tests.engines.agentcore.aws_settings import aws_configured, service_found
from tests.engines.agentcore.code_service import CodeService
from tests.integrations.strands_agents.acting import acting, block, observations, seen


@pytest.fixture(scope="module")
def service() -> Iterator[CodeService]:
    """The service, where the client of boto3 looks for it."""
    with aws_configured() as aws, service_found(aws) as running:
        yield running


@pytest_asyncio.fixture
async def agentcore(service: CodeService) -> AsyncIterator[AgentCoreSandbox]:
    """A sandbox in a session of it."""
    async with AgentCoreSandbox("eu-west-1") as opened:
        yield opened


@tool
def price(item: str) -> int:
    """Return the price of an item in cents."""
    return {"tea": 450, "cake": 320}[item]


# CodeAct


async def test_programs_in_javascript_start_fresh_and_the_model_is_told(agentcore: AgentCoreSandbox) -> None:
    agent = acting(
        agentcore,
        block("const tea = await price({ item: 'tea' })\nconsole.log(tea)", "javascript"),
        block("await final_answer(typeof tea)", "javascript"),
        tools=[price],
        language="javascript",
    )
    result = await agent.invoke_async("go")
    assert observations(agent)[0] == "[stdout]\n450"
    assert result.state["codeact"]["answer"] == "undefined"
    assert all("Each program starts fresh" in request["system"] for request in seen(agent))
    assert not any("share one interpreter" in request["system"] for request in seen(agent))
