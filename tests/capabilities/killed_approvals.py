"""Processes that ask, answer and use approvals, and are killed.

`killed_approvals.py ADDRESS LOG HOW FIRST STRIDE`: with HOW `steps` one process after the other is killed, each at a
later statement or commit of its database, until one is so late that it comes to its end. With `moments` FIRST of them
are killed at random moments. What a process was told is a line in LOG before anything else happens.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import signal
import sys
import threading
import time

from sqlalchemy import Engine, event

from actbox.capabilities.approvals import Approvals, Question


def process(address: str, log: int, run: str, kill_at: int) -> None:
    """Ask, answer and use; the process ends itself at the step `kill_at`, if there is one."""
    steps = itertools.count(1)

    def step(*about: object) -> None:
        if next(steps) == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def written(*about: object) -> None:
        if threading.current_thread().name == "actbox-database":
            step()

    def say(*words: str) -> None:
        step()
        os.write(log, (" ".join(words) + "\n").encode())

    event.listen(Engine, "before_cursor_execute", written)
    event.listen(Engine, "commit", written)
    asyncio.run(ask_and_answer(Approvals.open(address), Approvals.open(address), run, say))


async def ask_and_answer(asker: Approvals, approver: Approvals, run: str, say: object) -> None:
    assert callable(say)

    async def waiting() -> str:
        while not (own := [one.id for one in await approver.list("pending") if one.run == run]):
            await asyncio.sleep(0)
        return own[0]

    async def used(question: Question) -> str:
        answer = await asker.require(question)
        if answer.approved:
            say("used", answer.id)
        return answer.id

    same = Question(capability="kit.pay", version="1", arguments={"euros": 3}, run=run)
    using = asyncio.ensure_future(used(same))
    id = await waiting()
    await approver.approve(id, by="ann")
    say("approved", id)
    if await using != id:
        say("stolen", id)

    using = asyncio.ensure_future(used(same))
    id = await waiting()
    await approver.deny(id, by="ann")
    say("denied", id)
    await using

    own = Question(capability="kit.pay", version="1", arguments={"run": run}, run=run)
    using = asyncio.ensure_future(used(own))
    id = await waiting()
    await approver.approve(id, by="ann", scope="always")
    say("always", id)
    await using
    await used(own)
    await approver.revoke(id, by="ann")
    say("revoked", id)
    asker.close()
    approver.close()


def main(address: str, name: str, how: str, first: str, stride: str) -> None:
    log = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    numbers = itertools.count(int(first), int(stride)) if how == "steps" else range(int(first))
    for number in numbers:
        child = os.fork()
        if child == 0:
            try:
                for again in itertools.count():
                    process(address, log, f"{number}.{again}", number if how == "steps" else 0)
                    if how == "steps":
                        os._exit(0)
            finally:
                os._exit(1)
        if how == "moments":
            time.sleep(random.uniform(0.02, 0.4))
            os.kill(child, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code != -signal.SIGKILL:
            sys.exit(code)


if __name__ == "__main__":
    main(*sys.argv[1:])
