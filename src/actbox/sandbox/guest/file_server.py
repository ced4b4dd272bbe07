"""File operations on a workspace inside our WebAssembly instance, for a host that cannot open the files safely itself.

WebAssembly keeps links from leading out: no path here can name anything outside the directories that were given to the
instance. So plain paths are safe, and links are refused only to behave as other engines do.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

    from .tree import Entry

MAX_DEPTH = 64
_NO_FOLDER = "the path leads through a link, which is not followed, or through a file"


def serve(order: Dict[str, Any]) -> Dict[str, Any]:
    """Run a file request; return its answer, with the errno's name if it failed."""
    arguments = {key: value for key, value in order.items() if key not in ("t", "op")}
    try:
        return {"ok": _OPERATIONS[order["op"]](**arguments)}
    except OSError as error:
        return {"errno": errno.errorcode.get(error.errno or 0, "EIO"), "error": error.strerror or str(error)}


def _read(path: List[str], start: int, most: int) -> Tuple[bytes, bool]:
    """Return up to `most` bytes of a regular file from `start` on, and whether the file ends there."""
    place = _place(path)
    status = _status(place)
    if status is None:
        raise OSError(errno.ELOOP, "is a link")
    if stat.S_ISDIR(status.st_mode):
        raise OSError(errno.EISDIR, "is a directory")
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "is not a regular file")
    with open(place, "rb", buffering=0) as file:
        file.seek(start)
        data = b""
        while len(data) < most:
            piece = file.read(most - len(data))
            if not piece:
                return data, True
            data += piece
    return data, False


def _write(path: List[str], draft: str, data: bytes, last: bool) -> None:
    """Append data to a draft beside the file; with the `last` piece, replace the file by the draft."""
    folder = _made(path[:-1])
    drafted = "%s/%s" % (folder, draft)
    try:
        with open(drafted, "ab", buffering=0) as file:
            view = memoryview(data)
            while view:
                view = view[file.write(view) or 0 :]
        if last:
            os.rename(drafted, _place(path))
    except BaseException:
        with contextlib.suppress(OSError):  # the draft could not even be made
            os.unlink(drafted)
        raise


def _list(path: List[str], recursive: bool) -> List[Entry]:
    place = _place(path)
    if not _is_folder(_status(place)):
        raise OSError(errno.ENOTDIR, "is not a directory")
    found = _walk(place, "/".join(path), MAX_DEPTH if recursive else 0)
    return [_entry(name, place, status) for name, place, status in found]


def _stat(path: List[str]) -> Entry:
    place = _place(path)
    return _entry("/".join(path) or ".", place, _status(place))


def _remove(path: List[str], recursive: bool) -> None:
    place = _place(path)
    if not _is_folder(_status(place)):
        os.unlink(place)
        return
    if recursive:
        below = sorted(_walk(place, "", None), key=lambda entry: -entry[0].count("/"))
        for _, inner, status in below:
            (os.rmdir if _is_folder(status) else os.unlink)(inner)
    elif os.listdir(place):
        raise OSError(errno.ENOTEMPTY, "is not empty")
    os.rmdir(place)


def _discard(path: str) -> None:
    place = "/workspace/" + path
    (os.rmdir if _is_folder(_status(place)) else os.unlink)(place)


def _make_dir(path: List[str]) -> None:
    _made(path)


def _move(path: List[str], target: List[str]) -> None:
    source = _place(path)
    _status(source)
    _made(target[:-1])
    os.replace(source, _place(target))


def _mark() -> bool:
    """Make `output` unless it is a directory; return whether it was made."""
    with contextlib.suppress(FileNotFoundError):
        if _is_folder(_status("/workspace/output")):
            return False
        os.unlink("/workspace/output")
    os.mkdir("/workspace/output")
    return True


def _outputs(most: int, most_characters: int, most_depth: int) -> Tuple[List[Tuple[str, int, List[int]]], str]:
    """Return (path, size, change marker) of everything in `output` except directories; size -1 means not a file."""
    found: List[Tuple[str, int, List[int]]] = []
    characters = 0
    try:
        for path, _, status in _walk("/workspace/output", "", most_depth):
            characters += len(path)
            if len(found) >= most or characters > most_characters:
                return found, "there are too many files in output/: the rest was not looked at"
            if status is None:
                found.append((path, -1, []))
            elif not stat.S_ISDIR(status.st_mode):
                size = status.st_size if stat.S_ISREG(status.st_mode) else -1
                found.append((path, size, [status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]))
    except OSError as error:
        return found, "output/ could not be looked at: %s" % (error.strerror or error)
    return found, ""


def _place(path: Sequence[str]) -> str:
    """Return an entry's path here; raises if a directory on its way is a link."""
    place = "/workspace"
    if path[:1] == ["input"]:
        place, path = "/input", path[1:]
    for name in path[:-1]:
        place = "%s/%s" % (place, name)
        if not _is_folder(_status(place)):
            raise OSError(errno.ENOTDIR, _NO_FOLDER)
    return "%s/%s" % (place, path[-1]) if path else place


def _made(path: List[str]) -> str:
    """Return a directory's path here, after making it and its parents if they are missing."""
    for end in range(1, len(path) + 1):
        place = _place(path[:end])
        try:
            status = _status(place)
        except FileNotFoundError:
            os.mkdir(place)
            continue
        if not _is_folder(status):
            raise OSError(errno.ENOTDIR, _NO_FOLDER)
    return _place(path)


def _walk(folder: str, prefix: str, depth: Optional[int]) -> Iterator[Tuple[str, str, Optional[os.stat_result]]]:
    """Yield (path, path here, status) of a directory's entries, and of those below it to a depth.

    The status of a link is `None`.
    """
    for name in os.listdir(folder):
        path, place = ("%s/%s" % (prefix, name) if prefix else name), "%s/%s" % (folder, name)
        try:
            status = _status(place)
        except FileNotFoundError:  # a program has removed it meanwhile
            continue
        if folder == "/workspace" and name == "input":
            place = "/input"
        yield path, place, status
        if _is_folder(status) and depth != 0:
            if depth == 1:
                raise OSError(errno.ELOOP, "directories are nested more than %d deep" % MAX_DEPTH)
            for below in _walk(place, path, None if depth is None else depth - 1):
                yield below


def _status(place: str) -> Optional[os.stat_result]:
    """Return an entry's status, `None` for a link: the library raises EIO for a link, as for a missing entry."""
    try:
        return os.lstat(place)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
    try:
        os.readlink(place)
    except OSError:
        raise FileNotFoundError(errno.ENOENT, "there is nothing") from None
    return None


def _is_folder(status: Optional[os.stat_result]) -> bool:
    return status is not None and stat.S_ISDIR(status.st_mode)


def _entry(path: str, place: str, status: Optional[os.stat_result]) -> Entry:
    """Return the description of an entry; WebAssembly's files have no modes."""
    if status is None:
        return path, "link", 0, 0.0, None, os.readlink(place)
    for kind, test in (("file", stat.S_ISREG), ("folder", stat.S_ISDIR)):
        if test(status.st_mode):
            return path, kind, status.st_size, status.st_mtime, None, ""
    return path, "other", 0, status.st_mtime, None, ""


_OPERATIONS: Dict[str, Callable[..., Any]] = {
    "read": _read,
    "write": _write,
    "list": _list,
    "stat": _stat,
    "remove": _remove,
    "discard": _discard,
    "make_dir": _make_dir,
    "move": _move,
    "mark": _mark,
    "outputs": _outputs,
}
