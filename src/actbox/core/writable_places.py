"""Places of the host whose files its services and this interpreter run: no program may change them.

A place is known by its path and by its identity (device and inode), so that another mount of it is the same place.
"""

from __future__ import annotations

import os
import site
import sys
from collections.abc import Iterable
from pathlib import Path

from .private_places import Identity, identity_of

# Neither these, nor what lies in them, nor what they lie in.
_SYSTEM = (
    "/bin",
    "/boot",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/sbin",
    "/usr",
    "/var/lib/apt",
    "/var/lib/cloud",
    "/var/lib/dpkg",
    "/var/lib/rpm",
    "/var/lib/snapd",
    "/var/lib/systemd",
    "/var/spool/anacron",
    "/var/spool/at",
    "/var/spool/cron",
)


def why_not_writable(path: Path) -> str:
    """Return why a program may not change this file or folder, "" if it may; `path` has no links in it.

    The answer goes on after "…, since": "it lies in /etc, from which the host runs programs". A folder with an
    interpreter's environment in it may be changed: it is most often a project, with other things that are run later.
    """
    system = [Path(os.path.realpath(place)) for place in _SYSTEM]
    chain = _identities((path, *path.parents))
    for place in system:
        if path.is_relative_to(place) or _identities((place,)) & chain:
            return f"it {'is' if path == place else 'lies in'} {place}, from which the host runs programs"
        if place.is_relative_to(path) or _identities((path,)) & _identities(place.parents):
            return f"it has {place} in it, from which the host runs programs"
    for place in _own_environment():
        if path.is_relative_to(place) or _identities((place,)) & chain:
            where = "is" if path == place else "lies in"
            return f"it {where} {place}, from which this very Python and other sandboxes import"
    return ""


def _own_environment() -> list[Path]:
    """Return the folders of this interpreter, and those of installed packages that it imports from."""
    prefixes = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}
    packages = [*site.getsitepackages(), site.getusersitepackages()]
    return [Path(os.path.realpath(folder)) for folder in (*sorted(prefixes), *packages) if folder.strip("/")]


def _identities(places: Iterable[Path]) -> set[Identity]:
    found = set()
    for place in places:
        try:
            found.add(identity_of(place))
        except OSError:  # there is nothing, or nothing that this user may see
            continue
    return found
