"""Formats whose items are nearly ours under other names: blocks whose tables are of the fields of messages, too.

What such a format has no field for goes into its additional properties, as an object named `actbox`, and is found there
again. All fields of ours are written; a field that a document did not have is none that is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from actbox.content.items import Annotation, Content, Item, JsonObject, UnknownContent
from actbox.content.messages import Message, Update

from .blocks import ABSENT, At, Blocks, Kind, Notes, difference, unusual
from .format import Json
from .losses import Losses, ReadBack, Written
from .turns import with_data
from .values import kept, object_or_empty, rest_of, text_or_none

OURS = "actbox"
"""The name, among additional properties, of what only we have fields for."""
_NEVER_EXTRA = frozenset({"type", "provider_data", "annotations", "contents"})


def kind(name: str, item: type[Item], *fields: At) -> Kind:
    """Return a kind of items, which may have annotations."""
    return Kind(name, item, (*fields, Notes("annotations", "annotations", optional=True)), inside=True)


@dataclass(frozen=True, kw_only=True)
class Dictionaries(Blocks):
    """What a format calls everything: its items, and the fields of what they are in.

    `message`, `update`, `annotation` and `used` (the counts of a response) have tables of their own. `response` has the
    fields of a response beside its messages, as fields of a message. `update` and `response` leave out the kind of
    object that they are, which is one of `wrappers`. With `always`, additional properties are written even if empty.
    """

    annotation: Kind
    message: Kind
    response: Kind
    update: Kind
    used: Kind
    additional: str = "additional_properties"
    always: bool = False
    usage: str = "usage"
    """The field of a response with its usage."""
    wrappers: tuple[str, ...] = ()
    repeats: Mapping[str, str] = field(default_factory=dict)
    """Fields that say again what another one does: what they say is only kept where that one is not there."""
    earlier: Mapping[str, Callable[[Mapping[str, Any]], JsonObject]] = field(default_factory=dict)
    """Kinds of theirs that have another form by now, and how to get it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "read_note", self._read_annotation)
        object.__setattr__(self, "write_note", self._write_annotation)

    def read_one(
        self, block: Json, place: int | None = None, *, inside: bool = False, back: ReadBack | None = None
    ) -> Content:
        """Return an item, `UnknownContent` where it is none that is known, or nested too deeply."""
        earlier = self.earlier.get(self.kind_of(block))
        block = block if earlier is None else earlier(block)
        try:
            return super().read_one(block, place, inside=inside, back=back)
        except RecursionError:
            return UnknownContent(format=self.name, raw=block)

    def read_message(self, raw: Json, place: str) -> Message:
        """Return a message. Raises `ValueError` with its place for what is none."""
        if not isinstance(raw, Mapping):
            raise ValueError(f"{place} is no message but {type(raw).__name__}")
        message: Message | None = self.read_part(self.message, raw)
        if message is None:
            raise ValueError(f"{place} cannot be read as a message")
        return message

    def read_response(self, raw: Mapping[str, Any]) -> list[Message]:
        """Return the messages of a response; what it says of itself is said of its last one, and its ids of each."""
        listed = raw.get("messages")
        documents = listed if isinstance(listed, list) else [listed] if isinstance(listed, Mapping) else []
        messages = [self.read_message(message, f"message {number}") for number, message in enumerate(documents, 1)]
        usage = self._by_table(self.used, {self.used.fields[0].path: raw.get(self.usage)})
        used = isinstance(raw.get(self.usage), Mapping)
        about = self._about(raw, ("messages", self.additional, *([self.usage] if used else [])))
        said = self.read_part(self.response, about) or Message()
        messages = messages or [Message()]
        ids = {name: getattr(said, name) for name in ("response_id", "model") if getattr(said, name) is not None}
        messages = [message.model_copy(update=ids) for message in messages]
        last = messages[-1]
        changes: dict[str, Any] = {
            name: getattr(said, name)
            for name in ("created_at", "finish_reason", "author")
            if getattr(last, name) is None and getattr(said, name) is not None
        }
        if used:
            changes["contents"] = (*last.contents, usage)
        rest = rest_of(said.provider_data.get(self.name, {}), (self.additional,))
        if raw.get(self.additional):
            rest[self.additional] = raw[self.additional]
        messages[-1] = with_data(last.model_copy(update=changes), self.name, response=rest)
        return messages

    def read_update(self, raw: Mapping[str, Any]) -> Update:
        """Return an update; what it says of the response and no field of ours stands for is kept as the response's."""
        update: Update | None = self.read_part(self.update, self._about(raw, ()))
        if update is None:
            return Update(contents=(UnknownContent(format=self.name, raw=dict(raw)),))
        rest = update.provider_data.get(self.name, {})
        response = rest_of(rest, (self.additional,))
        data: JsonObject = {"response": response} if response else {}
        if rest.get(self.additional) is not None:
            data[self.additional] = rest[self.additional]
        return update.model_copy(update={"provider_data": kept(self.name, data)})

    def write(self, messages: Sequence[Message]) -> Written[list[Json]]:
        """Return a list of messages. Only items that are not known here are lost: they become text."""
        losses = Losses()
        return losses.written([self.write_message(message, losses) for message in messages])

    def write_message(self, message: Message, losses: Losses) -> JsonObject:
        """Return a message; what was kept of its response has no place in it."""
        data = {name: rest_of(ours, ("response",)) for name, ours in message.provider_data.items()}
        return self.write_part(self.message, message.model_copy(update={"provider_data": data}), losses)

    def _about(self, raw: Mapping[str, Any], known: tuple[str, ...]) -> JsonObject:
        is_wrapper = raw.get(self.typed) in self.wrappers
        return rest_of(raw, (*known, *([self.typed] if is_wrapper else [])))

    def _rest(self, block: Mapping[str, Any], written: Mapping[str, Any]) -> JsonObject:
        again = (name for name, other in self.repeats.items() if other in block)
        return rest_of(difference(block, written), (ABSENT, *again))

    def _made(self, kind: Kind, values: dict[str, Any], block: Mapping[str, Any]) -> Any:
        """Return a part of what the block and its additional properties say of it, or of the block alone."""
        ours = object_or_empty(object_or_empty(block.get(self.additional)).get(OURS))
        names = kind.item.model_fields.keys() - values.keys() - _NEVER_EXTRA
        extra = {name: value for name, value in ours.items() if name in names}
        for more in (extra, {}):
            try:
                return kind.item(**values, **more)
            except ValidationError:
                continue
        return None

    def _write_remaining(self, kind: Kind, part: Any, block: JsonObject, said: set[str], losses: Any) -> None:
        """Put what has no field among the additional properties."""
        names = {name for name in unusual(part) if name not in said | _NEVER_EXTRA}
        extra = part.model_dump(mode="json", include=names) if names else {}
        if extra or self.always:
            block[self.additional] = {OURS: extra} if extra else {}

    def _read_annotation(self, raw: Json) -> Annotation:
        is_object = isinstance(raw, Mapping)
        found: Annotation | None = self.read_part(self.annotation, raw) if is_object else None
        if found is None:
            return Annotation(kind="unknown", provider_data={self.name: {"raw": raw}})
        kind = object_or_empty(raw).get(self.typed, "citation")
        said = rest_of(found.provider_data.get(self.name, {}), (self.typed,))
        if kind == "citation":
            return found.model_copy(update={"provider_data": kept(self.name, said)})
        word = text_or_none(kind) or "citation"
        return found.model_copy(update={"kind": word, "provider_data": {self.name: {**said, self.typed: kind}}})

    def _write_annotation(self, note: Annotation, text: str, losses: Losses) -> Json:
        ours = note.provider_data.get(self.name, {})
        if "raw" in ours and note.kind == "unknown":
            return ours["raw"]
        plain = note.model_copy(update={"kind": "citation"}) if self.typed in ours else note
        document = self.write_part(self.annotation, plain, losses)
        if self.always and not document.get(self.additional):
            document.pop(self.additional, None)
        return {self.typed: "citation", **document}
