"""Programs of agents in CodeAct that are reviewed before they run."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("strands", reason="the extra actbox[strands] is not installed")

from actbox import InvalidValue
from actbox.integrations.strands import StrandsSandbox
from actbox.integrations.strands.plugin import CodeActPlugin
from actbox.review import Rules
from tests.integrations.strands_agents.acting import acting, block, observations

SHELL = "import subprocess as s\nopen('/workspace/ran', 'w').close()\ns.run(['ls'])"


async def test_a_blocked_program_does_not_run_and_the_model_reads_rule_and_line(linux: StrandsSandbox) -> None:
    turns = [block(SHELL), block("import os\nfinal_answer(os.path.exists('/workspace/ran'))")]
    agent = acting(linux, *turns, review=Rules.preset("spec"))
    result = await agent.invoke_async("go")
    assert result.state["codeact"] == {"stopped": "final_answer", "answer": False, "turns": 2, "programs": 2}
    blocked, _ = observations(agent)
    assert "the program was read and did not run" in blocked
    assert "line 3: process: calls subprocess.run" in blocked


async def test_warnings_are_in_the_outcome_and_an_answer_is_none(linux: StrandsSandbox) -> None:
    agent = acting(linux, block("eval('1')"), block("final_answer(1)"), review=Rules({"code": "warn"}, "allow"))
    result = await agent.invoke_async("go")
    assert result.state["codeact"]["answer"] == 1
    assert "review: line 1: code: calls builtins.eval" in observations(agent)[0]


def test_rules_that_ask_and_other_things_are_refused() -> None:
    with pytest.raises(InvalidValue, match="asks nobody about programs"):
        CodeActPlugin("linux", review=Rules({"code": "ask"}))
    given: Any = "spec"
    with pytest.raises(InvalidValue, match="review must be actbox"):
        CodeActPlugin("linux", review=given)
