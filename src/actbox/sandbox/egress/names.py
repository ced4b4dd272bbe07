"""Answers to questions about names (DNS, RFC 1035): every name stands for the sandbox's own loopback.

Nothing is looked up, so a question carries nothing out and its answer tells nothing about which names there are. Pure:
a message in, a message or nothing out; of a message its header and its one question are read, and the rest is not.
"""

from __future__ import annotations

import struct

LOOPBACK = "127.0.0.1"
"""The address of all names: where the gate's sockets listen."""

_HEADER = struct.Struct("!6H")  # id, flags, and how many questions, answers, authorities and additional records
_KIND_AND_CLASS = struct.Struct("!HH")
_RECORD = struct.Struct("!2sHHIH4s")  # name, type, class, seconds to be kept, length, address

_RESPONSE, _AUTHORITATIVE, _RECURSION_DESIRED, _RECURSION_AVAILABLE = 0x8000, 0x0400, 0x0100, 0x0080
_OPCODE = 0x7800
_NO_ERROR, _FORMAT_ERROR, _NOT_IMPLEMENTED = 0, 1, 4
_A, _INTERNET = 1, 1

_MOST_OF_A_LABEL = 63  # what is above has a flag set, of which a pointer is one: there is nothing before a question
_MOST_OF_A_NAME = 255
_FIRST_NAME = b"\xc0\x0c"  # a pointer to the question's
_ADDRESS = bytes(map(int, LOOPBACK.split(".")))


def answer(message: bytes) -> bytes | None:
    """Return the answer to a message, of less than 512 bytes; `None` for what is none, or is itself an answer."""
    if len(message) < _HEADER.size:
        return None
    number, flags, questions, answers, authorities, _ = _HEADER.unpack_from(message)
    if flags & _RESPONSE:  # two that answer each other's answers would never end
        return None
    if flags & _OPCODE:
        return _reply(number, flags, _NOT_IMPLEMENTED)
    question = _question(message) if (questions, answers, authorities) == (1, 0, 0) else None
    if question is None:
        return _reply(number, flags, _FORMAT_ERROR)
    kind, network = _KIND_AND_CLASS.unpack(question[-_KIND_AND_CLASS.size :])
    if network != _INTERNET:
        return _reply(number, flags, _NOT_IMPLEMENTED, question)
    if kind != _A:  # there is such a name, and nothing of that kind about it
        return _reply(number, flags, _NO_ERROR, question)
    record = _RECORD.pack(_FIRST_NAME, _A, _INTERNET, 0, len(_ADDRESS), _ADDRESS)
    return _reply(number, flags, _NO_ERROR, question, record)


def _question(message: bytes) -> bytes | None:
    """Return the question behind the header as it is there; `None` where it is not a plain name, a type and a class."""
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
