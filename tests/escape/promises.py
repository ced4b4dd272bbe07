"""Which attempts are on walls that not every engine has: the engine's own traits say whether they are to be made there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from actbox.sandbox.traits import Traits
from tests.escape.attempt import Attempt


@dataclass(frozen=True)
class Promise:
    """A promise that an engine may or may not make, and the attempts (by group) that may get through without it."""

    is_made: Callable[[Traits], bool]
    otherwise: str
    """The statement in the traits of an engine that does not make the promise."""
    attempts: dict[str, tuple[str, ...]]


PROMISES = (
    Promise(
        lambda traits: traits.walls == "run",
        "its traits say that the walls stand around a sandbox: runs at once are in one place with what starts them",
        {
            "processes": (
                "see pid 1",
                "list pid 1's threads",
                "be a child of the host",
                "learn which process the host is from its socket",
                "signal the host by a descriptor from its socket",
                "learn the host's id from a descriptor from its socket",
                "signal every process",
            ),
            "files": (
                "have a file system that can be written beside its own",
                "have a file system with programs that change the user",
                "have a file system with devices",
            ),
            "namespaces": ("share the host's users", "have the first of all user namespaces"),
            "privileges": ("be on the host's user id",),
            "information leaks": (
                "have more than the five devices",
                "tell from its number how many ran before it",
                "tell whether the sandbox has been used before",
                "see another guest's files and processes",
            ),
            "network and DNS": ("reach a port of another run", "reach an abstract socket of another run"),
            "resource exhaustion": (
                "have more queues of watched files than programs need",
                "have more epoll watches than a user may have for long",
                "have more locks of files than programs need",
                "leave another run less than its share",
                "end a run that goes on beside it",
            ),
        },
    ),
    Promise(
        lambda traits: "agent" not in traits.enforced.get("memory_mib", "agent"),
        "its traits say that memory is counted by an agent, which does not see what the kernel holds for programs",
        {
            "resource exhaustion": (
                "take memory by files in /tmp",
                "take memory by page tables",
                "take memory by mappings",
                "take memory by names of links",
                "take memory by sockets that wait to be accepted",
                "take memory by connections that wait to be accepted",
                "keep shared zeros of which hardly any are mapped",
                "take memory by links between mappings of processes",
                "take memory by reports of errors that wait in sockets",
                "take memory by reports of times that wait in sockets",
            ),
        },
    ),
)


def why_not_promised(attempt: Attempt, traits: Traits) -> str:
    """Return why an attempt is not made on an engine with these traits; "" where it is."""
    for promise in PROMISES:
        if attempt.what in promise.attempts.get(attempt.group, ()) and not promise.is_made(traits):
            return f"it is on a wall that the {traits.engine} engine does not have: {promise.otherwise}"
    return ""
