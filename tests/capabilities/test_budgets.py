"""Budgets and accounts: what is reserved, settled and refused."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actbox.capabilities.budgets import Account, Budget, BudgetExceeded, Warned
from actbox.core.errors import InvalidValue


@pytest.mark.parametrize("value", [-1, math.nan, math.inf, True, "1", -0.5])
def test_what_is_no_amount_is_refused(value: Any) -> None:
    with pytest.raises(InvalidValue, match=r"Budget\.usd"):
        Budget(usd=value)


def test_no_dimension_hides_another() -> None:
    account = Account(Budget(tool_calls=5, usd=1.0, tokens=100))
    with pytest.raises(BudgetExceeded) as refused:
        account.reserve(Budget(tool_calls=6, usd=2.0, tokens=50))
    assert {one.dimension for one in refused.value.lacks} == {"tool_calls", "usd"}
    assert account.left == Budget(tool_calls=5, usd=1.0, tokens=100)


def test_zero_is_nothing_and_none_is_no_limit() -> None:
    account = Account(Budget(egress_bytes=0))
    account.reserve(Budget(steps=10**9))
    with pytest.raises(BudgetExceeded, match="egress_bytes: 1 asked for, 0 of 0 left"):
        account.reserve(Budget(egress_bytes=1))


def test_what_was_not_used_comes_back() -> None:
    account = Account(Budget(wall_seconds=30))
    first = account.reserve(Budget(wall_seconds=30))
    with pytest.raises(BudgetExceeded):
        account.reserve(Budget(wall_seconds=0.1))
    first.settle({"wall_seconds": 0.5})
    first.settle({"wall_seconds": 9})
    assert account.used["wall_seconds"] == 0.5 and account.left == Budget(wall_seconds=29.5)
    account.reserve(Budget(wall_seconds=29.5)).release()
    assert account.left == Budget(wall_seconds=29.5)


def test_memory_is_a_peak() -> None:
    account = Account(Budget(memory_mib=512))
    one, other = account.reserve(Budget(memory_mib=512)), account.reserve(Budget(memory_mib=400))
    one.settle({"memory_mib": 500})
    other.settle({"memory_mib": 300})
    assert account.used["memory_mib"] == 500
    with pytest.raises(BudgetExceeded):
        account.reserve(Budget(memory_mib=513))


def test_a_child_draws_on_its_parent() -> None:
    parent = Account(Budget(tool_calls=10, usd=1))
    parent.reserve(Budget(tool_calls=4)).settle({"tool_calls": 4})
    with pytest.raises(InvalidValue, match="tool_calls=7 is above the 6"):
        Account(Budget(tool_calls=7), parent)
    one, other = Account(Budget(tool_calls=6), parent), Account(Budget(), parent)
    one.reserve(Budget(tool_calls=5)).settle({"tool_calls": 5})
    assert other.left == Budget(tool_calls=1, usd=1)
    with pytest.raises(BudgetExceeded, match="tool_calls: 2 asked for, 1 of 10 left"):
        other.reserve(Budget(tool_calls=2))


def test_each_threshold_warns_once() -> None:
    heard: list[Warned] = []
    account = Account(Budget(tokens=100), on_warning=heard.append)
    for _ in range(9):
        account.reserve(Budget(tokens=10)).settle({"tokens": 10})
    assert [(one.share, one.used) for one in heard] == [(0.5, 50), (0.8, 80)]


def test_what_was_agreed_to_extends_the_account_but_not_its_parent() -> None:
    parent = Account(Budget(usd=2))
    child = Account(Budget(usd=1), parent, on_limit="ask")
    child.extend(Budget(usd=5), {"usd": 4})
    assert child.left == Budget(usd=2)


def test_no_limit_is_raised_by_more_than_was_agreed_to() -> None:
    account = Account(Budget(usd=0.3, tokens=10), on_limit="ask")
    with pytest.raises(BudgetExceeded) as refused:
        account.reserve(Budget(usd=1, tokens=10))
    agreed = {one.dimension: one.lacking for one in refused.value.lacks}
    assert agreed == {"usd": 0.7}
    account.reserve(Budget(usd=0.3, tokens=10))  # while somebody was asked
    account.extend(Budget(usd=1, tokens=10), agreed)
    assert account.left == Budget(usd=0.7, tokens=0)


def test_a_late_charge_counts_and_sets_nothing_aside_for_ever() -> None:
    account = Account(Budget(usd=10))
    mine = account.reserve(Budget(usd=1))
    mine.settle({"usd": 1})
    for _ in range(2):
        with pytest.raises(InvalidValue, match="has ended"):
            mine.grow({"usd": 3})
    assert account.used["usd"] == 3 and account.left == Budget(usd=7)


def test_a_callback_that_fails_keeps_nothing_from_being_settled() -> None:
    account = Account(Budget(usd=1), on_warning=lambda warned: 1 / 0)
    assert len(account.reserve(Budget(usd=1)).settle({"usd": 1})) == 2
    assert account.used["usd"] == 1


def test_the_largest_amounts_are_still_numbers() -> None:
    with pytest.raises(InvalidValue, match="tokens"):
        Budget(tokens=10**5000)
    account = Account(Budget())
    for _ in range(3):
        account.reserve(Budget()).settle({"usd": 1.7e308, "tokens": 0.5})
    assert account.used["usd"] > 10**308


def test_ten_times_a_tenth_is_one() -> None:
    account = Account(Budget(usd=1))
    for _ in range(10):
        account.reserve(Budget(usd=0.1))
    assert account.left == Budget(usd=0)


def test_what_goes_beyond_the_worst_case_is_set_aside_too_or_refused() -> None:
    account = Account(Budget(tokens=10, memory_mib=100))
    mine, other = account.reserve(Budget(tokens=4)), account.reserve(Budget(tokens=4))
    mine.grow({"tokens": 6, "memory_mib": 100})
    assert account.left == Budget(tokens=0, memory_mib=100)
    with pytest.raises(BudgetExceeded, match="tokens: 1 asked for, 0 of 10 left; memory_mib: 101 asked for"):
        mine.grow({"tokens": 7, "memory_mib": 101})
    mine.settle({"tokens": 6})
    other.release()
    assert account.left == Budget(tokens=4, memory_mib=100)


@given(st.lists(st.tuples(st.integers(0, 5), st.floats(0, 1)), max_size=30), st.integers(0, 40))
def test_children_at_once_never_overspend(asked: list[tuple[int, float]], limit: int) -> None:
    parent = Account(Budget(tool_calls=limit, usd=limit / 10))
    children = [Account(Budget(), parent) for _ in range(3)]

    def invoke(number: int) -> tuple[int, float]:
        calls, usd = asked[number]
        try:
            held = children[number % 3].reserve(Budget(tool_calls=calls, usd=usd))
        except BudgetExceeded:
            return 0, 0.0
        held.settle({"tool_calls": calls, "usd": usd})
        return calls, usd

    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(invoke, range(len(asked))))
    assert parent.used["tool_calls"] == sum(calls for calls, _ in done) <= limit
    assert parent.used["usd"] <= limit / 10
    assert sum(child.used["tool_calls"] for child in children) == parent.used["tool_calls"]


def test_an_account_that_has_overspent_reserves_nothing_more() -> None:
    account = Account(Budget(tokens=10))
    account.reserve(Budget(steps=1)).settle({"tokens": 11})
    with pytest.raises(BudgetExceeded, match="tokens: more than the limit of 10 is used"):
        account.reserve(Budget(steps=1))
    asking = Account(Budget(tokens=10), on_limit="ask")
    asking.reserve(Budget()).settle({"tokens": 11})
    with pytest.raises(BudgetExceeded) as refused:
        asking.reserve(Budget(steps=1))
    asking.extend(Budget(steps=1), {one.dimension: one.lacking for one in refused.value.lacks})
    asking.reserve(Budget(steps=1))


def test_numbers_of_numpy_are_amounts() -> None:
    account = Account(Budget(usd=1))
    account.reserve(Budget()).settle({"usd": np.float64(0.1)})
    assert account.left == Budget(usd=0.9)
