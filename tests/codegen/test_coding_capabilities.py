"""A coding agent carries out the specification's two capabilities through a registry, which governs it."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import actbox
from actbox.capabilities import Budget, Journal, Outcome, Prices, StepEvent, TokenPrice
from actbox.capabilities.standard import StandardRegistry, standard_registry
from actbox.cli.app import run_app
from actbox.codeact import CallbackApprover, ModelReply, ScriptedModel, TokenUsage
from actbox.codegen import CodingAgent, RetryPolicy
from actbox.codegen.capability import refining, writing
from actbox.sandbox.contract import Sandbox
from actbox.tools import ApprovalRequest
from tests.conftest import engine_check

TOTAL = """
import csv
total = {}
for row in csv.DictReader(open("input/sales.csv")):
    total[row["region"]] = total.get(row["region"], 0) + int(row["amount"])
open("output/total.txt", "w").write(str(total))
print(total)
"""
WRONG = TOTAL.replace('row["amount"]', 'row["sum"]')
SALES = "region,amount\nnorth,1\nsouth,2\nnorth,3\n"
REQUEST: dict[str, Any] = {"task": "total by region", "inputs": ["sales.csv"], "outputs": ["total.txt"]}
PRICES = Prices(models={"scripted": TokenPrice(input=1, output=2)})
TOKENS = TokenUsage(input_tokens=1000, output_tokens=200)
USD = 0.0014
"""The price of one reply with `TOKENS`."""


@pytest.fixture
async def box() -> AsyncIterator[Sandbox]:
    found = engine_check("linux")
    if not found.works:
        pytest.skip(f"the linux engine does not work here: {found.reason}")
    async with actbox.open_sandbox("linux") as opened:
        yield opened


@pytest.fixture
def sales(tmp_path: Path) -> Path:
    path = tmp_path / "data" / "sales.csv"
    path.parent.mkdir()
    path.write_text(SALES)
    return path


def model(*programs: str) -> ScriptedModel:
    return ScriptedModel([ModelReply(f"```python\n{one}\n```", usage=TOKENS) for one in programs])


def registry_of(agent: CodingAgent, roots: Any = (), **more: Any) -> StandardRegistry:
    refines = refining(agent, input_roots=roots)
    return standard_registry(coding_agent=writing(agent), refining_agent=refines, **{"granted": ["compute"], **more})


def output(done: Outcome) -> Any:
    assert done.ok, done.error
    return done.output


async def refine(registry: StandardRegistry, sales: Path, **more: Any) -> Outcome:
    request = {**REQUEST, "input_files": {"sales.csv": str(sales)}, **more.pop("request", {})}
    return await registry.invoke("ccos.code.refined_execute", request, **more)


async def test_a_program_is_corrected_and_its_files_come_as_base64(box: Sandbox, sales: Path) -> None:
    registry = registry_of(CodingAgent(model(WRONG, TOTAL), box), sales.parent)
    events: list[Any] = []
    done = await refine(registry, sales, on_event=events.append)
    said = output(done)
    assert said["success"] and said["code"].strip() == TOTAL.strip() and said["exit_code"] == 0
    assert base64.b64decode(said["files"]["total.txt"]) == b"{'north': 4, 'south': 2}"
    first, second = said["attempts"]
    assert first["error_type"] == "runtime_error" and "KeyError" in first["error"] and first["exit_code"] == 1
    assert "error" not in second
    told = [(one.step, one.what, one.message) for one in events if one.step.startswith("attempt")]
    assert told == [
        ("attempt 1", "begun", ""),
        ("attempt 1", "failed", "runtime_error"),
        ("attempt 2", "begun", ""),
        ("attempt 2", "done", ""),
    ]
    assert done.engine == "linux"


async def test_a_program_is_written_and_not_run(box: Sandbox) -> None:
    scripted = model("open('/workspace/ran', 'w')\nimport pandas")
    registry = registry_of(CodingAgent(scripted, box))
    done = await registry.invoke("delegate.coding_agent", REQUEST)
    assert output(done)["code"] == "open('/workspace/ran', 'w')\nimport pandas\n" and done.engine == ""
    assert not [one for one in await box.list_files() if one.path == "ran"]
    assert "sales.csv" in scripted.asked[0][-1].text  # named, though nobody has given it


async def test_words_instead_of_a_program_fail_the_delegation_and_not_the_refinement(box: Sandbox) -> None:
    agent = CodingAgent(ScriptedModel(["No."] * 2), box, retry=RetryPolicy(max_attempts=1))
    registry = registry_of(agent)
    done = await registry.invoke("delegate.coding_agent", REQUEST)
    assert done.error is not None and done.error.kind == "failed" and "no program was written" in done.error.message
    said = output(await registry.invoke("code.refined_execute", {"task": "x"}))
    assert not said["success"] and said["code"] == "" and said["attempts"][0]["error_type"] == "syntax_error"


async def test_nothing_runs_without_the_approval(box: Sandbox, sales: Path) -> None:
    scripted, reasons = model(TOTAL, TOTAL), []
    for approved in (False, True):

        def answer(request: ApprovalRequest, approved: bool = approved) -> bool:
            reasons.append(request.reason)
            return approved

        registry = registry_of(CodingAgent(scripted, box), sales.parent, granted=[], approver=CallbackApprover(answer))
        assert (await refine(registry, sales)).ok is approved
    assert len(scripted.asked) == 1 and reasons == ["it needs the approval compute"] * 2


async def test_what_the_agent_uses_is_charged_once(box: Sandbox, sales: Path) -> None:
    agent = CodingAgent(model(WRONG, TOTAL), box, prices=PRICES, budget=Budget(usd=1))
    registry = registry_of(agent, sales.parent, budget=Budget(tokens=10_000, usd=1, steps=10, tool_calls=100))
    done = await refine(registry, sales)
    used = {"tokens": 2400, "usd": 2 * USD, "steps": 3}
    for charged in (done.usage, registry.account.used):
        assert {name: charged[name] for name in used} == pytest.approx(used)
    assert agent.account.used["usd"] == pytest.approx(2 * USD)
    for name in ("cpu_seconds", "wall_seconds", "tool_calls"):
        assert registry.account.used[name] == pytest.approx(done.usage[name]) and done.usage[name] > 0


async def test_tokens_that_the_agent_has_paid_are_not_priced_again(box: Sandbox, sales: Path, tmp_path: Path) -> None:
    with closing(Journal.open(f"sqlite:///{tmp_path}/journal.db")) as journal:
        table = Prices(models={"scripted": TokenPrice(input=100, output=100)}, cpu_second="0.000001")
        agent = CodingAgent(model(TOTAL), box, prices=PRICES)
        registry = registry_of(agent, sales.parent, prices=table, journal=journal)
        done = await refine(registry, sales)
        entry = [one async for one in journal.entries(kind="ended")][-1]
        assert entry.body["cost"]["delegation"] == {"scripted": "0.0014"} and entry.body["cost"]["other"] == "0"
        assert done.usage["usd"] == pytest.approx(USD, rel=0.01)
        assert registry.account.used["usd"] == pytest.approx(done.usage["usd"])
        unpaid = registry_of(CodingAgent(model(TOTAL), box), sales.parent, prices=table)
        assert (await refine(unpaid, sales)).usage["usd"] == pytest.approx(0.12, rel=0.01)


@pytest.mark.parametrize("left", [{"tokens": 1_300}, {"tokens": 2_400}, {"usd": 2 * USD}, {"steps": 3}], ids=str)
async def test_the_agent_stops_when_the_budget_is_used_up_and_loses_nothing(
    box: Sandbox, sales: Path, left: dict[str, Any]
) -> None:
    scripted = model(WRONG, WRONG.replace("sum", "total"), TOTAL)
    agent = CodingAgent(scripted, box, prices=PRICES, retry=RetryPolicy(attempt_backoff_ms=[]))
    done = await refine(registry_of(agent, sales.parent), sales, budget=Budget(**left))
    said = output(done)
    assert not said["success"] and len(said["attempts"]) == 2 == len(scripted.asked) and done.usage["tokens"] == 2400
    ran_out = left == {"tokens": 1_300}  # before the second program ran
    assert said["attempts"][1]["error_type"] == ("resource_exhausted" if ran_out else "runtime_error")
    assert said["code"] == said["attempts"][1]["code"] != said["attempts"][0]["code"]


async def test_a_used_up_budget_writes_no_program(box: Sandbox) -> None:
    agent = CodingAgent(model("1"), box, budget=Budget(tokens=0))
    done = await registry_of(agent).invoke("delegate.coding_agent", REQUEST)
    assert done.error is not None and done.error.kind == "exceeded" and "tokens" in done.error.message


async def test_two_agents_at_once_share_what_is_left(box: Sandbox) -> None:
    class Waiting(ScriptedModel):
        async def complete(self, *given: Any, **more: Any) -> ModelReply:
            await asyncio.sleep(0)
            return await super().complete(*given, **more)

    scripted = Waiting([ModelReply("words", usage=TOKENS)] * 20)
    agent = CodingAgent(scripted, box, retry=RetryPolicy(max_attempts=5, attempt_backoff_ms=[]))
    registry = registry_of(agent, budget=Budget(tokens=2 * TOKENS.input_tokens))
    await asyncio.gather(*(registry.invoke("code.refined_execute", {"task": "x"}) for _ in range(2)))
    assert len(scripted.asked) < 4  # as many as two would make that know nothing of each other


async def test_a_budget_in_money_needs_a_price(box: Sandbox) -> None:
    done = await registry_of(CodingAgent(model("1"), box)).invoke(
        "code.refined_execute", {"task": "x"}, budget=Budget(usd=1)
    )
    assert done.error is not None and done.error.kind == "invalid" and "prices=Prices" in done.error.message


async def test_a_model_reads_no_file_above_the_clearance_of_the_registry(box: Sandbox, tmp_path: Path) -> None:
    folders = {label: tmp_path / label for label in ("internal", "secret")}
    for label, folder in folders.items():
        folder.mkdir()
        (folder / "sales.csv").write_text(SALES.replace("north", f"from-{label}"))
    for label, folder in folders.items():
        scripted = model(f"{TOTAL}\nraise ValueError(total)", TOTAL)
        roots = {path: name for name, path in folders.items()}
        registry = registry_of(CodingAgent(scripted, box), roots, egress_max="internal")
        done = await refine(registry, folder / "sales.csv", labels="internal")
        said = output(done)
        assert str(done.labels) == label and label in base64.b64decode(said["files"]["total.txt"]).decode()
        assert label in said["attempts"][0]["error"]
        read = "".join(one.text for asked in scripted.asked for one in asked)
        assert (f"from-{label}" in read) is (label == "internal"), read
    refused = await registry.invoke("code.refined_execute", REQUEST, labels="secret")
    assert refused.error is not None and refused.error.step == "label"


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"image": "python:3.12"}, "image: the coding agent's sandbox is open already"),
        ({"max_memory_mb": 64}, "max_memory_mb: "),
        ({"input_files": {"a.csv": "/etc/passwd"}}, "lies below none of the directories"),
        ({"input_files": {"../a.csv": "{sales}"}}, "is no path below /input"),
        ({"profile": "other"}, "the agent has no profiles"),
        ({"constraints": {"max_lines": 0}}, "max_lines"),
    ],
    ids=lambda given: next(iter(given)) if isinstance(given, dict) else "",
)
async def test_an_input_that_cannot_be_carried_out_is_refused(
    box: Sandbox, sales: Path, more: dict[str, Any], why: str
) -> None:
    scripted = model(TOTAL)
    if "../a.csv" in more.get("input_files", {}):
        more = {"input_files": {"../a.csv": str(sales)}}
    done = await registry_of(CodingAgent(scripted, box), sales.parent).invoke(
        "code.refined_execute", {"task": "total by region", **more}
    )
    assert done.error is not None and done.error.kind in ("invalid", "refused") and why in done.error.message
    assert not scripted.asked


async def test_both_shapes_of_a_request_bound_the_program(box: Sandbox, sales: Path) -> None:
    scripted = model("import time\ntime.sleep(60)", "import time\ntime.sleep(61)")
    nested = {
        "inputs": [],
        "context": {
            "input_files": [{"name": "more.csv", "schema": "region,amount"}],
            "output_requirements": ["stdout summary"],
            "constraints": {"language": "python", "timeout_ms": 60_000, "max_lines": 5},
        },
        "examples": [{"input": "...", "expected_output": "..."}],
        "timeout_ms": 200,
        "max_attempts": 1,
    }
    said = output(await refine(registry_of(CodingAgent(scripted, box), sales.parent), sales, request=nested))
    assert [one["error_type"] for one in said["attempts"]] == ["timeout"] and not said["success"]
    text = scripted.asked[0][-1].text
    assert "more.csv" in text and "region,amount" in text and "200 ms" in text and "stdout summary" in text


async def test_the_journal_has_all_attempts_also_of_a_call_that_is_cut_off(
    box: Sandbox, sales: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    address = f"sqlite:///{tmp_path}/journal.db"
    with closing(Journal.open(address)) as journal:
        agent = CodingAgent(model(WRONG, "import time\ntime.sleep(60)"), box, prices=PRICES)
        registry = registry_of(agent, sales.parent, journal=journal)
        second = asyncio.Event()

        def follow(event: StepEvent) -> None:
            if event.step == "attempt 2":
                second.set()

        running = asyncio.create_task(refine(registry, sales, on_event=follow))
        await second.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        entry = [one async for one in journal.entries(kind="ended")][-1]
        assert entry.body["usage"]["tokens"] == 2400 and entry.body["error"]["kind"] == "cancelled"
        assert entry.body["tokens"]["scripted"]["input"] == 2000 and entry.body["engine"] == "linux"
        assert registry.account.used["usd"] == pytest.approx(2 * USD)
        first, last = json.loads(await journal.blob(entry.blobs["attempts"]) or b"")
        assert (first["class"], first["tokens"]["input"]) == ("runtime_error", 1000) and "KeyError" in first["error"]
        assert last["class"] == "cancelled" and "sleep(60)" in last["code"]
    assert await asyncio.to_thread(run_app, ["log", "show", "--blobs", "--database", address]) == 0
    assert "KeyError" in capfd.readouterr().out


async def test_the_wall_time_of_a_budget_cuts_off_and_loses_nothing(box: Sandbox, sales: Path, tmp_path: Path) -> None:
    with closing(Journal.open(f"sqlite:///{tmp_path}/journal.db")) as journal:
        agent = CodingAgent(model("import time\ntime.sleep(60)"), box)
        registry = registry_of(agent, sales.parent, journal=journal)
        done = await refine(registry, sales, budget=Budget(wall_seconds=0.5))
        entry = [one async for one in journal.entries(kind="ended")][-1]
        [kept] = json.loads(await journal.blob(entry.blobs["attempts"]) or b"")
    assert done.usage["tokens"] == 1200 and "sleep(60)" in kept["code"]
    assert done.error is None or done.error.kind == "timeout"
