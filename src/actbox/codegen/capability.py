"""The handlers by which a coding agent carries out `delegate.coding_agent` and `code.refined_execute`.

    registry = standard_registry(coding_agent=writing(agent), refining_agent=refining(agent), …)

The invocation's budget bounds the agent, every token and run is charged to it, and the journal has all attempts.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import Any, Final

from actbox.capabilities.budgets import Account, BudgetExceeded
from actbox.capabilities.delegation import CodingAgent as Handler
from actbox.capabilities.execution import OUTPUT_TYPES, output_of
from actbox.capabilities.input_roots import InputLabels, InputRoot, input_files
from actbox.capabilities.invocation import Invocation, canonical
from actbox.core.errors import ActboxError
from actbox.core.result import ExecutionResult
from actbox.sandbox.blocking import run_blocking

from .coding_agent import CodingAgent
from .outcome import Attempt, AttemptFinished, AttemptStarted, Finished, Outcome
from .task import InputFile, Task

_REQUEST: Final = ("task", "language", "inputs", "outputs", "constraints", "profile", "context", "examples")
_RESPONSE: Final = ("explanation", "tests", "entry_point", "input_parsing", "output_format", "estimated_runtime_ms")


def writing(agent: CodingAgent) -> Handler:
    """Return the handler that has an agent write a program, which is not run, for `delegate.coding_agent`."""

    async def handler(call: Invocation) -> Mapping[str, Any]:
        outcome = await _outcome_of(agent, _task(call, {}), call, runs=False)
        if outcome.stopped != "returned":
            raise ActboxError(f"no program was written ({outcome.stopped}): {outcome.reason}".rstrip(": "))
        return _response(outcome)

    return handler


def refining(
    agent: CodingAgent,
    *,
    input_roots: InputLabels | Iterable[str | os.PathLike[str]] = (),
    output_types: Iterable[str] = OUTPUT_TYPES,
) -> Handler:
    """Return the handler that has an agent write and correct a program until it works, for `code.refined_execute`.

    `input_roots` are the directories of the host below which `input_files` may lie, and `output_types` the extensions
    of the output files that are returned, both as in `standard_registry`.

    The input's `max_attempts` and `timeout_ms` only lower what the agent has. `image` and `max_memory_mb` are those of
    its sandbox, so an input that names another one is refused.
    """
    roots, types = InputRoot.all_of(input_roots), tuple(output_types)

    async def handler(call: Invocation) -> Mapping[str, Any]:
        given = call.input
        if unknown := [name for name in ("image", "max_memory_mb") if given.get(name)]:
            raise ActboxError(f"{' and '.join(unknown)}: the coding agent's sandbox is open already; leave it out")
        wanted = given.get("input_files") or {}
        files = await run_blocking(input_files, call, wanted, roots) if wanted else {}
        task = _task(call, {name: InputFile(data, call.labels) for name, data in files.items()})
        outcome = await _outcome_of(agent, task, call, runs=True)
        ran = next((one.result for one in reversed(outcome.attempts) if one.result is not None), None)
        if outcome.solved and outcome.last is not None:
            ran = outcome.last.result
        if ran is None:
            ran = ExecutionResult(exit_code=1)
        said = output_of(call, ran, types)
        if not outcome.solved:
            said.setdefault("error", f"{outcome.stopped}: {outcome.reason}")
        return {**_response(outcome), **said, "success": outcome.solved, "attempts": _attempts(outcome)}

    return handler


def _task(call: Invocation, files: Mapping[str, InputFile]) -> Task:
    request = {name: call.input[name] for name in _REQUEST if name in call.input}
    task = Task.of(request, files, label=call.labels)
    if (most := call.input.get("timeout_ms")) is not None:
        bounds = task.constraints
        least = most if bounds.timeout_ms is None else min(most, bounds.timeout_ms)
        task = replace(task, constraints=replace(bounds, timeout_ms=least))
    return task


async def _outcome_of(agent: CodingAgent, task: Task, call: Invocation, *, runs: bool) -> Outcome:
    """Return the outcome of a task, after the invocation was charged with all of it."""
    account = Account(call.account.left)  # the invocation itself is charged below
    attempts = call.input.get("max_attempts")
    stream = agent.stream(task, budget=account, runs=runs, max_attempts=attempts)
    async with aclosing(stream) as events:
        async for event in events:
            if isinstance(event, AttemptStarted):
                call.event(f"attempt {event.number}", "begun")
            elif isinstance(event, AttemptFinished):
                one = event.attempt
                said = "" if one.error_class is None else one.error_class.value
                call.event(f"attempt {one.number}", "failed" if said else "done", said)
                if one.result is not None:
                    call.ran(one.result)
            elif isinstance(event, Finished):
                outcome = event.outcome
    call.raise_label(outcome.label)
    call.kept["attempts"] = canonical([_kept(one) for one in outcome.attempts])
    call.warnings += outcome.notes
    for model, tokens in outcome.usage.by_model.items():
        with suppress(BudgetExceeded):  # it is counted, and the next invocation is refused
            call.charge_tokens(model, input=tokens.input_tokens, output=tokens.output_tokens)
    return outcome


def _response(outcome: Outcome) -> dict[str, Any]:
    last = outcome.last
    if last is None:
        return {"code": "", "language": "", "dependencies": [], "explanation": outcome.reason}
    response = last.response.model_dump(mode="json")
    more = {name: response[name] for name in _RESPONSE if response[name] not in ("", None)}
    return {
        "code": last.code,
        "language": last.language,
        "dependencies": list(last.response.dependencies),
        "explanation": "",
        **more,
    }


def _attempts(outcome: Outcome) -> list[dict[str, Any]]:
    return [_attempt(one) for one in outcome.attempts]


def _attempt(attempt: Attempt) -> dict[str, Any]:
    result, error = attempt.result, {}
    if attempt.error_class is not None:
        said = "" if result is None or result.error is None else f"{result.error.type}: {result.error.message}"
        failed = () if attempt.checks is None else attempt.checks.sentences
        about = said or "; ".join(failed) or "; ".join(attempt.response.noted) or attempt.error_class.value
        error = {"error": about, "error_type": attempt.error_class.in_specification}
    exit_code = 1 if result is None else result.exit_code
    return {
        "code": attempt.code,
        "dependencies": list(attempt.response.dependencies),
        "exit_code": exit_code,
        **error,
    }


def _kept(attempt: Attempt) -> dict[str, Any]:
    """Return what the journal keeps of an attempt."""
    tokens = attempt.tokens
    more = {
        "number": attempt.number,
        "candidate": attempt.candidate,
        "model": attempt.model,
        "language": attempt.language,
        "class": None if attempt.error_class is None else attempt.error_class.value,
        "tokens": {"input": tokens.input_tokens, "output": tokens.output_tokens},
        "held_back": list(attempt.held_back),
    }
    return {**_attempt(attempt), **more}
