"""What the linux engine says of this machine that no wall of its own covers."""

from __future__ import annotations

import resource
from pathlib import Path
from types import SimpleNamespace

import pytest

from actbox.sandbox.engines.linux import traits
from actbox.sandbox.engines.linux.hierarchies import Place, Support


@pytest.mark.parametrize(
    ("version", "options", "release", "said"),
    [
        (2, "rw,nsdelegate", "6.1.0-57-amd64", True),
        (2, "rw,nsdelegate", "7.0", True),
        (2, "rw,favordynmods", "6.1.0", False),
        (2, "rw,nsdelegate", "5.15.0", False),
        (1, "rw", "6.1.0", False),
    ],
)
def test_it_says_where_guests_wait_for_their_move_into_a_control_group(
    version: int, options: str, release: str, said: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, mount = "30 1 0:26 / /sys rw - sysfs sys rw", f"31 30 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 {options}"
    (tmp_path / "mountinfo").write_text(f"{other}\n{mount}\n")
    monkeypatch.setattr(traits, "_MOUNTS", tmp_path / "mountinfo")
    monkeypatch.setattr("os.uname", lambda: SimpleNamespace(release=release))
    monkeypatch.setattr(traits, "_core_dumps", str)
    monkeypatch.setattr(traits, "_kernel_tells_of_sockets", lambda: True)
    groups = Support({"memory": Place(version, Path("/sys/fs/cgroup"))})
    notes = [note for note in traits.linux_traits(groups).notes if "remount,favordynmods /sys/fs/cgroup`" in note]
    assert bool(notes) == said


@pytest.mark.parametrize(
    ("pattern", "user", "hard", "said"),
    [
        ("core", 1000, 0, ""),
        ("|/usr/lib/handler %P", 1000, resource.RLIM_INFINITY, ""),
        ("|/usr/lib/handler %P", 0, 0, ""),
        ("|/usr/lib/handler %P", 1000, 0, "starts the handler in core_pattern"),
        ("@/run/dumps", 0, resource.RLIM_INFINITY, "the service at @/run/dumps gets core dumps"),
    ],
)
def test_it_says_who_gets_core_dumps_of_programs(
    pattern: str, user: int, hard: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "core_pattern").write_text(pattern + "\n")
    monkeypatch.setattr(traits, "_CORE_PATTERN", tmp_path / "core_pattern")
    monkeypatch.setattr("os.geteuid", lambda: user)
    monkeypatch.setattr(resource, "getrlimit", lambda which: (0, hard))
    notes = [note for note in traits.linux_traits(None).notes if "core_pattern" in note]
    assert bool(notes) == bool(said)
    assert all(said in note for note in notes)
