"""The capabilities that write code by a model have the specification's fields, and a coding agent carries them out."""

from __future__ import annotations

from typing import Any

from actbox.capabilities.capability import Capability
from actbox.capabilities.delegation import delegate_coding_agent, refined_execute
from actbox.capabilities.invocation import Invocation
from actbox.capabilities.registry import Registry
from tests.capabilities.test_rtfs_form import SPECIFIED

# The request and the response of section 7.2 of "CCOS Code Generation and Execution Architecture".
REQUEST: dict[str, Any] = {
    "task": "Create a bar chart from CSV data",
    "context": {
        "input_files": [{"name": "sales.csv", "schema": "region,amount,date"}],
        "output_requirements": ["PNG image", "stdout summary"],
        "constraints": {"language": "python", "max_dependencies": 5, "timeout_ms": 30000},
    },
    "examples": [{"input": "...", "expected_output": "..."}],
}
RESPONSE: dict[str, Any] = {
    "code": "import pandas as pd\nimport matplotlib...",
    "language": "python",
    "dependencies": ["pandas", "matplotlib"],
    "entry_point": "main()",
    "input_parsing": "CSV file read from stdin or first arg",
    "output_format": "PNG written to /output/chart.png",
    "explanation": "Uses pandas for data loading, groups by...",
    "tests": "def test_chart_creation(): ...",
    "estimated_runtime_ms": 2000,
}
# The request of section 4.2.
DELEGATED: dict[str, Any] = {
    "task": "Create data viz",
    "inputs": ["sales.csv"],
    "outputs": ["chart.png"],
    "language": "python",
    "constraints": {"dependencies_allowed": True, "max_lines": 100},
}


def required(capability: Capability) -> list[str]:
    return list(capability.input_schema.to_json()["required"] + capability.output_schema.to_json()["required"])


def test_the_declaration_has_the_specified_fields_and_more() -> None:
    specified, ours = Capability.all_from_rtfs(SPECIFIED)[3], delegate_coding_agent()
    assert (f"ccos.{ours.id}", ours.description, ours.effects) == (specified.id, specified.description, ("llm",))
    assert required(ours) == required(specified)
    for mine, theirs in ((ours.input_schema, specified.input_schema), (ours.output_schema, specified.output_schema)):
        own, given = mine.to_json()["properties"], theirs.to_json()["properties"]
        assert {name: own[name] for name in given} == given


async def test_a_coding_agent_carries_it_out_and_counts_what_it_takes() -> None:
    async def agent(call: Invocation) -> dict[str, Any]:
        call.charge_tokens("deepseek-coder", input=1000, output=200)
        return RESPONSE

    registry = Registry([delegate_coding_agent(agent)])
    for request in (REQUEST, DELEGATED, {"task": "x", "profile": "deepseek-coder"}):
        done = await registry.invoke("ccos.delegate.coding_agent", request)
        assert done.output == RESPONSE and done.usage["tokens"] == 1200, done
    done = await registry.invoke("delegate.coding_agent", {**REQUEST, "model": "any"})
    assert done.error is not None and done.error.step == "validate_input"


async def test_without_an_agent_nothing_carries_it_out() -> None:
    registry = Registry([delegate_coding_agent(), refined_execute()])
    for name in ("delegate.coding_agent", "code.refined_execute"):
        done = await registry.invoke(name, {"task": "x"})
        assert done.error is not None and done.error.kind == "unavailable"
        assert done.error.message == f"nothing here carries out {name}"


async def test_a_refined_run_returns_all_attempts() -> None:
    ran = {"success": True, "stdout": "ok", "stderr": "", "exit_code": 0}
    attempts = [
        {"code": "import pnadas", "dependencies": [], "exit_code": 1, "error": "…", "error_type": "import_error"},
        {"code": "import pandas", "dependencies": ["pandas"], "exit_code": 0},
    ]

    async def agent(call: Invocation) -> dict[str, Any]:
        return {**RESPONSE, **ran, "attempts": attempts[: call.input["max_attempts"]]}

    registry = Registry([refined_execute(agent)], granted=["compute"])
    done = await registry.invoke("code.refined_execute", {**DELEGATED, "max_attempts": 3, "timeout_ms": 1000})
    assert done.ok and done.output["attempts"] == attempts
    for wrong in ({"max_attempts": 0}, {"max_attempts": "3"}):
        assert not (await registry.invoke("code.refined_execute", {**DELEGATED, **wrong})).ok
