"""`on_event`: a callback that receives the events of programs while they run."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from actbox.core.errors import InvalidValue
from actbox.core.events import Event

_log = logging.getLogger("actbox")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramEvent:
    """An event of a program that a model has sent: printed output, a tool call, a question, or the result at its end.

    `scope` names the program's owner: with Agent Framework it is the session's id. `call_id` identifies the call of
    `execute_code`; `program` is the source.
    """

    scope: str
    call_id: str
    program: str = field(repr=False)
    event: Event


OnEvent = Callable[[ProgramEvent], Awaitable[object] | object]
"""A function, sync or async, that is called with each event, in order, in the event loop of the run.

The program's next event waits until the function has returned. An exception is logged, and the program goes on.
"""


def checked_on_event(given: OnEvent | None) -> OnEvent | None:
    """Return the callback. Raises `InvalidValue` for an object that is not callable."""
    if given is not None and not callable(given):
        raise InvalidValue(f"on_event is a function of one ProgramEvent, not {type(given).__name__}")
    return given


async def notify(on_event: OnEvent, event: ProgramEvent) -> None:
    """Call the callback with an event, and log what it raises."""
    try:
        answer = on_event(event)
        if inspect.isawaitable(answer):
            await answer
    except Exception:  # an exception of the callback must not end the program
        _log.exception("on_event failed at the event %s", type(event.event).__name__)
