"""Replaces the file system: `open`, and the functions of `os` that take a path, send requests to the host.

The machine has no other files. A program sees `/workspace` with `input` and `output`, which are also `/input` and
`/output`, its own `/tmp`, and the policy's mounts.
"""

from __future__ import annotations

import _io
import builtins
import errno
import io
import os
import posix
import posixpath
import stat
import sys
import weakref
from collections.abc import Iterator
from typing import Any

from .channel import HostChannel

_READ_BYTES = 128 * 1024
_BUFFER_BYTES = 64 * 1024
_FIRST_NUMBER = 3
_REPLACED = (
    "access",
    "chdir",
    "getcwd",
    "listdir",
    "lstat",
    "mkdir",
    "readlink",
    "remove",
    "rename",
    "rmdir",
    "scandir",
    "stat",
)


class HostFiles:
    """The host's files. Paths are sent absolute and without `.` and `..`, because links are not followed."""

    def __init__(self, channel: HostChannel) -> None:
        self._channel = channel
        self._folder = "/workspace"
        self._opened: weakref.WeakSet[Any] = weakref.WeakSet()

    def ask(self, op: str, shown: str = "", **given: Any) -> Any:
        """Send a request and return its value. Raises `OSError` with the host's reason."""
        answer = self._channel.ask({"t": "file", "op": op, **given})
        if "errno" in answer:
            number = getattr(errno, answer["errno"], errno.EIO)
            raise OSError(number, answer["text"], *((shown,) if shown else ()))
        return answer["value"]

    def path(self, given: Any) -> tuple[str, str]:
        """Return a path as the host expects it, and as the program gave it."""
        shown = os.fspath(given)
        if isinstance(shown, bytes):
            shown = shown.decode("utf-8", "surrogateescape")
        if not shown:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", shown)
        if "\0" in shown:
            raise ValueError("embedded null byte")
        whole = posixpath.normpath(posixpath.join(self._folder, shown))
        return "/" + whole.lstrip("/"), shown

    def on(self, op: str, given: Any, **more: Any) -> Any:
        """Send a request about a path and return its value."""
        path, shown = self.path(given)
        return self.ask(op, shown, path=path, **more)

    # Replacements of functions of `os`

    def getcwd(self) -> str:
        return self._folder

    def chdir(self, path: Any) -> None:
        if not stat.S_ISDIR(self.stat(path).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, "Not a directory", path)
        self._folder = self.path(path)[0]

    def stat(self, path: Any, *, dir_fd: None = None, follow_symlinks: bool = True) -> os.stat_result:
        return _stat_result(self.on("stat", path))

    def lstat(self, path: Any, *, dir_fd: None = None) -> os.stat_result:
        return _stat_result(self.on("stat", path))

    def access(self, path: Any, mode: int, **_: Any) -> bool:
        try:
            self.on("stat", path)
        except OSError:
            return False
        return True

    def listdir(self, path: Any = ".") -> list[str]:
        return [name for name, _ in self.on("list", path)]

    def scandir(self, path: Any = ".") -> _Entries:
        shown = os.fspath(path)
        return _Entries(HostEntry(self, shown, name, kind) for name, kind in self.on("list", path))

    def mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: None = None) -> None:
        self.on("mkdir", path)

    def rmdir(self, path: Any, *, dir_fd: None = None) -> None:
        self.on("rmdir", path)

    def remove(self, path: Any, *, dir_fd: None = None) -> None:
        self.on("remove", path)

    def rename(self, source: Any, target: Any, **_: Any) -> None:
        self.on("rename", source, target=self.path(target)[0])

    def readlink(self, path: Any, *, dir_fd: None = None) -> str:
        self.on("stat", path)
        raise OSError(errno.EINVAL, "Invalid argument", path)

    def open(
        self,
        file: Any,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        closefd: bool = True,
        opener: Any = None,
    ) -> Any:
        """Open a file, as the built-in function does."""
        kinds = set(mode)
        binary = "b" in kinds
        if kinds - set("axrwb+t") or len(mode) > len(kinds) or len(kinds & set("axrw")) != 1 or {"b", "t"} <= kinds:
            raise ValueError("invalid mode: %r" % mode)
        if binary and (encoding or errors or newline is not None):
            raise ValueError("binary mode doesn't take an encoding, errors or newline argument")
        if buffering == 0 and not binary:
            raise ValueError("can't have unbuffered text I/O")
        if isinstance(file, int):
            raise OSError(errno.EBADF, "this engine opens files by their paths only")
        raw = HostFile(self, file, "".join(sorted(kinds & set("axrw+"))))
        if buffering == 0:
            return raw
        size = buffering if buffering > 1 else _BUFFER_BYTES
        if "+" in kinds:
            buffer: Any = io.BufferedRandom(raw, size)
        else:
            buffer = io.BufferedReader(raw, size) if "r" in kinds else io.BufferedWriter(raw, size)
        self._opened.add(buffer)
        if binary:
            return buffer
        text = io.TextIOWrapper(buffer, encoding or "utf-8", errors, newline, line_buffering=buffering == 1)
        text.mode = mode  # type: ignore[misc]
        self._opened.add(text)
        return text

    def flush(self) -> None:
        """Flush all open files, text before the binary buffers below."""
        for file in sorted(self._opened, key=lambda file: not isinstance(file, io.TextIOWrapper)):
            if not file.closed and file.writable():
                file.flush()

    def open_code(self, path: str) -> Any:
        """Open a module's file for import."""
        return self.open(path, "rb")


class HostFile(io.RawIOBase):
    """A file that the host has opened for the program."""

    def __init__(self, files: HostFiles, name: Any, mode: str) -> None:
        self.name = name
        self.mode = mode
        self._files = files
        self._handle = -1
        self._handle = files.on("open", name, mode=mode)
        self._at = self._size() if "a" in mode else 0

    def readable(self) -> bool:
        return "r" in self.mode or "+" in self.mode

    def writable(self) -> bool:
        return "r" not in self.mode or "+" in self.mode

    def seekable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._handle + _FIRST_NUMBER

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        self._check_open()
        base = (0, self._at)[whence] if whence < 2 else self._size()
        if base + offset < 0:
            raise OSError(errno.EINVAL, "Invalid argument")
        self._at = base + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        self._check_open()
        if not self.readable():
            raise io.UnsupportedOperation("not readable")
        view = memoryview(buffer).cast("B")
        data = self._files.ask("read", handle=self._handle, at=self._at, size=min(len(view), _READ_BYTES))
        view[: len(data)] = data
        self._at += len(data)
        return len(data)

    def readall(self) -> bytes:
        pieces = []
        while piece := self.read(_READ_BYTES):
            pieces.append(piece)
        return b"".join(pieces)

    def write(self, data: Any) -> int:
        self._check_open()
        if not self.writable():
            raise io.UnsupportedOperation("not writable")
        piece = bytes(memoryview(data).cast("B")[:_BUFFER_BYTES])
        self._at = self._files.ask("write", handle=self._handle, at=self._at, data=piece)
        return len(piece)

    def truncate(self, size: int | None = None) -> int:
        self._check_open()
        if not self.writable():
            raise io.UnsupportedOperation("not writable")
        wanted = self._at if size is None else size
        self._files.ask("truncate", handle=self._handle, size=wanted)
        return wanted

    def close(self) -> None:
        if not self.closed:
            try:
                super().close()
            finally:
                if self._handle >= 0:
                    self._files.ask("close", handle=self._handle)

    def _size(self) -> int:
        size: int = self._files.ask("size", handle=self._handle)
        return size

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")


class HostEntry:
    """A directory's entry, as `os.scandir` yields it."""

    def __init__(self, files: HostFiles, folder: str, name: str, kind: str) -> None:
        self.name = name
        self.path = posixpath.join(folder, name)
        self._files = files
        self._kind = kind

    def __fspath__(self) -> str:
        return self.path

    def __repr__(self) -> str:
        return "<DirEntry %r>" % self.name

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return self._kind == "folder"

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        return self._kind == "file"

    def is_symlink(self) -> bool:
        return self._kind == "link"

    def is_junction(self) -> bool:
        return False

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        return self._files.stat(self.path)


class _Entries:
    def __init__(self, entries: Iterator[HostEntry]) -> None:
        self._entries = entries

    def __iter__(self) -> _Entries:
        return self

    def __next__(self) -> HostEntry:
        return next(self._entries)

    def __enter__(self) -> _Entries:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._entries = iter(())


def _stat_result(status: dict[str, Any]) -> os.stat_result:
    kind = {"folder": stat.S_IFDIR | 0o755, "file": stat.S_IFREG | 0o644, "link": stat.S_IFLNK | 0o777}
    mode = kind.get(status["kind"], stat.S_IFIFO | 0o644)
    when = status["modified"]
    return os.stat_result((mode, status["inode"], 0, 1, 0, 0, status["size"], int(when), int(when), int(when)))


def install(files: HostFiles, write: Any) -> None:
    """Replace the interpreter's file functions; `write` is called with data for the descriptors 1 and 2."""
    functions = {name: getattr(files, name) for name in _REPLACED}
    functions |= {"unlink": files.remove, "replace": files.rename, "write": write}
    for module in (os, posix):  # the import system uses posix
        vars(module).update(functions)
    builtins.open = io.open = files.open
    io.open_code = _io.open_code = files.open_code
    sys.path[:] = ["/workspace"]  # all other modules have been imported already
    sys.path_importer_cache.clear()
    sys.dont_write_bytecode = True
