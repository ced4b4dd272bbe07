"""Prices: the cost of an invocation in US dollars, by a table that the user gives.

Amounts are exact decimals. Each line of a cost is rounded once, to twelve places; sums of lines are exact.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from decimal import ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from typing import Any, Final, Self

from actbox.config.documents import read_document
from actbox.core.errors import InvalidValue

Amount = Decimal | int | float | str
"""An amount of money as a user writes it; 0.1 and "0.1" are the same."""

UNNAMED: Final = "(unnamed)"
"""The name of the model whose tokens were charged without one."""

_EXACT: Final = Context(prec=1000, rounding=ROUND_HALF_EVEN)
"""A context of its own, with digits for products of any floats: that of the caller's thread may round to a few."""
_PLACES: Final = Decimal("1e-12")
_MOST: Final = 10**9
_MILLIONTH: Final = Decimal("1e-6")
_BYTE: Final = Decimal("9.31322574615478515625e-10")
"""A byte in GiB."""
_MIB: Final = Decimal("0.0009765625")
"""A MiB in GiB."""
_NOTHING: Final = Decimal(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Tokens of one model. `input` has all that it read; `cached` is the part of them that came from a cache.

    Raises `InvalidValue` for anything but whole numbers from 0, and for more cached tokens than input.
    """

    input: int = 0
    output: int = 0
    cached: int = 0

    def __post_init__(self) -> None:
        for name, value in self.to_dict().items():
            if type(value) is not int or value < 0:
                raise InvalidValue(f"the {name} tokens are a whole number from 0, not {value!r}")
        if self.cached > self.input:
            raise InvalidValue(f"{self.cached} cached tokens are more than the {self.input} input tokens they are of")

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(
            input=self.input + other.input, output=self.output + other.output, cached=self.cached + other.cached
        )

    @property
    def total(self) -> int:
        """The input and output tokens together."""
        return self.input + self.output

    def to_dict(self) -> dict[str, int]:
        """Return the tokens as plain JSON data."""
        return {"input": self.input, "output": self.output, "cached": self.cached}


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class TokenPrice:
    """The price of a model: US dollars for a million tokens. `cached` is by default the price of other input.

    Raises `InvalidValue` for anything but an amount from 0.
    """

    input: Decimal
    output: Decimal
    cached: Decimal

    def __init__(self, *, input: Amount, output: Amount, cached: Amount | None = None) -> None:
        for name, value in (("input", input), ("output", output), ("cached", input if cached is None else cached)):
            object.__setattr__(self, name, _price(f"TokenPrice.{name}", value))

    def of(self, tokens: Tokens) -> Decimal:
        """Return what tokens cost in US dollars."""
        counts = (
            (self.input, tokens.input - tokens.cached),
            (self.cached, tokens.cached),
            (self.output, tokens.output),
        )
        return _money(_sum(_product(price, Decimal(count)) for price, count in counts), _MILLIONTH)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of one invocation in US dollars, line by line.

    `delegation` has the tokens, by model. `sandbox` has `cpu`, `memory`, `egress` and `storage`. `other` is money that
    the handler has charged itself. `unpriced` names the models that have no price: their tokens are in no line.
    """

    delegation: Mapping[str, Decimal] = field(default_factory=dict)
    sandbox: Mapping[str, Decimal] = field(default_factory=dict)
    other: Decimal = _NOTHING
    unpriced: tuple[str, ...] = ()

    @property
    def usd(self) -> Decimal:
        """The sum of all lines."""
        return total((*self.delegation.values(), *self.sandbox.values(), self.other))

    def to_dict(self) -> dict[str, Any]:
        """Return the cost as plain JSON data, amounts as text."""
        return {
            "delegation": {model: f"{amount:f}" for model, amount in self.delegation.items()},
            "sandbox": {name: f"{amount:f}" for name, amount in self.sandbox.items()},
            "other": f"{self.other:f}",
            "unpriced": list(self.unpriced),
        }

    @classmethod
    def from_dict(cls, said: Mapping[str, Any]) -> Self:
        """Return the cost that `to_dict` has written."""
        return cls(
            delegation={model: Decimal(amount) for model, amount in said["delegation"].items()},
            sandbox={name: Decimal(amount) for name, amount in said["sandbox"].items()},
            other=Decimal(said["other"]),
            unpriced=tuple(said["unpriced"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class Prices:
    """A table of prices in US dollars; without a price, a resource of the sandbox is free.

    `models` are the prices of tokens by the name that handlers charge them under. `cpu_second` is for a second of
    processor time, `gib_second` for a GiB of memory in a second (the peak, over the wall time), `egress_gib` for a GiB
    sent to the network, `storage_gib` for a GiB of files that an invocation returns.

    Raises `InvalidValue` for anything but amounts from 0.
    """

    models: Mapping[str, TokenPrice]
    cpu_second: Decimal
    gib_second: Decimal
    egress_gib: Decimal
    storage_gib: Decimal

    def __init__(
        self,
        *,
        models: Mapping[str, TokenPrice] | None = None,
        cpu_second: Amount = 0,
        gib_second: Amount = 0,
        egress_gib: Amount = 0,
        storage_gib: Amount = 0,
    ) -> None:
        for model, price in (models or {}).items():
            if not isinstance(model, str) or not isinstance(price, TokenPrice):
                raise InvalidValue(f"Prices.models has a TokenPrice for the name of each model, not {price!r}")
        object.__setattr__(self, "models", dict(models or {}))
        for name, value in (
            ("cpu_second", cpu_second),
            ("gib_second", gib_second),
            ("egress_gib", egress_gib),
            ("storage_gib", storage_gib),
        ):
            object.__setattr__(self, name, _price(f"Prices.{name}", value))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Return the prices of a TOML file.

        Its tables `[models."NAME"]` have the fields of `TokenPrice`, and its table `[sandbox]` the others of `Prices`.
        Raises `InvalidValue`, which names the file.
        """
        file, document = read_document(path)
        try:
            given = _table("the file", document, ("models", "sandbox"))
            models = {
                model: TokenPrice(**_table(f"models.{model}", price, _names(TokenPrice), needs=("input", "output")))
                for model, price in _table("models", given.get("models", {})).items()
            }
            names = tuple(name for name in _names(cls) if name != "models")
            return cls(models=models, **_table("sandbox", given.get("sandbox", {}), names))
        except InvalidValue as error:
            raise InvalidValue(f"the prices in {file}: {error}") from None

    def cost(
        self,
        usage: Mapping[str, float],
        tokens: Mapping[str, Tokens],
        other: Amount | None = None,
        *,
        paid: Mapping[str, Decimal] | None = None,
    ) -> Cost:
        """Return the cost of an invocation from its usage by the dimensions of `Budget`, and its tokens by model.

        `other` is money that its handler has charged, by default the `usd` of its usage. `paid` is what the handler has
        charged for the tokens of models, which are not priced again.
        """

        def line(price: Decimal, *names: str, unit: Decimal = Decimal(1)) -> Decimal:
            return _money(price, *(Decimal(str(usage.get(name, 0))) for name in names), unit)

        sandbox = {
            "cpu": line(self.cpu_second, "cpu_seconds"),
            "memory": line(self.gib_second, "memory_mib", "wall_seconds", unit=_MIB),
            "egress": line(self.egress_gib, "egress_bytes", unit=_BYTE),
            "storage": line(self.storage_gib, "storage_mib", unit=_MIB),
        }
        delegation = {model: _money(amount) for model, amount in (paid or {}).items()}
        unpriced = []
        for model, count in tokens.items():
            if model in delegation:
                continue
            if (price := self.models.get(model)) is None:
                unpriced.append(model)
                continue
            delegation[model] = price.of(count)
        if usage.get("tokens", 0) > sum(count.total for count in tokens.values()):
            unpriced.append(UNNAMED)
        return Cost(
            delegation=delegation,
            sandbox=sandbox,
            other=_money(Decimal(str(usage.get("usd", 0) if other is None else other))),
            unpriced=tuple(unpriced),
        )


def total(amounts: Iterable[Decimal]) -> Decimal:
    """Return the exact sum of amounts of money, whatever the precision of the decimal context."""
    return _EXACT.normalize(_sum(amounts))


def _money(*factors: Decimal) -> Decimal:
    """Return a product as an amount of money, rounded to twelve places."""
    return _EXACT.normalize(_EXACT.quantize(_product(*factors), _PLACES))


def _product(*factors: Decimal) -> Decimal:
    return functools.reduce(_EXACT.multiply, factors)


def _sum(amounts: Iterable[Decimal]) -> Decimal:
    return functools.reduce(_EXACT.add, amounts, _NOTHING)


def _price(name: str, given: object) -> Decimal:
    problem = InvalidValue(f"{name} is an amount of US dollars from 0 to {_MOST:,}, not {given!r}")
    if isinstance(given, bool) or not isinstance(given, Decimal | int | float | str):
        raise problem
    try:
        price = Decimal(str(given))
        is_price = 0 <= price <= _MOST  # raises for NaN
    except InvalidOperation:
        raise problem from None
    if not is_price:
        raise problem
    return price


def _names(of: type[Any]) -> tuple[str, ...]:
    return tuple(one.name for one in fields(of))


def _table(name: str, given: Any, known: tuple[str, ...] | None = None, needs: tuple[str, ...] = ()) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise InvalidValue(f"{name} is a table, not {given!r}")
    for key in given:
        if known is not None and key not in known:
            raise InvalidValue(f"{name} has no {key!r}; it has {', '.join(known)}")
    for key in needs:
        if key not in given:
            raise InvalidValue(f"{name} lacks {key!r}")
    return given
