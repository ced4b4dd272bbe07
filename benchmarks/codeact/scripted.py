"""What a model would say, as a function of the request that it reads. No model is asked.

A script knows how the task is solved, but not its data: every identifier, amount and rate that it writes, it found in
the results that the request holds. One that finds no such result asks again, or raises.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from .counting import text_of


@dataclass(frozen=True)
class Call:
    """A function call that a model wants."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def written(self) -> str:
        """The arguments as the model writes them."""
        return json.dumps(self.arguments, ensure_ascii=False)


@dataclass(frozen=True)
class Reply:
    """What a model says: words, or calls."""

    text: str = ""
    calls: Sequence[Call] = ()


class Script(Protocol):
    """Plays a model."""

    def reply(self, request: Mapping[str, Any]) -> Reply:
        """Answer a request of the form of OpenAI's chat completions. Raises `LookupError` where it knows no answer."""
        ...


class OrdinaryScript:
    """Calls each tool that it needs, once, as soon as it knows the arguments: all at once, or so many a turn."""

    def __init__(self, at_most: int | None = None) -> None:
        self._at_most = at_most

    def reply(self, request: Mapping[str, Any]) -> Reply:
        known = _results(request["messages"])
        users = known.get(_key(Call("list_users")))
        if users is None:
            return Reply(calls=[Call("list_users")])
        lookups = [
            *(_orders(user) for user in users),
            *(Call("get_discount", {"tier": tier}) for tier in _each(users, "tier")),
            *(Call("get_tax_rate", {"country": country}) for country in _each(users, "country")),
        ]
        if missing := _missing(lookups, known):
            return Reply(calls=missing[: self._at_most])
        totals = [_total(user, known) for user in users]
        if missing := _missing(totals, known):
            return Reply(calls=missing[: self._at_most])
        bills = [
            {
                "name": user["name"],
                "orders": len(known[_key(_orders(user))]),
                "discount": known[_key(_discount(user))],
                "total": known[_key(total)],
            }
            for user, total in zip(users, totals, strict=True)
        ]
        return Reply(json.dumps({"users": bills}, ensure_ascii=False))


PROGRAM = """\
import json

users = []
for user in list_users():
    orders = get_orders(user_id=user["id"])
    discount = get_discount(tier=user["tier"])
    total = compute_total(
        amounts=[order["amount"] for order in orders],
        discount=discount,
        tax_rate=get_tax_rate(country=user["country"]),
    )
    users.append({"name": user["name"], "orders": len(orders), "discount": discount, "total": total})
print(json.dumps({"users": users}))
"""
FAULTY_PROGRAM = PROGRAM.replace('order["amount"]', 'order["total"]')
"""The program with a slip: it takes a field of the orders for another, and fails after three calls of tools."""


class CodeActScript:
    """Writes one program after the other, until one has printed the answer, and then says what that printed."""

    def __init__(self, *programs: str, tool_name: str = "execute_code") -> None:
        self._programs = programs
        self._tool_name = tool_name

    def reply(self, request: Mapping[str, Any]) -> Reply:
        results = [text_of(message) for message in request["messages"] if message["role"] == "tool"]
        if results and (answer := _answer_in(results[-1])):
            return Reply(answer)
        if len(results) == len(self._programs):
            raise LookupError(f"the last program gave no answer, but: {results[-1]}")
        return Reply(calls=[Call(self._tool_name, {"code": self._programs[len(results)]})])


def _answer_in(text: str) -> str:
    lines = (line for line in text.splitlines() if line.startswith('{"users": '))
    return next(lines, "")


def _results(messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what came of each call in a conversation. Raises `LookupError`, with its text, for one that failed."""
    asked: dict[str, str] = {}
    results: dict[str, Any] = {}
    for message in messages:
        for call in message.get("tool_calls") or ():
            asked[call["id"]] = _key(Call(call["function"]["name"], json.loads(call["function"]["arguments"])))
        if message["role"] == "tool":
            try:
                results[asked[message["tool_call_id"]]] = json.loads(text_of(message))
            except json.JSONDecodeError as error:
                raise LookupError(f"a tool gave no result, but: {text_of(message)}") from error
    return results


def _key(call: Call) -> str:
    return f"{call.name} {json.dumps(call.arguments, sort_keys=True)}"


def _missing(calls: Sequence[Call], known: Mapping[str, Any]) -> list[Call]:
    return [call for call in calls if _key(call) not in known]


def _each(users: Sequence[Mapping[str, Any]], name: str) -> list[str]:
    return list(dict.fromkeys(user[name] for user in users))


def _orders(user: Mapping[str, Any]) -> Call:
    return Call("get_orders", {"user_id": user["id"]})


def _discount(user: Mapping[str, Any]) -> Call:
    return Call("get_discount", {"tier": user["tier"]})


def _total(user: Mapping[str, Any], known: Mapping[str, Any]) -> Call:
    return Call(
        "compute_total",
        {
            "amounts": [order["amount"] for order in known[_key(_orders(user))]],
            "discount": known[_key(_discount(user))],
            "tax_rate": known[_key(Call("get_tax_rate", {"country": user["country"]}))],
        },
    )
