"""Errands about the files of a workspace. Each names a place by the folder `root` and the `parts` below it."""

from __future__ import annotations

import contextlib
import errno
import os
import stat as stat_modes

from .answers import Answers
from .folders import FOLDER, open_folder

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import IO, Any, Callable, Dict, Iterator, List, Sequence, Tuple

    Errand = Callable[[Dict[str, Any], IO[bytes], Answers], None]

# Not to wait for the other end of a named pipe that a program put where a file should be.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# Each folder on the way is open while what is below it is listed.
_MAX_DEPTH = 64
_READ_BYTES = 256 * 1024


def read(request: Dict[str, Any], stdin: IO[bytes], answers: Answers) -> None:
    """Say `most` bytes of a regular file from `start` on, and which file it is, by what changes with it."""
    folder, name = _parent(request["root"], request["parts"])
    descriptor = os.open(name, _FILE, dir_fd=folder)
    status = os.fstat(descriptor)
    if stat_modes.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "is a folder")
    if not stat_modes.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "is not a regular file")
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
                folder, name = _parent(request["root"], request["parts"], make=True)
                os.rename(draft, name, dst_dir_fd=folder)
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
    folder, name = _parent(request["root"], request["parts"])
    if not stat_modes.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=folder)
    elif request["recursive"]:
        _remove_tree(folder, name)
    else:
        os.rmdir(name, dir_fd=folder)
    answers.say_json("r", {})


def _remove_tree(folder: int, name: str) -> None:
    """Remove a folder however deep it is: each folder in it is moved up, so that one is open at a time."""
    left = [name]
    while left:
        name = left.pop()
        inner = os.open(name, FOLDER, dir_fd=folder)
        try:
            for found in os.listdir(inner):
                if stat_modes.S_ISDIR(os.stat(found, dir_fd=inner, follow_symlinks=False).st_mode):
                    left.append(".%s.part" % os.urandom(8).hex())
                    os.rename(found, left[-1], src_dir_fd=inner, dst_dir_fd=folder)
                else:
                    os.unlink(found, dir_fd=inner)
        finally:
            os.close(inner)
        os.rmdir(name, dir_fd=folder)


def list_folder(request: Dict[str, Any], stdin: IO[bytes], answers: Answers) -> None:
    """Say the entries of a folder, if it is to be `recursive` with all below it."""
    parts = request["parts"]
    folder = open_folder(request["root"], parts)
    entries = list(_entries(folder, "/".join(parts), request["recursive"], 0))
    answers.say_json("r", {"entries": entries})


def _entries(folder: int, prefix: str, recursive: bool, depth: int) -> Iterator[List[Any]]:
    if depth > _MAX_DEPTH:
        raise OSError(errno.ELOOP, "folders are nested more than %d deep" % _MAX_DEPTH)
    for name in os.listdir(folder):
        path = "%s/%s" % (prefix, name) if prefix else name
        try:
            info = _info(path, os.stat(name, dir_fd=folder, follow_symlinks=False))
        except FileNotFoundError:  # removed meanwhile by a program
            continue
        yield info
        if recursive and info[1] == "folder":
            try:
                inner = os.open(name, FOLDER, dir_fd=folder)
            except FileNotFoundError:
                continue
            try:
                for entry in _entries(inner, path, recursive, depth + 1):
                    yield entry
            finally:
                os.close(inner)


def stat(request: Dict[str, Any], stdin: IO[bytes], answers: Answers) -> None:
    """Say what one entry is."""
    parts = request["parts"]
    folder, name = _parent(request["root"], parts)
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    answers.say_json("r", {"entries": [_info("/".join(parts) or ".", status)]})


def _info(path: str, status: os.stat_result) -> List[Any]:
    kind = "other"
    for name, test in (("file", stat_modes.S_ISREG), ("folder", stat_modes.S_ISDIR), ("link", stat_modes.S_ISLNK)):
        if test(status.st_mode):
            kind = name
    return [path, kind, status.st_size if kind != "other" else 0, status.st_mtime]


def make_dir(request: Dict[str, Any], stdin: IO[bytes], answers: Answers) -> None:
    """Make a folder and its parents."""
    open_folder(request["root"], request["parts"], make=True)
    answers.say_json("r", {})


def move(request: Dict[str, Any], stdin: IO[bytes], answers: Answers) -> None:
    """Rename within the workspace."""
    from_folder, from_name = _parent(request["root"], request["parts"])
    os.stat(from_name, dir_fd=from_folder, follow_symlinks=False)  # before folders are made for what is not there
    to_folder, to_name = _parent(request["root"], request["to"], make=True)
    os.replace(from_name, to_name, src_dir_fd=from_folder, dst_dir_fd=to_folder)
    answers.say_json("r", {})


def _parent(root: str, parts: Sequence[str], make: bool = False) -> Tuple[int, str]:
    """Return the folder that an entry is in, open until this process ends, and the entry's name in it."""
    return open_folder(root, parts[:-1], make), parts[-1] if parts else "."


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
