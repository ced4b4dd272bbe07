"""What Strands promises nobody and `executor.py` goes by: a version that is otherwise fails here, by name."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys

import pytest

pytest.importorskip("strands", reason="the extra actbox[strands] is not installed")

from strands import Agent, tool
from strands.interrupt import _InterruptState
from strands.tools.executors import ConcurrentToolExecutor, SequentialToolExecutor

from tests.integrations.strands_agents.scripted import ScriptedModel


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@pytest.mark.parametrize(
    "name",
    [
        "_append_messages",
        "_background_tasks",
        "_cancel_message",
        "_deferred_cancel",
        "_interrupt_state",
        "_session_manager",
    ],
)
def test_an_agent_has_it(name: str) -> None:
    assert hasattr(Agent(ScriptedModel(), callback_handler=None), name)


@pytest.mark.parametrize(
    "name", ["activate", "activated", "context", "deactivate", "interrupts", "pending_tool_execution"]
)
def test_the_state_of_interrupts_has_it(name: str) -> None:
    assert hasattr(_InterruptState(), name)


@pytest.mark.parametrize("executor", [ConcurrentToolExecutor, SequentialToolExecutor])
def test_an_executor_makes_one_call(executor: type) -> None:
    assert hasattr(executor, "_stream_with_trace")


def test_a_decorated_tool_has_its_function() -> None:
    assert add._tool_func(1, b=2) == 3


@pytest.mark.parametrize(
    "module, names",
    [
        ("strands.middleware._agent_stream", ["AgentStreamContext", "AgentStreamStage"]),
        (
            "strands.types._events",
            ["EventLoopStopEvent", "ForceStopEvent", "ToolInterruptEvent", "ToolResultEvent"],
        ),
    ],
)
def test_a_private_module_has_them(module: str, names: list[str]) -> None:
    there = importlib.import_module(module)
    assert [name for name in names if not hasattr(there, name)] == []


def test_a_pass_knows_the_interrupts_that_were_answered() -> None:
    from strands.middleware._agent_stream import AgentStreamContext

    assert "_interrupts" in AgentStreamContext.__dataclass_fields__


@pytest.mark.slow
@pytest.mark.parametrize(
    "lacking",
    [
        "import sys; sys.modules['strands.middleware'] = None",  # as in 1.60 and 1.61
        "from strands import Agent; del Agent._append_messages",
    ],
)
def test_a_version_that_lacks_a_name_is_refused_with_a_sentence(lacking: str) -> None:
    program = f"{lacking}\nimport actbox.integrations.strands"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ})
    said = ended.stderr.strip().splitlines()[-1]
    assert "does not fit this version of actbox, which needs strands-agents" in said
    assert "pip install --upgrade 'actbox[strands]'" in said
