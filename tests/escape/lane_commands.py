"""Attempts against lanes by commands: of those pid 1 tells the host the end, so a lane may go on whatever processes ran."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from actbox import Policy
from tests.escape.attempt import Verdict, escaped_if, unproven
from tests.escape.ground import Ground
from tests.escape.lanes import GROUP, RESIDUE, WORD, lane_is_ready, search, with_a_lane
from tests.escape.program import source_of, verdict_of

_SEES_PROCESSES = (
    "names = os.listdir('/proc')\nverdict(any(n.isdigit() and int(n) not in (1, os.getpid()) for n in names), names)"
)

_RESIDUE_OF_COMMANDS: dict[str, tuple[list[str], str]] = {
    "leave a process, as a command": (
        ["bash", "-c", "setsid sleep 60 < /dev/null > /dev/null 2>&1 &"],
        _SEES_PROCESSES,
    ),
    "leave processes that hand on from one to the next, as a command": (
        ["bash", "-c", "on() { on & }\non > /dev/null 2>&1"],
        _SEES_PROCESSES,
    ),
    "shift the numbers of processes, as a command": (
        ["bash", "-c", "for n in 1 2 3 4 5 6 7 8 9; do /bin/true; done"],
        "verdict(os.getpid() != 2, os.getpid())",
    ),
    "leave files in /tmp and in shared memory, as a command": (
        ["bash", "-c", "mkdir /tmp/left && touch /dev/shm/left && chmod 700 /tmp"],
        "seen = os.listdir('/tmp') + os.listdir('/dev/shm')\nverdict(bool(seen), seen)",
    ),
    "leave a local socket by a name that is no file, as a command": (
        ["{python}", "-c", RESIDUE["leave a local socket by a name that is no file"][0]],
        RESIDUE["leave a local socket by a name that is no file"][1],
    ),
    "leave its arguments in memory, as a command": (["bash", "-c", f"sleep 0.2; : {WORD}"], search(WORD)),
}


def _leaves_as_command(what: str, command: list[str], look: str) -> None:
    @GROUP.function(what)
    async def _(ground: Ground) -> Verdict:
        box = await with_a_lane(ground)
        python = (await box.run("import sys\nsys.executable")).value
        for _ in range(2):
            await lane_is_ready(box)
            left = await box.execute([str(python) if part == "{python}" else part for part in command], timeout=20)
            if not left.success:
                return unproven([left.error, left.stderr])
            await lane_is_ready(box)
            seen = verdict_of(await box.run(source_of(look, ground.things), timeout=20))
            if seen.outcome.value != "stopped":
                return seen
        return seen


for _what, (_command, _look) in _RESIDUE_OF_COMMANDS.items():
    _leaves_as_command(_what, _command, _look)


@GROUP.function("come to its end at each instant of the handover, as a command and as a program that poses as one")
async def _(ground: Ground) -> Verdict:
    box = await with_a_lane(ground)
    wrong: list[Any] = []
    for instant in range(16):
        left = f"(sleep {instant % 4 * 0.001}; {('true', 'kill -15 $$', 'kill -9 $$', 'echo')[instant // 4]}) &"
        code = (0, 3, 231)[instant % 3]
        ended = await box.execute(["bash", "-c", f"{left if instant % 2 else ''}\nexit {code}"], timeout=5)
        if ended.exit_code not in (code, 137, 143):
            wrong.append([instant, ended.exit_code, ended.error])
        await lane_is_ready(box)
        posing = await box.run(f"import os\nif os.fork() == 0:\n    while True: pass\nos._exit({code})", timeout=5)
        if posing.value is not None:
            wrong.append([instant, posing.value])
        await lane_is_ready(box)
        after = await box.run("import os\n[os.getpid(), sorted(n for n in os.listdir('/proc') if n.isdigit())]")
        if after.value != [2, ["2"]]:
            wrong.append([instant, after.value, after.error])
    return escaped_if(bool(wrong), wrong)


# Of the limit of memory only the order: what the interpreter has taken before is added to it.
_LIMITS = (
    "import json, os, resource, sys\n"
    "names = [name for name in dir(resource) if name.startswith('RLIMIT_')]\n"
    "limits = {name: list(resource.getrlimit(getattr(resource, name))) for name in names}\n"
    "limits['RLIMIT_DATA'] = [most // 2**28 for most in limits['RLIMIT_DATA']]\n"
    "seen = [limits, dict(os.environ), os.umask(0o022)]\n"
)


@GROUP.function("have other limits, variables or directories of modules, as a guest that was told of them ahead")
async def _(ground: Ground) -> Verdict:
    box = await with_a_lane(ground, Policy(variables={"MINE": "x", "PYTHONPATH": "lib"}))
    look = _LIMITS + "[*seen, sys.path]"
    told_late = (await box.run_alone(look)).value
    seen = []
    for seconds in (0, 0.05):  # in the second the guest goes to sleep, and is woken before the program comes
        await lane_is_ready(box)
        await asyncio.sleep(seconds)
        seen.append((await box.run(look)).value)
    await lane_is_ready(box)
    python = (await box.run("import sys\nsys.executable")).value
    await lane_is_ready(box)
    command = await box.execute([str(python), "-c", _LIMITS + "print(json.dumps(seen))"])
    await lane_is_ready(box)
    async with box.session() as session:
        seen.append((await session.run(look)).value)
    if not told_late or not command.success:
        return unproven([told_late, command.error])
    differs = [one for one in seen if one != told_late]
    as_command = json.loads(command.stdout)
    return escaped_if(bool(differs) or as_command != told_late[:3], [told_late, differs, as_command])
