"""A directory whose content nobody but this user and root can replace: where a package cache may lie."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import Final

from actbox.core.errors import InvalidValue, Unsupported

_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH
_ADVICE: Final = "name a directory of your own, such as '~/.cache/actbox/packages'"


def private_directory(path: str, key: str) -> Path:
    """Return a directory after a check of it and of every parent. Makes missing ones for this user alone.

    `path` is absolute or begins with `~`. Raises `InvalidValue`, which names the configuration's `key`, if a directory
    on the way is a link, belongs to another user, or is open to others for writing.
    """
    if not hasattr(os, "O_NOFOLLOW"):
        raise Unsupported(f"{key} cannot be checked on this system; leave it out, so that the default is used")
    flags = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    place = Path(os.path.expanduser(path))
    here, at = os.open("/", flags), Path("/")
    try:
        # Each step begins at the directory that was checked, because a path could lead elsewhere by now.
        for name in place.parts[1:]:
            _check(at, os.fstat(here), key, is_parent=True)
            at /= name
            try:
                inner = _opened(name, flags, here)
            except OSError as error:
                raise InvalidValue(_why_unusable(at, key, error)) from None
            os.close(here)
            here = inner
        _check(at, os.fstat(here), key, is_parent=False)
    finally:
        os.close(here)
    return place


def _opened(name: str, flags: int, above: int) -> int:
    try:
        return os.open(name, flags, dir_fd=above)
    except FileNotFoundError:
        with contextlib.suppress(FileExistsError):  # another process has made it in between
            os.mkdir(name, 0o700, dir_fd=above)
        return os.open(name, flags, dir_fd=above)


def _check(at: Path, status: os.stat_result, key: str, *, is_parent: bool) -> None:
    if status.st_uid not in ((0, os.geteuid()) if is_parent else (os.geteuid(),)):
        raise InvalidValue(f"{key}: {at} belongs to another user (id {status.st_uid}); {_ADVICE}")
    # Below a directory with the sticky bit, only the owner of an entry and of the directory may rename or remove it.
    if status.st_mode & _OTHERS and not (is_parent and status.st_mode & stat.S_ISVTX):
        raise InvalidValue(f"{key}: others may write to {at}; run `chmod go-w {at}`, or {_ADVICE}")


def _why_unusable(at: Path, key: str, error: OSError) -> str:
    if at.is_symlink():
        return f"{key}: {at} is a link; name the directory that it leads to, {os.path.realpath(at)}"
    return f"{key}: {at} cannot be used: {error.strerror}; {_ADVICE}"
