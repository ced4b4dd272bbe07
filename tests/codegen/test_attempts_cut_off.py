"""An attempt that is cut off is an attempt: its program was paid for."""

from __future__ import annotations

import asyncio

import pytest

import actbox
from actbox.capabilities import Budget
from actbox.codeact import ModelReply, ScriptedModel, TokenUsage
from actbox.codegen import CodingAgent, Outcome, Task
from actbox.codegen.outcome import AttemptEvent, Finished
from tests.conftest import engine_check


@pytest.fixture(autouse=True)
def _linux() -> None:
    found = engine_check("linux")
    if not found.works:
        pytest.skip(f"the linux engine does not work here: {found.reason}")


async def test_a_program_that_is_cancelled_while_it_runs_is_in_the_outcome() -> None:
    cancel, outcome = asyncio.Event(), Outcome(solved=True, stopped="")
    async with actbox.open_sandbox("linux") as box:
        model = ScriptedModel(["```python\nprint('here', flush=True)\nimport time\ntime.sleep(60)\n```"])
        async for event in CodingAgent(model, box).stream(Task("wait"), cancel=cancel):
            if isinstance(event, AttemptEvent):
                cancel.set()
            elif isinstance(event, Finished):
                outcome = event.outcome
    assert outcome.stopped == "cancelled"
    assert [(one.error_class, one.result) for one in outcome.attempts] == [("cancelled", None)]
    assert "sleep(60)" in outcome.code


async def test_a_program_that_the_budget_does_not_let_run_is_in_the_outcome() -> None:
    async with actbox.open_sandbox("linux") as box:
        model = ScriptedModel([ModelReply("```python\n1\n```", usage=TokenUsage(input_tokens=100, output_tokens=10))])
        outcome = await CodingAgent(model, box, budget=Budget(tokens=50)).solve("x")
    assert (outcome.stopped, outcome.code) == ("budget", "1\n")
    assert [one.error_class for one in outcome.attempts] == ["resource_exhausted"]
