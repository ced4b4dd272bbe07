"""Files in what a policy mounts, as programs in the sandbox see them: our file methods reach the workspace only."""

from __future__ import annotations

import base64
import errno
import os
from typing import Any, Final

from strands.sandbox import FileInfo

import actbox
from actbox.core.errors import FileError

# As base64 it is a third more; a program's value may have 4 MiB.
_PIECE_BYTES: Final = 2 * 2**20

_PROGRAM: Final = """
import base64, os, shutil
place, data = base64.b64decode(place), base64.b64decode(data)

def text(content):
    return base64.b64encode(content).decode()

def entry_of(entry):
    is_link = entry.is_symlink()
    is_file = entry.is_file(follow_symlinks=False)
    return [text(entry.name), None if is_link else entry.is_dir(), entry.stat().st_size if is_file else None]

def do():
    if verb == "read":
        with open(place, "rb") as file:
            file.seek(start)
            return text(file.read(size))
    if verb == "write":
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(place, "ab" if start else "wb") as file:
            file.write(data)
    elif verb == "list":
        with os.scandir(place) as found:
            return sorted(entry_of(entry) for entry in found)
    elif verb == "remove" and size and not os.path.islink(place) and os.path.isdir(place):
        shutil.rmtree(place)
    else:
        os.remove(place)

try:
    answer = {"did": do()}
except OSError as error:
    answer = {"errno": error.errno or 5, "why": error.strerror or str(error)}
answer
"""


async def read(box: actbox.Sandbox, path: str) -> bytes:
    """Return a file's content. Raises `FileError`."""
    pieces: list[bytes] = []
    while not pieces or len(pieces[-1]) == _PIECE_BYTES:
        start = len(pieces) * _PIECE_BYTES
        pieces.append(base64.b64decode(await _do(box, path, "read", start=start, size=_PIECE_BYTES)))
    return b"".join(pieces)


async def write(box: actbox.Sandbox, path: str, content: bytes) -> None:
    """Create or replace a file, making its parent folders. Raises `FileError`."""
    for start in range(0, len(content) or 1, _PIECE_BYTES):
        await _do(box, path, "write", data=content[start : start + _PIECE_BYTES], start=start)


async def remove(box: actbox.Sandbox, path: str, recursive: bool) -> None:
    """Remove a file or a link; with `recursive` also a folder and all below it. Raises `FileError`."""
    await _do(box, path, "remove", size=int(recursive))


async def entries(box: actbox.Sandbox, path: str) -> list[FileInfo]:
    """Return the entries of a folder, sorted by name. Raises `FileError`."""
    found = [
        FileInfo(os.fsdecode(base64.b64decode(name)), is_dir, size)
        for name, is_dir, size in await _do(box, path, "list")
    ]
    return sorted(found, key=lambda entry: entry.name)


async def _do(box: actbox.Sandbox, path: str, verb: str, *, data: bytes = b"", start: int = 0, size: int = 0) -> Any:
    inputs = {
        "place": base64.b64encode(os.fsencode(path)).decode(),
        "data": base64.b64encode(data).decode(),
        "verb": verb,
        "start": start,
        "size": size,
    }
    result = await box.run(actbox.Program(_PROGRAM, inputs=inputs))
    answer = result.value
    if not isinstance(answer, dict):
        raise FileError(errno.EIO, f"{path}: {result.error.message if result.error else 'the program said nothing'}")
    if "errno" in answer:
        raise FileError(answer["errno"], f"{path}: {answer['why']}")
    return answer["did"]
