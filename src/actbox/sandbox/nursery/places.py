"""The nursery's mount namespaces, and how it moves between them.

In `here` it sees the host's files, from which it makes templates and mounts. `shelf` holds the workspaces of all
sandboxes and nothing else; it outlives the nursery while the host holds a descriptor of it. Each template root has its
own namespace with nothing but that root: a sandbox is forked there and copies it, so the cost of making one does not
grow with the number of mounts on the host or of open sandboxes.
"""

from __future__ import annotations

import contextlib
import os

from . import linux
from .root import STAGE, Templates

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Callable, Dict, Iterator, List, Tuple

    Points = List[Tuple[str, bool]]

ROOT = "/root"
"""The path of a template's root in its own namespace; a template has no other directory except `/proc`."""

_SHELF = "/workspaces"


class Places:
    """The nursery's mount namespaces. It enters one at a time, in its only thread."""

    def __init__(self, environment: List[str], left: Dict[str, List[str]], shelf: int) -> None:
        """Use the shelf of a nursery that has died; -1 makes a new one. This process already has its own namespace.

        `environment` are the directories of the interpreter and its packages; `left` has what guests find in those that
        they do not see whole.
        """
        linux.mount(None, "/", None, linux.MS_REC | linux.MS_PRIVATE, None)
        self._here = _current()
        root = os.stat("/")
        linux.setns(self._here, linux.CLONE_NEWNS)
        if not os.path.samestat(root, os.stat("/")):  # a process cannot return from another namespace to a chroot
            raise OSError("this process was started in a chroot, which sandboxes cannot be made from")
        self._templates = Templates(environment, left)
        self._births: Dict[Tuple[Tuple[str, bool], ...], int] = {}
        self.shelf = shelf if shelf >= 0 else self._make_namespace(_clear_for_shelf)

    @property
    def late(self) -> List[Tuple[str, str]]:
        """Directories of the environment that a sandbox mounts itself: (path here, path in the sandbox)."""
        return self._templates.late

    @property
    def readable(self) -> List[str]:
        """Host directories besides `/usr` that guests see, at the same paths."""
        return self._templates.readable

    @contextlib.contextmanager
    def at(self, namespace: int) -> Iterator[None]:
        """Enter another namespace for a block."""
        linux.setns(namespace, linux.CLONE_NEWNS)
        try:
            yield
        finally:
            linux.setns(self._here, linux.CLONE_NEWNS)

    def birthplace(self, points: Points) -> int:
        """Return the namespace of the template with these extra mount points: (absolute path, is it a directory)."""
        key = tuple(sorted((path, is_folder) for path, is_folder in points))
        if key not in self._births:
            template = self._templates.make(key)
            self._births[key] = self._make_namespace(lambda: _clear_for_template(template))
            linux.umount(template, linux.MNT_DETACH)
        return self._births[key]

    def workspace_path(self, name: str) -> str:
        """Return the path of a workspace on the shelf."""
        return "%s/%s" % (_SHELF, name)

    def _make_namespace(self, fill: Callable[[], None]) -> int:
        linux.unshare(linux.CLONE_NEWNS)
        try:
            made = _current()
            fill()
            return made
        finally:
            linux.setns(self._here, linux.CLONE_NEWNS)


def _current() -> int:
    return os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)


def _clear_for_shelf() -> None:
    root = STAGE + "/shelf"
    os.makedirs(root, exist_ok=True)
    linux.mount("tmpfs", root, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "mode=0755,size=1m")
    os.mkdir(root + _SHELF)
    _leave_all_but(root)


def _clear_for_template(template: str) -> None:
    root = STAGE + "/birth"
    os.makedirs(root, exist_ok=True)
    linux.mount("tmpfs", root, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "mode=0755,size=1m")
    os.mkdir(root + ROOT)
    os.mkdir(root + "/proc")
    linux.mount(template, root + ROOT, None, linux.MS_BIND | linux.MS_REC, None)
    # /proc is needed for id maps, and because the kernel lets nobody mount a /proc who sees none.
    linux.mount("/proc", root + "/proc", None, linux.MS_BIND | linux.MS_REC, None)
    _leave_all_but(root)


def _leave_all_but(root: str) -> None:
    """Make a mount the root of this namespace, and unmount everything else."""
    os.chdir(root)
    linux.pivot_root(".", ".")
    linux.umount(".", linux.MNT_DETACH)
    os.chdir("/")
