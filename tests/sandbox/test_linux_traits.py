"""What the linux engine says of this machine that no wall of its own covers."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from actbox.sandbox.engines.linux import traits


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
