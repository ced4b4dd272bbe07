"""Where control groups can be made, and what is written to them, in both versions.

The hierarchies of this machine are used as far as it has them. Of version 2 a machine with version 1 often has the tree
and few controllers: there its rules are tried with the controllers that it has, and the limits on a folder tree.
"""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import actbox
from actbox import Limits, Policy
from actbox.sandbox.engines.linux.cgroups import RunGroup
from actbox.sandbox.engines.linux.child import Child
from actbox.sandbox.engines.linux.hierarchies import Place, Support, can_make, find, own_folders, support
from tests.waiting import wait_until

V1 = """\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
33 31 0:30 /docker/abc /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
34 31 0:31 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw,nsdelegate
"""


def test_groups_are_found_where_their_hierarchies_are_mounted() -> None:
    own = "4:memory:/docker/abc/inner\n2:cpu,cpuacct:/user\n1:name=systemd:/x\n0::/scope\n"
    folders = own_folders(own, V1)
    assert folders["memory"] == Path("/sys/fs/cgroup/memory/inner")
    assert folders["cpu"] == folders["cpuacct"] == Path("/sys/fs/cgroup/cpu,cpuacct/user")
    assert folders[""] == Path("/sys/fs/cgroup/unified/scope")


@pytest.mark.parametrize("own", ["4:memory:/elsewhere\n", "4:memory:/../up\n", "4:memory:/docker/abc/../../x\n", ""])
def test_a_group_outside_what_is_mounted_is_not_guessed_at(own: str) -> None:
    assert own_folders(own, V1) == {}


def written(folder: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in folder.iterdir()}


@pytest.fixture
def groups_of_version_2(tmp_path: Path) -> Support:
    return Support(dict.fromkeys(("memory", "pids", "cpu"), Place(2, tmp_path)))


def test_version_2_has_its_limits_in_its_own_words(groups_of_version_2: Support, tmp_path: Path) -> None:
    group = RunGroup(groups_of_version_2, Limits(memory_mib=64, processes=7, cpus=0.25))
    (folder,) = group.folders
    assert Path(folder).parent == tmp_path
    assert written(Path(folder)) == {"memory.max": str(64 * 2**20), "pids.max": "7", "cpu.max": "25000 100000"}
    group.set_limits(Limits(memory_mib=32, processes=7, cpus=1000))
    assert written(Path(folder))["cpu.max"] == "max 100000"
    assert written(Path(folder))["memory.max"] == str(32 * 2**20)


def test_version_2_tells_which_limit_the_kernel_enforced(groups_of_version_2: Support) -> None:
    group = RunGroup(groups_of_version_2, Limits())
    (folder,) = group.folders
    Path(folder, "memory.events").write_text("low 0\nhigh 0\nmax 9\noom 1\noom_kill 0\noom_group_kill 0\n")
    Path(folder, "pids.events").write_text("max 0\n")
    assert group.limit_reached() == ""
    Path(folder, "pids.events").write_text("max 3\n")
    assert group.limit_reached() == "processes"
    Path(folder, "memory.events").write_text("low 0\nhigh 0\nmax 9\noom 1\noom_kill 1\noom_group_kill 0\n")
    assert group.limit_reached() == "memory_mib"


@pytest.mark.parametrize(
    ("places", "files", "opened", "counter"),
    [
        ({"pids": 2}, ["cgroup.procs", "pids.events", "cpu.stat"], "join0 pids_events cpu_usage", "cgroup v2"),
        ({"cpuacct": 1}, ["tasks", "cpuacct.usage"], "join0 cpuacct_usage", "cgroup v1"),
        ({"pids": 1}, ["tasks", "pids.events"], "join0 pids_events", ""),
    ],
)
def test_processor_time_is_read_wherever_the_kernel_counts_it(
    places: dict[str, int], files: list[str], opened: str, counter: str, tmp_path: Path
) -> None:
    found = Support({name: Place(version, tmp_path) for name, version in places.items()})
    assert found.time_counter == counter
    group = RunGroup(found, Limits())
    (folder,) = group.folders
    for name in files:
        Path(folder, name).touch()
    descriptors = group.open_files()
    for descriptor in descriptors.values():
        os.close(descriptor)
    assert sorted(descriptors) == sorted(opened.split())


def test_what_cannot_be_made_leaves_nothing_behind(tmp_path: Path) -> None:
    missing = Support({"memory": Place(1, tmp_path), "pids": Place(1, tmp_path / "missing")})
    with pytest.raises(OSError, match="missing"):
        RunGroup(missing, Limits())
    assert list(tmp_path.iterdir()) == []


def test_the_groups_of_this_machine_keep_what_is_written() -> None:
    found = support()
    if found is None:
        pytest.skip("this user can make no control groups here")
    limits = Limits(memory_mib=64, processes=7, cpus=0.25)
    group = RunGroup(found, limits)
    try:
        assert all(os.path.isdir(folder) for folder in group.folders)
        for descriptor in group.open_files().values():
            os.close(descriptor)
        assert group.limit_reached() == ""
    finally:
        group.remove()
    assert not any(os.path.exists(folder) for folder in group.folders)


@pytest.mark.asyncio
async def test_a_run_gets_another_sandbox_if_its_own_ends_between_opening_and_reading_a_file_of_its_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if support() is None:
        pytest.skip("this user can make no control groups here")
    begin, read, ending, said = Child.begin, RunGroup.used_ms, [], []

    def begin_one_that_ends(child: Child, *given: Any) -> None:
        ending.append(child)
        begin(child, *given)

    def read_too_late(group: RunGroup) -> float:
        if said:
            return read(group)
        with open(f"{min(group.folders)}/cgroup.procs") as file:
            signal.pidfd_send_signal(ending[0]._pidfd, signal.SIGKILL)
            wait_until(lambda: ending[0].buried)
            with pytest.raises(OSError) as raised:
                file.read()
            said.append(raised.value.errno)
            raise raised.value

    monkeypatch.setattr(Child, "begin", begin_one_that_ends)
    monkeypatch.setattr(RunGroup, "used_ms", read_too_late)
    async with actbox.open_sandbox("linux", policy=Policy(namespaces="run")) as box:
        assert (await box.run("6 * 7")).value == 42
    assert said == [errno.ENODEV]


def _version_2_root() -> Path:
    own = Path("/proc/self/cgroup").read_text()
    folder = own_folders(own, Path("/proc/self/mountinfo").read_text()).get("")
    if folder is None or not os.access(folder, os.W_OK):
        pytest.skip("no tree of control groups of version 2 that this user may write to is mounted here")
    return folder


@pytest.fixture
def delegated() -> Iterator[tuple[Path, str]]:
    """A group of version 2 with nobody in it, and a controller that it has to hand on."""
    root = _version_2_root()
    offered = (root / "cgroup.controllers").read_text().split()
    if not offered:
        pytest.skip("the tree of version 2 has no controllers here")
    controller = offered[0]
    (root / "cgroup.subtree_control").write_text(f"+{controller}")
    folder = root / f"actbox-test-{os.getpid()}"
    folder.mkdir()
    try:
        yield folder, controller
    finally:
        for group in sorted(folder.rglob("*/"), reverse=True):
            if group.is_dir():
                group.rmdir()
        folder.rmdir()


# A process in a group that was delegated to it: it finds out where it may make groups, and makes one in one.
_INSIDE = """
import os, sys
from pathlib import Path
from actbox.sandbox.engines.linux.hierarchies import find
folder, controller = Path(sys.argv[1]), sys.argv[2]
(folder / "cgroup.procs").write_text("0")
def look():
    return find([controller], Path("/proc/self/cgroup").read_text(), Path("/proc/self/mountinfo").read_text())
found = look()
again = look()
assert found == again, (found, again)
print(found.places[controller].version if found.places else "none")
print(found.places[controller].folder if found.places else "-")
print(Path("/proc/self/cgroup").read_text().splitlines()[-1].rpartition("/")[2] == f"actbox-{os.getpid()}-host")
"""


def _inside(folder: Path, controller: str) -> list[str]:
    command = [sys.executable, "-c", _INSIDE, str(folder), controller]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


@pytest.mark.slow
def test_in_a_group_of_its_own_a_process_moves_to_a_leaf_and_makes_groups_beside_it(
    delegated: tuple[Path, str],
) -> None:
    folder, controller = delegated
    assert _inside(folder, controller) == ["2", str(folder), "True"]
    assert controller in (folder / "cgroup.subtree_control").read_text().split()


@pytest.mark.slow
def test_in_a_group_with_others_nobody_is_moved_and_groups_are_made_beside_it(delegated: tuple[Path, str]) -> None:
    folder, controller = delegated
    with subprocess.Popen(["sleep", "60"]) as other:
        try:
            (folder / "cgroup.procs").write_text(str(other.pid))
            version, where, moved = _inside(folder, controller)
            assert (version, where, moved) == ("2", str(folder.parent), "False")
            assert str(other.pid) in (folder / "cgroup.procs").read_text().split()
        finally:
            other.kill()


def test_a_group_that_nobody_can_join_is_not_used(tmp_path: Path) -> None:
    assert not can_make(tmp_path / "missing", 2, ["memory"])
    assert not can_make(tmp_path, 2, ["memory"]), "a folder without the kernel's files is no group"
    assert not can_make(tmp_path, 1, ["cpu"])


def test_nothing_is_found_where_nothing_is_mounted() -> None:
    assert find(["memory"], "0::/\n4:memory:/\n", "").places == {}
