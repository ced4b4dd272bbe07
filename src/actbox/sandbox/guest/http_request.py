"""`http_request`, by which a program without sockets reaches the hosts that the policy allows."""

from __future__ import annotations

from .channel import HostChannel

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Optional, Union

_ERRORS = {kind.__name__: kind for kind in (OSError, PermissionError, TypeError, ValueError)}


def bind_http_request(channel: HostChannel, awaited: bool) -> Callable[..., Any]:
    """Return the function: a coroutine function for a program that uses `await`."""

    def http_request(
        url: str,
        method: str = "GET",
        headers: Optional[Dict[str, str]] = None,
        body: Optional[Union[str, bytes]] = None,
    ) -> Any:
        """Make a request; return its `status`, `headers`, `text` and `content`.

        Raises `PermissionError` for what is not allowed, and `OSError` for who cannot be reached.
        """
        arguments = {"url": url, "method": method, "headers": headers, "body": body}
        if awaited:
            return _awaited(channel, arguments)
        return _response(channel.call("http_request", arguments))

    http_request.__module__ = "__main__"
    http_request.__qualname__ = "http_request"
    return http_request


async def _awaited(channel: HostChannel, arguments: Dict[str, Any]) -> Dict[str, Any]:
    return _response(await channel.call_async("http_request", arguments))


def _response(answer: Dict[str, Any]) -> Dict[str, Any]:
    if "raises" in answer:
        raise _ERRORS[answer["raises"]](answer["message"])
    try:
        answer["text"] = answer["content"].decode(answer.pop("charset"), "replace")
    except (LookupError, ValueError):  # one that Python does not know
        answer["text"] = answer["content"].decode("utf-8", "replace")
    return answer
