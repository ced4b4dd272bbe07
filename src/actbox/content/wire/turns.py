"""Messages with a role and content in blocks, and what formats do with messages all alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, TypeVar

from actbox.content.items import CodeInterpreterResult, Content, FunctionResult, JsonObject
from actbox.content.messages import Message, Update
from actbox.content.tools import HostedCodeInterpreterTool, HostedTool

from .format import Json
from .losses import Losses, Written
from .values import instant_or_none, rest_of, text_or_none

T = TypeVar("T")


def with_data(part: Any, name: str, /, **data: Json) -> Any:
    """Return a message or item that keeps more data for a format. Empty values are not kept."""
    more = {key: value for key, value in data.items() if value or value is False}
    ours = {**part.provider_data.get(name, {}), **more}
    return part.model_copy(update={"provider_data": {**part.provider_data, name: ours}}) if more else part


def note_unwritten(part: Any, names: Iterable[str], how: str, losses: Losses) -> None:
    """Note the fields of a message or an item that have a value, and no place."""
    what = "message" if isinstance(part, Message) else part.type
    for name in names:
        if getattr(part, name) is not None:
            losses.add(f"{what}.{name}", how)


def accepted_inputs(tool: HostedTool, how: str, losses: Losses, *kinds: type[T]) -> list[T]:
    """Return the inputs of a tool that are of some kinds, and note the others."""
    name = "code_interpreter" if isinstance(tool, HostedCodeInterpreterTool) else "file_search"
    for item in tool.inputs:
        if not isinstance(item, kinds):
            losses.add(f"{name}.inputs.{item.type}", how)
    return [item for item in tool.inputs if isinstance(item, kinds)]


def write_code_tools(
    tools: Iterable[HostedTool], write: Callable[[HostedCodeInterpreterTool, Losses], list[Json]]
) -> Written[list[Json]]:
    """Return what `write` makes of each tool that runs code, for a provider that has no other."""
    losses = Losses()
    written: list[Json] = []
    for tool in tools:
        if isinstance(tool, HostedCodeInterpreterTool):
            written += write(tool, losses)
        else:
            losses.add("file_search", "left out: there is no such tool")
    return losses.written(written)


class Stops:
    """A provider's words for why a model stopped, with ours: of two words for one of ours, the first is written."""

    def __init__(self, words: dict[str, str]) -> None:
        self._read = words
        self._written = {ours: theirs for theirs, ours in reversed(words.items())}

    def read(self, document: Mapping[str, Any], name: str) -> tuple[str | None, JsonObject]:
        """Return our word, and the other fields of a document; the field of this name too where our word says less."""
        stop = text_or_none(document.get(name))
        reason = None if stop is None else self._read.get(stop, stop)
        exact = stop is not None and self.write(reason) == stop
        return reason, rest_of(document, (name,) if exact else ())

    def write(self, finish_reason: str | None) -> str | None:
        """Return the provider's word."""
        return finish_reason and self._written.get(finish_reason, finish_reason)


def message_fields(document: Mapping[str, Any], **names: str) -> dict[str, Any]:
    """Return the fields of a message that a document has, by our names; `names` are the document's."""
    found = {
        ours: (instant_or_none if ours == "created_at" else text_or_none)(document.get(theirs))
        for ours, theirs in names.items()
    }
    return {name: value for name, value in found.items() if value is not None}


def scored(
    *, of_all: Callable[..., float] = max
) -> Callable[[Callable[[Mapping[str, Any]], float]], Callable[[Json], float]]:
    """Have a function that scores objects score lists too: as their likeliest one, or `of_all`, where each may be."""

    def decorate(score: Callable[[Mapping[str, Any]], float]) -> Callable[[Json], float]:
        def looks_like(document: Json) -> float:
            if not isinstance(document, list):
                return score(document) if isinstance(document, Mapping) else 0.0
            scores = [looks_like(one) for one in document]
            return of_all(scores, default=0.0) if all(scores) else 0.0

        return looks_like

    return decorate


def read_turns(
    documents: Iterable[Json],
    read_message: Callable[[Any], Message],
    message_of_blocks: Callable[[list[Json]], Message],
) -> list[Message]:
    """Return a message for each that there is, and one for the blocks that stand between two."""
    messages: list[Message] = []
    for are_messages, group in groupby(documents, key=is_message):
        run = list(group)
        messages += [read_message(one) for one in run] if are_messages else [message_of_blocks(run)]
    return messages


def read_request(
    request: Mapping[str, Any],
    name: str,
    read_list: Callable[[list[Json]], list[Message]],
    read_message: Callable[[Mapping[str, Any]], Message],
) -> list[Message]:
    """Return the messages of a request: its `system` as the first, with which its other fields are kept.

    Raises `ValueError` where there are none.
    """
    messages = read_list(request["messages"])
    if "system" in request:
        messages.insert(0, read_message({"role": "system", "content": request["system"]}))
    if not messages:
        raise ValueError(f"this request of {name} has no messages")
    return [with_data(messages[0], name, request=rest_of(request, ("messages", "system"))), *messages[1:]]


def updates_of(contents: Sequence[Content]) -> list[Update]:
    """Return the update with some items, none where there are none."""
    return [Update(contents=tuple(contents))] if contents else []


ROLES = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system", "tool": "user"}


def is_message(document: Json) -> bool:
    """Return whether this has a role and content."""
    return isinstance(document, Mapping) and isinstance(document.get("role"), str) and "content" in document


def are_results(contents: Sequence[Content]) -> bool:
    """Return whether there are results of tools, and nothing else."""
    return bool(contents) and all(isinstance(item, FunctionResult) for item in contents)


def role_of(message: Message, losses: Losses) -> str:
    """Return the role to write: what a provider's own tools returned is in the assistant's turn."""
    role = ROLES.get(message.role, "user")
    if message.role == "tool" and any(isinstance(item, CodeInterpreterResult) for item in message.contents):
        role = "assistant"
    if message.role not in ROLES or message.role == "developer":
        losses.add("message.role", f"{message.role} becomes {role}")
    return role
