"""`Format`: a provider's format, which is found by name or by its looks and converted into another; and its streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from actbox.content.items import UnknownContent
from actbox.content.messages import Message, Update
from actbox.content.tools import HostedTool

from .losses import Loss, Written

Json = Any
"""A value as `json.loads` returns it."""


class StreamReader(Protocol):
    """Reads the events of one stream, in their order."""

    def feed(self, event: Mapping[str, Json]) -> list[Update]:
        """Return what an event adds. One that is not known becomes an update that keeps it."""
        ...


@dataclass(frozen=True, slots=True)
class Format:
    """One provider's format.

    `read` takes what the provider's API returns, or a list of messages as it is sent there, and never fails for a field
    or a kind of item that it does not know: it keeps them. `write` returns a list of messages as the API takes them; it
    says what it could not say. `looks_like` tells whether a document may be of this format, from 0 (not at all) to 1.
    """

    name: str
    title: str
    read: Callable[[Json], list[Message]]
    write: Callable[[Sequence[Message]], Written[list[Json]]]
    looks_like: Callable[[Json], float]
    stream: Callable[[], StreamReader] | None = None
    is_event: Callable[[Json], bool] | None = None
    """Whether an object is an event of this format's streams."""
    write_tools: Callable[[Sequence[HostedTool]], Written[list[Json]]] | None = None
    only_names: Callable[[Message], bool] | None = None
    """Whether a message only says that there is another message, so that a transcript can do without it."""
    read_only: bool = False
    """Whether the service is no more, so that `write` only raises `ValueError`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "write", partial(_written, self.name, self.write))


def _written(
    name: str, write: Callable[[Sequence[Message]], Written[list[Json]]], messages: Sequence[Message]
) -> Written[list[Json]]:
    """Write messages, and note the fields that only formats other than this one have."""
    written = write(messages)
    others = {other for message in messages for other in message.provider_data} - {name}
    if not others or name == "actbox":  # which keeps everything
        return written
    lost = (Loss("message.provider_data", f"left out: only {other} has these fields") for other in sorted(others))
    return Written(written.document, (*written.losses, *lost))


class EventReader:
    """A base of stream readers. What is no event of the format, or malformed, is kept as an unknown item."""

    format: str
    """The name of the format."""

    def feed(self, event: Json) -> list[Update]:
        """Return what an event adds. One that is not known becomes an update that keeps it."""
        found = self._read(event) if isinstance(event, Mapping) else None
        return [self._unknown(UnknownContent(format=self.format, raw=event))] if found is None else found

    def _read(self, event: Mapping[str, Any]) -> list[Update] | None:
        """Return what an event adds, `None` where it is none of this format, or not as it should be."""
        raise NotImplementedError

    def _unknown(self, item: UnknownContent) -> Update:
        """Return the update that keeps an event."""
        return Update(contents=(item,))
