"""What a coding agent adds to the runs of its programs, and what several candidates at once take. No model is asked."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from effort import Effort
from figures import Figure, Row, Target, figure, single
from processes import GUEST, named, private_mib
from stopwatch import PAUSE_SECONDS, Action, in_pairs

import actbox
from actbox.codeact.blocks import fenced, program_in
from actbox.codeact.model import Message, ModelReply, ScriptedModel, SystemMessage, ToolSpec, UserMessage
from actbox.codegen import CodingAgent, Outcome, RetryPolicy, Task
from actbox.tools import Tool

MOST_ADDED_MS = 10.0
MOST_TIMES = 1.3
BEST_OF = 8

_GOAL = "What is 1 + 1?"
_RIGHT = "print(1 + 1)\n2"
_WRONG = ("one + 1", "1 + 'one'")
_MIB = 100
_ROWS = _MIB * 2**20 // 80
_LOAD = f"import numpy, pandas, time\nframe = pandas.DataFrame(numpy.random.rand({_ROWS}, 10))\nlen(frame)"
_WAITING = "time.sleep(1)\nlen(frame)"
_WRITTEN_MIB = 10
_MEETING = f"written = b'x' * ({{mib}} * 2**20)\nmeet({_ROWS} - len(frame))\nlen(frame)"
_MOST_WAITED = 60.0
_WARM_UP = 5


async def measure(effort: Effort) -> list[Row]:
    """Measure attempts beside bare runs of their programs, then candidates from copies of a session."""
    async with actbox.open_sandbox("linux") as box:
        rows = []
        for manner, pause in (
            (f"by a model that takes {PAUSE_SECONDS * 1000:.0f} ms", PAUSE_SECONDS),
            ("by a model that takes no time", 0.0),
        ):
            rows += await _attempts(box, (_RIGHT,), manner, pause, effort.slow)
            rows += await _attempts(box, (*_WRONG, _RIGHT), manner, pause, effort.slow)
        async with box.session(forkable=True) as origin:
            assert (await origin.run(_LOAD)).value == _ROWS
            rows.append(await _candidates(box, origin, effort.repeats))
            rows += await _memory(box, origin, effort.repeats)
        return rows


# One attempt after the other


class _Model(ScriptedModel):
    """A scripted model that takes its time, and adds it up."""

    def __init__(self, programs: Sequence[str], pause: float = 0.0) -> None:
        super().__init__([ModelReply(fenced(program, "python")) for program in programs])
        self._pause = pause
        self.seconds = 0.0

    async def complete(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> ModelReply:
        """Return the next reply."""
        start = time.perf_counter()
        if self._pause:
            await asyncio.sleep(self._pause)
        self.seconds += time.perf_counter() - start
        return await super().complete(messages, tools)


Way = Callable[[_Model], Awaitable[object]]


async def _attempts(box: actbox.Sandbox, programs: Sequence[str], manner: str, pause: float, samples: int) -> list[Row]:
    """Return what an attempt takes without the model, and what it adds to a bare run of the same program.

    The agent runs each program in a workspace of its own, as `box.run_alone` does and `box.run` does not.
    """
    count = len(programs)

    async def by_agent(model: _Model) -> object:
        outcome = await CodingAgent(model, box, retry=RetryPolicy(attempt_backoff_ms=())).solve(_GOAL)
        _check(outcome, 2, count)
        return outcome.answer

    def by_loop(run: Callable[[str], Awaitable[actbox.ExecutionResult]]) -> Way:
        return lambda model: _plain_loop(model, run)

    ways: dict[str, Way] = {
        "ours": by_agent,
        "a plain loop over box.run": by_loop(box.run),
        "a plain loop over box.run_alone": by_loop(box.run_alone),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(_WARM_UP + samples):
        for name in sorted(ways, reverse=number % 2 == 0):
            model = _Model(programs, pause)
            start = time.perf_counter()
            assert await ways[name](model) == 2
            taken = time.perf_counter() - start - model.seconds
            if number >= _WARM_UP:
                times[name].append(taken * 1000 / count)
    tried = "an attempt of a coding agent" if count == 1 else f"each of {count} attempts of a coding agent"
    peers = {name: figure(found) for name, found in times.items() if name != "ours"}
    return [
        Row(f"{tried}, {manner}", "ms", figure(times["ours"]), peers=peers),
        *(
            Row(f"what it adds to {name}", "ms", single(_difference(times["ours"], times[name]), samples), bound)
            for name, bound in zip(peers, (Target(p50=MOST_ADDED_MS), Target()), strict=True)
        ),
    ]


def _difference(ours: Sequence[float], others: Sequence[float]) -> float:
    return statistics.median(mine - other for mine, other in zip(ours, others, strict=True))


async def _plain_loop(model: _Model, run: Callable[[str], Awaitable[actbox.ExecutionResult]]) -> object:
    """Return the value of the first program that succeeds: the loop that one writes without an agent."""
    messages: list[Message] = [SystemMessage("Answer with a Python program."), UserMessage(_GOAL)]
    while True:
        reply = await model.complete(messages, ())
        result = await run(program_in(reply.text) or "")
        if result.success:
            return result.value
        assert result.error is not None
        messages.append(UserMessage(f"It failed with {result.error.type}: {result.error.message}"))


# Candidates at once


async def _candidates(box: actbox.Sandbox, origin: actbox.Session, samples: int) -> Row:
    """Return the seconds of several waiting candidates, beside those of one and of bare copies of the session."""

    def solving(best_of: int) -> Action:
        async def action() -> None:
            await _solve(box, origin, _WAITING, best_of)

        return action

    async def branches() -> None:
        async with origin.branches(BEST_OF) as copies:
            results = await copies.run([_WAITING] * BEST_OF)
        assert [result.value for result in results] == [_ROWS] * BEST_OF

    pairs = await in_pairs(solving(BEST_OF), solving(1), samples, pause=PAUSE_SECONDS)
    bare = []
    for _ in range(samples):
        start = time.perf_counter()
        await branches()
        bare.append(time.perf_counter() - start)
    ours, one = (figure(taken / 1000 for taken in times) for times in zip(*pairs, strict=True))
    peers: dict[str, Figure] = {"one attempt": one, f"session.branches({BEST_OF})": figure(bare)}
    measured = f"best of {BEST_OF} from a session with a {_MIB} MiB DataFrame, programs that wait a second"
    return Row(measured, "s", ours, Target(ratios={"one attempt": 1 / MOST_TIMES}), peers)


async def _memory(box: actbox.Sandbox, origin: actbox.Session, samples: int) -> list[Row]:
    """Return the private memory of each candidate, when all have written and none has ended."""
    idle = figure([each for _ in range(samples) for each in await _private(box, origin, 0)])
    writing = figure([each for _ in range(samples) for each in await _private(box, origin, _WRITTEN_MIB)])
    name = f"private memory of each of {BEST_OF} candidates from such a session"
    added = single(writing.p50 - idle.p50, writing.samples)
    return [
        Row(f"{name}, each writes nothing", "MiB", idle),
        Row(f"{name}, each writes {_WRITTEN_MIB} MiB", "MiB", writing),
        Row(f"what {_WRITTEN_MIB} MiB written add to it", "MiB", added, Target(p50=1.1 * _WRITTEN_MIB)),
    ]


async def _private(box: actbox.Sandbox, origin: actbox.Session, mib: int) -> list[float]:
    """Return the private memory of each candidate's guest, while all of them wait in a tool."""
    known, found = set(named(GUEST)), list[float]()
    arrived, measured = 0, asyncio.Event()

    async def meet(difference: int) -> None:
        """Wait until all candidates have come."""
        nonlocal arrived
        assert difference == 0
        arrived += 1
        if arrived == BEST_OF:
            await asyncio.sleep(0.05)  # the last one is to wait, too
            memory = [private_mib(guest) for guest in named(GUEST) if guest not in known]
            found.extend(sorted(memory)[-BEST_OF:])  # a guest that waits for a program of others has less
            measured.set()
        await asyncio.wait_for(measured.wait(), _MOST_WAITED)

    await _solve(box, origin, _MEETING.format(mib=mib), BEST_OF, meet)
    return found


async def _solve(
    box: actbox.Sandbox, origin: actbox.Session, program: str, best_of: int, meet: Callable[..., Any] | None = None
) -> None:
    tools = [] if meet is None else [Tool.from_function(meet, retry_safe=True)]
    agent = CodingAgent(_Model([program] * best_of), box, tools=tools)
    outcome = await agent.solve(Task("How long is the table?", best_of=best_of), session=origin)
    _check(outcome, _ROWS, best_of)
    assert outcome.session is not None
    await outcome.session.close()


def _check(outcome: Outcome, answer: object, attempts: int) -> None:
    if not outcome.solved or outcome.answer != answer or len(outcome.attempts) != attempts:
        raise RuntimeError(f"the agent ended with {outcome.stopped} {outcome.reason}: {outcome.attempts}")
