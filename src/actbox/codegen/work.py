"""`Work`: all that the candidates of one task share: models and their cost, the budget, effects, sandboxes, checks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final, TypeVar

from actbox.capabilities.budgets import Account, Budget, BudgetExceeded
from actbox.capabilities.prices import TokenPrice, Tokens
from actbox.codeact.model import ChatModel, Message, ModelReply, TokenUsage, ToolSpec, complete
from actbox.codeact.supervision import Supervision
from actbox.core.errors import ActboxError, ToolError
from actbox.core.labels import Label
from actbox.core.packages import PackagePolicy
from actbox.core.result import ExecutionResult
from actbox.sandbox.contract import Session

from .effects import EffectLog
from .endings import Endings
from .outcome import Attempt, CodingEvent, CodingUsage
from .places import Places
from .prompts import Prompt
from .retry import RetryPolicy
from .task import Task

_LEAST: Final = 0.001
_LEAST_USD: Final = 1e-12
_MIB: Final = 2**20

T = TypeVar("T")


class Stopped(Exception):
    """Raised where a task cannot be worked on any more; `stopped` and `reason` are those of `Outcome`."""

    def __init__(self, stopped: str, reason: str, failure: BaseException | None = None) -> None:
        super().__init__(reason)
        self.stopped, self.reason, self.failure = stopped, reason, failure


@dataclass(frozen=True, slots=True)
class PricedModel:
    """A model that writes programs, and its price, `None` if nobody knows it."""

    model: ChatModel
    price: TokenPrice | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """A model's reply, with its cost in US dollars, 0 if nobody knows it, and the milliseconds until it came."""

    reply: ModelReply = field(default_factory=ModelReply)
    cost: float = 0.0
    wall_ms: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a coding agent that hold for every task."""

    retry: RetryPolicy
    supervision: Supervision
    packages: PackagePolicy | None
    prompt: Prompt
    guidance: str
    timeout: float | None
    model_seconds: float
    write_tests: bool
    mutations: int


@dataclass(slots=True)
class Work:
    """The work on one task. `tell` is given each event, and `session` is the state from which attempts start."""

    task: Task
    settings: Settings
    places: Places
    account: Account
    tell: Callable[[CodingEvent], None]
    session: Session | None = None
    cleared: Label | None = None
    attempts: list[Attempt] = field(default_factory=list)
    by_model: dict[str, TokenUsage] = field(default_factory=dict)
    usd_by_model: dict[str, Decimal] = field(default_factory=dict)
    model_calls: int = 0
    runs: int = 0
    at_work: int = 1
    """The number of candidates that make attempts now."""
    tool_calls: int = 0
    usd: Decimal | None = Decimal(0)
    label: Label = field(default_factory=Label)
    notes: dict[str, None] = field(default_factory=dict)
    effects: EffectLog = field(default_factory=EffectLog)
    endings: Endings = field(default_factory=Endings)
    _begun: float = field(default_factory=time.perf_counter)

    def __post_init__(self) -> None:
        is_bounded = self.account.left_of("tool_calls") is not None
        self.effects = EffectLog(self.settings.supervision.tools, self._charge_call if is_bounded else None)
        self.label = self.task.joined_label

    @property
    def may_plan(self) -> bool:
        """True if another call of the model may be spent on anything but programs."""
        most = self.settings.retry.max_coding_turns
        return most is None or self.model_calls + 1 < most

    @property
    def spent(self) -> float | None:
        """The US dollars that the models have cost so far, `None` if nobody knows."""
        return None if self.usd is None else float(self.usd)

    def usage(self) -> CodingUsage:
        """Return the usage so far."""
        return CodingUsage(
            by_model=dict(self.by_model),
            usd_by_model=dict(self.usd_by_model),
            model_calls=self.model_calls,
            runs=self.runs,
            tool_calls=self.tool_calls,
            usd=self.spent,
            wall_ms=(time.perf_counter() - self._begun) * 1000,
        )

    async def ask(self, writer: PricedModel, messages: Sequence[Message], output: ToolSpec | None = None) -> Answer:
        """Ask a model. Raises `Stopped` if the budget is used up, or if the model fails or does not answer."""
        return Answer(
            *await self.call_model(writer, lambda model: complete(model, messages, (), output), lambda reply: reply)
        )

    async def call_model(
        self, writer: PricedModel, call: Callable[[ChatModel], Awaitable[T]], reply_of: Callable[[T], ModelReply]
    ) -> tuple[T, float, float]:
        """Return what one call of a model returns, its cost and its milliseconds; raises what `ask` raises."""
        share = self._share()
        try:
            worst = Budget(steps=1, tokens=1, usd=_LEAST_USD, wall_seconds=_LEAST)
            reservation = self.account.reserve(worst)
        except BudgetExceeded as error:
            raise Stopped("budget", str(error)) from None
        seconds = self.settings.model_seconds if share is None else min(self.settings.model_seconds, share)
        name, begun = writer.model.name, time.perf_counter()
        used: dict[str, float] = {"steps": 1}
        self.model_calls += 1
        try:
            async with asyncio.timeout(seconds) as limit:
                found = await call(writer.model)
            used |= self._count(writer, reply_of(found))
            if _is_cancelled():  # a model that goes on when it is cancelled ends nevertheless
                raise asyncio.CancelledError
        except (KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except BaseException as error:  # a provider's failure, of whatever kind, must not lose the attempts
            if isinstance(error, asyncio.CancelledError) and _is_cancelled():
                raise
            if isinstance(error, TimeoutError) and limit.expired():
                is_budget = seconds < self.settings.model_seconds
                why = ", and the budget has no more wall time" if is_budget else ""
                reason = f"the model {name} did not answer in {seconds:g} s{why}"
                raise Stopped("budget" if is_budget else "model", reason, error) from None
            kind = "" if isinstance(error, ActboxError) else f"{type(error).__name__}: "  # our sentences need no name
            raise Stopped("model", f"{kind}{error}".rstrip(": "), error) from None
        finally:
            wall_ms = (time.perf_counter() - begun) * 1000
            reservation.settle({**used, "wall_seconds": wall_ms / 1000})
        return found, used["usd"], wall_ms

    def _count(self, writer: PricedModel, reply: ModelReply) -> dict[str, float]:
        """Count a model's reply, and return its tokens and its cost."""
        _check_reply(reply)
        name, tokens = writer.model.name, Tokens(input=reply.usage.input_tokens, output=reply.usage.output_tokens)
        usd = None if writer.price is None else writer.price.of(tokens)
        self.by_model[name] = self.by_model.get(name, TokenUsage()) + reply.usage
        if usd is not None:
            self.usd_by_model[name] = self.usd_by_model.get(name, Decimal(0)) + usd
        self.usd = None if usd is None or self.usd is None else self.usd + usd
        return {"tokens": tokens.total, "usd": float(usd or 0)}

    async def charge_run(self, run: Callable[[float | None], Awaitable[ExecutionResult]]) -> ExecutionResult:
        """Return the result of a run, which is given its seconds, and charge it. Raises `Stopped` without a budget."""
        try:
            reservation = self.account.reserve(Budget(wall_seconds=_LEAST, cpu_seconds=_LEAST))
        except BudgetExceeded as error:
            raise Stopped("budget", str(error)) from None
        bounds = (
            self.settings.timeout,
            None if (most := self.task.constraints.timeout_ms) is None else most / 1000,
            self._share(),
        )
        begun = time.perf_counter()
        used: dict[str, float] = {}
        self.runs += 1
        try:
            result = await run(min((one for one in bounds if one is not None), default=None))
            used = {
                "cpu_seconds": result.usage.cpu_ms / 1000,
                "memory_mib": -(-result.usage.max_rss_bytes // _MIB),
                "egress_bytes": result.usage.sent_bytes,
                "storage_mib": sum(artifact.size for artifact in result.artifacts) / _MIB,
            }
            self.tool_calls += result.usage.tool_calls
            self.label |= result.label
            return result
        finally:
            reservation.settle({**used, "wall_seconds": time.perf_counter() - begun})

    def _share(self) -> float | None:
        """Return the wall time that is left for each candidate at work, in seconds; `None` for no limit."""
        left = self.account.left_of("wall_seconds")
        return None if left is None else left / self.at_work

    def charge_wall(self, seconds: float) -> None:
        """Charge the wall time of what is neither a run nor a call of a model, whether or not it is covered."""
        with suppress(BudgetExceeded):
            self.account.reserve(Budget()).settle({"wall_seconds": max(seconds, 0.0)})

    def _charge_call(self) -> None:
        """Charge a call of a tool. Raises `ToolError` if the budget does not cover it."""
        try:
            self.account.reserve(Budget(tool_calls=1)).settle({"tool_calls": 1})
        except BudgetExceeded as error:
            raise ToolError(str(error)) from None


def _check_reply(reply: object) -> None:
    """Raise `TypeError` for what is no reply of a model, such as `None`."""
    if not isinstance(reply, ModelReply) or not isinstance(reply.text, str):
        raise TypeError(f"the model gave no ModelReply with text, but {reply!r:.200}")
    if not isinstance(reply.tool_calls, tuple | list):
        raise TypeError(f"the model gave a ModelReply without a list of calls, but {reply.tool_calls!r:.200}")
    counts = (reply.usage.input_tokens, reply.usage.output_tokens)
    if any(type(one) is not int or one < 0 for one in counts):  # a budget must not grow by them
        raise TypeError(f"the model counted its tokens as {counts!r:.200}")


def _is_cancelled() -> bool:
    """Return True if somebody cancels this task; else a `CancelledError` is a failure of what it awaits."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
