"""Files of a sandbox: `Files` is the callers' interface, `Storage` the interface to the place that holds them.

That place is a directory of this machine, or one behind an agent process elsewhere.
"""

from __future__ import annotations

import codecs
from abc import ABC, abstractmethod
from typing import Final, Literal, Protocol

from actbox.core.errors import InvalidValue, Unsupported
from actbox.core.labels import PUBLIC, Label
from actbox.core.lazy_dataclass import dataclass
from actbox.core.limits import Limits
from actbox.core.result import Artifact

from .blocking import run_blocking

DECODED_AT_ONCE: Final = 2**20
"""Files up to this many bytes are decoded as text in one step, longer ones in a thread, step by step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileInfo:
    """One entry of the workspace: `path` relative to `/workspace`, `size` in bytes, `modified` as Unix time.

    `mode` are the permission bits, such as 0o644; `None` if the engine's files have none. `target` is the path that a
    link names, as written in the link; "" for anything else.
    """

    path: str
    kind: Literal["file", "folder", "link", "other"]
    size: int
    modified: float
    mode: int | None = None
    target: str = ""


class Files(ABC):
    """The files below `/workspace`, read and written by the host.

    A path is relative to `/workspace`, or absolute below it (or `/input`, `/output`). No method follows a link.
    Failures raise `FileError`, with the errno of the operating system if it gave one.
    """

    @property
    @abstractmethod
    def root(self) -> str:
        """The path of the workspace as programs see it: `/workspace` on every engine that can place it there."""

    @property
    def label(self) -> Label:
        """The label of the workspace: the join of what its programs could have read so far; `public` before the start.

        Every file in it counts as having this label.
        """
        return PUBLIC

    @abstractmethod
    async def read_file(self, path: str) -> bytes:
        """Return a file's content."""

    @abstractmethod
    async def write_file(
        self, path: str, data: bytes, *, mode: int | None = None, label: Label | str | None = None
    ) -> None:
        """Create or replace a file and make its parent directories; also below `/input`, which programs cannot write.

        `mode` are the file's permission bits, such as 0o755. Without it a replaced file keeps its mode, and a new one
        has 0o644. Raises `Unsupported` for a mode if the engine's files have none. `label` is the label of the content:
        before it is written, that of the workspace is raised. Raises `Unsupported` for a label above `public` if the
        engine's programs carry none, and `InvalidValue` if an `rw` mount is not cleared for it.
        """

    @abstractmethod
    async def remove_file(self, path: str, *, recursive: bool = False) -> None:
        """Remove a file, a link or an empty directory; with `recursive` a directory and everything below it."""

    @abstractmethod
    async def list_files(self, path: str = ".", *, recursive: bool = False) -> list[FileInfo]:
        """Return the entries of a directory, sorted by path."""

    @abstractmethod
    async def stat(self, path: str) -> FileInfo:
        """Return one entry; a link itself is described, not its target."""

    @abstractmethod
    async def make_dir(self, path: str) -> None:
        """Make a directory and its parents; an existing directory is no error."""

    @abstractmethod
    async def move(self, source: str, target: str) -> None:
        """Rename an entry within the workspace, making the target's parents and replacing a file that is there."""

    async def read_text(self, path: str) -> str:
        """Return a file's content as UTF-8 text."""
        data = await self.read_file(path)
        return data.decode("utf-8") if len(data) <= DECODED_AT_ONCE else await run_blocking(_decoded, data)

    async def write_text(self, path: str, text: str, *, label: Label | str | None = None) -> None:
        """Create or replace a UTF-8 text file; `label` is as in `write_file`."""
        try:
            data = text.encode("utf-8")
        except (AttributeError, UnicodeEncodeError) as error:
            raise InvalidValue(f"write_text() takes text that UTF-8 can encode: {error}") from None
        if label is None:  # engines that carry no labels may lack the argument
            await self.write_file(path, data)
        else:
            await self.write_file(path, data, label=label)


def refuse_label(label: Label | str | None) -> None:
    """Raise `Unsupported` for a label above `public`, on an engine whose programs carry none."""
    if label is not None and Label(label) != PUBLIC:
        raise Unsupported("files of this engine carry no labels; those of the linux and container engines do")


def _decoded(data: bytes) -> str:
    decoder = codecs.getincrementaldecoder("utf-8")()
    starts = range(0, len(data), DECODED_AT_ONCE)
    try:
        parts = [decoder.decode(data[start : start + DECODED_AT_ONCE]) for start in starts]
        return "".join([*parts, decoder.decode(b"", final=True)])
    except UnicodeDecodeError:
        return data.decode("utf-8")  # raises the error with its position in the whole file


class Output(Protocol):
    """The content of `/output` when a run began, so that only files created or changed since are collected."""

    async def collect_if_any(self) -> tuple[list[Artifact], list[str]]:
        """Return the new and changed files sorted by name, and one sentence for each omission."""

    def close(self) -> None:
        """Release the directory; a collection under way finishes."""


class Storage(Protocol):
    """The file methods of a sandbox. All of them block unless their docstring says otherwise.

    They raise `FileError`, `InvalidValue` for a path outside the workspace, and `SandboxStopped`.
    """

    @property
    def root(self) -> str:
        """The path of the workspace as programs see it."""

    def close(self) -> None:
        """Release the files without blocking; calls under way finish, later calls raise."""

    def mark_output(self, limits: Limits) -> Output:
        """Record the content of `output` now; if `output` is no directory any more it is made anew, with a warning."""

    def mark_empty_output(self, limits: Limits) -> Output | None:
        """Do as `mark_output` without blocking if `output` is empty; else return `None`."""

    def trace(self) -> object:
        """Return a change marker. Equal markers mean untouched files; `None` means unknown. Does not block."""

    def read(self, path: str) -> bytes:
        """Return a regular file's content."""

    def write(self, path: str, data: bytes, mode: int | None = None) -> None:
        """Create or replace a file atomically.

        Without `mode` a replaced file keeps its mode, and a new one has 0o644.
        """

    def remove(self, path: str, recursive: bool) -> None:
        """Remove a file, a link or an empty directory, or with `recursive` a directory and everything below it."""

    def list(self, path: str, recursive: bool) -> list[FileInfo]:
        """Return the entries of a directory, sorted by path."""

    def stat(self, path: str) -> FileInfo:
        """Return one entry."""

    def make_dir(self, path: str) -> None:
        """Make a directory and its parents."""

    def move(self, source: str, target: str) -> None:
        """Rename an entry within the workspace, replacing a file that is there."""
