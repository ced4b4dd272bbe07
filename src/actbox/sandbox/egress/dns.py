"""Answers DNS queries (RFC 1035): every name has the address of the sandbox's own loopback.

Nothing is looked up, so a query carries no data out and its answer does not reveal which names exist. Pure: a message
in, a message or nothing out; only a message's header and its one question are parsed.
"""

from __future__ import annotations

import struct

LOOPBACK = "127.0.0.1"
"""The address of all names, on which the gate's sockets listen."""

_HEADER = struct.Struct("!6H")  # id, flags, and the numbers of questions, answers, authorities and additional records
_KIND_AND_CLASS = struct.Struct("!HH")
_RECORD = struct.Struct("!2sHHIH4s")  # name, type, class, seconds to live, length, address

_RESPONSE, _AUTHORITATIVE, _RECURSION_DESIRED, _RECURSION_AVAILABLE = 0x8000, 0x0400, 0x0100, 0x0080
_OPCODE = 0x7800
_NO_ERROR, _FORMAT_ERROR, _NOT_IMPLEMENTED = 0, 1, 4
_A, _INTERNET = 1, 1

_MOST_OF_A_LABEL = 63  # larger values are flags, such as a pointer's; a question has nothing to point to
_MOST_OF_A_NAME = 255
_FIRST_NAME = b"\xc0\x0c"  # a pointer to the question's name
_ADDRESS = bytes(map(int, LOOPBACK.split(".")))


def answer(message: bytes) -> bytes | None:
    """Return the reply to a query, under 512 bytes: an error for an invalid one, `None` for what is no query at all."""
    if len(message) < _HEADER.size:
        return None
    number, flags, questions, answers, authorities, _ = _HEADER.unpack_from(message)
    if flags & _RESPONSE:  # two servers that answer each other's answers would never stop
        return None
    if flags & _OPCODE:
        return _reply(number, flags, _NOT_IMPLEMENTED)
    question = _question(message) if (questions, answers, authorities) == (1, 0, 0) else None
    if question is None:
        return _reply(number, flags, _FORMAT_ERROR)
    kind, network = _KIND_AND_CLASS.unpack(question[-_KIND_AND_CLASS.size :])
    if network != _INTERNET:
        return _reply(number, flags, _NOT_IMPLEMENTED, question)
    if kind != _A:  # the name exists, but has no record of this type
        return _reply(number, flags, _NO_ERROR, question)
    record = _RECORD.pack(_FIRST_NAME, _A, _INTERNET, 0, len(_ADDRESS), _ADDRESS)
    return _reply(number, flags, _NO_ERROR, question, record)


def _question(message: bytes) -> bytes | None:
    """Return the question's bytes after the header; `None` unless they are a plain name, a type and a class."""
    place = _HEADER.size
    while place - _HEADER.size < _MOST_OF_A_NAME and place < len(message):
        label = message[place]
        place += 1 + label
        if label == 0:
            end = place + _KIND_AND_CLASS.size
            return message[_HEADER.size : end] if end <= len(message) else None
        if label > _MOST_OF_A_LABEL:
            return None
    return None


def _reply(number: int, flags: int, code: int, question: bytes = b"", record: bytes = b"") -> bytes:
    said = _RESPONSE | _AUTHORITATIVE | _RECURSION_AVAILABLE | flags & (_OPCODE | _RECURSION_DESIRED) | code
    return _HEADER.pack(number, said, bool(question), bool(record), 0, 0) + question + record
