"""The `container` engine beside `podman run … python -c`: a fresh run, a tool call, a session's run, a cold start.

`python benchmarks/container.py runsc` measures another runtime than the usual one.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

from effort import FULL, Effort
from figures import Figure, Row, Target, figure
from fresh_run import PLAIN, run_in
from machine import machine
from passes import Found, Pass
from report import show
from stopwatch import PAUSE_SECONDS, Contender, in_turns
from verdict import Watch

import actbox
from actbox.sandbox.engines.container.client import find_client
from actbox.sandbox.engines.container.image import host_root

CALLS = 500
_CALLS = f"""
import time
began = time.perf_counter()
for _ in range({CALLS}): echo("x")
(time.perf_counter() - began) / {CALLS} * 1e6
"""


@actbox.tool
def echo(text: str) -> str:
    """Give back a text."""
    return text


def bare_run(runtime: str) -> list[str]:
    """Return the command that makes a container for one program, with the same interpreter."""
    client = find_client(runtime)
    root = host_root(client)
    volumes = [part for host, inside in root.mounts for part in ("--volume", f"{host}:{inside}:ro")]
    limits = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000"]
    options = ["--rm", "--network", "none", "--pull", "never", *limits, *volumes]
    return client.command("run", *options, root.image, root.python, "-c", PLAIN.code)


async def measure(effort: Effort, runtime: str = "") -> list[Row]:
    """Return the figures of the engine, with a container for each program beside them."""
    command = bare_run(runtime)

    async def bare() -> None:
        said = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=True)
        PLAIN.check(said.stdout)

    async def cold() -> None:
        async with actbox.open_sandbox("container", runtime=runtime) as box:
            await run_in(box, PLAIN)()

    async with actbox.open_sandbox("container", runtime=runtime) as box, box.session() as session:

        async def in_session() -> None:
            PLAIN.check((await session.run(PLAIN.code)).stdout)

        contenders = {
            "fresh": Contender(run_in(box, PLAIN), effort.fast),
            "session": Contender(in_session, effort.fast),
            "cold": Contender(cold, effort.repeats),
            "bare": Contender(bare, effort.repeats),
        }
        times = await in_turns(contenders, pause=PAUSE_SECONDS)
        calls = [(await box.run(_CALLS, tools=[echo])).value for _ in range(effort.repeats)]
    peers: dict[str, Figure] = {"podman run": figure(times["bare"])}
    return [
        Row("container: a fresh run of `print(1+1)`", "ms", figure(times["fresh"]), Target(p50=15), peers),
        Row("container: a run of a session", "ms", figure(times["session"]), Target(p50=15), peers),
        Row("container: cold start to the first answer", "ms", figure(times["cold"]), Target(), peers),
        Row("container: one tool call", "µs", figure(calls), Target(p50=300)),
    ]


def main() -> None:
    """Measure the runtime that the command line names, and print the rows."""
    watch = Watch(os.getloadavg()[0])
    rows = asyncio.run(measure(FULL, *sys.argv[1:2]))
    show(Pass(machine(), found={"container": Found(watch.verdict(), tuple(rows))}))


if __name__ == "__main__":
    main()
