"""`RetryPolicy`: how many programs a coding agent may try; and `ErrorClass`, the classes of errors that it counts."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, Self

from actbox.config.documents import read_document
from actbox.core.errors import ErrorInfo, ErrorKind, InvalidValue
from actbox.core.result import ExecutionResult
from actbox.tools.problems import suggestion


class ErrorClass(StrEnum):
    """Why an attempt failed, by what a model can do about it. The first five are those of the specification."""

    SYNTAX_ERROR = "syntax_error"
    IMPORT_ERROR = "import_error"
    RUNTIME_ERROR = "runtime_error"
    TIMEOUT = "timeout"
    RESOURCE_EXHAUSTED = "resource_exhausted"
    POLICY = "policy"
    """The policy, a review or an approver has refused the program, or something that it did."""
    CHECK_FAILED = "check_failed"
    """The program ran, and its outcome did not pass the checks of the task."""
    NO_CODE = "no_code"
    """The model's reply had no program."""
    SANDBOX = "sandbox"
    """The sandbox itself failed: no program can mend that."""
    CANCELLED = "cancelled"
    """Somebody cancelled the run."""

    @property
    def in_specification(self) -> str:
        """The nearest of the five classes of the specification, for documents that know no other."""
        return self.value if self in _OF_SPECIFICATION else _NEAREST.get(self, ErrorClass.RUNTIME_ERROR).value


_OF_SPECIFICATION: Final = (
    ErrorClass.SYNTAX_ERROR,
    ErrorClass.IMPORT_ERROR,
    ErrorClass.RUNTIME_ERROR,
    ErrorClass.TIMEOUT,
    ErrorClass.RESOURCE_EXHAUSTED,
)
_NEAREST: Final = {ErrorClass.NO_CODE: ErrorClass.SYNTAX_ERROR}

CLASSES: Final[Mapping[ErrorKind, ErrorClass]] = MappingProxyType(
    {
        ErrorKind.SYNTAX: ErrorClass.SYNTAX_ERROR,
        ErrorKind.TYPE: ErrorClass.SYNTAX_ERROR,  # found before the program ran, and mended as easily
        ErrorKind.MISSING_DEPENDENCY: ErrorClass.IMPORT_ERROR,
        ErrorKind.RUNTIME: ErrorClass.RUNTIME_ERROR,
        ErrorKind.TOOL: ErrorClass.RUNTIME_ERROR,
        ErrorKind.EXIT: ErrorClass.RUNTIME_ERROR,
        ErrorKind.CRASH: ErrorClass.RUNTIME_ERROR,
        ErrorKind.NETWORK: ErrorClass.RUNTIME_ERROR,  # another program can do without the network
        ErrorKind.UNSUPPORTED: ErrorClass.RUNTIME_ERROR,  # and without what the engine lacks
        ErrorKind.PROTOCOL: ErrorClass.RUNTIME_ERROR,  # such as a program that wrote to all file descriptors
        ErrorKind.TIMEOUT: ErrorClass.TIMEOUT,
        ErrorKind.MEMORY: ErrorClass.RESOURCE_EXHAUSTED,
        ErrorKind.DISK: ErrorClass.RESOURCE_EXHAUSTED,
        ErrorKind.PROCESSES: ErrorClass.RESOURCE_EXHAUSTED,
        ErrorKind.OUTPUT_LIMIT: ErrorClass.RESOURCE_EXHAUSTED,
        ErrorKind.BUDGET: ErrorClass.RESOURCE_EXHAUSTED,
        ErrorKind.POLICY: ErrorClass.POLICY,
        ErrorKind.CANCELLED: ErrorClass.CANCELLED,
        ErrorKind.SANDBOX: ErrorClass.SANDBOX,
    }
)
"""The class of each kind of error."""

_NO_FURTHER: Final = (ErrorClass.POLICY, ErrorClass.SANDBOX)
"""The classes after which no program follows, unless `error_specific` names them."""

_FURTHER: Final[Mapping[str, int]] = {
    ErrorClass.IMPORT_ERROR: 2,
    ErrorClass.SYNTAX_ERROR: 2,
    ErrorClass.TIMEOUT: 1,
    ErrorClass.RESOURCE_EXHAUSTED: 0,
}


def class_of(failure: ErrorInfo | ErrorKind | ExecutionResult) -> ErrorClass | None:
    """Return the class of an error, or of a result; `None` for a result that succeeded."""
    if isinstance(failure, ExecutionResult):
        if failure.success:
            return None
        if failure.error is None:
            return ErrorClass.RUNTIME_ERROR
        failure = failure.error
    return CLASSES[failure.kind if isinstance(failure, ErrorInfo) else failure]


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a coding agent tries. The defaults are those of the specification's `retry-policy.yaml`.

    `max_attempts` is the most programs in all; a reply without a program counts as one. `attempt_backoff_ms` are the
    milliseconds to wait before each program, the first one included; the last holds for all further ones.

    `error_specific` bounds how many further programs follow errors of a class, as in `{"timeout": 1}`: 0 stops at once,
    1 at the second error of that class. Classes that it does not name have no bound of their own, except that nothing
    follows `policy` and `sandbox`. Nothing ever follows `cancelled`.

    `max_coding_turns` is the most calls of the model; `None` is no bound beyond `max_attempts`.

    Raises `InvalidValue`.
    """

    max_attempts: int = 3
    attempt_backoff_ms: Sequence[float] = (0, 100, 500)
    error_specific: Mapping[str, int] = field(default_factory=lambda: _FURTHER, hash=False)
    max_coding_turns: int | None = None

    def __post_init__(self) -> None:
        _check_count("max_attempts", self.max_attempts, 1)
        if self.max_coding_turns is not None:
            _check_count("max_coding_turns", self.max_coding_turns, 1)
        given: object = self.attempt_backoff_ms
        if not isinstance(given, Sequence) or isinstance(given, str | bytes) or not all(map(_is_delay, given)):
            raise InvalidValue(f"attempt_backoff_ms is a list of milliseconds such as [0, 100, 500], not {given!r}")
        object.__setattr__(self, "attempt_backoff_ms", tuple(given))
        object.__setattr__(self, "error_specific", MappingProxyType(_further(self.error_specific)))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Return the policy of a file, such as `retry-policy.yaml`; a missing key has its default.

        The file writes a class of errors as `timeout: {max_attempts: 1}`.
        Raises `InvalidValue`, which names the file, and `ActboxError` if PyYAML is missing.
        """
        file, document = read_document(path)
        try:
            for key in document:
                _check_known(key, cls.__dataclass_fields__, "key")
            return cls(**document)
        except InvalidValue as error:
            raise InvalidValue(f"{file}: {error}") from None

    def turns(self, made: int = 0) -> int:
        """Return how many calls of the model may be for programs, at least one, after `made` calls that planned."""
        most = self.max_attempts if self.max_coding_turns is None else self.max_coding_turns - made
        return max(1, min(self.max_attempts, most))

    def delay_ms(self, made: int) -> float:
        """Return how many milliseconds to wait before the next program if `made` attempts were made before it."""
        delays = self.attempt_backoff_ms
        return delays[min(made, len(delays) - 1)] if delays else 0

    def further(self, error_class: ErrorClass) -> int | None:
        """Return how many further programs may follow errors of a class; `None` for no bound of its own."""
        if error_class is ErrorClass.CANCELLED:
            return 0
        return self.error_specific.get(error_class, 0 if error_class in _NO_FURTHER else None)


def _further(given: object) -> dict[ErrorClass, int]:
    if not isinstance(given, Mapping):
        raise InvalidValue(f"error_specific names classes of errors, as in {{'timeout': 1}}, and is not {given!r}")
    found: dict[ErrorClass, int] = {}
    for name, bound in given.items():
        _check_known(name, ErrorClass, "class of errors")
        where = f"error_specific.{name}"
        if isinstance(bound, Mapping):
            for key in bound:
                _check_known(key, ("max_attempts",), f"key of {where}")
            where, bound = f"{where}.max_attempts", bound.get("max_attempts")
        _check_count(where, bound, 0)
        found[ErrorClass(name)] = bound
    return found


def _check_known(name: Any, known: Any, what: str) -> None:
    names = [str(one) for one in known]
    if name not in names:
        meant = suggestion(str(name), names)
        question = f"; did you mean {meant!r}?" if meant else f"; there are {', '.join(names)}"
        raise InvalidValue(f"{name!r} is no {what}{question}")


def _check_count(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidValue(f"{name} is a whole number from {least}, not {value!r}")


def _is_delay(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf
