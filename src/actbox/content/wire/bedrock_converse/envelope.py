"""What a response says beside its message: why the model stopped, and what it used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from actbox.content.items import JsonObject, UsageContent
from actbox.content.wire.reading import integer_or_none, kept, rest_of, text_or_none

from .code import NAME

_STOPS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool_calls",
    "content_filtered": "content_filter",
    "guardrail_intervened": "content_filter",
}
_STOPS_WRITTEN = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "content_filtered",
}
_COUNTS = {"input_tokens": "inputTokens", "output_tokens": "outputTokens", "total_tokens": "totalTokens"}


def read_stop(document: Mapping[str, Any]) -> tuple[str | None, JsonObject]:
    """Return why the model stopped, and the other fields; the provider's word with them where ours says less."""
    stop = text_or_none(document.get("stopReason"))
    finish_reason = None if stop is None else _STOPS.get(stop, stop)
    exact = stop is not None and write_stop(finish_reason) == stop
    return finish_reason, rest_of(document, ("stopReason",) if exact else ())


def write_stop(finish_reason: str | None) -> str | None:
    """Return the reason to stop in the provider's words."""
    return finish_reason and _STOPS_WRITTEN.get(finish_reason, finish_reason)


def read_usage(usage: Mapping[str, Any]) -> UsageContent:
    """Return the counts of a response."""
    numbers = {name: number for name, value in usage.items() if (number := integer_or_none(value)) is not None}
    tokens = [numbers.get(name) for name in _COUNTS.values()]
    return UsageContent(
        input_tokens=tokens[0],
        output_tokens=tokens[1],
        total_tokens=tokens[2],
        counts={name: number for name, number in numbers.items() if name not in _COUNTS.values()},
        provider_data=kept(NAME, rest_of(usage, numbers)),
    )


def write_usage(item: UsageContent) -> JsonObject:
    """Return counts as a response has them; all three are always there."""
    given, made = item.input_tokens or 0, item.output_tokens or 0
    total = item.total_tokens if item.total_tokens is not None else given + made
    counts: JsonObject = {"inputTokens": given, "outputTokens": made, "totalTokens": total}
    return {**counts, **item.counts, **item.provider_data.get(NAME, {})}
