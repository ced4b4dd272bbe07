"""The task: a shop with eight users, five functions over it, a question, and the right answer, worked out apart."""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from pydantic import BaseModel, ConfigDict
from typing_extensions import TypedDict

INSTRUCTIONS = "You answer questions about a shop. All that you know of it comes from your tools."

QUESTION = """\
For each user: how many orders they have made, the discount of their tier as a fraction, and the total of all their
orders in euros, after that discount and with the tax of their country, as compute_total gives it. List the users in the
order of list_users."""


class User(TypedDict):
    """Somebody who buys."""

    id: int
    name: str
    tier: str
    country: str


class Order(TypedDict):
    """What somebody bought at once."""

    id: int
    amount: float


class Bill(BaseModel):
    """What one user comes to."""

    model_config = ConfigDict(extra="forbid")

    name: str
    orders: int
    discount: float
    total: float


class Answer(BaseModel):
    """The form that the answer has to have."""

    model_config = ConfigDict(extra="forbid")

    users: list[Bill]


_USERS: tuple[User, ...] = (
    {"id": 101, "name": "Amara Okafor", "tier": "gold", "country": "DE"},
    {"id": 102, "name": "Bruno Keller", "tier": "silver", "country": "AT"},
    {"id": 103, "name": "Chiara Conti", "tier": "bronze", "country": "IT"},
    {"id": 104, "name": "Diego Ramos", "tier": "gold", "country": "ES"},
    {"id": 105, "name": "Elif Yilmaz", "tier": "bronze", "country": "DE"},
    {"id": 106, "name": "Farid Haddad", "tier": "silver", "country": "ES"},
    {"id": 107, "name": "Greta Lund", "tier": "bronze", "country": "AT"},
    {"id": 108, "name": "Hana Novak", "tier": "gold", "country": "IT"},
)
_AMOUNTS: dict[int, tuple[float, ...]] = {
    101: (129.99, 45.5, 310.0),
    102: (18.75, 99.9),
    103: (249.0,),
    104: (72.35, 15.2, 64.8, 210.4),
    105: (33.3, 58.6),
    106: (480.0, 12.95, 27.1),
    107: (5.99,),
    108: (150.25, 89.9),
}
_DISCOUNTS = {"gold": 0.15, "silver": 0.1, "bronze": 0.05}
_TAXES = {"DE": 0.19, "AT": 0.2, "IT": 0.22, "ES": 0.21}


def list_users() -> list[User]:
    """List all users of the shop."""
    return list(_USERS)


def get_orders(user_id: int) -> list[Order]:
    """List the orders of a user, with amounts in euros before discount and tax."""
    return [{"id": 10 * user_id + number, "amount": amount} for number, amount in enumerate(_AMOUNTS[user_id])]


def get_discount(tier: str) -> float:
    """Return the discount of a tier, as a fraction."""
    return _DISCOUNTS[tier]


def get_tax_rate(country: str) -> float:
    """Return the tax rate of a country, as a fraction."""
    return _TAXES[country]


def compute_total(amounts: list[float], discount: float, tax_rate: float) -> float:
    """Return what amounts come to after a discount and with tax, in euros, rounded to cents."""
    return round(sum(amounts) * (1 - discount) * (1 + tax_rate), 2)


TOOLS: tuple[Callable[..., Any], ...] = (list_users, get_orders, get_discount, get_tax_rate, compute_total)


def right_answer() -> Answer:
    """Return the answer, from the data itself and in exact arithmetic: none of the tools has a part in it."""
    bills = []
    for user in _USERS:
        discount, tax = Decimal(str(_DISCOUNTS[user["tier"]])), Decimal(str(_TAXES[user["country"]]))
        amounts = [Decimal(str(amount)) for amount in _AMOUNTS[user["id"]]]
        total = (sum(amounts, Decimal()) * (1 - discount) * (1 + tax)).quantize(Decimal("0.01"), ROUND_HALF_UP)
        bills.append(Bill(name=user["name"], orders=len(amounts), discount=float(discount), total=float(total)))
    return Answer(users=bills)


def what_is_wrong(answer: Answer) -> str:
    """Return how an answer differs from the right one, "" where it does not. A total may be off by half a cent."""
    right = right_answer().users
    if [bill.name for bill in answer.users] != [bill.name for bill in right]:
        return f"the users are {', '.join(bill.name for bill in answer.users) or 'none'}"
    for found, wanted in zip(answer.users, right, strict=True):
        if found.orders != wanted.orders:
            return f"{found.name} has {wanted.orders} orders, not {found.orders}"
        if abs(found.discount - wanted.discount) > 1e-9:
            return f"the discount of {found.name} is {wanted.discount}, not {found.discount}"
        if abs(found.total - wanted.total) > 0.005:
            return f"the total of {found.name} is {wanted.total}, not {found.total}"
    return ""
