"""Messages whose content is a list of blocks, and what the formats that have such messages share.

A block comes back as it was: one whose item would be written differently (a truncated picture, a field of another type)
is kept whole, as an unknown item. A block of text right after another is marked with its place, so that the two are not
joined where items are put together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Generic, TypeVar

from actbox.content.items import Content, TextContent, UnknownContent
from actbox.content.messages import Message

from .format import Json
from .reading import kept, rest_of
from .written import Losses

LossesT = TypeVar("LossesT", bound=Losses)

NOTHING = object()
"""What is written of an item that has no place among blocks."""


@dataclass(frozen=True, slots=True)
class Blocks(Generic[LossesT]):
    """How the blocks of a format are read and written.

    `kind_of` returns the kind of a block, "" where it says none; those of the `joined` kinds would be joined with one
    of their kind before them. `read` returns the item of a block, `None` where it is not known. `write` returns the
    block of an item, or `NOTHING`; it is told whether that is to be within the result of a tool. `losses` makes what
    notes losses.
    """

    name: str
    joined: tuple[str, ...]
    kind_of: Callable[[Json], str]
    read: Callable[[Json], Content | None]
    write: Callable[[Content, LossesT, bool], Any]
    losses: Callable[[], LossesT]

    def read_all(self, blocks: Sequence[Json]) -> tuple[Content, ...]:
        """Return the items of a message's blocks."""
        items: list[Content] = []
        before = ""
        for place, block in enumerate(blocks):
            kind = self.kind_of(block)
            items.append(self.read_one(block, place if kind == before and kind in self.joined else None))
            before = kind
        return tuple(items)

    def read_one(self, block: Json, place: int | None = None) -> Content:
        """Return the item of one block. `place` marks it as following a block of its kind."""
        item = self.read(block)
        if item is None or self._write_one(item, self.losses(), inside=False) != block:
            return UnknownContent(format=self.name, raw=block)
        if place is None:
            return item
        ours = {**item.provider_data.get(self.name, {}), "block": place}
        return item.model_copy(update={"provider_data": {self.name: ours}})

    def write_all(self, items: Iterable[Content], losses: LossesT, *, inside: bool = False) -> list[Json]:
        """Return the blocks of those items that have a place. `inside`: within the result of a tool."""
        blocks = (self._write_one(item, losses, inside=inside) for item in items)
        return [block for block in blocks if block is not NOTHING]

    def _write_one(self, item: Content, losses: LossesT, *, inside: bool) -> Any:
        block = self.write(item, losses, inside)
        if getattr(item, "status", None) is not None:
            losses.add(f"{item.type}.status", "left out")
        if item.annotations and not isinstance(item, TextContent):
            losses.add(f"{item.type}.annotations", "left out")
        return block


def read_turns(
    documents: Iterable[Json],
    is_message: Callable[[Json], bool],
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
    rest = rest_of(request, ("messages", "system"))
    if "system" in request:
        messages.insert(0, read_message({"role": "system", "content": request["system"]}))
    if not messages:
        raise ValueError(f"this request of {name} has no messages")
    ours = messages[0].provider_data.get(name, {})
    provider_data = kept(name, {**ours, **({"request": rest} if rest else {})})
    return [messages[0].model_copy(update={"provider_data": provider_data}), *messages[1:]]
