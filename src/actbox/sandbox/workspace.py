"""Files of a workspace, reached by descriptor and never by path, so that no link inside leads the host out.

Every step opens one name in a folder that is already open, and refuses links (`O_NOFOLLOW`). A guest may rearrange
its files meanwhile: it can make a call fail, not make it touch anything outside.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat as stat_modes
import threading
import time
from collections.abc import Iterator

from actbox.core.errors import FileError, InvalidValue, SandboxStopped
from actbox.core.limits import Limits

from .artifacts import OutputFolder, is_empty
from .contract import FileInfo
from .paths import NO_FOLDER, names_below, told
from .regular_file import read_regular

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Each folder on the way is open while what is below it is listed.
MAX_DEPTH = 64
_FOLDERS = (".", "input", "output")
# The kernel's clock for files goes on by ticks, of which there are at least 100 in a second.
_COARSE_NS = 20_000_000


class Workspace:
    """The file methods of a sandbox over the descriptor of its workspace folder. All of them block."""

    def __init__(
        self,
        descriptor: int,
        root: str,
        owner: tuple[int, int] | None = None,
        *,
        input_descriptor: int | None = None,
        output_in: int | None = None,
        at: tuple[str, ...] = (),
    ) -> None:
        """Take over the descriptors. `owner` is the uid and gid that new files get where they are not the host's.

        `input_descriptor` is the folder `input` where that lies elsewhere; the one in the workspace's place is not
        looked at then. `output_in` is likewise the folder in which `output` lies, where that is another. `at` are the
        names that lead to the folder from a workspace of which it is a part, as paths have them.
        """
        self.root = root
        self._at = at
        self._descriptor = descriptor
        self._input = input_descriptor
        self._output_in = output_in
        self._owner = owner
        self._closing = threading.Lock()

    def close(self) -> None:
        """Close the descriptor; what is under way goes on with one of its own, what comes later raises."""
        with self._closing:
            os.close(self._descriptor)
            self._descriptor = -1
            for apart in (self._input, self._output_in):
                if apart is not None:
                    os.close(apart)

    def open(self) -> int:
        """Return a descriptor of the workspace folder for the caller to close. Raises `SandboxStopped`."""
        return self._open(())[0]

    def _open(self, parts: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
        """Return a descriptor of the folder from which a path leads, for the caller to close, and what it leads by."""
        with self._closing:
            if self._descriptor < 0:
                raise SandboxStopped("the sandbox was stopped meanwhile")
            if self._input is not None and parts[:1] == ("input",):
                return os.dup(self._input), parts[1:]
            if self._output_in is not None and parts[:1] == ("output",):
                return os.dup(self._output_in), parts
            return os.dup(self._descriptor), parts

    def mark_output(self, limits: Limits) -> OutputFolder:
        """Note what lies in `output` now, so that what a run adds can be told from it.

        Where an earlier program has removed it, or put something else in its place, it is made anew, with a warning.
        """
        folder, _ = self._open(("output",))
        try:
            return OutputFolder(folder, limits, made_anew=self._make_output_anew(folder))
        finally:
            os.close(folder)

    def mark_empty_output(self, limits: Limits) -> OutputFolder | None:
        """Do as `mark_output` without blocking, if there is nothing in `output`; else return `None`."""
        with self._closing:
            if self._descriptor < 0 or not is_empty(self._has_output):
                return None
            return OutputFolder(self._has_output, limits, known_empty=True)

    def trace(self) -> tuple[object, ...] | None:
        """Return what is otherwise once anything was made, removed or set here, or `None` where that cannot be told.

        The folders' times say it: whatever is done to a folder, or to the entries in it, changes one of them, which
        nobody can set back. Of `output` the time of the last look is left out, since we look there ourselves. Too soon
        after a change the next one could bear the same time.
        """
        try:
            with self._closing:
                if self._descriptor < 0 or not is_empty(self._has_output):
                    return None
                top, *below = (os.stat(name, dir_fd=self._descriptor, follow_symlinks=False) for name in _FOLDERS)
                if self._input is not None:
                    below.insert(0, os.fstat(self._input))
                if self._output_in is not None:
                    below.append(os.stat("output", dir_fd=self._output_in, follow_symlinks=False))
        except OSError:
            return None
        if time.time_ns() - max(status.st_ctime_ns for status in (top, *below)) < _COARSE_NS:
            return None
        seen = (top.st_atime_ns, below[0].st_atime_ns)
        return (*seen, *((s.st_ino, s.st_mode, s.st_mtime_ns, s.st_ctime_ns) for s in (top, *below)))

    def read(self, path: str) -> bytes:
        """Return a regular file's content."""
        with self._parent(path) as (folder, name):
            return read_regular(folder, name)

    def write(self, path: str, data: bytes) -> None:
        """Create or replace a file at once: whoever reads it meanwhile sees the old content or the new."""
        with self._parent(path, make=True) as (folder, name):
            draft = f".{secrets.token_hex(8)}.part"
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644, dir_fd=folder)
            try:
                with open(descriptor, "wb", buffering=0) as file:
                    os.fchmod(file.fileno(), 0o644)  # whatever the host's mask is
                    self._give(file.fileno())
                    view = memoryview(data)
                    while view:
                        view = view[file.write(view) or 0 :]
                os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(draft, dir_fd=folder)
                raise

    def remove(self, path: str, recursive: bool) -> None:
        """Remove a file, a link, an empty folder, or with `recursive` a folder and all below it."""
        if not self._parts(path):
            raise InvalidValue("the workspace itself cannot be removed; stop() does that")
        self._refuse_apart(path)
        with self._parent(path) as (folder, name):
            if not stat_modes.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                os.unlink(name, dir_fd=folder)
            elif recursive:
                _remove_tree(folder, name)
            else:
                os.rmdir(name, dir_fd=folder)

    def list(self, path: str, recursive: bool) -> list[FileInfo]:
        """Return the entries of a folder, sorted by path."""
        parts = self._parts(path)
        with self._folder(parts, path) as folder:
            entries = list(_entries(folder, "/".join(parts), recursive))
        for name in self._apart() if recursive and not parts else ():
            entries = [entry for entry in entries if not entry.path.startswith(f"{name}/")]
            entries += self.list(name, recursive=True)
        return sorted(entries, key=lambda entry: entry.path)

    def stat(self, path: str) -> FileInfo:
        """Describe one entry."""
        parts = self._parts(path)
        with self._parent(path) as (folder, name):
            return _info("/".join(parts) or ".", os.stat(name, dir_fd=folder, follow_symlinks=False))

    def make_dir(self, path: str) -> None:
        """Make a folder and its parents."""
        with self._folder(self._parts(path), path, make=True):
            pass

    def move(self, source: str, target: str) -> None:
        """Rename within the workspace."""
        self._refuse_apart(source)
        self._refuse_apart(target)
        with (
            self._parent(source) as (from_folder, from_name),
            self._parent(target, make=True) as (to_folder, to_name),
        ):
            os.replace(from_name, to_name, src_dir_fd=from_folder, dst_dir_fd=to_folder)

    @contextlib.contextmanager
    def parent(self, path: str) -> Iterator[tuple[int, str]]:
        """Have a descriptor of the folder that a path lies in, and its name there, for a block.

        What the operating system raises there becomes a `FileError` with its errno.
        """
        with self._parent(path) as found:
            yield found

    @property
    def _has_output(self) -> int:
        return self._descriptor if self._output_in is None else self._output_in

    def _apart(self) -> tuple[str, ...]:
        lie = {"input": self._input, "output": self._output_in}
        return tuple(name for name, folder in lie.items() if folder is not None)

    def _refuse_apart(self, path: str) -> None:
        if self._parts(path) in [(name,) for name in self._apart()]:
            raise FileError(errno.EBUSY, f"{path}: the folder itself stays where it is; what is in it can be changed")

    def _parts(self, path: str) -> tuple[str, ...]:
        names = names_below(self.root, path)
        if names[: len(self._at)] != self._at:
            raise InvalidValue(f"{path!r} does not lie below {'/'.join(self._at)}")
        return names[len(self._at) :]

    @contextlib.contextmanager
    def _parent(self, path: str, make: bool = False) -> Iterator[tuple[int, str]]:
        parts = self._parts(path)
        with self._folder(parts[:-1], path, make) as folder, told(path):
            yield folder, parts[-1] if parts else "."

    @contextlib.contextmanager
    def _folder(self, parts: tuple[str, ...], path: str, make: bool = False) -> Iterator[int]:
        folder, parts = self._open(parts)
        try:
            with told(path):
                for name in parts:
                    inner = self._step(folder, name, make)
                    os.close(folder)
                    folder = inner
                yield folder
        finally:
            os.close(folder)

    def _step(self, folder: int, name: str, make: bool) -> int:
        try:
            return os.open(name, _FOLDER, dir_fd=folder)
        except FileNotFoundError:
            if not make:
                raise
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o755, dir_fd=folder)
        inner = os.open(name, _FOLDER, dir_fd=folder)
        os.fchmod(inner, 0o755)
        self._give(inner)
        return inner

    def _make_output_anew(self, folder: int) -> bool:
        """Make `output` where it is no folder; return whether that was so. A guest may hinder it meanwhile."""
        try:
            os.close(os.open("output", _FOLDER, dir_fd=folder))
        except OSError as error:
            if error.errno not in NO_FOLDER:
                return False
            with contextlib.suppress(OSError):
                if error.errno != errno.ENOENT:
                    os.unlink("output", dir_fd=folder)
                os.close(self._step(folder, "output", make=True))
                return True
        return False

    def _give(self, descriptor: int) -> None:
        if self._owner is not None:
            os.fchown(descriptor, *self._owner)


def open_folder(path: str) -> int:
    """Return a descriptor of a folder for a workspace to take over."""
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def _remove_tree(folder: int, name: str) -> None:
    """Remove a folder and all below it, however deep: each folder in it is moved up, so that one is open at a time."""
    left = [name]
    while left:
        name = left.pop()
        inner = os.open(name, _FOLDER, dir_fd=folder)
        try:
            with os.scandir(inner) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        left.append(f".{secrets.token_hex(8)}.part")
                        os.rename(entry.name, left[-1], src_dir_fd=inner, dst_dir_fd=folder)
                    else:
                        os.unlink(entry.name, dir_fd=inner)
        finally:
            os.close(inner)
        os.rmdir(name, dir_fd=folder)


def _entries(folder: int, prefix: str, recursive: bool, depth: int = 0) -> Iterator[FileInfo]:
    if depth > MAX_DEPTH:
        raise OSError(errno.ELOOP, f"folders are nested more than {MAX_DEPTH} deep")
    with os.scandir(folder) as found:
        entries = list(found)
    for entry in entries:
        path = f"{prefix}/{entry.name}" if prefix else entry.name
        with contextlib.suppress(FileNotFoundError):  # removed meanwhile by the guest
            info = _info(path, entry.stat(follow_symlinks=False))
            yield info
            if recursive and info.kind == "folder":
                inner = os.open(entry.name, _FOLDER, dir_fd=folder)
                try:
                    yield from _entries(inner, path, recursive, depth + 1)
                finally:
                    os.close(inner)


def _info(path: str, status: os.stat_result) -> FileInfo:
    for kind, test in (
        ("file", stat_modes.S_ISREG),
        ("folder", stat_modes.S_ISDIR),
        ("link", stat_modes.S_ISLNK),
    ):
        if test(status.st_mode):
            return FileInfo(path=path, kind=kind, size=status.st_size, modified=status.st_mtime)  # type: ignore[arg-type]
    return FileInfo(path=path, kind="other", size=0, modified=status.st_mtime)
