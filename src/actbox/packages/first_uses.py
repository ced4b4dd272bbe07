"""The record of the approved packages that programs have had, and since when: a line of JSON for each version."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from actbox.core.packages import Distribution, TrustLevel


class FirstUse(NamedTuple):
    """The first use of a package that a policy approves by itself. `at` is in seconds since 1970."""

    name: str
    version: str
    sha256: str
    at: float


class FirstUses:
    """The record in one file. The methods block, and may be called from any thread and process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: set[str] = set()

    def note(self, distributions: Iterable[Distribution]) -> None:
        """Record the allow-listed distributions that the file lacks. Raises `OSError`."""
        new = {one.sha256: one for one in distributions if one.trust is TrustLevel.ALLOW_LISTED}
        if not new.keys() - self._known:
            return
        with open(self._path, "a", encoding="utf-8", opener=_private) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self._known |= {one.sha256 for one in self.read()}
            for one in new.values():
                if one.sha256 in self._known:
                    continue
                line = FirstUse(one.name, one.version, one.sha256, time.time())
                file.write(json.dumps(line._asdict()) + "\n")
        self._known |= new.keys()

    def read(self) -> tuple[FirstUse, ...]:
        """Return the recorded uses, the oldest first, without lines that somebody has damaged."""
        found = []
        try:
            lines = self._path.read_text("utf-8", "replace").splitlines()
        except FileNotFoundError:
            return ()
        for line in lines:
            try:
                found.append(FirstUse(**json.loads(line)))
            except (ValueError, TypeError):
                continue
        return tuple(found)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
