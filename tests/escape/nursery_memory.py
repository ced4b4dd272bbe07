"""Attempts to find in a guest's own memory what its nursery, from which all guests are forked, has read for others."""

from __future__ import annotations

import contextlib
import socket

from actbox import FileMount, Policy
from tests.escape.attempt import Verdict
from tests.escape.ground import Ground
from tests.escape.lanes import search
from tests.escape.leaks import GROUP
from tests.escape.program import source_of, verdict_of

# Memory that was freed is soon used again, its beginning first: so the word stands at the end of a long name.
_BEFORE = "x" * 60
_ROUNDS, _SOCKETS = 4, 60


async def _search_after_a_mount(ground: Ground, name: str, word: str, place: str = "/data") -> Verdict:
    """Search for a word in the memory of one sandbox, after another one has mounted a folder of this name at a place."""
    for number in range(_ROUNDS):
        folder = ground.folder() / f"{name}{number}"
        folder.mkdir(mode=0o755)
        other = await ground.open(Policy(mounts=(FileMount(folder, place),)))
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


@GROUP.function("find the place of another sandbox's mount in its own memory")
async def _(ground: Ground) -> Verdict:
    word = "place-of-somebody-else"
    return await _search_after_a_mount(ground, "folder", word, f"/data/{_BEFORE}{word}")


@GROUP.function("find the name of a socket of the host in its own memory")
async def _(ground: Ground) -> Verdict:
    word = "socket-of-somebody-else"
    with contextlib.ExitStack() as until_the_end:
        for number in range(_SOCKETS):
            server = until_the_end.enter_context(socket.socket(socket.AF_UNIX))
            server.bind(f"\0{_BEFORE}{number}{word}")
        return await _search_after_a_mount(ground, "folder", word)
