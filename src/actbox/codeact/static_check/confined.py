"""A type checker's process: no environment of ours, limits, and an end for certain."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
from collections.abc import Sequence
from pathlib import Path

from .failed import CheckerFailed

MEMORY_BYTES = 2 * 2**30
"""Data that the process may have; address space is not limited, of which node reserves much and uses little."""
CPU_SECONDS = 30
OUTPUT_BYTES = 8 * 2**20
FOLDER = "{folder}"
"""What stands in a command for the folder of the check."""

__all__ = ["CheckerFailed", "run_confined"]


async def run_confined(command: Sequence[str], folder: Path) -> str:
    """Run a checker in `folder`/project and return what it printed; it is killed with its children when this ends.

    Raises `CheckerFailed` where it ended by a signal, by an exit code other than 0 and 1, or printed too much.
    """
    output = folder / "output"
    with output.open("wb") as stdout, (folder / "errors").open("wb") as stderr:
        try:
            process = await asyncio.create_subprocess_exec(
                *(part.replace(FOLDER, str(folder)) for part in command),
                cwd=folder / "project",
                env={
                    "HOME": str(folder),
                    "TMPDIR": str(folder),
                    "XDG_CONFIG_HOME": str(folder),
                    "XDG_CACHE_HOME": str(folder),
                    "LC_ALL": "C.UTF-8",
                    "PATH": "",
                    "RAYON_NUM_THREADS": "1",
                    "TY_MAX_PARALLELISM": "1",
                },
                stdin=asyncio.subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
        except OSError as error:
            raise CheckerFailed(f"the type checker did not start: {error}") from error
    try:
        _limit(process.pid)
        code = await process.wait()
    finally:
        # Also when it has ended by itself: as long as a child of its lives, no other group gets its number.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        if process.returncode is None:
            await process.wait()
    if code not in (0, 1):
        raise CheckerFailed(f"the type checker ended by {_ending(code)}{_last_words(folder / 'errors')}")
    if output.stat().st_size >= OUTPUT_BYTES:
        raise CheckerFailed("the type checker printed too much")
    return output.read_text("utf-8", errors="replace")


def _limit(pid: int) -> None:
    limits = {
        resource.RLIMIT_DATA: MEMORY_BYTES,
        resource.RLIMIT_FSIZE: OUTPUT_BYTES,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_CPU: CPU_SECONDS,
    }
    with contextlib.suppress(ProcessLookupError):  # it has ended already
        for kind, limit in limits.items():
            hard = resource.prlimit(pid, kind)[1]
            value = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
            resource.prlimit(pid, kind, (value, value))


def _ending(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    return signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"


def _last_words(errors: Path) -> str:
    with errors.open("rb") as file:
        words = file.read(4096).decode("utf-8", errors="replace").split("\n")
    said = next((line.strip() for line in reversed(words) if line.strip()), "")
    return f": {said[:200]}" if said else ""
