"""`Invocation`: one use of a capability, as its handler sees it; and `Governance`, what decides about it."""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from actbox.core.errors import InvalidValue
from actbox.core.labels import PUBLIC, Label
from actbox.core.result import ExecutionResult
from actbox.tools import Approver
from actbox.tools.large_values import is_large

from .approvals import Approvals
from .budgets import DIMENSIONS, Account, Budget, Reservation, exact_sum
from .capability import Capability
from .journal import Journal
from .metering import Meter, Metrics
from .outcome import StepEvent
from .prices import Prices

_ENCODER: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)
_MIB: Final = 2**20
_log = logging.getLogger("actbox")


@dataclass(slots=True)
class Invocation:
    """One invocation, as its handler sees it; see `Call`."""

    id: str
    capability: Capability
    input: Mapping[str, Any]
    caller: str
    run: str
    labels: Label
    account: Account
    tell: Callable[[StepEvent], object] = lambda event: None
    used: dict[str, float] = field(default_factory=dict)
    engine: str = ""
    environment: str = ""
    warnings: list[str] = field(default_factory=list)
    retries: int = 0
    sandboxes: Any = None
    """The registry's `Sandboxes`, if it has some."""
    prepared: Any = None
    """A value that the capability's `prepare` keeps for its handler."""
    asks: list[str] = field(default_factory=list)
    """Kinds of approval that this input needs besides those of the capability; `prepare` adds them."""
    kept: dict[str, bytes] = field(default_factory=dict)
    """The blobs for the journal besides input and output, such as the policy of the run, by their names."""
    reservation: Reservation | None = None
    user: str = ""
    meter: Meter = field(default_factory=Meter)
    egress_max: Label | None = None
    """The highest label that the registry lets a capability send out, `None` for any."""
    cleared: Label | None = None
    """The highest label that may be sent to where the input goes, instead of `egress_max`; `prepare` sets it."""
    _counting: Any = field(default_factory=threading.Lock, init=False, repr=False, compare=False)
    _charged: dict[str, float] = field(default_factory=dict, init=False, repr=False, compare=False)
    output_label: Label | None = None
    """The label of the output where the handler has lowered it; `None`: the label of what the invocation has read."""

    def raise_label(self, label: Label | str) -> None:
        """Raise the label of what the invocation has read, and of its output."""
        self.labels |= Label(label)
        if self.output_label is not None:
            self.output_label |= Label(label)

    def lower_output(self, label: Label | str) -> None:
        """Set the label of the output, which may be lower than that of what the invocation has read.

        Only for handlers that have verified that the output has nothing of a higher label, as a redaction does.
        """
        self.output_label = Label(label)

    def charge(self, **amounts: float) -> None:
        """Charge what the invocation has used, by the dimensions of `Budget`; of `memory_mib` the peak counts.

        It counts even where the budget does not cover it. Raises `BudgetExceeded` there, and `InvalidValue` for another
        dimension, or an amount that is no number from zero.
        """
        self.count(**amounts)
        if self.reservation is not None:
            with self._counting:
                used = dict(self.used)
            self.reservation.grow(used)

    def count(self, **amounts: float) -> None:
        """Count what was used and cannot be stopped any more, as `charge` does."""
        try:
            Budget(**amounts)  # type: ignore[arg-type]  # a check of the names and amounts
        except TypeError:
            raise InvalidValue(f"a budget has {', '.join(DIMENSIONS)}, not {', '.join(amounts)}") from None
        with self._counting:  # a handler may have several threads
            for name, amount in amounts.items():
                before = self.used.get(name, 0)
                self.used[name] = max(before, amount) if name == "memory_mib" else exact_sum(before, amount)

    def include(self, account: Account) -> None:
        """Count what an account below `account` was charged with as the invocation's own, without charging it again.

        Its wall time is a part of the invocation's. Call this once, when nothing uses that account any more.
        """
        used = {name: amount for name, amount in account.used.items() if amount}
        self.count(**{name: amount for name, amount in used.items() if name != "wall_seconds"})
        with self._counting:
            for name, amount in used.items():
                self._charged[name] = exact_sum(self._charged.get(name, 0), amount)

    def owed(self) -> dict[str, float]:
        """Return what the invocation has used and has not been charged with; of `memory_mib` the peak."""
        with self._counting:
            charged = {**self._charged, "memory_mib": 0}
            return {
                name: max(exact_sum(amount, -charged[name]), 0) if name in charged else amount
                for name, amount in self.used.items()
            }

    def ran(self, result: ExecutionResult) -> None:
        """Count what a program has used, and take over its label, its engine and its warnings."""
        used = result.usage
        self.raise_label(result.label)
        self.engine, self.environment = result.sandbox, result.environment or self.environment
        self.warnings += result.warnings
        self.count(
            cpu_seconds=used.cpu_ms / 1000,
            memory_mib=-(-used.max_rss_bytes // _MIB),
            tool_calls=used.tool_calls,
            wall_seconds=used.wall_ms / 1000,
            egress_bytes=used.sent_bytes,
            storage_mib=sum(artifact.size for artifact in result.artifacts) / _MIB,
        )
        self.meter.received_bytes += used.received_bytes

    def charge_tokens(self, model: str, *, input: int = 0, output: int = 0, cached: int = 0) -> None:
        """Count the tokens of a model, so that a table of prices can tell their cost; `charge` need not count them too.

        `cached` are those of `input` that came from a cache. Raises `InvalidValue`.
        """
        self.charge(tokens=self.meter.add_tokens(model, input=input, output=output, cached=cached))

    def event(self, step: str, what: Literal["begun", "done", "failed", "note"], message: str = "") -> None:
        """Tell whoever follows the invocation; their own failures are logged and change nothing."""
        try:
            self.tell(StepEvent(self.id, self.capability.id, step, what, message))
        except Exception:
            _log.exception("on_event failed at the step %s of %s", step, self.capability.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Governance:
    """The rules and stores that govern the invocations of one registry.

    `granted` are the kinds of approval that need no question. `egress_max` is the highest label that a capability with
    the effects `network` or `llm` may be given, `None` for any; a place that has a clearance of its own counts by that.
    If the journal cannot be written after the run, the output is withheld (`stop`) or given with a warning (`warn`).
    `prices` charge the money of an invocation at its end.
    """

    approvals: Approvals | None = None
    approver: Approver | None = None
    journal: Journal | None = None
    granted: frozenset[str] = frozenset()
    egress_max: Label | None = None
    on_journal_failure: Literal["stop", "warn"] = "stop"
    prices: Prices | None = None
    metrics: Metrics | None = None


def new_id() -> str:
    """Return the identity of an invocation."""
    return secrets.token_hex(12)


def digest_of(data: object) -> str:
    """Return the SHA-256 of JSON data. Raises `InvalidValue` for anything else."""
    return hashlib.sha256(canonical(data)).hexdigest()


def canonical(data: object) -> bytes:
    """Return JSON data as bytes, the same for equal data. Raises `InvalidValue` for anything else."""
    try:
        return "".join(_ENCODER.iterencode(data) if is_large(data) else [_ENCODER.encode(data)]).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidValue(f"this is no JSON data: {error}") from None


def labels_of(given: Label | str | Mapping[str, Label | str] | None) -> Label:
    """Return the join of the labels of an input: one for all of it, or some by the names of its fields."""
    if given is None:
        return PUBLIC
    return Label(*given.values()) if isinstance(given, Mapping) else Label(given)
