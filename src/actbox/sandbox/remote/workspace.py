"""The files of a sandbox at an agent, which opens each path step by step, so that no link leads out of the workspace.

`/input` may lie on the host instead: a directory that the sandbox shows read-only, and that the host writes to.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

from actbox.core.errors import FileError, InvalidValue, SandboxStopped
from actbox.core.limits import Limits
from actbox.core.result import Artifact
from actbox.sandbox.artifacts import MADE_ANEW, Candidate, LeftOut, choose, shown
from actbox.sandbox.blocking import run_blocking
from actbox.sandbox.files import MOST_LISTED, info_of, lines_of
from actbox.sandbox.paths import NO_FOLDER, errors_naming, names_below
from actbox.sandbox.storage import FileInfo
from actbox.sandbox.workspace import Workspace

from .connection import Connection
from .files import ask, begin

_MIB = 2**20


class RemoteWorkspace:
    """A `Storage` at an agent. `most_mib` is the largest file accepted, so that no agent takes more of our memory."""

    def __init__(
        self,
        connection: Callable[[], Connection],
        root: str,
        *,
        most_mib: int,
        input_folder: Workspace | None = None,
        is_quiet: Callable[[], bool] = lambda: False,
    ) -> None:
        """`connection` returns the connection to the present agent; it raises `FileError` if there is none.

        `input_folder` is the host's own directory that programs see at `input`, whose paths begin with `input/`.
        `is_quiet` returns whether no program can be changing the files now.
        """
        self.root = root
        self._connection = connection
        self._most = most_mib * _MIB
        self._input = input_folder
        self._is_quiet = is_quiet
        self._closed = False
        self._marks = itertools.count(1)
        self._lock = threading.Lock()
        self._changes = 0
        self._known_empty_at = 0
        """The value of `_changes` when `output` was last known to be empty; a new workspace is empty."""

    def close(self) -> None:
        """Refuse later calls."""
        self._closed = True
        if self._input is not None:
            self._input.close()

    def trace(self) -> object:
        """Return `None`: computing a change marker would take too long."""
        return None

    def read(self, path: str) -> bytes:
        """Return a regular file's content."""
        names = self._names(path)
        if (mine := self._at_input(names)) is not None:
            try:
                return mine.read(path)
            except FileError as error:
                if error.errno not in NO_FOLDER:  # else it may lie in a mount below it
                    raise
        with errors_naming(path):
            return self._read(names, self._most)

    def write(self, path: str, data: bytes, mode: int | None = None) -> None:
        """Create or replace a file atomically."""
        names = self._names(path)
        if (mine := self._at_input(names)) is not None:
            mine.write(path, data, mode)
            return
        self._touch()
        with errors_naming(path):
            self._ask({"op": "write", "path": names, "mode": mode}, content=data)

    def remove(self, path: str, recursive: bool) -> None:
        """Remove a file, a link or an empty directory, or with `recursive` a directory and everything below it."""
        names = self._names(path)
        if not names:
            raise InvalidValue("the workspace itself cannot be removed here; stop() removes it")
        if (mine := self._at_input(names)) is not None:
            if len(names) > 1:
                mine.remove(path, recursive)
                return
            for entry in mine.list(path, recursive=False) if recursive else ():  # mounts in it stay
                mine.remove(f"input/{entry.path}", recursive=True)
            if not recursive:
                raise FileError(errno.EBUSY, f"{path}: every run has this directory; with recursive=True it is emptied")
            return
        self._touch()
        with errors_naming(path):
            self._ask({"op": "remove", "path": names, "recursive": recursive})

    def list(self, path: str, recursive: bool) -> list[FileInfo]:
        """Return the entries of a directory, sorted by path."""
        names = self._names(path)
        with errors_naming(path):
            _, data = self._ask({"op": "list", "path": names, "recursive": recursive}, most=MOST_LISTED)
            return sorted(map(_info, lines_of(data)), key=lambda entry: entry.path)

    def stat(self, path: str) -> FileInfo:
        """Return one entry."""
        names = self._names(path)
        with errors_naming(path):
            return _info(self._ask({"op": "stat", "path": names})[0])

    def make_dir(self, path: str) -> None:
        """Make a directory and its parents."""
        names = self._names(path)
        if (mine := self._at_input(names)) is not None:
            mine.make_dir(path)
            return
        self._touch()
        with errors_naming(path):
            self._ask({"op": "make_dir", "path": names})

    def move(self, source: str, target: str) -> None:
        """Rename within the workspace; only files can be moved into and out of the host's own input directory."""
        names, other = self._names(source), self._names(target)
        ours = self._at_input(names), self._at_input(other)
        if ours == (None, None):
            self._touch()
            with errors_naming(source):
                self._ask({"op": "move", "path": names, "target": other})
        elif None not in ours:
            assert self._input is not None
            self._input.move(source, target)
        elif (info := self.stat(source)).kind != "file":
            raise FileError(errno.EXDEV, f"{source}: only files can be moved into /input and out of it")
        else:
            self.write(target, self.read(source), info.mode)
            self.remove(source, False)

    def mark_output(self, limits: Limits) -> RemoteOutput:
        """Have the agent record the content of `output` now."""
        number = next(self._marks)
        made_anew, _ = self._ask({"op": "mark", "marks": number})
        self._touch()
        return RemoteOutput(self, number, limits, [MADE_ANEW] if made_anew is True else [])

    def mark_empty_output(self, limits: Limits) -> RemoteOutput | None:
        """Do as `mark_output` without asking the agent if `output` is known to be empty; else return `None`."""
        with self._lock:
            if self._closed or self._changes != self._known_empty_at:
                return None
            self._changes += 1  # the run that now begins may do something
        return RemoteOutput(self, 0, limits, [])

    def collected(self, changes: int, is_empty: bool) -> None:
        """Record whether `output` was empty after a collection; `changes` is the count from before the collection."""
        with self._lock:
            is_known = is_empty and self._changes == changes and self._is_quiet()
            self._known_empty_at = changes if is_known else -1

    @property
    def changes(self) -> int:
        """The number of operations so far that may have changed `output`."""
        return self._changes

    def begin(self, request: dict[str, Any], most: int = 0) -> Future[tuple[Any, bytes]]:
        """Start an operation of the agent. Raises `FileError` and `SandboxStopped`."""
        self._check_open()
        return begin(self._connection(), request, most=most)

    def read_output(self, path: str, most: int) -> bytes:
        """Return at most `most` bytes of a file below `output`. Raises `OSError`."""
        return self._read(("output", *path.split("/")), most)

    def _read(self, names: tuple[str, ...], most: int) -> bytes:
        return self._ask({"op": "read", "path": names, "most": most}, most=most)[1]

    def _touch(self) -> None:
        with self._lock:
            self._changes += 1

    def _names(self, path: str) -> tuple[str, ...]:
        self._check_open()
        return names_below(self.root, path)

    def _check_open(self) -> None:
        if self._closed:
            raise SandboxStopped("the sandbox was stopped meanwhile")

    def _at_input(self, names: tuple[str, ...]) -> Workspace | None:
        return self._input if names[:1] == ("input",) and self._input is not None else None

    def _ask(self, request: dict[str, Any], *, content: bytes = b"", most: int = 0) -> tuple[Any, bytes]:
        self._check_open()
        return ask(self._connection(), request, content=content, most=most)


class RemoteOutput:
    """An `Output` whose change markers the agent keeps, under a number; 0 means `output` was empty."""

    def __init__(self, workspace: RemoteWorkspace, number: int, limits: Limits, warnings: list[str]) -> None:
        self._workspace = workspace
        self._number = number
        self._limits = limits
        self._warnings = warnings
        self._collected = False

    async def collect_if_any(self) -> tuple[list[Artifact], list[str]]:
        """Ask the agent for new and changed files, then for the content of each that may be an artifact."""
        self._collected = True
        changes = self._workspace.changes
        try:
            asked = self._workspace.begin({"op": "collect", "marks": self._number}, MOST_LISTED)
            outcome, data = await asyncio.wrap_future(asked)
        except (OSError, SandboxStopped) as error:
            return [], [*self._warnings, f"output/ was not collected: {getattr(error, 'strerror', None) or error}"]
        left_out, end, is_empty = _outcome_of(outcome)
        self._workspace.collected(changes, is_empty)
        if is_empty:
            return [], self._warnings
        return await run_blocking(self._read_all, data, left_out, end)

    def close(self) -> None:
        """Have the agent drop its markers, if nothing was collected."""
        if self._number and not self._collected:
            self._collected = True
            with contextlib.suppress(OSError, SandboxStopped):  # the agent has ended, and its markers with it
                self._workspace.begin({"op": "forget", "marks": self._number})

    def _read_all(self, data: bytes, left_out: LeftOut, end: str) -> tuple[list[Artifact], list[str]]:
        artifacts = choose(self._candidates(data), self._limits, left_out)
        if end:
            left_out.end(end)
        return artifacts, [*self._warnings, *left_out.warnings()]

    def _candidates(self, data: bytes) -> Iterator[Candidate]:
        for entry in lines_of(data):
            if type(entry) is not list or [type(part) for part in entry] != [str, int]:
                raise FileError(errno.EPROTO, "the agent's list of the output makes no sense")
            path, size = entry
            if ".." in path.split("/"):
                raise FileError(errno.EPROTO, "the agent's list of the output has a path that leads out of it")
            yield Candidate(
                path,
                size if size >= 0 else None,
                lambda most, path=path: self._workspace.read_output(path, most),  # type: ignore[misc]
            )


def _outcome_of(outcome: object) -> tuple[LeftOut, str, bool]:
    """Return a collection's omissions, the reason why it ended early, and whether `output` was empty."""
    left_out = LeftOut()
    if not isinstance(outcome, dict) or type(outcome.get("empty")) is not bool:
        return left_out, "output/ was not collected: the agent's answer makes no sense", False
    for path in outcome.get("left_out") or ():
        if isinstance(path, str):
            left_out.add(f"output/{shown(path)} is nested too deeply and was not collected")
    end = outcome.get("end")
    return left_out, end[:500] if isinstance(end, str) else "", outcome["empty"]


def _info(entry: object) -> FileInfo:
    info = info_of(entry)
    if info is None:
        raise FileError(errno.EPROTO, "the agent's description of a file makes no sense")
    return info
