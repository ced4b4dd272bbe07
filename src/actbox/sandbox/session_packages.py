"""The packages that a session gets while it lives: by a program's dependencies, its `pip install`, or its imports.

The guest sees a directory of the host read-only from birth. Each layer of packages is made beside it, of hard links if
that can be, and renamed into it, so that the guest sees it whole or not at all. Copies of a session see the same
directory.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from actbox.core.errors import ActboxError, ErrorInfo, ErrorKind, InvalidValue, SandboxUnavailable
from actbox.core.events import ApprovalDecided, ApprovalRequested, Event
from actbox.core.packages import Distribution, Distributions
from actbox.core.policy import Policy
from actbox.core.program import Program
from actbox.tools import Approver

from .blocking import run_blocking
from .channel.calls import CallingRun
from .channel.messages import Call
from .dependencies import (
    HeldFolder,
    Layer,
    NotProvided,
    asks_for_packages,
    name_of,
    of_environment,
    package_of,
    provide_packages,
)
from .guest import pip_command, wire
from .guest.session_packages import INSTALL
from .taint import Taint
from .traits import Traits
from .wall_clock import WallClock

MOST_REQUESTS = 64
"""The most requests for packages that one run of a session may make."""

_SCRIPTS = {
    "pip": '#!/bin/sh\nexec python3 -m pip "$@"\n',
    "pip3": '#!/bin/sh\nexec python3 -m pip "$@"\n',
    "uv": '#!/bin/sh\n[ "$1" = pip ] && shift\nexec python3 -m pip "$@"\n',
}
_START = "import sys\n\nfrom pip import main\n\nsys.exit(main())\n"


class LayersPlace(NamedTuple):
    """The empty directory of a session's packages on the host, and where the guest sees its directory `layers`."""

    held: HeldFolder
    seen_at: str
    send: Callable[[Path, str], None] = lambda folder, place: None
    """Copies a layer to a place on the guest's machine, if that is another one. Blocks.

    Raises `OSError` and `SandboxUnavailable`.
    """


class _LayersFolder:
    """The directory that a session and its copies see; it is removed when the last of them is closed."""

    def __init__(self, place: LayersPlace) -> None:
        """Take over an empty directory, and put the `pip` command into it. Blocks.

        Raises `OSError` and `SandboxUnavailable`.
        """
        self._place = place
        self._held = place.held
        self.pip = f"{place.seen_at}/0"
        self.path = place.held.path / "layers"
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
        place.send(self.path / "0", self.pip)

    def add(self, layer: Path) -> str:
        """Add a layer; return the path at which guests see it. Blocks. Raises `OSError` and `SandboxUnavailable`."""
        with self._lock:
            self._number += 1
            number = self._number
        aside = self._held.path / str(number)
        try:
            shutil.copytree(layer, aside, copy_function=link_or_copy)
            aside.rename(self.path / str(number))
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise
        seen_at = f"{self._place.seen_at}/{number}"
        self._place.send(self.path / str(number), seen_at)
        return seen_at

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

    def __init__(
        self,
        policy: Policy,
        traits: Traits,
        layer: Callable[[], Layer | None],
        new_folder: Callable[[], LayersPlace],
    ) -> None:
        """`layer` returns the files of the policy's environment if it is a named one.

        `new_folder` makes the directory of the session's packages. Blocks. Raises `ActboxError` and `OSError`.
        """
        self.policy = policy
        self._traits = traits
        self._layer = layer
        self._new_folder = new_folder
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
        return self._folder.pip if self._folder is not None else ""

    async def open(self) -> Path | None:
        """Return the directory that the guest has to see, `None` if the session gets no packages."""
        async with self._turn:
            if self._folder is None and self.are_governed:
                # Without the packaging library, or with a cache that cannot be used, whoever asks is told why.
                with contextlib.suppress(ActboxError, OSError):
                    self._folder = await run_blocking(self._make_folder)
        return self._folder.path if self._folder is not None else None

    def _make_folder(self) -> _LayersFolder:
        place = self._new_folder()
        try:
            return _LayersFolder(place)
        except BaseException:
            place.held.close()
            raise

    def copied(self) -> SessionPackages:
        """Return the packages of a copy of the session, which has what this one has now."""
        copy = SessionPackages(self.policy, self._traits, self._layer, self._new_folder)
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
        return name_of(self.policy, self._layer())

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
            except (OSError, SandboxUnavailable) as error:
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
        """The milliseconds for which the program waited, also for packages that were refused."""
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
        time = asyncio.get_running_loop().time
        began = time()
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
            self.paused_ms += (time() - began) * 1000
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
    """Answers the requests for packages of one run. The run's clock is paused until they are answered.

    The pauses take `PackagePolicy.install_seconds` at most in all, without the time in which somebody is asked.
    """

    def __init__(
        self, packages: RunPackages, clock: WallClock, max_bytes: int, run: CallingRun, taint: Taint | None = None
    ) -> None:
        self._packages = packages
        self._clock = clock
        self._most_bytes = max_bytes + wire.ENVELOPE_BYTES
        self._run = run
        self._taint = taint
        self._count = 0
        self._tasks: set[asyncio.Task[None]] = set()
        rules = packages.session.policy.packages
        self._most_seconds = rules.install_seconds if rules is not None else 0.0
        self._waiting: set[asyncio.Task[Any]] = set()
        self._used_up = asyncio.Event()
        self._pauses = WallClock(self._most_seconds, self._use_up)
        self._pauses.start()
        self._pauses.pause()

    def start(self, call: Call, answer: Callable[[int, bytes], None]) -> None:
        """Start answering a request; `answer` sends the frame of the answer to a call."""
        self._count += 1
        task = asyncio.create_task(self._answer(call, answer))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def cancel(self) -> None:
        """Answer no more requests."""
        self._used_up.clear()  # nothing is answered any more, not even by a refusal
        self._pauses.end()
        for task in self._tasks:
            task.cancel()

    def _use_up(self) -> None:
        self._used_up.set()
        for task in self._waiting:
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
        elif refusal := self._label_refusal():
            told = _refused(ErrorInfo(kind=ErrorKind.POLICY, type="LabelRefused", message=refusal))
        else:
            told = await self._answer_in_time(call.arguments)
        answer(call.id, wire.encode({"t": "return", "id": call.id, "value": told}, self._most_bytes))

    def _label_refusal(self) -> str:
        """Return why the names of packages must not leave with a request; "" if they may."""
        taint = self._taint
        return "" if taint is None else taint.refusal("the package index", taint.clearance(None))

    async def _answer_in_time(self, arguments: dict[str, Any]) -> dict[str, Any]:
        if self._used_up.is_set():
            return self._too_long()
        questions = 0
        task = asyncio.current_task()
        assert task is not None

        def tell(event: Event) -> None:
            nonlocal questions
            if isinstance(event, ApprovalRequested):
                questions += 1
                self._pauses.pause()
            elif isinstance(event, ApprovalDecided):
                questions -= 1
                self._pauses.resume()
            self._run.tell(event)

        self._clock.pause()
        if not self._waiting:
            self._pauses.resume()
        self._waiting.add(task)
        try:
            return await self._packages.answer(arguments, tell)
        except asyncio.CancelledError:
            if not self._used_up.is_set():
                raise
            return self._too_long()
        finally:
            for _ in range(questions):  # one that was never decided
                self._pauses.resume()
            self._waiting.remove(task)
            if not self._waiting:
                self._pauses.pause()
            self._clock.resume()

    def _too_long(self) -> dict[str, Any]:
        message = (
            f"a run may wait for packages {self._most_seconds:g} seconds in all (PackagePolicy.install_seconds), and"
            " this one has"
        )
        hint = "ask for what is missing in the next program"
        return _refused(ErrorInfo(kind=ErrorKind.MISSING_DEPENDENCY, type="NotInstalled", message=message, hint=hint))


def link_or_copy(source: str, target: str) -> None:
    """Link a file, or copy it if it lies on another file system or has too many links. Raises `OSError`."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EMLINK, errno.EPERM):
            raise
        shutil.copy2(source, target, follow_symlinks=False)


def is_install_request(call: Call) -> bool:
    """Return whether a guest's call asks for packages."""
    return call.tool == INSTALL


def _refused(error: ErrorInfo) -> dict[str, Any]:
    said = {"kind": error.kind.value, "type": error.type, "message": error.message[:10_000], "hint": error.hint}
    return {"error": said}


def _no_place() -> ErrorInfo:
    message = "a session gets packages only if its sandbox was opened with Policy(packages=…)"
    return ErrorInfo(kind=ErrorKind.MISSING_DEPENDENCY, type="NotInstalled", message=message)


def _cannot_add(error: OSError | SandboxUnavailable) -> ErrorInfo:
    message = f"the packages cannot be added to the session: {getattr(error, 'strerror', '') or error}"
    return ErrorInfo(kind=ErrorKind.MISSING_DEPENDENCY, type="NotInstalled", message=message)
