"""Items, messages and updates as hypothesis makes them up: every kind, with every field."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import strategies as st

from actbox.content.items import (
    Annotation,
    CodeInterpreterCall,
    CodeInterpreterResult,
    Content,
    DataContent,
    ErrorContent,
    FunctionCall,
    FunctionResult,
    HostedFileContent,
    HostedVectorStoreContent,
    ReasoningContent,
    TextContent,
    UnknownContent,
    UriContent,
    UsageContent,
)
from actbox.content.messages import Message

# JSON text has no lone surrogates.
texts = st.text(st.characters(codec="utf-8"), max_size=30)
words = st.text("abcdefghijklmnopqrstuvwxyz_-0123456789", min_size=1, max_size=12)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
json_objects = st.dictionaries(words, json_values, max_size=3)
media_types = st.sampled_from(["text/x-python", "text/plain", "text/csv", "image/png", "application/json"])
instants = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))

annotations = st.builds(
    Annotation,
    kind=words,
    title=st.none() | texts,
    url=st.none() | texts,
    file_id=st.none() | words,
    start=st.none() | st.integers(0, 100),
    end=st.none() | st.integers(0, 100),
)
_common = {
    "annotations": st.just(()) | st.lists(annotations, min_size=1, max_size=2).map(tuple),
    "provider_data": st.just({}) | st.dictionaries(words, json_objects, max_size=2),
}
text_items = st.builds(TextContent, text=texts, stream=st.sampled_from([None, "stdout", "stderr"]), **_common)
data_items = st.builds(
    DataContent, media_type=media_types, data=st.binary(max_size=40), name=st.none() | words, **_common
)
file_items = st.builds(
    HostedFileContent,
    file_id=words,
    media_type=st.none() | media_types,
    name=st.none() | words,
    size_bytes=st.none() | st.integers(0, 2**40),
    created_at=st.none() | instants,
    purpose=st.none() | words,
    container_id=st.none() | words,
    **_common,
)
plain_items: st.SearchStrategy[Content] = st.one_of(
    text_items,
    data_items,
    file_items,
    st.builds(ReasoningContent, text=texts, protected_data=st.none() | texts, **_common),
    st.builds(UriContent, uri=texts, media_type=st.none() | media_types, name=st.none() | words, **_common),
    st.builds(HostedVectorStoreContent, vector_store_id=words, **_common),
    st.builds(ErrorContent, message=texts, code=st.none() | words, details=st.none() | texts, **_common),
    st.builds(FunctionCall, call_id=words, name=words, arguments=json_objects | texts, **_common),
    st.builds(
        UsageContent,
        input_tokens=st.none() | st.integers(0, 10**6),
        output_tokens=st.none() | st.integers(0, 10**6),
        counts=st.dictionaries(words, st.integers(0, 100), max_size=2),
        **_common,
    ),
    st.builds(UnknownContent, format=words, raw=json_values, **_common),
)
some_plain_items = st.lists(plain_items, max_size=4).map(tuple)
items: st.SearchStrategy[Content] = st.one_of(
    plain_items,
    st.builds(FunctionResult, call_id=words, outputs=some_plain_items, is_error=st.booleans(), **_common),
    st.builds(CodeInterpreterCall, call_id=words, inputs=some_plain_items, status=st.none() | words, **_common),
    st.builds(
        CodeInterpreterResult,
        call_id=words,
        outputs=some_plain_items,
        exit_code=st.none() | st.integers(-1, 255),
        outcome=st.none() | st.sampled_from(["ok", "failed", "timeout", "new"]),
        **_common,
    ),
)
messages = st.builds(
    Message,
    role=st.sampled_from(["user", "assistant", "system", "tool"]),
    contents=st.lists(items, max_size=5).map(tuple),
    author=st.none() | words,
    id=st.none() | words,
    model=st.none() | words,
    created_at=st.none() | instants,
    finish_reason=st.none() | words,
)
