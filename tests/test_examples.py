"""Every example runs as it is, and says what it is there to show."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import engine_check
from tests.scripts import run_script

EXAMPLES = Path(__file__).parents[1] / "examples"
SHOWS = {
    "first_run.py": ["hello from Linux", str(2**100), "KeyError"],
    "tools_at_once.py": ["one by one: [3.0, 6.0, 4.0, 5.0, 4.0]", "at once: [3.0, 6.0, 4.0, 5.0, 4.0]"],
    "files_and_charts.py": ["0.295", "image/png", "shares.csv"],
    "limits.py": ["TIMEOUT", "MEMORY", "PROCESSES", "OUTPUT_LIMIT", "DISK", "NETWORK"],
    "engines.py": ["── linux: ", "total.txt with 28.50 euros", "RUNTIME: 'milk' in line 4", "there is tea: 4"],
    "agent.py": ["KeyError: 'North'", "answer:  15"],
    "governed_chart.py": [
        "data: pii",
        "shown to the user:",
        "not sent: network.http_request may be given data up to public, and this has the label pii",
        "labels of the chart: pii",
        "3 refused network.http_request pii label",
        "the journal verifies: True",
    ],
}
OF_CODING_AGENTS = {
    "codegen/python_execution_demo.py": ["answer:  9332621544394415268169923885626670049071596", "| Rome,3,12.2"],
    "codegen/iterative_refinement_demo.py": [
        "attempt 1: import_error; so far $0.00",
        "-import jsonlib\n    +import json",
        "attempt 2: check_failed",
        "solved: solved",
        "not solved: repetition the model sent the same again",
        "answer: None after 2 attempts",
    ],
    "codegen/rtfs_execution_demo.py": [
        "rtfs, in rtfs: it is a pure computation on the given values",
        "ran on:  the rtfs engine",
        "{'Oslo': -3, 'Rome': 14}",
        "ran on:  the linux engine",
        "files:   page.html",
    ],
    "codegen/javascript_execution_demo.py": ["ran on:  node", "runtime_error: ", '{"/":120,"/docs":210}'],
    "codegen/sales_by_region.py": [
        "intent: Analyze the CSV, create a chart of sales by region; data processing; visualization",
        "decision: direct, in python: about 10 lines",
        "runtime_error KeyError: 'Column not found: sales'",
        "check_failed adds_up: the file spells some regions in two ways",
        "answer: {'North': 220.0, 'South': 100.0, 'West': 45.25}",
        "chart.png",
        "4 calls of the model and 3 runs",
    ],
}
OF_THE_FRAMEWORK = {
    "agent_framework/task.py": [
        "8759 records",
        'KeyError: "Columns not found: ',
        '1. load_dataset({"name": "seattle-temps"}) → returned',
        "the program may call tools that require approval: 'publish'",
        "temperatures.png, image/png",
        "by °F: {'July': 3.1, 'August': 2.7}",
        "published: ['Months in which Seattle is warmer']",
    ],
    "agent_framework/tool_enabled.py": ["This is what the program came to: {'north': 2, 'south': 3}"],
    "agent_framework/interpreter.py": ["(158, 648)", "NameError: name 'digits' is not defined"],
    "agent_framework/manual_wiring.py": ["239.0", "sent to ada@example.com"],
    "agent_framework/approval_required.py": [
        "SOMEBODY IS ASKED about this call:",
        "['paid A-17', 'paid B-4']",
        "Tool call invocation was rejected by user.",
    ],
    "agent_framework/inspected_approval.py": [
        "the program may call tools that require approval: 'order'",
        "20 of tea ordered",
        "only the tools that it names, and 'order' is none of them",
        "in store now: {'tea': 23, 'coffee': 40}",
    ],
    "agent_framework/nested_approval.py": [
        'refund({"order": "A-17", "euros": 20}), in line 3 of the program',
        "20 euros paid back for A-17",
        "B-4: the call of 'refund' was refused: the user refused it",
    ],
    "agent_framework/files_and_network.py": [
        "Oslo,140.4",
        "/output/dollars.csv, text/csv",
        "(['dollars.csv'], ['sales.csv', 'names.json'])",
        "Refused by the network policy: http://example.com is not allowed.",
        "Read-only file system: '/input/sales.csv'",
    ],
    "agent_framework/conversation.py": ["update: 'I write them to a file. '", "squares.txt", "285", "[]"],
    "agent_framework/mcp_tools.py": ["('cake', 10.7)", "The cake is the dearest."],
    "agent_framework/many_tools.py": ["72 tools", "furlong_to_fathom (value: float) -> float", "880.0"],
    "agent_framework/swap_engine.py": ["LinuxCodeActProvider, with its state under 'linux_codeact'", "42"],
}
OF_STRANDS = {
    "strands/codeact.py": [
        "── program 1",
        "[error TOOL, exit code 1]",
        "1. list_orders() → returned",
        "calls price({'item': 'cake'})",
        "prints {'A-17': 1220, 'B-4': 320, 'C-9': 450}",
        "── answer: A-17 after 2 turns",
    ],
}
PARTS = {
    *("agent_framework/scripted.py", "agent_framework/showing.py"),
    *("codegen/scripted.py", "strands/scripted_model.py"),
}
"""What examples have in common."""

# Each shows another way to what the tests of the package prove; those that everybody reads first run every time.
SELDOM = {
    "limits.py",
    "engines.py",
    "agent_framework/swap_engine.py",
    "agent_framework/mcp_tools.py",
    "agent_framework/tool_enabled.py",
    "agent_framework/manual_wiring.py",
    "agent_framework/approval_required.py",
    "agent_framework/many_tools.py",
}

CHANGE = "The one line to change for a real model"


def test_every_example_is_listed() -> None:
    there = {str(path.relative_to(EXAMPLES)) for path in EXAMPLES.rglob("*.py")}
    assert there == {*SHOWS, *OF_CODING_AGENTS, *OF_THE_FRAMEWORK, *OF_STRANDS, *PARTS}
    table = (EXAMPLES / "README.md").read_text()
    assert all(f"| `{name}` |" in table for name in [*SHOWS, *OF_CODING_AGENTS, *OF_THE_FRAMEWORK, *OF_STRANDS])


def _some_seldom(names: Iterable[str]) -> list[Any]:
    return [pytest.param(name, marks=pytest.mark.long) if name in SELDOM else name for name in names]


@pytest.mark.slow
@pytest.mark.parametrize("name", _some_seldom(SHOWS))
def test_an_example_runs(name: str, tmp_path: Path) -> None:
    _run(name, SHOWS[name], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_CODING_AGENTS)
def test_an_example_of_coding_agents_runs_without_a_model_and_says_so(name: str, tmp_path: Path) -> None:
    if "javascript" in name and not (found := engine_check("node")).works:
        pytest.skip(f"the node engine does not work here: {found.reason}. {found.advice}")
    _run(name, ["NO MODEL IS ASKED", *OF_CODING_AGENTS[name]], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", _some_seldom(OF_THE_FRAMEWORK))
def test_an_example_of_agent_framework_runs_without_a_model_and_says_so(name: str, tmp_path: Path) -> None:
    if importlib.util.find_spec("agent_framework") is None:
        pytest.skip("Agent Framework is not installed: pip install 'actbox[agent-framework]'")
    _run(name, ["NO MODEL IS ASKED", *OF_THE_FRAMEWORK[name]], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_STRANDS)
def test_an_example_of_strands_runs_without_a_model_and_says_so(name: str, tmp_path: Path) -> None:
    if importlib.util.find_spec("strands") is None:
        pytest.skip("Strands is not installed: pip install 'actbox[strands]'")
    _run(name, ["NO MODEL IS ASKED", *OF_STRANDS[name]], tmp_path)


@pytest.mark.parametrize("name", [*OF_THE_FRAMEWORK, *OF_STRANDS])
def test_an_example_names_the_one_line_to_change_for_a_real_model(name: str) -> None:
    source = (EXAMPLES / name).read_text()
    (number,) = [number for number, line in enumerate(source.splitlines(), 1) if CHANGE in line]
    clients = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("ScriptedChatClient", "ScriptedModel")
    ]
    assert [client.lineno for client in clients] == [number + 1]


def _run(name: str, shows: list[str], folder: Path) -> None:
    found = engine_check("linux")
    if not found.works:
        pytest.skip(f"examples use the default engine, and none that isolates works here: {found.reason}")
    done = run_script((EXAMPLES / name).read_text(), folder, file=EXAMPLES / name)
    assert done.returncode == 0, done.stderr
    for part in shows:
        assert part in done.stdout, done.stdout
