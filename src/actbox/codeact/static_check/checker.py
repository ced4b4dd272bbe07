"""The type checker ty in a process of its own: its command, its limits, and its findings."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import json
import os
import re
import resource
import signal
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from actbox.core.errors import Unsupported
from actbox.sandbox.cancellation import whole

MEMORY_BYTES = 2 * 2**30
"""The most bytes of data that the process may allocate."""
CPU_SECONDS = 30
OUTPUT_BYTES = 8 * 2**20
PROGRAM = "program.py"
REVEALED = "revealed-type"
"""The rule of findings that answer `reveal_type`: their message is a type."""
_OLDEST = (0, 0, 105)
_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
_SURROUNDINGS = {
    "ty.toml": "",  # this file ends ty's search for settings in the directories above
    # An environment without packages: the host's packages are not the program's.
    "../environment/pyvenv.cfg": f"home = /usr/bin\nversion = {_VERSION}.0\n",
    f"../environment/lib/python{_VERSION}/site-packages/empty.pth": "",
}

Span = tuple[int, int, int, int]
"""The place of a node: line and column of its start, then of its end; from 1, columns in characters."""


class CheckerFailed(Exception):
    """The type checker failed to report its findings; the message says why."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding of ty: the id of its rule, its place, and its message, of which the first line is for a reader."""

    rule: str
    span: Span
    message: str


def check_available() -> None:
    """Raise `Unsupported` if ty is not installed, saying how to install it."""
    command(())


def command(rules: Iterable[str]) -> list[str]:
    """Return the command that checks `PROGRAM` by these rules alone. Raises `Unsupported` if ty is not installed."""
    try:
        version = importlib.metadata.version("ty")
        from ty import find_ty_bin

        binary = find_ty_bin()
    except (ImportError, FileNotFoundError) as error:
        raise Unsupported("the type checker ty is not installed: install actbox[typecheck]") from error
    if tuple(int(number) for number in re.findall(r"\d+", version)[:3]) < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        raise Unsupported(f"the type checker ty {version} has other rules than {oldest}: install actbox[typecheck]")
    return [
        *(str(binary), "check", "--project", ".", "--python", "../environment", "--python-version", _VERSION),
        *("--python-platform", "linux", "--output-format", "gitlab", "--color", "never", "--no-progress"),
        *("--no-respect-ignore-files", "--ignore", "all", *(part for rule in rules for part in ("--error", rule))),
        PROGRAM,
    ]


async def findings_in(program: str, files: Mapping[str, str], rules: Iterable[str]) -> list[Finding]:
    """Return ty's findings in a program by these rules, and the types that it reveals; `files` are stubs beside the
    program.

    Raises `CheckerFailed`, and `Unsupported` if ty is missing. Cancelling ends ty.
    """
    called = await asyncio.to_thread(command, rules)
    with tempfile.TemporaryDirectory(prefix="actbox-check-") as name:
        folder = Path(name)
        for path, text in {**_SURROUNDINGS, **files, PROGRAM: program}.items():
            place = folder / "project" / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(text.encode())
        output = await _output(called, folder)
    return _read(output, {REVEALED, *rules})


def _read(output: str, rules: set[str]) -> list[Finding]:
    found: list[Finding] = []
    try:
        items = json.loads(output)
        if not isinstance(items, list):
            raise TypeError(type(items))
        for item in items:
            rule, place = item["check_name"], item["location"]
            begin, end = place["positions"]["begin"], place["positions"]["end"]
            if rule in rules and Path(place["path"]).name == PROGRAM:  # top-level `await`s come under another
                span = (begin["line"], begin["column"], end["line"], end["column"])
                found.append(Finding(rule, span, item["description"].removeprefix(f"{rule}: ")))
    except (ValueError, TypeError, KeyError) as error:
        raise CheckerFailed(f"the type checker printed something else than its findings: {output[:200]!r}") from error
    return found


async def _output(called: list[str], folder: Path) -> str:
    """Run ty in `folder`/project with limits and without this process's environment variables; kill it and its children
    at the end.
    """
    output, errors = folder / "output", folder / "errors"
    variables = dict.fromkeys(("HOME", "TMPDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"), str(folder))
    with output.open("wb") as stdout, errors.open("wb") as stderr:
        starting = asyncio.create_subprocess_exec(
            *called,
            cwd=folder / "project",
            env={**variables, "LC_ALL": "C.UTF-8", "PATH": "", "RAYON_NUM_THREADS": "1", "TY_MAX_PARALLELISM": "1"},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
        try:
            # Cancelled here, asyncio itself would end only the process and leave its children.
            process = await whole(starting, _end)
        except OSError as error:
            raise CheckerFailed(f"the type checker did not start: {error}") from error
    try:
        _limit(process.pid)
        code = await process.wait()
    finally:
        await _end(process)
    if code not in (0, 1):
        by_signal = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        ending = f"exit code {code}" if code > 0 else by_signal
        raise CheckerFailed(f"the type checker ended by {ending}{_last_words(errors)}")
    if output.stat().st_size >= OUTPUT_BYTES:
        raise CheckerFailed("the type checker printed too much")
    return output.read_text("utf-8", errors="replace")


async def _end(process: asyncio.subprocess.Process) -> None:
    # Needed also after ty itself has ended: while one of its children lives, its group number is not reused.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


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


def _last_words(errors: Path) -> str:
    words = errors.read_text("utf-8", errors="replace").split("\n")
    last = next((line.strip() for line in reversed(words) if line.strip()), "")
    return f": {last[:200]}" if last else ""
