"""`Outcome`: what came of a task, with all its attempts; and the events while a coding agent works on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Any

from actbox.codeact.model import TokenUsage
from actbox.core.events import Event
from actbox.core.labels import Label
from actbox.core.result import Artifact, ExecutionResult
from actbox.core.values import CannotCross, pack
from actbox.sandbox.contract import Session

from .acceptance import Acceptance
from .conformance import output_schema
from .decision import Decision, Intent
from .dependencies import requirements_txt
from .programs import layout_of
from .response import CodingResponse, suffix_of
from .retry import ErrorClass


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """An attempt at a task: a program with what came of it, or a reply without one.

    `number` counts from 1 in each candidate. `code` is the program as its author wrote it, "" for a reply without one;
    files stand below each other. `result` is `None` if nothing ran, or not to its end. `error_class` is `None` for
    success. `checks` is the verdict on a program that ran to its end, `None` for others. `cost` is that of the reply in
    US dollars, 0 if nobody knows the price; `model` is who gave it, `tokens` are its tokens, and `model_ms` the
    milliseconds until it came.

    `held_back` are the calls with effects that the program would have made: a candidate that was not chosen did not
    make them, so nobody knows what it would have come to.
    """

    number: int
    candidate: int = 1
    model: str = ""
    response: CodingResponse
    result: ExecutionResult | None = None
    error_class: ErrorClass | None = None
    checks: Acceptance | None = None
    tokens: TokenUsage = field(default_factory=TokenUsage)
    cost: float = 0.0
    model_ms: float = 0.0
    held_back: tuple[str, ...] = ()

    @property
    def code(self) -> str:
        """The program, "" if the model sent none."""
        return self.response.source if self.response.has_program else ""

    @property
    def language(self) -> str:
        """The program's language."""
        return self.response.language

    @property
    def explanation(self) -> str:
        """The model's words about the program, else how its reply was read."""
        return self.response.explanation or "; ".join(self.response.noted)

    @property
    def problems(self) -> tuple[str, ...]:
        """Sentences on why the attempt failed: the error of its run, or its failed checks. Empty for success."""
        if self.error_class is None:
            return ()
        if self.result is not None and (error := self.result.error) is not None:
            return (f"{error.type}: {error.message}" if error.type else error.message,)
        failed = () if self.checks is None else self.checks.sentences
        return failed or self.response.noted or (self.error_class.value.replace("_", " "),)

    def to_dict(self) -> dict[str, Any]:
        """Return the attempt as plain JSON data."""
        checks = () if self.checks is None else self.checks.outcomes
        return {
            "number": self.number,
            "candidate": self.candidate,
            "model": self.model,
            "code": self.code,
            "language": self.language,
            "dependencies": list(self.response.dependencies),
            "explanation": self.explanation,
            "error_class": None if self.error_class is None else self.error_class.value,
            "problems": list(self.problems),
            "result": None if self.result is None else self.result.to_dict(),
            "checks": [
                {"name": one.name, "passed": one.passed, "weight": one.weight, "message": one.message} for one in checks
            ],
            "tokens": asdict(self.tokens),
            "cost": self.cost,
            "model_ms": self.model_ms,
            "held_back": list(self.held_back),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CodingUsage:
    """The cost of a task. `usd` is what the models cost in US dollars, `None` if a price is unknown.

    `usd_by_model` has the models whose price is known.
    """

    by_model: Mapping[str, TokenUsage] = field(default_factory=dict)
    usd_by_model: Mapping[str, Decimal] = field(default_factory=dict)
    model_calls: int = 0
    runs: int = 0
    tool_calls: int = 0
    usd: float | None = None
    wall_ms: float = 0.0

    @property
    def tokens(self) -> TokenUsage:
        """The tokens of all models together."""
        return sum(self.by_model.values(), TokenUsage())


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of a task.

    `stopped` says why the agent stopped, and `reason` more about it, or is empty:

    * `solved`: a program ran and passed its checks. `answer` is what it gave `final_answer`, else the value of its last
      expression, and `artifacts` are the files that it wrote. Both are empty otherwise.
    * `attempts`, `max_turns`: all programs, or all calls of the model, that `RetryPolicy` allows were used.
    * `repetition`: the model sent the same program again, or the same error came at the same place.
    * the name of an `ErrorClass`: no further program may follow an error of that class.
    * `budget`: it is used up. `cancelled`: `cancel` was set, or the sandbox was stopped during a run. `sandbox`: it
      failed. `model`: the model failed, and `failure` is its exception.
    * `returned`: no engine here runs the language, so the program was not run.

    `attempts` are all of them, in the order in which they ended. `candidate` is the number of the candidate that was
    chosen. `decision` says who wrote the program and why, and `intent` what the model understood, if it was asked.
    `notes` are sentences on what was not done as asked. `label` is the join of all that the attempts have read.
    `session` is the copy of the caller's session in which the program of a solved task ran; close it.
    """

    solved: bool
    stopped: str
    reason: str = ""
    answer: Any = None
    artifacts: tuple[Artifact, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    candidate: int = 1
    usage: CodingUsage = field(default_factory=CodingUsage)
    decision: Decision | None = None
    intent: Intent | None = None
    notes: tuple[str, ...] = ()
    label: Label = field(default_factory=Label)
    happened: tuple[str, ...] = ()
    """Lines on the calls and requests with effects that the attempts made outside the sandbox."""
    failure: BaseException | None = None
    session: Session | None = None

    @property
    def last(self) -> Attempt | None:
        """The last attempt of the chosen candidate that has a program: the one that solved the task if it is solved."""
        own = (one for one in reversed(self.attempts) if one.candidate == self.candidate and one.code)
        return next(own, None)

    @property
    def code(self) -> str:
        """The program of the last attempt, "" without one."""
        return "" if self.last is None else self.last.code

    @property
    def requirements(self) -> str:
        """The text of a `requirements.txt` for the program, "" if it needs no packages."""
        return "" if self.last is None else requirements_txt(self.last.response)

    @property
    def output_schema(self) -> Mapping[str, Any]:
        """The schema of what came out, inferred from the run: `value` as JSON Schema, `files` by type, `prints`."""
        last = self.last
        return {} if last is None or last.result is None else output_schema(last.result, self.answer)

    @property
    def files(self) -> tuple[Artifact, ...]:
        """The files that `save` writes: the program, its `requirements.txt`, and those that came out.

        A file that came out never takes the place of one of the program: it then lies below `output`.
        """
        if self.last is None:
            return self.artifacts
        layout = layout_of(self.last.response)
        name = layout.name.replace("program.py", f"program{suffix_of(self.last.language or 'python')}")
        texts = {**layout.others, name: layout.source, "requirements.txt": self.requirements}
        own = [Artifact(name, text.encode()) for name, text in texts.items() if text]
        return (*own, *(_beside(artifact, [one.name for one in own]) for artifact in self.artifacts))

    def save(self, folder: str | Path) -> tuple[Path, ...]:
        """Write the program, its `requirements.txt` and the files that came out into a directory; return their paths.

        A file of the same name is replaced. Raises `OSError`.
        """
        return tuple(dict.fromkeys(file.save(folder) for file in self.files))

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as plain JSON data, with all attempts and the content of all files."""
        usage = asdict(self.usage)
        del usage["usd_by_model"]
        return {
            "solved": self.solved,
            "stopped": self.stopped,
            "reason": self.reason,
            "answer": _packed(self.answer),
            "artifacts": [artifact.to_dict() for artifact in self.artifacts],
            "attempts": [attempt.to_dict() for attempt in self.attempts],
            "candidate": self.candidate,
            "usage": usage,
            "decision": None
            if self.decision is None
            else {**asdict(self.decision), "reasons": [*self.decision.reasons]},
            "requirements": self.requirements,
            "notes": list(self.notes),
            "happened": list(self.happened),
            "label": str(self.label),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The event that it is decided who writes the program, and in which language."""

    decision: Decision
    intent: Intent | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The event that the model is asked for a program. `usd` is what the task has cost so far, `None` if unknown."""

    candidate: int
    turn: int
    usd: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStarted:
    """The event that a program is about to run. `explanation` are the model's words about it."""

    candidate: int
    number: int
    code: str
    language: str
    explanation: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEvent:
    """An event of a running program, as `Sandbox.stream` yields it."""

    candidate: int
    number: int
    event: Event


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFinished:
    """The event that an attempt has ended, and its checks too."""

    attempt: Attempt
    usd: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The event that one of several candidates was chosen."""

    candidate: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The last event."""

    outcome: Outcome


CodingEvent = Planned | Asked | AttemptStarted | AttemptEvent | AttemptFinished | Chosen | Finished


def _beside(artifact: Artifact, names: Sequence[str]) -> Artifact:
    """Return a file that came out, below `output` if it would take the place of one of these names."""
    given = PurePosixPath(artifact.name.casefold())
    taken = (PurePosixPath(name.casefold()) for name in names)
    is_taken = any(given.is_relative_to(one) or one.is_relative_to(given) for one in taken)
    return replace(artifact, name=f"output/{artifact.name}") if is_taken else artifact


def _packed(answer: Any) -> Any:
    """Return an answer in the tagged form, and one of the host's own, which cannot cross, as its `repr`."""
    try:
        return pack(answer)
    except CannotCross:
        return repr(answer)
