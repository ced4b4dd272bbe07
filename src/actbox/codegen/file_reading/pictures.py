"""Sizes of pictures, from the beginning of their files."""

from __future__ import annotations

import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def read_picture(path: str) -> dict[str, Any]:
    """Describe a picture by its size in pixels, where the beginning of the file has it."""
    with open(path, "rb") as file:
        head = file.read(2**18)
    width = height = 0
    if head.startswith(b"\x89PNG"):
        width, height = struct.unpack(">II", head[16:24])
    elif head.startswith(b"GIF"):
        width, height = struct.unpack("<HH", head[6:10])
    elif head.startswith(b"BM"):
        width, height = struct.unpack("<ii", head[18:26])
    elif head.startswith(b"RIFF"):
        if head[12:16] == b"VP8X":
            width = int.from_bytes(head[24:27], "little") + 1
            height = int.from_bytes(head[27:30], "little") + 1
        elif head[12:16] == b"VP8 ":
            width, height = (number & 0x3FFF for number in struct.unpack("<HH", head[26:30]))
        elif head[12:16] == b"VP8L":
            bits = int.from_bytes(head[21:25], "little")
            width, height = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    elif head.startswith(b"\xff\xd8"):
        width, height = _jpeg_size(head)
    return {"pixels": [width, abs(height)]} if width and height else {}


def _jpeg_size(head: bytes) -> tuple[int, int]:
    at = 2
    while at + 9 < len(head) and head[at] == 0xFF:
        marker, length = head[at + 1], int.from_bytes(head[at + 2 : at + 4], "big")
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", head[at + 5 : at + 9])
            return width, height
        at += 2 + length
    return 0, 0
