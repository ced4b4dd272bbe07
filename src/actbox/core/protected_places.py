"""Checks for protected host paths: private ones, which no program may see, and those that no program may change.

Private are kernel files, service sockets, and places of keys. Programs may not change files that services of the host
or this interpreter run.

A place is compared by its path and by its identity (device and inode), so that a link to it or another mount of it
counts as the same place. A directory that contains such a place is refused as well.
"""

from __future__ import annotations

import os
import site
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from . import key_places

Identity = tuple[int, int]

# Removable disks and the mounts of desktops contain data, and are not private.
_ALLOWED = ("/run/media",)

# Private directories below a home directory: none may be mounted whole, but a subdirectory may be, unless it is private
# itself.
_WHOLE = (".config", ".local", ".local/share", ".local/state", ".cache")

# Programs may change neither these directories, nor anything below them, nor a directory that contains them.
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


def why_private(path: Path) -> str:
    """Return why a program may not see this file or directory, "" if it may. `path` is absolute and has no links in it.

    The answer continues a sentence after "…, since": "it has the host's devices".
    """
    if path == Path("/"):
        return "it has all files of the host in it"
    if any(path.is_relative_to(place) for place in _ALLOWED):
        return ""
    own = _identity(path)
    chain = {_identity(place) for place in (path, *path.parents[:-1])}
    homes = _homes(path)
    for home in (Path("/home/*"), *homes):
        for above in (home, *home.parents):
            if path == above or own in _identities((above,)):
                where = "is" if above == home else "has in it"
                return f"it {where} the home directory {home}, where keys are kept"
    for name, reason in _places(homes):
        if not os.path.lexists(name) and not f"{path}/".startswith(f"{name}/"):
            continue  # most places do not exist, and the checks below take ten times as long
        place = _target(Path(name))
        identities = _identities((place,))
        if path.is_relative_to(place) or identities & chain:
            return f"it {reason}" if path == place else f"it lies in {place}, and that {reason}"
        if identities and (place.is_relative_to(path) or own in _identities(place.parents[:-1])):
            return f"it has {place} in it, and that {reason}"
    for home in homes:
        for whole in (_target(home / name) for name in _WHOLE):
            identities = _identities((whole,))
            if path == whole or own in identities:
                return "it is where programs keep their settings, keys and passwords among them"
            if identities and (whole.is_relative_to(path) or own in _identities(whole.parents[:-1])):
                return f"it has {whole} in it, where programs keep their settings, keys and passwords among them"
    return ""


def why_not_writable(path: Path) -> str:
    """Return why a program may not change this file or directory, "" if it may; `path` has no links in it.

    The answer continues a sentence after "…, since": "it lies in /etc, from which the host runs programs". A directory
    that contains an interpreter's environment may be changed: it is usually a project, whose other files run later too.
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


def identity_of(path: Path) -> Identity:
    """Return the device and inode of the file at a path, without following a link. Raises `OSError`."""
    status = os.lstat(path)
    return status.st_dev, status.st_ino


def _identity(path: Path) -> Identity | None:
    try:
        return identity_of(path)
    except OSError:  # there is no such file, or this user may not see it
        return None


def _identities(places: Iterable[Path]) -> set[Identity]:
    return {identity for place in places if (identity := _identity(place))}


def _places(homes: list[Path]) -> Iterator[tuple[str, str]]:
    """Yield every private place, existing or not, with the reason why it is private."""
    for reason, names in key_places.SYSTEM.items():
        for name in names:
            yield name, reason
    for number in _accounts():
        yield f"/tmp/krb5cc_{number}", "has tickets that stand for passwords"
    for home in homes:
        for what_for, names in key_places.KEYS.items():
            for name in names:
                yield f"{home}/{name}", f"is where keys and passwords are kept {what_for}"
        for name in key_places.HISTORIES:
            yield f"{home}/{name}", "has what was typed in it, passwords too"
    for variable in key_places.VARIABLES:
        for part in os.environ.get(variable, "").split(":"):  # a list, or an address such as unix:path=/run/bus,guid=1
            word = part.removeprefix("path=").partition(",")[0]
            if word.startswith("/") and word.strip("/"):
                yield f"/{word.strip('/')}", f"is what the variable {variable} names"


def _target(place: Path) -> Path:
    """Return the path that a place resolves to if it is a link, else the place itself. Key stores may lie elsewhere
    behind a link, which itself reveals nothing.
    """
    return Path(os.path.realpath(place)) if os.path.islink(place) else place


def _homes(path: Path) -> list[Path]:
    """Return the home directories to check for a path: this user's, root's, and the one below `/home` around it."""
    named = [os.environ.get("HOME", ""), "/root", *_homes_of_accounts()]
    if path.parts[1:2] == ("home",) and len(path.parts) > 2:
        named.append(f"/home/{path.parts[2]}")
    real = (Path(os.path.realpath(name)) for name in named if name.startswith("/"))
    return list(dict.fromkeys(real))


def _accounts() -> set[int]:
    """Return the user ids that this user has: real, effective, and the one behind `sudo`."""
    numbers = {os.getuid(), os.geteuid()}
    if (behind_sudo := os.environ.get("SUDO_UID", "")).isdecimal():
        numbers.add(int(behind_sudo))
    return numbers


def _homes_of_accounts() -> list[str]:
    try:
        import pwd
    except ImportError:  # Windows has no accounts of this kind
        return []
    found = []
    for number in _accounts():
        try:
            found.append(pwd.getpwuid(number).pw_dir)
        except (KeyError, OverflowError):  # an id without an account, as containers have
            continue
    return found


def _own_environment() -> list[Path]:
    """Return the directories of this interpreter and of the installed packages that it imports."""
    prefixes = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}
    packages = [*site.getsitepackages(), site.getusersitepackages()]
    return [Path(os.path.realpath(folder)) for folder in (*sorted(prefixes), *packages) if folder.strip("/")]
