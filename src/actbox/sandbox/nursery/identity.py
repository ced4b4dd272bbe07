"""A guest's user ids: uid and gid 1000 inside, and outside an id that owns nothing of value.

An ordinary user can map only its own id: the nursery enters a user namespace with that map, and each sandbox one below
it. A nursery under real root stays outside, and the host names an id for each sandbox, which its guests are mapped to.
So no guest is root outside, even without capabilities (the kernel exempts root from limits and lets it write sysctls),
and no two sandboxes share what the kernel counts by user.
"""

from __future__ import annotations

import contextlib
import os
import signal

from . import linux
from .watches import leave_half_to_host

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Iterator

GUEST_ID = 1000
# A socket belongs to the network namespace it was made in, and shows its holder the interfaces there; guests hold
# sockets that the nursery makes.
_APART = linux.CLONE_NEWNS | linux.CLONE_NEWNET


def has_privilege() -> bool:
    """Return whether this process has root's rights: to mount in its own user namespace, and to map any id."""
    return bool(linux.effective_capabilities() >> linux.CAP_SYS_ADMIN & 1) and os.geteuid() == 0


class Identity:
    """Gives the nursery's children their user namespaces."""

    def __init__(self, privileged: bool) -> None:
        self.privileged = privileged

    def enter(self, users: int = -1) -> None:
        """Move this process, the nursery, into namespaces where it may mount. It must have one thread only.

        `users` is a descriptor of the user namespace of a nursery that has died, to be entered again; -1 makes a new
        one.
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

    @contextlib.contextmanager
    def owning(self, host_id: int) -> Iterator[None]:
        """For a block, make new user namespaces belong to a guest's id outside; does nothing for an ordinary user.

        The kernel also counts what is used in a namespace (inotify instances, namespaces) against its creator:
        guests would otherwise use up root's own allowance.
        """
        if not self.privileged:
            yield
            return
        held = linux.effective_capabilities()
        os.seteuid(host_id)
        try:
            # The change of user dropped them, and some kernels require CAP_SYS_ADMIN to make user namespaces.
            linux.keep_capabilities(frozenset(number for number in range(64) if held >> number & 1))
            yield
        finally:
            os.seteuid(0)
            linux.set_dumpable(True)  # the changes of user have reset it

    def map_child(self, pid: int, host_id: int) -> None:
        """As root, write the id maps of a child that has just entered its own user namespace.

        The map of project ids can be written once, by anyone in the namespace; a program of a lane could leave a text
        there for later ones. An ordinary user's namespaces have no project ids that a guest could map.
        """
        write_map(str(pid), GUEST_ID, host_id, host_id, deny_setgroups=False)
        _write("/proc/%d/projid_map" % pid, "%d %d 1" % (GUEST_ID, host_id))

    def become_guest(self) -> None:
        """In a child in its own user namespace, take on the guest's ids. Its capabilities there stay."""
        if self.privileged:
            os.setgroups([])
            os.setresgid(GUEST_ID, GUEST_ID, GUEST_ID)
            os.setresuid(GUEST_ID, GUEST_ID, GUEST_ID)
        else:
            write_map("self", GUEST_ID, GUEST_ID, GUEST_ID, deny_setgroups=True)

    def owner_namespace(self, host_id: int) -> int:
        """As root, return a user namespace through which a mount shows root's files as a guest's, and the reverse."""
        ready_read, ready_write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                # With none of our descriptors open: if we were killed now, readers of them would wait for this child.
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
            write_map(str(child), 0, host_id, host_id, deny_setgroups=False)
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
