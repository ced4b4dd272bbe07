"""Where a candidate's text comes from: its citations and its grounding, as annotations of the text.

Both stay whole in the message's `provider_data`; the annotations are made from there. The API counts bytes of UTF-8:
grounding within a part, citations within the whole of the text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from actbox.content.items import Annotation, CodeInterpreterResult, Content, JsonObject, TextContent
from actbox.content.messages import Message
from actbox.content.wire.values import integer_or_none, list_or_empty, object_or_empty, text_or_none

from .parts import NAME, camel, camel_or_none, marked


def with_annotations(message: Message) -> Message:
    """Return a message whose text has the annotations that its citations and its grounding come to.

    `read` does this. A stream has both only at its end, when the text has been handed on: use it on the whole message.
    """
    candidate = object_or_empty(message.provider_data.get(NAME, {}).get("candidate"))
    found = [*_citations(candidate, message.contents), *_grounding(candidate, message.contents)]
    if not found:
        return message
    contents = [
        item.model_copy(update={"annotations": (*_others(item), *(note for at, note in found if at == place))})
        for place, item in enumerate(message.contents)
    ]
    return message.model_copy(update={"contents": tuple(contents)})


def is_made(annotation: Annotation) -> bool:
    """Return whether an annotation was made from what is in the message's `provider_data`."""
    return "made_from" in annotation.provider_data.get(NAME, {})


def _others(item: Content) -> tuple[Annotation, ...]:
    return tuple(note for note in item.annotations if not is_made(note))


class _Span(NamedTuple):
    place: int
    start: int | None = None
    end: int | None = None


def _citations(candidate: Any, contents: tuple[Content, ...]) -> Iterator[tuple[int, Annotation]]:
    sources = list_or_empty(camel(object_or_empty(candidate.get("citationMetadata"))).get("citations"))
    for number, source in enumerate(sources):
        citation = camel_or_none(source) or {}
        start, end = integer_or_none(citation.get("startIndex")) or 0, integer_or_none(citation.get("endIndex"))
        span = _span_in_all(contents, start, end)
        if span is not None:
            yield span.place, _note(citation, span, "citations", number)


def _grounding(candidate: Any, contents: tuple[Content, ...]) -> Iterator[tuple[int, Annotation]]:
    metadata = camel(object_or_empty(candidate.get("groundingMetadata")))
    chunks = [_source_of(chunk) for chunk in list_or_empty(metadata.get("groundingChunks"))]
    for number, value in enumerate(list_or_empty(metadata.get("groundingSupports"))):
        support = camel_or_none(value) or {}
        span = _span_of(camel(object_or_empty(support.get("segment"))), contents)
        for place in list_or_empty(support.get("groundingChunkIndices")):
            index = integer_or_none(place)
            if span is not None and index is not None and 0 <= index < len(chunks):
                yield span.place, _note(chunks[index], span, "groundingSupports", number)


def _source_of(chunk: Any) -> JsonObject:
    """Return the one source in a chunk, whichever kind it is: web, retrievedContext, maps, image."""
    kinds = (camel_or_none(value) for value in object_or_empty(chunk).values())
    return next((kind for kind in kinds if kind is not None), {})


def _note(source: JsonObject, span: _Span, field: str, number: int) -> Annotation:
    return Annotation(
        title=text_or_none(source.get("title")),
        url=text_or_none(source.get("uri")),
        file_name=text_or_none(source.get("documentName")),
        snippet=text_or_none(source.get("text")),
        start=span.start,
        end=span.end,
        provider_data=marked(made_from=[field, number]),
    )


def _span_of(segment: JsonObject, contents: tuple[Content, ...]) -> _Span | None:
    """Return the stretch of text that a segment means. One that cannot be found is the whole of its part."""
    start, end = integer_or_none(segment.get("startIndex")) or 0, integer_or_none(segment.get("endIndex"))
    text = text_or_none(segment.get("text"))
    texts = [(place, item.text) for place, item in enumerate(contents) if isinstance(item, TextContent)]
    said = _place_of_part(contents, integer_or_none(segment.get("partIndex")) or 0)
    # The parts of a stream have been joined, so that neither the number nor the offset need be right.
    for place, whole in sorted(texts, key=lambda found: found[0] != said):
        span = _within(whole, start, end)
        if span is not None and (text is None or whole[span[0] : span[1]] == text):
            return _Span(place, *span)
    for place, whole in texts:
        if text and text in whole:
            at = whole.index(text)
            return _Span(place, at, at + len(text))
    places = [place for place, _ in texts]
    return _Span(said if said in places else places[0]) if places else None


def _span_in_all(contents: tuple[Content, ...], start: int, end: int | None) -> _Span | None:
    texts = [(place, item.text) for place, item in enumerate(contents) if isinstance(item, TextContent)]
    before = 0
    for place, whole in texts:
        size = len(_bytes(whole))
        if end is not None and before <= start < before + size:
            return _Span(place, *(_within(whole, start - before, min(end - before, size)) or ()))
        before += size
    return _Span(texts[0][0]) if texts else None


def _within(text: str, start: int, end: int | None) -> tuple[int, int] | None:
    data = _bytes(text)
    if end is None or not 0 <= start <= end <= len(data):
        return None
    return _length(data[:start]), _length(data[:end])


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _length(data: bytes) -> int:
    return len(data.decode("utf-8", "ignore"))


def _place_of_part(contents: tuple[Content, ...], part: int) -> int | None:
    """Return the place of the item of a part; a result of code has the parts of the files that follow it too."""
    number = 0
    for place, item in enumerate(contents):
        number += 1
        if isinstance(item, CodeInterpreterResult):
            number += sum(not isinstance(output, TextContent) and output.type != "error" for output in item.outputs)
        if part < number:
            return place
    return None


def citations_of(contents: tuple[Content, ...]) -> tuple[list[JsonObject], bool]:
    """Return the annotations of other formats as citations, and whether something in them could not be said."""
    citations: list[JsonObject] = []
    before, lost = 0, False
    for item in contents:
        if isinstance(item, TextContent):
            for note in _others(item):
                said = {"startIndex": note.start, "endIndex": note.end, "uri": note.url, "title": note.title}
                citation: JsonObject = {name: value for name, value in said.items() if value is not None}
                for name in ("startIndex", "endIndex"):
                    if isinstance(place := citation.get(name), int):
                        citation[name] = before + len(_bytes(item.text[:place]))
                lost = lost or None not in (note.file_id, note.snippet, note.file_name)
                citations.append(citation)
            before += len(_bytes(item.text))
        else:
            lost = lost or bool(item.annotations)
    return citations, lost
