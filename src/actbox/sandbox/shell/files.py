"""The file methods over a shell: each sends a request, several for a large file."""

from __future__ import annotations

import asyncio
import errno
import secrets
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from actbox.core.errors import FileError, InvalidValue
from actbox.core.labels import Label
from actbox.sandbox.blocking import run_blocking
from actbox.sandbox.cancellation import whole
from actbox.sandbox.files import MOST_LISTED, check_written, info_of, lines_of
from actbox.sandbox.paths import names_below
from actbox.sandbox.storage import FileInfo, Files, refuse_label

from .responses import AnswerTooLong, ShellError

# The most seconds to remove an unwanted draft; it is also removed with the sandbox.
_DROP_SECONDS = 5.0
_REPLACED = "it was written to while it was read; read it again"


class ShellFiles(Files):
    """The files of a machine behind a shell. Paths are sent as data, never as part of a command."""

    piece_bytes: ClassVar[int] = 4 * 2**20
    """The most bytes of a file sent through the shell at once; as text they are a third more."""
    most_read_bytes: ClassVar[int] = 2**30
    """The largest file that `read_file` returns, whatever the other end sends."""

    @abstractmethod
    async def _reply(self, request: dict[str, Any], payload: bytes | memoryview = b"") -> tuple[dict[str, Any], bytes]:
        """Send a request; return its reply and the bytes that came with it. Raises `ShellError`."""

    @abstractmethod
    def _base(self) -> str:
        """Return the sandbox's directory on that machine. Raises `SandboxStopped` if there is none."""

    async def read_file(self, path: str) -> bytes:
        root, parts = self._place(path)
        pieces: list[bytes] = []
        version: object = None
        start = 0
        while True:
            request = {"do": "read", "root": root, "path": parts, "start": start, "most": self.piece_bytes}
            reply, data = await self._done(path, request)
            start += len(data)
            if start > self.most_read_bytes:
                raise FileError(errno.EFBIG, f"{path}: it has more than {self.most_read_bytes:,} bytes")
            if start > _size_in(reply.get("version")) or (not data and not reply.get("over")):
                raise FileError(errno.EIO, f"{path}: the shell sent something else than was asked for")
            pieces.append(data)
            # Most files come in one piece, which needs no comparison of versions.
            if reply.get("over"):
                if version not in (None, reply.get("version")):
                    raise FileError(errno.EBUSY, f"{path}: {_REPLACED}")
                return pieces[0] if len(pieces) == 1 else b"".join(pieces)
            if version not in (None, reply.get("version")):
                raise FileError(errno.EBUSY, f"{path}: {_REPLACED}")
            version = reply.get("version")

    async def write_file(
        self, path: str, data: bytes, *, mode: int | None = None, label: Label | str | None = None
    ) -> None:
        check_written(data, mode)
        refuse_label(label)
        root, parts = self._place(path)
        await self._write(path, root, parts, data, mode)

    async def remove_file(self, path: str, *, recursive: bool = False) -> None:
        root, parts = self._place(path)
        if not parts:
            raise InvalidValue("the workspace itself cannot be removed here; stop() removes it")
        await self._done(path, {"do": "remove_file", "root": root, "path": parts, "recursive": recursive})

    async def list_files(self, path: str = ".", *, recursive: bool = False) -> list[FileInfo]:
        root, parts = self._place(path)
        request = {"do": "list", "root": root, "path": parts, "recursive": recursive, "most": MOST_LISTED}
        _, data = await self._done(path, request)
        return await run_blocking(_listed, path, data)

    async def stat(self, path: str) -> FileInfo:
        root, parts = self._place(path)
        reply, _ = await self._done(path, {"do": "stat", "root": root, "path": parts})
        return _info(path, reply.get("ok"))

    async def make_dir(self, path: str) -> None:
        root, parts = self._place(path)
        await self._done(path, {"do": "make_dir", "root": root, "path": parts})

    async def move(self, source: str, target: str) -> None:
        root, parts = self._place(source)
        _, to = self._place(target)
        await self._done(source, {"do": "move", "root": root, "path": parts, "target": to})

    def _place(self, path: str) -> tuple[str, tuple[str, ...]]:
        root = f"{self._base()}/workspace"
        return root, names_below(root, path)

    async def _write(
        self,
        path: str,
        root: str,
        parts: Sequence[str],
        data: bytes | bytearray | memoryview,
        mode: int | None = None,
    ) -> None:
        """Write a file below `root`: piece by piece into a draft, which replaces the file when it is complete."""
        draft = f"{self._base()}/drafts/{secrets.token_hex(16)}"
        request: dict[str, Any] = {"do": "write", "root": root, "path": parts, "draft": draft, "mode": mode}
        view = memoryview(data).cast("B")
        start = 0
        try:
            while True:
                piece = view[start : start + self.piece_bytes]
                is_last = start + len(piece) == len(view)
                await self._done(path, request | {"start": start, "bytes": len(piece), "last": is_last}, piece)
                start += len(piece)
                if is_last:
                    return
        except BaseException:
            if start:  # else the request has removed it
                await whole(self._drop(draft))
            raise

    async def _drop(self, draft: str) -> None:
        try:
            async with asyncio.timeout(_DROP_SECONDS):
                await self._reply({"do": "drop", "draft": draft})
        except (ShellError, TimeoutError):
            return  # the drafts' directory is removed with the sandbox

    async def _done(
        self, path: str, request: dict[str, Any], payload: bytes | memoryview = b""
    ) -> tuple[dict[str, Any], bytes]:
        try:
            reply, data = await self._reply(request, payload)
        except ShellError as error:
            if isinstance(error, AnswerTooLong) and request["do"] == "list":
                too_long = f"the list has more than {request['most']:,} bytes; list one directory at a time"
                raise FileError(errno.EFBIG, f"{path}: {too_long}") from error
            raise FileError(errno.EIO, f"{path}: {error}") from error
        if "errno" in reply:
            number, why = reply["errno"], reply.get("why")
            raise FileError(number if isinstance(number, int) else errno.EIO, f"{path}: {why}")
        return reply, data


def _listed(path: str, data: bytes) -> list[FileInfo]:
    """Return the entries of a directory, sorted by path. Call it in a worker thread."""
    return sorted((_info(path, entry) for entry in lines_of(data)), key=lambda entry: entry.path)


def _info(path: str, entry: object) -> FileInfo:
    info = info_of(entry)
    if info is None:
        raise FileError(errno.EIO, f"{path}: the shell's description of a file makes no sense")
    return info


def _size_in(version: object) -> int:
    """Return the size of a file that was read, from the version in the reply."""
    match version:
        case [_, _, int() as size, _, _]:
            return size
        case _:
            return -1
