"""User ids for guests under root: each open sandbox has its own id outside, as user and as group.

The kernel counts many resources by user (watches, pipes, keys, signals), and lets processes of one user affect each
other. The ids come from a range that nothing else on the machine should use. Every process that takes an id holds a
lock on that id's byte in a file; the kernel releases the lock when the process ends. Containers that share a user
namespace but not their files do not see each other's locks: give each container its own range.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import grp
import os
import pwd
import stat
import struct
import threading
from pathlib import Path

from actbox.core.errors import InvalidValue, SandboxUnavailable
from actbox.sandbox.guest.beneath import open_beneath, opened_folder

VARIABLE = "ACTBOX_GUEST_IDS"
"""The environment variable that names the range, as `FIRST-LAST`."""

# No distribution has accounts here: below are the ids of containers, above those of foreign disk images
# (systemd.io/UIDS-GIDS).
_USUAL = range(1_900_000_000, 1_900_065_536)
# In a user namespace that lacks the usual range: take the highest ids that no account has, at most this many.
_MOST_OF_FEW = 1024
_NOBODY = 65534
_LOCKS = "actbox-guest-ids"
# Directories for root's files that disappear when the machine stops.
_FOLDERS = ("/run", "/dev/shm", "/tmp")


class GuestIds:
    """A range of ids, of which this process takes some that no other process has."""

    def __init__(self, ids: range, locks: int) -> None:
        """`locks` is a descriptor of the lock file, in which one byte stands for each id."""
        self.ids = ids
        self._locks = locks
        self._taken: set[int] = set()
        self._next = int.from_bytes(os.urandom(8), "big") % len(ids)
        self._lock = threading.Lock()

    def take(self) -> int:
        """Return an id that no sandbox has, preferring the one unused for longest. Raises `SandboxUnavailable`."""
        with self._lock:
            for _ in range(len(self.ids)):
                place = self._next
                self._next = (place + 1) % len(self.ids)
                if place not in self._taken and self._ask(fcntl.F_WRLCK, place):
                    self._taken.add(place)
                    return self.ids[place]
        raise SandboxUnavailable(
            f"each sandbox under root has a user id of its own, and all {len(self.ids)} of {self.ids[0]}-{self.ids[-1]}"
            f" are taken: close sandboxes, or name a larger range with {VARIABLE}=FIRST-LAST"
        )

    def give_back(self, guest_id: int) -> None:
        """Make an id available to other sandboxes; it is taken again only after the rest of the range.

        An id whose lock cannot be released stays taken as long as this process lives.
        """
        with self._lock, contextlib.suppress(SandboxUnavailable):
            place = self.ids.index(guest_id)
            self._ask(fcntl.F_UNLCK, place)
            self._taken.discard(place)

    def leave_to_parent(self) -> None:
        """In a forked process, close the lock file, so that only the parent holds the locks."""
        os.close(self._locks)

    def _ask(self, kind: int, place: int) -> bool:
        """Lock or unlock an id's byte of the file; return true on success, false if another process holds it."""
        try:
            # A lock of the open file description, which closing other descriptors and ending other threads do not
            # release.
            fcntl.fcntl(self._locks, fcntl.F_OFD_SETLK, struct.pack("@hhqqi4x", kind, os.SEEK_SET, place, 1, 0))
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return False
            raise SandboxUnavailable(f"the user ids of sandboxes cannot be shared out: {error.strerror}") from error
        return True


_opening = threading.Lock()
_of_process: GuestIds | None = None


def guest_ids() -> GuestIds:
    """Return the ids for this process's guests.

    Raises `SandboxUnavailable` if there are none, and `InvalidValue` if the environment variable names unusable ids.
    """
    global _of_process
    with _opening:
        if _of_process is None:
            ids = _configured(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else _found()
            _of_process = GuestIds(ids, _open_locks())
        return _of_process


def _leave_to_parent() -> None:
    global _opening, _of_process
    _opening = threading.Lock()
    if _of_process is not None:
        _of_process.leave_to_parent()
        _of_process = None


os.register_at_fork(after_in_child=_leave_to_parent)


def _configured(text: str) -> range:
    first, _, last = text.partition("-")
    if not (first.isdecimal() and last.isdecimal() and 0 < int(first) <= int(last) < 2**32 - 1):
        raise InvalidValue(f"{VARIABLE} is {text!r}: it must be a range of user ids, such as 1900000000-1900065535")
    ids = range(int(first), int(last) + 1)
    if not any(_holds(mapped, ids) for mapped in _mapped()):
        raise InvalidValue(f"{VARIABLE} is {text!r}: this process's user namespace does not have all of these ids")
    for path in ("/etc/subuid", "/etc/subgid"):
        for given in _given_away(Path(path)):
            if _overlap(given, ids):
                raise InvalidValue(f"{VARIABLE} is {text!r}: {path} gives {given[0]}-{given[-1]} to somebody else")
    for number, owner in sorted(_accounts().items()):
        if number in ids:
            raise InvalidValue(
                f"{VARIABLE} is {text!r}: {number} is the id of the {owner} of this machine, and programs must not have"
                " an account's rights: name ids that no user and no group has"
            )
    return ids


def _found() -> range:
    """Return the usual range or, in a container with few ids, the highest ids that no account has."""
    mapped = _mapped()
    taken = [given for path in ("/etc/subuid", "/etc/subgid") for given in _given_away(Path(path))]
    if any(_holds(ids, _USUAL) for ids in mapped) and not any(_overlap(given, _USUAL) for given in taken):
        return _USUAL
    accounts = _accounts()
    for ids in sorted(mapped, key=len, reverse=True):
        last = min(ids[-1], _NOBODY - 1)
        first = last
        while first - 1 >= max(ids[0], 1) and last - first + 1 < _MOST_OF_FEW and first - 1 not in accounts:
            first -= 1
        found = range(first, last + 1)
        if first >= max(ids[0], 1) and last not in accounts and not any(_overlap(given, found) for given in taken):
            return found
    raise SandboxUnavailable(
        "root has no ids besides its own to give to guests here: run as an ordinary user, or name a range with"
        f" {VARIABLE}=FIRST-LAST"
    )


def _accounts() -> dict[int, str]:
    """Return the ids of this machine's users and groups, each with what has it, such as `user daemon`."""
    groups = {group.gr_gid: f"group {group.gr_name}" for group in grp.getgrall()}
    return groups | {account.pw_uid: f"user {account.pw_name}" for account in pwd.getpwall()}


def _mapped() -> list[range]:
    """Return the id ranges that are mapped in this process's user namespace both as users and as groups."""
    users, groups = (_lines_of_map(f"/proc/self/{name}") for name in ("uid_map", "gid_map"))
    both = [range(max(a.start, b.start), min(a.stop, b.stop)) for a in users for b in groups]
    return [ids for ids in both if ids]


def _lines_of_map(path: str) -> list[range]:
    lines = [[int(word) for word in line.split()] for line in Path(path).read_text().splitlines()]
    return [range(inside, inside + count) for inside, _, count in lines]


def _given_away(path: Path) -> list[range]:
    """Return the id ranges that `/etc/subuid` or `/etc/subgid` assigns to users' containers."""
    found = []
    with contextlib.suppress(FileNotFoundError):
        for line in path.read_text(errors="replace").splitlines():
            words = line.split(":")
            if len(words) == 3 and words[1].isdecimal() and words[2].isdecimal() and int(words[2]):
                found.append(range(int(words[1]), int(words[1]) + int(words[2])))
    return found


def _holds(ids: range, others: range) -> bool:
    return ids.start <= others.start and others.stop <= ids.stop


def _overlap(ids: range, others: range) -> bool:
    return ids.start < others.stop and others.start < ids.stop


def _open_locks() -> int:
    """Open the lock file, which only root may open: anyone else who could lock it could block all ids."""
    reasons = []
    for folder in _FOLDERS:
        path = f"{folder}/{_LOCKS}"
        try:
            with opened_folder(folder, follow=True) as place:
                descriptor = open_beneath(place, _LOCKS, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            reasons.append(f"{path}: {error.strerror}")
            continue
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077:
            return descriptor
        os.close(descriptor)
        reasons.append(f"{path} is not root's alone")
    raise SandboxUnavailable(f"the user ids of sandboxes cannot be shared out: {'; '.join(reasons)}")
