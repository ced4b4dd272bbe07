"""The guests of a forkable session's sandbox as the host holds them: the first guest and its copies.

Each is a `GuestProcess` like any other. Since they share one sandbox, pid 1 ends a single guest on request over its
control socket; in an ordinary sandbox the end of the whole sandbox does that.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import functools
import os
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from actbox.core.errors import SandboxUnavailable
from actbox.core.events import NetworkRequest
from actbox.sandbox.blocking import run_blocking
from actbox.sandbox.guest_process import Fork, ToldGuest
from actbox.sandbox.nursery.passing import refuse_descriptors
from actbox.sandbox.run_end import Ending
from actbox.sandbox.watchdog import WATCHDOG
from actbox.sandbox.workspace import Workspace

from .child import Child
from .input_folder import InputFolder
from .stored import StoredWorkspace

Received = concurrent.futures.Future[list[int]]
_FIRST = 0
# How long pid 1 may take to end a guest: it may be copying files for another.
_END_SECONDS = 5.0


class Member(ToldGuest):
    """One guest of a family."""

    def __init__(self, family: Family, number: int, sock: socket.socket | None, stdout: int, stderr: int) -> None:
        super().__init__(sock, stdout, stderr)
        self.number = number
        self.adopted = number == _FIRST
        """True if pid 1 knows the guest's process id."""
        self.input_folder: InputFolder | None = None
        """The guest's view of `/input`, if that is a host directory."""
        self._family = family

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


@dataclass(frozen=True, slots=True)
class _Tree:
    """A file tree for a copy, which pid 1 makes or has made."""

    number: int
    """The number of the copy."""
    stored: StoredWorkspace
    workspace: Workspace
    made: Received
    """Descriptors of the tree's root, and of its `/input` if that is a host directory."""

    def release(self) -> None:
        """Remove the workspace."""
        self.workspace.close()
        self.stored.discard()


class Family:
    """A sandbox and its guests. The sandbox ends when its last guest has ended."""

    def __init__(
        self,
        child: Child,
        make_workspace: Callable[[], tuple[StoredWorkspace, Workspace]],
        later: Callable[[Callable[[], None]], None],
        **sizes: Any,
    ) -> None:
        """Take over a sandbox that was made to be forked; its guest becomes the first member.

        `make_workspace` returns an empty workspace for a copy, and blocks; `later` calls a function soon in another
        thread. `sizes` are the sizes of a copy's other file systems, and `shared` the places that share the
        workspace's.
        """
        self._child = child
        self._make_workspace = make_workspace
        self._later = later
        self._sizes = sizes
        self._next: _Tree | None = None
        """The tree for the next copy, ordered at the last fork."""
        self._lock = threading.Lock()
        self._facts: dict[str, Any] = {}
        self._answers: dict[tuple[str, int], Received] = {}
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
        """Prepare a fork of a guest with the tree made ahead, else with a new one; have the next one made meanwhile.

        Raises `SandboxUnavailable`.
        """
        while (tree := self._take_next()) is None:
            await run_blocking(self._order_next)
        try:
            fork = self._prepare(origin, tree, await asyncio.wrap_future(tree.made))
        except BaseException:
            self._discard(tree)
            raise
        asyncio.get_running_loop().call_soon(self._later, self._order_next)  # once the guest has been told to fork
        return fork

    def _take_next(self) -> _Tree | None:
        with self._lock:
            tree, self._next = self._next, None
        if tree is not None and tree.made.done() and tree.made.exception() is not None:  # it may work now
            self._discard(tree)
            return None
        return tree

    def _order_next(self) -> None:
        """Order the tree for the next fork, unless there is one. Blocks. Raises `SandboxUnavailable`."""
        if self._next is not None:
            return
        tree = self._order_tree()
        with self._lock:
            if self._next is None and self._over is None:
                self._next = tree
                tree.stored.drop_tree = functools.partial(self._drop, tree)
                return
        self._discard(tree)

    def _drop(self, tree: _Tree) -> None:
        with self._lock:
            if self._next is not tree:
                return
            self._next = None
        self._discard(tree)

    def _order_tree(self) -> _Tree:
        """Have pid 1 make a file tree for a copy, and do not wait for it. Blocks. Raises `SandboxUnavailable`."""
        stored, workspace = self._make_workspace()
        with self._lock:
            self._last_number += 1
            number = self._last_number
        try:
            mounts = (stored.take_mounts() if stored.ahead else None) or stored.make_mounts()
            made = self._send("make_tree", number, mounts, **self._sizes)
            return _Tree(number, stored, workspace, made)
        except BaseException:
            workspace.close()
            stored.discard()
            raise

    def _discard(self, tree: _Tree) -> None:
        """Remove a tree that no copy was given."""
        tree.made.add_done_callback(_close_received)
        with contextlib.suppress(SandboxUnavailable):  # then the tree is removed with the sandbox
            self.tell("end", tree.number)
        tree.release()

    def _prepare(self, origin: Member, tree: _Tree, received: list[int]) -> Fork:
        number = tree.number
        with contextlib.ExitStack() as undo:
            try:
                ours, theirs = socket.socketpair()
                undo.callback(ours.close)
                undo.callback(theirs.close)
                refuse_descriptors(ours)
                stdout, their_stdout = _pipe(undo)
                stderr, their_stderr = _pipe(undo)
            except OSError as error:
                raise SandboxUnavailable(f"the session could not be copied: {error.strerror}") from error
            undo.pop_all()
        root, *shown = received
        member = Member(self, number, ours, stdout, stderr)
        input_folder = self._input_folder(shown)
        if input_folder is not None:
            member.input_folder = input_folder
            member.end.when(lambda ending: input_folder.close())
        descriptors = [theirs.detach(), their_stdout, their_stderr, root]
        with self._lock:
            self._members[number] = member
            if self._over is not None:  # the sandbox ended meanwhile
                member.end.tell(self._over)

        async def adopt(pid: int) -> None:
            await self._ask("adopt", number, pid=pid, origin=origin.number)
            member.adopted = True

        def give_up(pid: int) -> None:
            with contextlib.suppress(SandboxUnavailable):  # then the copy ends with the other guests
                self._child.tell("end", number=number, pid=pid)

        return Fork(member, tree.workspace, tree.release, descriptors, adopt, give_up)

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

    async def _ask(self, op: str, number: int, **request: Any) -> None:
        """Send pid 1 a request and wait for its answer. Raises `SandboxUnavailable`."""
        await asyncio.wrap_future(self._send(op, number, [], **request))

    def _send(self, op: str, number: int, descriptors: Sequence[int], **request: Any) -> Received:
        """Send pid 1 a request; return the future descriptors of its answer. Sends and closes the given ones."""
        answer: Received = concurrent.futures.Future()
        answer.set_running_or_notify_cancel()  # so that it cannot be cancelled: its descriptors must be closed
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
        return answer

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
        if answer is not None and "error" in fact:
            answer.set_exception(SandboxUnavailable(f"the session could not be copied ({op}: {fact['error']})"))
            return
        if answer is not None:
            answer.set_result(descriptors)
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
            tree, self._next = self._next, None
            members, answers = list(self._members.values()), list(self._answers.values())
        for answer in answers:
            with contextlib.suppress(concurrent.futures.InvalidStateError):
                answer.set_exception(SandboxUnavailable("the session has ended"))
        if tree is not None:
            self._discard(tree)
        for member in members:
            member.end.tell((self._last_ending if len(members) == 1 else None) or ending)


def _close_received(received: Received) -> None:
    if received.exception() is None:
        for descriptor in received.result():
            os.close(descriptor)


def _pipe(undo: contextlib.ExitStack) -> tuple[int, int]:
    ends = os.pipe2(os.O_CLOEXEC)
    for end in ends:
        undo.callback(os.close, end)
    return ends
