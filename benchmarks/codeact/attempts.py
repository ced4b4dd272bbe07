"""One attempt at the task by an agent, and what it cost."""

from __future__ import annotations

import functools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from agent_framework import Agent, AgentResponse, ChatContext, ChatMiddleware, SupportsChatGetResponse
from pydantic import ValidationError

from .endpoint import Endpoint
from .task import QUESTION, TOOLS, what_is_wrong

Approach = Callable[
    [SupportsChatGetResponse[Any], Sequence[Callable[..., Any]], ChatMiddleware],
    AbstractAsyncContextManager[Agent[Any]],
]
"""How tools are offered: opens an agent over a chat client, the tools, and a middleware that is to see each call."""


@dataclass(frozen=True)
class Attempt:
    """What one attempt cost.

    A turn is a round of tool results that the model waited for. Tokens are the sums over all model calls, as the
    provider counts them. The largest request is the body of the longest one; `None` where nobody sees it.
    """

    wrong: str
    """How the answer differs from the right one; "" where it does not."""
    turns: int
    model_calls: int
    calls_by_model: int
    """Function calls that the model wrote."""
    tools_run: int
    """How often the five tools ran, whoever called them."""
    input_tokens: int
    output_tokens: int
    largest_request_bytes: int | None
    seconds: float
    seconds_without_model: float

    @property
    def tokens(self) -> int:
        """What was read and written."""
        return self.input_tokens + self.output_tokens


class Side:
    """An agent that can try again and again."""

    def __init__(self, agent: Agent[Any], watch: _Watch, tools: _Counted, endpoint: Endpoint | None) -> None:
        self._agent = agent
        self._watch = watch
        self._tools = tools
        self._endpoint = endpoint

    async def attempt(self) -> Attempt:
        """Put the question. A wrong answer is in what is returned; where the provider fails, its error is raised."""
        self._watch.calls, self._watch.seconds, self._tools.calls = 0, 0.0, 0
        seen = len(self._endpoint.exchanges) if self._endpoint else 0
        start = time.perf_counter()
        response = await self._agent.run(QUESTION)
        seconds = time.perf_counter() - start
        sent = [exchange.request_bytes for exchange in self._endpoint.exchanges[seen:]] if self._endpoint else []
        usage = response.usage_details or {}
        calls = [content for message in response.messages for content in message.contents if _is_call(content)]
        return Attempt(
            wrong=_wrong(response),
            turns=sum(any(map(_is_call, message.contents)) for message in response.messages),
            model_calls=self._watch.calls,
            calls_by_model=len(calls),
            tools_run=self._tools.calls,
            input_tokens=usage.get("input_token_count") or 0,
            output_tokens=usage.get("output_token_count") or 0,
            largest_request_bytes=max(sent, default=None),
            seconds=seconds,
            seconds_without_model=seconds - self._watch.seconds,
        )


@asynccontextmanager
async def open_side(
    approach: Approach, client: SupportsChatGetResponse[Any], endpoint: Endpoint | None = None
) -> AsyncIterator[Side]:
    """Open an agent; with an endpoint, which is the one that the client asks, its requests are seen as well."""
    watch, tools = _Watch(), _Counted(TOOLS)
    async with approach(client, tools.functions, watch) as agent:
        yield Side(agent, watch, tools, endpoint)


class _Watch(ChatMiddleware):
    """Counts model calls, and how long they take: from the client's side, with what it does to ask."""

    def __init__(self) -> None:
        self.calls = 0
        self.seconds = 0.0

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        self.calls += 1
        start = time.perf_counter()
        try:
            await call_next()
        finally:
            self.seconds += time.perf_counter() - start


class _Counted:
    """Functions that count how often they run."""

    def __init__(self, functions: Sequence[Callable[..., Any]]) -> None:
        self.calls = 0
        self.functions = [self._counting(function) for function in functions]

    def _counting(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def counting(*arguments: Any, **named: Any) -> Any:
            self.calls += 1
            return function(*arguments, **named)

        return counting


def _is_call(content: Any) -> bool:
    return bool(content.type == "function_call")


def _wrong(response: AgentResponse[Any]) -> str:
    try:
        answer = response.value
    except ValidationError as error:
        return f"the answer has another form: {error.error_count()} errors in {response.text[:200]!r}"
    return "there is no answer" if answer is None else what_is_wrong(answer)
