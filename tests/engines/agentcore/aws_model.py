"""The wire of a REST-JSON service of AWS, checked both ways against botocore's own model of it.

Whatever the model does not know, or knows as another type, is an error: in a request of the client's a
`ValidationException`, in an answer of this fake's a failed test.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import struct
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit
from zlib import crc32

import botocore.session
from botocore.model import OperationModel, ServiceModel, Shape

MODEL: ServiceModel = botocore.session.Session().get_service_model("bedrock-agentcore")
OPERATIONS = (
    "StartCodeInterpreterSession",
    "InvokeCodeInterpreter",
    "StopCodeInterpreterSession",
    "GetCodeInterpreterSession",
    "ListCodeInterpreterSessions",
)


class Invalid(Exception):
    """Something is not as the model has it."""


def checked(shape: Shape, value: Any, place: str = "") -> Any:
    """Return a value of plain Python (blobs as bytes, times as `datetime`) if it is as the model has it."""
    kind = shape.type_name
    bounds = shape.metadata
    if kind == "structure":
        _is(value, dict, place)
        if unknown := set(value) - set(shape.members):
            raise Invalid(f"{place}: no member {min(unknown)!r} in {shape.name}")
        if missing := set(shape.required_members) - set(value):
            raise Invalid(f"{place}: {min(missing)!r} is missing in {shape.name}")
        return {name: checked(shape.members[name], item, f"{place}.{name}") for name, item in value.items()}
    if kind == "list":
        _is(value, list, place)
        return [checked(shape.member, item, f"{place}[{index}]") for index, item in enumerate(value)]
    types = {"string": str, "blob": bytes, "boolean": bool, "timestamp": datetime, "double": (int, float)}
    _is(value, types.get(kind, int), place)
    if isinstance(value, bool) is not (kind == "boolean"):
        raise Invalid(f"{place}: {value!r} is no {kind}")
    measured = len(value) if kind in ("string", "blob") else value
    is_bounded = kind in ("string", "blob", "integer", "long", "double")
    if is_bounded and not bounds.get("min", measured) <= measured <= bounds.get("max", measured):
        raise Invalid(f"{place}: {measured} is not within {bounds}")
    if kind == "string":
        if shape.enum and value not in shape.enum:
            raise Invalid(f"{place}: {value!r} is none of {shape.enum}")
        if "pattern" in bounds and not re.fullmatch(bounds["pattern"], value):
            raise Invalid(f"{place}: {value!r} is not like {bounds['pattern']}")
    return value


def _is(value: Any, types: Any, place: str) -> None:
    if not isinstance(value, types):
        raise Invalid(f"{place}: {type(value).__name__} in place of {types}")


def _to_json(shape: Shape, value: Any) -> Any:
    if shape.type_name == "structure":
        return {shape.members[n].serialization.get("name", n): _to_json(shape.members[n], v) for n, v in value.items()}
    if shape.type_name == "list":
        return [_to_json(shape.member, item) for item in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value.isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else value


def _from_json(shape: Shape, value: Any, place: str) -> Any:
    if shape.type_name == "structure" and isinstance(value, dict):
        names = {member.serialization.get("name", name): name for name, member in shape.members.items()}
        if unknown := set(value) - set(names):
            raise Invalid(f"{place}: no member {min(unknown)!r} in {shape.name}")
        return {names[n]: _from_json(shape.members[names[n]], v, f"{place}.{n}") for n, v in value.items()}
    if shape.type_name == "list" and isinstance(value, list):
        return [_from_json(shape.member, item, f"{place}[{index}]") for index, item in enumerate(value)]
    if shape.type_name == "blob":
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise Invalid(f"{place}: no base64") from None
    return value


def parse_request(method: str, target: str, headers: Mapping[str, str], body: bytes) -> tuple[str, dict[str, Any]]:
    """Return which operation a request asks for, and its parameters."""
    url = urlsplit(target)
    for name in OPERATIONS:
        operation = MODEL.operation_model(name)
        path, _, _ = operation.http["requestUri"].partition("?")
        pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(path))
        found = re.fullmatch(pattern, url.path)
        if found and operation.http["method"] == method:
            places = {**found.groupdict()}
            return name, _parameters(operation, places, dict(parse_qsl(url.query)), headers, body)
    raise Invalid(f"no operation for {method} {url.path}")


def _parameters(
    operation: OperationModel, path: dict[str, str], query: dict[str, str], headers: Mapping[str, str], body: bytes
) -> dict[str, Any]:
    shape = operation.input_shape
    document = json.loads(body) if body else {}
    found: dict[str, Any] = {}
    in_body: dict[str, Shape] = {}
    for name, member in shape.members.items():
        wire_name = member.serialization.get("name", name)
        match member.serialization.get("location"):
            case "uri":
                found[name] = unquote(path.pop(wire_name))
            case "querystring":
                if wire_name in query:
                    found[name] = query.pop(wire_name)
            case "header":
                if wire_name in headers:
                    found[name] = headers[wire_name]
            case _:
                in_body[wire_name] = member
                if wire_name in document:
                    found[name] = _from_json(member, document[wire_name], name)
    if unknown := {*query, *(set(document) - set(in_body))}:
        raise Invalid(f"{operation.name} has no {min(unknown)!r}")
    return checked(shape, found, operation.name)


def answer(operation: str, value: dict[str, Any]) -> tuple[dict[str, str], bytes]:
    """Return the headers and the body of an answer without a stream."""
    shape = MODEL.operation_model(operation).output_shape
    document = _to_json(shape, checked(shape, value, operation))
    return {"Content-Type": "application/json"}, json.dumps(document).encode()


def error_answer(code: str, message: str) -> tuple[int, dict[str, str], bytes]:
    """Return the status, the headers and the body of an answer that is an error of the model's."""
    shape = MODEL.shape_for(code)
    status = shape.metadata["error"]["httpStatusCode"]
    body = json.dumps(_error_document(shape, message)).encode()
    return status, {"Content-Type": "application/json", "x-amzn-ErrorType": code}, body


def _error_document(shape: Shape, message: str) -> dict[str, Any]:
    given = {"message": message} | ({"reason": "CannotParse"} if "reason" in shape.required_members else {})
    return checked(shape, given, shape.name)


# Event streams


def _stream_shape() -> Shape:
    return MODEL.operation_model("InvokeCodeInterpreter").output_shape.members["stream"]


def result_event(result: dict[str, Any]) -> bytes:
    """Return the frame of a `result`."""
    shape = _stream_shape().members["result"]
    document = _to_json(shape, checked(shape, result, "result"))
    headers = {":message-type": "event", ":event-type": "result", ":content-type": "application/json"}
    return frame(headers, json.dumps(document).encode())


def exception_event(member: str, message: str) -> bytes:
    """Return the frame of an exception, such as `throttlingException`."""
    shape = _stream_shape().members[member]
    headers = {":message-type": "exception", ":exception-type": member, ":content-type": "application/json"}
    return frame(headers, json.dumps(_error_document(shape, message)).encode())


def frame(headers: Mapping[str, str], payload: bytes) -> bytes:
    """Return a message of `application/vnd.amazon.eventstream`: prelude, headers and payload, with both checksums."""
    encoded = b""
    for name, value in headers.items():
        encoded += struct.pack("!B", len(name)) + name.encode() + struct.pack("!BH", 7, len(value)) + value.encode()
    prelude = struct.pack("!II", 16 + len(encoded) + len(payload), len(encoded))
    message = prelude + struct.pack("!I", crc32(prelude)) + encoded + payload
    return message + struct.pack("!I", crc32(message))
