"""The file methods of what has no files."""

from __future__ import annotations

from typing import NoReturn

from actbox.core.errors import Unsupported
from actbox.sandbox.contract import FileInfo, Files

NO_FILES = "the rtfs engine has no files, since its programs cannot name any; give data as Program(…, inputs=…)"


class NoFiles(Files):
    """Raises `Unsupported` from each of the methods."""

    @property
    def root(self) -> str:
        return "/workspace"

    async def read_file(self, path: str) -> NoReturn:
        raise Unsupported(NO_FILES)

    async def write_file(self, path: str, data: bytes) -> NoReturn:
        raise Unsupported(NO_FILES)

    async def remove_file(self, path: str, *, recursive: bool = False) -> NoReturn:
        raise Unsupported(NO_FILES)

    async def list_files(self, path: str = ".", *, recursive: bool = False) -> list[FileInfo]:
        raise Unsupported(NO_FILES)

    async def stat(self, path: str) -> NoReturn:
        raise Unsupported(NO_FILES)

    async def make_dir(self, path: str) -> NoReturn:
        raise Unsupported(NO_FILES)

    async def move(self, source: str, target: str) -> NoReturn:
        raise Unsupported(NO_FILES)
