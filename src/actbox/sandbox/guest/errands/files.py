"""Errands about the files of a workspace. Each names a place by the folder `root` and the `parts` below it."""

from __future__ import annotations

import contextlib
import errno
import os

from ..tree import Tree
from .answers import Answers

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import IO, Any, Callable, Dict

    Errand = Callable[[Dict[str, Any], IO[bytes], Answers], None]

_READ_BYTES = 256 * 1024


def read(request: Dict[str, Any], stdin: IO[bytes], answers: Answers) -> None:
    """Say `most` bytes of a regular file from `start` on, and which file it is, by what changes with it."""
    descriptor = _tree(request).open_file(request["parts"])
    status = os.fstat(descriptor)
    os.lseek(descriptor, request["start"], os.SEEK_SET)
    left = request["most"]
    is_over = False
    while left and not is_over:
        data = os.read(descriptor, min(left, _READ_BYTES))
        left -= len(data)
        is_over = not data
        if data:
            answers.say("b", data)
    version = [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]
    answers.say_json("r", {"version": version, "over": is_over})


def write(request: Dict[str, Any], stdin: IO[bytes], answers: Answers) -> None:
    """Put what is on standard input at `start` of a draft; if it is the `last` of it, put that in the file's place."""
    draft = request["draft"]
    how = os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_CREAT | os.O_EXCL if not request["start"] else 0)
    try:
        descriptor = os.open(draft, how, 0o600)
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
                _write_all(file, data)
            if request["last"]:
                os.fchmod(descriptor, 0o644)  # whatever this account's mask is
                _tree(request).take(draft, request["parts"])
    except BaseException:
        _forget(draft)
        raise
    answers.say_json("r", {})


def _write_all(file: Any, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[file.write(view) or 0 :]


def _forget(draft: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(draft)


def drop(request: Dict[str, Any], stdin: IO[bytes], answers: Answers) -> None:
    """Remove a draft that nobody goes on with."""
    _forget(request["draft"])
    answers.say_json("r", {})


def remove(request: Dict[str, Any], stdin: IO[bytes], answers: Answers) -> None:
    """Remove a file, a link, an empty folder, or if it is to be `recursive` a folder and all below it."""
    _tree(request).remove(request["parts"], request["recursive"])
    answers.say_json("r", {})


def list_folder(request: Dict[str, Any], stdin: IO[bytes], answers: Answers) -> None:
    """Say the entries of a folder, if it is to be `recursive` with all below it."""
    answers.say_json("r", {"entries": list(_tree(request).list(request["parts"], request["recursive"]))})


def stat(request: Dict[str, Any], stdin: IO[bytes], answers: Answers) -> None:
    """Say what one entry is."""
    answers.say_json("r", {"entries": [_tree(request).stat(request["parts"])]})


def make_dir(request: Dict[str, Any], stdin: IO[bytes], answers: Answers) -> None:
    """Make a folder and its parents."""
    _tree(request).make_dir(request["parts"])
    answers.say_json("r", {})


def move(request: Dict[str, Any], stdin: IO[bytes], answers: Answers) -> None:
    """Rename within the workspace."""
    _tree(request).move(request["parts"], request["to"])
    answers.say_json("r", {})


def _tree(request: Dict[str, Any]) -> Tree:
    return Tree(request["root"])


ERRANDS: Dict[str, Errand] = {
    "read": read,
    "write": write,
    "drop": drop,
    "remove_file": remove,
    "list": list_folder,
    "stat": stat,
    "make_dir": make_dir,
    "move": move,
}
