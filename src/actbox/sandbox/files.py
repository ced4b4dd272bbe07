"""The file methods of sandboxes and sessions whose workspace is a folder that this process has open."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from actbox.core.errors import FileError, InvalidValue
from actbox.core.program import Program

from .blocking import run_blocking
from .contract import FileInfo, Files
from .storage import Storage

P = ParamSpec("P")
T = TypeVar("T")


async def place_files(program: Program, workspace: Storage) -> None:
    """Put the files of a program below `input`. Raises `InvalidValue` for one that does not fit there."""
    for name, content in program.files.items():
        data = content.encode() if isinstance(content, str) else content
        try:
            await run_blocking(workspace.write, f"input/{name}", data)
        except FileError as error:
            raise InvalidValue(f"Program.files[{name!r}] cannot be placed: {error.strerror}") from error


class WorkspaceFiles(Files):
    """Each call in a thread: files may be large, and their disk slow."""

    @abstractmethod
    def _running(self) -> Storage:
        """Return the workspace. Raises `SandboxStopped` where there is none."""

    async def _files(self, method: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await run_blocking(method, *args, **kwargs)

    async def read_file(self, path: str) -> bytes:
        return await self._files(self._running().read, path)

    async def write_file(self, path: str, data: bytes) -> None:
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise InvalidValue(f"write_file() takes bytes, not {type(data).__name__}; write_text() takes text")
        await self._files(self._running().write, path, data)

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
