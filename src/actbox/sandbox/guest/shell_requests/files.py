"""Requests about the files of a workspace. Each names a file by the directory `root` and the names of its `path`."""

from __future__ import annotations

import contextlib
import errno
import json
import os

from ..beneath import DRAFT, open_beneath, opened_folder, write_all
from ..tree import OPERATIONS, Tree
from .responses import ResponseWriter

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import IO, Any, Callable, Dict

    Handler = Callable[[Dict[str, Any], IO[bytes], ResponseWriter], None]

_READ_BYTES = 256 * 1024


def read(request: Dict[str, Any], stdin: IO[bytes], responses: ResponseWriter) -> None:
    """Return `most` bytes of a regular file from `start` on, with the file's version: identity, size, times."""
    descriptor = _tree(request).open_file(request["path"])
    status = os.fstat(descriptor)
    os.lseek(descriptor, request["start"], os.SEEK_SET)
    left = request["most"]
    is_over = False
    while left and not is_over:
        data = os.read(descriptor, min(left, _READ_BYTES))
        left -= len(data)
        is_over = not data
        if data:
            responses.send("b", data)
    version = [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]
    responses.send_json("r", {"version": version, "over": is_over})


def write(request: Dict[str, Any], stdin: IO[bytes], responses: ResponseWriter) -> None:
    """Write standard input at `start` of a draft; with the `last` piece, replace the file by the draft."""
    draft = request["draft"]
    folder, _, name = draft.rpartition("/")
    try:
        with opened_folder(folder) as drafts:
            descriptor = open_beneath(drafts, name, os.O_WRONLY if request["start"] else DRAFT, 0o600)
        with open(descriptor, "wb", buffering=0) as file:
            if os.fstat(descriptor).st_size != request["start"]:
                raise OSError(errno.EIO, "a part of it was lost on the way")
            file.seek(request["start"])
            left = request["bytes"]
            while left:
                data = stdin.read(min(left, _READ_BYTES))
                if not data:
                    raise OSError(errno.EIO, "a part of it was lost on the way")
                left -= len(data)
                write_all(descriptor, data)
            if request["last"]:
                _tree(request).take(draft, descriptor, request["path"], request["mode"])
    except BaseException:
        _forget(draft)
        raise
    responses.send_json("r", {})


def _forget(draft: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(draft)


def drop(request: Dict[str, Any], stdin: IO[bytes], responses: ResponseWriter) -> None:
    """Remove an unwanted draft."""
    _forget(request["draft"])
    responses.send_json("r", {})


def list_folder(request: Dict[str, Any], stdin: IO[bytes], responses: ResponseWriter) -> None:
    """Return the entries of a directory, with `recursive` everything below it; each is a line of JSON."""
    entries = _tree(request).list(request["path"], request["recursive"])
    responses.send("b", b"".join(json.dumps(entry).encode("ascii") + b"\n" for entry in entries))
    responses.send_json("r", {})


def _handler_of(name: str) -> Handler:
    def handle(request: Dict[str, Any], stdin: IO[bytes], responses: ResponseWriter) -> None:
        responses.send_json("r", {"ok": OPERATIONS[name](_tree(request), request)})

    return handle


def _tree(request: Dict[str, Any]) -> Tree:
    return Tree.at(request["root"])


HANDLERS: Dict[str, Handler] = {
    "read": read,
    "write": write,
    "drop": drop,
    "remove_file": _handler_of("remove"),
    "list": list_folder,
    **{name: _handler_of(name) for name in ("stat", "make_dir", "move")},
}
