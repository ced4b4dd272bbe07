"""Metering: prices, the sums of the journal, the command that shows them, and OpenTelemetry metrics."""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import Callable, Iterator
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from actbox.capabilities import Budget, Capability, Journal, Metrics, Prices, TokenPrice, Tokens, usage_of
from actbox.capabilities.invocation import Invocation
from actbox.capabilities.prices import Cost, total
from actbox.capabilities.registry import Registry
from actbox.capabilities.standard import standard_registry
from actbox.cli.app import run_app
from actbox.core.errors import InvalidValue

PRICES = Prices(
    models={"openai:large": TokenPrice(input="1.25", output=10, cached=0.125), "small": TokenPrice(input=1, output=2)},
    cpu_second="0.0000135",
    gib_second="0.0000045",
    egress_gib="0.09",
    storage_gib="0.02",
)


def capability(id: str, work: Callable[[Invocation], Any] = lambda call: None) -> Capability:
    async def handler(call: Invocation) -> Any:
        return work(call)

    return Capability(id, "", "[:map [:n {:optional true} :int]]", True, handler=handler)  # type: ignore[arg-type]


def delegates(call: Invocation) -> str:
    call.charge_tokens("openai:large", input=1_000_000, output=100_000, cached=400_000)
    call.charge_tokens("homemade", input=5, output=7)
    call.charge(wall_seconds=2)
    return "ok"


def computes(call: Invocation) -> str:
    call.charge(cpu_seconds=0.5, memory_mib=512, wall_seconds=4, tool_calls=3, egress_bytes=2**29, storage_mib=256)
    call.meter.received_bytes += 1000
    return "ok"


def fails(call: Invocation) -> str:
    call.charge(usd=0.3, memory_mib=64)
    raise ValueError("no luck")


@pytest.fixture
def journal(address: str) -> Iterator[Journal]:
    opened = Journal.open(address)
    yield opened
    opened.close()


async def use(journal: Journal | None, **more: Any) -> Registry:
    made = [capability("kit.delegate", delegates), capability("kit.compute", computes), capability("kit.fail", fails)]
    registry = Registry(made, journal=journal, **more)
    ann, bob = {"caller": "agent-1", "user": "ann", "run": "c1"}, {"caller": "agent-2", "user": "bob", "run": "c2"}
    await registry.invoke("kit.delegate", {}, **ann)
    await registry.invoke("kit.compute", {"n": 1}, **ann)
    await registry.invoke("kit.compute", {}, **bob)
    await registry.invoke("kit.fail", {}, **bob)
    await registry.invoke("kit.fail", {"wrong": 1}, **bob)  # refused, so that nothing is measured
    return registry


# Prices


def test_each_line_of_a_cost_is_exact() -> None:
    usage = {"cpu_seconds": 0.1, "memory_mib": 512, "wall_seconds": 3, "egress_bytes": 2**29, "storage_mib": 1024}
    cost = PRICES.cost({**usage, "tokens": 12, "usd": 0.7}, {"small": Tokens(input=4, output=8)})
    assert cost.sandbox == {
        "cpu": Decimal("0.00000135"),
        "memory": Decimal("0.00000675"),
        "egress": Decimal("0.045"),
        "storage": Decimal("0.02"),
    }
    assert (cost.delegation, cost.other, cost.unpriced) == ({"small": Decimal("0.00002")}, Decimal("0.7"), ())
    assert cost.usd == Decimal("0.7650281")
    assert Cost.from_dict(cost.to_dict()) == cost


def test_cached_tokens_have_a_price_of_their_own_or_that_of_others() -> None:
    tokens = Tokens(input=1_000_000, output=100_000, cached=400_000)
    cost = PRICES.cost({}, {"openai:large": tokens, "small": tokens})
    assert cost.delegation == {"openai:large": Decimal("1.8"), "small": Decimal("1.2")}


async def test_a_handler_that_charges_absurd_amounts_breaks_nothing() -> None:
    absurd = capability("kit.absurd", lambda call: call.charge(memory_mib=1.7e308, wall_seconds=1.7e308))
    done = await Registry([absurd], prices=Prices(gib_second=10**9)).invoke("kit.absurd", {})
    assert done.ok and done.usage["usd"] > 10**300


def test_a_model_without_a_price_is_named() -> None:
    cost = PRICES.cost({"tokens": 30}, {"other": Tokens(input=10), "small": Tokens(output=5)})
    assert cost.unpriced == ("other", "(unnamed)") and list(cost.delegation) == ["small"]


@given(st.lists(st.decimals(0, 10**9, places=12), max_size=20))
def test_a_sum_of_money_is_exact_in_any_decimal_context(amounts: list[Decimal]) -> None:
    with localcontext(prec=2):
        found = total(amounts)
    with localcontext(prec=60):
        assert found == sum(amounts, Decimal(0))


@pytest.mark.parametrize("wrong", [-1, True, "much", float("nan"), float("inf"), None, 10**10])
def test_what_is_no_price_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidValue, match=r"Prices\.egress_gib is an amount"):
        Prices(egress_gib=wrong)


@pytest.mark.parametrize("wrong", [{"input": -1}, {"input": 1.5}, {"output": True}, {"input": 1, "cached": 2}])
def test_what_is_no_count_of_tokens_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidValue, match="tokens"):
        Tokens(**wrong)


TABLE = """
[models."openai:large"]
input = 1.25
output = 10
cached = 0.125
[models.small]
input = "1"
output = 2.0
[sandbox]
cpu_second = 0.0000135
gib_second = 0.0000045
egress_gib = 0.09
storage_gib = 0.02
"""


def test_prices_are_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "prices.toml"
    file.write_text(TABLE)
    assert Prices.load(file) == PRICES


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[models.x]\ninput = 1", r"models\.x lacks 'output'"),
        ("[models.x]\ninput = 1\noutput = 2\nbatch = 1", r"models\.x has no 'batch'; it has input, output, cached"),
        ("[sandbox]\ncpu = 1", "sandbox has no 'cpu'; it has cpu_second, gib_second"),
        ("[sandbox]\ncpu_second = -1", "cpu_second is an amount"),
        ("models = 3", "models is a table, not 3"),
        ("[gpus]", "the file has no 'gpus'"),
        ("[", "is not TOML"),
    ],
)
def test_a_file_of_prices_that_is_wrong_is_refused(text: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "prices.toml"
    file.write_text(text)
    with pytest.raises(InvalidValue, match=problem) as refused:
        Prices.load(file)
    assert str(file) in str(refused.value)


# Invocations and their sums


async def test_money_is_charged_at_the_end_to_budgets_of_money() -> None:
    registry = Registry([capability("kit.delegate", delegates)], prices=PRICES, budget=Budget(usd=2, tokens=2_000_000))
    done = await registry.invoke("kit.delegate", {})
    assert done.ok and done.usage["usd"] == 1.8 and done.usage["tokens"] == 1_100_012
    assert registry.account.used["usd"] == 1.8 and registry.account.left.usd == pytest.approx(0.2)
    assert done.warnings[0] == "no price is known for the tokens of homemade"


async def test_usage_is_summed_up_from_the_journal(journal: Journal) -> None:
    await use(journal, prices=PRICES)
    compute, delegate, fail = await usage_of(journal)
    assert [one.key for one in (compute, delegate, fail)] == [("kit.compute",), ("kit.delegate",), ("kit.fail",)]
    assert (compute.invocations, compute.failed, compute.cpu_ms, compute.wall_seconds) == (2, 0, 1000, 8)
    assert (compute.peak_memory_mib, compute.disk_mib, compute.tool_calls) == (512, 512, 8)
    assert (compute.input_bytes, compute.output_bytes) == (len('{"n":1}{}'), 2 * len('"ok"'))
    assert (compute.sent_bytes, compute.received_bytes) == (2**30, 2000)
    sandbox = 2 * (Decimal("0.00000675") + Decimal("0.000009") + Decimal("0.045") + Decimal("0.005"))
    assert (compute.sandbox_usd, compute.usd, compute.delegation_usd) == (sandbox, sandbox, 0)
    assert (delegate.tokens, delegate.input_tokens, delegate.output_tokens) == (1_100_012, 1_000_005, 100_007)
    assert (delegate.cached_tokens, delegate.delegation_usd) == (400_000, Decimal("1.8"))
    assert delegate.unpriced == {"homemade"}
    assert (fail.invocations, fail.failed, fail.other_usd) == (1, 1, Decimal("0.3"))
    assert not compute.without_prices


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        (["agent"], {("agent-1",): 2, ("agent-2",): 2}),
        (["user"], {("ann",): 2, ("bob",): 2}),
        (["conversation"], {("c1",): 2, ("c2",): 2}),
        (["engine"], {("",): 4}),
        (["model"], {("homemade",): 1, ("openai:large",): 1}),
        ([], {(): 4}),
        (
            ["user", "capability"],
            {("ann", "kit.compute"): 1, ("ann", "kit.delegate"): 1, ("bob", "kit.compute"): 1, ("bob", "kit.fail"): 1},
        ),
    ],
)
async def test_usage_is_by_what_is_asked_for(
    by: list[str], expected: dict[tuple[str, ...], int], tmp_path: Path
) -> None:
    journal = Journal.open(f"sqlite:///{tmp_path}/store.db")
    await use(journal, prices=PRICES)
    assert {one.key: one.invocations for one in await usage_of(journal, by)} == expected
    journal.close()


async def test_other_prices_and_a_start_can_be_given_later(journal: Journal) -> None:
    await use(journal)
    (without,) = await usage_of(journal, [])
    assert (without.without_prices, without.usd) == (4, 0)
    cheap = Prices(models={"homemade": TokenPrice(input=10**6, output=0)})
    (priced,) = await usage_of(journal, [], prices=cheap)
    assert (priced.delegation_usd, priced.other_usd, priced.without_prices) == (5, Decimal("0.3"), 0)
    assert priced.unpriced == {"openai:large"}
    last = [entry async for entry in journal.entries() if entry.kind == "ended"][-1]
    (late,) = await usage_of(journal, [], since=last.time / 1e6)
    assert late.invocations == 1
    with pytest.raises(InvalidValue, match="usage is by capability, agent"):
        await usage_of(journal, ["colour"])


async def test_money_that_handlers_charge_is_not_counted_twice_by_other_prices(journal: Journal) -> None:
    await use(journal, prices=PRICES)
    (same,) = await usage_of(journal, [])
    (again,) = await usage_of(journal, [], prices=PRICES)
    assert same == again and same.other_usd == Decimal("0.3")


@pytest.mark.slow
async def test_programs_are_measured(tmp_path: Path) -> None:
    journal = Journal.open(f"sqlite:///{tmp_path}/store.db")
    code = "sum(range(10**6))\nopen('/output/a.csv', 'wb').write(b'x' * 2**18)\nprint('done')"
    async with standard_registry(journal=journal, prices=PRICES, granted=["compute"]) as registry:
        done = await registry.invoke("execute.python", {"code": code}, user="ann")
    assert done.ok, done.error
    (found,) = await usage_of(journal, ["user", "engine"])
    assert found.key == ("ann", done.engine) and found.cpu_ms > 0 and found.peak_memory_mib > 0
    assert (found.disk_mib, found.sent_bytes) == (0.25, 0) and found.output_bytes > 2**18
    assert found.sandbox_usd > 0 and found.usd == found.sandbox_usd == Decimal(str(done.usage["usd"]))
    journal.close()


# The command


@pytest.fixture
def store(tmp_path: Path) -> str:
    address = f"sqlite:///{tmp_path}/store.db"

    async def fill() -> None:
        journal = Journal.open(address)
        registry = await use(journal, prices=PRICES)
        await registry.invoke("kit.compute", {}, user="=1+1\x1b[31m")
        journal.close()

    asyncio.run(fill())
    return address


def test_the_command_prints_a_table(store: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run_app(["usage", "--database", store, "--by", "user", "--by", "capability"]) == 0
    title, *rows, note = capfd.readouterr().out.splitlines()
    assert title.split()[:3] == ["user", "capability", "invocations"] and "delegation $" in title
    assert "GPU s" not in title  # nobody has used any
    assert [row.split()[0] for row in rows] == ["=1+1\\x1b[31m", "ann", "ann", "bob", "bob"]
    assert "512 MiB" in rows[0] and "1,100,012" in rows[2] and rows[2].endswith("1.8 +?") and "?" not in rows[1]
    assert rows[4].split()[-3:] == ["<0.000001", "0.3", "0.3"]
    assert note == "no price for the tokens of homemade"


def test_the_table_has_no_money_where_there_are_no_prices(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    address = f"sqlite:///{tmp_path}/store.db"

    async def fill() -> None:
        journal = Journal.open(address)
        await Registry([capability("kit.compute", computes)], journal=journal).invoke("kit.compute", {})
        journal.close()

    asyncio.run(fill())
    assert run_app(["usage", "--database", address]) == 0
    title, _, note = capfd.readouterr().out.splitlines()
    assert "$" not in title and note == "no prices for 1 of these invocations: give --prices FILE"


def test_the_command_prints_csv_without_formulas(store: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run_app(["usage", "--database", store, "--by", "user", "--csv"]) == 0
    rows = [*csv.DictReader(io.StringIO(capfd.readouterr().out))]
    assert [row["user"] for row in rows] == ["'=1+1^[[31m", "ann", "bob"]
    ann = rows[1]
    assert (ann["cpu_ms"], ann["input_tokens"], ann["sent_bytes"]) == ("500", "1000005", str(2**29))
    assert (ann["delegation_usd"], ann["sandbox_usd"], ann["usd"]) == ("1.8", "0.05001575", "1.85001575")
    assert ann["unpriced_models"] == "homemade"


def test_the_command_takes_prices_and_a_start(store: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "prices.toml"
    file.write_text("[models.homemade]\ninput = 1_000_000\noutput = 0\n")
    command = ["usage", "--database", store, "--by", "model", "--csv", "--prices", str(file)]
    assert run_app([*command, "--since", "1h"]) == 0
    homemade, large = csv.DictReader(io.StringIO(capfd.readouterr().out))
    assert (homemade["model"], homemade["usd"]) == ("homemade", "5")
    assert (large["usd"], large["unpriced_models"]) == ("0", "openai:large")
    assert run_app(["usage", "--database", store, "--since", "2999-01-01"]) == 0
    assert capfd.readouterr().out == "nothing was used\n"


@pytest.mark.parametrize(
    ("options", "problem"),
    [(["--by", "colour"], "'colour' is none of"), (["--since", "noon"], "'noon' is no time"), ([], "no database")],
)
def test_a_wrong_command_is_refused(options: list[str], problem: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run_app(["usage", *options]) == 2
    assert problem in capfd.readouterr().err


# OpenTelemetry


def points(reader: InMemoryMetricReader) -> dict[str, list[tuple[float, dict[str, Any]]]]:
    """Return the values, or sums, of all metrics with their attributes."""
    data = reader.get_metrics_data()
    assert data is not None
    (scope,) = data.resource_metrics[0].scope_metrics
    assert scope.scope.name == "actbox"
    return {
        metric.name: [
            (point.sum if hasattr(point, "sum") else point.value, dict(point.attributes or {}))
            for point in metric.data.data_points
        ]
        for metric in scope.metrics
    }


async def test_invocations_are_metrics_with_semantic_names() -> None:
    reader = InMemoryMetricReader()
    metrics = Metrics(MeterProvider([reader]), by=("capability", "agent", "user", "conversation"))
    await use(None, prices=PRICES, metrics=metrics)
    found = points(reader)

    def of(name: str, id: str, agent: str = "agent-1", **more: str) -> float:
        user, run = ("ann", "c1") if agent == "agent-1" else ("bob", "c2")
        about = {"gen_ai.tool.name": id, "gen_ai.agent.name": agent, "user.id": user, "gen_ai.conversation.id": run}
        (value,) = [value for value, has in found[name] if has == {**about, **more}]
        return value

    assert of("gen_ai.execute_tool.duration", "kit.compute") == 4
    failed = {"error.type": "failed"}
    assert of("gen_ai.execute_tool.duration", "kit.fail", "agent-2", **failed) < 60
    asked = {"gen_ai.operation.name": "execute_tool", "gen_ai.provider.name": "openai", "gen_ai.request.model": "large"}
    tokens = {"input": 1_000_000, "output": 100_000}
    for kind, count in tokens.items():
        found_count = of("gen_ai.client.token.usage", "kit.delegate", **asked, **{"gen_ai.token.type": kind})
        assert found_count == count
    assert of("process.cpu.time", "kit.compute") == 0.5
    assert of("process.network.io", "kit.compute", **{"network.io.direction": "transmit"}) == 2**29
    assert of("process.network.io", "kit.compute", **{"network.io.direction": "receive"}) == 1000
    assert of("actbox.invocation.memory.peak", "kit.compute") == 512 * 2**20
    assert of("actbox.invocation.storage", "kit.compute") == 256 * 2**20
    assert of("actbox.invocation.tool_calls", "kit.compute") == 4
    assert of("actbox.invocation.io", "kit.compute", **{"actbox.io.direction": "input"}) == len('{"n":1}')
    assert of("actbox.invocation.cost", "kit.delegate", **{"actbox.cost.line": "delegation"}) == 1.8
    assert of("actbox.invocation.cost", "kit.compute", **{"actbox.cost.line": "egress"}) == 0.045


async def test_metrics_have_the_units_of_the_conventions() -> None:
    reader = InMemoryMetricReader()
    await use(None, metrics=Metrics(MeterProvider([reader])))
    data = reader.get_metrics_data()
    assert data is not None
    units = {metric.name: metric.unit for metric in data.resource_metrics[0].scope_metrics[0].metrics}
    assert units["gen_ai.execute_tool.duration"] == units["process.cpu.time"] == "s"
    assert units["gen_ai.client.token.usage"] == "{token}" and units["process.network.io"] == "By"
    assert "actbox.invocation.cost" not in units  # there are no prices


async def test_metrics_name_no_user_and_no_conversation_unless_asked() -> None:
    reader = InMemoryMetricReader()
    await use(None, metrics=Metrics(MeterProvider([reader])))
    attributes = {name for one in points(reader).values() for _, has in one for name in has}
    assert "gen_ai.agent.name" in attributes and not {"user.id", "gen_ai.conversation.id"} & attributes
    with pytest.raises(InvalidValue, match="metrics are by capability"):
        Metrics(by=("colour",))
