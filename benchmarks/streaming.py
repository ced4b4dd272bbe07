"""What it takes to put the pieces of a stream together: a million pieces of one call of code, one by one.

The peer puts together what it was given as a whole, at the end; ours has the message at any time.
"""

from __future__ import annotations

import time

from effort import Effort
from figures import Figure, Missing, Row, Target, figure
from peers import reason_of

from actbox.content import CodeInterpreterCall, MessageBuilder, TextContent, Update, code_content

_CHUNKS = 1_000_000
_PEER_CHUNKS = 20_000
_MOST_SECONDS = 2
_LINE = "x = 1\n"


async def measure(effort: Effort) -> list[Row]:
    """Measure a million pieces of code, and of text; each sample is one whole stream."""
    code = Update(contents=(CodeInterpreterCall(call_id="call", inputs=(code_content(_LINE),)),))
    text = Update(contents=(TextContent(text=_LINE),))
    repeats = max(effort.repeats // 4, 1)
    target = Target(p50=_MOST_SECONDS)
    peer = _peer(repeats)
    return [
        Row("a million pieces of one call of code", "s", figure(_seconds(code) for _ in range(repeats)), target, peer),
        Row("a million pieces of text", "s", figure(_seconds(text) for _ in range(repeats)), target),
    ]


def _seconds(update: Update) -> float:
    builder = MessageBuilder()
    feed = builder.feed
    start = time.perf_counter()
    for _ in range(_CHUNKS):
        feed(update)
    (item,) = builder.message.contents
    seconds = time.perf_counter() - start
    whole = item.code if isinstance(item, CodeInterpreterCall) else item.text  # type: ignore[union-attr]
    if len(whole) != _CHUNKS * len(_LINE):
        raise RuntimeError(f"of {_CHUNKS} pieces {len(whole)} characters came together")
    return seconds


def _peer(repeats: int) -> dict[str, Figure | Missing]:
    """Return what the peer takes for fewer pieces, reckoned up to a million."""
    name = "Agent Framework"
    try:
        from agent_framework import ChatResponse, ChatResponseUpdate, Content
    except ImportError as error:
        return {name: Missing(reason_of(error))}
    samples = []
    for _ in range(repeats):
        updates = [
            ChatResponseUpdate(
                contents=[Content.from_code_interpreter_tool_call(call_id="call", inputs=[Content.from_text(_LINE)])],
                role="assistant",
                message_id="message",
            )
            for _ in range(_PEER_CHUNKS)
        ]
        start = time.perf_counter()
        response = ChatResponse.from_updates(updates)
        samples.append((time.perf_counter() - start) * _CHUNKS / _PEER_CHUNKS)
        if len(response.messages[0].contents) != 1:
            raise RuntimeError("the peer did not put the pieces together")
    return {name: figure(samples)}
