"""A workspace's files, reached by descriptor and never by path, so that no link inside leads the host out of it.

Every step is a function of `guest/beneath.py`. A guest may move its files at the same time: it can make a call fail,
but not make it touch a file outside.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat as stat_modes
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from actbox.core.errors import FileError, InvalidValue, SandboxStopped
from actbox.core.limits import Limits
from actbox.core.result import Artifact

from .artifacts import MADE_ANEW, Candidate, LeftOut, choose, shown
from .blocking import run_blocking
from .files import info_of
from .guest import beneath
from .guest.beneath import read_file
from .guest.tree import TooMuch, Tree, mark_of
from .paths import errors_naming, names_below, refuse_undecoded
from .storage import FileInfo

if TYPE_CHECKING:
    from .guest.tree import Entry

_STOPPED = "the sandbox was stopped meanwhile"
_FOLDERS = (".", "input", "output")
# The kernel's clock for file times advances in ticks, at least 100 a second. Linux shows that clock itself.
_COARSE_NS = 20_000_000
_FILE_CLOCK = 5 if sys.platform == "linux" else None  # CLOCK_REALTIME_COARSE
Found = tuple[str, int, os.stat_result]


class Workspace:
    """The file methods of a sandbox, over the descriptor of its workspace directory. All methods block."""

    def __init__(
        self,
        descriptor: int,
        root: str,
        owner: tuple[int, int] | None = None,
        *,
        input_descriptor: int | None = None,
        output_in: int | None = None,
        at: tuple[str, ...] = (),
        in_memory: bool = False,
    ) -> None:
        """Take over the descriptors. `owner` is the uid and gid of new files, if not the host's own.

        `input_descriptor` is the directory `input` if it lies elsewhere; the one inside the workspace is then ignored.
        `output_in` is likewise the parent directory of `output`, if not the workspace. `at` is set for a workspace that
        is part of a larger one: the names that lead to it from there, with which every path must begin. `in_memory` is
        set for a tmpfs, whose times are those of this kernel's clock.
        """
        self.root = root
        self._at = at
        self._descriptor = descriptor
        self._input = input_descriptor
        self._output_in = output_in
        self._has_output = descriptor if output_in is None else output_in
        self._owner = owner
        self._in_memory = in_memory
        self._known_empty: tuple[int, ...] | None = None
        """A change marker of `output` that it only has while it is empty; `None` if none is known."""
        self._closing = threading.RLock()
        self._is_closed = False
        self._uses = 1

    def close(self) -> None:
        """Make later calls raise, and close the descriptors once no call or `OutputFolder` uses them any more."""
        with self._closing:
            self._is_closed = True
            self.let_go()

    def hold(self) -> int:
        """Return the descriptor of the directory with `output`, which stays open until `let_go`.

        Raises `SandboxStopped` if the descriptors are closed.
        """
        with self._closing:
            if not self._uses:
                raise SandboxStopped(_STOPPED)
            self._uses += 1
        return self._has_output

    def let_go(self) -> None:
        """End one use of the descriptors."""
        with self._closing:
            self._uses -= 1
            if not self._uses:
                for descriptor in (self._descriptor, self._input, self._output_in):
                    if descriptor is not None:
                        os.close(descriptor)

    def open(self) -> int:
        """Return a descriptor of the workspace directory, which the caller closes. Raises `SandboxStopped`."""
        return self._open(())[0]

    def _open(self, parts: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
        """Return a descriptor of the directory where a path starts, for the caller to close, and the names below it."""
        with self._closing:
            if self._is_closed:
                raise SandboxStopped(_STOPPED)
            if self._input is not None and parts[:1] == ("input",):
                return os.dup(self._input), parts[1:]
            if self._output_in is not None and parts[:1] == ("output",):
                return os.dup(self._output_in), parts
            return os.dup(self._descriptor), parts

    def mark_output(self, limits: Limits) -> OutputFolder:
        """Record the content of `output` now, so that the files a run adds can be told apart.

        If an earlier program removed `output` or replaced it by something else, it is made anew, with a warning.
        """
        with self._tree(("output",)) as (tree, _):
            made_anew = tree.make_output_anew()
            return OutputFolder(self, limits, tree.marks(), made_anew=made_anew)

    def mark_empty_output(self, limits: Limits) -> OutputFolder | None:
        """Do as `mark_output` without blocking if `output` is empty; else return `None`."""
        with self._closing:
            return None if self._is_closed or not self.is_output_empty() else OutputFolder(self, limits, {})

    def is_output_empty(self) -> bool:
        """Return whether `output` is an empty directory, without a look into one that has not changed since it was."""
        try:
            status = os.stat("output", dir_fd=self._has_output, follow_symlinks=False)
        except OSError:
            return False
        marker = (status.st_ino, status.st_mode, status.st_mtime_ns, status.st_ctime_ns)
        if marker == self._known_empty:
            return True
        now = _file_clock_ns()  # changes after the look have this time at least
        is_empty = beneath.is_empty(self._has_output, "output")
        self._known_empty = marker if is_empty and self._in_memory and status.st_ctime_ns < now else None
        return is_empty

    def trace(self) -> tuple[object, ...] | None:
        """Return a change marker (inodes, modes, times).

        Equal markers mean an untouched workspace; `None` means unknown.

        Any change to a directory, or to the entries in it, changes one of its times, and no program can set the change
        time back. The access time of `output` is left out, because the host itself reads it. Right after a change the
        marker is unknown, because the next change could have the same time.
        """
        try:
            with self._closing:
                if self._is_closed or not self.is_output_empty():
                    return None
                seen = [os.stat(name, dir_fd=self._descriptor, follow_symlinks=False) for name in _FOLDERS]
                if self._input is not None:
                    seen.insert(1, os.fstat(self._input))
                if self._output_in is not None:
                    seen.append(os.stat("output", dir_fd=self._output_in, follow_symlinks=False))
        except OSError:
            return None
        newest = max([status.st_ctime_ns for status in seen])
        if _file_clock_ns() <= newest:
            return None
        changes = [(status.st_ino, status.st_mode, status.st_mtime_ns, status.st_ctime_ns) for status in seen]
        return (seen[0].st_atime_ns, seen[1].st_atime_ns, *changes)

    def changes(self) -> tuple[object, ...] | None:
        """Return a marker as `trace` does, of changes only: looking at the workspace is none."""
        seen = self.trace()
        return None if seen is None else seen[2:]

    def read(self, path: str) -> bytes:
        """Return a regular file's content."""
        with self._found(path) as (tree, names):
            return beneath.read_file(tree.top, "/".join(names))

    def write(self, path: str, data: bytes, mode: int | None = None) -> None:
        """Create or replace a file atomically: a concurrent reader sees either the old or the new content."""
        with self._found(path) as (tree, names), tree.draft(names, mode) as descriptor:
            beneath.write_all(descriptor, data)

    def remove(self, path: str, recursive: bool) -> None:
        """Remove a file, a link or an empty directory, or with `recursive` a directory and everything below it."""
        if not self._parts(path):
            raise InvalidValue("the workspace itself cannot be removed here; stop() removes it")
        self._refuse_apart(path)
        with self._found(path) as (tree, names):
            tree.remove(names, recursive)

    def list(self, path: str, recursive: bool) -> list[FileInfo]:
        """Return the entries of a directory, sorted by path."""
        parts = self._parts(path)
        with self._found(path) as (tree, names):
            entries = list(map(_info, tree.list(names, recursive)))
        for name in self._apart() if recursive and not parts else ():
            entries = [entry for entry in entries if not entry.path.startswith(f"{name}/")]
            entries += self.list(name, recursive=True)
        return sorted(entries, key=lambda entry: entry.path)

    def stat(self, path: str) -> FileInfo:
        """Return one entry."""
        with self._found(path) as (tree, names):
            return _info(tree.stat(names))

    def make_dir(self, path: str) -> None:
        """Make a directory and its parents."""
        with self._found(path) as (tree, names):
            tree.make_dir(names)

    def move(self, source: str, target: str) -> None:
        """Rename an entry within the workspace, replacing a file that is there."""
        self._refuse_apart(source)
        self._refuse_apart(target)
        with self.parent(source) as (from_folder, from_name), self.parent(target, make=True) as (to_folder, to_name):
            os.replace(from_name, to_name, src_dir_fd=from_folder, dst_dir_fd=to_folder)

    @contextlib.contextmanager
    def parent(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """Open a path's parent directory for a block; yield its descriptor and the path's last name.

        With `make` a missing parent is made.

        An `OSError` in the block becomes a `FileError` with the same errno.
        """
        with self._found(path) as (tree, names), tree.parent(names, make) as found:
            yield found

    def _apart(self) -> tuple[str, ...]:
        lie = {"input": self._input, "output": self._output_in}
        return tuple(name for name, folder in lie.items() if folder is not None)

    def _refuse_apart(self, path: str) -> None:
        if self._parts(path) in [(name,) for name in self._apart()]:
            raise FileError(errno.EBUSY, f"{path}: this directory cannot be moved or removed; change its contents")

    def _parts(self, path: str) -> tuple[str, ...]:
        names = names_below(self.root, path)
        if names[: len(self._at)] != self._at:
            raise InvalidValue(f"{path!r} does not lie below {'/'.join(self._at)}")
        return names[len(self._at) :]

    @contextlib.contextmanager
    def _found(self, path: str) -> Iterator[tuple[Tree, tuple[str, ...]]]:
        """Open the tree that a path lies in for a block, and yield it with the path's names; errors name the path."""
        parts = self._parts(path)
        with errors_naming(path), self._tree(parts) as found:
            yield found

    @contextlib.contextmanager
    def _tree(self, parts: tuple[str, ...]) -> Iterator[tuple[Tree, tuple[str, ...]]]:
        folder, names = self._open(parts)
        try:
            yield Tree(folder, self._owner, parts[: len(parts) - len(names)]), names
        finally:
            os.close(folder)


class Utf8Workspace(Workspace):
    """A `Workspace` whose methods raise `FileError` for a path that is not UTF-8, for guests that cannot list one."""

    def _parts(self, path: str) -> tuple[str, ...]:
        parts = super()._parts(path)
        refuse_undecoded(path)
        return parts


def open_folder(path: str) -> int:
    """Return a descriptor of a directory, which a `Workspace` takes over."""
    return beneath.open_folder(path, follow=True)


def _file_clock_ns() -> int:
    """Return the time that files changed from now on have at least."""
    return time.time_ns() - _COARSE_NS if _FILE_CLOCK is None else time.clock_gettime_ns(_FILE_CLOCK)


def _info(entry: Entry) -> FileInfo:
    info = info_of(entry)
    assert info is not None
    return info


class OutputFolder:
    """The content of `/output` when a run began, so that only files created or changed since are collected."""

    def __init__(
        self, workspace: Workspace, limits: Limits, before: Mapping[str, tuple[int, int]], *, made_anew: bool = False
    ) -> None:
        """Hold the workspace. `before` are the marks of the files that are there."""
        self._workspace = workspace
        self._folder = workspace.hold()  # `stop()` may close the workspace before we collect
        self._closing = threading.Lock()
        self._is_closed = False
        self._limits = limits
        self._before = before
        self._warnings = [MADE_ANEW] if made_anew else []

    def close(self) -> None:
        """Let go of the workspace; a collection under way holds it too."""
        with self._closing:
            self._is_closed = True
        self._workspace.let_go()

    def collect(self) -> tuple[list[Artifact], list[str]]:
        """Return the new and changed files sorted by name, and one sentence for each omission."""
        with self._closing:
            if self._is_closed:
                return [], ["output/ was not collected: nobody was left to have it"]
            self._workspace.hold()
        try:
            return self._collect()
        finally:
            self._workspace.let_go()

    async def collect_if_any(self) -> tuple[list[Artifact], list[str]]:
        """Do as `collect` in a thread, or return at once if `output` is empty and there is no warning."""
        if not self._warnings and self._workspace.is_output_empty():
            return [], []
        return await run_blocking(self.collect)

    def _collect(self) -> tuple[list[Artifact], list[str]]:
        left_out = LeftOut()
        artifacts = choose(self._changed(_walk(self._folder, left_out)), self._limits, left_out)
        return artifacts, [*self._warnings, *left_out.warnings()]

    def _changed(self, found: Iterator[Found]) -> Iterator[Candidate]:
        for path, folder, status in found:
            if self._before.get(path) != mark_of(status):
                name = path.rpartition("/")[2]
                size = status.st_size if stat_modes.S_ISREG(status.st_mode) else None
                yield Candidate(path, size, lambda most, at=folder, name=name: read_file(at, name, most))  # type: ignore[misc]


def _walk(workspace: int, left_out: LeftOut) -> Iterator[Found]:
    """Yield (path, open directory, status) of everything in `output` except directories; `left_out` notes omissions."""
    try:
        yield from Tree(workspace).outputs(
            lambda path: left_out.add(f"output/{shown(path)} is nested too deeply and was not collected"),
            lambda path, error: left_out.end(f"output/{shown(path)} was not collected: {error.strerror}"),
        )
    except TooMuch as enough:
        left_out.end(str(enough))
