"""What the `ssh` engine does, said honestly."""

from __future__ import annotations

from actbox.sandbox.enforcers import BY_AGENT, BY_HOST
from actbox.sandbox.traits import Traits

TRAITS = Traits(
    engine="ssh",
    isolation="another machine; on it none: programs run as the account that was named",
    isolated=False,
    enforced={**BY_AGENT, **BY_HOST},
    packages="those of that machine's Python",
    platforms=("linux", "darwin"),
    cwd=True,
    sessions=True,
    network="everything that the other machine reaches",
    notes=(
        "no isolation of that account: a program can read, change and end whatever the account can, also what runs "
        "there for this sandbox; name one that has nothing to lose",
        "the workspace is a temporary folder there, so /workspace, /input and /output do not exist: use relative paths",
        "the agent, which counts memory and processor time, looks now and then: a program may have more for a moment",
        "the number of processes, the size of the workspace and the share of the processors are not limited",
        "a lost connection ends what runs, and the next run makes another; what lies in the workspace stays",
    ),
)
