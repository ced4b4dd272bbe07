"""Temporary folders of the host that a process makes for its sandboxes, and that another removes when it has died."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
import threading
from typing import Final

from .host_processes import begin_of_this_process, has_gone, namespace

_OWNED: Final = re.compile(r"actbox-of-(\d+)-(\d+)-(\d+)-.+")
_looking = threading.Lock()
_looked_in: set[str] = set()


def make_folder() -> str:
    """Make a folder whose name says whose it is, and return its real path. Raises `OSError`.

    The first time it removes those of processes that have died. That is on Linux only, which says which processes are
    there: elsewhere what a process that was killed had left has to be removed by hand.
    """
    place = os.path.realpath(tempfile.gettempdir())
    own = namespace()
    if not own:
        return tempfile.mkdtemp(prefix="actbox-", dir=place)
    with _looking:
        if place not in _looked_in:
            _looked_in.add(place)
            remove_abandoned(place)
    pid = os.getpid()
    return tempfile.mkdtemp(prefix=f"actbox-of-{own}-{pid}-{begin_of_this_process()}-", dir=place)


def remove_folder(folder: str) -> None:
    """Remove a folder and all in it, where a program may have made folders as deep as it likes. Raises `OSError`.

    One that is of the process from which this one was forked stays.
    """
    owner = _OWNED.fullmatch(os.path.basename(folder))
    if owner is not None and int(owner[2]) != os.getpid():
        return
    if hasattr(os, "O_NOFOLLOW"):
        from actbox.sandbox.guest import tree  # which not every system can import

        tree.remove_folder(folder)
    else:
        shutil.rmtree(folder)


def remove_abandoned(place: str) -> None:
    """Remove what processes of this user have left below `place` that have died.

    Only folders of this user are looked into, none by a link; what cannot be removed stays.
    """
    own = namespace()
    top = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in os.listdir(top):
            owner = _OWNED.fullmatch(name)
            # Of processes in another namespace nobody here can say whether they live.
            if owner is not None and owner[1] == own and has_gone(int(owner[2]), owner[3]):
                with contextlib.suppress(OSError):
                    _remove_mine(top, name)
    finally:
        os.close(top)


def _remove_mine(top: int, name: str) -> None:
    from actbox.sandbox.guest import tree

    folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=top)
    try:
        if os.fstat(folder).st_uid != os.geteuid():
            return
        os.fchmod(folder, 0o700)
        tree.empty_open_folder(folder)
        os.rmdir(name, dir_fd=top)
    finally:
        os.close(folder)
