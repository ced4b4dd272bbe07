"""Tests what keeps an RTFS program within its limits, by running programs that try to exceed them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from actbox.core.errors import ActboxError
from actbox.core.limits import Limits
from actbox.core.policy import Policy
from actbox.core.program import Program
from actbox.core.result import ExecutionResult

from .trial import OpenBox, TrialReport, Verdict

_TRIAL_SECONDS: Final = 30.0

# The errors of a program that uses something that the language, or the run, does not have.
_NOTHING: Final = ("UndefinedSymbol", "UnknownCapability", "SecurityViolation")


async def try_rtfs_limits(open_box: OpenBox) -> list[TrialReport]:
    """Try to exceed each field of `Limits` once, each in its own sandbox, and report which ones are enforced."""
    return [await _report(trial, open_box) for trial in _LIMIT_TRIALS]


async def try_rtfs_isolation(open_box: OpenBox) -> list[TrialReport]:
    """Try to reach the host, and report what a program is kept from."""
    return [await _report(trial, open_box) for trial in _ISOLATION_TRIALS]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trial:
    """One attempt. `ends` are the limits that the error may name; if empty, the error must be that nothing exists."""

    limit: str
    what: str
    code: str
    limits: Mapping[str, Any] = field(default_factory=dict)
    ends: tuple[str, ...] = ()


async def _report(trial: _Trial, open_box: OpenBox) -> TrialReport:
    begun = time.perf_counter()
    verdict: Verdict = "unknown"
    claimed = detail = ""

    def actbox_trial(text: str) -> str:
        """Give a text back."""
        return text

    try:
        async with asyncio.timeout(_TRIAL_SECONDS):
            policy = Policy(limits=Limits(**{"wall_seconds": 10.0, **trial.limits}))
            async with open_box(policy) as box:
                claimed = box.traits.enforced.get(trial.limit, "")
                result = await box.run(Program(trial.code, language="rtfs"), tools=[actbox_trial])
        verdict, detail = _judge(trial, result)
    except ActboxError as error:
        detail = str(error)
    except TimeoutError:
        verdict, detail = "does not hold", f"the sandbox was not done after {_TRIAL_SECONDS:g} seconds"
    seconds = time.perf_counter() - begun
    return TrialReport(limit=trial.limit, what=trial.what, verdict=verdict, by=claimed, detail=detail, seconds=seconds)


def _judge(trial: _Trial, result: ExecutionResult) -> tuple[Verdict, str]:
    error = result.error
    if error is None:
        return "does not hold", "the program went beyond"
    if error.limit in trial.ends if trial.ends else error.type in _NOTHING:
        return "holds", ""
    return "unknown", f"{error.kind.value}: {error.type} {error.message}"


_ENDLESS = "(defn forever [n] (forever (+ n 1))) (forever 0)"
_DOUBLED = "(defn doubled [s n] (if (= n 0) s (doubled (str s s) (- n 1)))) "

_LIMIT_TRIALS = (
    _Trial(
        limit="wall_seconds",
        what="call itself for ever, 0.1 s allowed",
        code=_ENDLESS,
        limits={"wall_seconds": 0.1},
        ends=("wall_seconds",),
    ),
    _Trial(
        limit="cpu_seconds",
        what="call itself for ever, as many steps as 0.1 s allowed",
        code=_ENDLESS,
        limits={"cpu_seconds": 0.1},
        ends=("steps",),
    ),
    _Trial(limit="cpus", what="begin something beside itself", code="(future (fn [] 1))"),
    _Trial(
        limit="memory_mib",
        what="keep 8 MiB of numbers, 4 allowed",
        code="".join(f"(def v{n} (range 0 20000))" for n in range(14)),
        limits={"memory_mib": 4},
        ends=("memory_bytes", "memory_mib"),
    ),
    _Trial(limit="processes", what="start a process", code='(sh "ls")'),
    _Trial(limit="open_files", what="open a file", code='(open "/etc/passwd")'),
    _Trial(limit="file_mib", what="write a file", code='(spit "large" "text")'),
    _Trial(limit="workspace_mib", what="write to the workspace", code='(call :write_file "/workspace/x" "text")'),
    _Trial(limit="disk_mib", what="write elsewhere", code='(call :write_file "/tmp/x" "text")'),
    _Trial(limit="output_bytes", what="print", code='(println "text")'),
    _Trial(
        limit="tool_calls",
        what="make 4 calls, 3 allowed",
        code='(map (fn [n] (try (call :actbox_trial "x") (catch e nil))) [1 2 3 4])',
        limits={"tool_calls": 3},
        ends=("tool_calls",),
    ),
    _Trial(
        limit="tool_bytes",
        what="send 64 KiB to a tool, 30 kB allowed",
        code=_DOUBLED + '(call :actbox_trial (doubled "x" 16))',
        limits={"tool_bytes": 30_000},
        ends=("tool_bytes",),
    ),
    _Trial(
        limit="message_bytes",
        what="make a text of 1 MiB, 100 kB allowed",
        code=_DOUBLED + '(doubled "x" 20)',
        limits={"message_bytes": 100_000},
        ends=("value_bytes",),
    ),
    _Trial(limit="artifacts", what="leave a file", code='(spit "/output/a" "text")'),
    _Trial(limit="artifact_mib", what="leave a large file", code='(call :write_file "/output/a" "text")'),
)

_ISOLATION_TRIALS = (
    _Trial(limit="host files", what="read a file of the host", code='(slurp "/etc/passwd")'),
    _Trial(limit="host network", what="open a connection", code='(call :http_get "http://localhost")'),
    _Trial(limit="host processes", what="list processes", code="(processes)"),
    _Trial(limit="host secrets", what="read a variable of the environment", code='(getenv "PATH")'),
    _Trial(limit="host clock", what="ask what time it is", code="(now)"),
)
