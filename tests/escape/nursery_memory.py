"""Attempts to find in a guest's own memory what its nursery, from which all guests are forked, has read for others."""

from __future__ import annotations

import socket

from actbox import FileMount, Policy
from tests.escape.attempt import Verdict
from tests.escape.ground import Ground
from tests.escape.lanes import search
from tests.escape.leaks import GROUP
from tests.escape.program import source_of, verdict_of

# Memory that was freed is soon used again, its beginning first: so the word stands at the end of a long name.
_BEFORE = "x" * 60
_ROUNDS = 4


async def _search_after_a_mount(ground: Ground, name: str, word: str) -> Verdict:
    """Search for a word in the memory of one sandbox, after another one has mounted a folder of this name."""
    for number in range(_ROUNDS):
        folder = ground.folder() / f"{name}{number}"
        folder.mkdir(mode=0o755)
        other = await ground.open(Policy(mounts=(FileMount(folder, "/data"),)))
        for _ in range(2):
            await other.run("1")
        box = await ground.open()
        seen = verdict_of(await box.run(source_of(search(word), ground.things), timeout=20))
        if seen.outcome.value != "stopped":
            return seen
    return seen


@GROUP.function("find the path of another sandbox's mount on the host in its own memory")
async def _(ground: Ground) -> Verdict:
    word = "folder-of-somebody-else-"
    return await _search_after_a_mount(ground, _BEFORE + word, word)


@GROUP.function("find the name of a socket of the host in its own memory")
async def _(ground: Ground) -> Verdict:
    word = "socket-of-somebody-else"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("\0" + _BEFORE + word)
        server.listen()
        return await _search_after_a_mount(ground, "folder", word)
