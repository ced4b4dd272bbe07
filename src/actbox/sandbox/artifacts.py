"""The files that a run left below `/output`: found by descriptor, bounded in every direction, never interpreted."""

from __future__ import annotations

import os
import stat as stat_modes
import threading
from collections.abc import Iterator

from actbox.core.limits import Limits
from actbox.core.result import Artifact

from .blocking import run_blocking
from .choosing import MADE_ANEW, MAX_DEPTH, MAX_ENTRIES, MAX_PATH_CHARACTERS, Candidate, choose
from .left_out import LeftOut, shown
from .regular_file import read_regular

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
Marks = dict[str, tuple[int, int]]
Found = tuple[str, int, os.stat_result]


def is_empty(workspace: int) -> bool:
    """Return whether a workspace's output is a folder with nothing in it."""
    try:
        folder = os.open("output", FOLDER, dir_fd=workspace)
    except OSError:
        return False
    try:
        with os.scandir(folder) as entries:
            return next(entries, None) is None
    finally:
        os.close(folder)


class OutputFolder:
    """What `/output` had in it when a run began, so that at its end only what it created or changed is collected."""

    def __init__(self, workspace: int, limits: Limits, *, known_empty: bool = False, made_anew: bool = False) -> None:
        # One of our own: the sandbox may be stopped, and its descriptor mean something else, before we collect.
        self._workspace = os.dup(workspace)
        self._closing = threading.Lock()
        self._limits = limits
        self._warnings = [MADE_ANEW] if made_anew else []
        self._before: Marks = {}
        for path, _, status in () if known_empty else _Walk(workspace):
            self._before[path] = _mark(status)

    def is_empty(self) -> bool:
        """Return whether there is a folder with nothing in it and nothing to say, looked up without blocking."""
        return not self._warnings and is_empty(self._workspace)

    def close(self) -> None:
        """Let go of the folder; a collection that is under way goes on with a descriptor of its own."""
        with self._closing:
            os.close(self._workspace)
            self._workspace = -1

    def collect(self) -> tuple[list[Artifact], list[str]]:
        """Return the new and changed files sorted by name, and a sentence for each thing that was left out."""
        with self._closing:
            if self._workspace < 0:
                return [], ["output/ was not collected: nobody was left to have it"]
            workspace = os.dup(self._workspace)
        try:
            return self._collect(workspace)
        finally:
            os.close(workspace)

    async def collect_if_any(self) -> tuple[list[Artifact], list[str]]:
        """Do as `collect` in a thread, which takes its time, unless there is nothing to collect."""
        return ([], []) if self.is_empty() else await run_blocking(self.collect)

    def _collect(self, workspace: int) -> tuple[list[Artifact], list[str]]:
        walk = _Walk(workspace)
        artifacts = choose(self._changed(walk), self._limits, walk.left_out)
        return artifacts, [*self._warnings, *walk.left_out.warnings()]

    def _changed(self, walk: _Walk) -> Iterator[Candidate]:
        for path, folder, status in walk:
            if self._before.get(path) != _mark(status):
                name = path.rpartition("/")[2]
                size = status.st_size if stat_modes.S_ISREG(status.st_mode) else None
                yield Candidate(path, size, lambda most, at=folder, name=name: read_regular(at, name, most))  # type: ignore[misc]


def _mark(status: os.stat_result) -> tuple[int, int]:
    # The change time, unlike the modification time, cannot be set by the guest.
    return status.st_ino, status.st_ctime_ns


class _Enough(Exception):
    """There is more than is looked at; the message says so."""


class _Walk:
    """Yields (path, open folder, status) of everything in `/output` but folders; each folder is open meanwhile."""

    def __init__(self, workspace: int) -> None:
        self.left_out = LeftOut()
        self._workspace = workspace
        self._entries = 0
        self._characters = 0

    def __iter__(self) -> Iterator[Found]:
        try:
            yield from self._below(self._workspace, "output", "", 0)
        except _Enough as enough:
            self.left_out.end(str(enough))

    def _below(self, parent: int, name: str, prefix: str, depth: int) -> Iterator[Found]:
        try:
            folder = os.open(name, FOLDER, dir_fd=parent)
        except OSError as error:
            if depth == 0 and not isinstance(error, FileNotFoundError):
                self.left_out.end("output/ is no longer a folder: nothing was collected")
            return
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    path = prefix + entry.name
                    self._count(path)
                    try:
                        status = entry.stat(follow_symlinks=False)
                    except OSError:  # removed meanwhile
                        continue
                    if not stat_modes.S_ISDIR(status.st_mode):
                        yield path, folder, status
                    elif depth < MAX_DEPTH:
                        yield from self._below(folder, entry.name, path + "/", depth + 1)
                    else:
                        self.left_out.add(f"output/{shown(path)} is nested too deeply and was not collected")
        finally:
            os.close(folder)

    def _count(self, path: str) -> None:
        self._entries += 1
        self._characters += len(path)
        if self._entries > MAX_ENTRIES:
            raise _Enough(f"more than {MAX_ENTRIES:,} entries in output/: the rest was not looked at")
        if self._characters > MAX_PATH_CHARACTERS:
            raise _Enough(f"the paths in output/ are long, {self._entries:,} were looked at: the rest was not")
