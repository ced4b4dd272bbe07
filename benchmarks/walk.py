"""The walk of a run through the code: calls of actbox's functions, the files they lie in, and changes of file.

A reader who follows a run in a debugger makes the same walk. Generators and coroutines count each time that they go on.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType

import actbox

_ROOT = str(Path(actbox.__file__).parent)
_TIMES = 6


@dataclass(frozen=True)
class Walk:
    """Counts of one walk, and the calls in their order."""

    calls: tuple[CodeType, ...]

    @property
    def files(self) -> int:
        return len({code.co_filename for code in self.calls})

    @property
    def changes(self) -> int:
        pairs = zip(self.calls, self.calls[1:], strict=False)
        return sum(before.co_filename != after.co_filename for before, after in pairs)

    def __str__(self) -> str:
        return f"{len(self.calls)} calls, {self.files} files, {self.changes} changes of file"


async def walk_of(action: Callable[[], Awaitable[object]]) -> Walk:
    """Return the shortest of a few walks of `action`: guests are born beside it, in one walk or another."""
    walks = [await _walk_once(action) for _ in range(_TIMES)]
    return min(walks[1:], key=lambda walk: len(walk.calls))


async def _walk_once(action: Callable[[], Awaitable[object]]) -> Walk:
    calls: list[CodeType] = []

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(_ROOT):
            calls.append(frame.f_code)

    sys.setprofile(note)
    try:
        await action()
    finally:
        sys.setprofile(None)
    await asyncio.sleep(0.1)
    return Walk(tuple(calls))


async def plain_run() -> Walk:
    async with actbox.open_sandbox("linux") as box:
        return await walk_of(lambda: box.run("1+1"))


async def run_with_tool() -> Walk:
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    async with actbox.open_sandbox("linux") as box:
        return await walk_of(lambda: box.run("await add(1, 1)", tools=[add]))


async def agent_framework_program() -> Walk:
    sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "agent_framework"))
    from agent_framework import Agent
    from scripted import ScriptedChatClient, program

    from actbox.integrations.agent_framework import LinuxCodeActProvider

    client = ScriptedChatClient(*[program("1+1"), "done"] * _TIMES)
    async with LinuxCodeActProvider() as codeact:
        agent = Agent(client=client, context_providers=[codeact])
        return await walk_of(lambda: agent.run("How much is it?"))


WALKS = {"run": plain_run, "run with one tool": run_with_tool, "Agent Framework program": agent_framework_program}


def main() -> None:
    """Print a line for each walk; with `--list` also each call, with `--files` the calls in each file."""
    for name, walk in WALKS.items():
        counted = asyncio.run(walk())
        print(f"{name}: {counted}")
        if "--list" in sys.argv:
            for code in counted.calls:
                print(f"  {_name(code)}:{code.co_firstlineno} {code.co_qualname}")
        if "--files" in sys.argv:
            for name, calls in Counter(map(_name, counted.calls)).most_common():
                print(f"  {calls:4} {name}")


def _name(code: CodeType) -> str:
    return code.co_filename.removeprefix(_ROOT)[1:]


if __name__ == "__main__":
    main()
