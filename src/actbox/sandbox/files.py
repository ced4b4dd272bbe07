"""The file methods of sandboxes and sessions whose workspace is a directory that this process has open."""

from __future__ import annotations

import io
import json
from abc import abstractmethod
from collections.abc import Callable, Iterator
from errno import EIO
from typing import Any, ParamSpec, TypeVar

from actbox.core.errors import FileError, InvalidValue
from actbox.core.labels import PUBLIC, Label, label_of
from actbox.core.program import Program

from .blocking import run_blocking
from .storage import FileInfo, Files, Storage, refuse_label
from .taint import LabelRefused, Taint

P = ParamSpec("P")
T = TypeVar("T")
MOST_LISTED = 64 * 2**20
"""The most bytes of JSON accepted as a guest's list of files."""
# `json.loads` holds the GIL for a whole line. A path of the deepest nesting takes less than this.
_MOST_LINE = 512 * 1024
_MOST_SIZE = 2**63  # of a file in bytes, and of a time in seconds: both are signed 64-bit numbers


def check_written(data: object, mode: object) -> None:
    """Raise `InvalidValue` for data or a mode that `write_file` cannot write."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise InvalidValue(f"write_file() takes bytes, not {type(data).__name__}; write_text() takes text")
    if mode is not None and (type(mode) is not int or not 0 <= mode <= 0o777):
        raise InvalidValue(f"write_file() takes permission bits as mode, from 0 to 0o777, not {_shown_mode(mode)}")


def _shown_mode(mode: object) -> str:
    return oct(mode) if type(mode) is int else repr(mode)


def info_of(entry: object) -> FileInfo | None:
    """Return a guest's entry for one file (an `Entry` of `guest/tree.py`) as a `FileInfo`, `None` if it is invalid."""
    match entry:
        case [str() as path, "file" | "folder" | "link" | "other" as kind, size, modified, mode, str() as target]:
            # By type(), since JSON's `true` is an int to isinstance().
            if type(size) is not int or not 0 <= size < _MOST_SIZE:
                return None
            if not (type(modified) is int or type(modified) is float) or not -_MOST_SIZE < modified < _MOST_SIZE:
                return None  # NaN too
            if mode is not None and (type(mode) is not int or not 0 <= mode <= 0o777):
                return None
            return FileInfo(path=path, kind=kind, size=size, modified=float(modified), mode=mode, target=target)
    return None


def lines_of(data: bytes) -> Iterator[Any]:
    """Yield the JSON values that a guest sent line by line. Raises `FileError` for an invalid or too long line."""
    lines = io.BytesIO(data)
    while line := lines.readline(_MOST_LINE + 1):
        try:
            if len(line) > _MOST_LINE:
                raise ValueError("a line is too long")
            yield json.loads(line)
        except (ValueError, RecursionError) as error:
            raise FileError(EIO, f"the list of files is not JSON: {error}") from None


async def place_files(program: Program, workspace: Storage) -> None:
    """Write a program's files below `input`. Raises `InvalidValue` for a file that cannot be placed there."""
    for name, content in program.files.items():
        data = content.encode() if isinstance(content, str) else content
        try:
            await run_blocking(workspace.write, f"input/{name}", data)
        except FileError as error:
            raise InvalidValue(f"Program.files[{name!r}] cannot be placed: {error.strerror}") from error


class WorkspaceFiles(Files):
    """The file methods over a `Storage`. Each call runs in a thread: files may be large, and their disk slow."""

    @property
    def _taint(self) -> Taint | None:
        """The label of the workspace; `None` on an engine whose programs carry none."""
        return None

    @property
    def label(self) -> Label:
        return PUBLIC if self._taint is None else self._taint.label

    @abstractmethod
    def _running(self) -> Storage:
        """Return the workspace. Raises `SandboxStopped` if the sandbox is not running."""

    async def _files(self, method: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await run_blocking(method, *args, **kwargs)

    async def read_file(self, path: str) -> bytes:
        return await self._files(self._running().read, path)

    async def write_file(
        self, path: str, data: bytes, *, mode: int | None = None, label: Label | str | None = None
    ) -> None:
        check_written(data, mode)
        workspace = self._running()
        if label is not None:
            self._raise_label(label_of(label, "write_file(label=…)"))
        await self._files(workspace.write, path, data, mode)

    def _raise_label(self, label: Label) -> None:
        if self._taint is None:
            refuse_label(label)
            return
        try:
            self._taint.raise_to(label)
        except LabelRefused as refused:
            raise InvalidValue(f"the file was not written: {refused}") from None

    async def remove_file(self, path: str, *, recursive: bool = False) -> None:
        await self._files(self._running().remove, path, recursive)

    async def list_files(self, path: str = ".", *, recursive: bool = False) -> list[FileInfo]:
        return await self._files(self._running().list, path, recursive)

    async def stat(self, path: str) -> FileInfo:
        return await self._files(self._running().stat, path)

    async def make_dir(self, path: str) -> None:
        await self._files(self._running().make_dir, path)

    async def move(self, source: str, target: str) -> None:
        await self._files(self._running().move, source, target)
