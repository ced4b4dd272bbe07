"""Metering: the measurements of invocations, their sums by the journal, and OpenTelemetry metrics of them.

The journal is the only store: each `ended` entry has the measurements of its invocation, and a sum is read from them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Self

from actbox._version import __version__
from actbox.core.errors import InvalidValue, Unsupported

from .database import StoreError
from .journal import Journal
from .prices import Cost, Prices, Tokens, total

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider

_MICRO: Final = 1_000_000
_MIB: Final = 2**20


@dataclass(slots=True)
class Meter:
    """The measurements of an invocation under way for which a budget has no dimension; see `Metered`."""

    input_bytes: int = 0
    output_bytes: int = 0
    received_bytes: int = 0
    tokens: dict[str, Tokens] = field(default_factory=dict)
    paid: dict[str, Decimal] = field(default_factory=dict)
    """Money that is a part of `usd` already, by the models whose tokens it has paid for."""
    cost: Cost | None = None

    def add_tokens(self, model: str, *, input: int, output: int, cached: int) -> int:
        """Count the tokens of a model; return how many there are. Raises `InvalidValue`."""
        if not isinstance(model, str) or not model:
            raise InvalidValue(f"a model is named by text, not {model!r}")
        used = Tokens(input=input, output=output, cached=cached)
        self.tokens[model] = self.tokens.get(model, Tokens()) + used
        return used.total

    def charge_money(self, used: dict[str, float], prices: Prices | None) -> tuple[str, ...]:
        """Add the money for all that was used, once, at the end; return a warning that names models without a price."""
        if prices is None or self.cost is not None:
            return ()
        other = Decimal(str(used.get("usd", 0))) - total(self.paid.values())
        self.cost = prices.cost(used, self.tokens, max(other, Decimal(0)), paid=self.paid)
        used["usd"] = min(float(self.cost.usd), sys.float_info.max)
        named = ", ".join(self.cost.unpriced)
        return (f"no price is known for the tokens of {named}",) if named else ()

    def to_dict(self) -> dict[str, Any]:
        """Return the measurements as the journal has them."""
        size = {"input": self.input_bytes, "output": self.output_bytes, "received": self.received_bytes}
        tokens = {model: count.to_dict() for model, count in self.tokens.items()}
        return {"bytes": size, "tokens": tokens, **({"cost": self.cost.to_dict()} if self.cost is not None else {})}


@dataclass(frozen=True, slots=True, kw_only=True)
class Metered:
    """The measurements of one invocation whose run had begun.

    `usage` is by the dimensions of `Budget`. Input and output bytes are those of its JSON; `received_bytes` came from
    the network. `cost` is `None` without prices. `error` is the kind of its error, "" for none.
    """

    capability: str
    agent: str = ""
    user: str = ""
    conversation: str = ""
    engine: str = ""
    day: str = ""
    model: str = ""
    """The model, where measurements were split by it."""
    error: str = ""
    usage: Mapping[str, float] = field(default_factory=dict)
    input_bytes: int = 0
    output_bytes: int = 0
    received_bytes: int = 0
    tokens: Mapping[str, Tokens] = field(default_factory=dict)
    cost: Cost | None = None

    @classmethod
    def of(cls, body: Mapping[str, Any], day: str = "") -> Self:
        """Return the measurements in the body of an `ended` entry of the journal."""
        size, cost = body.get("bytes", {}), body.get("cost")
        return cls(
            capability=body["capability"],
            agent=body.get("caller", ""),
            user=body.get("user", ""),
            conversation=body.get("run", ""),
            engine=body.get("engine", ""),
            day=day,
            error=body.get("error", {}).get("kind", ""),
            usage=body.get("usage", {}),
            input_bytes=size.get("input", 0),
            output_bytes=size.get("output", 0),
            received_bytes=size.get("received", 0),
            tokens={model: Tokens(**count) for model, count in body.get("tokens", {}).items()},
            cost=Cost.from_dict(cost) if cost is not None else None,
        )

    def priced(self, prices: Prices) -> Self:
        """Return the measurements with their cost by other prices."""
        return replace(self, cost=prices.cost(self.usage, self.tokens, self.cost.other if self.cost else None))

    def by_model(self) -> Iterator[Self]:
        """Yield the tokens, and their cost, of each model."""
        for model, count in self.tokens.items():
            cost = None
            if self.cost is not None:
                lines = {model: self.cost.delegation[model]} if model in self.cost.delegation else {}
                cost = Cost(delegation=lines, unpriced=() if lines else (model,))
            usage = {"tokens": count.total}
            about = {name: getattr(self, name) for name in KEYS if name != "model"}
            yield type(self)(**about, model=model, error=self.error, usage=usage, tokens={model: count}, cost=cost)


KEYS: Final = ("capability", "agent", "user", "conversation", "model", "engine", "day")
"""The fields of `Metered` by which invocations can be summed up."""


@dataclass(slots=True, kw_only=True)
class UsageSum:
    """The sum of the invocations that have the same `key`. Memory is the most of one invocation.

    `delegation_usd` is the money for tokens, `sandbox_usd` that for processor time, memory, egress and storage,
    `other_usd` what handlers have charged themselves. Not in these sums: the tokens of the models in `unpriced`, and
    all of the `without_prices` invocations, for which no prices are known.
    """

    key: tuple[str, ...] = ()
    invocations: int = 0
    failed: int = 0
    wall_seconds: float = 0.0
    cpu_ms: float = 0.0
    gpu_seconds: float = 0.0
    peak_memory_mib: float = 0.0
    input_bytes: int = 0
    output_bytes: int = 0
    sent_bytes: int = 0
    """Bytes that programs and handlers sent to the network."""
    received_bytes: int = 0
    disk_mib: float = 0.0
    """MiB of files that invocations returned."""
    tool_calls: int = 0
    """The invocations themselves, and the tool calls of their programs."""
    tokens: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    delegation_usd: Decimal = Decimal(0)
    sandbox_usd: Decimal = Decimal(0)
    other_usd: Decimal = Decimal(0)
    unpriced: set[str] = field(default_factory=set)
    without_prices: int = 0

    @property
    def usd(self) -> Decimal:
        """All money."""
        return total((self.delegation_usd, self.sandbox_usd, self.other_usd))

    def add(self, one: Metered) -> None:
        """Add the measurements of an invocation."""
        used = {**dict.fromkeys(("wall_seconds", "cpu_seconds", "gpu_seconds", "storage_mib"), 0.0), **one.usage}
        self.invocations += 1
        self.failed += one.error != ""
        self.wall_seconds += used["wall_seconds"]
        self.cpu_ms += used["cpu_seconds"] * 1000
        self.gpu_seconds += used["gpu_seconds"]
        self.peak_memory_mib = max(self.peak_memory_mib, used.get("memory_mib", 0))
        self.input_bytes += one.input_bytes
        self.output_bytes += one.output_bytes
        self.sent_bytes += int(used.get("egress_bytes", 0))
        self.received_bytes += one.received_bytes
        self.disk_mib += used["storage_mib"]
        self.tool_calls += int(used.get("tool_calls", 0))
        self.tokens += int(used.get("tokens", 0))
        for count in one.tokens.values():
            self.input_tokens += count.input
            self.cached_tokens += count.cached
            self.output_tokens += count.output
        if one.cost is None:
            self.without_prices += 1
            return
        self.delegation_usd = total((self.delegation_usd, *one.cost.delegation.values()))
        self.sandbox_usd = total((self.sandbox_usd, *one.cost.sandbox.values()))
        self.other_usd = total((self.other_usd, one.cost.other))
        self.unpriced.update(one.cost.unpriced)


async def usage_of(
    journal: Journal, by: Sequence[str] = ("capability",), *, since: float = 0, prices: Prices | None = None
) -> tuple[UsageSum, ...]:
    """Return the sums of a journal's invocations by some of `KEYS`, sorted by these.

    `since` is a time in seconds since 1970. `prices` replace those by which the registry has charged. Invocations whose
    entries were trimmed are not in it. Raises `InvalidValue` for an unknown key, and `StoreError`.
    """
    for name in by:
        if name not in KEYS:
            raise InvalidValue(f"usage is by {', '.join(KEYS)}, not by {name!r}")
    sums: dict[tuple[str, ...], UsageSum] = {}
    async for entry in journal.entries(kind="ended", since=since):
        day = datetime.fromtimestamp(entry.time / _MICRO).astimezone().date().isoformat()
        try:
            metered = Metered.of(entry.body, day)
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
            raise StoreError(f"entry {entry.seq} of the journal says what no invocation says: verify it") from None
        if prices is not None:
            metered = metered.priced(prices)
        for one in metered.by_model() if "model" in by else (metered,):
            key = tuple(getattr(one, name) for name in by)
            sums.setdefault(key, UsageSum(key=key)).add(one)
    return tuple(sums[key] for key in sorted(sums))


_ATTRIBUTES: Final[Mapping[str, str]] = {
    "capability": "gen_ai.tool.name",
    "agent": "gen_ai.agent.name",
    "user": "user.id",
    "conversation": "gen_ai.conversation.id",
    "engine": "actbox.engine",
}
_PROVIDERS: Final[Mapping[str, str]] = {"openai-chat": "openai", "google": "gcp.gemini"}
"""The conventions' names of providers that actbox calls otherwise."""
_SECONDS: Final = tuple(0.01 * 2**step for step in range(14))
_TOKENS: Final = tuple(4**step for step in range(14))
_BYTES: Final = tuple(_MIB * 2**step for step in range(4, 15))


class Metrics:
    """OpenTelemetry metrics of a registry's invocations: `Registry(metrics=Metrics())`.

    Names are those of the semantic conventions, and begin with `actbox.` where these have none:
    `gen_ai.execute_tool.duration`, `gen_ai.client.token.usage` (the tokens of one invocation, by model and type),
    `process.cpu.time` and `process.network.io` (of the sandboxes' processes), `actbox.invocation.memory.peak`,
    `actbox.invocation.io`, `actbox.invocation.storage`, `actbox.invocation.tool_calls`, `actbox.invocation.gpu.time`
    and `actbox.invocation.cost` (US dollars, by `actbox.cost.line`).
    """

    def __init__(self, provider: MeterProvider | None = None, *, by: Iterable[str] = ("capability", "agent")) -> None:
        """`provider` is the application's own by default. `by` says which attributes the metrics have: `capability`
        (`gen_ai.tool.name`), `agent` (`gen_ai.agent.name`), `user` (`user.id`), `conversation`
        (`gen_ai.conversation.id`) and `engine`. Each value of an attribute is a time series that lasts as long as the
        process, so name users and conversations only where they are few.

        Raises `InvalidValue` for another attribute, and `Unsupported` if OpenTelemetry is not installed.
        """
        try:
            from opentelemetry.metrics import get_meter
        except ModuleNotFoundError:
            raise Unsupported("Metrics needs OpenTelemetry: pip install opentelemetry-api") from None
        self._by = tuple(by)
        for name in self._by:
            if name not in _ATTRIBUTES:
                raise InvalidValue(f"metrics are by {', '.join(_ATTRIBUTES)}, not by {name!r}")
        meter = get_meter("actbox", __version__, provider)
        self._duration = meter.create_histogram(
            "gen_ai.execute_tool.duration",
            "s",
            "The duration of a single tool execution.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            "{token}",
            "Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=_TOKENS,
        )
        self._memory = meter.create_histogram(
            "actbox.invocation.memory.peak",
            "By",
            "The most memory of one invocation at a time.",
            explicit_bucket_boundaries_advisory=_BYTES,
        )
        self._cpu = meter.create_counter(
            "process.cpu.time", "s", "Total CPU seconds broken down by different CPU modes."
        )
        self._network = meter.create_counter("process.network.io", "By", "Network bytes transferred.")
        self._io = meter.create_counter("actbox.invocation.io", "By", "Bytes of the input and output of invocations.")
        self._storage = meter.create_counter("actbox.invocation.storage", "By", "Bytes of the files returned.")
        self._calls = meter.create_counter(
            "actbox.invocation.tool_calls", "{call}", "Invocations, and the tool calls within them."
        )
        self._gpu = meter.create_counter("actbox.invocation.gpu.time", "s", "GPU seconds that handlers report.")
        self._cost = meter.create_counter("actbox.invocation.cost", "{USD}", "US dollars by the registry's prices.")

    def record(self, one: Metered) -> None:
        """Record the measurements of an invocation."""
        about = {_ATTRIBUTES[name]: value for name in self._by if (value := getattr(one, name))}
        used = one.usage
        failure = {"error.type": one.error} if one.error else {}
        self._duration.record(used.get("wall_seconds", 0.0), {**about, **failure})
        for model, count in one.tokens.items():
            provider, _, name = model.rpartition(":")
            asked = {
                **about,
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.provider.name": _PROVIDERS.get(provider, provider) or "unknown",
                "gen_ai.request.model": name,
            }
            self._tokens.record(count.input, {**asked, "gen_ai.token.type": "input"})
            self._tokens.record(count.output, {**asked, "gen_ai.token.type": "output"})
        if "memory_mib" in used:
            self._memory.record(int(used["memory_mib"] * _MIB), about)
        self._io.add(one.input_bytes, {**about, "actbox.io.direction": "input"})
        self._io.add(one.output_bytes, {**about, "actbox.io.direction": "output"})
        for counter, amount, more in (
            (self._cpu, used.get("cpu_seconds", 0.0), {}),
            (self._network, int(used.get("egress_bytes", 0)), {"network.io.direction": "transmit"}),
            (self._network, one.received_bytes, {"network.io.direction": "receive"}),
            (self._storage, int(used.get("storage_mib", 0.0) * _MIB), {}),
            (self._calls, int(used.get("tool_calls", 0)), {}),
            (self._gpu, used.get("gpu_seconds", 0.0), {}),
        ):
            if amount:
                counter.add(amount, {**about, **more})
        if one.cost is not None:
            lines = {"delegation": total(one.cost.delegation.values()), **one.cost.sandbox, "other": one.cost.other}
            for line, money in lines.items():
                if money:
                    self._cost.add(float(money), {**about, "actbox.cost.line": line})
