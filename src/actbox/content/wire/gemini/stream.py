"""Streams of `streamGenerateContent`: each chunk is a response whose parts come after those of the chunks before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from actbox.content.items import JsonObject, UsageContent
from actbox.content.messages import Update
from actbox.content.wire.format import EventReader, Json
from actbox.content.wire.values import list_or_empty, text_or_none

from .messages import (
    candidate_data,
    candidate_fields,
    index_of,
    is_failure,
    is_response,
    message_id,
    parts_of,
    prefix_of,
    read_failure,
    response_data,
    usage_of,
)
from .parts import NAME, PartsReader, camel, camel_or_none, marked


class Reader(EventReader):
    """Reads the chunks of a stream; another response id begins another response.

    Every candidate's updates have its message id. The counts in chunks are running totals; what was added is handed on
    once all candidates have finished, and until then the last totals are in the updates' `provider_data`. Of other
    fields that several chunks have the last word counts, but citations add up.
    """

    format = NAME

    def __init__(self) -> None:
        self._begin(None)

    def _begin(self, response_id: str | None) -> None:
        self._response_id = response_id
        self._candidates: dict[int, _Candidate] = {}
        self._response: JsonObject = {}
        self._handed_on = UsageContent()

    def _read(self, event: Mapping[str, Any]) -> list[Update] | None:
        """Return what a chunk adds, an update for each candidate."""
        if is_failure(event):
            return [Update(contents=(read_failure(event),))]
        if not is_response(event):
            return None
        chunk = camel(event)
        response_id = text_or_none(chunk.get("responseId"))
        if response_id and self._response_id and response_id != self._response_id:
            self._begin(response_id)
        self._response_id = response_id or self._response_id
        self._response |= chunk
        updates = [
            self._candidate(camel_or_none(candidate), candidate, place)
            for place, candidate in enumerate(list_or_empty(chunk.get("candidates")))
        ]
        usage = self._usage()
        if usage is not None or not updates:
            first = min(self._candidates, default=0)
            updates.append(self._update({}, first, contents=() if usage is None else (usage,)))
        return updates

    def _candidate(self, fields: JsonObject | None, raw: Json, place: int) -> Update:
        index = index_of(fields or {}, place)
        candidate = self._candidates.setdefault(index, _Candidate(index))
        return self._update(candidate.take(fields or {}), index, contents=candidate.read(fields, raw))

    def _update(self, fields: JsonObject, index: int, contents: tuple[Any, ...]) -> Update:
        candidate = self._candidates.get(index)
        is_first = index == min(self._candidates, default=0)
        marks = marked(
            candidate=candidate.said if candidate is not None else {},
            response=response_data(self._response) if is_first else {},
        )
        said = candidate_fields(self._response, fields)
        name = message_id(self._response, index)
        return Update(role="assistant", contents=contents, message_id=name, provider_data=marks, **said)

    def _usage(self) -> UsageContent | None:
        now = usage_of(self._response)
        if now is None or not all(candidate.finished for candidate in self._candidates.values()):
            return None
        before, self._handed_on = self._handed_on, now
        if before == now:
            return None
        return UsageContent(
            input_tokens=_added(now.input_tokens, before.input_tokens),
            output_tokens=_added(now.output_tokens, before.output_tokens),
            total_tokens=_added(now.total_tokens, before.total_tokens),
            counts={name: count - before.counts.get(name, 0) for name, count in now.counts.items()},
        )


class _Candidate:
    def __init__(self, index: int) -> None:
        self._parts = PartsReader(prefix_of(index))
        self.said: JsonObject = {}
        self.finished = False

    def take(self, fields: JsonObject) -> JsonObject:
        new = candidate_data(fields)
        if "citationMetadata" in new and "citationMetadata" in self.said:
            new["citationMetadata"] = _joined(self.said["citationMetadata"], new["citationMetadata"])
        self.said = {**self.said, **new}
        self.finished = self.finished or "finishReason" in fields
        return fields

    def read(self, fields: JsonObject | None, raw: Json) -> tuple[Any, ...]:
        parts = [raw] if fields is None else parts_of(fields)
        return tuple(self._parts.read(part)[0] for part in parts)


def _joined(before: Any, after: Any) -> Any:
    """Return the citations of both; those that come again are said once."""
    first, second = camel_or_none(before) or {}, camel_or_none(after) or {}
    known = list_or_empty(first.get("citations"))
    new = [citation for citation in list_or_empty(second.get("citations")) if citation not in known]
    return {**first, **second, "citations": [*known, *new]}


def _added(now: int | None, before: int | None) -> int | None:
    return None if now is None else now - (before or 0)
