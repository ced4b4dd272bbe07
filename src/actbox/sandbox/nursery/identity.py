"""Who a guest is: uid and gid 1000 inside, and outside an id that owns nothing of worth.

An ordinary user can map one id only, its own: the nursery enters a user namespace with that map, and each sandbox one
below it. Where the nursery is really root it stays outside and maps each guest to an id of its own instead, so that
no guest is root outside, even without capabilities: the kernel exempts that id from limits and lets it write sysctls.
"""

from __future__ import annotations

import os
import signal

from . import linux
from .watches import leave_half_to_host

GUEST_ID = 1000
# Below 65534 (nobody), so that it also exists where a container maps 65536 ids, and owned by no Debian account.
_PRIVILEGED_HOST_ID = 65533
# A socket belongs to the network that it was made in, and tells whoever holds it of the interfaces there: guests hold
# some that the nursery makes.
_APART = linux.CLONE_NEWNS | linux.CLONE_NEWNET


def has_privilege() -> bool:
    """Return whether this process may do as root: mount in its own user namespace, and map any id."""
    return bool(linux.effective_capabilities() >> linux.CAP_SYS_ADMIN & 1) and os.geteuid() == 0


class Identity:
    """What the nursery needs to give its children user namespaces."""

    def __init__(self, privileged: bool) -> None:
        self.privileged = privileged
        self.host_id = _free_host_id() if privileged else os.geteuid()

    def enter(self, users: int = -1) -> None:
        """Move this process, the nursery, to where it may mount. It must have one thread only.

        `users` is the user namespace of a nursery that has died, to be taken up again; -1 makes a new one.
        """
        if self.privileged:
            linux.unshare(_APART)
            return
        if users >= 0:
            linux.setns(users, linux.CLONE_NEWUSER)
            linux.unshare(_APART)
            return
        uid, gid = os.geteuid(), os.getegid()
        linux.unshare(linux.CLONE_NEWUSER | _APART)
        write_map("self", GUEST_ID, uid, gid, deny_setgroups=True)
        leave_half_to_host()

    def map_child(self, pid: int) -> None:
        """As root, say who a child is that has just entered a user namespace of its own."""
        write_map(str(pid), GUEST_ID, self.host_id, self.host_id, deny_setgroups=False)

    def become_guest(self) -> None:
        """In a child, in its own user namespace: take on the guest's ids. Capabilities there stay."""
        if self.privileged:
            os.setgroups([])
            os.setresgid(GUEST_ID, GUEST_ID, GUEST_ID)
            os.setresuid(GUEST_ID, GUEST_ID, GUEST_ID)
        else:
            write_map("self", GUEST_ID, GUEST_ID, GUEST_ID, deny_setgroups=True)

    def owner_namespace(self) -> int:
        """As root, return a user namespace by which a mount shows root's files as the guest's (and back)."""
        ready_read, ready_write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                # With nothing of ours open: were we killed now, whoever waits for us would wait for it.
                linux.close_range(0, ready_write - 1)
                linux.close_range(ready_write + 1)
                linux.set_parent_death_signal(signal.SIGKILL)
                linux.unshare(linux.CLONE_NEWUSER)
                os.write(ready_write, b"x")
                while True:
                    signal.pause()
            finally:
                os._exit(1)
        try:
            os.close(ready_write)
            os.read(ready_read, 1)
            write_map(str(child), 0, self.host_id, self.host_id, deny_setgroups=False)
            return os.open("/proc/%d/ns/user" % child, os.O_RDONLY | os.O_CLOEXEC)
        finally:
            os.close(ready_read)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def write_map(process: str, inside: int, uid: int, gid: int, deny_setgroups: bool) -> None:
    """Write the one-line id maps of a process's new user namespace."""
    if deny_setgroups:
        _write("/proc/%s/setgroups" % process, "deny")
    _write("/proc/%s/uid_map" % process, "%d %d 1" % (inside, uid))
    _write("/proc/%s/gid_map" % process, "%d %d 1" % (inside, gid))


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _free_host_id() -> int:
    """Return the id that guests get outside; root inside a container may have few to choose from."""
    ranges: list[tuple[int, int]] = []
    with open("/proc/self/uid_map") as file:
        for line in file:
            inside, _, count = (int(word) for word in line.split())
            ranges.append((inside, inside + count))
    for start, end in ranges:
        if start <= _PRIVILEGED_HOST_ID < end:
            return _PRIVILEGED_HOST_ID
    highest = max(end for _, end in ranges) - 1
    if highest <= 0:
        raise OSError("root has no id besides its own to give to guests: run as an ordinary user")
    return highest
