"""What is kept of what a text left out, and programs within programs."""

from __future__ import annotations

import asyncio

from actbox import Tool, open_sandbox
from actbox.codeact import CodeActConfig, CodeActOutcome, CodeActRunner
from actbox.codeact.runner import MOST_PRINTED


async def test_the_latest_of_what_texts_left_out_is_kept_and_no_more() -> None:
    runner = CodeActRunner(lambda policy: open_sandbox("linux", policy=policy))
    run = CodeActConfig(file_surface=True, max_chars=2_000).freeze()
    try:
        for number in range(MOST_PRINTED + 3):
            outcome = await runner.execute(run, {"code": f"print('{number}' * 9_000)"}, scope="s")
            assert isinstance(outcome, CodeActOutcome)
            assert "the file /workspace/printed-" in outcome.text
        listing = "import glob\n[open(name).read()[0] for name in glob.glob('/workspace/printed-*')]"
        kept = await runner.execute(run, {"code": listing}, scope="s")
        assert isinstance(kept, CodeActOutcome)
        assert sorted(kept.result.value) == [str(number) for number in range(3, MOST_PRINTED + 3)]
    finally:
        await runner.close()


async def test_a_program_that_a_tool_of_a_program_runs_is_told_to_come_back_where_turns_are_taken() -> None:
    runner = CodeActRunner(lambda policy: open_sandbox("linux", policy=policy))

    async def inner() -> str:
        """Run a program in the same place."""
        outcome = await runner.execute(run, {"code": "1"}, scope="s")
        assert isinstance(outcome, CodeActOutcome)
        return outcome.result.error.type if outcome.result.error else "ran"

    run = CodeActConfig(tools=[Tool.from_function(inner)], file_surface=True, clear_output=True).freeze()
    try:
        outcome = await asyncio.wait_for(runner.execute(run, {"code": "inner()"}, scope="s"), 60)
        assert isinstance(outcome, CodeActOutcome)
        assert outcome.result.value == "Busy"
    finally:
        await runner.close()
