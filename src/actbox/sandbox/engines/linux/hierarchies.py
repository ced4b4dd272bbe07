"""Finds where this process may make control groups, by making a trial group and having a process join it.

Each controller (memory, pids, cpu, cpuacct) belongs to one hierarchy: one of version 1, or the one of version 2. In
version 1 groups are made below our own group. In version 2 a group with processes cannot have child groups with limits,
except the root group ("no internal processes" in the kernel's documentation of cgroup v2), so there are three ways:

1. Our own group already passes the controllers on to groups below it.
2. All processes in our own group are ours, as where it was delegated to us (`systemd-run --user --scope -p
  Delegate=yes`, a container's own group): we move them to a leaf below it, and have it pass the controllers on.
3. The parent of our group passes them on, and we may make groups there, beside our own.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import itertools
import os
import subprocess
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from actbox.core.lazy_dataclass import dataclass

CPUACCT = "cpuacct"
"""A controller of version 1 alone, which counts processor time and limits nothing. Version 2 counts it in any group."""
CONTROLLERS = ("memory", "pids", "cpu", CPUACCT)
# The file that sets the limit, or has the count; a kernel built without the file does neither.
_LIMIT_FILES = {
    1: {
        "memory": "memory.limit_in_bytes",
        "pids": "pids.max",
        "cpu": "cpu.cfs_quota_us",
        CPUACCT: "cpuacct.usage",
    },
    2: {"memory": "memory.max", "pids": "pids.max", "cpu": "cpu.max"},
}
_WEIGHT_FILES = {1: "cpu.shares", 2: "cpu.weight"}
_USUAL_WEIGHTS = {1: 1024, 2: 100}
_LEAF = "-host"
_numbers = itertools.count(1)
_REMOVE_TRIES, _REMOVE_WAIT_SECONDS = 50, 0.002


@dataclass(frozen=True, slots=True)
class Place:
    """A directory in which groups with one controller can be made, and the version of its hierarchy."""

    version: int
    folder: Path


@dataclass(frozen=True, slots=True)
class Support:
    """The place where groups can be made on this machine, for each available controller."""

    places: dict[str, Place]

    def enforcer(self, controller: str) -> str:
        """Return a controller's enforcer as `Traits` names it, such as `cgroup v2`; "" if it is not available."""
        place = self.places.get(controller)
        return f"cgroup v{place.version}" if place else ""

    @property
    def time_counter(self) -> str:
        """The groups in which the kernel counts processor time, such as `cgroup v2`; "" if there are none."""
        return "cgroup v2" if any(place.version == 2 for place in self.places.values()) else self.enforcer(CPUACCT)


@functools.cache
def support() -> Support | None:
    """Return where groups can be made, or `None`. May move this process to a leaf group (see the module's text)."""
    try:
        own, mounts = Path("/proc/self/cgroup").read_text(), Path("/proc/self/mountinfo").read_text()
    except OSError:
        return None
    found = find(CONTROLLERS, own, mounts)
    for folder in {place.folder for place in found.places.values()}:
        _remove_orphans(folder)
    return gather(found) if found.places else None


os.register_at_fork(after_in_child=support.cache_clear)  # the group of all runs is the parent's


def find(controllers: Iterable[str], own: str, mounts: str) -> Support:
    """Return where groups with these controllers can be made, given `/proc/self/cgroup` and `/proc/self/mountinfo`."""
    wanted = list(controllers)
    folders = own_folders(own, mounts)
    places: dict[str, Place] = {}
    if "" in folders:
        for controller, folder in _version_2(folders[""], wanted).items():
            places[controller] = Place(2, folder)
    needless = {*places, CPUACCT} if places else set()
    others = [name for name in wanted if name in folders and name not in needless]
    for controller, usable in zip(others, _try([(folders[name], 1, [name]) for name in others]), strict=True):
        if usable:
            places[controller] = Place(1, folders[controller])
    return Support(places)


def gather(found: Support) -> Support:
    """Make one parent group for all runs of this process, removed at its end; return the places below it.

    Does so only with a cpu controller, because the group is for weight: all runs together weigh as much as one ordinary
    process on each processor. So this process, and others, get their turn however many runs there are.
    """
    place = found.places.get("cpu")
    if place is None:
        return found
    folder = place.folder / f"actbox-{os.getpid()}-runs"
    inside = [name for name, other in found.places.items() if other.folder == place.folder]
    weight = (os.cpu_count() or 1) * _USUAL_WEIGHTS[place.version]
    try:
        folder.mkdir(exist_ok=True)
        (folder / _WEIGHT_FILES[place.version]).write_text(str(min(weight, 10_000)))
        if place.version == 2:
            (folder / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in inside))
    except OSError:  # the kernel also limits the number of groups
        _remove(folder)
        return found
    atexit.register(_remove, folder)
    return Support({**found.places, **dict.fromkeys(inside, Place(place.version, folder))})


def own_folders(own: str, mounts: str) -> dict[str, Path]:
    """Return the directory of this process's group for each controller of version 1, and for version 2 under "".

    Groups outside the mounted part of the hierarchy, as in some containers, are left out.
    """
    roots = _mounted(mounts)
    folders: dict[str, Path] = {}
    for line in own.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            if controller in roots and ".." not in path.split("/"):
                root, mount_point = roots[controller]
                with contextlib.suppress(ValueError):  # another part of the hierarchy is mounted
                    folders[controller] = mount_point / Path(path).relative_to(root)
    return folders


def _mounted(mounts: str) -> dict[str, tuple[str, Path]]:
    """Return the mounted group and its mount point for each controller of version 1, and for version 2 under ""."""
    found: dict[str, tuple[str, Path]] = {}
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        root, mount_point = before.split()[3:5]
        kind, _, options = [*after.split(maxsplit=2), "", ""][:3]
        names = [""] if kind == "cgroup2" else options.split(",") if kind == "cgroup" else []
        for name in names:
            found.setdefault(name, (root, Path(mount_point)))
    return found


def _version_2(here: Path, wanted: list[str]) -> dict[str, Path]:
    """Return the directory for version 2 groups with each controller: our own group's, or its parent's."""
    for folder, prepare in ((here, False), (here, True), (here.parent, False)):
        if prepare and not _hand_on(here, wanted):
            continue
        offered = _words(folder / "cgroup.subtree_control")
        usable = [name for name in wanted if name in offered]
        if usable and can_make(folder, 2, usable):
            return dict.fromkeys(usable, folder)
    return {}


def _hand_on(here: Path, wanted: list[str]) -> bool:
    """Have a group pass controllers on to its child groups; return whether it passes any on.

    Its processes are first moved to a leaf group below it, if all of them are ours; other processes are not touched.
    """
    missing = [name for name in wanted if name in _words(here / "cgroup.controllers")]
    if not missing or not os.access(here / "cgroup.subtree_control", os.W_OK):
        return False
    is_root = not (here / "cgroup.type").exists()
    if not is_root and not _move_to_leaf(here):
        return False
    for name in missing:  # one by one: a group above may withhold some of them
        with contextlib.suppress(OSError):
            (here / "cgroup.subtree_control").write_text(f"+{name}")
    return any(name in missing for name in _words(here / "cgroup.subtree_control"))


def _move_to_leaf(here: Path) -> bool:
    if here.name.startswith("actbox-") and here.name.endswith(_LEAF):
        return False  # this group is such a leaf, which we or our parent moved to
    leaf = here / f"actbox-{os.getpid()}{_LEAF}"
    try:
        inside = _pids(here)
        if not inside or not all(_is_ours(process) for process in inside):
            return False
        leaf.mkdir()
        while inside := _pids(here):  # a process may have forked another meanwhile
            for process in inside:
                with contextlib.suppress(ProcessLookupError):
                    (leaf / "cgroup.procs").write_text(str(process))
    except OSError:
        with contextlib.suppress(OSError):  # the leaf was not made, or has a process in it: then it stays
            leaf.rmdir()
        return False
    return True


def _pids(group: Path) -> list[int]:
    return [int(word) for word in (group / "cgroup.procs").read_text().split()]


def _is_ours(process: int) -> bool:
    """True if a process is this one or its descendant. A process of another pid namespace has the number 0: false."""
    while process > 1 and process != os.getpid():
        try:
            process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has ended, and blocks nothing
            return True
    return process == os.getpid()


def _words(file: Path) -> list[str]:
    try:
        return file.read_text().split()
    except OSError:
        return []


def can_make(folder: Path, version: int, controllers: Iterable[str]) -> bool:
    """Return whether a group with these limits can be made in this directory and joined by a process."""
    return _try([(folder, version, controllers)])[0]


def _try(groups: Sequence[tuple[Path, int, Iterable[str]]]) -> list[bool]:
    """Return `can_make` for each of these; one process joins all trial groups, because starting it takes longest."""
    with contextlib.ExitStack() as made:
        joins = [_trial_group(made, *group) for group in groups]
        files = [str(join) for join in joins if join is not None]
        if not files:
            return [False] * len(groups)
        joining = ["/bin/sh", "-c", 'for file; do echo 0 > "$file" && echo "$file"; done', "sh", *files]
        try:
            done = subprocess.run(joining, check=False, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        except OSError:
            return [False] * len(groups)
        joined = done.stdout.splitlines()
        return [join is not None and str(join) in joined for join in joins]


def _trial_group(made: contextlib.ExitStack, folder: Path, version: int, controllers: Iterable[str]) -> Path | None:
    """Make a group that is removed with `made`; return the file by which a process joins it, `None` without one."""
    trial = folder / f"actbox-{os.getpid()}-{next(_numbers)}-trial"
    try:
        trial.mkdir()
    except OSError:
        return None
    made.callback(_remove, trial)
    files = [_LIMIT_FILES[version].get(name) for name in controllers]
    if not all(os.access(trial / name, os.W_OK) for name in files if name):
        return None
    return trial / ("cgroup.procs" if version == 2 else "tasks")


def _remove(group: Path) -> None:
    for _ in range(_REMOVE_TRIES):  # the kernel may still be cleaning up its last process
        try:
            group.rmdir()
            return
        except OSError:
            time.sleep(_REMOVE_WAIT_SECONDS)


def _remove_orphans(folder: Path) -> None:
    """Remove groups left by processes of this library that were killed before they could remove them."""
    for group in folder.glob("actbox-*-*"):
        process = group.name.split("-")[1]
        if process.isdigit() and not Path("/proc", process).exists():
            with contextlib.suppress(OSError):  # another process may be removing it too
                for inner in group.glob("actbox-*-*"):
                    inner.rmdir()
                group.rmdir()
