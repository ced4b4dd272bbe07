"""The guests of a forkable session's sandbox as pid 1 sees them: the first guest, copies of it, and copies of copies.

Each copy has its own file tree, in a directory that only pid 1 can write or look into: another view of the sandbox's
root, with a workspace, a `/tmp` and a `/dev/shm`, which are filled with copies of the original's files once the copy
exists. A guest's only capability is to change its root: pid 1 makes the tree, and the copy enters it and cannot leave
it again. Processes that a copy starts have its root too, and are recognized by it.

All guests share the sandbox's limits. The sandbox ends with its last guest.
"""

from __future__ import annotations

import contextlib
import os
import signal

from . import linux
from .attach import OWN, attach_inputs, make_point, mount_own, open_inputs
from .copying import copy_folder
from .watch import describe_end

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from resource import struct_rusage
    from typing import Any, Dict, Iterator, List, Set

    from .control import Control
    from .watch import Watcher

TREES = "/var/sessions"
"""The directory of the copies' trees in the sandbox's own root."""

_FIRST = 0
_FOLDERS = tuple(place.rstrip("/") for place in OWN)
_FLAGS = linux.MS_NOSUID | linux.MS_NODEV
_READ_ONLY = linux.MOUNT_ATTR_RDONLY | linux.MOUNT_ATTR_NOSUID | linux.MOUNT_ATTR_NODEV


def mount_trees() -> int:
    """Mount the directory of trees below the working directory; return the only descriptor that can write to it."""
    folder = TREES.lstrip("/")
    # Mode 0: a guest has no capability to override it, so it cannot look into a tree from outside, leave its own, or
    # change one that is being made.
    linux.mount("tmpfs", folder, "tmpfs", _FLAGS, "mode=0,size=1m")
    writable = linux.open_tree(linux.AT_FDCWD, folder, linux.OPEN_TREE_CLONE)
    # Not copied along with the root; otherwise each tree would contain all earlier trees.
    linux.mount_setattr(folder, 0, _READ_ONLY, 0, propagation=linux.MS_UNBINDABLE)
    return writable


class Family:
    """The guests of one sandbox, by number; 0 is the first."""

    def __init__(self, first: int, control: Control, watcher: Watcher, trees: int, mounts: List[str]) -> None:
        """`trees` is the result of `mount_trees`; `mounts` are the paths of the permanent mounts."""
        self._pids: Dict[int, int] = {_FIRST: first}
        self._made: Set[int] = set()
        self._control = control
        self._watcher = watcher
        self._trees = trees
        self._mounts = [path for path in mounts if path.startswith(OWN)]

    def note_mounts(self, paths: List[str]) -> None:
        """Record the paths of the run's mounts, so that copies get them too."""
        self._mounts += [path for path in paths if path.startswith(OWN)]

    def answer(self, op: str, request: Dict[str, Any], given: List[int]) -> None:
        """Fulfil a request of the host, with the given descriptors, and send the answer."""
        descriptors: List[int] = []
        answer: Dict[str, Any] = {"answer": op, "number": request["number"]}
        try:
            if op == "make_tree":
                descriptors = self._make_tree(given, **request)
            elif op == "adopt":
                self._adopt(**request)
            elif op == "end":
                self._end(**request)
            elif op == "interrupt":
                self._interrupt(request["number"])
            else:
                raise ValueError("nobody knows what %r is" % op)
        except Exception as error:  # the host decides what to do about it
            answer["error"] = "%s: %s" % (type(error).__name__, error)
        try:
            self._control.say(answer, descriptors)
        except OSError as error:  # too many descriptors are in transit: the host will have the tree removed
            self._control.say({**answer, "error": error.strerror})
        for descriptor in [*given, *descriptors]:
            os.close(descriptor)

    def reaped(self, pid: int, status: int, usage: struct_rusage, limit: str) -> None:
        """If a guest has ended, tell the host, and kill what it leaves; after the last guest, end the sandbox."""
        for number, known in list(self._pids.items()):
            if known == pid:
                del self._pids[number]
                self._clear(number)
                self._control.say({"guest": number, **describe_end(status, usage, limit)})
        if not self._pids:
            os._exit(0)

    def _make_tree(self, given: List[int], number: int, shared: List[str], size_mib: int, inodes: int) -> List[int]:
        """Make a file tree around the given workspace; return a descriptor of its root, which a copy enters.

        After the workspace and its inputs the mounts of the places `shared` are given, which lie in its file system. A
        host directory for `/input` may be given too; then a descriptor of the copy's `/input` is returned as well.
        """
        workspace, inputs, *folder = given
        own, folder = dict(zip(shared, folder)), folder[len(shared) :]  # noqa: B905 (there is none before CPython 3.10)
        tree = _tree(number)
        os.mkdir(str(number), dir_fd=self._trees)
        self._made.add(number)
        try:
            self._mount_tree(tree, workspace, own, size_mib, inodes)
            # All mounts are attached now, while the tree has nothing that a program made, which could redirect one.
            for path in self._mounts:
                make_point(tree + path, os.path.isdir(path))
            self._mount_again(tree, below_input=False)
            attach_inputs(inputs, folder, tree)
            self._mount_again(tree, below_input=True)
            shown = [open_inputs(tree)] if folder else []
        except BaseException:
            self._clear(number)
            raise
        return [os.open(tree, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC), *shown]

    def _mount_tree(self, tree: str, workspace: int, own: Dict[str, int], size_mib: int, inodes: int) -> None:
        linux.mount("/", tree, None, linux.MS_BIND | linux.MS_REC)
        linux.move_mount(workspace, tree + "/workspace")
        for path, descriptor in own.items():
            linux.move_mount(descriptor, tree + path)
        if not own:
            os.chdir(tree)
            try:
                mount_own(size_mib, inodes)
            finally:
                os.chdir("/")
        self._watcher.memory.file_systems += [tree + folder for folder in _FOLDERS if folder not in own]

    def _fill_tree(self, number: int, origin: int) -> None:
        """Copy a guest's files into a copy's tree, in which the copy may be at work already."""
        self._watcher.begin_long_work()
        for folder in _FOLDERS:
            with _without_mounts(_tree(origin) + folder) as source, _without_mounts(_tree(number) + folder) as target:
                copy_folder(source, target, self._look)

    def _look(self) -> None:
        self._watcher.look_meanwhile(lambda: self._control.say({"limit": "processes"}))

    def _mount_again(self, tree: str, below_input: bool) -> None:
        """Mount the mounts of the sandbox's root again, below a tree's own directories."""
        for path in self._mounts:
            if path.startswith("/workspace/input/") == below_input:
                mount = linux.open_tree(linux.AT_FDCWD, path, linux.OPEN_TREE_CLONE | linux.AT_RECURSIVE)
                linux.move_mount(mount, tree + path)
                os.close(mount)

    def _adopt(self, number: int, pid: int, origin: int) -> None:
        """Copy the original's files; register a process that claims to be its copy, after checking that it can be."""
        if number not in self._made or number in self._pids or pid in self._pids.values():
            raise ValueError("there is no copy to be expected")
        self._fill_tree(number, origin)
        if pid <= 1 or self._watcher.parent(pid) != 1 or self._watcher.root_of(pid) != _tree(number):
            raise ValueError("process %d is not there, or is not the copy" % pid)
        self._pids[number] = pid

    def _interrupt(self, number: int) -> None:
        if number in self._pids:
            os.kill(self._pids[number], signal.SIGINT)

    def _end(self, number: int, pid: int = 0) -> None:
        """Kill a guest with everything that it has started; if it was never adopted, remove its tree too.

        `pid` is the process that would have been adopted, as its original reported it.
        """
        if pid > 1 and pid not in self._pids.values() and self._watcher.parent(pid) == 1:
            os.kill(pid, signal.SIGKILL)
        self._kill(number)
        if number not in self._pids:
            self._clear(number)

    def _clear(self, number: int) -> None:
        """Kill the processes and remove the tree of a guest that has ended."""
        self._kill(number)
        if number not in self._made:
            return
        self._made.discard(number)
        tree = _tree(number)
        memory = self._watcher.memory
        memory.file_systems = [
            place for place in memory.file_systems if not (isinstance(place, str) and place.startswith(tree + "/"))
        ]
        linux.umount(tree, linux.MNT_DETACH)
        os.rmdir(str(number), dir_fd=self._trees)

    def _kill(self, number: int) -> None:
        if number in self._pids:  # wherever its root is now
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pids[number], signal.SIGKILL)
        while pids := [pid for pid in self._watcher.pids() if self._belongs(pid, number)]:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            # A dying process has no root any more, so it is not found again.
            os.sched_yield()

    def _belongs(self, pid: int, number: int) -> bool:
        """Return whether a process belongs to a guest, by the tree its root lies in; outside all trees it is 0's."""
        root = self._watcher.root_of(pid)
        if root is None or pid in self._pids.values():
            return False
        if number == _FIRST:
            return not any(_lies_in(root, made) for made in self._made)
        return _lies_in(root, number)


@contextlib.contextmanager
def _without_mounts(folder: str) -> Iterator[str]:
    """For a block, show the file system that is mounted at a directory without the mounts in it; yield its path."""
    mount = linux.open_tree(linux.AT_FDCWD, folder, linux.OPEN_TREE_CLONE)
    try:
        yield "/proc/self/fd/%d/." % mount  # not the link itself, which is not followed
    finally:
        os.close(mount)


def _lies_in(root: str, number: int) -> bool:
    return root == _tree(number) or root.startswith(_tree(number) + "/")


def _tree(number: int) -> str:
    return "" if number == _FIRST else "%s/%d" % (TREES, number)
