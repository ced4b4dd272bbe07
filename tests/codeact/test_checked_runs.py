"""Programs that are checked before they run: a finding comes back as an error, and nothing has happened."""

from __future__ import annotations

import asyncio

import pytest

from actbox import ErrorKind, InvalidValue, open_sandbox, tool
from actbox.codeact import CodeActConfig, CodeActOutcome, CodeActRunner
from actbox.core.result import EXIT_NOT_RUN

SENT: list[str] = []


@tool
def send(address: str, copies: int = 1) -> dict[str, int]:
    """Send a letter."""
    SENT.append(address)
    return {"sent": copies}


@pytest.fixture
def run() -> object:
    SENT.clear()
    return CodeActConfig(tools=[send], static_check="ty").freeze()


async def came_of(run: object, *programs: str) -> list[CodeActOutcome]:
    runner = CodeActRunner(lambda policy: open_sandbox("linux", policy=policy))
    try:
        came = await asyncio.gather(*(runner.execute(run, {"code": program}) for program in programs))  # type: ignore[arg-type]
    finally:
        await runner.close()
    assert all(isinstance(outcome, CodeActOutcome) for outcome in came)
    return came  # type: ignore[return-value]


async def test_a_wrong_call_is_found_before_the_right_one_above_it_is_made(run: object) -> None:
    (outcome,) = await came_of(run, "send('a')\nsend(addres='b')")
    assert outcome.result.error is not None
    assert (outcome.result.error.kind, outcome.result.error.line) == (ErrorKind.TYPE, 2)
    assert (outcome.result.exit_code, SENT) == (EXIT_NOT_RUN, [])
    assert "addres" in outcome.text
    assert "nothing ran" in outcome.text


async def test_a_program_without_findings_runs(run: object) -> None:
    (outcome,) = await came_of(run, "send('a')['sent'] + 1")
    assert (outcome.result.value, SENT) == (2, ["a"])


@pytest.mark.slow
async def test_many_programs_are_checked_in_turn(run: object) -> None:
    outcomes = await came_of(run, *(f"send('{n}')\nsend()" for n in range(5)))
    assert {outcome.result.error.kind for outcome in outcomes if outcome.result.error} == {ErrorKind.TYPE}
    assert (len(outcomes), SENT) == (5, [])


def test_a_checker_that_there_is_not_is_refused_at_once() -> None:
    with pytest.raises(InvalidValue, match="'ty' or None"):
        CodeActConfig(static_check="mypy")  # type: ignore[arg-type]
