"""Tests what a sandbox really enforces, by running programs that try to exceed each limit.

Every trial is a small program in a sandbox with tiny limits, and every program is harmless: without any enforcement it
ends within seconds, having used at most half a GiB of memory, a few MiB of disk and forty processes. So trials may be
run anywhere, even on an engine that enforces nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from actbox.core.errors import ActboxError, ErrorKind
from actbox.core.limits import Limits
from actbox.core.policy import Policy
from actbox.core.program import Program
from actbox.core.result import ExecutionResult

from .contract import Sandbox

Verdict = Literal["holds", "does not hold", "unknown"]
OpenBox = Callable[[Policy], Sandbox]

# A sandbox that does not answer for this long has failed the trial. The longest program takes three seconds itself.
_TRIAL_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialReport:
    """The result of one trial. `limit` is a field of `Limits`, or the thing that a program is kept from.

    `what` says what was tried; `by` is the enforcer that the engine claims, empty for none; `detail` says what happened
    if the limit was not enforced. `seconds` is the trial's duration, including the sandbox's start and stop.
    """

    limit: str
    what: str
    verdict: Verdict
    by: str = ""
    detail: str = ""
    seconds: float = 0.0

    @property
    def enforced(self) -> str:
        """The result in words; the enforcer is named only if the trial has shown that the limit holds."""
        if self.verdict == "unknown":
            return "unknown"
        if self.verdict == "does not hold":
            return "not enforced"
        return f"enforced by {self.by}" if self.by else "holds"

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return {
            "limit": self.limit,
            "what": self.what,
            "verdict": self.verdict,
            "enforced": self.enforced,
            "by": self.by,
            "detail": self.detail,
            "seconds": round(self.seconds, 3),
        }


async def try_limits(open_box: OpenBox) -> list[TrialReport]:
    """Try to exceed each field of `Limits` once, each in its own sandbox, and report which ones are enforced."""
    return [await report_on(trial, open_box) for trial in LIMIT_TRIALS]


async def try_isolation(open_box: OpenBox) -> list[TrialReport]:
    """Try to reach the host's files, network, processes and mounts, and report which a program is kept from."""
    with host_to_reach_for() as inputs:
        return [await report_on(trial, open_box, inputs) for trial in ISOLATION_TRIALS]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One attempt to exceed a limit: a program, its limits, and a test of whether it succeeded.

    The program prints BEYOND when it succeeded, and DONE when it tried and was prevented. A program that prints neither
    must have been ended by the limit.
    """

    limit: str
    what: str
    code: str
    limits: Mapping[str, Any] = field(default_factory=dict)
    went_beyond: Callable[[ExecutionResult, list[int]], bool | None]
    """Returns whether the program succeeded; `None` if it could not even try, for lack of a processor."""


def says_beyond(result: ExecutionResult, _: list[int]) -> bool:
    """Return whether a program has printed that it succeeded."""
    return "BEYOND" in result.stdout


# If true, `time.process_time` is processor time; in WebAssembly it is wall time, and the host must measure.
_TELLS_PROCESSOR_TIME: Final = """\
import time
began, used = time.monotonic(), time.process_time()
time.sleep(0.1)
tells = time.process_time() - used < 0.05
began, used = time.monotonic(), time.process_time()"""


def _took_two_seconds(result: ExecutionResult, _: list[int]) -> bool | None:
    if "BEYOND" not in result.stdout:
        return False
    return True if result.usage.cpu_ms > 2000 else None


def _took_a_tenth(result: ExecutionResult, _: list[int]) -> bool:
    return "BEYOND" in result.stdout and result.usage.cpu_ms > 0.1 * result.usage.wall_ms


async def report_on(
    trial: Trial, open_box: OpenBox, inputs: Mapping[str, Any] | None = None, language: str = "python"
) -> TrialReport:
    """Run a trial in its own sandbox and return its report."""
    begun = time.perf_counter()
    claimed = ""
    verdict: Verdict = "unknown"
    detail = ""
    received: list[int] = []  # the length of each text that reached the host's tool

    def actbox_trial(text: str) -> int:
        """Take a text."""
        received.append(len(text))
        return len(text)

    try:
        async with asyncio.timeout(_TRIAL_SECONDS):
            policy = Policy(limits=Limits(**{"wall_seconds": 10.0, **trial.limits}))
            async with open_box(policy) as box:
                claimed = box.traits.enforced.get(trial.limit, "")
                result = await box.run(Program(trial.code, language, inputs=inputs or {}), tools=[actbox_trial])
        verdict, detail = _judge(trial, result, received)
    except ActboxError as error:
        detail = str(error)
    except TimeoutError:
        verdict, detail = "does not hold", f"the sandbox was not done after {_TRIAL_SECONDS:g} seconds"
    return TrialReport(
        limit=trial.limit,
        what=trial.what,
        verdict=verdict,
        by=claimed,
        detail=detail,
        seconds=time.perf_counter() - begun,
    )


def _judge(trial: Trial, result: ExecutionResult, received: list[int]) -> tuple[Verdict, str]:
    went_beyond = trial.went_beyond(result, received)
    if went_beyond:
        return "does not hold", "the program went beyond"
    if went_beyond is None:
        return "unknown", f"the program had only {result.usage.cpu_ms:.0f} ms of a processor"
    error = result.error
    if (
        "DONE" in result.stdout
        or "BEYOND" in result.stdout
        or (error is not None and (error.limit == trial.limit or error.kind is ErrorKind.POLICY))
    ):
        return "holds", ""
    if error is not None and error.kind is ErrorKind.UNSUPPORTED:
        # A program that the language cannot express reaches nothing, but that does not show that a limit is enforced.
        return "unknown" if trial.limit in Limits().to_dict() else "holds", "it cannot be said in the engine's language"
    # It ended for some other reason, so nothing is known.
    return "unknown", f"{error.kind.value}: {error.type} {error.message}" if error else "the program said nothing"


LIMIT_TRIALS = (
    Trial(
        limit="wall_seconds",
        what="sleep 2 s, 0.5 allowed",
        limits={"wall_seconds": 0.5},
        code="import time\ntime.sleep(2)\nprint('BEYOND')",
        went_beyond=says_beyond,
    ),
    Trial(
        limit="cpu_seconds",
        what="compute 3 s, 1 allowed",
        limits={"cpu_seconds": 1},
        code=f"""\
{_TELLS_PROCESSOR_TIME}
while (time.process_time() - used < 3 if tells else time.monotonic() - began < 8): pass
print('BEYOND')
""",
        went_beyond=_took_two_seconds,
    ),
    Trial(
        limit="cpus",
        what="compute 0.3 s, 0.05 a second allowed",
        limits={"cpus": 0.05},
        # So small a share that a busy machine, which gives a program little time, is not mistaken for enforcement.
        code=f"""\
{_TELLS_PROCESSOR_TIME}
while not (tells and time.process_time() - used >= 0.3) and time.monotonic() - began < 4: pass
share = (time.process_time() - used) / (time.monotonic() - began)
print('BEYOND' if share > 0.1 else 'DONE')
""",
        went_beyond=_took_a_tenth,
    ),
    Trial(
        limit="memory_mib",
        what="fill 512 MiB, 256 allowed",
        limits={"memory_mib": 256},
        code="filled = b'x' * (512 * 2**20)\nprint('BEYOND')",
        went_beyond=says_beyond,
    ),
    Trial(
        limit="memory_mib",
        what="the same in four processes",
        limits={"memory_mib": 256},
        code="""\
import os, signal
children = []
for _ in range(4):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        filled = b'x' * (128 * 2**20)
        os.write(writer, b'x')
        signal.pause()
    os.close(writer)
    children.append((child, reader))
filled = sum(len(os.read(reader, 1)) for _, reader in children)
for child, _ in children:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
print('BEYOND' if filled == 4 else 'DONE')
""",
        went_beyond=says_beyond,
    ),
    Trial(
        limit="processes",
        what="keep 40 alive, 16 allowed",
        limits={"processes": 16},
        code="""\
import os, signal
children = []
try:
    for _ in range(40):
        child = os.fork()
        if child == 0:
            signal.pause()
        children.append(child)
    print('BEYOND')
finally:
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
""",
        went_beyond=says_beyond,
    ),
    Trial(
        limit="open_files",
        what="open 80 at once, 40 allowed",
        limits={"open_files": 40},
        # A file object without a descriptor would not count against the system's limit.
        code="held = [open('trial', 'w') for _ in range(80)]\nheld[-1].fileno()\nprint('BEYOND')",
        went_beyond=says_beyond,
    ),
    Trial(
        limit="file_mib",
        what="write 3 MiB, 1 allowed",
        limits={"file_mib": 1},
        code="""\
with open('trial', 'wb') as file:
    file.write(b'x' * (3 * 2**20))
print('BEYOND')
""",
        went_beyond=says_beyond,
    ),
    Trial(
        limit="workspace_mib",
        what="write 12 MiB, 4 allowed",
        limits={"workspace_mib": 4},
        code="""\
for number in range(4):
    with open(f'trial-{number}', 'wb') as file:
        file.write(b'x' * (3 * 2**20))
print('BEYOND')
""",
        went_beyond=says_beyond,
    ),
    Trial(
        limit="disk_mib",
        what="write 10 MiB to several places, 4 allowed",
        limits={"disk_mib": 4},
        code="""\
written = 0
for place in ['/dev/shm', '/tmp', '/workspace', '/workspace/output', '.']:
    try:
        with open(f'{place}/trial-{written}', 'wb') as file:
            file.write(b'x' * (2 * 2**20))
        written += 2
    except OSError:
        pass
print('BEYOND' if written > 4 else 'DONE')
""",
        went_beyond=says_beyond,
    ),
    Trial(
        limit="output_bytes",
        what="print 1 MB, 10 kB allowed",
        limits={"output_bytes": 10_000},
        code="for _ in range(100): print('x' * 9_999, flush=True)",
        went_beyond=lambda result, _: len(result.stdout.encode()) > 10_000,
    ),
    Trial(
        limit="tool_calls",
        what="call 8 times, 3 allowed",
        limits={"tool_calls": 3},
        code="for _ in range(8): actbox_trial('x')",
        went_beyond=lambda _, received: len(received) > 3,
    ),
    Trial(
        limit="tool_bytes",
        what="send 80 kB in 8 calls, 30 allowed",
        limits={"tool_bytes": 30_000},
        code="for _ in range(8): actbox_trial('x' * 10_000)",
        went_beyond=lambda _, received: sum(received) > 30_000,
    ),
    Trial(
        limit="message_bytes",
        what="send 400 kB, 100 allowed",
        limits={"message_bytes": 100_000},
        code="try: actbox_trial('x' * 400_000)\nexcept Exception: print('DONE')",
        went_beyond=lambda _, received: bool(received),
    ),
    Trial(
        limit="artifacts",
        what="leave 8, 3 allowed",
        limits={"artifacts": 3},
        code="for number in range(8): open(f'output/{number}', 'w').write('x')\nprint('DONE')",
        went_beyond=lambda result, _: len(result.artifacts) > 3,
    ),
    Trial(
        limit="artifact_mib",
        what="leave 3 MiB, 1 allowed",
        limits={"artifact_mib": 1},
        code="for number in range(4): open(f'output/{number}', 'w').write('x' * 750 * 1024)\nprint('DONE')",
        went_beyond=lambda result, _: sum(artifact.size for artifact in result.artifacts) > 2**20,
    ),
)

ISOLATION_TRIALS = (
    Trial(
        limit="host files",
        what="read a file of this user",
        code="""\
try:
    with open(host_file) as file: print('BEYOND' if file.read() else 'DONE')
except OSError: print('DONE')
""",
        went_beyond=says_beyond,
    ),
    Trial(
        limit="host network",
        what="connect to a host port",
        code="""\
import socket
try:
    with socket.create_connection(('127.0.0.1', host_port), 2): print('BEYOND')
except OSError: print('DONE')
""",
        went_beyond=says_beyond,
    ),
    Trial(
        limit="host processes",
        what="see the process outside",
        # Inside, its number may be another process's: only the start time identifies it.
        code="""\
import os
try:
    os.kill(host_process, 0)
    started = ''
    if host_started:
        with open(f'/proc/{host_process}/stat') as file: started = file.read().rpartition(')')[2].split()[19]
    print('BEYOND' if started == host_started else 'DONE')
except (OSError, AttributeError): print('DONE')  # where nothing can be signalled, os lacks the call
""",
        went_beyond=says_beyond,
    ),
    Trial(
        limit="host mounts",
        what="mount a file system",
        # The type does not exist: the kernel checks the permission first, so nothing is ever mounted.
        code="""\
try:
    import ctypes, errno
    libc = ctypes.CDLL(None, use_errno=True)
    may = libc.mount(b'none', b'/', b'actbox-trial', 0, None) == 0 or ctypes.get_errno() == errno.ENODEV
    print('BEYOND' if may else 'DONE')
except ImportError: print('DONE')  # where no library of the system can be called
""",
        went_beyond=says_beyond,
    ),
)


@contextlib.contextmanager
def host_to_reach_for() -> Iterator[Mapping[str, Any]]:
    """Set up targets for the isolation trials for a block, and yield the values that tell a program where they are."""
    with (
        tempfile.NamedTemporaryFile("w", prefix="actbox-trial-") as file,
        socket.create_server(("127.0.0.1", 0)) as server,
    ):
        file.write("of the host")
        file.flush()
        yield {
            "host_file": file.name,
            "host_port": server.getsockname()[1],
            "host_process": os.getpid(),
            "host_started": _started(),
        }


def _started() -> str:
    """Return this process's start time in the kernel's units; empty if the kernel does not tell."""
    try:
        return Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    except FileNotFoundError:
        return ""
