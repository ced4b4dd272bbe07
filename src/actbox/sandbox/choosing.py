"""Which of the files that a run left below `/output` become artifacts, wherever they lie."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from actbox.core.counted import counted
from actbox.core.limits import Limits
from actbox.core.result import Artifact

from .left_out import LeftOut, printable, shown

_MIB = 2**20
MAX_DEPTH = 32
# A guest can make files faster than we can look at them.
MAX_ENTRIES = 100_000
# All paths together, which are remembered while a run lasts: each may be as long as depth and names allow.
MAX_PATH_CHARACTERS = 16 * _MIB

MADE_ANEW = "output/ was no folder any more, since an earlier program had removed or replaced it: it was made anew"


@dataclass(frozen=True, slots=True)
class Candidate:
    """What a run may have made below `output`: its `size` in bytes, `None` where it is no regular file."""

    path: str
    size: int | None
    read: Callable[[int], bytes]
    """Returns at most so many bytes of it; raises `OSError`. To be called before the next candidate is asked for."""


def choose(candidates: Iterable[Candidate], limits: Limits, left_out: LeftOut) -> list[Artifact]:
    """Return what the limits let be an artifact, sorted by name; `left_out` has a sentence for each that is none."""
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
        elif candidate.size > left:  # to read as much of each of many would take its time
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
