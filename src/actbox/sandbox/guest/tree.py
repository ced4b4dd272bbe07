"""The files of a workspace, reached through the directory's descriptor and never through a link.

Host and agents use it. Each path is a list of names below the workspace; failures raise `OSError`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat

from .beneath import (
    DRAFT,
    is_empty,
    kind_of,
    new_name,
    open_beneath,
    open_file,
    open_folder,
    opened,
    remove_entry,
    status_in,
    walk,
)

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

    from .beneath import Found

    # path, kind, size, modified, mode, target: as in `FileInfo`
    Entry = Tuple[str, str, int, float, Optional[int], str]

MAX_DEPTH = 64
MAX_OUTPUT_DEPTH = 32
# A program can make files faster than they can be listed.
MAX_ENTRIES = 100_000
# In all paths together, which are kept in memory during a run; each may be as long as depth and names allow.
MAX_PATH_CHARACTERS = 16 * 2**20


class TooMuch(Exception):
    """Raised when there are more files than are examined; the message says so."""


class Tree:
    """The files below one directory."""

    def __init__(self, top: int, owner: Optional[Tuple[int, int]] = None, above: Sequence[str] = ()) -> None:
        """`top` is the directory's descriptor. `owner` is the uid and gid of new files, if not this process's own.

        `above` are the names that lead to it from a larger workspace; the paths of entries begin with them.
        """
        self.top = top
        self._owner = owner
        self._above = above

    @classmethod
    def at(cls, path: str) -> Tree:
        """Return the tree of a directory by its path, which may lead through links."""
        return cls(open_folder(path, follow=True))

    def open_file(self, names: Sequence[str]) -> int:
        """Return a descriptor of a regular file for reading."""
        return open_file(self.top, "/".join(names))

    @contextlib.contextmanager
    def draft(self, names: Sequence[str], mode: Optional[int]) -> Iterator[int]:
        """Yield a descriptor to write a file to, which replaces the named file atomically at the end of the block.

        Its mode is set as in `set_mode`.
        """
        with self.parent(names, make=True) as (folder, name):
            draft = new_name()
            descriptor = open_beneath(folder, draft, DRAFT, 0o644)
            try:
                try:
                    self._give(descriptor)
                    yield descriptor
                    set_mode(descriptor, mode, folder, name)
                finally:
                    os.close(descriptor)
                os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(draft, dir_fd=folder)
                raise

    def take(self, path: str, descriptor: int, names: Sequence[str], mode: Optional[int]) -> None:
        """Move a file, open as `descriptor`, from another path of this file system to its name here, atomically."""
        with self.parent(names, make=True) as (folder, name):
            set_mode(descriptor, mode, folder, name)
            os.rename(path, name, dst_dir_fd=folder)

    def remove(self, names: Sequence[str], recursive: bool) -> None:
        """Remove a file, a link or an empty directory, or with `recursive` a directory and everything below it."""
        with self.parent(names) as (folder, name):
            is_folder = stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
            if is_folder and not recursive:
                os.rmdir(name, dir_fd=folder)
            else:
                remove_entry(folder, name, is_folder)

    def list(self, names: Sequence[str], recursive: bool) -> Iterator[Entry]:
        """Yield the entries of a directory, unsorted."""
        with opened(self.top, "/".join(names)) as folder:
            for path, inner, status in walk(folder, self._told(names), MAX_DEPTH + 1 if recursive else 0, _too_deep):
                with contextlib.suppress(FileNotFoundError):  # a link that was removed meanwhile
                    yield entry_of(path, status, inner)

    def stat(self, names: Sequence[str]) -> Entry:
        """Return one entry."""
        with self.parent(names) as (folder, name):
            return entry_of(self._told(names) or ".", os.stat(name, dir_fd=folder, follow_symlinks=False), folder)

    def make_dir(self, names: Sequence[str]) -> None:
        """Make a directory and its parents."""
        os.close(self._make(names))

    def move(self, source: Sequence[str], target: Sequence[str]) -> None:
        """Rename an entry within the workspace, replacing a file that is there."""
        with self.parent(source) as (from_folder, from_name):
            with self.parent(target, make=True) as (to_folder, to_name):
                os.replace(from_name, to_name, src_dir_fd=from_folder, dst_dir_fd=to_folder)

    @contextlib.contextmanager
    def parent(self, names: Sequence[str], make: bool = False) -> Iterator[Tuple[int, str]]:
        """Open an entry's parent directory for a block; yield its descriptor and the entry's name."""
        folder = self._make(names[:-1]) if make else open_beneath(self.top, "/".join(names[:-1]))
        try:
            yield folder, names[-1] if names else "."
        finally:
            os.close(folder)

    def mark(self) -> Tuple[Dict[str, Tuple[int, int]], bool]:
        """Return the change markers of the files in `output`, and whether `output` had to be made anew."""
        anew = self.make_output_anew()
        return self.marks(), anew

    def marks(self) -> Dict[str, Tuple[int, int]]:
        """Return the change markers of the files in `output`, up to the limits."""
        marks: Dict[str, Tuple[int, int]] = {}
        with contextlib.suppress(TooMuch):
            for path, _, status in self.outputs(_ignored, _ignored):
                marks[path] = mark_of(status)
        return marks

    def changed(self, marks: Dict[str, Tuple[int, int]], left_out: List[str]) -> Iterator[Tuple[str, int]]:
        """Yield (path, size) of new and changed files in `output`; the size is -1 for anything but a regular file.

        Directories that are nested too deeply are added to `left_out`. Raises `TooMuch`.
        """
        for path, _, status in self.outputs(left_out.append):
            if marks.get(path) != mark_of(status):
                yield path, status.st_size if stat.S_ISREG(status.st_mode) else -1

    def outputs(
        self, too_deep: Callable[[str], Any], failed: Optional[Callable[[str, OSError], Any]] = None
    ) -> Iterator[Found]:
        """Yield (path, open directory, status) of everything in `output` except directories. Raises `TooMuch`.

        `too_deep` and `failed` are as in `walk`.
        """
        entries = characters = 0
        try:
            folder = open_beneath(self.top, "output")
        except FileNotFoundError:
            return
        except OSError as error:
            if failed is None or error.errno in (errno.ENOTDIR, errno.ELOOP):
                raise TooMuch("output/ is no longer a directory: nothing was collected") from None
            failed("", error)
            return
        try:
            for path, inner, status in walk(folder, "", MAX_OUTPUT_DEPTH + 1, too_deep, failed):
                entries += 1
                characters += len(path)
                if entries > MAX_ENTRIES:
                    raise TooMuch(
                        "more than %s entries in output/: the rest was not looked at" % format(MAX_ENTRIES, ",")
                    )
                if characters > MAX_PATH_CHARACTERS:
                    raise TooMuch(
                        "the paths in output/ are long, %s were looked at: the rest was not" % format(entries, ",")
                    )
                if not stat.S_ISDIR(status.st_mode):
                    yield path, inner, status
        finally:
            os.close(folder)

    def is_output_empty(self) -> bool:
        """Return whether `output` is an empty directory."""
        return is_empty(self.top, "output")

    def make_output_anew(self) -> bool:
        """Make `output` unless it is a directory; return whether it was made. A running program may prevent that."""
        try:
            os.close(open_beneath(self.top, "output"))
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                return False
            with contextlib.suppress(OSError):
                if error.errno != errno.ENOENT:
                    os.unlink("output", dir_fd=self.top)
                self.make_dir(["output"])
                return True
        return False

    def _told(self, names: Sequence[str]) -> str:
        return "/".join([*self._above, *names])

    def _make(self, names: Sequence[str]) -> int:
        """Open a directory, making it and its parents if they are missing."""
        try:
            return open_beneath(self.top, "/".join(names))
        except FileNotFoundError:
            if not names:
                raise
        folder = os.dup(self.top)
        for name in names:
            above = folder
            try:
                folder = self._step(above, name)
            finally:
                os.close(above)
        return folder

    def _step(self, folder: int, name: str) -> int:
        with contextlib.suppress(FileNotFoundError):
            return open_beneath(folder, name)
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o755, dir_fd=folder)
        inner = open_beneath(folder, name)
        try:
            os.fchmod(inner, 0o755)
            self._give(inner)
        except BaseException:
            os.close(inner)
            raise
        return inner

    def _give(self, descriptor: int) -> None:
        if self._owner is not None:
            os.fchown(descriptor, *self._owner)


# Operations with small requests and answers, by name; each takes the tree and the request.
OPERATIONS: Dict[str, Callable[[Tree, Dict[str, Any]], Any]] = {
    "remove": lambda tree, asked: tree.remove(asked["path"], asked["recursive"]),
    "stat": lambda tree, asked: list(tree.stat(asked["path"])),
    "make_dir": lambda tree, asked: tree.make_dir(asked["path"]),
    "move": lambda tree, asked: tree.move(asked["path"], asked["target"]),
}


def _too_deep(path: str) -> None:
    raise OSError(errno.ELOOP, "directories are nested more than %d deep" % MAX_DEPTH)


def _ignored(*_: Any) -> None:
    """Ignore an omission; the collection after the run reports it."""


def mark_of(status: os.stat_result) -> Tuple[int, int]:
    """Return a change marker of a file (inode, change time). Equal markers mean an unchanged file."""
    # The change time, unlike the modification time, cannot be set by a program.
    return status.st_ino, status.st_ctime_ns


def entry_of(path: str, status: os.stat_result, folder: int) -> Entry:
    """Return the description of an entry in an open directory. Its mode has the permission bits only."""
    kind = kind_of(status.st_mode)
    target = os.readlink(path.rpartition("/")[2], dir_fd=folder) if kind == "link" else ""
    size = 0 if kind == "other" else status.st_size
    return path, kind, size, status.st_mtime, status.st_mode & 0o777, target


def set_mode(descriptor: int, mode: Optional[int], folder: int, name: str) -> None:
    """Set the permission bits of a file that replaces `name`; `None` keeps the bits of the replaced file.

    A new file then gets 0o644, whatever this process's umask is. No file becomes setuid, setgid or sticky.
    """
    if mode is None:
        there = status_in(folder, name)
        mode = there.st_mode if there is not None and stat.S_ISREG(there.st_mode) else 0o644
    os.fchmod(descriptor, mode & 0o777)
