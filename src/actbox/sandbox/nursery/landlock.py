"""A second wall around files: Landlock says which places a guest may reach, whatever has been mounted elsewhere.

The root of a sandbox is made of mounts; a mistake in one would show what it should not. So a guest is also put into a
Landlock domain, which knows places by their inodes: beneath those named here it may read, or read and write, and
beneath no other, also where something is mounted that nobody has named.

A rule holds beneath its place, other mounts there included, but not for what a mount hides. So what a run attaches gets
rules of its own by its descriptor. Pid 1 makes the rules and never has the domain itself; the guest enters it when all
is in its place, and can never leave it.

Ports are left alone: the network namespace of the sandbox has nothing but its own loopback, where programs may listen
as they like. What Landlock can say of ports is their numbers, and those tell nobody apart there.
"""

from __future__ import annotations

import functools
import os
import struct

from . import linux
from .root import DEVICES

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Dict, List, Union

# System calls from 424 on have the same number on every architecture.
_SYS_CREATE_RULESET = 444
_SYS_ADD_RULE = 445
_SYS_RESTRICT_SELF = 446
_CREATE_RULESET_VERSION = 1
_RULE_PATH_BENEATH = 1
# Before version 2 no file could be renamed or linked into another folder, which programs do.
_LEAST_VERSION = 2

# LANDLOCK_ACCESS_FS_*
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHAR, _MAKE_BLOCK = 1 << 6, 1 << 11
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_RIGHTS_BY_VERSION = ((5, _IOCTL_DEV), (3, _TRUNCATE), (2, _REFER))
_OF_VERSION_1 = (1 << 13) - 1
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
# LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET and LANDLOCK_SCOPE_SIGNAL, from version 6 on.
_SCOPES_SINCE, _SCOPES = 6, 0x3

READ = _EXECUTE | _READ_FILE | _READ_DIR
"""Read files, list folders, execute."""
WRITE = (1 << 16) - 1 & ~(_MAKE_CHAR | _MAKE_BLOCK | _IOCTL_DEV)
"""All that may be done with files and folders but to make devices or to give these orders."""
_DEVICE = _READ_FILE | _WRITE_FILE | _TRUNCATE | _IOCTL_DEV
_PROCESSES = _READ_FILE | _READ_DIR | _WRITE_FILE | _TRUNCATE

_NONE = -1


@functools.lru_cache(maxsize=None)
def version() -> int:
    """Return the version of Landlock that this kernel has, 0 where it has none, or one too old for programs."""
    try:
        found = linux.syscall("landlock_create_ruleset", _SYS_CREATE_RULESET, None, 0, _CREATE_RULESET_VERSION)
    except OSError:  # ENOSYS: built without; EOPNOTSUPP: switched off when the machine was started
        return 0
    return found if found >= _LEAST_VERSION else 0


def standing_rules(readable: List[str], trees: int) -> int:
    """Return a ruleset for a sandbox's root as it stands before a run: a descriptor, -1 without Landlock.

    `readable` are the folders of the host that the root shows. `trees` is the folder of the trees of copies, -1 where
    there will be none. All that a copy sees lies beneath it and is made when the domain cannot be changed any more, so
    all is allowed there: for copies this is no second wall.
    """
    if not version():
        return _NONE
    ruleset = _new_ruleset()
    # The names in the root are no secret; what lies behind one that is not listed here is.
    allow(ruleset, "/", _READ_DIR)
    for place in ("/usr", "/etc", "/run", *readable):
        allow(ruleset, place, READ)
    for name in DEVICES:
        allow(ruleset, "/dev/" + name, _DEVICE)
    allow(ruleset, "/proc", _PROCESSES)
    for place in ("/tmp", "/dev/shm"):
        allow(ruleset, place, WRITE)
    if trees >= 0:
        allow(ruleset, trees, WRITE | _IOCTL_DEV)
    return ruleset


def allow_run(ruleset: int, request: Dict[str, Any], descriptors: List[int]) -> None:
    """Add what one run has had attached: its workspace, and the policy's mounts, by the descriptors of both."""
    if ruleset == _NONE:
        return
    workspace, _, *given = descriptors
    allow(ruleset, workspace, WRITE)
    for mount, descriptor in zip(request["mounts"], given):  # noqa: B905 (there is none before CPython 3.10)
        rights = READ if mount["mode"] in ("ro", "input") else WRITE
        # An overlay is a file system of its own, which came to be when it was mounted.
        place = mount["path"] if mount["mode"] in ("overlay", "input") else descriptor
        allow(ruleset, place, rights if mount["is_folder"] else rights & _OF_FILES)


def enter(ruleset: int) -> None:
    """Put this process, and all that it starts from now on, under the rules, for good. Needs `no_new_privs`.

    The descriptor is closed. -1 does nothing.
    """
    if ruleset != _NONE:
        linux.syscall("landlock_restrict_self", _SYS_RESTRICT_SELF, ruleset, 0)
        os.close(ruleset)


def allow(ruleset: int, place: Union[str, int], rights: int) -> None:
    """Allow what this kernel knows of `rights` beneath a folder, or for a file: a path or a descriptor."""
    if isinstance(place, int):
        described = struct.pack("=Qi", rights & _handled(), place)
        linux.syscall("landlock_add_rule", _SYS_ADD_RULE, ruleset, _RULE_PATH_BENEATH, described, 0)
        return
    descriptor = os.open(place, os.O_PATH | os.O_CLOEXEC)
    try:
        allow(ruleset, descriptor, rights)
    finally:
        os.close(descriptor)


def _new_ruleset() -> int:
    """Return a ruleset that denies all that this kernel's Landlock can deny but ports."""
    scopes = _SCOPES if version() >= _SCOPES_SINCE else 0
    described = struct.pack("=3Q", _handled(), 0, scopes)
    # A kernel takes a longer description than it knows if the rest is zero.
    return linux.syscall("landlock_create_ruleset", _SYS_CREATE_RULESET, described, len(described), 0)


@functools.lru_cache(maxsize=None)
def _handled() -> int:
    newer = sum(rights for since, rights in _RIGHTS_BY_VERSION if version() >= since)
    return _OF_VERSION_1 | newer
