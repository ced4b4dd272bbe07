"""Solving an exercise with a coding agent, and the record of it: the one place that knows `CodingAgent`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from actbox import Sandbox, Tool
from actbox.codeact.blocks import fenced
from actbox.codeact.model import ChatModel, Message, ModelReply, ScriptedModel, TokenUsage, ToolSpec
from actbox.codegen import CodingAgent, RetryPolicy, Task
from actbox.codegen.protocol import response_of

from .exercise import Case, Exercise, run_alone
from .record import Record

ATTEMPTS = 3


class ObservedModel:
    """A chat model that asks another one, and keeps the form of each reply, the tokens and the time."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model
        self.forms: list[str] = []
        self.usage = TokenUsage()
        self.seconds = 0.0

    @property
    def name(self) -> str:
        """The name of the model that is asked."""
        return self._model.name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], *more: Any, **named: Any
    ) -> ModelReply:
        """Return the model's reply."""
        start = time.perf_counter()
        try:
            reply = await self._model.complete(messages, tools, *more, **named)
        finally:
            self.seconds += time.perf_counter() - start
        self.forms.append(response_of(reply).form)
        self.usage += reply.usage
        return reply


async def solve_scripted(exercise: Exercise, box: Sandbox, *, seed: int) -> Record:
    """Solve an exercise with a scripted model, which gives the wrong program first if there is one.

    Before that, the same programs run without an agent, for comparison: twice, since the first time is slower.
    """
    programs = [program for program in (exercise.wrong, exercise.right) if program]
    for _ in range(2):
        start = time.perf_counter()
        for program in programs:
            await run_alone(program, exercise.case(seed), box)
        plain = time.perf_counter() - start
    model = ScriptedModel([fenced(program, "python") for program in programs])
    return await solve(exercise, model, box, seed=seed, plain_seconds=plain)


async def solve(
    exercise: Exercise,
    model: ChatModel,
    box: Sandbox,
    *,
    seed: int,
    attempts: int = ATTEMPTS,
    plain_seconds: float | None = None,
) -> Record:
    """Solve an exercise, and try the program with other data if it passes. Exceptions are in the record."""
    observed = ObservedModel(model)
    start = time.perf_counter()
    outcome, failure, holds = None, "", None
    try:
        outcome = await _solve(exercise, exercise.case(seed), observed, box, attempts)
    except Exception as error:  # one provider's fault must not lose the other records
        failure = f"{type(error).__name__}: {error}"[:500]
    seconds = time.perf_counter() - start
    if outcome is not None and outcome.solved and exercise.wrong:  # else another seed makes no other data
        again = ScriptedModel([fenced(outcome.code, "python")])
        holds = (await _solve(exercise, exercise.case(seed + 1), again, box, 1)).solved
    return Record(
        name=exercise.name,
        group=exercise.group,
        solved=outcome is not None and outcome.solved,
        holds=holds,
        stopped="" if outcome is None else str(outcome.stopped),
        attempts=() if outcome is None else tuple(str(each.error_class or "") for each in outcome.attempts),
        forms=tuple(observed.forms),
        input_tokens=observed.usage.input_tokens,
        output_tokens=observed.usage.output_tokens,
        seconds=seconds,
        model_seconds=observed.seconds,
        plain_seconds=plain_seconds,
        failure=failure,
    )


async def _solve(exercise: Exercise, case: Case, model: ChatModel, box: Sandbox, attempts: int) -> Any:
    retry = RetryPolicy(max_attempts=attempts, attempt_backoff_ms=())
    lookups = [Tool.from_function(function, retry_safe=True) for function in case.lookups]
    agent = CodingAgent(model, box, retry=retry, tools=[*lookups, *case.actions])
    outputs, checks = tuple(case.files), (case.check_in(box),)
    return await agent.solve(Task(exercise.goal, inputs=case.inputs, outputs=outputs, checks=checks))
