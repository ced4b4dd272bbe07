"""Cases about a limit of time give a program as much as it needs, up to a bound."""

from __future__ import annotations

import pytest

from actbox.testing.cases.ground import Cases


class _Kit(Cases):
    seconds_for_a_case = 40.0


@pytest.mark.parametrize(("needed", "tried"), [(0.1, [1, 2]), (3, [1, 2, 4]), (1e9, [1, 2, 4, 8, 10])])
async def test_an_attempt_that_had_too_little_time_is_followed_by_one_with_more(
    needed: float, tried: list[float]
) -> None:
    made: list[float] = []

    async def attempt(seconds: float) -> float:
        made.append(seconds)
        return seconds

    came = await _Kit().with_enough_time(attempt, lambda seconds: seconds > max(1, needed))
    assert (came, made) == (tried[-1], tried)
