"""The handlers by which a coding agent carries out `delegate.coding_agent` and `code.refined_execute`.

    registry = standard_registry(coding_agent=writing(agent), refining_agent=refining(agent), …)

The invocation's budget bounds the agent, every token and run is charged to it, and the journal has all attempts.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from actbox.capabilities.budgets import Account, Budget
from actbox.capabilities.delegation import CodingHandler
from actbox.capabilities.execution import OUTPUT_TYPES, output_of
from actbox.capabilities.input_roots import InputLabels, InputRoot, input_files
from actbox.capabilities.invocation import Invocation, canonical
from actbox.capabilities.outcome import StepFailed
from actbox.core.errors import InvalidValue
from actbox.core.labels import Label
from actbox.core.result import ExecutionResult
from actbox.sandbox.blocking import run_blocking

from .coding_agent import CodingAgent, last_outcome
from .endings import finishing
from .outcome import Attempt, AttemptFinished, AttemptStarted, CodingEvent, Outcome
from .task import InputFile, Task

_REQUEST: Final = ("task", "language", "inputs", "outputs", "constraints", "profile", "context", "examples")
_RESPONSE: Final = ("explanation", "tests", "entry_point", "input_parsing", "output_format", "estimated_runtime_ms")


def writing(agent: CodingAgent) -> CodingHandler:
    """Return the handler that has an agent write a program, which is not run, for `delegate.coding_agent`."""

    async def handler(call: Invocation) -> Mapping[str, Any]:
        outcome = await _outcome_of(agent, call, call.labels, {}, runs=False)
        if outcome.stopped != "returned":
            why = f"no program was written ({outcome.stopped}): {outcome.reason}".rstrip(": ")
            raise StepFailed("exceeded" if outcome.stopped == "budget" else "failed", "run", why)
        return _response(outcome)

    return handler


def refining(
    agent: CodingAgent,
    *,
    input_roots: InputLabels | Iterable[str | os.PathLike[str]] = (),
    output_types: Iterable[str] = OUTPUT_TYPES,
) -> CodingHandler:
    """Return the handler that has an agent write and correct a program until it works, for `code.refined_execute`.

    `input_roots` are the directories of the host below which `input_files` may lie, with the labels of their files, and
    `output_types` the extensions of the output files that are returned, both as in `standard_registry`.

    The input's `max_attempts` and `timeout_ms` only lower what the agent has. `image` and `max_memory_mb` are those of
    its sandbox, so an input that names another one is refused.
    """
    roots, types = InputRoot.all_of(input_roots), tuple(output_types)

    async def handler(call: Invocation) -> Mapping[str, Any]:
        given, label = call.input, call.labels
        if unknown := [name for name in ("image", "max_memory_mb") if given.get(name)]:
            why = f"{' and '.join(unknown)}: the coding agent's sandbox is open already; leave it out"
            raise StepFailed("invalid", "validate_input", why)
        wanted = given.get("input_files") or {}
        read = await run_blocking(input_files, call, wanted, roots) if wanted else {}
        files = {name: InputFile(data, call.labels) for name, data in read.items()}
        outcome = await _outcome_of(agent, call, label, files, runs=True)
        ran = next((one.result for one in reversed(outcome.attempts) if one.result is not None), None)
        said = output_of(call, ran or ExecutionResult(exit_code=1), types)
        if not outcome.solved:
            said.setdefault("error", f"{outcome.stopped}: {outcome.reason}".rstrip(": "))
        attempts = [_attempt(one) for one in outcome.attempts]
        return {**_response(outcome), **said, "success": outcome.solved, "attempts": attempts}

    return handler


def _task(call: Invocation, label: Label, files: Mapping[str, InputFile]) -> Task:
    request = {name: call.input[name] for name in _REQUEST if name in call.input}
    task = Task.of(request, files, label=label)
    if (most := call.input.get("timeout_ms")) is not None:
        bounds = task.constraints
        least = most if bounds.timeout_ms is None else min(most, bounds.timeout_ms)
        task = replace(task, constraints=replace(bounds, timeout_ms=least))
    return task


async def _outcome_of(
    agent: CodingAgent, call: Invocation, label: Label, files: Mapping[str, InputFile], *, runs: bool
) -> Outcome:
    """Return the outcome of the task that an invocation asks for, whose words have a label.

    However this ends, the invocation was charged with all that the agent has used, and keeps its attempts.
    """
    account, cancel = _account(agent, call), asyncio.Event()
    try:
        stream = agent.stream(
            _task(call, label, files),
            budget=account,
            cancel=cancel,
            runs=runs,
            max_attempts=call.input.get("max_attempts"),
            cleared=call.egress_max if call.cleared is None else call.cleared,
        )
        counts_calls = account.left_of("tool_calls") is not None
        return await finishing(_follow(stream, call, counts_calls), cancel)
    except InvalidValue as error:
        raise StepFailed("invalid", "validate_input", str(error)) from None
    finally:
        call.count(steps=1)
        call.include(account)
        if not call.account.draws_on(agent.account):
            agent.account.charge(account.used)


async def _follow(stream: AsyncGenerator[CodingEvent], call: Invocation, counts_calls: bool) -> Outcome:
    """Return the outcome of an agent's work, which the invocation keeps, and of which it tells as it happens."""

    def tell(event: CodingEvent) -> None:
        if isinstance(event, AttemptStarted):
            call.event(f"attempt {event.number}", "begun")
        elif isinstance(event, AttemptFinished):
            attempt, said = event.attempt, event.attempt.error_class
            call.event(f"attempt {attempt.number}", "failed" if said else "done", said.value if said else "")

    outcome = await last_outcome(stream, tell)
    _keep(call, outcome, counts_calls)
    return outcome


def _keep(call: Invocation, outcome: Outcome, counts_calls: bool) -> None:
    """Take over all that is known of the work: attempts for the journal, its labels, engine, tokens and warnings."""
    call.kept["attempts"] = canonical([_kept(one) for one in outcome.attempts])
    call.raise_label(outcome.label)
    for result in (one.result for one in outcome.attempts if one.result is not None):
        call.engine = result.sandbox or call.engine
        call.environment = result.environment or call.environment
        call.meter.received_bytes += result.usage.received_bytes
        call.warnings += result.warnings
    call.warnings += outcome.notes
    if not counts_calls:
        call.count(tool_calls=outcome.usage.tool_calls)
    for model, tokens in outcome.usage.by_model.items():
        call.meter.add_tokens(model, input=tokens.input_tokens, output=tokens.output_tokens, cached=0)
    call.meter.paid.update(outcome.usage.usd_by_model)


def _account(agent: CodingAgent, call: Invocation) -> Account:
    """Return the account for one task: below the invocation's, with no more than the agent has left."""
    left = call.account.left.amounts()
    lower = {name: min(amount, left.get(name, amount)) for name, amount in agent.account.left.amounts().items()}
    return Account(Budget(**lower), call.account)  # type: ignore[arg-type]  # numbers by their dimension


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


def _attempt(attempt: Attempt) -> dict[str, Any]:
    result, error = attempt.result, {}
    if attempt.error_class is not None:
        error = {"error": "; ".join(attempt.problems), "error_type": attempt.error_class.in_specification}
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
