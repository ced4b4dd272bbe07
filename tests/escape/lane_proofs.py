"""The part of the table of proofs (`proofs.py`) that is about weaknesses of lanes, and of memory that guests inherit."""

from __future__ import annotations

LANES: dict[str, dict[str, tuple[str, ...]]] = {
    "lanes not looked at": {
        "lanes": (
            "leave a process",
            "leave a process, as a command",
            "leave a process beside its own, of which pid 1 is the parent",
            "leave a thread and a session leader",
            "leave a file in /tmp",
            "leave a file in shared memory",
            "leave the mode of /tmp changed",
            "leave the times of /tmp changed",
            "leave the times of a directory that is empty again",
            "shift the numbers of processes, as a command",
            "leave files in /tmp and in shared memory, as a command",
            "leave a connection that lingers",
            "leave packets that were counted",
            "leave packets that were counted in the second protocol",
            "leave connections that nobody has accepted",
            "leave questions at the name server",
            "come to its end at each instant of the handover",
            "come to its end at each instant of the handover, as a command and as a program that poses as one",
            "have fewer walls as a later guest",
            "be in one place with a run at the same time",
            "reach a later run's /tmp from a run beside it, by a descriptor that an earlier one gave away",
            "leave its workspace to the next program of a call of map",
            "reach the workspace of the last program of a call of map by what was open",
            "act on a later run from a run beside it, by descriptors that an earlier one gave away",
            "leave changes in an overlay",
            "leave the mode and the times of an overlay changed",
            "leave the numbers of files in an overlay counted on",
            "reach a later run's overlay from a run beside it, by a descriptor that an earlier one gave away",
        ),
    },
    "limits told late forgotten": {
        "lanes": ("have other limits, variables or directories of modules, as a guest that was told of them ahead",),
    },
    "project ids left to guests": {
        "lanes": ("leave a map of project ids", "leave anything that /proc or the root shows"),
    },
    "texts not wiped": {
        "lanes": (
            "leave the names of files in /tmp in memory",
            "leave the numbers by which it knows what it watches in memory",
            "leave the places of its locks in memory",
        ),
        "information leaks": (
            "find the path of another sandbox's mount on the host in its own memory",
            "find the place of another sandbox's mount in its own memory",
            "find the name of a socket of the host in its own memory",
        ),
    },
}
"""By the name of a weakness and the name of a group."""
