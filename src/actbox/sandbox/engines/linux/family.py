"""The guests of a forkable session's sandbox as the host holds them: the first guest and its copies.

Each is a `GuestProcess` like any other. Since they share one sandbox, pid 1 ends a single guest on request over its
control socket; in an ordinary sandbox the end of the whole sandbox does that.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import os
import signal
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from actbox.core.errors import SandboxUnavailable
from actbox.core.events import NetworkRequest
from actbox.sandbox.blocking import run_blocking
from actbox.sandbox.guest_process import Fork, GuestProcess
from actbox.sandbox.run_end import End, Ending
from actbox.sandbox.watchdog import WATCHDOG
from actbox.sandbox.workspace import Workspace

from .child import Child
from .input_folder import InputFolder
from .stored import StoredWorkspace

Answer = tuple[dict[str, Any], list[int]]
_FIRST = 0
# How long pid 1 may take to end a guest: it may be copying files for another.
_END_SECONDS = 5.0


class Member(GuestProcess):
    """One guest of a family."""

    def __init__(self, family: Family, number: int, sock: socket.socket | None, stdout: int, stderr: int) -> None:
        self.number = number
        self.sock, self.stdout, self.stderr = sock, stdout, stderr
        self.adopted = number == _FIRST
        """True if pid 1 knows the guest's process id."""
        self.end = End()
        self.input_folder: InputFolder | None = None
        """The guest's view of `/input`, if that is a host directory."""
        self._family = family

    @property
    def ended(self) -> bool:
        return self.end.ending is not None

    def when_ended(self, call: Callable[[Ending], None]) -> None:
        self.end.when(call, asyncio.get_running_loop())

    def interrupt(self) -> None:
        with contextlib.suppress(SandboxUnavailable):  # if the program does not end, the guest is killed soon
            self._family.tell("interrupt", self.number)

    def kill(self) -> None:
        self._family.kill(self)

    async def see_inputs_anew(self) -> None:
        if self.input_folder is not None:
            await self.input_folder.look_anew()

    async def prepare_fork(self) -> Fork:
        return await self._family.prepare_fork(self)

    async def close_network(self) -> None:
        await self._family.close_network()


class Family:
    """A sandbox and its guests. The sandbox ends when its last guest has ended."""

    def __init__(
        self, child: Child, find_workspace: Callable[[], Awaitable[tuple[StoredWorkspace, Workspace]]], **sizes: Any
    ) -> None:
        """Take over a sandbox that was made to be forked; its guest becomes the first member.

        `find_workspace` returns an empty workspace for a copy; `sizes` are the sizes of a copy's other file systems,
        and `shared` the places that share the workspace's.
        """
        self._child = child
        self._find_workspace = find_workspace
        self._sizes = sizes
        self._lock = threading.Lock()
        self._facts: dict[str, Any] = {}
        self._answers: dict[tuple[str, int], concurrent.futures.Future[Answer]] = {}
        self._last_number = _FIRST
        self.first = Member(self, _FIRST, child.sock, child.stdout, child.stderr)
        self.first.input_folder = child.input_folder
        self._members = {_FIRST: self.first}
        self._last_ending: Ending | None = None
        self._over: Ending | None = None
        child.listen(self._hear)
        child.hear_network(self._tell_network)
        child.when_buried(self._all_ended)

    def tell(self, op: str, number: int) -> None:
        """Send pid 1 a request about a guest, without waiting for an answer."""
        self._child.tell(op, number=number)

    def kill(self, member: Member) -> None:
        """Kill a guest with everything that it has started; from any thread."""
        with self._lock:
            last = not any(other is not member and not other.ended for other in self._members.values())
        if last:
            self._child.kill()
            return
        with contextlib.suppress(SandboxUnavailable):  # `_insist` kills it later
            self.tell("end", member.number)
        # Not a timer of the event loop's: that may be blocked, in which case the watchdog must end the guest.
        WATCHDOG.watch(member, _END_SECONDS, lambda: self._insist(member))
        member.end.when(lambda ending: WATCHDOG.forget(member))

    def _insist(self, member: Member) -> None:
        if not member.ended:  # pid 1 did not end it in time, so the whole sandbox is killed
            self._child.kill()

    async def prepare_fork(self, origin: Member) -> Fork:
        """Have pid 1 make a file tree for a copy of a guest; return the prepared fork. Raises `SandboxUnavailable`."""
        stored, workspace = await self._find_workspace()

        def release() -> None:
            workspace.close()
            stored.discard()

        try:
            return await self._prepare(origin, workspace, stored, release)
        except BaseException:
            release()
            raise

    async def _prepare(
        self, origin: Member, workspace: Workspace, stored: StoredWorkspace, release: Callable[[], None]
    ) -> Fork:
        with self._lock:
            self._last_number += 1
            number = self._last_number
        mounts = stored.take_mounts()
        if mounts is None:
            mounts = await run_blocking(stored.make_mounts)
        _, (root, *shown) = await self._ask("make_tree", number, mounts, origin=origin.number, **self._sizes)
        input_folder = self._input_folder(shown)
        with contextlib.ExitStack() as undo:
            undo.callback(self._forget_tree, number)
            undo.callback(os.close, root)
            if input_folder is not None:
                undo.callback(input_folder.close)
            try:
                ours, theirs = socket.socketpair()
                undo.callback(ours.close)
                undo.callback(theirs.close)
                stdout, their_stdout = _pipe(undo)
                stderr, their_stderr = _pipe(undo)
            except OSError as error:
                raise SandboxUnavailable(f"the session could not be copied: {error.strerror}") from error
            undo.pop_all()
        member = Member(self, number, ours, stdout, stderr)
        if input_folder is not None:
            member.input_folder = input_folder
            member.end.when(lambda ending: input_folder.close())
        descriptors = [theirs.detach(), their_stdout, their_stderr, root]
        with self._lock:
            self._members[number] = member
            if self._over is not None:  # the sandbox ended meanwhile
                member.end.tell(self._over)

        async def adopt(pid: int) -> None:
            await self._ask("adopt", number, pid=pid)
            member.adopted = True

        def give_up(pid: int) -> None:
            with contextlib.suppress(SandboxUnavailable):  # then the copy ends with the other guests
                self._child.tell("end", number=number, pid=pid)

        return Fork(member, workspace, release, descriptors, adopt, give_up)

    def _forget_tree(self, number: int) -> None:
        with contextlib.suppress(SandboxUnavailable):  # then the tree is removed with the sandbox
            self.tell("end", number)

    def _input_folder(self, shown: list[int]) -> InputFolder | None:
        """Take over the descriptor of a copy's view of `/input`, if there is one; return it as an `InputFolder`."""
        origins = self._child.input_folder
        if not shown or origins is None:
            return None
        folder = InputFolder(origins.forget_names)
        folder.hold(*shown)
        return folder

    async def close_network(self) -> None:
        """Close all connections if no guest is left."""
        if self._over is not None:
            await self._child.close_network()

    def _tell_network(self, request: NetworkRequest) -> None:
        # The guests share a network, so a request's origin is unknown: any guest with a run under way is told of it.
        runs = (member for member in self._members.values() if member.on_network is not None)
        next(runs, self.first).tell_network(request)

    async def _ask(self, op: str, number: int, descriptors: Sequence[int] = (), **request: Any) -> Answer:
        """Send pid 1 a request and wait for its answer. Sends and closes the descriptors."""
        answer: concurrent.futures.Future[Answer] = concurrent.futures.Future()
        with self._lock:
            self._answers[op, number] = answer
            is_over = self._over is not None
        try:
            if is_over:
                raise SandboxUnavailable("the session has ended")
            self._child.tell(op, descriptors, number=number, **request)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        facts, received = await asyncio.wrap_future(answer)
        if "error" in facts:
            raise SandboxUnavailable(f"the session could not be copied ({op}: {facts['error']})")
        return facts, received

    # In the reaper's thread

    def _hear(self, fact: dict[str, Any], descriptors: list[int]) -> None:
        if "answer" in fact:
            self._answered(fact, descriptors)
        elif "guest" in fact:
            self._guest_ended(fact.pop("guest"), fact)
        else:
            self._facts |= fact

    def _answered(self, fact: dict[str, Any], descriptors: list[int]) -> None:
        op, number = fact["answer"], fact["number"]
        answer = self._answers.pop((op, number), None)
        if answer is not None:
            answer.set_result((fact, descriptors))
            return
        for descriptor in descriptors:
            os.close(descriptor)
        member = self._members.get(number)
        if op == "end" and member is not None and not member.adopted:
            self._ended(member, Ending(signal=int(signal.SIGKILL)))

    def _guest_ended(self, number: int, fact: dict[str, Any]) -> None:
        facts = {**self._facts, **fact}
        if reached := self._child.limit_reached():
            facts["limit"] = reached
        self._ended(self._members[number], Ending(**facts))

    def _ended(self, member: Member, ending: Ending) -> None:
        with self._lock:
            last = not any(other is not member and not other.ended for other in self._members.values())
            if last:
                self._last_ending = ending  # the last guest counts as ended only when the sandbox has
            else:
                self._members.pop(member.number, None)
        if not last:
            member.end.tell(ending)

    def _all_ended(self, ending: Ending) -> None:
        with self._lock:
            self._over = ending
            members, answers = list(self._members.values()), list(self._answers.values())
        for answer in answers:
            with contextlib.suppress(concurrent.futures.InvalidStateError):
                answer.set_exception(SandboxUnavailable("the session has ended"))
        for member in members:
            member.end.tell((self._last_ending if len(members) == 1 else None) or ending)


def _pipe(undo: contextlib.ExitStack) -> tuple[int, int]:
    ends = os.pipe2(os.O_CLOEXEC)
    for end in ends:
        undo.callback(os.close, end)
    return ends
