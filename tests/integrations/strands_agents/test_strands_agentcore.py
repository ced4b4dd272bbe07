"""Strands agents whose sandbox is AgentCore's code interpreter: the main stories, over the wire of the service."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

pytest.importorskip("strands", reason="the extra actbox[strands] is not installed")

from strands import ToolContext, tool

from actbox.core.errors import SandboxStopped
from actbox.integrations.strands import AgentCoreSandbox, file_read, python, python_session, shell
from tests.engines.agentcore.aws_settings import aws_configured, service_found
from tests.engines.agentcore.code_service import CodeService
from tests.integrations.strands_agents.acting import acting, block, observations, seen
from tests.integrations.strands_agents.places import agent_of, answers
from tests.integrations.strands_agents.programs import agent_with, text_of
from tests.integrations.strands_agents.programs import answers as to


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


# One sandbox for all tools


@pytest.mark.slow
async def test_what_the_shell_writes_is_read_by_python_and_the_file_tools(agentcore: AgentCoreSandbox) -> None:
    agent = agent_of(
        ("shell", {"command": "mkdir sales && echo 6,7 > sales/q3.csv"}),
        ("shell", {"command": "cd sales && pwd"}),
        ("shell", {"command": "ls; exit 3"}),
        ("python", {"code": "a, b = open('sales/q3.csv').read().split(',')\nprint(int(a) * int(b))"}),
        ("python_session", {"code": "rows = open('sales/q3.csv').read()"}),
        ("python_session", {"code": "rows"}),
        ("file_read", {"path": "sales/q3.csv"}),
        tools=[shell, python, python_session, file_read],
        sandbox=agentcore,
    )
    assert (await agent.invoke_async("go")).stop_reason == "end_turn"
    said = answers(agent)
    assert json.loads(said[1])["output"] == f"{agentcore.box.root}/sales\n"
    assert (json.loads(said[2])["output"], json.loads(said[2])["exit_code"]) == ("q3.csv\n", 3)
    assert said[3:] == ["[stdout]\n42", said[4], "[value]\n'6,7\\n'", "6,7\n"]


# Programs that call the agent's tools


@pytest.mark.slow
async def test_a_hundred_calls_of_one_program_take_one_turn_of_the_model(agentcore: AgentCoreSandbox) -> None:
    program = (
        "import asyncio\nfirst = [await price(item='tea') for _ in range(10)]\n"
        "print(sum(first + await asyncio.gather(*(price('cake') for _ in range(90)))))"
    )
    agent = agent_with(agentcore, program, tools=[price])
    await agent.invoke_async("go")
    assert text_of(agent) == f"[stdout]\n{10 * 450 + 90 * 320}"
    assert len(seen(agent)) == 2
    assert agent.event_loop_metrics.tool_metrics["price"].call_count == 100


@pytest.mark.slow
async def test_a_program_waits_in_the_service_while_a_person_answers(agentcore: AgentCoreSandbox) -> None:
    done = []

    @tool(context=True)
    def pay(name: str, tool_context: ToolContext) -> str:
        """Pay, if a person says yes."""
        if tool_context.interrupt("approval", reason=name) != "yes":
            return "refused"
        done.append(name)
        return "paid"

    agent = agent_with(agentcore, "print(price('tea'))\nprint(pay('tea'))\nprint(price('cake'))", tools=[price, pay])
    asked = await agent.invoke_async("go")
    assert (asked.stop_reason, [item.reason for item in asked.interrupts], done) == ("interrupt", ["tea"], [])
    assert (await agent.invoke_async(to(asked))).stop_reason == "end_turn"
    assert text_of(agent) == "[stdout]\n450\npaid\n320"
    assert (done, agent.event_loop_metrics.tool_metrics["price"].call_count) == (["tea"], 2)


# CodeAct


@pytest.mark.slow
async def test_a_program_that_fails_is_mended_and_finds_what_the_first_one_left(agentcore: AgentCoreSandbox) -> None:
    agent = acting(
        agentcore,
        block("prices = [price('tea'), price('cake')]\nprint(totl(prices))"),
        block("final_answer(sum(prices))"),
        tools=[price],
    )
    result = await agent.invoke_async("go")
    (failed, _) = observations(agent)
    assert "NameError: name 'totl' is not defined" in failed
    assert '1. price({"item": "tea"}) → returned' in failed
    assert result.state["codeact"] == {"stopped": "final_answer", "answer": 770, "turns": 2, "programs": 2}


@pytest.mark.slow
async def test_a_program_of_a_session_waits_for_a_person_too(agentcore: AgentCoreSandbox) -> None:
    @tool(context=True)
    def ask(tool_context: ToolContext) -> str:
        """Ask a person."""
        return str(tool_context.interrupt("approval"))

    agent = acting(agentcore, block("before = 1\nsaid = ask()"), block("final_answer([before, said])"), tools=[ask])
    asked = await agent.invoke_async("go")
    assert asked.stop_reason == "interrupt"
    result = await agent.invoke_async(to(asked))
    assert result.state["codeact"]["answer"] == [1, "yes"]


@pytest.mark.slow
async def test_the_model_is_told_the_folder_that_there_is(service: CodeService) -> None:
    sandbox = AgentCoreSandbox("eu-west-1")
    agent = acting(sandbox, block("open('made.txt', 'w').write('x')"), "done", "done")
    await agent.invoke_async("go")
    before, after = (request["system"] for request in seen(agent))
    assert "/workspace" not in before and "files in it stay, and relative paths lead there" in before
    assert f"Programs start in {sandbox.box.root}; files below it stay" in after
    assert f"below {sandbox.box.root}/output." in after
    await sandbox.stop()


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


async def test_the_end_of_the_services_session_is_told_and_the_next_program_raises_it(service: CodeService) -> None:
    sandbox = AgentCoreSandbox("eu-west-1")

    @tool
    async def expire() -> None:
        """Have the service end the session."""
        service.expire(service.running[-1].id)

    agent = acting(sandbox, block("v = 1\nexpire()\nimport time\ntime.sleep(600)"), block("v"), tools=[expire])
    with pytest.raises(SandboxStopped, match=r"the service's session is over.*session_seconds"):
        await agent.invoke_async("go")
    (told,) = observations(agent)
    assert "error SANDBOX" in told
    assert "the service's session is over" in told and "session_seconds" in told
    await sandbox.stop()
