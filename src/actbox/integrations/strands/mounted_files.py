"""File operations in a policy's mounts, done by programs in the sandbox: our file methods reach only the workspace."""

from __future__ import annotations

import base64
import errno
import os
from typing import Final

from strands.sandbox import FileInfo

import actbox
from actbox.core.errors import FileError

# The most bytes read at once: base64 makes a third more of them, and a program's value may have 4 MiB.
_PIECE_BYTES: Final = 2 * 2**20
_MOST_NAME_BYTES: Final = 255

# With only Python's own modules on the path: programs may have put modules into the working directory.
_PROGRAM: Final = """
import os, sys
here = os.path.realpath(os.getcwd())
sys.path[:] = [path for path in sys.path if path and not (os.path.realpath(path) + "/").startswith(here + "/")]
import base64, errno, shutil, stat
place, data = base64.b64decode(place), base64.b64decode(data)

def text(content):
    return base64.b64encode(content).decode()

def entry_of(entry):
    is_link = entry.is_symlink()
    is_file = entry.is_file(follow_symlinks=False)
    return [text(entry.name), None if is_link else entry.is_dir(), entry.stat().st_size if is_file else None]

def do():
    if verb == "read":
        with open(place, "rb", opener=lambda path, flags: os.open(path, flags | getattr(os, "O_NONBLOCK", 0))) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise OSError(errno.EINVAL, "is not a regular file")
            if found.st_size > most:
                raise OSError(errno.EFBIG, "is larger than a file may be here")
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


async def read(box: actbox.Sandbox, path: str, most: int) -> bytes:
    """Return the content of a regular file. Raises `FileError`, also beyond `most` bytes."""
    pieces: list[bytes] = []
    while not pieces or len(pieces[-1]) == _PIECE_BYTES:
        start = len(pieces) * _PIECE_BYTES
        if start > most:  # the file is growing
            raise FileError(errno.EFBIG, f"{path}: has more than {most:,} bytes, which is what a file may have here")
        answer = await _do(box, path, "read", start=start, size=_PIECE_BYTES, most=most)
        pieces.append(_bytes_of(path, answer, _PIECE_BYTES))
    return b"".join(pieces)


async def write(box: actbox.Sandbox, path: str, content: bytes) -> None:
    """Create or replace a file and its missing parents. Raises `FileError`."""
    for start in range(0, len(content) or 1, _PIECE_BYTES):
        await _do(box, path, "write", data=content[start : start + _PIECE_BYTES], start=start)


async def remove(box: actbox.Sandbox, path: str, recursive: bool) -> None:
    """Remove a file or a link; with `recursive` also a directory and everything below it. Raises `FileError`."""
    await _do(box, path, "remove", size=int(recursive))


async def entries(box: actbox.Sandbox, path: str) -> list[FileInfo]:
    """Return the entries of a directory, sorted by name. Raises `FileError`."""
    answer = await _do(box, path, "list")
    if not isinstance(answer, list):
        raise _senseless(path)
    return sorted((_entry_of(path, item) for item in answer), key=lambda entry: entry.name)


def _entry_of(path: str, answer: object) -> FileInfo:
    match answer:
        case [str() as name, bool() | None as is_dir, int() | None as size]:
            return FileInfo(os.fsdecode(_bytes_of(path, name, _MOST_NAME_BYTES)), is_dir, size)
    raise _senseless(path)


def _bytes_of(path: str, answer: object, most: int) -> bytes:
    """Return the bytes of a base64 reply. Raises `FileError`."""
    if not isinstance(answer, str):
        raise _senseless(path)
    try:
        content = base64.b64decode(answer, validate=True)
    except ValueError as error:
        raise _senseless(path) from error
    if len(content) > most:
        raise _senseless(path)
    return content


def _senseless(path: str) -> FileError:
    return FileError(errno.EIO, f"{path}: the program that should look said what makes no sense")


async def _do(
    box: actbox.Sandbox, path: str, verb: str, *, data: bytes = b"", start: int = 0, size: int = 0, most: int = 0
) -> object:
    inputs = {
        "place": base64.b64encode(os.fsencode(path)).decode(),
        "data": base64.b64encode(data).decode(),
        "verb": verb,
        "start": start,
        "size": size,
        "most": most,
    }
    result = await box.run(actbox.Program(_PROGRAM, inputs=inputs))
    answer = result.value
    if not isinstance(answer, dict):
        raise FileError(errno.EIO, f"{path}: {result.error.message if result.error else 'the program said nothing'}")
    if "errno" in answer:
        code = answer["errno"]
        raise FileError(code if isinstance(code, int) else errno.EIO, f"{path}: {answer.get('why')}")
    return answer.get("did")
