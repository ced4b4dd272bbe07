"""Temporary directories of the host for sandboxes; another process removes them if their maker has died."""

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
    """Make a temporary directory named after this process, and return its real path. Raises `OSError`.

    The first call also removes directories of processes that have died. It does so on Linux only, where living
    processes can be told; elsewhere the directories of a killed process have to be removed by hand.
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
    """Remove a directory and everything in it, however deep a program has nested directories. Raises `OSError`.

    A directory that belongs to the parent of this forked process is left alone.
    """
    owner = _OWNED.fullmatch(os.path.basename(folder))
    if owner is not None and int(owner[2]) != os.getpid():
        return
    if hasattr(os, "O_NOFOLLOW"):
        from actbox.sandbox.guest import beneath  # some systems cannot import it

        beneath.remove_folder(folder)
    else:
        shutil.rmtree(folder)


def remove_abandoned(place: str) -> None:
    """Remove the directories below `place` that dead processes of this user have left.

    Only directories of this user are opened, never through a link; what cannot be removed stays.
    """
    own = namespace()
    from actbox.sandbox.guest import beneath

    top = beneath.open_folder(place, follow=True)
    try:
        for name in os.listdir(top):
            owner = _OWNED.fullmatch(name)
            # Whether a process of another namespace lives cannot be told here.
            if owner is not None and owner[1] == own and has_gone(int(owner[2]), owner[3]):
                with contextlib.suppress(OSError):
                    _remove_mine(top, name)
    finally:
        os.close(top)


def _remove_mine(top: int, name: str) -> None:
    from actbox.sandbox.guest import beneath

    with beneath.opened(top, name) as folder:
        if os.fstat(folder).st_uid == os.geteuid():
            os.fchmod(folder, 0o700)
            beneath.empty(folder)
            os.rmdir(name, dir_fd=top)
