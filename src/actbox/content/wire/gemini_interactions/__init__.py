"""Gemini's Interactions API: interactions, the steps of requests, and the events of streams.

https://ai.google.dev/api/interactions-api

`write` returns the steps that a request takes as its `input`. `read` also accepts interactions of the API's first
months, with `outputs` and turns that have roles, and converts them to steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actbox.content.items import Content, TextContent, UnknownContent
from actbox.content.messages import Message
from actbox.content.wire.blocks import type_of as kind_of
from actbox.content.wire.format import Format, Json
from actbox.content.wire.gemini.messages import ROLES
from actbox.content.wire.losses import Losses, Written
from actbox.content.wire.turns import note_unwritten, with_data
from actbox.content.wire.values import list_or_empty, object_or_empty, rest_of

from .blocks import BLOCKS, CONTENTS, NAME
from .stream import Reader, about_interaction, end_of_interaction, is_event

__all__ = ["FORMAT", "NAME", "Reader", "read", "write"]

_SAYS = {"user_input": "user", "model_output": "assistant"}
"""Steps that say something, and who does."""
_STEPS = frozenset({*_SAYS, "thought", "code_execution_call", "code_execution_result", "function_result"})
_OWN = ("previous_interaction_id", "generation_config", "system_instruction", "response_mime_type", "agent_config")


def read(document: Json) -> list[Message]:
    """Return the messages of an interaction, a request, a list of steps, contents or turns, or of one of these.

    Raises `ValueError` for what is none of them.
    """
    if isinstance(document, Mapping) and _is_interaction(document):
        return _read_interaction(document)
    if isinstance(document, Mapping) and "input" in document:
        messages = _read_input(document["input"])
        if isinstance(document.get("system_instruction"), str):
            system = TextContent(text=document["system_instruction"])
            messages.insert(0, Message(role="system", contents=(system,)))
        rest = rest_of(document, ("input", "system_instruction"))
        return [*messages[:-1], *(with_data(message, NAME, request=rest) for message in messages[-1:])]
    steps = document if isinstance(document, list) else [document]
    if _are_turns(steps):
        return [_read_turn(turn) for turn in steps]
    if not all(kind_of(step) for step in steps):
        raise ValueError("this is no interaction of Gemini's, and no step of one")
    return _read_steps(steps)


def _is_interaction(document: Mapping[str, Any]) -> bool:
    made = [document[name] for name in ("steps", "outputs") if isinstance(document.get(name), list)]
    return bool(made) and "status" in document and ("id" in document or document.get("object") == "interaction")


def _read_interaction(document: Mapping[str, Any]) -> list[Message]:
    """Return the messages of an interaction; what it says of itself is said of the model's last one."""
    before = _read_input(document["input"]) if "input" in document else []
    name = "steps" if isinstance(document.get("steps"), list) else "outputs"
    messages = _read_steps(document[name])
    about, (contents, finish_reason, rest) = about_interaction(document), end_of_interaction(document)
    if not messages or messages[-1].role != "assistant":
        messages.append(Message())
    last = messages[-1]
    said = {**about, "contents": (*last.contents, *contents), "finish_reason": finish_reason}
    messages[-1] = with_data(last.model_copy(update=said), NAME, interaction=rest)
    return [*before, *messages]


def _read_input(given: Json) -> list[Message]:
    if isinstance(given, str):
        return [Message(role="user", contents=(TextContent(text=given),))]
    listed = given if isinstance(given, list) else [given]
    if all(isinstance(one, Mapping) and "role" in one for one in listed):
        return [_read_turn(one) for one in listed]
    return _read_steps(
        [{"type": "user_input", "content": [one]} if kind_of(one) in CONTENTS else one for one in listed]
    )


def _read_turn(turn: Mapping[str, Any]) -> Message:
    role, content = str(turn["role"]), turn.get("content")
    items: Sequence[Content] = (
        (TextContent(text=content),) if isinstance(content, str) else BLOCKS.read_all(list_or_empty(content))
    )
    return Message(role=ROLES.get(role, role), contents=tuple(items))


def _read_steps(steps: Sequence[Json]) -> list[Message]:
    """Return the messages of some steps: what the user says, what tools return, and all that the model does between."""
    found: list[tuple[str, list[Content]]] = []
    before = ""
    for step in steps:
        kind = kind_of(step)
        role = _SAYS.get(kind) or ("tool" if kind == "function_result" else "assistant")
        items = _items_of(step, kind, follows=kind == before)
        if not found or found[-1][0] != role:
            found.append((role, []))
        found[-1][1].extend(items)
        before = kind
    return [Message(role=role, contents=tuple(items)) for role, items in found]


def _items_of(step: Json, kind: str, *, follows: bool) -> Sequence[Content]:
    if kind not in _SAYS:
        return BLOCKS.read_all([step])
    content = step.get("content")
    if not isinstance(content, list) or not content or not all(kind_of(part) in CONTENTS for part in content):
        return [UnknownContent(format=NAME, raw=dict(step))]
    first, *others = BLOCKS.read_all(content)
    rest = rest_of(step, ("type", "content"))
    if follows or rest:
        first = first.model_copy(
            update={"provider_data": {NAME: {**first.provider_data.get(NAME, {}), "begins": rest}}}
        )
    return [first, *others]


def write(messages: Sequence[Message]) -> Written[list[Json]]:
    """Return the steps of messages. What the system says becomes the user's: a request has it in another field."""
    losses = Losses()
    written: list[Json] = []
    for message in messages:
        unsaid = ("id", "author", "created_at", "model", "response_id", "finish_reason")
        note_unwritten(message, unsaid, "left out: a step has no place for it", losses)
        if {*message.provider_data.get(NAME, {})}:
            losses.add("message.provider_data", "left out: a step has no place for it")
        if message.role not in ("user", "assistant", "tool"):
            losses.add("message.role", f"{message.role} becomes user")
        written += _write_steps(message, losses)
    return losses.written(written)


def _write_steps(message: Message, losses: Losses) -> list[Json]:
    kind = "model_output" if message.role in ("assistant", "tool") else "user_input"
    steps: list[Json] = []
    said: list[Json] | None = None
    for item in message.contents:
        for block in BLOCKS.write_all([item], losses):
            if kind_of(block) not in CONTENTS:
                steps.append(block)
                said = None
                continue
            begins = item.provider_data.get(NAME, {}).get("begins")
            if said is None or isinstance(begins, dict):
                said = []
                steps.append({"type": kind, "content": said, **object_or_empty(begins)})
            said.append(block)
    return steps


def _looks_like(document: Json) -> float:
    if _has_turn_of_model(document):
        return 0.5
    if isinstance(document, list):
        kinds = [kind_of(step) for step in document]
        return 0.9 if kinds and all(kinds) and any(map(_is_own, document)) else 0.0
    if not isinstance(document, Mapping):
        return 0.0
    if _is_interaction(document):
        return 1.0 if document.get("object") == "interaction" or _is_of_interaction(document) else 0.0
    if "input" in document and ("model" in document or "agent" in document):
        given = document["input"]
        kinds = [kind_of(one) for one in given] if isinstance(given, list) else [kind_of(given)]
        if any(name in document for name in _OWN):
            return 0.95
        if _has_turn_of_model(given) or (_is_of_gemini(document) and _has_blocks(given)):
            return 0.9
        return 0.9 if kinds and all(kind in _STEPS | CONTENTS for kind in kinds) else 0.0
    return 0.9 if _is_own(document) else 0.0


def _are_turns(given: Sequence[Json]) -> bool:
    return bool(given) and all(map(_is_turn, given))


def _is_turn(one: Json) -> bool:
    """Return whether this is a turn of the API's first months: a role, and a text or a list of blocks."""
    if not isinstance(one, Mapping) or not isinstance(one.get("role"), str) or one["role"] not in ROLES:
        return False
    content = one.get("content")
    return isinstance(content, str) or (isinstance(content, list) and all(map(kind_of, content)))


def _has_turn_of_model(given: Json) -> bool:
    """Return whether these are turns, and one is of the role `model`, which OpenAI's Responses API does not have."""
    turns = given if isinstance(given, list) else [given]
    return _are_turns(turns) and any(turn["role"] == "model" for turn in turns)


def _has_blocks(given: Json) -> bool:
    """Return whether these are turns with blocks, whose kinds OpenAI's Responses API does not have."""
    turns = given if isinstance(given, list) else [given]
    if not _are_turns(turns):
        return False
    kinds = {kind_of(block) for turn in turns for block in list_or_empty(turn["content"])}
    return bool(kinds) and kinds <= _STEPS | CONTENTS


def _is_of_gemini(request: Mapping[str, Any]) -> bool:
    return "agent" in request or "gemini" in str(request.get("model"))


def _is_own(step: Json) -> bool:
    kind = kind_of(step)
    if kind in _SAYS:
        return isinstance(step.get("content"), list)
    return kind in _STEPS - {"thought"} and bool({"call_id", "arguments"} & step.keys())


def _is_of_interaction(document: Mapping[str, Any]) -> bool:
    made = [*list_or_empty(document.get("steps")), *list_or_empty(document.get("outputs"))]
    return any(kind_of(one) in _STEPS | CONTENTS for one in made)


FORMAT = Format(NAME, "Gemini Interactions", read, write, _looks_like, Reader, is_event)
