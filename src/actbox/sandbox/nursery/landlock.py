"""A second layer of file protection: Landlock limits the paths that a guest can reach, whatever is mounted elsewhere.

The root of a sandbox is made of mounts; a mistake in one of them could show more than it should. So a guest is also put
into a Landlock domain, which identifies paths by inode: beneath those listed here it may read, or read and write, and
beneath no other, even where an unlisted mount appears.

A rule covers everything beneath its path, including other mounts, but not directories that a mount hides. So the mounts
of a run get their own rules, by descriptor. Pid 1 makes the rules and never enters the domain itself; the guest enters
it once everything is mounted, and can never leave it.

Ports are not restricted: the sandbox's network namespace has only its own loopback, where programs may listen as they
like, and Landlock could restrict only port numbers, which distinguish nobody there.
"""

from __future__ import annotations

import functools
import os
import struct

from . import linux

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Dict, List, Union

# System calls from 424 on have the same number on every architecture.
_SYS_CREATE_RULESET = 444
_SYS_ADD_RULE = 445
_SYS_RESTRICT_SELF = 446
_CREATE_RULESET_VERSION = 1
_RULE_PATH_BENEATH = 1
# Before version 2 no file could be renamed or linked into another directory, which programs do.
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
"""The rights to read files, list directories and execute."""
WRITE = (1 << 16) - 1 & ~(_MAKE_CHAR | _MAKE_BLOCK | _IOCTL_DEV)
"""All rights to files and directories, except making devices and device ioctls."""
_DEVICE = _READ_FILE | _WRITE_FILE | _TRUNCATE | _IOCTL_DEV
_PROCESSES = _READ_FILE | _READ_DIR | _WRITE_FILE | _TRUNCATE

_NONE = -1

DEVICES = ("null", "zero", "full", "random", "urandom")
"""The devices in `/dev` of a sandbox."""


@functools.lru_cache(maxsize=None)
def version() -> int:
    """Return this kernel's Landlock version, or 0 if it has none or one too old for programs."""
    try:
        found = linux.syscall("landlock_create_ruleset", _SYS_CREATE_RULESET, None, 0, _CREATE_RULESET_VERSION)
    except OSError:  # ENOSYS: built without it; EOPNOTSUPP: disabled at boot
        return 0
    return found if found >= _LEAST_VERSION else 0


def standing_rules(readable: List[str], trees: int) -> int:
    """Return a descriptor of a ruleset for a sandbox's root before a run's mounts; -1 without Landlock.

    `readable` are the host's directories that the root shows. `trees` is the directory of forked copies' trees, or -1.
    Everything that a copy sees lies beneath it and is made after the domain is fixed, so all access is allowed there:
    for copies Landlock is no second layer.
    """
    if not version():
        return _NONE
    ruleset = _new_ruleset()
    # The names in the root are no secret; the content of unlisted directories is.
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
    """Add rules for one run's mounts: its workspace, and the policy's mounts, by their descriptors."""
    if ruleset == _NONE:
        return
    workspace, _, *given = descriptors
    allow(ruleset, workspace, WRITE)
    for mount, descriptor in zip(request["mounts"], given):  # noqa: B905 (there is none before CPython 3.10)
        rights = READ if mount["mode"] in ("ro", "input", "packages") else WRITE
        # By path for an overlay: it is a new file system, made at mounting; the descriptor is the lower directory's.
        place = mount["path"] if mount["mode"] in ("overlay", "input") else descriptor
        allow(ruleset, place, rights if mount["is_folder"] else rights & _OF_FILES)


def enter(ruleset: int) -> None:
    """Put this process, and all that it starts from now on, under the rules, for good. Needs `no_new_privs`.

    Closes the descriptor. -1 does nothing.
    """
    if ruleset != _NONE:
        linux.syscall("landlock_restrict_self", _SYS_RESTRICT_SELF, ruleset, 0)
        os.close(ruleset)


def allow(ruleset: int, place: Union[str, int], rights: int) -> None:
    """Allow the rights that this kernel knows beneath a directory, or for a file, given by path or descriptor."""
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
    """Return a ruleset that denies everything that this kernel's Landlock can deny, except ports."""
    scopes = _SCOPES if version() >= _SCOPES_SINCE else 0
    described = struct.pack("=3Q", _handled(), 0, scopes)
    # A kernel accepts a longer description than it knows if the rest is zero.
    return linux.syscall("landlock_create_ruleset", _SYS_CREATE_RULESET, described, len(described), 0)


@functools.lru_cache(maxsize=None)
def _handled() -> int:
    newer = sum(rights for since, rights in _RIGHTS_BY_VERSION if version() >= since)
    return _OF_VERSION_1 | newer
