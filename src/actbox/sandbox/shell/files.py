"""The file methods over a shell: each is an errand, large files are several."""

from __future__ import annotations

import asyncio
import errno
import secrets
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from actbox.core.errors import FileError, InvalidValue
from actbox.sandbox.contract import FileInfo, Files
from actbox.sandbox.paths import names_below
from actbox.sandbox.whole import whole

from .answers import ShellError

_KINDS = ("file", "folder", "link", "other")
# How long a draft that nobody wants any more may take to be gone; it goes with the sandbox too.
_DROP_SECONDS = 5.0
_REPLACED = "it was written to while it was read; read it again"


class ShellFiles(Files):
    """Files of a machine that is reached by errands. All paths are told as data."""

    piece_bytes: ClassVar[int] = 4 * 2**20
    """How much of a file goes through the shell at once; as text it is a third more."""
    most_read_bytes: ClassVar[int] = 2**30
    """The largest file that `read_file` returns; whatever the other end says, this process takes no more."""

    @abstractmethod
    async def _reply(self, request: dict[str, Any], payload: bytes | memoryview = b"") -> tuple[dict[str, Any], bytes]:
        """Have an errand done; return its reply and what bytes came with it. Raises `ShellError`."""

    @abstractmethod
    def _base(self) -> str:
        """Return the sandbox's folder on that machine. Raises `SandboxStopped` where there is none."""

    async def read_file(self, path: str) -> bytes:
        root, parts = self._place(path)
        pieces: list[bytes] = []
        version: object = None
        start = 0
        while True:
            request = {"do": "read", "root": root, "parts": parts, "start": start, "most": self.piece_bytes}
            reply, data = await self._done(path, request)
            start += len(data)
            if start > self.most_read_bytes:
                raise FileError(errno.EFBIG, f"{path}: it has more than {self.most_read_bytes:,} bytes")
            if start > _size_in(reply.get("version")) or (not data and not reply.get("over")):
                raise FileError(errno.EIO, f"{path}: the shell sent something else than was asked for")
            pieces.append(data)
            # Most files come in one piece, and are then what they were when it was read.
            if reply.get("over"):
                if version not in (None, reply.get("version")):
                    raise FileError(errno.EBUSY, f"{path}: {_REPLACED}")
                return pieces[0] if len(pieces) == 1 else b"".join(pieces)
            if version not in (None, reply.get("version")):
                raise FileError(errno.EBUSY, f"{path}: {_REPLACED}")
            version = reply.get("version")

    async def write_file(self, path: str, data: bytes) -> None:
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise InvalidValue(f"write_file() takes bytes, not {type(data).__name__}; write_text() takes text")
        root, parts = self._place(path)
        await self._write(path, root, parts, data)

    async def remove_file(self, path: str, *, recursive: bool = False) -> None:
        root, parts = self._place(path)
        if not parts:
            raise InvalidValue("the workspace itself cannot be removed; stop() does that")
        await self._done(path, {"do": "remove_file", "root": root, "parts": parts, "recursive": recursive})

    async def list_files(self, path: str = ".", *, recursive: bool = False) -> list[FileInfo]:
        root, parts = self._place(path)
        request = {"do": "list", "root": root, "parts": parts, "recursive": recursive}
        return sorted(await self._entries(path, request), key=lambda entry: entry.path)

    async def stat(self, path: str) -> FileInfo:
        root, parts = self._place(path)
        (entry,) = await self._entries(path, {"do": "stat", "root": root, "parts": parts})
        return entry

    async def make_dir(self, path: str) -> None:
        root, parts = self._place(path)
        await self._done(path, {"do": "make_dir", "root": root, "parts": parts})

    async def move(self, source: str, target: str) -> None:
        root, parts = self._place(source)
        _, to = self._place(target)
        await self._done(source, {"do": "move", "root": root, "parts": parts, "to": to})

    def _place(self, path: str) -> tuple[str, tuple[str, ...]]:
        root = f"{self._base()}/workspace"
        return root, names_below(root, path)

    async def _write(self, path: str, root: str, parts: Sequence[str], data: bytes | bytearray | memoryview) -> None:
        """Write a file below `root`: piece by piece into a draft, which takes its place when it is whole."""
        draft = f"{self._base()}/drafts/{secrets.token_hex(16)}"
        request: dict[str, Any] = {"do": "write", "root": root, "parts": parts, "draft": draft}
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
            if start:  # else the errand has seen to it
                await whole(self._drop(draft), _nothing)
            raise

    async def _drop(self, draft: str) -> None:
        try:
            async with asyncio.timeout(_DROP_SECONDS):
                await self._reply({"do": "drop", "draft": draft})
        except (ShellError, TimeoutError):
            return  # the folder of the drafts goes with the sandbox

    async def _entries(self, path: str, request: dict[str, Any]) -> list[FileInfo]:
        reply = await self._done(path, request)
        entries: list[FileInfo] = []
        given = reply[0].get("entries")
        for entry in given if isinstance(given, list) else [None]:
            match entry:
                case [str() as name, str() as kind, int() as size, int() | float() as modified] if kind in _KINDS:
                    entries.append(FileInfo(path=name, kind=kind, size=size, modified=float(modified)))  # type: ignore[arg-type]
                case _:
                    raise FileError(errno.EIO, f"{path}: the shell's answer is no list of files")
        return entries

    async def _done(
        self, path: str, request: dict[str, Any], payload: bytes | memoryview = b""
    ) -> tuple[dict[str, Any], bytes]:
        try:
            reply, data = await self._reply(request, payload)
        except ShellError as error:
            raise FileError(errno.EIO, f"{path}: {error}") from error
        if "errno" in reply:
            number, why = reply["errno"], reply.get("why")
            raise FileError(number if isinstance(number, int) else errno.EIO, f"{path}: {why}")
        return reply, data


def _size_in(version: object) -> int:
    """Return how many bytes a file has that was read, as the errand says it."""
    match version:
        case [_, _, int() as size, _, _]:
            return size
        case _:
            return -1


async def _nothing(_: None) -> None:
    return
