"""A program that says itself that it failed is told where the kernel had taken one of its processes for memory."""

from __future__ import annotations

import errno

import pytest

from actbox import ErrorInfo, ErrorKind, Limits
from actbox.sandbox.channel.messages import Done
from actbox.sandbox.engines.linux.child import Child
from actbox.sandbox.run_end import Ending, Stop, verdict

LIMITS = Limits(memory_mib=64)


def _done(exit_code: int, error: ErrorInfo | None) -> Done:
    return Done(
        exit_code=exit_code,
        error=error,
        value=None,
        value_text=None,
        forms={},
        cpu_ms=1.0,
        max_rss_bytes=0,
        alone=True,
    )


def told(kind: ErrorKind, limit: str) -> ErrorInfo:
    done = _done(1, ErrorInfo(kind=kind, type="Error", message="Command failed", line=3))
    code, error = verdict(None, Ending(limit=limit), done, LIMITS)
    assert code == 1 and error is not None
    return error


@pytest.mark.parametrize("kind", [ErrorKind.RUNTIME, ErrorKind.EXIT])
def test_the_program_and_the_cause_are_both_told(kind: ErrorKind) -> None:
    error = told(kind, "memory_mib")
    assert (error.kind, error.limit, error.line, error.type) == (ErrorKind.MEMORY, "memory_mib", 3, "Error")
    assert error.message == "the program used more than 64 MiB of memory: Command failed"
    assert "read in chunks" in error.hint


@pytest.mark.parametrize(("kind", "limit"), [(ErrorKind.SYNTAX, "memory_mib"), (ErrorKind.RUNTIME, "processes")])
def test_other_failures_keep_their_own_words(kind: ErrorKind, limit: str) -> None:
    error = told(kind, limit)
    assert (error.kind, error.limit, error.message) == (kind, "", "Command failed")


def test_a_group_that_was_removed_meanwhile_had_said_what_there_was() -> None:
    class Gone:
        def limit_reached(self) -> str:
            raise OSError(errno.ENODEV, "No such device")

    child = Child.__new__(Child)
    child._group = Gone()  # type: ignore[assignment]
    child._limit = "memory_mib"
    assert child.limit_reached() == "memory_mib"


def test_a_program_that_did_without_the_child_has_succeeded() -> None:
    assert verdict(None, Ending(limit="memory_mib"), _done(0, None), LIMITS) == (0, None)


@pytest.mark.parametrize(("limit", "kind"), [("processes", ErrorKind.PROCESSES), ("memory_mib", ErrorKind.MEMORY)])
def test_a_program_that_waited_for_what_it_was_refused_until_its_time_was_up_is_told_of_that(
    limit: str, kind: ErrorKind
) -> None:
    _, error = verdict(
        Stop(ErrorKind.TIMEOUT, "the program was stopped after 1 second"), Ending(limit=limit), None, LIMITS
    )
    assert error is not None
    assert (error.kind, error.limit) == (kind, limit)
