"""What a sandbox of ours asks of the place where its files are: a folder of this machine, or one that an agent has."""

from __future__ import annotations

from typing import Protocol

from actbox.core.limits import Limits
from actbox.core.result import Artifact

from .contract import FileInfo


class Output(Protocol):
    """What `/output` had in it when a run began, so that at its end only what it created or changed is collected."""

    async def collect_if_any(self) -> tuple[list[Artifact], list[str]]:
        """Return the new and changed files sorted by name, and a sentence for each thing that was left out."""

    def close(self) -> None:
        """Let go of it; a collection that is under way goes on."""


class Storage(Protocol):
    """The file methods of a sandbox. All of them block, but for those that say that they do not.

    They raise `FileError`, `InvalidValue` for what is no path in the workspace, and `SandboxStopped`.
    """

    @property
    def root(self) -> str:
        """Where the workspace lies for a program."""

    def close(self) -> None:
        """Let go of it, without blocking; what is under way goes on, what comes later raises."""

    def mark_output(self, limits: Limits) -> Output:
        """Note what lies in `output` now; where it is no folder any more it is made anew, with a warning."""

    def mark_empty_output(self, limits: Limits) -> Output | None:
        """Do as `mark_output` without blocking, if there is nothing in `output`; else return `None`."""

    def trace(self) -> object:
        """Return what is otherwise once something was done here, `None` where nobody can tell. Does not block."""

    def read(self, path: str) -> bytes:
        """Return a regular file's content."""

    def write(self, path: str, data: bytes) -> None:
        """Create or replace a file at once."""

    def remove(self, path: str, recursive: bool) -> None:
        """Remove a file, a link, an empty folder, or with `recursive` a folder and all below it."""

    def list(self, path: str, recursive: bool) -> list[FileInfo]:
        """Return the entries of a folder, sorted by path."""

    def stat(self, path: str) -> FileInfo:
        """Describe one entry."""

    def make_dir(self, path: str) -> None:
        """Make a folder and its parents."""

    def move(self, source: str, target: str) -> None:
        """Rename within the workspace."""
