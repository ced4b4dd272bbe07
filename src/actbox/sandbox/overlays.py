"""What a run changed in overlay mounts: the upper layer of each beside the host's folder, read by descriptor.

The upper layer is the guest's own doing, and is taken as such: one name at a time, no link followed, regular files
only, bounded in count, size and depth. The kernel writes into it what is gone: a device 0/0 stands for a name that was
removed, and an attribute says of a folder that nothing shows through it any more.
"""

from __future__ import annotations

import os
import stat as stat_modes
import threading
from dataclasses import dataclass
from pathlib import Path

from actbox.core.changes import ChangeKind, FileChange
from actbox.core.counted import counted
from actbox.core.limits import Limits

from .artifacts import FOLDER
from .blocking import run_blocking
from .choosing import MAX_DEPTH, MAX_ENTRIES
from .left_out import LeftOut, printable, shown
from .regular_file import read_regular

Changes = tuple[tuple[FileChange, ...], list[str]]

_MIB = 2**20
# What a diff is read for; of a longer file the content before is not kept.
_MOST_BEFORE = 4 * _MIB
_OPAQUE = "user.overlay.opaque"
_NONE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlay:
    """An overlay mount of one run: where a program has it, what lies below it, and a descriptor of its upper layer."""

    mount: str
    host_path: Path
    identity: tuple[int, int]
    upper: int


class OverlayChanges:
    """The overlay mounts of one run, or session, whose changes are wanted. Takes over the descriptors."""

    def __init__(self, overlays: list[Overlay], limits: Limits) -> None:
        self._overlays = overlays
        self._limits = limits
        self._closing = threading.Lock()
        self._closed = False

    def close(self) -> None:
        """Let go of the upper layers; a collection that is under way goes on with descriptors of its own."""
        with self._closing:
            if not self._closed:
                self._closed = True
                for overlay in self._overlays:
                    os.close(overlay.upper)

    async def collect_if_any(self) -> Changes:
        """Return what was changed, in the order of `FileChange`, and a sentence for each thing that was left out."""
        with self._closing:
            nothing = not self._closed and all(_is_empty(overlay.upper) for overlay in self._overlays)
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
        return tuple(sorted(collection.changes, key=_place_in_order)), collection.left_out.warnings()


class _Enough(Exception):
    """A limit is reached, and the rest is left out; the message says so."""


class _Collection:
    """Walks the upper layer and the host's folder side by side. A folder that is not there is `_NONE`."""

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
            lower = os.open(overlay.host_path, FOLDER)
        except OSError as error:
            self._leave_out("", f"the host's folder {overlay.host_path} cannot be read: {error.strerror}")
            return
        try:
            status = os.fstat(lower)
            if (status.st_dev, status.st_ino) != overlay.identity:
                self._leave_out("", f"{overlay.host_path} is another folder by now")
                return
            self._folder(upper, lower, "", 0, False)
        finally:
            os.close(lower)

    def _folder(self, upper: int, lower: int, prefix: str, depth: int, hidden: bool) -> None:
        """Compare the entries of two folders that are open.

        `hidden` says that nothing of the lower one shows through: the kernel notes that of the topmost folder only.
        """
        hidden = hidden or _hides_what_is_below(upper)
        with os.scandir(upper) as entries:
            for entry in entries:
                self._count()
                self._entry(upper, lower, entry.name, prefix + entry.name, depth, hidden)
        if lower != _NONE and hidden:
            with os.scandir(lower) as entries:
                for entry in entries:
                    self._count()
                    if _status(entry.name, upper) is None:
                        self._gone(lower, entry.name, prefix + entry.name, depth)

    def _entry(self, upper: int, lower: int, name: str, path: str, depth: int, hidden: bool) -> None:
        now, before = _status(name, upper), _status(name, lower)
        if now is None:  # a session's background task removes it meanwhile
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
            inner_upper = os.open(name, FOLDER, dir_fd=upper)
        except OSError as error:
            self._leave_out(path, str(error.strerror))
            return
        inner_lower = _NONE
        try:
            if lower != _NONE:
                inner_lower = os.open(name, FOLDER, dir_fd=lower)
            self._folder(inner_upper, inner_lower, path + "/", depth + 1, hidden)
        except OSError as error:
            self._leave_out(path, str(error.strerror))
        finally:
            os.close(inner_upper)
            if inner_lower != _NONE:
                os.close(inner_lower)

    def _file(self, upper: int, lower: int, name: str, path: str, now: os.stat_result) -> None:
        """Note a regular file. `lower` is the folder with what had its name before, `_NONE` where nothing had."""
        too_much = f"the changes would exceed {self._limits.artifact_mib} MiB"
        if now.st_size > self._left:  # to read as much of each of many would take its time
            self._leave_out(path, too_much)
            return
        try:
            data = read_regular(upper, name, self._left + 1)
        except OSError as error:
            self._leave_out(path, str(error.strerror))
            return
        if len(data) > self._left:  # it has grown meanwhile
            self._leave_out(path, too_much)
            return
        executable = bool(now.st_mode & stat_modes.S_IXUSR)
        before = None
        if lower != _NONE:
            status = _status(name, lower)
            before = _read_if_regular(lower, name, status, max(len(data), _MOST_BEFORE) + 1)
            if status is not None and before == data and bool(status.st_mode & stat_modes.S_IXUSR) == executable:
                return  # it was opened to be written to, and was not, or got another time or owner
        self._note("added" if lower == _NONE else "changed", path, data, before, executable)

    def _gone(self, lower: int, name: str, path: str, depth: int) -> None:
        """Note that what the host has under a name is not there any more, each file of a folder by itself."""
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
            folder = os.open(name, FOLDER, dir_fd=lower)
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


def _place_in_order(change: FileChange) -> tuple[str, bool, int, str]:
    # A file can only take a folder's place, or have one made for it, once what was there before is gone.
    if change.kind == "removed":
        return change.mount, False, -change.path.count("/"), change.path
    return change.mount, True, 0, change.path


def _status(name: str, folder: int) -> os.stat_result | None:
    if folder == _NONE:
        return None
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None


def _is_whiteout(status: os.stat_result) -> bool:
    return stat_modes.S_ISCHR(status.st_mode) and status.st_rdev == 0


def _hides_what_is_below(folder: int) -> bool:
    try:
        return os.getxattr(folder, _OPAQUE) == b"y"
    except OSError:  # it has no such attribute
        return False


def _same_link(upper: int, lower: int, name: str) -> bool:
    try:
        return os.readlink(name, dir_fd=upper) == os.readlink(name, dir_fd=lower)
    except OSError:  # it is no link
        return False


def _read_if_regular(folder: int, name: str, status: os.stat_result | None, most: int) -> bytes | None:
    # Looked at before: to open the host's devices and named pipes may itself do something.
    if status is None or not stat_modes.S_ISREG(status.st_mode):
        return None
    try:
        return read_regular(folder, name, most)
    except OSError:  # nothing that this user may read: then there is no content to show
        return None


def _is_empty(folder: int) -> bool:
    with os.scandir(folder) as entries:
        return next(entries, None) is None
