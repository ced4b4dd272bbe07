"""Providers and tools whose programs are reviewed before they run."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("agent_framework", reason="the extra actbox[agent-framework] is not installed")

from actbox import InvalidValue, Unsupported
from actbox.integrations.agent_framework import LinuxCodeActProvider, LinuxExecuteCodeTool, NodeCodeActProvider
from actbox.review import Rules, javascript_tree
from tests.integrations.af_scripted import ScriptedClient, about, agent_of, answers, code, run_program

SPEC = Rules.preset("spec")
SHELL = "import subprocess as s\ns.run(['ls'])"


async def test_the_model_reads_rule_and_line_and_sends_another_program() -> None:
    client = ScriptedClient([code(SHELL)], [code("print(1 + 1)", "call-2")], ["It is 2."])
    async with LinuxCodeActProvider(review=SPEC) as codeact:
        response = await agent_of(client, codeact).run("how much?")
    assert response.text == "It is 2."
    assert "line 2: process: calls subprocess.run" in client.read(1)
    assert client.read() == "[stdout]\n2"


@pytest.mark.parametrize("approved", [True, False])
async def test_a_rule_that_asks_has_the_framework_ask(approved: bool) -> None:
    client = ScriptedClient([code("print(eval('1 + 1'))")], ["done"])
    async with LinuxCodeActProvider(review=Rules({"code": "ask"})) as codeact:
        agent = agent_of(client, codeact)
        session = agent.create_session()
        asked = await agent.run("go", session=session)
        (request,) = asked.user_input_requests
        assert "line 1: code: calls builtins.eval" in about(request)["reason"]
        await agent.run(answers(asked, approved), session=session)
    assert ("[stdout]\n2" in client.read()) == approved


async def test_a_tool_that_stands_alone_reviews_too_and_asks_nobody() -> None:
    tool = LinuxExecuteCodeTool(review=Rules.preset("spec", {"code": "ask"}))
    client = ScriptedClient([code(SHELL), code("eval('1')", "call-2")], ["done"])
    await agent_of(client, tools=[tool]).run("go")
    blocked, asked = (str(result.result) for result in client.results())
    assert "line 2: process: calls subprocess.run" in blocked
    assert "nobody can be asked here" in asked
    await tool.close()


async def test_programs_in_javascript_are_read() -> None:
    pytest.importorskip("tree_sitter_javascript", reason="the extra actbox[review] is not installed")
    async with NodeCodeActProvider(review=SPEC) as codeact:
        client = await run_program(codeact, "const {exec: go} = require('child_process');\ngo('ls')")
    assert "line 2: process: calls child_process.exec" in client.read()


def test_rules_are_rules_and_javascript_has_its_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    given: Any = {"process": "block"}
    with pytest.raises(InvalidValue, match=r"review must be actbox\.review\.Rules, not dict"):
        LinuxCodeActProvider(review=given)

    def missing() -> None:
        raise Unsupported("programs in JavaScript are read by tree-sitter: pip install 'actbox[review]'")

    monkeypatch.setattr(javascript_tree, "parser", missing)
    with pytest.raises(Unsupported, match="pip install"):
        NodeCodeActProvider(review=SPEC)
