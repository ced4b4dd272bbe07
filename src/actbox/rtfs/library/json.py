"""JSON text and values."""

from __future__ import annotations

from actbox.rtfs.budget import COPIED_PER_STEP, Meter
from actbox.rtfs.conversion import json_text, parse_json_text
from actbox.rtfs.values import Value, size_of

from .table import Table, expect_string

JSON = Table()


@JSON.metered("parse-json", "tool/parse-json", "tool.parse-json", least=1, shown="s")
def parse_json(meter: Meter, s: Value) -> Value:
    """The value of JSON text; objects become maps with string keys."""
    text = expect_string(s, "parse-json")
    meter.charge(len(text) // 4)
    return meter.made(parse_json_text(text))


@JSON.metered("serialize-json", "tool/serialize-json", "tool.serialize-json", least=1, shown="x")
def serialize_json(meter: Meter, x: Value) -> str:
    """The value as JSON text; keywords become strings."""
    meter.charge(size_of(x) // COPIED_PER_STEP)
    text = json_text(x)
    meter.made(text)
    return text


@JSON.metered("serialize-json-pretty", "tool/serialize-json-pretty", least=1, shown="x")
def serialize_json_pretty(meter: Meter, x: Value) -> str:
    """The value as JSON text of several lines."""
    meter.charge(size_of(x) // 8)
    text = json_text(x, pretty=True, most=meter.value_bytes)
    meter.made(text)
    return text
