"""Why the host ends runs, in the words that a model reads: the same for every engine."""

from __future__ import annotations

from actbox.core.counted import counted
from actbox.core.errors import ErrorKind
from actbox.core.limits import Limits

from .ending import Stop


def out_of_time(seconds: float) -> Stop:
    """The run's wall time is used up."""
    return Stop(
        ErrorKind.TIMEOUT,
        f"the program was stopped after {counted(float(seconds), 'second')}",
        "wall_seconds",
        "do less in one run, such as fewer items; where files are kept, save progress to one and go on there",
    )


def too_much_output(limits: Limits) -> Stop:
    """The program has printed more than it may."""
    most = limits.output_bytes
    return Stop(
        ErrorKind.OUTPUT_LIMIT,
        f"the program printed more than {most:,} bytes; the first {most:,} are kept",
        "output_bytes",
        "print a summary, or write what is long to a file below output/",
    )


def out_of_budget(limit: str, limits: Limits) -> Stop:
    """The run has used up its tool calls, or the bytes of their arguments and results."""
    if limit == "tool_calls":
        message = f"the run is out of tool calls: it made {limits.tool_calls:,}"
        hint = "call tools less often"
    else:
        message = f"the arguments and results of the run's tool calls came to more than {limits.tool_bytes:,} bytes"
        hint = "ask tools for less, and give them less"
    return Stop(ErrorKind.BUDGET, message, limit, hint)


def call_failed(error: BaseException) -> Stop:
    """A tool call could not be answered, by a fault of ours."""
    return Stop(ErrorKind.SANDBOX, f"a tool call could not be answered: {type(error).__name__}: {error}")
