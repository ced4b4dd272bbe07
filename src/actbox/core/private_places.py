"""Places of the host that no program is shown: the kernel's own, its services' sockets, and where keys are kept.

A place is known by its path and by its identity (device and inode), so that a link or another mount of it is the same
place. A folder that has such a place in it is refused as well.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from . import key_places

Identity = tuple[int, int]

# Removable disks and what desktops mount are data.
_ALLOWED = ("/run/media",)

# Below a home folder. Of these a folder in it may be mounted, if it is none of the rest; not the whole.
_WHOLE = (".config", ".local", ".local/share", ".local/state", ".cache")


def why_private(path: Path) -> str:
    """Return why a program may not see this file or folder, "" if it may. `path` is absolute and has no links in it.

    The answer goes on after "…, since": "it has the host's devices".
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
                return f"it {where} the home folder {home}, where keys are kept"
    for name, reason in _places(homes):
        if not os.path.lexists(name) and not f"{path}/".startswith(f"{name}/"):
            continue  # most of the many do not exist; the rest takes ten times as long
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


def identity_of(path: Path) -> Identity:
    """Return the device and the inode of what lies at a path, of a link's own. Raises `OSError`."""
    status = os.lstat(path)
    return status.st_dev, status.st_ino


def _identity(path: Path) -> Identity | None:
    try:
        return identity_of(path)
    except OSError:  # there is nothing, or nothing that this user may see
        return None


def _identities(places: Iterable[Path]) -> set[Identity]:
    return {identity for place in places if (identity := _identity(place))}


def _places(homes: list[Path]) -> Iterator[tuple[str, str]]:
    """Yield the places, whether they exist or not, and why each is private."""
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
    """Return where a place leads that is a link, as key stores kept elsewhere are; the link gives nothing away."""
    return Path(os.path.realpath(place)) if os.path.islink(place) else place


def _homes(path: Path) -> list[Path]:
    """Return the home folders that matter for a path: this user's, root's, and the one below `/home` that it is in."""
    named = [os.environ.get("HOME", ""), "/root", *_homes_of_accounts()]
    if path.parts[1:2] == ("home",) and len(path.parts) > 2:
        named.append(f"/home/{path.parts[2]}")
    real = (Path(os.path.realpath(name)) for name in named if name.startswith("/"))
    return list(dict.fromkeys(real))


def _accounts() -> set[int]:
    """Return the ids of this user, by each of the ways to be one."""
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
