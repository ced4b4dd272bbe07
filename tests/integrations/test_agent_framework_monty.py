"""The providers and tools over the `monty` engine, in runs of a real agent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("agent_framework", reason="the extra actbox[agent-framework] is not installed")
pytest.importorskip("pydantic_monty", reason="the extra actbox[monty] is not installed")

from agent_framework import Agent, AgentSession

from actbox import InvalidValue, SandboxUnavailable
from actbox.integrations.agent_framework import MontyCodeActProvider, MontyExecuteCodeTool, MontyFileMount
from actbox.sandbox.engines.monty import library
from tests.integrations.af_scripted import ScriptedClient, agent_of, code, run_program


def double(n: int) -> int:
    """Double a number."""
    return 2 * n


async def test_an_agent_calls_tools_in_a_program_and_mends_it() -> None:
    client = ScriptedClient(
        [code("class A: pass\nclass B(A): pass")], [code("sum([double(n) for n in range(7)])", "call-2")], ["It is 42."]
    )
    async with MontyCodeActProvider(tools=[double]) as codeact:
        response = await agent_of(client, codeact).run("twice 21?")
    assert response.text == "It is 42."
    first, second = client.results()
    assert "class inheritance" in str(first.result) and "linux engine" in str(first.result)
    assert "42" in str(second.result)


async def test_a_model_is_told_what_there_is_of_python() -> None:
    async with MontyCodeActProvider(tools=[double], allowed_domains=["example.com"]) as codeact:
        client = await run_program(codeact, "1")
    description = client.tool().description
    assert "no inheritance" in description and "http_request" in description and "example.com" in description
    assert "full CPython" not in description
    async with MontyCodeActProvider(about="Write Python.") as codeact:
        client = await run_program(codeact, "1")
    assert "Write Python." in client.tool().description and "inheritance" not in client.tool().description


async def test_the_workspace_root_is_read_and_files_come_back(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root/a.txt").write_text("from the host")
    (tmp_path / "more").mkdir()
    async with MontyCodeActProvider(
        workspace_root=tmp_path / "root", file_mounts=[MontyFileMount(tmp_path / "more", "/more")]
    ) as codeact:
        program = (
            "text = open('/input/a.txt').read()\nopen('/output/b.txt', 'w').write(text.upper())\n"
            "open('/more/new', 'w').write('gone')\ntext"
        )
        client = await run_program(codeact, program)
    assert "from the host" in client.read() and "b.txt" in client.read()
    assert list((tmp_path / "more").iterdir()) == []


async def test_the_tool_alone_runs_programs() -> None:
    client = ScriptedClient([code("double(21)")], ["done"])
    alone = MontyExecuteCodeTool(tools=[double])
    try:
        agent: Agent[Any] = Agent(client=client, tools=[alone])  # type: ignore[arg-type]
        await agent.run("twice 21?", session=AgentSession())
    finally:
        await alone.close()
    assert "42" in client.read()


async def test_types_are_checked_on_request() -> None:
    program = "open('/output/x', 'w').write('x')\ndouble('a')\nextra(1)"
    stubs = "def extra(text: str) -> str: ..."
    async with MontyCodeActProvider(tools=[double], type_check=True, type_check_stubs=stubs) as codeact:
        client = await run_program(codeact, program)
    assert "program.py:2:" in client.read() and "program.py:3:" in client.read()
    assert "nothing ran" in client.read()


async def test_limits_go_by_montys_own_names() -> None:
    given = {"max_duration_secs": 60, "max_feed_duration_secs": 0.3, "max_memory": 64 * 2**20 + 1, "max_suspensions": 3}
    async with MontyCodeActProvider(tools=[double], resource_limits=given) as codeact:
        limits = codeact._config.settings.limits
        assert (limits.wall_seconds, limits.cpu_seconds, limits.memory_mib, limits.tool_calls) == (60, 0.3, 65, 3)
        client = await run_program(codeact, "while True: pass")
        assert "processor time" in client.read()
    async with MontyCodeActProvider(tools=[double], resource_limits={"max_suspensions": 3}) as codeact:
        client = await run_program(codeact, "while True: double(1)")
        assert "out of tool calls" in client.read()


def test_limits_and_options_that_make_no_sense_are_refused_when_they_are_given() -> None:
    for given in (
        {"resource_limits": {"gc_interval": 5}},
        {"resource_limits": {"max_memory": "much"}},
        {"resource_limits": {"max_duration_secs": -1}},
        {"type_check": "yes"},
    ):
        with pytest.raises(InvalidValue):
            MontyCodeActProvider(**given)  # type: ignore[arg-type]


def test_a_missing_library_is_said_when_the_class_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pydantic_monty", None)
    library._library.cache_clear()
    try:
        for made in (MontyCodeActProvider, MontyExecuteCodeTool):
            with pytest.raises(SandboxUnavailable, match=r"actbox\[monty\]"):
                made()
    finally:
        library._library.cache_clear()
