"""Calls with effects are made once, however many attempts make them."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from dataclasses import InitVar, dataclass
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from actbox import Policy, Sandbox, ToolError, tool
from actbox.capabilities import Capability, CapabilityTools, Registry
from actbox.codegen.effects import EffectLog, NeedsEffect
from actbox.core.call_log import ToolCallRecord
from actbox.core.events import NetworkRequest
from actbox.core.labels import Label
from actbox.sandbox.taint import Taint, call_taint
from actbox.tools import Tool, Toolset


class Shop:
    """A host with effects, each of which it writes down."""

    def __init__(self) -> None:
        self.orders: list[Any] = []

    def order(self, item: str, count: float = 1) -> dict[str, Any]:
        """Order something."""
        self.orders.append((item, count))
        if item == "nothing":
            raise ValueError("sold out")
        return {"number": len(self.orders), "item": item}


async def called(tools: Toolset, name: str, **arguments: Any) -> Any:
    found = tools.get(name)
    assert found is not None
    return await found.call(arguments)


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
def log(shop: Shop) -> EffectLog:
    return EffectLog([shop.order])


async def test_a_later_attempt_gets_the_recorded_result(shop: Shop, log: EffectLog) -> None:
    first = await called(log.attempt().tools, "order", item="tea")
    first["number"] = "changed by its receiver"
    later = log.attempt().tools
    again = await called(later, "order", item="tea")
    again["item"] = "changed, too"
    assert await called(log.attempt().tools, "order", item="tea") == {"number": 1, "item": "tea"}
    assert await called(later, "order", item="coffee") == {"number": 2, "item": "coffee"}
    assert shop.orders == [("tea", 1), ("coffee", 1)]


async def test_equal_calls_of_one_attempt_are_different_calls(shop: Shop, log: EffectLog) -> None:
    numbers = []
    for calls in (2, 3, 1):
        tools = log.attempt().tools
        numbers.append([(await called(tools, "order", item="tea"))["number"] for _ in range(calls)])
    assert numbers == [[1, 2], [1, 2, 3], [1]]
    assert len(shop.orders) == 3


@pytest.mark.parametrize(
    "arguments", [{"item": "tea", "count": 1}, {"item": "tea", "count": 1.0}, {"count": "1", "item": "tea"}]
)
async def test_arguments_that_mean_the_same_make_the_same_call(
    shop: Shop, log: EffectLog, arguments: dict[str, Any]
) -> None:
    await called(log.attempt().tools, "order", item="tea")
    await called(log.attempt().tools, "order", **arguments)
    assert len(shop.orders) == 1


async def test_calls_are_the_same_with_and_without_an_approval(shop: Shop, log: EffectLog) -> None:
    await called(log.attempt().tools, "order", item="tea")
    asked = log.attempt().tools.get("order")
    assert asked is not None
    prepared = asked.prepare({"item": "tea"})
    assert prepared.shown() == {"item": "tea", "count": 1}
    assert await prepared.make() == {"number": 1, "item": "tea"}
    assert len(shop.orders) == 1


async def test_what_an_argument_hides_tells_calls_apart() -> None:
    seen: list[str] = []

    def log_in(password: SecretStr) -> int:
        seen.append(password.get_secret_value())
        return len(seen)

    log = EffectLog([log_in])
    for password in ("a", "b", "a"):
        await called(log.attempt().tools, "log_in", password=password)
    assert seen == ["a", "b"]
    assert "'a'" not in str(log.happened)


@dataclass
class Login:
    """An argument with a part that nothing keeps, so that it cannot be shown."""

    user: str
    password: InitVar[str]

    def __post_init__(self, password: str) -> None:
        self.length = len(password)


async def test_arguments_that_cannot_be_shown_are_compared_as_the_program_gave_them() -> None:
    seen: list[int] = []

    def log_in(login: Login) -> int:
        seen.append(login.length)
        return len(seen)

    log = EffectLog([log_in])
    for password in ("a", "bb", "a"):
        await called(log.attempt().tools, "log_in", login={"user": "ann", "password": password})
    assert seen == [1, 2]


async def test_results_that_are_not_json_come_again() -> None:
    def due(days: set[int]) -> dict[str, Any]:
        return {"on": date(2024, 1, max(days)), "raw": b"\x00", "all": days}

    log = EffectLog([due])
    first = await called(log.attempt().tools, "due", days={1, 2})
    assert await called(log.attempt().tools, "due", days={2, 1}) == first
    assert len(log.calls) == 1


async def test_a_call_that_failed_is_not_made_again_and_says_so(shop: Shop, log: EffectLog) -> None:
    with pytest.raises(ToolError, match=r"^ValueError: sold out$"):
        await called(log.attempt().tools, "order", item="nothing")
    with pytest.raises(
        ToolError, match=r"sold out .so this call ended in an earlier attempt: it is not made a second"
    ) as again:
        await called(log.attempt().tools, "order", item="nothing")
    assert again.value.builtin == "ValueError"
    assert len(shop.orders) == 1


async def test_a_call_with_wrong_arguments_has_had_no_effect(shop: Shop, log: EffectLog) -> None:
    with pytest.raises(ToolError):
        await called(log.attempt().tools, "order", amount=1)
    assert (log.calls, shop.orders) == ((), [])


async def test_a_call_that_was_cut_off_may_have_taken_effect_and_is_not_made_again() -> None:
    begun = asyncio.Event()

    async def pay() -> None:
        begun.set()
        await asyncio.Event().wait()

    log = EffectLog([pay])
    running = asyncio.create_task(called(log.attempt().tools, "pay"))
    await begun.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    with pytest.raises(ToolError, match="cut off in an earlier attempt, and may have taken effect"):
        await called(log.attempt().tools, "pay")
    assert log.happened == ("pay() → was cut off, and may or may not have taken effect",)


async def test_a_tool_that_is_safe_to_repeat_is_called_each_time() -> None:
    times: list[int] = []

    @tool(retry_safe=True)
    def now() -> int:
        times.append(0)
        return len(times)

    log = EffectLog([now, Tool.from_function(now, name="later")])
    for number in (1, 2):
        tools = log.attempt().tools
        assert await called(tools, "now") == 2 * number - 1
        assert await called(tools, "later") == 2 * number
    assert log.happened == ()


async def test_a_candidate_has_no_effects_of_its_own(shop: Shop, log: EffectLog) -> None:
    await called(log.attempt().tools, "order", item="tea")
    candidate, other = log.attempt(holds_back=True), log.attempt(holds_back=True)
    for tools in (candidate.tools, other.tools):
        assert await called(tools, "order", item="tea") == {"number": 1, "item": "tea"}
    assert not candidate.needed
    with pytest.raises(NeedsEffect, match="'order' has effects"):
        await called(candidate.tools, "order", item="milk")
    assert candidate.needed == ('order({"item": "milk", "count": 1})',)
    assert (len(other.needed), len(shop.orders)) == (0, 1)
    await called(log.attempt().tools, "order", item="milk")
    assert len(shop.orders) == 2


async def test_nobody_is_asked_about_a_call_that_is_held_back(shop: Shop) -> None:
    tools = [Tool.from_function(shop.order, approval="always_require")]
    tools.append(Tool.from_function(tools[0], name="look", retry_safe=True))
    log = EffectLog(tools)
    assert log.attempt().tools.requiring == ("order", "look")
    assert log.attempt(holds_back=True).tools.requiring == ("look",)


async def test_the_log_lists_calls_and_requests_for_a_model(log: EffectLog) -> None:
    tools = log.attempt().tools
    await called(tools, "order", item="te\na")
    with pytest.raises(ToolError):
        await called(tools, "order", item="nothing")
    for method, decision in (("GET", "allowed"), ("POST", "allowed"), ("POST", "refused"), ("POST", "allowed")):
        log.feed(NetworkRequest("api.example", 443, method, "/orders", decision, status=201))  # type: ignore[arg-type]
    assert log.happened == (
        'order({"item": "te\\na", "count": 1}) → returned',
        'order({"item": "nothing", "count": 1}) → failed: ValueError: sold out',
        "POST api.example:443/orders → 201, 2 times; it is sent again if a program sends it again",
    )
    assert [type(call) for call in log.calls] == [ToolCallRecord, ToolCallRecord]


def test_a_candidate_is_not_told_what_another_has_sent(log: EffectLog) -> None:
    for candidate, path in ((1, "/ann"), (2, "/bob")):
        log.feed(NetworkRequest("example.com", 443, "POST", path, "allowed"), candidate)
    assert len(log.happened) == 2
    assert [line.partition(";")[0] for line in log.happened_for(2)] == ["POST example.com:443/bob"]


async def test_a_long_list_is_bounded(log: EffectLog) -> None:
    tools = log.attempt().tools
    for number in range(40):
        await called(tools, "order", item=str(number))
    assert len(log.happened) == 31
    assert log.happened[-1] == "and 10 further calls"


async def test_a_recorded_result_has_the_label_that_its_call_had() -> None:
    async def customers() -> str:
        taint = call_taint.get()
        assert taint is not None
        taint.raise_to(Label("pii"))
        return "ann"

    log = EffectLog([customers])
    for _ in range(2):
        taint = Taint(Policy())
        call_taint.set(taint)
        assert await called(log.attempt().tools, "customers") == "ann"
        assert taint.label == Label("pii")


async def test_capabilities_without_outside_effects_are_safe_to_repeat() -> None:
    registry = Registry()
    for name, more in (("kit.add", {"effects": ["compute"]}), ("kit.send", {"effects": ["network"]}), ("kit.put", {})):
        registry.register(Capability(name, "", "[:map]", True, handler=_handler, **more))  # type: ignore[arg-type]
    registry.register(
        Capability("kit.upsert", "", "[:map]", True, effects=["state"], retry_safe=True, handler=_handler)
    )
    safe = {tool.name: tool.retry_safe for tool in CapabilityTools(registry)}
    assert safe == {"kit_add": True, "kit_send": False, "kit_put": True, "kit_upsert": True}


async def _handler(call: Any) -> int:
    return 1


async def test_a_program_that_is_corrected_does_not_repeat_what_the_first_one_did(
    box: Sandbox, shop: Shop, log: EffectLog
) -> None:
    failing = await box.run("n = order('tea')['number']\nn / 0", tools=log.attempt().tools)
    assert failing.error is not None
    mended = await box.run("n = order(item='tea', count=1)['number']\nn / 2", tools=log.attempt().tools)
    assert mended.value == 0.5
    assert shop.orders == [("tea", 1)]


# The property


_CALL = st.tuples(st.sampled_from(["tea", "milk", "nothing"]), st.integers(1, 2))


@given(st.lists(st.tuples(st.booleans(), st.lists(_CALL, max_size=5)), max_size=5))
def test_no_call_has_a_second_effect(attempts: list[tuple[bool, list[tuple[str, int]]]]) -> None:
    async def all_attempts() -> Shop:
        shop = Shop()
        log = EffectLog([shop.order])
        for holds_back, calls in attempts:
            tools = log.attempt(holds_back=holds_back).tools
            for item, count in calls:
                with contextlib.suppress(ToolError):
                    await called(tools, "order", item=item, count=count)
        return shop

    shop = asyncio.run(all_attempts())
    wanted: Counter[tuple[str, float]] = Counter()
    for holds_back, calls in attempts:
        if not holds_back:
            wanted |= Counter(calls)  # the most that one attempt has made of each
    assert Counter(shop.orders) == wanted
