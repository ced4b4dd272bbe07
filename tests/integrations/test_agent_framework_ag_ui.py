"""AG-UI's endpoint shows which call of a program waits, takes answers and edits, and each of several questions."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

pytest.importorskip("agent_framework", reason="the extra actbox[agent-framework] is not installed")

import httpx
from agent_framework import FunctionTool, ToolApprovalMiddleware

from actbox.integrations.agent_framework import LinuxCodeActProvider
from tests.integrations.af_payments import Ledger, payment_tools
from tests.integrations.af_scripted import ScriptedClient, agent_of, code

PROGRAM = "look('a')\npay('a')\nprint(pay('b', amount=7))"


@pytest.fixture(autouse=True)
def ag_ui_is_there() -> None:
    """Import it for the first test, which takes long."""
    pytest.importorskip("agent_framework_ag_ui", reason="agent-framework-ag-ui is not installed")


class Page:
    """A client of the endpoint with one thread: what a browser keeps and sends."""

    def __init__(self, provider: Any, *turns: Any, **given: Any) -> None:
        from agent_framework_ag_ui import add_agent_framework_fastapi_endpoint
        from fastapi import FastAPI

        self.client = ScriptedClient(*turns)
        self.app = FastAPI()
        add_agent_framework_fastapi_endpoint(self.app, agent_of(self.client, provider, **given), single_user=True)
        self.messages: dict[str, Any] = {"m1": {"id": "m1", "role": "user", "content": "go"}}
        self.interrupts: list[dict[str, Any]] = []
        self.text = ""
        self._runs = 0

    async def send(self, **said: Any) -> None:
        self._runs += 1
        body = {"threadId": "thread-1", "runId": f"run-{self._runs}", "messages": list(self.messages.values()), **said}
        transport = httpx.ASGITransport(app=self.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://page") as http:
            answer = await http.post("/", json=body)
        assert answer.status_code == 200, answer.text
        lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: ")]
        events = [json.loads(line) for line in lines]
        assert events[-1]["type"] == "RUN_FINISHED", events
        assert not [event for event in events if event["type"] == "RUN_ERROR"], events
        for event in events:
            if event["type"] == "MESSAGES_SNAPSHOT":
                self.messages |= {message["id"]: message for message in event["messages"]}
        self.interrupts = (events[-1].get("outcome") or {}).get("interrupts", [])
        self.text = "".join(event["delta"] for event in events if event["type"] == "TEXT_MESSAGE_CONTENT")

    async def decide(self, **payload: Any) -> None:
        (interrupt,) = self.interrupts
        await self.send(resume=[{"interruptId": interrupt["id"], "status": "resolved", "payload": payload}])

    @property
    def call(self) -> tuple[str, Any]:
        (interrupt,) = self.interrupts
        call = interrupt["metadata"]["agent_framework"]["function_call"]
        return call["name"], call["arguments"]


@pytest.fixture
def ledger() -> Ledger:
    return []


@pytest.fixture
def tools(ledger: Ledger) -> list[FunctionTool]:
    return payment_tools(ledger)


@pytest_asyncio.fixture
async def nested(tools: list[FunctionTool]) -> AsyncIterator[LinuxCodeActProvider]:
    async with LinuxCodeActProvider(tools=tools, approval_style="nested") as provider:
        yield provider


@pytest.mark.slow
async def test_each_question_of_a_program_shows_its_call_and_is_answered(
    nested: LinuxCodeActProvider, ledger: Ledger
) -> None:
    page = Page(nested, [code(PROGRAM)], ["done"])
    await page.send()
    assert page.call == ("pay", {"name": "a", "amount": 1})
    await page.decide(approved=True)
    assert ledger == ["looked at a", "paid a 1"]
    assert page.call == ("pay", {"name": "b", "amount": 7})
    await page.decide(approved=True)
    assert ledger == ["looked at a", "paid a 1", "paid b 7"]
    assert page.text == "done"
    assert "receipt for b" in page.client.read()


@pytest.mark.slow
async def test_a_refused_call_is_not_made(nested: LinuxCodeActProvider, ledger: Ledger) -> None:
    page = Page(nested, [code(PROGRAM)], ["done"])
    await page.send()
    await page.decide(approved=True)
    await page.decide(approved=False)
    assert ledger == ["looked at a", "paid a 1"]
    assert page.text == "done"


@pytest.mark.slow
async def test_edited_arguments_are_those_of_the_call(nested: LinuxCodeActProvider, ledger: Ledger) -> None:
    page = Page(nested, [code(PROGRAM)], ["done"])
    await page.send()
    await page.decide(approved=True, editedArgs={"name": "a", "amount": 3})
    assert page.call == ("pay", {"name": "b", "amount": 7})
    await page.decide(approved=True, editedArgs={"name": "c", "amount": 7})
    assert ledger == ["looked at a", "paid a 3", "paid c 7"]
    assert "receipt for c" in page.client.read()


async def test_an_argument_that_is_too_long_to_be_shown_stays_whole_beside_an_edited_one(
    nested: LinuxCodeActProvider, ledger: Ledger
) -> None:
    page = Page(nested, [code("pay('a' * 50_000, amount=100)")], ["done"])
    await page.send()
    shown = page.call[1]
    assert len(shown["name"]) < 50_000
    await page.decide(approved=True, editedArgs={**shown, "amount": 2})
    assert ledger == [f"paid {'a' * 50_000} 2"]


async def test_an_edit_that_the_tool_does_not_take_fails_the_call(ledger: Ledger) -> None:
    def pay(name: str, amount: float) -> None:
        ledger.append(f"paid {name} {amount}")

    strict = FunctionTool(
        name="pay",
        description="…",
        func=pay,
        approval_mode="always_require",
        input_model={
            "type": "object",
            "properties": {"name": {"type": "string", "enum": ["a", "b"]}, "amount": {"type": "number"}},
            "required": ["name", "amount"],
        },
    )
    async with LinuxCodeActProvider(tools=[strict], approval_style="nested") as provider:
        page = Page(provider, [code("pay(name='a', amount=1)")], ["done"])
        await page.send()
        await page.decide(approved=True, editedArgs={"name": "somebody else", "amount": 1})
    assert ledger == []
    assert "somebody else" in page.client.read()


@pytest.mark.parametrize("style", ["bundled", "inspected"])
async def test_an_edited_program_runs_in_place_of_the_one_that_was_asked_about(
    tools: list[FunctionTool], ledger: Ledger, style: Any
) -> None:
    async with LinuxCodeActProvider(tools=tools, approval_style=style) as provider:
        page = Page(provider, [code("pay('a', amount=100)")], ["done"])
        await page.send()
        assert page.call == ("execute_code", {"code": "pay('a', amount=100)"})
        await page.decide(approved=True, editedArgs={"code": "pay('a', amount=2)"})
        assert ledger == ["paid a 2"]
        assert page.text == "done"


@pytest.mark.slow
async def test_a_question_about_the_program_and_then_one_about_its_call(
    tools: list[FunctionTool], ledger: Ledger
) -> None:
    async with LinuxCodeActProvider(tools=tools, approval_style="nested", approval_mode="always_require") as provider:
        page = Page(provider, [code("pay('a')")], ["done"])
        await page.send()
        assert page.call == ("execute_code", {"code": "pay('a')"})
        await page.decide(approved=True, editedArgs={"code": "pay('b')"})
        assert page.call == ("pay", {"name": "b", "amount": 1})
        assert ledger == []
        await page.decide(approved=True)
        assert ledger == ["paid b 1"]
        assert page.text == "done"


async def test_the_call_of_a_program_is_not_taken_for_one_of_the_agents_own_tool(
    nested: LinuxCodeActProvider, ledger: Ledger
) -> None:
    def pay(name: str, amount: int = 1) -> None:
        ledger.append("the agent's own tool")

    own = FunctionTool(name="pay", description="…", func=pay, approval_mode="always_require")
    page = Page(nested, [code("pay('a'); pay('b')")], ["done"], tools=[own])
    await page.send()
    await page.decide(approved=True, editedArgs={"name": "a", "amount": 4})
    await page.decide(approved=True)
    assert ledger == ["paid a 4", "paid b 1"]
    assert page.text == "done"


async def test_the_hosts_rules_answer_beside_the_page(nested: LinuxCodeActProvider, ledger: Ledger) -> None:
    def small(call: Any) -> bool:
        return bool(call.name == "pay" and call.parse_arguments()["amount"] < 5)

    middleware = [ToolApprovalMiddleware(auto_approval_rules=[small])]
    page = Page(nested, [code(PROGRAM)], ["done"], middleware=middleware)
    await page.send()
    assert ledger == ["looked at a", "paid a 1"]
    assert page.call == ("pay", {"name": "b", "amount": 7})
    await page.decide(approved=True)
    assert ledger == ["looked at a", "paid a 1", "paid b 7"]
    assert page.text == "done"
