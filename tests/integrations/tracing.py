"""Spans of this process, for tests that read them: a process has one provider, which nothing can replace."""

from __future__ import annotations

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


def kept_spans() -> InMemorySpanExporter:
    """Return where all spans are kept that end from now on.

    The provider may be one that a server of another test has set, and shut down when it ended.
    """
    provider = trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):
        provider = TracerProvider()
        trace.set_tracer_provider(provider)
    exporter = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return exporter


def named(spans: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    """Return the spans of a tool's calls."""
    return [span for span in spans.get_finished_spans() if span.name == f"execute_tool {name}"]


def parent_of(span: ReadableSpan) -> int:
    """Return the id of the span that a span is below."""
    assert span.parent is not None
    return span.parent.span_id
