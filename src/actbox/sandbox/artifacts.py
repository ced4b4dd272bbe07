"""Chooses the files below `/output` that become artifacts, and reports the others.

The reports are bounded, because the program chose the number and the names of the files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from actbox.core.counted import counted
from actbox.core.lazy_dataclass import dataclass
from actbox.core.limits import Limits
from actbox.core.result import Artifact

_MIB = 2**20
MAX_DEPTH = 32
# A guest can make files faster than we can list them.
MAX_ENTRIES = 100_000
# In all paths together, which are kept in memory during a run; each may be as long as depth and names allow.
MAX_PATH_CHARACTERS = 16 * _MIB

MADE_ANEW = "output/ was made anew, because an earlier program had removed it or replaced it by something else"
MOST_WARNINGS = 100
_MOST_OF_A_PATH = 200
_ITS_END = 60


@dataclass(frozen=True, slots=True)
class Candidate:
    """An entry below `output` that a run may have made: its `size` in bytes, `None` unless it is a regular file."""

    path: str
    size: int | None
    read: Callable[[int], bytes]
    """Returns at most this many bytes of it; raises `OSError`. Call it before the next candidate is taken."""


def choose(candidates: Iterable[Candidate], limits: Limits, left_out: LeftOut) -> list[Artifact]:
    """Return the artifacts that the limits allow, sorted by name; `left_out` gets a sentence for each omission."""
    artifacts: list[Artifact] = []
    left = limits.artifact_mib * _MIB
    for candidate in candidates:
        name = f"output/{shown(candidate.path)}"
        too_much = f"{name} was not collected: the artifacts would exceed {limits.artifact_mib} MiB"
        if candidate.size is None:
            left_out.add(f"{name} is not a regular file and was not collected")
        elif len(artifacts) >= limits.artifacts:
            left_out.end(f"more than {counted(limits.artifacts, 'file')} in output/: the rest was not collected")
            break
        elif candidate.size > left:  # reading that much of each of many files would take long
            left_out.add(too_much)
        else:
            try:
                data = candidate.read(left + 1)
            except OSError as error:
                left_out.add(f"{name} could not be collected: {error.strerror}")
                continue
            if len(data) > left:  # it has grown meanwhile
                left_out.add(too_much)
                continue
            left -= len(data)
            artifacts.append(Artifact(printable(candidate.path), data))
    return sorted(artifacts, key=lambda artifact: artifact.name)


class LeftOut:
    """The warnings of one collection, in order."""

    def __init__(self) -> None:
        self._warnings: list[str] = []
        self._more = 0
        self._last: list[str] = []

    def add(self, warning: str) -> None:
        """Add a warning about one omission. Beyond a hundred they are only counted."""
        if len(self._warnings) < MOST_WARNINGS:
            self._warnings.append(warning)
        else:
            self._more += 1

    def end(self, warning: str) -> None:
        """Add a warning, always kept, on why nothing more was collected."""
        self._last.append(warning)

    def warnings(self) -> list[str]:
        """Return the warnings about omissions, the number of further ones, and why nothing more was collected."""
        more = [f"{self._more:,} more were not collected"] if self._more else []
        return [*self._warnings, *more, *self._last]


def printable(path: str) -> str:
    """Return a guest's path as text that can be encoded."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def shown(path: str) -> str:
    """Return a guest's path for a sentence, with the middle of a long one left out."""
    path = printable(path)
    if len(path) <= _MOST_OF_A_PATH:
        return path
    return f"{path[: _MOST_OF_A_PATH - _ITS_END - 1]}…{path[-_ITS_END:]}"
