"""Capabilities are made of functions and tools, and say what is wrong with a declaration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

import pytest

import actbox.capabilities
from actbox import Program, tool
from actbox.capabilities import (
    PUBLIC,
    Account,
    Budget,
    Capability,
    CapabilityTools,
    Label,
    Registry,
    Resources,
    Runtime,
    Schema,
)
from actbox.core.errors import InvalidValue, ToolError


@dataclass
class GivenCall:
    input: Mapping[str, Any]
    caller: str = "ann"
    labels: Label = PUBLIC
    account: Account = field(default_factory=lambda: Account(Budget()))

    def raise_label(self, label: Label | str) -> None:
        self.labels |= Label(label)


def add(left: int, right: int = 2) -> int:
    """Add two numbers.

    Args:
        left: the first of them
    """
    return left + right


async def test_a_function_becomes_a_capability() -> None:
    capability = Capability.from_function(add, "math.add", effects=["compute"], risk="medium")
    assert (capability.id, capability.effects, capability.risk) == ("math.add", ("compute",), "medium")
    assert capability.description == "Add two numbers."
    assert capability.input_schema == Schema.of(
        '[:map [:left {:description "the first of them"} :int] [:right {:optional true :default 2} :int]]'
    )
    assert capability.output_schema == Schema.of(int)
    assert capability.handler is not None
    assert await capability.handler(GivenCall({"left": 1})) == 3


async def test_a_tool_that_requires_approval_becomes_a_capability_that_does() -> None:
    @tool(approval="always_require")
    async def fail(**options: int) -> None:
        """Fail."""
        raise ValueError("no such luck")

    capability = Capability.from_tool(fail)
    assert capability.approvals == ("tool",)
    assert capability.input_schema.problems({"any": 1}) == ()
    assert capability.handler is not None
    with pytest.raises(ToolError, match="no such luck"):
        await capability.handler(GivenCall({"any": 1}))


async def test_a_capability_keeps_the_label_and_the_clearance_of_its_tool() -> None:
    @tool(label="pii.email", cleared="internal")
    def customers(first: str = "") -> str:
        """Return the customers."""
        if first == "none":
            raise ValueError("ann@example.com is none")
        return f"ann@example.com {first}"

    registry = Registry([Capability.from_tool(customers, data="internal")])
    for given in ({}, {"first": "none"}):
        assert (await registry.invoke("customers", given)).labels == Label("pii.email+internal")
    refused = await registry.invoke("customers", {}, labels="pii.redacted")
    assert refused.error is not None and refused.error.step == "label", refused
    tools = CapabilityTools(registry)
    again = Registry([Capability.from_tool(tools[0], "again")])
    assert (await again.invoke("again", {})).labels == Label("pii.email+internal")


async def test_a_program_becomes_a_capability() -> None:
    async with actbox.open_sandbox("process", allow_unisolated=True) as box:
        capability = Capability.from_program(
            Program("total // count"), "math.mean", "", "[:map [:total :int] [:count :int]]", ":int", box=box
        )
        registry = Registry([capability])
        done = await registry.invoke("math.mean", {"total": 6, "count": 3})
        assert (done.output, done.engine) == (2, "process") and done.usage["memory_mib"] > 0, done.error
        failed = await registry.invoke("math.mean", {"total": 6, "count": 0})
        assert failed.error is not None and "RUNTIME: " in failed.error.message
        with pytest.raises(InvalidValue, match="'a b' cannot be the name of a variable"):
            Capability.from_program(Program("1"), "a", "", '[:map ["a b" :int]]', box=box)


async def test_what_a_program_has_read_is_the_label_of_its_outcome() -> None:
    async with actbox.open_sandbox("linux", policy=actbox.Policy(label="internal")) as box:
        program = Program("a", label="secret.key")
        registry = Registry([Capability.from_program(program, "kit.a", "", "[:map [:a :int]]", box=box)])
        done = await registry.invoke("kit.a", {"a": 1}, labels="pii.email")
    assert done.labels == Label("secret.key") and done.engine == "linux"


async def test_a_tool_keeps_its_label_and_its_clearance_as_a_capability() -> None:
    @tool(label="pii.email", cleared="internal")
    def send(text: str) -> str:
        """Send."""
        return text

    registry = Registry([Capability.from_tool(send)])
    done = await registry.invoke("send", {"text": "x"})
    assert (done.output, done.labels) == ("x", Label("pii.email"))
    done = await registry.invoke("send", {"text": "x"}, labels="pii.name")
    assert done.error is not None and done.error.step == "label", done.error
    assert "the tool 'send' is cleared up to internal, and this has the label pii.name" in done.error.message


async def test_a_functions_result_is_json_by_its_schema() -> None:
    def day(of: date) -> tuple[date, bytes]:
        """Return a day."""
        return of, b"\xff"

    done = await Registry([Capability.from_function(day)]).invoke("day", {"of": "2026-01-02"})
    assert done.output == ["2026-01-02", "/w=="], done.error


def test_a_capability_is_equal_to_another_with_another_handler_and_can_be_changed() -> None:
    capability = Capability.from_function(add)
    assert replace(capability, handler=None) == capability
    assert replace(capability, version="2") != capability
    assert hash(replace(capability, handler=None)) == hash(capability)


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"id": "Execute"}, "a capability's id is a name"),
        ({"id": "a..b"}, "a capability's id is a name"),
        ({"id": "a\n"}, "a capability's id is a name"),
        ({"id": 3}, "a capability's id is a name"),
        ({"description": None}, "description of a is a str"),
        ({"input_schema": list[int]}, "the input of a is an object"),
        ({"output_schema": {"type": "tree"}}, "the output schema of a"),
        ({"effects": "compute"}, "effects of a is a tuple of texts"),
        ({"effects": ["computed"]}, "did you mean 'compute'"),
        ({"risk": "none"}, "there is no risk 'none'"),
        ({"approvals": ["a b"]}, "an approval is a name"),
        ({"version": ""}, "the version of a"),
        ({"resources": {"memory_mb": 3}}, "resources of a is a Resources"),
        ({"estimates": 3}, "estimates of a is a Budget"),
        ({"retry_safe": 1}, "retry_safe of a is a bool"),
        ({"network": ["http://x/y"]}, "x/y"),
        ({"handler": 3}, "the handler of a"),
        ({"data": 3}, "a label is text"),
    ],
)
def test_a_declaration_that_is_wrong_is_an_error_that_says_why(declared: dict[str, Any], message: str) -> None:
    right: dict[str, Any] = {"id": "a", "description": "", "input_schema": "[:map]", "output_schema": True}
    with pytest.raises(InvalidValue, match=message):
        Capability(**right | declared)


def test_resources_and_runtimes_are_checked() -> None:
    with pytest.raises(InvalidValue, match="timeout_ms is a whole number above 0"):
        Resources(timeout_ms=True)
    with pytest.raises(InvalidValue, match="there is no runtime 'docker'"):
        Runtime("docker")  # type: ignore[arg-type]


def test_every_public_name_is_there_and_documented() -> None:
    for name in actbox.capabilities.__all__:
        assert getattr(actbox.capabilities, name).__doc__, name
