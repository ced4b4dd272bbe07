"""Limits on inotify instances and watches, which the kernel counts by user, for sandboxes and host together.

An instance's queue is kernel memory, up to 8 MiB, which nothing counts without a cgroup. A user namespace has its own
limits, for itself and those below it (`namespaces(7)`, `/proc/sys/user`).
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Dict

# Programs that watch files have one instance, or one for each of a few folders.
_OF_ONE = {"max_inotify_instances": 8, "max_inotify_watches": 8192}
_OF_HOST = {
    "max_inotify_instances": "/proc/sys/fs/inotify/max_user_instances",
    "max_inotify_watches": "/proc/sys/fs/inotify/max_user_watches",
}


def bound_own(proc: int) -> None:
    """Limit this process's user namespace, which must be a sandbox's; `proc` is a full `/proc`."""
    _bound(proc, _OF_ONE)


def allow_one_more(proc: int) -> None:
    """Raise the limit of instances in this sandbox by one, for pid 1's own."""
    _bound(proc, {"max_inotify_instances": _OF_ONE["max_inotify_instances"] + 1})


def leave_half_to_host() -> None:
    """Limit this process's user namespace, with all sandboxes below it, to half of what the user may have."""
    most = {}
    for name, path in _OF_HOST.items():
        try:
            with open(path) as file:
                most[name] = max(1, int(file.read()) // 2)
        except FileNotFoundError:  # a kernel without such watches
            pass
    proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _bound(proc, most)
    finally:
        os.close(proc)


def _bound(proc: int, most: Dict[str, int]) -> None:
    for name, number in most.items():
        try:
            descriptor = os.open("sys/user/" + name, os.O_WRONLY | os.O_CLOEXEC, dir_fd=proc)
        except FileNotFoundError:  # a kernel without such watches
            continue
        try:
            os.write(descriptor, b"%d" % number)
        finally:
            os.close(descriptor)
