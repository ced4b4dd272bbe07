"""All sides of the comparison, taking turns, so that a busy minute of the machine falls on all of them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack

from . import codeact, traditional
from .attempts import Approach, Attempt, Side, open_side
from .endpoint import MODEL, serve
from .scripted import FAULTY_PROGRAM, PROGRAM, CodeActScript, OrdinaryScript, Script

ONE_A_TURN = f"{traditional.NAME}, one call a turn"
IN_PARALLEL = f"{traditional.NAME}, independent calls in parallel"
AT_ONCE = f"{codeact.NAME}, the first program is right"
MENDED = f"{codeact.NAME}, the first program fails"

SCRIPTED: Mapping[str, tuple[Approach, Script]] = {
    ONE_A_TURN: (traditional.agent, OrdinaryScript(at_most=1)),
    IN_PARALLEL: (traditional.agent, OrdinaryScript()),
    AT_ONCE: (codeact.agent, CodeActScript(PROGRAM)),
    MENDED: (codeact.agent, CodeActScript(FAULTY_PROGRAM, PROGRAM)),
}
WITH_A_MODEL: Mapping[str, Approach] = {traditional.NAME: traditional.agent, codeact.NAME: codeact.agent}

Attempts = Mapping[str, list[Attempt]]


async def scripted(runs: int) -> Attempts:
    """Have each script solve the task so many times. Raises `RuntimeError` where an answer is wrong."""
    from agent_framework_openai import OpenAIChatCompletionClient
    from openai import AsyncOpenAI

    async with AsyncExitStack() as stack:
        sides = {}
        for name, (approach, script) in SCRIPTED.items():
            endpoint = stack.enter_context(serve(script))
            asking = AsyncOpenAI(base_url=endpoint.base_url, api_key="none", max_retries=0)
            await stack.enter_async_context(asking)
            client = OpenAIChatCompletionClient(MODEL, async_client=asking)
            sides[name] = await stack.enter_async_context(open_side(approach, client, endpoint))
        for side in sides.values():  # what the first run alone has to load and to warm up is nobody's cost
            await side.attempt()
        attempts = await _in_turns(sides, runs)
    for name, found in attempts.items():
        if wrong := next((attempt.wrong for attempt in found if attempt.wrong), ""):
            raise RuntimeError(f"{name}: {wrong}")
    return attempts


async def with_model(model: str, runs: int) -> Attempts:
    """Have a model that OpenAI's client reaches (OPENAI_API_KEY, OPENAI_BASE_URL) try so many times on each side."""
    from agent_framework_openai import OpenAIChatCompletionClient
    from openai import AsyncOpenAI

    async with AsyncExitStack() as stack:
        asking = await stack.enter_async_context(AsyncOpenAI())
        client = OpenAIChatCompletionClient(model, async_client=asking)
        sides = {
            name: await stack.enter_async_context(open_side(approach, client))
            for name, approach in WITH_A_MODEL.items()
        }
        return await _in_turns(sides, runs)


async def _in_turns(sides: Mapping[str, Side], runs: int) -> Attempts:
    attempts: dict[str, list[Attempt]] = {name: [] for name in sides}
    for _ in range(runs):
        for name, side in sides.items():
            attempts[name].append(await side.attempt())
    return attempts
