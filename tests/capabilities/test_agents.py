"""Capabilities as the tools of agents: as functions in programs, and as calls of a model of each framework."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import actbox
from actbox.capabilities import Budget, Capability, CapabilityTools, Journal, Label, standard_registry
from actbox.capabilities.outcome import Outcome
from actbox.capabilities.registry import Registry
from actbox.codeact import CallbackApprover, CodeAgent, ScriptedModel, SystemMessage
from actbox.core.errors import InvalidValue, ToolError
from actbox.tools import Tool, Toolset
from tests.clock import Clock
from tests.conftest import engine_check

PRICES = {"tea": 450, "cake": 320}


def capability(id: str = "shop.price", handler: Callable[[Any], Any] | None = None, **more: Any) -> Capability:
    async def look_up(call: Any) -> Any:
        return PRICES[call.input["item"]]

    about = more.pop("description", "Return the price of an item in cents")
    return Capability(
        id, about, "[:map [:item :string]]", more.pop("output", ":int"), handler=handler or look_up, **more
    )


@pytest_asyncio.fixture
async def box() -> AsyncIterator[actbox.Sandbox]:
    if not (found := engine_check("linux")).works:
        pytest.skip(f"the linux engine does not work here: {found.reason}")
    async with actbox.open_sandbox("linux") as opened:
        yield opened


def named(tools: CapabilityTools, name: str) -> Tool:
    return next(tool for tool in tools if tool.name == name)


async def call(tools: CapabilityTools, name: str, **arguments: Any) -> Any:
    return await named(tools, name).call(arguments)


# Functions in programs


async def test_a_program_calls_capabilities_as_functions(box: actbox.Sandbox) -> None:
    outcomes: list[Outcome] = []
    registry = Registry([capability(effects=["network"], risk="medium", approvals=["shop"])], granted=["shop"])
    tools = CapabilityTools(registry, caller="agent-1", budget=Budget(steps=2), on_outcome=outcomes.append)
    program = "```python\nfinal_answer(shop_price('tea') + shop_price(item='cake'))\n```"
    model = ScriptedModel([program])
    answered = await CodeAgent(model, box, tools=tools).run("What do they cost together?")
    assert answered.answer == 770
    instructions = model.asked[0][0]
    assert isinstance(instructions, SystemMessage)
    assert "def shop_price(item: str) -> int:" in instructions.text
    assert "Effects: network. Risk: medium. Needs approval: shop." in instructions.text
    assert [one.output for one in outcomes] == [450, 320]
    assert tools.account.used["steps"] == 2


async def test_a_program_stands_still_while_somebody_is_asked(box: actbox.Sandbox, clock: Clock) -> None:
    async def decide(request: Any) -> bool:
        clock.turn(1_000)
        await asyncio.sleep(0)
        return True

    registry = Registry([capability(approvals=["shop"])], approver=CallbackApprover(decide))
    result = await box.run("shop_price('tea')", tools=CapabilityTools(registry))
    assert result.value == 450, result.error
    assert result.usage.approval_ms >= 1_000_000


async def test_a_program_whose_call_is_refused_goes_on(box: actbox.Sandbox) -> None:
    registry = Registry([capability(approvals=["shop"])], approver=CallbackApprover(lambda request: False))
    program = "try:\n    shop_price('tea')\nexcept ToolError as error:\n    print(error)"
    result = await box.run(program, tools=CapabilityTools(registry))
    assert "shop.price was refused" in result.stdout
    assert "(step approval)" in result.stdout


# What a call comes to


async def test_a_wrong_input_names_the_step_and_is_in_the_journal(tmp_path: Path) -> None:
    journal = Journal.open(f"sqlite:///{tmp_path}/journal.db")
    tools = CapabilityTools(Registry([capability()], journal=journal), caller="agent-1")
    with pytest.raises(ToolError, match=r"(?s)does not fit shop.price: .*\(step validate_input\)") as failed:
        await call(tools, "shop_price", items="tea")
    assert failed.value.tool == "shop_price"
    entries = [entry async for entry in journal.entries()]
    journal.close()
    assert [(entry.kind, entry.body["caller"]) for entry in entries] == [("refused", "agent-1")]


async def test_all_calls_share_one_budget_and_its_end_is_a_sentence() -> None:
    registry = Registry([capability(), capability("shop.stock")], budget=Budget(steps=100))
    tools = CapabilityTools(registry, budget=Budget(steps=2))
    await asyncio.gather(call(tools, "shop_price", item="tea"), call(tools, "shop_stock", item="tea"))
    with pytest.raises(ToolError, match=r"0 of 2 left \(step budget\); nothing is left for further calls: answer with"):
        await call(tools, "shop_price", item="tea")
    assert registry.account.used["steps"] == 2
    with pytest.raises(InvalidValue, match="its parent has left"):
        CapabilityTools(registry, budget=Budget(steps=99))


async def test_what_an_agent_has_read_is_the_label_of_its_next_input() -> None:
    registry = Registry(
        [capability(data="pii.email"), capability("web.post", effects=["network"])], egress_max="public"
    )
    tools = CapabilityTools(registry)
    await call(tools, "web_post", item="tea")
    await call(tools, "shop_price", item="tea")
    assert tools.label == Label("pii.email")
    with pytest.raises(ToolError, match=r"up to public, and this has the label pii.email \(step label\)"):
        await call(tools, "web_post", item="tea")
    assert CapabilityTools(registry).label == Label("public")


async def test_two_conversations_share_no_session() -> None:
    async with standard_registry(engine="linux", granted=["compute"], sessions=True) as registry:
        first, second = CapabilityTools(registry), CapabilityTools(registry)
        await call(first, "execute_python", code="x = 1", session="s")
        assert (await call(first, "execute_python", code="print(x)", session="s"))["stdout"] == "1\n"
        assert "NameError" in (await call(second, "execute_python", code="print(x)", session="s"))["error"]


async def test_a_program_passes_its_label_on_and_has_that_of_each_outcome() -> None:
    seen: list[Outcome] = []
    posts = capability("web.post", effects=["network"])
    registry = Registry([capability(data="pii.email"), posts], egress_max="public")
    async with actbox.open_sandbox("linux", policy=actbox.Policy(label="internal")) as box:
        tools = CapabilityTools(registry, on_outcome=seen.append)
        assert (await box.run("web_post('tea')", tools=tools)).success is False
        result = await box.run("shop_price('tea')", tools=tools)
    assert [one.labels for one in seen] == [Label("internal"), Label("internal", "pii.email")]
    assert result.label == Label("internal", "pii.email")


async def test_an_outcome_may_be_awaited() -> None:
    told: list[Outcome] = []

    async def tell(outcome: Outcome) -> None:
        await asyncio.sleep(0)
        told.append(outcome)

    with pytest.raises(ToolError, match="KeyError"):
        await call(CapabilityTools(Registry([capability()]), on_outcome=tell), "shop_price", item="pie")
    assert [one.ok for one in told] == [False]


# Which tools there are


async def test_many_capabilities_are_searched() -> None:
    many = [capability(f"shop.price{number}", description=f"The price in shop {number}") for number in range(20)]
    weather = capability("weather.now", description="Return the temperature in a city", risk="medium")
    tools = CapabilityTools(Registry([*many, weather]), always=["shop.price3"])
    assert [tool.name for tool in tools] == ["shop_price3", "search_capabilities", "invoke_capability"]
    first, *_ = await call(tools, "search_capabilities", text="temperatures of cities")
    assert first == {
        "id": "weather.now",
        "description": "Return the temperature in a city",
        "effects": [],
        "risk": "medium",
        "approvals": [],
        "input_schema": weather.input_schema.to_json(),
    }
    assert await call(tools, "invoke_capability", id="ccos.weather.now", input={"item": "tea"}) == 450
    with pytest.raises(ToolError, match=r"did you mean 'weather.now'.*search_capabilities"):
        await call(tools, "invoke_capability", id="weather.no", input={})
    assert len(await call(tools, "search_capabilities", text="price", limit=4)) == 4


async def test_only_the_capabilities_that_are_meant_are_tools() -> None:
    registry = Registry(
        [capability(), capability("shop.stock"), Capability("shop.open", "Declared only", "[:map]", True)]
    )
    assert [tool.name for tool in CapabilityTools(registry)] == ["shop_price", "shop_stock"]
    assert [tool.name for tool in CapabilityTools(registry, only=["ccos.shop.stock"])] == ["shop_stock"]
    assert [tool.name for tool in CapabilityTools(registry, only=["shop.s*", "*.stock"])] == ["shop_stock"]
    tools = CapabilityTools(registry, only=["shop.stock"], search_above=0)
    with pytest.raises(ToolError, match=r"there is no tool for the capability 'shop.price'"):
        await call(tools, "invoke_capability", id="shop.price", input={"item": "tea"})
    registry.register(capability("shop.later"))
    with pytest.raises(ToolError, match="no tool"):
        await call(tools, "invoke_capability", id="shop.later", input={"item": "tea"})


@pytest.mark.parametrize(
    ("ids", "given", "message"),
    [
        (["a.b", "a_b"], {}, "'a.b' and 'a_b' are both a_b"),
        (["call_tool"], {}, "programs already have that name"),
        (["search.capabilities"], {"search_above": 0, "always": ["search.capabilities"]}, "two tools are called"),
        (["a.b"], {"only": ["a.c"]}, "no capability 'a.c'"),
        (["a.b", "c"], {"only": ["c"], "always": ["a.b"]}, "no tool for the capability 'a.b'"),
        (["a.b"], {"only": "a.b"}, "give a list of ids, such as .'a.b'"),
        (["a.b"], {"always": ["b.*"]}, "no capability has an id like 'b.*'"),
        (["a.b"], {"search_above": -1}, "search_above is a whole number"),
    ],
)
def test_tools_that_cannot_be_are_refused(ids: list[str], given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        CapabilityTools(Registry([capability(id) for id in ids]), **given)


def test_the_tools_are_a_sequence() -> None:
    tools = CapabilityTools(Registry([capability(), capability("shop.stock")]))
    assert repr(tools) == "CapabilityTools(shop_price, shop_stock)"
    assert (tools[0].name, len(tools[:1]), tools[1] in tools) == ("shop_price", 1, True)
    assert Toolset.of([*tools]).names == ("shop_price", "shop_stock")


# Frameworks


async def test_an_agent_of_agent_framework_calls_them_itself() -> None:
    pytest.importorskip("agent_framework")
    from agent_framework import Content

    from actbox.integrations.agent_framework import model_tools
    from tests.integrations.af_scripted import ScriptedClient, agent_of

    async def chart(call: Any) -> Any:
        return {"png": "A" * 2_000, "text": "long " * 5_000}

    tools = CapabilityTools(Registry([capability(), capability("shop.chart", chart, output=True)]))
    asks = [Content.from_function_call("1", "shop_price", arguments={"item": item}) for item in ("tea", "pie")]
    asks.append(Content.from_function_call("3", "shop_chart", arguments={"item": "tea"}))
    client = ScriptedClient(asks, ["done"])
    response = await agent_of(client, tools=model_tools(tools)).run("What does tea cost?")
    assert response.text == "done"
    assert client.tool("shop_price").parameters() == named(tools, "shop_price").input_schema
    answers = [result.result for result in client.results()]
    assert answers[:2] == ["450", "Error: shop.price failed: KeyError: 'pie' (step run)"]
    assert answers[2].startswith('{"png": "[base64 of 1,500 bytes]", "text": "long long')
    assert "characters left out" in answers[2]


@pytest.mark.slow
async def test_programs_of_agent_framework_call_them() -> None:
    pytest.importorskip("agent_framework")
    from actbox.integrations.agent_framework import LinuxCodeActProvider
    from tests.integrations.af_scripted import run_program

    tools = CapabilityTools(Registry([capability()]))
    async with LinuxCodeActProvider(tools=tools) as codeact:
        client = await run_program(codeact, "print(shop_price('tea') * 2)")
    assert "900" in client.read()
    assert "def shop_price(item: str) -> int" in client.tool().description


async def test_an_agent_of_strands_calls_them_itself() -> None:
    pytest.importorskip("strands")
    from strands import Agent

    from actbox.integrations.strands import model_tools
    from tests.integrations.strands_agents.scripted import ScriptedModel as StrandsModel

    tools = CapabilityTools(Registry([capability()]))
    model = StrandsModel([("shop_price", {"item": "tea"}), ("shop_price", {"item": "pie"})], "done")
    agent = Agent(model=model, tools=[*model_tools(tools)], callback_handler=None)
    await agent.invoke_async("What does tea cost?")
    results = [block["toolResult"] for block in agent.messages[2]["content"]]
    assert [result["status"] for result in results] == ["success", "error"]
    assert results[0]["content"] == [{"json": 450}]
    assert results[1]["content"] == [{"text": "shop.price failed: KeyError: 'pie' (step run)"}]

    @actbox.tool(approval="always_require")
    def pay(euros: int) -> None: ...

    with pytest.raises(InvalidValue, match="'pay' requires approval"):
        model_tools([pay])


@pytest.mark.slow
async def test_programs_of_strands_call_them() -> None:
    pytest.importorskip("strands")
    from actbox.integrations.strands import StrandsSandbox, model_tools
    from tests.integrations.strands_agents.acting import acting, block

    tools = CapabilityTools(Registry([capability()]))
    program = block("final_answer(shop_price('tea') * 2)")
    async with StrandsSandbox("linux", code_tools=tools) as sandbox:
        result = await acting(sandbox, program).invoke_async("go")
        assert result.state["codeact"]["answer"] == 900
    async with StrandsSandbox("linux") as sandbox:
        result = await acting(sandbox, program, tools=model_tools(tools)).invoke_async("go")
        assert result.state["codeact"]["answer"] == 900
