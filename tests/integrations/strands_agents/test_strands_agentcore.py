"""Strands agents whose sandbox is AgentCore's code interpreter: the main stories, over the wire of the service."""

from __future__ import annotations

import asyncio
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


async def test_the_model_is_told_the_folder_that_there_is(service: CodeService) -> None:
    sandbox = AgentCoreSandbox("eu-west-1")
    agent = acting(sandbox, block("open('made.txt', 'w').write('x')"), "done", "done")
    await agent.invoke_async("go")
    before, after = (request["system"] for request in seen(agent))
    assert "/workspace" not in before and "files in it stay, and relative paths lead there" in before
    assert f"Programs start in {sandbox.box.root}; files below it stay" in after
    assert f"below {sandbox.box.root}/output." in after
    await sandbox.stop()


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


async def test_a_second_agent_runs_programs_fresh_while_the_first_has_the_only_session(
    agentcore: AgentCoreSandbox,
) -> None:
    second = acting(
        agentcore,
        block("import os\nopen('made.txt', 'w').write('x')\nmine = price('tea')\nprint(mine)"),
        block("print('mine' in globals(), os.path.exists('made.txt'))"),
        block("import os\nprint('mine' in globals(), os.path.exists('made.txt'))"),
        "done",
        tools=[price],
    )

    begun, over = asyncio.Event(), asyncio.Event()

    @tool
    async def meet() -> str:
        """Wait until the other agent is done."""
        begun.set()
        await over.wait()
        return "met"

    first = acting(agentcore, block("mine = 1\nprint(meet())"), block("final_answer(mine)"), tools=[meet])
    running = asyncio.create_task(first.invoke_async("go"))
    await begun.wait()
    await second.invoke_async("go")
    over.set()
    assert (await running).state["codeact"]["answer"] == 1
    told, failed, mended = observations(second)
    assert told.startswith("[stdout]\n450")
    assert "this program started fresh, and so will your next ones" in told
    assert "NameError: name 'os' is not defined" in failed and "started fresh" not in failed
    assert mended == "[stdout]\nFalse True"
    before, *after = ["Each program starts fresh" in request["system"] for request in seen(second)]
    assert (before, after) == (False, [True, True, True])


@pytest.mark.parametrize("keep_session", [True, False])
async def test_an_agent_has_the_session_when_nobody_else_has_it_any_more(
    agentcore: AgentCoreSandbox, keep_session: bool
) -> None:
    agent = acting(
        agentcore,
        block("mine = 1"),
        "done",
        block("mine = 2"),
        block("final_answer(mine)"),
        keep_session=keep_session,
    )
    async with agentcore.box.session() as held:
        await held.run("held = 1")
        await agent.invoke_async("go")
    assert "started fresh" in observations(agent)[0]
    result = await agent.invoke_async("go")
    assert result.state["codeact"]["answer"] == 2
    assert "share one interpreter" in seen(agent)[-1]["system"]
