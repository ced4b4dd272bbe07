"""The files that a run's program sees: `/workspace`, `/input`, `/output`, `/tmp` and the policy's mounts.

A program names paths and gets numbers for open files; the host looks up everything. Nothing in a request is trusted:
types are checked and limits enforced, and the program receives an `OSError` for what it must not do.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from actbox.core.limits import Limits
from actbox.core.mounts import FileMount
from actbox.sandbox.guest.beneath import failure, open_beneath, open_folder
from actbox.sandbox.guest.wire import ProtocolError
from actbox.sandbox.host_folders import make_folder, remove_folder
from actbox.sandbox.workspace import Workspace

from .trees import Disk, Quota, Tree, described, identity, mounted

_MIB = 2**20
_MOST_READ = 2**20
_MODES = frozenset({"r", "w", "a", "x", "+r", "+w", "+a", "+x"})
_WORKSPACE = ("workspace",)
_INPUT = ("workspace", "input")
_TEMPORARY = ("tmp",)
_Parts = tuple[str, ...]


@dataclass(slots=True)
class _Open:
    descriptor: int
    appends: bool
    quota: Quota | None = None

    def count_in(self, quota: Quota | None) -> None:
        """Count its growth in this quota, or in none."""
        if self.quota is not None:
            self.quota.opened.discard(self.descriptor)
        if quota is not None:
            quota.opened.add(self.descriptor)
        self.quota = quota


class GuestFiles:
    """Performs the program's file operations. All methods block and may be called from any thread."""

    def __init__(
        self, workspace: Workspace, mounts: Sequence[FileMount], limits: Limits, disk: Disk | None = None
    ) -> None:
        """`disk` is the limit of all files of the sandbox's runs together, if there is one."""
        self._disk = disk
        self._workspace = workspace
        self._mounts = mounts
        self._limits = limits
        self._one_at_a_time = threading.Lock()
        self._closed = False
        self._temporary = ""
        self._opened: dict[int, _Open] = {}
        self._last = 0
        self._places: dict[_Parts, list[Tree]] = {}
        """The trees for each mount point; two trees at one mount point are shown merged."""

    def open(self) -> None:
        """Open the workspace and all mounts. Raises `SandboxUnavailable` if a mount has another file now.

        Raises `OSError` after `close`.
        """
        with self._one_at_a_time:
            if self._closed:
                raise failure(errno.EBADF)
            try:
                self._open_places()
            except BaseException:
                self._let_go()
                raise

    def close(self) -> None:
        """Close everything, and remove `/tmp`. Later requests fail."""
        with self._one_at_a_time:
            self._closed = True
            self._let_go()

    def _open_places(self) -> None:
        folder = self._workspace.open()
        self._places[_WORKSPACE] = [self._bounded(folder)]
        self._places[_INPUT] = [Tree(open_beneath(folder, "input"), writable=False)]
        for mount in self._mounts:
            self._places.setdefault(_inside(mount.mount_path.parts[1:]), []).append(mounted(mount))

    def _let_go(self) -> None:
        for opened in self._opened.values():
            os.close(opened.descriptor)
        for trees in self._places.values():
            for tree in trees:
                if tree.quota is not None:
                    tree.quota.leave()
                tree.close()
        self._opened.clear()
        self._places.clear()
        if self._temporary:
            remove_folder(self._temporary)
            self._temporary = ""

    def do(self, asked: dict[str, Any]) -> Any:
        """Perform a request. Raises `OSError` if that fails, and `ProtocolError` for an invalid request."""
        op = asked.pop("op", None)
        action, fields = _ACTIONS.get(op, (None, {})) if isinstance(op, str) else (None, {})
        if action is None or asked.keys() != fields.keys():
            raise ProtocolError("a question about files that makes no sense")
        for name, kind in fields.items():
            if type(asked[name]) is not kind or (kind is int and not 0 <= asked[name] < 2**53):
                raise ProtocolError(f"a question about files whose {name} makes no sense")
        with self._one_at_a_time:
            if self._closed:
                raise failure(errno.EBADF)
            return action(self, **asked)

    # The requests

    def _open(self, path: str, mode: str) -> int:
        if mode not in _MODES:
            raise ProtocolError("a file that is to be opened in no known way")
        if len(self._opened) >= self._limits.open_files:
            raise failure(errno.EMFILE)
        tree, parts = self._found(path, make="r" not in mode)
        descriptor = tree.open(parts, mode)
        self._last += 1
        self._opened[self._last] = _Open(descriptor, "a" in mode)
        self._opened[self._last].count_in(tree.quota)
        return self._last

    def _close(self, handle: int) -> None:
        opened = self._handle(handle)
        opened.count_in(None)
        os.close(opened.descriptor)
        del self._opened[handle]

    def _read(self, handle: int, at: int, size: int) -> bytes:
        return os.pread(self._handle(handle).descriptor, min(size, _MOST_READ), at)

    def _write(self, handle: int, at: int, data: bytes) -> int:
        opened = self._handle(handle)
        there = os.fstat(opened.descriptor).st_size
        at = there if opened.appends else at
        self._grow(opened, there, at + len(data))
        view = memoryview(data)
        while view:
            written = os.pwrite(opened.descriptor, view, at)
            view, at = view[written:], at + written
        return at

    def _truncate(self, handle: int, size: int) -> None:
        opened = self._handle(handle)
        self._grow(opened, os.fstat(opened.descriptor).st_size, size)
        os.ftruncate(opened.descriptor, size)

    def _size(self, handle: int) -> int:
        return os.fstat(self._handle(handle).descriptor).st_size

    def _stat(self, path: str) -> dict[str, Any]:
        try:
            tree, parts = self._found(path)
            return described(tree.stat(parts))
        except FileNotFoundError:
            if self._below(_parts_of(path)):
                return {"kind": "folder", "size": 0, "modified": 0.0, "inode": 1}
            raise

    def _list(self, path: str) -> list[list[str]]:
        wanted = _parts_of(path)
        found = dict.fromkeys(self._below(wanted), "folder")
        missing: OSError | None = None if found else failure(errno.ENOENT)
        trees, parts = self._trees(wanted)
        for tree in trees:
            try:
                entries = tree.list(parts)
            except FileNotFoundError:
                continue
            missing = None
            found = entries | found
        if missing is not None:
            raise missing
        return [[name, kind] for name, kind in sorted(found.items())]

    def _mkdir(self, path: str) -> None:
        tree, parts = self._found(path, make=True)
        if not parts or self._below(_parts_of(path)):
            raise failure(errno.EEXIST)
        tree.mkdir(parts)

    def _remove(self, path: str) -> None:
        tree, parts = self._entry(path)
        tree.remove(parts, folder=False)

    def _rmdir(self, path: str) -> None:
        tree, parts = self._entry(path)
        tree.remove(parts, folder=True)

    def _rename(self, path: str, target: str) -> None:
        tree, parts = self._entry(path)
        other, other_parts = self._entry(target)
        moved = tree.rename(parts, other, other_parts)
        for opened in self._opened.values() if moved else ():
            if identity(os.fstat(opened.descriptor)) in moved:
                opened.count_in(other.quota)

    # Finding the entry at a path

    def _handle(self, handle: int) -> _Open:
        if handle not in self._opened:
            raise failure(errno.EBADF)
        return self._opened[handle]

    def _grow(self, opened: _Open, size: int, wanted: int) -> None:
        if wanted > self._limits.file_mib * _MIB:
            raise failure(errno.EFBIG)
        if opened.quota is not None and wanted > size:
            opened.quota.take(wanted - size)

    def _entry(self, path: str) -> tuple[Tree, _Parts]:
        """Return the tree and inner path of an entry to change. Raises `OSError` for a mount point itself."""
        tree, parts = self._found(path, make=True)
        if not parts:
            raise failure(errno.EBUSY)
        return tree, parts

    def _found(self, path: str, make: bool = False) -> tuple[Tree, _Parts]:
        """Return the tree that has a path, and the path in the tree; with `make` the entry need not exist yet."""
        trees, parts = self._trees(_parts_of(path))
        if not trees:  # no entry can be made outside of all mount points
            raise failure(errno.EROFS if make else errno.ENOENT)
        for tree in trees[:-1]:
            try:
                tree.stat(parts)
            except OSError:
                continue
            return tree, parts
        return trees[0] if make else trees[-1], parts

    def _trees(self, wanted: _Parts) -> tuple[list[Tree], _Parts]:
        """Return the trees of the deepest mount point above a path, and the path in them."""
        if wanted[:1] == _TEMPORARY and not self._temporary:
            self._make_temporary()
        for length in range(len(wanted), 0, -1):
            if wanted[:length] in self._places:
                return self._places[wanted[:length]], wanted[length:]
        return [], ()

    def _below(self, wanted: _Parts) -> list[str]:
        """Return the names in a directory that lead to deeper mount points."""
        places = [*self._places, _TEMPORARY]
        if not wanted:
            places += [("input",), ("output",)]
        return [place[len(wanted)] for place in places if len(place) > len(wanted) and place[: len(wanted)] == wanted]

    def _make_temporary(self) -> None:
        self._temporary = make_folder()
        folder = open_folder(self._temporary)
        self._places[_TEMPORARY] = [self._bounded(folder)]

    def _bounded(self, folder: int) -> Tree:
        quota = Quota(folder, self._limits.workspace_mib * _MIB, self._disk)
        return Tree(folder, writable=True, quota=quota)


def _parts_of(path: str) -> _Parts:
    """Return the names in an absolute path, in the workspace for `/input` and `/output`. Raises `ProtocolError`."""
    first, *parts = path.split("/")
    if first or "\0" in path or not {".", ".."}.isdisjoint(parts) or ("" in parts and parts != [""]):
        raise ProtocolError("a path that is not absolute and plain")
    try:
        path.encode()
    except UnicodeEncodeError:
        raise failure(errno.EILSEQ) from None
    return _inside(tuple(part for part in parts if part))


def _inside(parts: _Parts) -> _Parts:
    """Return the path in its canonical form: `/input` and `/output` are directories of the workspace."""
    return ("workspace", *parts) if parts[:1] in (("input",), ("output",)) else parts


_ACTIONS: Mapping[str, tuple[Callable[..., Any], Mapping[str, type]]] = {
    "open": (GuestFiles._open, {"path": str, "mode": str}),
    "close": (GuestFiles._close, {"handle": int}),
    "read": (GuestFiles._read, {"handle": int, "at": int, "size": int}),
    "write": (GuestFiles._write, {"handle": int, "at": int, "data": bytes}),
    "truncate": (GuestFiles._truncate, {"handle": int, "size": int}),
    "size": (GuestFiles._size, {"handle": int}),
    "stat": (GuestFiles._stat, {"path": str}),
    "list": (GuestFiles._list, {"path": str}),
    "mkdir": (GuestFiles._mkdir, {"path": str}),
    "remove": (GuestFiles._remove, {"path": str}),
    "rmdir": (GuestFiles._rmdir, {"path": str}),
    "rename": (GuestFiles._rename, {"path": str, "target": str}),
}
"""For each request, the function that performs it and the types of its fields."""
