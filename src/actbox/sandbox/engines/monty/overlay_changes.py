"""Collects the changes that a program made in overlays with `keep_changes`, for its result."""

from __future__ import annotations

import stat as stat_modes
from collections.abc import Iterator

from actbox.core.changes import ChangeKind, FileChange
from actbox.core.counted import counted
from actbox.core.limits import Limits
from actbox.sandbox.artifacts import LeftOut, printable, shown
from actbox.sandbox.overlays import place_in_order

from .folders import Folder, LayeredFolder

_MIB = 2**20
_MOST_BEFORE = _MIB
"""The most bytes of a changed file's earlier content that a change includes."""


class OverlayChanges:
    """The changes of all overlays of a program, within the limits for artifacts."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._changes: list[FileChange] = []
        self._left_out = LeftOut()
        self._left = limits.artifact_mib * _MIB

    def collected(self) -> tuple[tuple[FileChange, ...], tuple[str, ...]]:
        """Return the changes in the order of `FileChange`, and sentences on omitted ones."""
        return tuple(sorted(self._changes, key=place_in_order)), tuple(self._left_out.warnings())

    def add(self, mount: str, folder: LayeredFolder) -> None:
        """Collect the changes of one overlay. Blocks."""
        now = dict(_files(folder.upper, "."))
        for path in folder.gone:
            for below, _ in _files(folder.lower, path):
                if below not in now and not self._note(mount, below, "removed", None, self._before(folder, below)):
                    return
        for path, size in now.items():
            if size > self._left:
                why = f"the changes would exceed {self._limits.artifact_mib} MiB"
                self._left_out.add(f"a change of {mount}/{shown(path)} was not collected: {why}")
                continue
            data, before = folder.upper.read(path, size), self._before(folder, path)
            kind: ChangeKind = "added" if _size(folder.lower, path) is None else "changed"
            if data != before and not self._note(mount, path, kind, data, before):
                return

    def _before(self, folder: LayeredFolder, path: str) -> bytes | None:
        size = _size(folder.lower, path)
        return None if size is None or size > min(self._left, _MOST_BEFORE) else folder.lower.read(path, self._left)

    def _note(self, mount: str, path: str, kind: ChangeKind, data: bytes | None, before: bytes | None) -> bool:
        """Record a change; return false, with a warning, once there are too many."""
        if len(self._changes) >= self._limits.artifacts:
            most = counted(self._limits.artifacts, "changed file")
            self._left_out.end(f"more than {most}: the rest was not collected")
            return False
        self._left -= len(data or b"") + len(before or b"")
        self._changes.append(FileChange(mount=mount, path=printable(path), kind=kind, data=data, before=before))
        return True


def _files(folder: Folder, path: str) -> Iterator[tuple[str, int]]:
    """Yield the regular files at a path or below it, with their sizes."""
    if (size := _size(folder, path)) is not None:
        yield path, size
    elif folder.is_folder(path):
        for name in sorted(folder.names(path)):
            yield from _files(folder, name if path == "." else f"{path}/{name}")


def _size(folder: Folder, path: str) -> int | None:
    try:
        status = folder.status(path)
    except OSError:
        return None
    return status.st_size if stat_modes.S_ISREG(status.st_mode) else None
