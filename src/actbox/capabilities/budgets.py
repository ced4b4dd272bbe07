"""Budgets: how much one caller may spend, in ten dimensions, and the accounts that hold callers to it.

An account reserves the declared worst case of an invocation before it begins, and settles what was really used after
it, so that invocations at once cannot overspend together. An account below another draws on both.
"""

from __future__ import annotations

import logging
import math
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Literal

from actbox.core.errors import ActboxError, InvalidValue

WARN_AT = (Fraction(1, 2), Fraction(4, 5))
"""The shares of a dimension at which an account warns, once each."""
_PEAK = "memory_mib"
_MOST = sys.float_info.max
_log = logging.getLogger("actbox")
_ROUNDED = 1 + Fraction(1, 10**12)

Amounts = Mapping[str, float]
"""Amounts by dimension, in the units of `Budget`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The most that may be spent. `None` is no limit; 0 is nothing at all.

    Each invocation is one of the `steps`, and with the tool calls of its program counts as `tool_calls`.
    `memory_mib` is a peak: the most that one invocation has at a time. All others add up. `usd` is money in US dollars
    by the user's own prices. `gpu_seconds` and `tokens` are what handlers report. Raises `InvalidValue` for a value
    that is no number, below zero, NaN or infinite.
    """

    steps: int | None = None
    wall_seconds: float | None = None
    cpu_seconds: float | None = None
    memory_mib: int | None = None
    tool_calls: int | None = None
    tokens: int | None = None
    usd: float | None = None
    egress_bytes: int | None = None
    storage_mib: float | None = None
    gpu_seconds: float | None = None

    def __post_init__(self) -> None:
        for name in DIMENSIONS:
            value = getattr(self, name)
            if value is not None:
                _check(name, value)

    def amounts(self) -> dict[str, float]:
        """Return the dimensions that have a limit."""
        return {name: value for name in DIMENSIONS if (value := getattr(self, name)) is not None}


DIMENSIONS = tuple(spec.name for spec in fields(Budget))
"""The names of all dimensions."""
_NOTHING = dict.fromkeys(DIMENSIONS, Fraction(0))


@dataclass(frozen=True, slots=True)
class Lack:
    """A dimension of which too little is left: what was asked for, and what is left of the limit."""

    dimension: str
    asked: float
    left: float
    limit: float
    lacking: float
    """How much more the limit would have to be; more than was asked for, where more is used than there was."""

    def __str__(self) -> str:
        if not self.asked:
            return f"{self.dimension}: more than the limit of {_text(self.limit)} is used"
        return f"{self.dimension}: {_text(self.asked)} asked for, {_text(self.left)} of {_text(self.limit)} left"


class BudgetExceeded(ActboxError):
    """Raised if an account has too little left; `lacks` names every dimension of which it has.

    `may_ask` is true if every account that has too little may be extended by somebody who is asked.
    """

    def __init__(self, lacks: tuple[Lack, ...], *, may_ask: bool = False) -> None:
        super().__init__("the budget does not cover this: " + "; ".join(map(str, lacks)))
        self.lacks = lacks
        self.may_ask = may_ask


@dataclass(frozen=True, slots=True)
class Warned:
    """A warning: an account has used a share of one of its dimensions."""

    dimension: str
    share: float
    """The threshold that was passed, 0.5 or 0.8."""
    used: float
    limit: float

    def __str__(self) -> str:
        return f"{self.share:.0%} of the budget's {self.dimension} are used: {_text(self.used)} of {_text(self.limit)}"


@dataclass(slots=True)
class _Spent:
    """The exact amounts of one dimension that an account has used and reserved."""

    used: Fraction = Fraction(0)
    reserved: Fraction = Fraction(0)
    warned: int = 0


class Account:
    """The use of one budget: amounts that are spent, reserved and left. Threads and event loops may share it."""

    def __init__(
        self,
        budget: Budget,
        parent: Account | None = None,
        *,
        on_warning: Callable[[Warned], object] | None = None,
        on_limit: Literal["stop", "ask"] = "stop",
    ) -> None:
        """`on_warning` is called once for each threshold that use passes. `on_limit` is for whoever invokes: refuse
        what the budget does not cover, or ask whether to extend it.

        Raises `InvalidValue` for a budget of more than what `parent` has left.
        """
        self._parent = parent
        self._lock: threading.RLock = parent._lock if parent is not None else threading.RLock()
        self._on_warning = on_warning
        self.on_limit: Literal["stop", "ask"] = on_limit
        self._limits = {name: _exact(value) for name, value in budget.amounts().items()}
        self._spent = {name: _Spent() for name in DIMENSIONS}
        if parent is not None:
            left = parent.left.amounts()
            for name, value in budget.amounts().items():
                if value > left.get(name, math.inf):
                    raise InvalidValue(
                        f"a budget of {name}={value:g} is above the {left[name]:g} that its parent has left"
                    )

    @property
    def used(self) -> dict[str, float]:
        """The amounts used, by dimension; of memory the most at a time."""
        with self._lock:
            return {name: _number(spent.used) for name, spent in self._spent.items()}

    @property
    def left(self) -> Budget:
        """The amounts that can still be reserved, here and in all accounts above; `None` where nothing limits them."""
        with self._lock:
            found: dict[str, float] = {}
            for account in self._chain():
                for name in account._limits:
                    found[name] = min(found.get(name, math.inf), _number(max(account._left(name), Fraction(0))))
        return Budget(**found)  # type: ignore[arg-type]  # whole numbers stay whole

    def draws_on(self, other: Account) -> bool:
        """Return True if this is another account, or one below it."""
        return any(account is other for account in self._chain())

    def left_of(self, name: str) -> float | None:
        """Return what may still be reserved of one dimension, here and in all accounts above; `None`: no limit."""
        with self._lock:
            found = [account._left(name) for account in self._chain() if name in account._limits]
        return _number(max(min(found), Fraction(0))) if found else None

    def reserve(self, worst: Budget) -> Reservation:
        """Set aside the worst case of an invocation. A dimension that is `None` sets nothing aside.

        Raises `BudgetExceeded` with every dimension that this account, or one above, lacks, or of which more is used
        already than there was; then nothing is set aside.
        """
        amounts = {name: _exact(value) for name, value in worst.amounts().items()}
        with self._lock:
            self._check_left({**_NOTHING, **amounts})
            for account in self._chain():
                account._set_aside(amounts, 1)
        return Reservation(self, amounts)

    def charge(self, used: Amounts) -> None:
        """Count what was used already, also if it is more than is left. Raises what `Reservation.settle` does."""
        Reservation(self, {}).settle(used)

    def extend(self, worst: Budget, most: Amounts) -> None:
        """Raise limits so far that `worst` can be reserved, after somebody has agreed to it.

        `most` is what was agreed to, by dimension: no limit is raised by more, even if less is left by now. Only
        accounts that `on_limit="ask"` allows it are extended; the others still hold.
        """
        with self._lock:
            for account in self._chain():
                for name in account._limits if account.on_limit == "ask" else ():
                    lacking = max(_exact(getattr(worst, name) or 0) - account._left(name), Fraction(0))
                    agreed = _exact(most.get(name, 0))
                    # A number that was shown was rounded, by less than this.
                    account._limits[name] += lacking if lacking <= agreed * _ROUNDED else agreed

    def _check_left(self, amounts: Mapping[str, Fraction]) -> None:
        """Raise `BudgetExceeded` if this account, or one above, has less left than amounts."""
        lacks: dict[str, Lack] = {}
        may_ask = True
        for account in self._chain():
            for name, asked in amounts.items():
                limit = account._limits.get(name)
                if limit is None or asked <= (left := account._left(name)):
                    continue
                may_ask = may_ask and account.on_limit == "ask"
                if name not in lacks or left < lacks[name].left:
                    nothing = Fraction(0)
                    lacks[name] = Lack(
                        name, _number(asked), _number(max(left, nothing)), _number(limit), _number(asked - left)
                    )
        if lacks:
            raise BudgetExceeded(tuple(lacks.values()), may_ask=may_ask)

    def _chain(self) -> Iterator[Account]:
        account: Account | None = self
        while account is not None:
            yield account
            account = account._parent

    def _left(self, name: str) -> Fraction:
        """Return what may be reserved of a dimension in this account alone; without a limit it is of no meaning."""
        limit = self._limits.get(name, Fraction(0))
        return limit if name == _PEAK else limit - self._spent[name].used - self._spent[name].reserved

    def _set_aside(self, amounts: Mapping[str, Fraction], sign: int) -> None:
        for name, amount in amounts.items():
            self._spent[name].reserved += sign * amount

    def _use(self, used: Mapping[str, Fraction]) -> Iterator[Warned]:
        """Count what was used; yield the warnings that it leads to."""
        for name, amount in used.items():
            spent, limit = self._spent[name], self._limits.get(name)
            spent.used = max(spent.used, amount) if name == _PEAK else spent.used + amount
            while limit and spent.warned < len(WARN_AT) and spent.used >= limit * WARN_AT[spent.warned]:
                spent.warned += 1
                yield Warned(name, float(WARN_AT[spent.warned - 1]), _number(spent.used), _number(limit))


class Reservation:
    """The amounts that an account has set aside for one invocation. Settle or release them, once."""

    def __init__(self, account: Account, amounts: Mapping[str, Fraction]) -> None:
        self._account = account
        self._amounts = amounts
        self._is_open = True
        self._settled: Mapping[str, Fraction] = {}

    def grow(self, used: Amounts) -> None:
        """Set aside what was used beyond the worst case. Raises `BudgetExceeded`, and sets nothing aside then.

        After `settle`, as by a thread that goes on after its time, it counts at once, and raises `InvalidValue`.
        """
        with self._account._lock:
            if not self._is_open:
                self._count_late({name: _exact(value) for name, value in used.items()})
                raise InvalidValue("the invocation has ended, and takes no further charge")
            more = {
                name: lacking
                for name, value in used.items()
                if (lacking := _exact(value) - self._amounts.get(name, Fraction(0))) > 0
            }
            asked = {name: _exact(used[name]) if name == _PEAK else lacking for name, lacking in more.items()}
            self._account._check_left(asked)
            for account in self._account._chain():
                account._set_aside(more, 1)
            self._amounts = {**self._amounts, **{name: _exact(used[name]) for name in more}}

    def settle(self, used: Amounts) -> tuple[Warned, ...]:
        """Count what was really used, and give back what was set aside. A second call does nothing.

        Return the warnings of all accounts, which their callbacks get too. What is used beyond the reservation counts:
        it happened. Raises `InvalidValue` for an unknown dimension, or an amount that is no number from zero.
        """
        for name, value in used.items():
            if name not in DIMENSIONS:
                raise InvalidValue(f"a budget has no {name!r}; it has {', '.join(DIMENSIONS)}")
            _check(name, value)
        exact = {name: _exact(value) for name, value in used.items()}
        warnings: list[tuple[Account, Warned]] = []
        with self._account._lock:
            if not self._is_open:
                return ()
            self._is_open = False
            self._settled = exact
            for account in self._account._chain():
                account._set_aside(self._amounts, -1)
                warnings += [(account, one) for one in account._use(exact)]
        for account, warned in warnings:
            if account._on_warning is not None:
                try:
                    account._on_warning(warned)
                except Exception:  # the amounts are settled
                    _log.exception("on_warning failed")
        return tuple(warned for _, warned in warnings)

    def _count_late(self, used: Mapping[str, Fraction]) -> None:
        """Count what was used since `settle`."""
        before = self._settled
        more = {name: one if name == _PEAK else one - before.get(name, 0) for name, one in used.items()}
        self._settled = {**before, **used}
        for account in self._account._chain():
            for _ in account._use({name: max(one, Fraction(0)) for name, one in more.items()}):
                pass  # nobody waits for a warning any more

    def release(self) -> None:
        """Give back what was set aside, for an invocation that did not begin. After `settle` it does nothing."""
        self.settle({})


def exact_sum(first: float, second: float) -> float:
    """Return the sum of two amounts as they are written, 0.3 for 0.1 and 0.2; the largest float for more than that."""
    return min(_number(_exact(first) + _exact(second)), _MOST)


def _check(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= _MOST:
        given = "one this large" if isinstance(value, int) and value > _MOST else repr(value)
        raise InvalidValue(f"Budget.{name} is a number from 0, or None for no limit, not {given}")


def _text(number: float) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:g}"


def _exact(value: float) -> Fraction:
    """Return a number as it is written: ten times 0.1 is 1."""
    return Fraction(float.__repr__(value)) if isinstance(value, float) else Fraction(value)


def _number(exact: Fraction) -> float:
    return int(exact) if exact.denominator == 1 or exact > _MOST else float(exact)
