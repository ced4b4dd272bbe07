"""DevUI shows which call of a program waits, and its answers count for that call."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("agent_framework", reason="the extra actbox[agent-framework] is not installed")

import httpx

from actbox.integrations.agent_framework import LinuxCodeActProvider
from tests.integrations.af_payments import Ledger, payment_tools
from tests.integrations.af_scripted import ScriptedClient, agent_of, code


@pytest.fixture(autouse=True)
def devui_is_there() -> None:
    """Import it for the first test, which takes long."""
    pytest.importorskip("agent_framework_devui", reason="agent-framework-devui is not installed")


class Page:
    """A client of the development server, with one conversation."""

    def __init__(self, http: httpx.AsyncClient, entity: str, conversation: str) -> None:
        self._http = http
        self._entity = entity
        self._conversation = conversation
        self.asked: list[dict[str, Any]] = []
        self.text = ""

    @classmethod
    async def of(cls, http: httpx.AsyncClient) -> Page:
        entity = (await http.get("/v1/entities")).json()["entities"][0]["id"]
        made = await http.post("/v1/conversations", json={"metadata": {"agent_id": entity}})
        return cls(http, entity, made.json()["id"])

    async def say(self, *contents: dict[str, Any]) -> None:
        answer = await self._http.post(
            "/v1/responses",
            json={
                "model": self._entity,
                "metadata": {"entity_id": self._entity},
                "conversation": self._conversation,
                "stream": True,
                "input": [{"type": "message", "role": "user", "content": list(contents)}],
            },
        )
        lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: {")]
        events = [json.loads(line) for line in lines]
        assert not [event for event in events if event["type"] in ("error", "response.failed")], events
        self.asked = [event for event in events if event["type"] == "response.function_approval.requested"]
        self.text = "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")

    async def answer(self, approved: bool) -> None:
        (asked,) = self.asked
        name = asked["request_id"]
        await self.say({"type": "function_approval_response", "request_id": name, "approved": approved})

    @property
    def call(self) -> tuple[str, Any]:
        (asked,) = self.asked
        return asked["function_call"]["name"], asked["function_call"]["arguments"]


async def test_each_question_of_a_program_shows_its_call_and_is_answered() -> None:
    from agent_framework_devui import DevServer

    ledger: Ledger = []
    async with LinuxCodeActProvider(tools=payment_tools(ledger), approval_style="nested") as provider:
        client = ScriptedClient([code("pay('a')\npay('b', amount=7)\npay('c')")], ["done"])
        server = DevServer(auth_enabled=False, ui_enabled=False)
        server.set_pending_entities([agent_of(client, provider, name="payer")])
        transport = httpx.ASGITransport(app=server.get_app())
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
            page = await Page.of(http)
            await page.say({"type": "input_text", "text": "go"})
            assert page.call == ("pay", {"name": "a", "amount": 1})
            await page.answer(True)
            assert ledger == ["paid a 1"]
            assert page.call == ("pay", {"name": "b", "amount": 7})
            await page.answer(True)
            assert ledger == ["paid a 1", "paid b 7"]
            assert page.call == ("pay", {"name": "c", "amount": 1})
            await page.answer(False)
    assert ledger == ["paid a 1", "paid b 7"]
    assert page.text == "done"
