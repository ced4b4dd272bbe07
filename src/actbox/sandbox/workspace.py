"""Files of a workspace, reached by descriptor and never by path, so that no link inside leads the host out.

Every step opens one name in a folder that is already open, and refuses links (`O_NOFOLLOW`). A guest may rearrange
its files meanwhile: it can make a call fail, not make it touch anything outside.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import stat as stat_modes
from collections.abc import Iterator
from pathlib import PurePosixPath

from actbox.core.errors import FileError, InvalidValue

from .contract import FileInfo

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Not to wait for the other end of a named pipe that a guest put where a file should be.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Workspace:
    """The file methods of a sandbox over the descriptor of its workspace folder. All of them block."""

    def __init__(self, descriptor: int, root: str, owner: tuple[int, int] | None = None) -> None:
        """Take over the descriptor. `owner` is the uid and gid that new files get where they are not the host's."""
        self.descriptor = descriptor
        self.root = root
        self._owner = owner

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.descriptor)

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
        with self._parent(path) as (folder, name):
            if not stat_modes.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                os.unlink(name, dir_fd=folder)
            elif recursive:
                shutil.rmtree(name, dir_fd=folder)
            else:
                os.rmdir(name, dir_fd=folder)

    def list(self, path: str, recursive: bool) -> list[FileInfo]:
        """Return the entries of a folder, sorted by path."""
        parts = self._parts(path)
        with self._folder(parts, path) as folder:
            return sorted(_entries(folder, "/".join(parts), recursive), key=lambda entry: entry.path)

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
        with (
            self._parent(source) as (from_folder, from_name),
            self._parent(target, make=True) as (to_folder, to_name),
        ):
            os.replace(from_name, to_name, src_dir_fd=from_folder, dst_dir_fd=to_folder)

    def _parts(self, path: str) -> tuple[str, ...]:
        if not isinstance(path, str) or not path or "\0" in path:
            raise InvalidValue(f"a path in the workspace must be non-empty text without NUL, not {path!r}")
        pure = PurePosixPath(path)
        if pure.is_absolute():
            for root, prefix in (
                (self.root, ()),
                ("/workspace", ()),
                ("/input", ("input",)),
                ("/output", ("output",)),
            ):
                if pure.is_relative_to(root):
                    pure = PurePosixPath(*prefix, *pure.relative_to(root).parts)
                    break
            else:
                raise InvalidValue(f"{path!r} is outside the workspace; paths lie below {self.root}, /input or /output")
        if ".." in pure.parts:
            raise InvalidValue(f"{path!r} must not contain '..'")
        return pure.parts

    @contextlib.contextmanager
    def _parent(self, path: str, make: bool = False) -> Iterator[tuple[int, str]]:
        parts = self._parts(path)
        with self._folder(parts[:-1], path, make) as folder, _told(path):
            yield folder, parts[-1] if parts else "."

    @contextlib.contextmanager
    def _folder(self, parts: tuple[str, ...], path: str, make: bool = False) -> Iterator[int]:
        folder = os.dup(self.descriptor)
        try:
            with _told(path):
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
        self._give(inner)
        return inner

    def _give(self, descriptor: int) -> None:
        if self._owner is not None:
            os.fchown(descriptor, *self._owner)


def read_regular(folder: int, name: str, most: int | None = None) -> bytes:
    """Return the content of a regular file in an open folder, at most `most` bytes of it. Raises `OSError`."""
    descriptor = os.open(name, _FILE, dir_fd=folder)
    with open(descriptor, "rb", buffering=0) as file:
        mode = os.fstat(descriptor).st_mode
        if stat_modes.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, "is a folder")
        if not stat_modes.S_ISREG(mode):
            raise OSError(errno.EINVAL, "is not a regular file")
        return file.readall() if most is None else file.read(most)


@contextlib.contextmanager
def _told(path: str) -> Iterator[None]:
    """Turn the operating system's error into one that names the path inside the sandbox, and only that."""
    try:
        yield
    except FileError:
        raise
    except OSError as error:
        why = "a link on the way, which is not followed" if error.errno == errno.ELOOP else error.strerror or str(error)
        raise FileError(error.errno, f"{path}: {why}") from None


def _entries(folder: int, prefix: str, recursive: bool) -> Iterator[FileInfo]:
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
                    yield from _entries(inner, path, recursive)
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
