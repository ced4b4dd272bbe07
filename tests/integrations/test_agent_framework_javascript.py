"""The providers and tools whose programs are JavaScript: what a model is told, and a run of a real agent."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("agent_framework", reason="the extra actbox[agent-framework] is not installed")

from actbox import InvalidValue
from actbox.integrations.agent_framework import HyperlightExecuteCodeTool, NodeCodeActProvider, NodeExecuteCodeTool
from actbox.sandbox.engines.hyperlight import options
from tests.conftest import engine_check
from tests.integrations.af_scripted import ScriptedClient, agent_of, code


def price(product: str, *, currency: str = "EUR") -> float:
    """Return what a product costs."""
    return {"tea": 2.5, "cake": 1.25}[product]


def test_tools_are_declared_in_typescript_and_programs_are_javascript(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "missing_package", lambda backend, module: "")
    for tool in (NodeExecuteCodeTool(tools=[price]), HyperlightExecuteCodeTool(tools=[price], backend="javascript")):
        for text in (tool.description, tool.build_instructions(tools_visible_to_model=False)):
            assert "```typescript\n" in text and "declare function price(" in text and "Promise<number>;" in text
            assert "JavaScript" in text and "Promise.all" in text
            assert "Python" not in text and "asyncio" not in text and "def price" not in text
    assert "a JavaScript program" in NodeExecuteCodeTool().build_instructions(tools_visible_to_model=True)
    assert "def price" in HyperlightExecuteCodeTool(tools=[price]).description


def test_many_tools_are_declared_too_since_none_can_be_searched() -> None:
    def numbered(number: int) -> Any:
        def tool() -> int:
            return number

        tool.__name__ = f"tool_{number}"
        return tool

    description = NodeExecuteCodeTool(tools=[numbered(number) for number in range(60)]).description
    assert "declare function tool_59(" in description and "search_tools" not in description


@pytest.mark.parametrize("given", [{"approval_style": "inspected"}, {"language": "cobol"}])
def test_what_reads_programs_in_python_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue, match=r"JavaScript|language"):
        NodeCodeActProvider(tools=[price], **given)


@pytest.mark.slow
async def test_an_agent_calls_tools_in_javascript_and_mends_a_program_by_its_line() -> None:
    if not (found := engine_check("node")).works:
        pytest.skip(f"the node engine does not work here: {found.reason}. {found.advice}")
    program = "const all = await Promise.all(['tea', 'cake'].map((product) => price({product})));\nall[0] + all[1]"
    client = ScriptedClient([code("let x = 1;\nnope()")], [code(program, "call-2")], ["It is 3.75."])
    async with NodeCodeActProvider(tools=[price]) as codeact:
        response = await agent_of(client, codeact).run("how much?")
    assert response.text == "It is 3.75."
    first, second = client.results()
    assert "line 2" in str(first.result) and "nope" in str(first.result)
    assert "3.75" in str(second.result)
