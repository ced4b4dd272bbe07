"""The guests of a sandbox whose session may be forked, as the host holds them: the first, and copies.

Each is a guest like any other for whoever uses it; pid 1 of the sandbox, which is asked over its control socket, does
what an ordinary sandbox's whole end does for its only one.
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
from actbox.sandbox.ending import End, Ending
from actbox.sandbox.guest_process import Fork, GuestProcess
from actbox.sandbox.workspace import Workspace

from .child import Child
from .input_folder import InputFolder
from .stored import StoredWorkspace

Answer = tuple[dict[str, Any], list[int]]
_FIRST = 0
# So long pid 1 may take to end a guest: it may be copying files for another.
_END_SECONDS = 5.0


class Member(GuestProcess):
    """One guest of a family."""

    def __init__(self, family: Family, number: int, sock: socket.socket | None, stdout: int, stderr: int) -> None:
        self.number = number
        self.sock, self.stdout, self.stderr = sock, stdout, stderr
        self.adopted = number == _FIRST
        """Whether pid 1 knows which process it is."""
        self.end = End()
        self.input_folder: InputFolder | None = None
        """What it sees at `/input`, where that is a folder of the host."""
        self._family = family

    @property
    def ended(self) -> bool:
        return self.end.ending is not None

    def when_ended(self, call: Callable[[Ending], None]) -> None:
        self.end.when_in_loop(call)

    def interrupt(self) -> None:
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
    """A sandbox with its guests. The sandbox ends when none of them is left."""

    def __init__(
        self, child: Child, find_workspace: Callable[[], Awaitable[tuple[StoredWorkspace, Workspace]]], **sizes: int
    ) -> None:
        """Take over a sandbox that was made to be forked; the first guest is its guest.

        `find_workspace` has an empty workspace for a copy; `sizes` are those of a copy's other file systems.
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
        """Tell pid 1 something about a guest, without waiting for what comes of it."""
        self._child.tell(op, number=number)

    def kill(self, member: Member) -> None:
        """End a guest with all that it has started."""
        with self._lock:
            last = not any(other is not member and not other.ended for other in self._members.values())
        if last:
            self._child.kill()
            return
        self.tell("end", member.number)
        with contextlib.suppress(RuntimeError):  # no event loop: nobody waits for its end
            asyncio.get_running_loop().call_later(_END_SECONDS, self._insist, member)

    def _insist(self, member: Member) -> None:
        if not member.ended:  # pid 1 does not do as it is told: then all end
            self._child.kill()

    async def prepare_fork(self, origin: Member) -> Fork:
        """Have a file tree made for a copy of a guest. Raises `SandboxUnavailable`."""
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
            undo.callback(self.tell, "end", number)
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
            if self._over is not None:  # meanwhile
                member.end.tell(self._over)

        async def adopt(pid: int) -> None:
            await self._ask("adopt", number, pid=pid)
            member.adopted = True

        def give_up(pid: int) -> None:
            self._child.tell("end", number=number, pid=pid)

        return Fork(member, workspace, release, descriptors, adopt, give_up)

    def _input_folder(self, shown: list[int]) -> InputFolder | None:
        """Take over the descriptor of what a copy sees at `/input`, if there is one."""
        origins = self._child.input_folder
        if not shown or origins is None:
            return None
        folder = InputFolder(origins.forget_names)
        folder.hold(*shown)
        return folder

    async def close_network(self) -> None:
        """End all connections, if none of the guests is left."""
        if self._over is not None:
            await self._child.close_network()

    def _tell_network(self, request: NetworkRequest) -> None:
        # They share a network, so that nobody knows whose request it was: a run that goes on now is told.
        runs = (member for member in self._members.values() if member.on_network is not None)
        next(runs, self.first).tell_network(request)

    async def _ask(self, op: str, number: int, descriptors: Sequence[int] = (), **request: int) -> Answer:
        """Ask pid 1 for something and wait for its answer. Closes the descriptors, which go along."""
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
                self._last_ending = ending  # it counts as ended when the sandbox has
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
