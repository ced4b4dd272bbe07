"""The files that a program sees: finds the directory that a path lies in and performs the program's file operations."""

from __future__ import annotations

import errno
import os
import posixpath
import stat as stat_modes
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from actbox.core.changes import FileChange
from actbox.core.limits import Limits
from actbox.sandbox.guest.beneath import ENTRY_BYTES, failure, used_bytes

from .folders import Folder, HostFolder, LayeredFolder, Part
from .library import file_handle, file_status, mode_of, path_of, scan_entry
from .overlay_changes import OverlayChanges

_MIB = 2**20
_MOST_SCANNED = 100_000
_MOST_NAMES = 64
_ROOTS: Final = ("workspace", "input", "output")


@dataclass(frozen=True, slots=True)
class Place:
    """A directory or a single file (`is_file`) at `inner` below `folder`, and its path `parts` for programs."""

    parts: tuple[str, ...]
    folder: Folder
    writable: bool
    inner: str = "."
    is_file: bool = False
    bounded: bool = False
    """True if its files count towards `Limits.workspace_mib`, and `disk_mib`."""
    keep_changes: bool = False


class Files:
    """The places that one program, or all programs of a session, can see. All methods block."""

    def __init__(self, workspace: HostFolder, mounts: tuple[Place, ...], limits: Limits) -> None:
        given: Folder = Part(workspace, "input")
        for mount in mounts:
            if mount.parts == ("input",):
                given = LayeredFolder(given, mount.folder)
        own = (
            Place(("workspace",), workspace, writable=True, bounded=True),
            Place(("input",), given, writable=False),
            Place(("output",), workspace, writable=True, inner="output", bounded=True),
        )
        self._places = {place.parts: place for place in (*mounts, *own)}
        self._workspace = workspace
        self._limits = limits
        self._most = min(limits.workspace_mib, limits.disk_mib or limits.workspace_mib) * _MIB
        self._used: int | None = None

    def serve(self, function: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Perform a file operation of the program and return its result. `is_served(function)` must be true.

        Raises `OSError` with the path, and `ValueError`, also for text that is not UTF-8.
        """
        method = _METHODS[function]
        path = posixpath.normpath(path_of(args[0]))
        try:
            return method(self, path, args, kwargs)
        except OSError as error:
            number = error.errno or errno.EIO
            raise OSError(number, os.strerror(number), path) from None

    def changes(self) -> tuple[tuple[FileChange, ...], tuple[str, ...]]:
        """Return the changes in overlays with `keep_changes`, and sentences on omitted ones."""
        kept = OverlayChanges(self._limits)
        for place in self._places.values():
            if place.keep_changes and isinstance(place.folder, LayeredFolder):
                kept.add("/" + "/".join(place.parts), place.folder)
        return kept.collected()

    # The operations

    def _exists(self, path: str, *_: Any) -> bool:
        return self._mode(path) is not None

    def _is_file(self, path: str, *_: Any) -> bool:
        return stat_modes.S_ISREG(self._mode(path) or 0)

    def _is_dir(self, path: str, *_: Any) -> bool:
        return stat_modes.S_ISDIR(self._mode(path) or 0)

    def _is_symlink(self, path: str, *_: Any) -> bool:
        return stat_modes.S_ISLNK(self._mode(path) or 0)

    def _open(self, path: str, args: tuple[Any, ...], _: Any) -> Any:
        handle = file_handle(path, args[1])
        mode = mode_of(handle)
        if mode.startswith("r"):
            status = self._status(path)
            if stat_modes.S_ISDIR(status.st_mode):
                raise failure(errno.EISDIR)
            if not stat_modes.S_ISREG(status.st_mode):
                raise failure(errno.ELOOP if stat_modes.S_ISLNK(status.st_mode) else errno.EINVAL)
        else:
            self._put(path, b"", append=mode.startswith("a"))
        return handle

    def _read_bytes(self, path: str, *_: Any) -> bytes:
        place, inner = self._found(path)
        try:
            return place.folder.read(inner, self._limits.memory_mib * _MIB)
        except OSError as error:
            if error.errno == errno.EFBIG:  # the program's memory cannot hold it
                raise failure(errno.ENOMEM) from None
            raise

    def _read_text(self, path: str, *_: Any) -> str:
        text = self._read_bytes(path).decode("utf-8")
        return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text

    def _write_bytes(self, path: str, args: tuple[Any, ...], _: Any) -> int:
        self._put(path, args[1], append=False)
        return len(args[1])

    def _write_text(self, path: str, args: tuple[Any, ...], _: Any) -> int:
        self._put(path, args[1].encode("utf-8"), append=False)
        return len(args[1])

    def _append_bytes(self, path: str, args: tuple[Any, ...], _: Any) -> int:
        self._put(path, args[1], append=True)
        return len(args[1])

    def _append_text(self, path: str, args: tuple[Any, ...], _: Any) -> int:
        self._put(path, args[1].encode("utf-8"), append=True)
        return len(args[1])

    def _mkdir(self, path: str, _: Any, kwargs: Mapping[str, Any]) -> None:
        if self._mode(path) is not None:
            if kwargs.get("exist_ok") and self._is_dir(path):
                return
            raise failure(errno.EEXIST)
        parent = posixpath.dirname(path)
        if kwargs.get("parents") and not self._is_dir(parent):
            self._mkdir(parent, (), {"parents": True, "exist_ok": True})
        place, inner = self._changed(path)
        self._check_room(place, ENTRY_BYTES)
        place.folder.make(inner)
        self._grown(place, ENTRY_BYTES)

    def _unlink(self, path: str, *_: Any) -> None:
        place, inner = self._changed(path)
        held = self._held(place, inner)
        place.folder.remove(inner)
        self._grown(place, -held)

    def _rmdir(self, path: str, *_: Any) -> None:
        place, inner = self._changed(path)
        held = self._held(place, inner)
        place.folder.remove_folder(inner)
        self._grown(place, -held)

    def _rename(self, path: str, args: tuple[Any, ...], _: Any) -> Any:
        source, source_inner = self._changed(path)
        target, target_inner = self._changed(posixpath.normpath(path_of(args[1])))
        if source.folder is target.folder and not isinstance(source.folder, LayeredFolder):
            source.folder.move(source_inner, target_inner)
        elif source.folder.is_folder(source_inner):  # as rename(2) fails across file systems; a file is copied
            raise failure(errno.EXDEV)
        elif (source.folder, source_inner) != (target.folder, target_inner):
            data = source.folder.read(source_inner, self._limits.file_mib * _MIB)
            self._put(posixpath.normpath(path_of(args[1])), data, append=False)
            source.folder.remove(source_inner)
        self._used = None  # a replaced file may have freed space: count again
        return None

    def _iterdir(self, path: str, *_: Any) -> list[str]:
        return [posixpath.join(path, name) for name in sorted(self._names(path))]

    def _scan(self, path: str, _: Any, kwargs: Mapping[str, Any]) -> list[Any]:
        deepest = kwargs.get("max_depth")
        entries: list[Any] = []
        left = [("", 0)]
        while left:
            inner, depth = left.pop()
            at = posixpath.join(path, inner) if inner else path
            mode = self._status(at).st_mode if not inner else (self._mode(at) or 0)
            is_folder = stat_modes.S_ISDIR(mode)
            is_file, is_link = stat_modes.S_ISREG(mode), stat_modes.S_ISLNK(mode)
            entries.append(scan_entry(inner, is_folder=is_folder, is_file=is_file, is_link=is_link))
            if len(entries) > _MOST_SCANNED:
                raise failure(errno.EOVERFLOW)
            if is_folder and (deepest is None or depth < deepest):
                left += [(posixpath.join(inner, name), depth + 1) for name in sorted(self._names(at), reverse=True)]
        return entries

    def _stat(self, path: str, *_: Any) -> Any:
        return file_status(self._status(path))

    def _same(self, path: str, *_: Any) -> str:
        return path  # links are not followed

    # Finding a place

    def _at(self, path: str) -> tuple[Place, str] | None:
        """Return the place that contains a path, and the path in the place's folder; `None` if there is none."""
        parts = tuple(part for part in path.split("/") if part)
        if len(parts) > _MOST_NAMES:
            raise failure(errno.ENAMETOOLONG)
        if parts[:1] == ("workspace",) and parts[1:2] in (("input",), ("output",)):
            parts = parts[1:]
        for length in range(len(parts), 0, -1):
            place = self._places.get(parts[:length])
            if place is not None:
                if place.is_file and length < len(parts):
                    raise failure(errno.ENOTDIR)
                return place, posixpath.normpath(posixpath.join(place.inner, *parts[length:]))
        return None

    def _found(self, path: str) -> tuple[Place, str]:
        found = self._at(path)
        if found is None:
            raise failure(errno.EISDIR if self._is_virtual(path) else errno.ENOENT)
        return found

    def _changed(self, path: str) -> tuple[Place, str]:
        """Return the place and inner path of an entry to be changed. Raises `OSError` if it must not be."""
        found = self._at(path)
        if found is None:
            raise failure(errno.EACCES)
        place, inner = found
        if not place.writable:
            raise failure(errno.EROFS)
        if inner == place.inner or self._is_virtual(path):
            raise failure(errno.EBUSY)
        return found

    def _below(self, path: str) -> set[str]:
        """Return the names in a directory that lead to places below it, also if the directory does not have them."""
        parts = tuple(part for part in path.split("/") if part)
        if parts[:1] == ("workspace",) and len(parts) > 1 and parts[1] in ("input", "output"):
            parts = parts[1:]
        deeper = len(parts)
        return {other[deeper] for other in self._places if len(other) > deeper and other[:deeper] == parts}

    def _is_virtual(self, path: str) -> bool:
        return bool(self._below(path))

    def _names(self, path: str) -> set[str]:
        found = self._at(path)
        below = self._below(path)
        if found is None:
            if not below:
                raise failure(errno.ENOENT)
            return below
        place, inner = found
        if place.is_file:
            raise failure(errno.ENOTDIR)
        if below and not place.folder.is_folder(inner):
            return below
        return place.folder.names(inner) | below

    def _status(self, path: str) -> os.stat_result:
        found = self._at(path)
        if found is not None:
            place, inner = found
            try:
                return place.folder.status(inner)
            except OSError as error:
                if error.errno != errno.ENOENT or not self._is_virtual(path):
                    raise
        elif not self._is_virtual(path):
            raise failure(errno.ENOENT)
        return self._workspace.status(".")  # a directory that only leads to places below it

    def _mode(self, path: str) -> int | None:
        try:
            return self._status(path).st_mode
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                return None
            raise

    # Counting bytes

    def _put(self, path: str, data: bytes, *, append: bool) -> None:
        place, inner = self._at_file(path)
        before = self._size(place, inner)
        after = before + len(data) if append else len(data)
        if after > self._limits.file_mib * _MIB:
            raise failure(errno.EFBIG)
        growth = ENTRY_BYTES + after - self._held(place, inner)
        self._check_room(place, growth)
        place.folder.write(inner, data, append=append)
        self._grown(place, growth)

    def _at_file(self, path: str) -> tuple[Place, str]:
        found = self._at(path)
        if found is not None and found[0].is_file:
            if not found[0].writable:
                raise failure(errno.EROFS)
            return found
        if self._is_dir(path):
            raise failure(errno.EISDIR)
        return self._changed(path)

    def _size(self, place: Place, inner: str) -> int:
        try:
            status = place.folder.status(inner)
        except OSError:
            return 0
        return status.st_size if stat_modes.S_ISREG(status.st_mode) else 0

    def _held(self, place: Place, inner: str) -> int:
        """Return the counted bytes of an entry; for an overlay, only a changed entry counts."""
        folder = place.folder.upper if isinstance(place.folder, LayeredFolder) else place.folder
        try:
            return used_bytes(folder.status(inner))
        except OSError:
            return 0

    def _check_room(self, place: Place, growth: int) -> None:
        if not place.bounded or growth <= 0:
            return
        if self._used is None:
            self._used = self._workspace.size()
            for other in self._places.values():
                if isinstance(other.folder, LayeredFolder) and isinstance(other.folder.upper, HostFolder):
                    self._used += other.folder.upper.size()
        if self._used + growth > self._most:
            raise failure(errno.ENOSPC)

    def _grown(self, place: Place, by: int) -> None:
        if place.bounded and self._used is not None:
            self._used += by


def is_served(function: str) -> bool:
    """Return whether an operation of the interpreter is a file operation that `Files` performs."""
    return function in _METHODS


_METHODS: Final = {
    "Path.exists": Files._exists,
    "Path.is_file": Files._is_file,
    "Path.is_dir": Files._is_dir,
    "Path.is_symlink": Files._is_symlink,
    "open": Files._open,
    "Path.read_text": Files._read_text,
    "Path.read_bytes": Files._read_bytes,
    "Path.write_text": Files._write_text,
    "Path.write_bytes": Files._write_bytes,
    "Path.append_text": Files._append_text,
    "Path.append_bytes": Files._append_bytes,
    "Path.mkdir": Files._mkdir,
    "Path.unlink": Files._unlink,
    "Path.rmdir": Files._rmdir,
    "Path.rename": Files._rename,
    "Path.iterdir": Files._iterdir,
    "Path.scan": Files._scan,
    "Path.stat": Files._stat,
    "Path.resolve": Files._same,
    "Path.absolute": Files._same,
}
