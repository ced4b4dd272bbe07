"""The `container` engine beside `podman run … python -c`: a fresh run, a tool call, a session's run, a cold start.

Run it by itself (`python benchmarks/container.py [RUNTIME]`): it needs Podman, which the other measurements do not.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys

from figures import Figure, Row, Target, figure
from fresh_run import PLAIN, run_in
from stopwatch import PAUSE_SECONDS, Contender, in_turns

import actbox
from actbox.sandbox.engines.container.client import find_client
from actbox.sandbox.engines.container.image import host_root

RUNS, SLOW_RUNS, CALLS = 200, 15, 500
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
    root = host_root(client, ())
    volumes = [part for host, inside in root.mounts for part in ("--volume", f"{host}:{inside}:ro")]
    limits = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000"]
    options = ["--rm", "--network", "none", "--pull", "never", *limits, *volumes]
    return client.command("run", *options, root.image, root.python, "-c", PLAIN.code)


async def measure(runtime: str) -> list[Row]:
    """Return a row for each of what was measured."""
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
            "fresh": Contender(run_in(box, PLAIN), RUNS),
            "session": Contender(in_session, RUNS),
            "cold": Contender(cold, SLOW_RUNS),
            "bare": Contender(bare, SLOW_RUNS),
        }
        times = await in_turns(contenders, pause=PAUSE_SECONDS)
        calls = [(await box.run(_CALLS, tools=[echo])).value for _ in range(9)]
    peers: dict[str, Figure] = {"podman run": figure(times["bare"])}
    return [
        Row("fresh run", "ms", figure(times["fresh"]), Target(p50=15), peers),
        Row("run in a session", "ms", figure(times["session"]), Target(p50=15), peers),
        Row("cold start to the first answer", "ms", figure(times["cold"]), Target(), peers),
        Row("tool call", "µs", figure(calls), Target(p50=300)),
    ]


def main() -> None:
    """Print the rows."""
    for row in asyncio.run(measure(sys.argv[1] if len(sys.argv) > 1 else "")):
        assert isinstance(row.ours, Figure)
        beside = "".join(f"; {name} {peer.p50:.0f}" for name, peer in row.peers.items() if isinstance(peer, Figure))
        missed = f"  missed: {', '.join(row.missed())}" if row.missed() else ""
        print(f"{row.measure:32} {row.ours.p50:9.2f} {row.unit} (p99 {row.ours.p99:.2f}){beside}{missed}")


if __name__ == "__main__":
    main()
