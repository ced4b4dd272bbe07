"""The changes of a run in its overlay mounts, found by comparing each upper layer with the host's directory.

The guest writes the upper layer, so it is not trusted: it is read by descriptor, one name at a time, no link followed,
regular files only, bounded in count, size and depth. The kernel marks removals in it: a device 0/0 stands for a removed
name, and an attribute marks a directory through which nothing of the lower one shows any more.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat as stat_modes
import threading
from pathlib import Path

from actbox.core.changes import ChangeKind, FileChange
from actbox.core.counted import counted
from actbox.core.lazy_dataclass import dataclass
from actbox.core.limits import Limits

from .artifacts import MAX_DEPTH, MAX_ENTRIES, LeftOut, printable, shown
from .blocking import run_blocking
from .guest.beneath import is_empty, open_beneath, open_folder, opened, read_file, status_in

Changes = tuple[tuple[FileChange, ...], list[str]]

_MIB = 2**20
# The most bytes of a file's earlier content that are kept, for diffs.
_MOST_BEFORE = 4 * _MIB
_OPAQUE = "user.overlay.opaque"
_NONE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlay:
    """An overlay mount of one run: its path for programs, the host's directory, and its upper layer's descriptor."""

    mount: str
    host_path: Path
    identity: tuple[int, int]
    upper: int


class OverlayChanges:
    """The overlay mounts of one run, or session, whose changes are reported. Takes over the descriptors."""

    def __init__(self, overlays: list[Overlay], limits: Limits) -> None:
        self._overlays = overlays
        self._limits = limits
        self._closing = threading.Lock()
        self._closed = False

    def close(self) -> None:
        """Close the upper layers; a collection under way finishes with its own descriptors."""
        with self._closing:
            if not self._closed:
                self._closed = True
                for overlay in self._overlays:
                    os.close(overlay.upper)

    async def collect_if_any(self) -> Changes:
        """Return the changes, in the order of `FileChange`, and one sentence for each omission."""
        with self._closing:
            nothing = not self._closed and all(is_empty(overlay.upper) for overlay in self._overlays)
        return ((), []) if nothing else await run_blocking(self.collect)

    def collect(self) -> Changes:
        """Do as `collect_if_any`, in this thread."""
        collection = _Collection(self._limits)
        for overlay in self._overlays:
            with self._closing:
                if self._closed:
                    collection.left_out.end("changes were not collected: nobody was left to have them")
                    break
                upper = os.dup(overlay.upper)
            try:
                collection.add(overlay, upper)
            except _Enough as enough:
                collection.left_out.end(str(enough))
                break
            finally:
                os.close(upper)
        return tuple(sorted(collection.changes, key=place_in_order)), collection.left_out.warnings()


class _Enough(Exception):
    """Raised when a limit is reached and the rest is left out; the message says so."""


class _Collection:
    """Walks the upper layer and the host's directory side by side.

    `_NONE` stands for a directory that does not exist.
    """

    def __init__(self, limits: Limits) -> None:
        self.changes: list[FileChange] = []
        self.left_out = LeftOut()
        self._limits = limits
        self._left = limits.artifact_mib * _MIB
        self._entries = 0
        self._mount = ""

    def add(self, overlay: Overlay, upper: int) -> None:
        """Collect the changes of one overlay."""
        self._mount = overlay.mount
        try:
            lower = open_folder(str(overlay.host_path))
        except OSError as error:
            self._leave_out("", f"the host's directory {overlay.host_path} cannot be read: {error.strerror}")
            return
        try:
            status = os.fstat(lower)
            if (status.st_dev, status.st_ino) != overlay.identity:
                self._leave_out("", f"{overlay.host_path} has been replaced by another directory")
                return
            self._folder(upper, lower, "", 0, False)
        except OSError as error:
            self._leave_out("", str(error.strerror))
        finally:
            os.close(lower)

    def _folder(self, upper: int, lower: int, prefix: str, depth: int, hidden: bool) -> None:
        """Compare the entries of two open directories.

        `hidden` is true if nothing of the lower one shows through; the kernel marks only the topmost such directory.
        """
        hidden = hidden or _hides_what_is_below(upper)
        with os.scandir(upper) as entries:
            for entry in entries:
                self._count()
                try:
                    self._entry(upper, lower, entry.name, prefix + entry.name, depth, hidden)
                except OSError as error:  # such as lack of memory
                    self._leave_out(prefix + entry.name, str(error.strerror))
        if lower != _NONE and hidden:
            with os.scandir(lower) as entries:
                for entry in entries:
                    self._count()
                    if _status(entry.name, upper) is None:
                        self._gone(lower, entry.name, prefix + entry.name, depth)

    def _entry(self, upper: int, lower: int, name: str, path: str, depth: int, hidden: bool) -> None:
        now, before = _status(name, upper), _status(name, lower)
        if now is None:  # a session's background task has just removed it
            return
        kept = before is not None and stat_modes.S_IFMT(now.st_mode) == stat_modes.S_IFMT(before.st_mode)
        replaces_file = not kept and before is not None and not stat_modes.S_ISDIR(before.st_mode)
        is_file = stat_modes.S_ISREG(now.st_mode)
        if before is not None and not kept and not (is_file and replaces_file):
            self._gone(lower, name, path, depth)
        if stat_modes.S_ISDIR(now.st_mode):
            self._deeper(upper, lower if kept else _NONE, name, path, depth, hidden)
        elif is_file:
            self._file(upper, lower if before is not None and (kept or replaces_file) else _NONE, name, path, now)
        elif not _is_whiteout(now) and not (kept and _same_link(upper, lower, name)):
            self._leave_out(path, "it is not a regular file")

    def _deeper(self, upper: int, lower: int, name: str, path: str, depth: int, hidden: bool) -> None:
        if depth >= MAX_DEPTH:
            self._leave_out(path, "it is nested too deeply")
            return
        try:
            with opened(upper, name) as inner_upper, contextlib.ExitStack() as below:
                inner_lower = _NONE if lower == _NONE else below.enter_context(opened(lower, name))
                self._folder(inner_upper, inner_lower, path + "/", depth + 1, hidden)
        except OSError as error:
            self._leave_out(path, str(error.strerror))

    def _file(self, upper: int, lower: int, name: str, path: str, now: os.stat_result) -> None:
        """Record a changed regular file.

        `lower` is the directory with its earlier version, `_NONE` if there was none.
        """
        too_much = f"the changes would exceed {self._limits.artifact_mib} MiB"
        if now.st_size > self._left:  # reading that much of each of many files would take long
            self._leave_out(path, too_much)
            return
        try:
            data = read_file(upper, name, self._left + 1)
        except OSError as error:
            self._leave_out(path, str(error.strerror))
            return
        if len(data) > self._left:  # it has grown since
            self._leave_out(path, too_much)
            return
        executable = bool(now.st_mode & stat_modes.S_IXUSR)
        before = None
        if lower != _NONE:
            status = _status(name, lower)
            before = _read_if_regular(lower, name, status, max(len(data), _MOST_BEFORE) + 1)
            if status is not None and before == data and bool(status.st_mode & stat_modes.S_IXUSR) == executable:
                return  # it was opened for writing but not changed, or only its time or owner was
        self._note("added" if lower == _NONE else "changed", path, data, before, executable)

    def _gone(self, lower: int, name: str, path: str, depth: int) -> None:
        """Record that an entry of the host's directory was removed, with each file below it as its own change."""
        status = _status(name, lower)
        if status is None:
            return
        if not stat_modes.S_ISDIR(status.st_mode):
            self._note("removed", path, None, _read_if_regular(lower, name, status, _MOST_BEFORE + 1))
            return
        if depth >= MAX_DEPTH:
            self._leave_out(path, "it is nested too deeply")
            return
        try:
            folder = open_beneath(lower, name)
        except OSError as error:
            self._leave_out(path, str(error.strerror))
            return
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    self._count()
                    self._gone(folder, entry.name, f"{path}/{entry.name}", depth + 1)
        finally:
            os.close(folder)

    def _note(
        self, kind: ChangeKind, path: str, data: bytes | None, before: bytes | None, executable: bool = False
    ) -> None:
        if len(self.changes) >= self._limits.artifacts:
            raise _Enough(f"more than {counted(self._limits.artifacts, 'changed file')}: the rest was not collected")
        self._left -= len(data or b"")
        if before is not None and len(before) > min(self._left, _MOST_BEFORE):
            before = None
        self._left -= len(before or b"")
        path = printable(path)
        self.changes.append(
            FileChange(mount=self._mount, path=path, kind=kind, data=data, before=before, executable=executable)
        )

    def _count(self) -> None:
        self._entries += 1
        if self._entries > MAX_ENTRIES:
            raise _Enough(f"more than {MAX_ENTRIES:,} entries were changed: the rest was not looked at")

    def _leave_out(self, path: str, why: str) -> None:
        self.left_out.add(f"a change of {self._mount}/{shown(path)} was not collected: {why}")


def place_in_order(change: FileChange) -> tuple[str, bool, int, str]:
    """Return the sort key that orders changes in a result."""
    # A file can take the place of a directory, or get its parent made, only after the earlier entry is removed.
    if change.kind == "removed":
        return change.mount, False, -change.path.count("/"), change.path
    return change.mount, True, 0, change.path


def _status(name: str, folder: int) -> os.stat_result | None:
    return None if folder == _NONE else status_in(folder, name)  # the lower one may allow shorter names only


def _is_whiteout(status: os.stat_result) -> bool:
    return stat_modes.S_ISCHR(status.st_mode) and status.st_rdev == 0


def _hides_what_is_below(folder: int) -> bool:
    try:
        return os.getxattr(folder, _OPAQUE) == b"y"
    except OSError as error:
        if error.errno not in (errno.ENODATA, errno.ENOTSUP):
            raise
        return False


def _same_link(upper: int, lower: int, name: str) -> bool:
    try:
        return os.readlink(name, dir_fd=upper) == os.readlink(name, dir_fd=lower)
    except OSError as error:
        if error.errno != errno.EINVAL:  # it is not a link
            raise
        return False


def _read_if_regular(folder: int, name: str, status: os.stat_result | None, most: int) -> bytes | None:
    # Checked first, because opening one of the host's devices or named pipes may have side effects.
    if status is None or not stat_modes.S_ISREG(status.st_mode):
        return None
    try:
        return read_file(folder, name, most)
    except OSError:  # this user may not read it, so no content is shown
        return None
