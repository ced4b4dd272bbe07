"""The packages that a session gets while it lives: by a program's dependencies, its `pip install`, or its imports.

A directory of the host is mounted read-only at `PACKAGES` when the session begins. Each layer of packages is made
beside it, of hard links, and renamed into it, so that the guest sees it whole or not at all. Copies of a session see
the same directory.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from actbox.core.errors import ActboxError, ErrorInfo, ErrorKind, InvalidValue
from actbox.core.events import Event
from actbox.core.packages import Distribution, Distributions
from actbox.core.policy import Policy
from actbox.core.program import Program
from actbox.tools import Approver

from .blocking import run_blocking
from .channel.calls import CallingRun
from .channel.messages import Call
from .dependencies import (
    PACKAGES,
    HeldFolder,
    Layer,
    NotProvided,
    asks_for_packages,
    new_session_folder,
    of_environment,
    package_of,
    provide_packages,
)
from .guest import pip_command, wire
from .guest.session_packages import INSTALL
from .traits import Traits
from .wall_clock import WallClock

MOST_REQUESTS = 64
"""The most requests for packages that one run of a session may make."""
PIP = f"{PACKAGES}/0"
"""The directory in which a session finds its `pip`."""

_SCRIPTS = {
    "pip": '#!/bin/sh\nexec python3 -m pip "$@"\n',
    "pip3": '#!/bin/sh\nexec python3 -m pip "$@"\n',
    "uv": '#!/bin/sh\n[ "$1" = pip ] && shift\nexec python3 -m pip "$@"\n',
}
_START = "import sys\n\nfrom pip import main\n\nsys.exit(main())\n"


class _LayersFolder:
    """The directory that a session and its copies see; it is removed when the last of them is closed."""

    def __init__(self, held: HeldFolder) -> None:
        """Take over an empty directory, and put the `pip` command into it. Blocks. Raises `OSError`."""
        self._held = held
        self.path = held.path / "layers"
        self.users = 1
        self._number = 0
        self._lock = threading.Lock()
        self.path.mkdir()
        self.path.chmod(0o755)
        site, scripts = self.path / "0/site/pip", self.path / "0/bin"
        site.mkdir(parents=True)
        scripts.mkdir()
        shutil.copyfile(pip_command.__file__, site / "__init__.py")
        (site / "__main__.py").write_text(_START)
        for name, text in _SCRIPTS.items():
            (scripts / name).write_text(text)
            (scripts / name).chmod(0o755)

    def add(self, layer: Path) -> str:
        """Add a layer; return the path at which guests see it. Blocks. Raises `OSError`."""
        with self._lock:
            self._number += 1
            number = self._number
        aside = self._held.path / str(number)
        try:
            shutil.copytree(layer, aside, copy_function=partial(os.link, follow_symlinks=False))
            aside.rename(self.path / str(number))
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise
        return f"{PACKAGES}/{number}"

    def join(self) -> None:
        """Count one more session that uses the directory."""
        with self._lock:
            self.users += 1

    def leave(self) -> None:
        """Remove the directory if no session uses it any more. Blocks."""
        with self._lock:
            self.users -= 1
            is_over = not self.users
        if is_over:
            self._held.close()


class SessionPackages:
    """The packages of one session beyond its environment."""

    def __init__(self, policy: Policy, traits: Traits, layer: Callable[[], Layer | None]) -> None:
        """`layer` returns the files of the policy's environment if it is a named one."""
        self.policy = policy
        self._traits = traits
        self._layer = layer
        self._folder: _LayersFolder | None = None
        self._turn = asyncio.Lock()
        self._had: tuple[Distribution, ...] = ()
        self.folders: tuple[str, ...] = ()
        """The layers as the guest sees them, oldest first."""

    @property
    def are_governed(self) -> bool:
        """True if the policy has rules about packages, so that a session may get some."""
        return self.policy.packages is not None

    @property
    def pip(self) -> str:
        """The directory with the session's `pip`, "" if it gets no packages; known once `open` was called."""
        return PIP if self._folder is not None else ""

    async def open(self) -> Path | None:
        """Return the directory to mount at `PACKAGES`, `None` if the session gets no packages."""
        async with self._turn:
            if self._folder is None and self.are_governed:
                # Without the packaging library, or with a cache that cannot be used, whoever asks is told why.
                with contextlib.suppress(ActboxError, OSError):
                    self._folder = await run_blocking(lambda: _LayersFolder(new_session_folder()))
        return self._folder.path if self._folder is not None else None

    def copied(self) -> SessionPackages:
        """Return the packages of a copy of the session, which has what this one has now."""
        copy = SessionPackages(self.policy, self._traits, self._layer)
        copy._had, copy.folders, copy._folder = self._had, self.folders, self._folder
        if copy._folder is not None:
            copy._folder.join()
        return copy

    async def close(self) -> None:
        """Remove the packages once no copy of the session has them. To be called once, when the guest has ended."""
        if self._folder is not None:
            await run_blocking(self._folder.leave)

    async def for_run(self, program: Program, approver: Approver | None, tell: Callable[[Event], None]) -> RunPackages:
        """Return the packages of a run, with those that its program names. Raises `NotProvided` and `InvalidValue`."""
        packages = RunPackages(self, program, approver)
        if asks_for_packages(program):
            await packages.add(program, tell)
        return packages

    @property
    def environment(self) -> str:
        """The name of the session's environment."""
        return self.policy.environment_name

    @property
    def distributions(self) -> Distributions:
        """All packages that the session has now."""
        return Distributions(self._had, partial(of_environment, self.policy, self._layer()))

    async def add(
        self, program: Program, approver: Approver | None, tell: Callable[[Event], None]
    ) -> tuple[tuple[Distribution, ...], tuple[str, ...], float]:
        """Add the packages that a program asks for; return those that are new, warnings, and the milliseconds it took.

        Raises `NotProvided` and `InvalidValue`; then nothing has changed.
        """
        engine = self._traits.engine
        async with self._turn:
            provided = await provide_packages(
                program, self.policy, self._traits, self._layer(), approver, tell, self._had
            )
            try:
                if provided.folder is None:
                    return (), provided.warnings, provided.install_ms
                if self._folder is None:
                    raise NotProvided(_no_place(), program, engine)
                added = await run_blocking(self._folder.add, provided.folder)
            except OSError as error:
                raise NotProvided(_cannot_add(error), program, engine) from None
            finally:
                provided.close()
            new = tuple(one for one in provided.distributions.asked if one not in self._had)
            names = {one.name for one in new}
            self._had = (*(one for one in self._had if one.name not in names), *new)
            self.folders = (*self.folders, added)
            return new, provided.warnings, provided.install_ms


class RunPackages:
    """The packages of one run of a session, to which the run may add; see `Provided`."""

    folder: Path | None = None

    def __init__(self, session: SessionPackages, program: Program, approver: Approver | None) -> None:
        self.session = session
        self._program = program
        self._approver = approver
        self.install_ms = 0.0
        self.paused_ms = 0.0
        """The part of `install_ms` for which the program waited."""
        self.warnings: tuple[str, ...] = ()

    @property
    def environment(self) -> str:
        """The name of the session's environment."""
        return self.session.environment

    @property
    def distributions(self) -> Distributions:
        """All packages that the session has now."""
        return self.session.distributions

    def close(self) -> None:
        """Do nothing: the packages stay as long as the session."""

    async def add(self, program: Program, tell: Callable[[Event], None]) -> tuple[Distribution, ...]:
        """Add the packages that a program asks for; return those that are new. Raises as `SessionPackages.add`."""
        new, warnings, install_ms = await self.session.add(program, self._approver, tell)
        self.install_ms += install_ms
        self.warnings += warnings
        return new

    async def answer(self, arguments: dict[str, Any], tell: Callable[[Event], None]) -> dict[str, Any]:
        """Return the answer to a guest that asks for the package of a module, or for requirements."""
        missed, requirements = arguments.get("module"), arguments.get("requirements")
        new: tuple[Distribution, ...] = ()
        before = self.install_ms
        try:
            if isinstance(missed, str):
                name = package_of(missed, self.session.policy, self._may_ask)
                if isinstance(name, ErrorInfo) and name.kind is ErrorKind.POLICY:
                    return _refused(name)
                requirements = [name] if isinstance(name, str) and name else []
            if not isinstance(requirements, list):
                raise InvalidValue("packages are asked for by a list of requirements")
            if requirements:  # `Program` checks that they are text
                new = await self.add(replace(self._program, dependencies=tuple(requirements)), tell)
        except NotProvided as refusal:
            assert refusal.result.error is not None
            return _refused(refusal.result.error)
        except ActboxError as error:  # what cannot be a requirement, or no library that could install it
            kind = ErrorKind.RUNTIME if isinstance(error, InvalidValue) else ErrorKind.MISSING_DEPENDENCY
            return _refused(ErrorInfo(kind=kind, type="PipError", message=str(error)))
        finally:
            self.paused_ms += self.install_ms - before
        if new and isinstance(missed, str):
            self.warnings += (f"the program missed {name}, which was installed while it waited",)
        return {
            "folders": list(self.session.folders),
            "installed": [f"{one.name}-{one.version}" for one in new],
        }

    @property
    def _may_ask(self) -> bool:
        rules = self.session.policy.packages
        return self._approver is not None or (rules is not None and rules.approver is not None)


class InstallRequests:
    """Answers the requests for packages of one run. The run's clock is paused until they are answered."""

    def __init__(self, packages: RunPackages, clock: WallClock, max_bytes: int, run: CallingRun) -> None:
        self._packages = packages
        self._clock = clock
        self._most_bytes = max_bytes + wire.ENVELOPE_BYTES
        self._run = run
        self._count = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, call: Call, answer: Callable[[int, bytes], None]) -> None:
        """Start answering a request; `answer` sends the frame of the answer to a call."""
        self._count += 1
        task = asyncio.create_task(self._answer(call, answer))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def cancel(self) -> None:
        """Answer no more requests."""
        for task in self._tasks:
            task.cancel()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            self._run.failed(failure)

    async def _answer(self, call: Call, answer: Callable[[int, bytes], None]) -> None:
        if self._count > MOST_REQUESTS:
            told = _refused(
                ErrorInfo(kind=ErrorKind.RUNTIME, message=f"a run may ask for packages {MOST_REQUESTS} times")
            )
        else:
            self._clock.pause()
            try:
                told = await self._packages.answer(call.arguments, self._run.tell)
            finally:
                self._clock.resume()
        answer(call.id, wire.encode({"t": "return", "id": call.id, "value": told}, self._most_bytes))


def is_install_request(call: Call) -> bool:
    """Return whether a guest's call asks for packages."""
    return call.tool == INSTALL


def _refused(error: ErrorInfo) -> dict[str, Any]:
    said = {"kind": error.kind.value, "type": error.type, "message": error.message[:10_000], "hint": error.hint}
    return {"error": said}


def _no_place() -> ErrorInfo:
    message = "a session gets packages only if its sandbox was opened with Policy(packages=…)"
    return ErrorInfo(kind=ErrorKind.MISSING_DEPENDENCY, type="NotInstalled", message=message)


def _cannot_add(error: OSError) -> ErrorInfo:
    message = f"the packages cannot be added to the session: {error.strerror}"
    return ErrorInfo(kind=ErrorKind.MISSING_DEPENDENCY, type="NotInstalled", message=message)
