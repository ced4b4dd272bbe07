"""Spans in the framework's form, where the framework makes none itself or does not see a failure."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from agent_framework import observability
from opentelemetry import trace

from actbox.tools import Tool

from .invocation import Invocation, current


def mark_failed(kind: str) -> None:
    """Mark the current span as failed, for a call that returns its failure as a result instead of raising."""
    span = trace.get_current_span()
    span.set_attribute(observability.OtelAttr.ERROR_TYPE, kind)
    span.set_status(trace.StatusCode.ERROR)


def traced(tool: Tool) -> Tool:
    """Return the tool with a span for each call, like the framework's spans for its own tools."""
    function = tool.function

    @functools.wraps(function)
    async def asynchronous(*args: Any, **kwargs: Any) -> Any:
        with _span(tool):
            return await function(*args, **kwargs)

    @functools.wraps(function)
    def synchronous(*args: Any, **kwargs: Any) -> Any:
        with _span(tool):
            return function(*args, **kwargs)

    wrapper: Callable[..., Any] = asynchronous if tool.is_async else synchronous
    return replace(tool, function=wrapper)


@contextmanager
def _span(tool: Tool) -> Iterator[None]:
    if not observability.OBSERVABILITY_SETTINGS.ENABLED:
        yield
        return
    call_id = (current.get() or Invocation()).next_call_id()
    attributes = {
        observability.OtelAttr.OPERATION.value: observability.OtelAttr.TOOL_EXECUTION_OPERATION.value,
        observability.OtelAttr.TOOL_NAME.value: tool.name,
        observability.OtelAttr.TOOL_CALL_ID.value: call_id,
        observability.OtelAttr.TOOL_TYPE.value: "function",
    }
    if tool.description:
        attributes[observability.OtelAttr.TOOL_DESCRIPTION.value] = tool.description
    with observability.get_function_span(attributes) as span:
        try:
            yield
        except Exception as error:
            observability.capture_exception(span, error)
            raise
