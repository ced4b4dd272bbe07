"""Helpers with which the tests of `CodeActRunner` run programs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import actbox
from actbox import ErrorKind, Policy, Sandbox
from actbox.codeact import CodeActConfig, CodeActOutcome, CodeActRunner, FrozenRun


def opens(engine: str) -> Callable[[Policy], Sandbox]:
    return lambda policy: actbox.open_sandbox(engine, policy=policy, allow_unisolated=True)


class Opener:
    """A function that opens sandboxes and keeps a list of them for inspection."""

    def __init__(self, engine: str) -> None:
        self.engine = engine
        self.opened: list[Sandbox] = []

    def __call__(self, policy: Policy) -> Sandbox:
        self.opened.append(actbox.open_sandbox(self.engine, policy=policy, allow_unisolated=True))
        return self.opened[-1]


def frozen(**given: Any) -> FrozenRun:
    return CodeActConfig(**given).freeze()


async def did(runner: CodeActRunner, run: FrozenRun, code: Any, **given: Any) -> CodeActOutcome:
    outcome = await runner.execute(run, {"code": code}, **given)
    assert isinstance(outcome, CodeActOutcome)
    return outcome


def kind_of(outcome: CodeActOutcome) -> ErrorKind | None:
    return outcome.result.error.kind if outcome.result.error is not None else None


def in_threads(count: int, work: Callable[[int], Any]) -> list[Any]:
    """Call a function in threads at once; return what they returned, in order."""
    found: dict[int, Any] = {}

    def call(number: int) -> None:
        try:
            found[number] = work(number)
        except BaseException as error:
            found[number] = error

    threads = [threading.Thread(target=call, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return [found.get(number) for number in range(count)]
