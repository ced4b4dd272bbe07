"""What every provider's format can do, so that one can be found by name or by its looks, and converted into another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from actbox.content.messages import Message, Update
from actbox.content.tools import HostedTool

from .written import Written

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
