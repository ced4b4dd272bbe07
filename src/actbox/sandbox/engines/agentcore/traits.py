"""What the `agentcore` engine does, said honestly."""

from __future__ import annotations

from typing import Final

from actbox.sandbox.shell import shell_traits

TRAITS: Final = shell_traits(
    "agentcore",
    isolation="a machine of the AWS service, of which each sandbox has one to itself",
    isolated=True,
    platforms=("linux", "darwin"),
    languages=("python", "javascript", "typescript"),
    sessions=True,
    session_languages=("python",),
    packages="those of the code interpreter",
    network="what the code interpreter's network mode allows; the system's own has none",
    notes=(
        "the service ends its session after session_seconds, whatever runs in it; the next call says so",
        "each step is a request to AWS, and several of them make a run: it takes as long as they do",
        "a session lives in the service's kernel, of which there is one: one session at a time, whose programs have "
        "the limits of time, output and artifacts only; tasks that await stand still between its programs",
        "JavaScript and TypeScript need Node on the service's machine, TypeScript 22.13 or later; sessions run Python",
        "programs of one sandbox run as one user of one machine: they can see and end each other, and write to input/",
    ),
)
