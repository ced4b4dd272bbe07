"""`WasmSandbox`: each program in a fresh instance, in a worker process that can be ended at any time."""

from __future__ import annotations

import asyncio
import contextlib
import errno
from typing import TYPE_CHECKING, Final, Self

from actbox.core.after_fork import Owner
from actbox.core.errors import FileError
from actbox.core.limits import Limits
from actbox.core.policy import Policy
from actbox.sandbox.blocking import run_blocking
from actbox.sandbox.embedded import EmbeddedSandbox, Evaluation, Outcome, State
from actbox.sandbox.embedded.sandbox import Place
from actbox.sandbox.guest import wire
from actbox.sandbox.storage import Storage
from actbox.sandbox.whole import whole

from .clerk import ClerkWorkspace
from .conversation import Conversation, Ended
from .disk import Remove, cut_back, room
from .folders import open_files, output_of, volumes_of
from .mounted import check_mounts, mount
from .outcome import outcome_of
from .stock import stock
from .traits import TRAITS
from .worker import Design, Volume, Worker

if TYPE_CHECKING:
    from actbox.sandbox.egress.proxy import EgressProxy
    from actbox.sandbox.egress.upstream import Upstream

# How long a session's program that waits may take to end when it is asked to.
_GRACE_SECONDS: Final = 1.0
# How many workers are tried that turn out to have ended while they waited.
_MOST_WORKERS: Final = 8
_INTERRUPT: Final = wire.encode({"t": "interrupt"}, wire.ENVELOPE_BYTES)
_END: Final = wire.encode({"t": "end"}, wire.ENVELOPE_BYTES)


class WasmSandbox(EmbeddedSandbox):
    """A sandbox whose programs run in CPython on WebAssembly."""

    traits = TRAITS
    _input_apart = True

    def __init__(self, policy: Policy, upstream: Upstream | None = None, *, family: WasmSandbox | None = None) -> None:
        """Raise `Unsupported` for a policy that cannot be kept. `family` is a sandbox to share the proxy with."""
        super().__init__(policy)
        check_mounts(policy.mounts)
        self._volumes: tuple[Volume, ...] = ()
        self._proxy: EgressProxy | None = family._proxy if family else None
        if policy.domains and self._proxy is None:
            from actbox.sandbox.embedded.http import make_proxy  # what it needs takes long to import

            self._proxy = make_proxy(policy, upstream)

    def _sibling(self) -> Self:
        return type(self)(self.policy, family=self)

    async def _evaluate(self, evaluation: Evaluation) -> Outcome:
        for _ in range(_MOST_WORKERS):
            ended = await self._evaluated(evaluation)
            if ended.has_begun:
                break
        return outcome_of(ended, evaluation.limits)

    async def _evaluated(self, evaluation: Evaluation) -> Ended:
        """Evaluate a program in the next worker, which may have ended while it waited."""
        design = _design(evaluation.folder, evaluation.limits, self._volumes)
        worker = await _worker(design)
        conversation = Conversation(worker, evaluation, self._proxy)
        owner, ended = Owner(), None
        try:
            conversation.begin(last=True)
            ended = await conversation.ended()
            return ended
        finally:
            conversation.give_up()
            if owner.is_here:  # else this is a forked child, and the worker its parent's
                await self._take_back(worker, design, evaluation, ended)

    async def _take_back(self, worker: Worker, design: Design, evaluation: Evaluation, ended: Ended | None) -> None:
        """Have a worker wait for its next program, or end it with what it has written beyond its limit."""
        if ended is None or ended.told is None:
            await whole(_end(worker), _nothing)
            stock().replace(design)
        else:
            stock().give(worker, design)
        if ended is None or ended.told is None or ended.limit:
            await whole(run_blocking(_cut_back, evaluation), _nothing)

    async def write_file(self, path: str, data: bytes) -> None:
        place = self._there()
        most = self.policy.limits.workspace_mib
        size = len(data) if isinstance(data, (bytes, bytearray, memoryview)) else 0  # what is no bytes is refused below
        if await run_blocking(room, most * 2**20 - size, *_counted(place)) < 0:
            raise FileError(errno.ENOSPC, f"{path}: the workspace would have more than {most} MiB")
        await super().write_file(path, data)

    def _storage(self, folder: str, input_folder: str) -> Storage:
        return open_files(folder, input_folder)

    async def _open_state(self) -> State:
        return _WasmState(self._proxy, self._volumes)

    async def _opened(self) -> Place:
        place = await super()._opened()
        try:
            mounted = await run_blocking(mount, self.policy.mounts, place.folder, place.input_folder)
            self._volumes = (*volumes_of(place), *mounted)
        except BaseException:
            await super()._let_go(place)
            raise
        stock().prepare(_design(place.folder, self.policy.limits, self._volumes))
        return place

    async def _open(self) -> None:
        await whole(run_blocking(stock().enter), _left)

    async def _let_go(self, place: Place) -> None:
        await run_blocking(stock().forget, place.folder)
        await super()._let_go(place)

    async def _close(self) -> None:
        stock().leave()


class _WasmState(State):
    """An instance that lasts from program to program, in a worker of its own."""

    def __init__(self, proxy: EgressProxy | None, volumes: tuple[Volume, ...]) -> None:
        self._proxy = proxy
        self._volumes = volumes
        self._worker: Worker | None = None
        self._design: Design | None = None
        self._is_over = False

    @property
    def alive(self) -> bool:
        return not self._is_over and (self._worker is None or self._worker.alive)

    async def evaluate(self, evaluation: Evaluation) -> Outcome:
        if self._worker is None:
            self._design = _design(evaluation.folder, evaluation.limits, self._volumes)
            self._worker = await _worker(self._design)
        conversation = Conversation(self._worker, evaluation, self._proxy)
        owner = Owner()
        conversation.begin(last=False)
        try:
            ended = await conversation.ended()
        except asyncio.CancelledError:
            conversation.give_up()
            if not owner.is_here:
                raise
            await whole(self._interrupted(conversation), _nothing)
            await whole(run_blocking(_cut_back, evaluation), _nothing)
            raise
        if ended.told is None or ended.is_over:
            await whole(self._end(), _nothing)
        conversation.give_up()
        if ended.limit:
            await whole(run_blocking(_cut_back, evaluation), _nothing)
        return outcome_of(ended, evaluation.limits)

    async def close(self) -> None:
        """End the interpreter as a script ends, or by force where it takes long."""
        await whole(self._close(), _nothing)

    async def _interrupted(self, conversation: Conversation) -> None:
        """Ask the program to end, which it can hear while it waits; end it where it does not."""
        assert self._worker is not None
        self._worker.post(_INTERRUPT)
        try:
            ended = await asyncio.wait_for(conversation.ended(), _GRACE_SECONDS)
        except TimeoutError:
            ended = None
        if ended is None or ended.told is None or ended.is_over:
            await self._end()

    async def _end(self) -> None:
        self._is_over = True
        if self._worker is not None and self._design is not None:
            await _end(self._worker)
            stock().replace(self._design)

    async def _close(self) -> None:
        if self._is_over:
            return
        self._is_over = True
        if self._worker is None or self._design is None:
            return
        if await run_blocking(self._worker.finish, _END, _GRACE_SECONDS):
            stock().give(self._worker, self._design)
        else:
            await _end(self._worker)


def _design(folder: str, limits: Limits, volumes: tuple[Volume, ...]) -> Design:
    return Design(
        folder=folder,
        volumes=volumes,
        memory_mib=limits.memory_mib,
        file_mib=limits.file_mib,
        open_files=limits.open_files,
    )


def _cut_back(evaluation: Evaluation) -> None:
    """Remove what a program that was ended has written beyond its limit. Blocks."""
    most, folder = evaluation.limits.workspace_mib * 2**20, evaluation.folder
    if room(most, *_counted(evaluation)) >= 0:
        return
    output, files = output_of(folder), evaluation.workspace
    if isinstance(files, ClerkWorkspace):
        removes: dict[str, Remove] = {
            folder: lambda path, _: files.discard(path),
            output: lambda path, _: files.discard(f"output/{path}"),
        }
        cut_back(most, removes, [evaluation.input_folder])
        return
    from actbox.sandbox.workspace import Workspace, open_folder  # which not every system can import

    with contextlib.ExitStack() as stack:
        removes = {}
        for top in (folder, output):  # each by itself, with what lies in the places of what lies elsewhere
            own = Workspace(open_folder(top), "/workspace")
            stack.callback(own.close)
            removes[top] = own.remove
        cut_back(most, removes, [evaluation.input_folder])


def _counted(place: Place | Evaluation) -> tuple[str, ...]:
    return place.folder, place.input_folder, output_of(place.folder)


async def _worker(design: Design) -> Worker:
    worker = stock().at_hand(design)
    return worker if worker is not None else await whole(run_blocking(stock().take, design), _end)


async def _end(worker: Worker) -> None:
    await run_blocking(worker.end)


async def _left(_: None) -> None:
    stock().leave()


async def _nothing(_: None) -> None:
    pass
