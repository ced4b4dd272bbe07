"""The guests of a sandbox whose session may be forked, as pid 1 sees them: the first, and copies of it and of copies.

Each copy has a file tree of its own, below a folder that only pid 1 can write to: the sandbox's root once more, with a
workspace, a `/tmp` and a `/dev/shm` that begin as copies of the origin's. A guest has no capability but the one to
change its root, so pid 1 makes the tree and the copy enters it. What a copy starts has its root too, and by that is
known to belong to it.

All share the sandbox's limits. It ends when none of them is left.
"""

from __future__ import annotations

import contextlib
import os
import signal

from . import linux
from .attach import OWN, make_point, mount_own
from .copying import copy_folder
from .watch import describe_end

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from resource import struct_rusage
    from typing import Any, Dict, List

    from .control import Control
    from .watch import Watcher

TREES = "/run"
"""Where the trees of copies lie in the sandbox's own root."""

_FIRST = 0
_FOLDERS = tuple(place.rstrip("/") for place in OWN)
_FLAGS = linux.MS_NOSUID | linux.MS_NODEV
_READ_ONLY = linux.MOUNT_ATTR_RDONLY | linux.MOUNT_ATTR_NOSUID | linux.MOUNT_ATTR_NODEV


def mount_trees() -> int:
    """Mount the folder of trees below the working folder; return a descriptor by which alone it can be written to."""
    folder = TREES.lstrip("/")
    linux.mount("tmpfs", folder, "tmpfs", _FLAGS, "mode=0755,size=1m")
    writable = linux.open_tree(linux.AT_FDCWD, folder, linux.OPEN_TREE_CLONE)
    # Not copied along when the root is, or each tree would have all that were there before it.
    linux.mount_setattr(folder, 0, _READ_ONLY, 0, propagation=linux.MS_UNBINDABLE)
    return writable


class Family:
    """The guests of one sandbox, by number: 0 is the first."""

    def __init__(self, first: int, control: Control, watcher: Watcher, trees: int, mounts: List[str]) -> None:
        """`trees` is what `mount_trees` returned; `mounts` are the paths where something is mounted for good."""
        self._pids: Dict[int, int] = {_FIRST: first}
        self._made: Dict[int, int] = {}
        self._control = control
        self._watcher = watcher
        self._trees = trees
        self._mounts = [path for path in mounts if path.startswith(OWN)]

    def note_mounts(self, paths: List[str]) -> None:
        """Note what has been mounted for the run, so that copies get it too."""
        self._mounts += [path for path in paths if path.startswith(OWN)]

    def answer(self, op: str, request: Dict[str, Any], given: List[int]) -> None:
        """Do what the host asks, with the descriptors given, and say what came of it."""
        descriptors: List[int] = []
        answer: Dict[str, Any] = {"answer": op, "number": request["number"]}
        try:
            if op == "make_tree":
                descriptors = self._make_tree(given, **request)
            elif op == "adopt":
                self._adopt(**request)
            elif op == "end":
                self._end(request["number"])
            elif op == "interrupt":
                self._interrupt(request["number"])
            else:
                raise ValueError("nobody knows what %r is" % op)
        except Exception as error:  # the host decides what it means
            answer["error"] = "%s: %s" % (type(error).__name__, error)
        self._control.say(answer, descriptors)
        for descriptor in [*given, *descriptors]:
            os.close(descriptor)

    def reaped(self, pid: int, status: int, usage: struct_rusage, limit: str) -> None:
        """Tell the host if it was a guest that has ended, and end what it leaves; after the last, end the sandbox."""
        for number, known in list(self._pids.items()):
            if known == pid:
                del self._pids[number]
                self._clear(number)
                self._control.say({"guest": number, **describe_end(status, usage, limit)})
        if not self._pids:
            os._exit(0)

    def _make_tree(self, given: List[int], number: int, origin: int, size_mib: int, inodes: int) -> List[int]:
        """Make the tree of a copy with the workspace given; return a descriptor of its root, for the copy to enter."""
        workspace, inputs = given
        tree, source = _tree(number), _tree(origin)
        os.mkdir(str(number), dir_fd=self._trees)
        self._made[number] = origin
        linux.mount("/", tree, None, linux.MS_BIND | linux.MS_REC)
        linux.move_mount(workspace, tree + "/workspace")
        os.chdir(tree)
        try:
            mount_own(size_mib, inodes)
        finally:
            os.chdir("/")
        for folder in _FOLDERS:
            copy_folder(source + folder, tree + folder)
            self._watcher.in_memory.append(tree + folder)
        self._mount_again(tree, inputs)
        return [os.open(tree, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)]

    def _mount_again(self, tree: str, inputs: int) -> None:
        """Mount below a tree's own folders the inputs, and what else is mounted there in the sandbox's root."""
        for path in self._mounts:
            make_point(tree + path, os.path.isdir(path))
        linux.move_mount(inputs, tree + "/workspace/input")
        for path in self._mounts:
            mount = linux.open_tree(linux.AT_FDCWD, path, linux.OPEN_TREE_CLONE | linux.AT_RECURSIVE)
            linux.move_mount(mount, tree + path)
            os.close(mount)

    def _adopt(self, number: int, pid: int) -> None:
        """Take a process that says that it is the copy for it, if it can be."""
        if number not in self._made or number in self._pids or pid in self._pids.values():
            raise ValueError("there is no copy to be expected")
        if pid <= 1 or self._watcher.parent(pid) != 1:
            raise ValueError("process %d is not there, or is another's" % pid)
        self._pids[number] = pid

    def _interrupt(self, number: int) -> None:
        if number in self._pids:
            os.kill(self._pids[number], signal.SIGINT)

    def _end(self, number: int) -> None:
        """Kill a guest with all that it has started; of one that was never adopted, remove the tree too."""
        self._kill(number)
        if number not in self._pids:
            self._clear(number)

    def _clear(self, number: int) -> None:
        """Leave nothing of a guest that has ended."""
        self._kill(number)
        if self._made.pop(number, None) is None:
            return
        tree = _tree(number)
        self._watcher.in_memory = [path for path in self._watcher.in_memory if not path.startswith(tree + "/")]
        linux.umount(tree, linux.MNT_DETACH)
        os.rmdir(str(number), dir_fd=self._trees)

    def _kill(self, number: int) -> None:
        while pids := [pid for pid in self._watcher.pids() if self._belongs(pid, number)]:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            # A process that is dying has no root any more, and is not found again.
            os.sched_yield()

    def _belongs(self, pid: int, number: int) -> bool:
        """Return whether a process is a guest's; one that has gone to a root of its own counts as the first's."""
        root = self._watcher.root_of(pid)
        if number == _FIRST:
            return root is not None and root not in [_tree(made) for made in self._made]
        return root == _tree(number)


def _tree(number: int) -> str:
    return "" if number == _FIRST else "%s/%d" % (TREES, number)
