"""The comparison of CodeAct with ordinary tool calling does the task on both sides, and counts what was really sent."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.codeact import comparison, counting
from benchmarks.codeact.comparison import AT_ONCE, IN_PARALLEL, MENDED, ONE_A_TURN
from benchmarks.codeact.endpoint import Endpoint, serve
from benchmarks.codeact.report import Report, table
from benchmarks.codeact.scripted import PROGRAM, CodeActScript, OrdinaryScript, Reply, Script
from benchmarks.codeact.task import TOOLS, Answer, right_answer, what_is_wrong
from tests.conftest import engine_check

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def linux_works() -> None:
    if not (found := engine_check("linux")).works:
        pytest.skip(f"the programs of the comparison run in the linux engine, which does not work here: {found.reason}")


@pytest.fixture
def endpoints(monkeypatch: pytest.MonkeyPatch) -> list[Endpoint]:
    """The endpoints of a comparison, in the order of its sides."""
    found: list[Endpoint] = []
    opened = comparison.open_side

    def open_side(approach: Any, client: Any, endpoint: Endpoint) -> Any:
        found.append(endpoint)
        return opened(approach, client, endpoint)

    monkeypatch.setattr(comparison, "open_side", open_side)
    return found


@pytest.mark.slow
async def test_every_script_solves_the_task_and_costs_what_its_requests_hold(endpoints: list[Endpoint]) -> None:
    attempts = await comparison.scripted(1)
    counted = {
        name: (found.turns, found.model_calls, found.calls_by_model, found.tools_run)
        for name, (found,) in attempts.items()
    }
    assert counted == {
        # All users, then 8 lists of orders, 3 discounts, 4 rates, then 8 totals.
        ONE_A_TURN: (24, 25, 24, 24),
        IN_PARALLEL: (3, 4, 24, 24),
        # The program asks for each user's discount and rate anew; the failing one ends with the first user's total.
        AT_ONCE: (1, 2, 1, 33),
        MENDED: (2, 3, 2, 36),
    }
    for (found,), endpoint in zip(attempts.values(), endpoints, strict=True):
        assert found.wrong == ""
        warm_up, measured = endpoint.exchanges[: found.model_calls], endpoint.exchanges[found.model_calls :]
        assert len(warm_up) == len(measured) == found.model_calls
        assert found.input_tokens == sum(counting.request_tokens(exchange.request) for exchange in measured)
        assert found.output_tokens == sum(counting.said_tokens(exchange.reply) for exchange in measured)
        assert found.tokens == found.input_tokens + found.output_tokens
        assert found.largest_request_bytes == measured[-1].request_bytes
        assert 0 < found.seconds_without_model < found.seconds


@pytest.mark.long  # the whole comparison once more
async def test_each_request_holds_the_whole_conversation_before_it(endpoints: list[Endpoint]) -> None:
    await comparison.scripted(1)
    for endpoint in endpoints:
        exchanges = endpoint.exchanges[len(endpoint.exchanges) // 2 :]
        for earlier, later in itertools.pairwise(exchanges):
            said = earlier.request["messages"]
            new = later.request["messages"][len(said) :]
            assert later.request["messages"][: len(said)] == said
            assert counting.said_tokens(new[0]) == counting.said_tokens(earlier.reply)
            assert {message["role"] for message in new[1:]} == {"tool"}
            added = counting.request_tokens(later.request) - counting.request_tokens(earlier.request)
            assert added == sum(map(counting.message_tokens, new))


@pytest.mark.long  # the whole comparison once more
async def test_the_program_that_fails_is_shown_its_error_before_it_is_mended(endpoints: list[Endpoint]) -> None:
    await comparison.scripted(1)
    mended = endpoints[list(comparison.SCRIPTED).index(MENDED)]
    failed, succeeded = (
        counting.text_of(message) for message in mended.exchanges[-1].request["messages"] if message["role"] == "tool"
    )
    assert "KeyError: 'total'" in failed
    assert "Amara Okafor" not in failed
    assert "Amara Okafor" in succeeded


@pytest.mark.slow
async def test_a_wrong_answer_fails_the_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    slip = CodeActScript(PROGRAM.replace('"orders": len(orders)', '"orders": len(orders) + 1'))
    monkeypatch.setattr(comparison, "SCRIPTED", {AT_ONCE: (comparison.SCRIPTED[AT_ONCE][0], slip)})
    with pytest.raises(RuntimeError, match="Amara Okafor has 3 orders, not 4"):
        await comparison.scripted(1)


@pytest.mark.slow
async def test_a_script_that_is_at_a_loss_fails_the_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = CodeActScript("raise RuntimeError('no shop today')")
    monkeypatch.setattr(comparison, "SCRIPTED", {AT_ONCE: (comparison.SCRIPTED[AT_ONCE][0], lost)})
    with pytest.raises(Exception, match="no shop today"):
        await comparison.scripted(1)


def test_the_right_answer_is_what_the_tools_give() -> None:
    list_users, get_orders, get_discount, get_tax_rate, compute_total = TOOLS
    for user, bill in zip(list_users(), right_answer().users, strict=True):
        amounts = [order["amount"] for order in get_orders(user["id"])]
        total = compute_total(amounts, get_discount(user["tier"]), get_tax_rate(user["country"]))
        assert (bill.name, bill.orders, bill.total) == (user["name"], len(amounts), total)


def test_each_part_of_an_answer_is_checked() -> None:
    right = right_answer()
    assert what_is_wrong(right) == ""
    first, *others = right.users
    changes: tuple[tuple[Mapping[str, Any], str], ...] = (
        ({"name": "Nobody"}, "the users are Nobody"),
        ({"orders": 4}, "has 3 orders, not 4"),
        ({"discount": 15.0}, "is 0.15, not 15.0"),
        ({"total": first.total + 0.01}, f"is {first.total}, not"),
    )
    for change, words in changes:
        assert words in what_is_wrong(Answer(users=[first.model_copy(update=change), *others]))
    assert "the users are" in what_is_wrong(Answer(users=others))


def test_tokens_are_those_of_the_vocabulary() -> None:
    assert counting.tokens("tiktoken is great!") == 6
    assert counting.tokens("<|endoftext|>") > 1  # what a tool returns is text, also where it looks like a marker
    call = {"function": {"name": "get_orders", "arguments": '{"user_id": 101}'}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    said = counting.tokens("get_orders") + counting.tokens('{"user_id": 101}')
    assert counting.said_tokens(message) == said
    assert counting.message_tokens(message) == said + counting.AROUND_A_MESSAGE + counting.tokens("assistant")
    assert counting.text_of({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}) == "ab"
    with pytest.raises(ValueError, match="image_url"):
        counting.text_of({"content": [{"type": "image_url", "image_url": {}}]})


class Both:
    """Solves the task with the tools that a request has; with programs also wrongly, if so told."""

    def __init__(self, program: str = PROGRAM) -> None:
        self._scripts: dict[bool, Script] = {True: CodeActScript(program), False: OrdinaryScript()}

    def reply(self, request: Mapping[str, Any]) -> Reply:
        names = [tool["function"]["name"] for tool in request["tools"]]
        return self._scripts[names == ["execute_code"]].reply(request)


def run_benchmark(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.codeact", *arguments],
        cwd=ROOT,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_a_model_is_asked_by_the_wire_and_its_rate_of_right_answers_is_reported(tmp_path: Path) -> None:
    with serve(Both(PROGRAM.replace('"orders": len(orders)', '"orders": 0'))) as endpoint:
        done = run_benchmark(
            "--model", "openai:some-model", "--runs", "2", "--results", str(tmp_path),
            OPENAI_BASE_URL=endpoint.base_url, OPENAI_API_KEY="none",
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert {exchange.request["model"] for exchange in endpoint.exchanges} == {"some-model"}
    document = json.loads((tmp_path / "codeact-model.json").read_text())
    assert document["model"] == "openai:some-model"
    assert document["note"] is None
    ordinary, codeact = document["attempts"].values()
    assert [attempt["wrong"] for attempt in ordinary] == ["", ""]
    assert [attempt["wrong"] for attempt in codeact] == ["Amara Okafor has 3 orders, not 0"] * 2
    used = sum(attempt["input_tokens"] for attempt in ordinary + codeact)
    assert used == sum(counting.request_tokens(exchange.request) for exchange in endpoint.exchanges)
    assert "2 of 2" in done.stdout
    assert "0 of 2" in done.stdout


@pytest.mark.long  # the command once more; each part of an answer is checked above
def test_an_answer_of_another_form_is_a_wrong_one(tmp_path: Path) -> None:
    class Chatty:
        def reply(self, request: Mapping[str, Any]) -> Reply:
            return Reply("They all have orders.")

    with serve(Chatty()) as endpoint:
        done = run_benchmark(
            "--model", "openai:chatty", "--runs", "1", "--results", str(tmp_path),
            OPENAI_BASE_URL=endpoint.base_url, OPENAI_API_KEY="none",
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for (attempt,) in json.loads((tmp_path / "codeact-model.json").read_text())["attempts"].values():
        assert "They all have orders." in attempt["wrong"]
        assert attempt["largest_request_bytes"] is None


@pytest.mark.parametrize(
    ("arguments", "variables", "words"),
    [
        pytest.param(("--model", "llama"), {}, "takes openai:MODEL", marks=pytest.mark.long),
        pytest.param(("--model", "openai:"), {}, "names no model", marks=pytest.mark.long),
        pytest.param(("--model", "openai:some"), {"OPENAI_API_KEY": ""}, "OPENAI_API_KEY", marks=pytest.mark.long),
        pytest.param(("--runs", "0"), {}, "at least 1", marks=pytest.mark.long),
    ],
)
def test_what_cannot_be_measured_is_refused(
    arguments: tuple[str, ...], variables: dict[str, str], words: str, tmp_path: Path
) -> None:
    done = run_benchmark(*arguments, "--results", str(tmp_path), **variables)
    assert done.returncode == 2
    assert words in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.long
def test_make_bench_sets_the_costs_of_each_program_beside_those_of_tool_calls() -> None:
    rows = {row["measure"]: row for row in measured_by_make_bench("codeact.costs")}
    assert all("scripted, no model asked" in measure for measure in rows)
    (calls,) = (row for measure, row in rows.items() if measure.endswith(f"{MENDED}: model calls"))
    assert calls["ours"]["p50"] == 3
    assert {peer: figure["p50"] for peer, figure in calls["peers"].items()} == {ONE_A_TURN: 25, IN_PARALLEL: 4}


@pytest.mark.long
def test_make_bench_sets_core_and_framework_beside_the_sandbox_alone_and_measures_what_goes_before_a_run() -> None:
    rows = measured_by_make_bench("codeact.overhead")
    bounds = {row["measure"]: row["target"]["p50"] for row in rows if row["target"]["p50"] is not None}
    assert bounds == {
        "what the core adds to `box.run`, with files": 0.3,
        "what the core adds to `box.run`, without files": 0.3,
        "what a program of Agent Framework adds to `box.run`": 1.5,
        "`before_run` with 200 tools, nothing changed": 5.0,
        "`before_run` with 200 tools, one was replaced since": 5.0,
    }
    assert all(row["ours"]["samples"] == 2 for row in rows)


def measured_by_make_bench(subject: str) -> list[dict[str, Any]]:
    """Return the rows of a subject, with few samples, measured as `benchmarks/run.py` does it."""
    done = subprocess.run(
        [sys.executable, "-c", _MEASURE, subject],
        cwd=ROOT / "benchmarks",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


_MEASURE = """
import asyncio, dataclasses, importlib, json, sys
from effort import QUICK
from run import SUBJECTS
assert sys.argv[1] in SUBJECTS
subject = importlib.import_module(sys.argv[1])
rows = asyncio.run(subject.measure(dataclasses.replace(QUICK, fast=2, slow=1)))
print(json.dumps([dataclasses.asdict(row) for row in rows]))
"""


@pytest.mark.long  # the whole comparison once more
async def test_the_table_says_that_no_model_was_asked_and_where_runs_differ(tmp_path: Path) -> None:
    (attempt,) = (await comparison.scripted(1))[AT_ONCE]
    machine = {"date": "", "processors": 2, "processor": "", "kernel": "", "python": "", "load": 0, "actbox": ""}
    report = Report("", machine, {AT_ONCE: [attempt, replace(attempt, turns=attempt.turns + 1)]})
    assert "no model was asked" in report.caption
    assert "2 runs" in report.caption
    headings, ((name, turns, model_calls, *_),) = table(report)
    assert list(headings[:3]) == ["", "turns", "model calls"]
    assert (name, turns, model_calls) == (AT_ONCE, "1 to 2", "2")
