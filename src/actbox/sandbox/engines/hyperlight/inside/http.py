"""`http_request`: the program's way to the hosts that the policy allows. The host makes the request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....guest.wire import MessageTooLong
from .channel import HostChannel

NAME = "http_request"
_RAISED = {error.__name__: error for error in (TypeError, ValueError, PermissionError, OSError)}
_MARK = "_actbox_network"


def bind_request(channel: HostChannel) -> Callable[..., Any]:
    """Return the function that programs get."""

    def http_request(*args: Any, **kwargs: Any) -> Any:
        """Make a request; return a dict of status, headers, text and content."""
        try:
            answer = channel.ask({"t": "request", "args": list(args), "kwargs": kwargs})
        except MessageTooLong as error:
            raise ValueError("the request is too large: %s" % error) from None
        if "raised" in answer:
            raised = _RAISED[answer["raised"]](answer["text"])
            setattr(raised, _MARK, isinstance(raised, OSError))
            raise raised
        return answer["value"]

    http_request.__qualname__ = NAME
    http_request.__module__ = "__main__"
    return http_request


def is_of_network(error: BaseException) -> bool:
    """Return whether a request that was refused, or went wrong, is what an exception is about."""
    return getattr(error, _MARK, False) is True
