"""Moving from the framework's own CodeAct packages: another import, another class name, and nothing else."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

pytest.importorskip("agent_framework", reason="the extra actbox[agent-framework] is not installed")

from agent_framework import Agent, AgentSession, tool

from actbox.integrations import agent_framework as ours

# With only these two lines for `from agent_framework_hyperlight import …`:
from actbox.integrations.agent_framework import LinuxCodeActProvider as HyperlightCodeActProvider
from actbox.integrations.agent_framework import LinuxExecuteCodeTool as HyperlightExecuteCodeTool
from actbox.integrations.agent_framework import ProviderOptions
from tests.integrations.af_scripted import ScriptedClient, code

# What `inspect.signature` says of agent-framework-hyperlight 1.0.0b261022 and agent-framework-monty 1.0.0b261015.
_COMMON: dict[str, Any] = {"tools": None, "approval_mode": None, "workspace_root": None, "file_mounts": None}
_CAPS: dict[str, Any] = {
    "max_output_files": 20,
    "max_output_file_bytes": 5 * 2**20,
    "max_output_total_bytes": 20 * 2**20,
}
_GUEST: dict[str, Any] = {"backend": "wasm", "module": "python_guest.path", "module_path": None}
HYPERLIGHT_TOOL = {**_COMMON, "tool_description_format": "compact", "allowed_domains": None, **_CAPS, **_GUEST}
MONTY_TOOL = {**_COMMON, "resource_limits": None, "tool_description_format": "compact"}
SHIPPED: dict[str, dict[str, Any]] = {
    "HyperlightCodeActProvider": {"source_id": "hyperlight_codeact", **HYPERLIGHT_TOOL},
    "HyperlightExecuteCodeTool": HYPERLIGHT_TOOL,
    "MontyCodeActProvider": {"source_id": "monty_codeact", **MONTY_TOOL},
    "MontyExecuteCodeTool": MONTY_TOOL,
}
METHODS = [
    "add_tools",
    "get_tools",
    "remove_tool",
    "clear_tools",
    "add_file_mounts",
    "get_file_mounts",
    "remove_file_mount",
    "clear_file_mounts",
    "add_allowed_domains",
    "get_allowed_domains",
    "remove_allowed_domain",
    "clear_allowed_domains",
]
TOOL_METHODS = ["build_instructions", "create_run_tool", "build_serializable_state", "to_dict"]

NOT_TAKEN = {"tool_description_format"}
"""Descriptions are typed signatures; docs/agent-framework.md says so."""


@pytest.mark.parametrize("name", SHIPPED)
def test_constructors_take_what_the_shipped_ones_take(name: str) -> None:
    parameters = inspect.signature(getattr(ours, name)).parameters
    options = ProviderOptions.__optional_keys__
    for parameter, default in SHIPPED[name].items():
        if parameter in NOT_TAKEN:
            assert parameter not in parameters
            assert parameter not in options
        elif parameter in parameters:
            given = parameters[parameter].default
            assert given == default or (default is None and given in ("never_require", ())), parameter
        else:
            assert parameter in options, parameter
            assert getattr(ours.LinuxCodeActProvider()._config.settings, parameter) == default


@pytest.mark.parametrize("name", SHIPPED)
def test_arguments_are_given_by_name_but_for_the_source_id(name: str) -> None:
    parameters = inspect.signature(getattr(ours, name)).parameters.values()
    positional = [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
    assert positional == (["source_id"] if name.endswith("Provider") else [])


@pytest.mark.parametrize("engine", ["Linux", "Container", "Wasm", "Monty", "Hyperlight"])
def test_all_engines_have_the_constructor_of_the_specification(engine: str) -> None:
    common = ["tools", "approval_mode", "workspace_root", "file_mounts", "allowed_domains", "tool_name"]
    provider = getattr(ours, f"{engine}CodeActProvider")
    alone = getattr(ours, f"{engine}ExecuteCodeTool")
    guest = ["backend", "module", "module_path", "heap_size", "stack_size"]
    for of in (provider, alone):
        given = inspect.signature(of).parameters
        assert [name for name in given if name in common] == common
        assert given["tool_name"].default == "execute_code"
        assert [name for name in given if name in guest] == (guest if engine == "Hyperlight" else [])
        for method in METHODS:
            assert callable(getattr(of, method))
    for method in TOOL_METHODS:
        assert callable(getattr(alone, method))
    source_id: str = provider.DEFAULT_SOURCE_ID
    assert source_id == f"{engine.lower()}_codeact"


@tool(approval_mode="never_require")
async def compute(operation: str, a: float, b: float) -> float:
    """Perform a math operation."""
    return {"add": a + b, "multiply": a * b}[operation]


@tool(approval_mode="never_require")
async def fetch_data(table: str) -> list[dict[str, Any]]:
    """Fetch the records of a table."""
    people = [{"id": 1, "name": "Ada", "role": "admin"}, {"id": 2, "name": "Bob", "role": "user"}]
    return people if table == "users" else []


PROGRAM = """\
users = call_tool("fetch_data", table="users")
admins = [user for user in users if user["role"] == "admin"]
inner = call_tool("compute", operation="multiply", a=3, b=2)
print("Admins:", admins)
print("7 * (3 * 2) =", call_tool("compute", operation="multiply", a=7, b=inner))
"""


async def test_the_provider_sample_runs_unchanged() -> None:
    client: Any = ScriptedClient([code(PROGRAM)], ["Ada, and 42."])
    codeact = HyperlightCodeActProvider(
        tools=[compute, fetch_data],
        approval_mode="never_require",
    )
    agent = Agent(
        client=client,
        name="CodeActAgent",
        instructions="You are a helpful assistant.",
        context_providers=[codeact],
    )
    result = await agent.run("Fetch all users, find admins, and multiply 7*(3*2).")
    assert result.text == "Ada, and 42."
    assert "Admins: [{'id': 1, 'name': 'Ada', 'role': 'admin'}]" in client.read()
    assert "7 * (3 * 2) = 42" in client.read()
    await codeact.close()


async def test_the_sample_with_the_tool_that_stands_alone_runs_unchanged() -> None:
    client: Any = ScriptedClient([code(PROGRAM)], ["done"])
    execute_code = HyperlightExecuteCodeTool(
        tools=[compute],
        approval_mode="never_require",
    )
    execute_code.add_tools([fetch_data])
    agent = Agent(
        client=client,
        name="InterpreterAgent",
        instructions=execute_code.build_instructions(tools_visible_to_model=False),
        tools=[execute_code],
    )
    assert (await agent.run("go")).text == "done"
    assert "= 42" in client.read()
    assert "compute" in client.options[0]["instructions"]
    await execute_code.close()


async def test_manual_wiring_with_a_direct_tool_runs_unchanged() -> None:
    sent: list[str] = []

    @tool(approval_mode="never_require")
    def send_email(to: str) -> str:
        """Send an email."""
        sent.append(to)
        return "sent"

    from agent_framework import Content

    email = Content.from_function_call("call-2", "send_email", arguments={"to": "ada@example.com"})
    client: Any = ScriptedClient([code("compute('add', 1, 2)")], [email], ["done"])
    execute_code = HyperlightExecuteCodeTool(tools=[compute])
    agent = Agent(
        client=client,
        instructions=execute_code.build_instructions(tools_visible_to_model=True),
        tools=[send_email, execute_code],
    )
    assert (await agent.run("go")).text == "done"
    assert sent == ["ada@example.com"]
    await execute_code.close()


async def test_approval_of_the_whole_call_is_asked_for_as_in_the_sample() -> None:
    @tool(approval_mode="always_require")
    def send_email(to: str) -> str:
        """Send an email."""
        return f"sent to {to}"

    client: Any = ScriptedClient([code("call_tool('send_email', to='ada')")], ["done"])
    codeact = HyperlightCodeActProvider(tools=[compute, send_email])
    agent = Agent(client=client, context_providers=[codeact])
    session: AgentSession = agent.create_session()
    result = await agent.run("go", session=session)
    (request,) = result.user_input_requests
    assert request.function_call is not None
    assert request.function_call.name == "execute_code"
    assert "send_email" in str(request.function_call.arguments)
    from agent_framework import Message

    result = await agent.run(Message("user", [request.to_function_approval_response(True)]), session=session)
    assert result.text == "done"
    assert "sent to ada" in client.read()
    await codeact.close()


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("call_tool('compute', operation='divide', a=1, b=2)", "KeyError: 'divide'"),
        ("this is no program", "SyntaxError"),
        ("import sys; sys.exit('gone')", "gone"),
    ],
)
async def test_a_failure_that_the_shipped_packages_hide_reaches_the_model(program: str, said: str) -> None:
    client: Any = ScriptedClient([code(program)], ["done"])
    async with HyperlightCodeActProvider(tools=[compute]) as codeact:
        await Agent(client=client, context_providers=[codeact]).run("go")
    assert said in client.read()


async def test_the_whole_standard_library_is_there() -> None:
    client: Any = ScriptedClient([code("import datetime, statistics, hashlib; statistics.mean([1, 2, 6])")], ["done"])
    async with HyperlightCodeActProvider() as codeact:
        await Agent(client=client, context_providers=[codeact]).run("go")
    assert "3" in client.read()


def test_a_tool_is_not_copied_so_that_its_counters_stay_one() -> None:
    codeact = HyperlightCodeActProvider(tools=[compute])
    assert codeact.get_tools() == [compute]
    assert codeact.get_tools()[0] is compute
