"""`Refinement`: the policy of a loop that tries programs until one succeeds or trying further makes no sense.

    refinement = Refinement(RetryPolicy())
    loop = Loop(question, instructions, refinement.policy.turns(), after=refinement.after)

The driver waits `refinement.delay_ms` before each `Run`, and gives `on_observation` an `AttemptResult` as `outcome`. It
may give `on_reply` a `text` that says how to send a program, for replies without one.
There is no I/O here, and no clock.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from dataclasses import dataclass
from typing import Final, Literal

from actbox.codeact.loop import Continue, End, Step
from actbox.codeact.withholding import may_read, sentence_for_model
from actbox.core.counted import counted
from actbox.core.labels import Label
from actbox.core.result import EXIT_NOT_RUN, ExecutionResult

from .prompts import Failure, Prompt, refinement_prompt, summary_of
from .retry import ErrorClass, RetryPolicy, class_of

Ended = Literal["solved", "repetition", "attempts"]
"""Why a refinement ends a loop. It may also be the name of an `ErrorClass` after which no further program is tried;
the loop itself ends with `max_turns`, and a driver as it likes, such as with `budget`.
"""

_ADDRESS: Final = re.compile(r"\b0x[0-9a-fA-F]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptResult:
    """The outcome of an attempt as its driver observed it.

    `result` is `None` if the program was not run, because of `failed_checks`. These are sentences on the checks of the
    task that the attempt did not pass; without any, exit code 0 is success. `happened` are the lines of
    `EffectLog.happened`.
    """

    result: ExecutionResult | None = None
    failed_checks: tuple[str, ...] = ()
    happened: tuple[str, ...] = ()

    @property
    def error_class(self) -> ErrorClass | None:
        """The class of the error; `None` for success."""
        failed = None if self.result is None else class_of(self.result)
        if failed is None and (self.failed_checks or self.result is None):
            return ErrorClass.CHECK_FAILED
        return failed


class Refinement:
    """The policy of one loop: `after` decides after each attempt, which is a program or a reply without one.

    It ends with `solved`, whose answer is what `final_answer` was given, else the last expression's value; with
    `repetition` if a program failed that had failed before, or the same error came at the same place; with the class of
    an error after which no further program may follow (`RetryPolicy.further`); and with `attempts`. Else the model
    reads `prompt` about the attempt. Of results above the label `cleared` it reads a sentence in their place, and
    nothing from then on about calls and earlier attempts.
    """

    def __init__(
        self,
        policy: RetryPolicy | None = None,
        language: str = "python",
        *,
        cleared: Label | None = None,
        prompt: Prompt = refinement_prompt,
    ) -> None:
        self.policy = policy or RetryPolicy()
        self._language = language
        self._cleared = cleared
        self._prompt = prompt
        self._attempts = 0
        self._failed: Counter[ErrorClass] = Counter()
        self._seen: set[bytes] = set()
        self._tried: list[str] = []
        self._is_withheld = False

    @property
    def attempts(self) -> int:
        """The number of attempts so far."""
        return self._attempts

    @property
    def delay_ms(self) -> float:
        """The milliseconds that the driver waits before the next program."""
        return self.policy.delay_ms(self._attempts)

    def after(self, step: Step) -> Continue | End:
        """Return the decision after an attempt. Raises `TypeError` for a program without an `AttemptResult`."""
        self._attempts += 1
        if step.program is None:
            missing = AttemptResult(failed_checks=(step.text,) if step.text else ())
            return self._failure(ErrorClass.NO_CODE, step.reply.text, (), missing)
        attempt = step.outcome
        if not isinstance(attempt, AttemptResult):
            raise TypeError(f"the outcome of a program is an AttemptResult, not {attempt!r}")
        error_class = attempt.error_class
        if error_class is None:
            assert attempt.result is not None
            return End(step.answer if step.answered else attempt.result.value, "solved")
        return self._failure(error_class, step.program.code, step.program.dependencies, attempt)

    def _failure(
        self, error_class: ErrorClass, code: str, dependencies: tuple[str, ...], attempt: AttemptResult
    ) -> Continue | End:
        self._failed[error_class] += 1
        why = summary_of(error_class, attempt.result, attempt.failed_checks)
        end = self._end(error_class, code, dependencies, attempt, why)
        if end is not None:
            return end
        result = attempt.result
        is_readable = result is None or may_read(result, self._cleared)
        self._is_withheld |= not is_readable
        failure = Failure(
            number=self._attempts,
            most=self.policy.max_attempts,
            language=self._language,
            code=code,
            error_class=error_class if is_readable else None,
            result=result if is_readable or result is None else sentence_for_model(result, self._cleared),
            failed_checks=attempt.failed_checks if is_readable else (),
            happened=() if self._is_withheld else attempt.happened,
            tried=() if self._is_withheld else tuple(self._tried),
        )
        self._tried.append(why)
        return Continue(self._prompt(failure))

    def _end(
        self, error_class: ErrorClass, code: str, dependencies: tuple[str, ...], attempt: AttemptResult, why: str
    ) -> End | None:
        """Return the end of the loop after a failed attempt; `None` if it goes on."""
        further = self.policy.further(error_class)
        if further == 0:
            return End(None, error_class.value, f"no further program is tried after {why}")
        if self._is_seen("program", _without_blank_lines(code), *sorted(dependencies)):
            return End(None, "repetition", f"the model sent the same again, which fails: {why}")
        error = None if attempt.result is None else _error_with_place(attempt.result, code)
        if error is not None and self._is_seen("error", *error):
            return End(None, "repetition", f"the same error came at the same place again: {why}")
        if further is not None and self._failed[error_class] > further:
            return End(
                None,
                error_class.value,
                f"{counted(further, 'further program')} may follow an error of its class: {why}",
            )
        if self._attempts >= self.policy.max_attempts:
            several = f"all {self._attempts} attempts failed, the last one"
            return End(None, "attempts", f"{several if self._attempts > 1 else 'the only attempt failed'} with {why}")
        return None

    def _is_seen(self, *parts: str) -> bool:
        """Return True if these parts were given before, and remember them."""
        digest = hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).digest()
        is_seen = digest in self._seen
        self._seen.add(digest)
        return is_seen


def _without_blank_lines(code: str) -> str:
    return "\n".join(line.rstrip() for line in code.splitlines() if line.strip())


def _error_with_place(result: ExecutionResult, code: str) -> tuple[str, ...] | None:
    """Return the error of a result with its place, to be compared with another; `None` if nobody knows the place.

    The place is the text of the failing line, since its number changes with the lines above it. Errors of programs that
    never began are at the same place.
    """
    error = result.error
    if error is None:
        return None
    if error.line is None and result.exit_code != EXIT_NOT_RUN:
        return None
    lines = re.split(r"\r\n|\r|\n", code)
    place = ""
    if error.line is not None:
        place = " ".join(lines[error.line - 1].split()) if 0 < error.line <= len(lines) else str(error.line)
    return error.kind.value, error.type, _ADDRESS.sub("0x", error.message), place
