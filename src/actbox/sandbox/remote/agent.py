"""An agent that runs elsewhere, seen from the host: started by a command, and asked for guests and files."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, field
from typing import Any, Final

from actbox.core.errors import FileError, SandboxUnavailable
from actbox.sandbox.guest.agent_boot import BOOT, boot_message, own_codes, own_modules
from actbox.sandbox.workspace import Workspace

from .agent_guest import AgentGuest
from .connection import Connection
from .files import ask
from .guest import RemoteGuest
from .lent import Lender, LentGuest, LentStock
from .workspace import RemoteWorkspace

START_SECONDS: Final = 60.0
_END_SECONDS = 2.0
_MOST_WARNINGS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """What an agent is to be."""

    workspace: str = ""
    """The folder there that is the workspace, which must exist; where none is said, the agent makes one for itself."""
    preload: tuple[str, ...] = ()
    """Modules that it imports before it forks guests."""
    paths: tuple[str, ...] = ()
    """Folders there from which it and programs can import, ahead of the interpreter's own."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of every guest."""
    keep_variables: bool = False
    """Whether guests have the variables too that the agent was started with."""
    filter_program: bytes = b""
    """A filter of system calls for every guest, as `nursery.seccomp.build` makes it for the architecture there."""
    alone: bool = False
    """Whether whatever runs there as the same user, and lies in `/tmp`, is its own to end and to remove."""
    own_interpreter: bool = False
    """Whether its interpreter is taken to be the one of this process."""


# How the command gets a socket as descriptor 3: `subprocess` passes descriptors on under the numbers that they have.
_WITH_SOCKET = (
    "import os, sys\nsocket = int(sys.argv[1])\n"
    "if socket != 3: os.dup2(socket, 3); os.close(socket)\n"
    "os.execvp(sys.argv[2], sys.argv[2:])"
)


def agent_arguments(python: str, *, at_socket: bool = False) -> list[str]:
    """Return the command line that makes a Python interpreter an agent; see `Agent.start` for `at_socket`."""
    return [python, "-I", "-B", "-X", "utf8", "-c", BOOT, *(["3"] if at_socket else [])]


class Agent:
    """A live agent. Methods may be called in any thread, `start_guest` where an event loop runs."""

    @classmethod
    def start(
        cls,
        command: Sequence[str],
        config: AgentConfig,
        *,
        seconds: float = START_SECONDS,
        at_socket: bool = False,
        lender: Lender | None = None,
    ) -> Agent:
        """Start a command whose standard input and output are to be an agent's, and wait until it is one. Blocks.

        The command ends with what `agent_arguments` returns, however that gets there. Raises `SandboxUnavailable` with
        what it said where it is none after so many seconds. With `at_socket` the agent is to talk over a socket that
        the command gets as its descriptor 3: where nobody stands between the two ends, that is faster than pipes. With
        a `lender` too, guests are lent their descriptors over it, which is faster still.
        """
        ours, theirs = socket.socketpair()
        whole = [*command]
        if at_socket:
            whole = [sys.executable, "-I", "-S", "-c", _WITH_SOCKET, str(theirs.fileno()), *whole]
        try:
            process = subprocess.Popen(
                whole,
                pass_fds=[theirs.fileno()] if at_socket else [],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                cwd="/",
                bufsize=0,
            )
        except OSError as error:
            ours.close()
            raise SandboxUnavailable(f"{command[0]} cannot be started: {error.strerror}") from error
        finally:
            theirs.close()
        if at_socket:
            return cls(process, config, seconds, ours.detach(), lender)
        ours.close()
        return cls(process, config, seconds)

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        config: AgentConfig,
        seconds: float,
        at_socket: int = -1,
        lender: Lender | None = None,
    ) -> None:
        """See `start`."""
        assert process.stdin and process.stdout and process.stderr
        self._process = process
        told = {
            "workspace": config.workspace,
            "preload": list(config.preload),
            "paths": list(config.paths),
            "variables": dict(config.variables),
            "keep_variables": config.keep_variables,
            "filter": config.filter_program.hex(),
            "alone": config.alone,
            "lends": lender is not None,
        }
        if at_socket >= 0:
            process.stdin.close()
            process.stdout.close()
        self._stock: LentStock | None = None
        hello: Future[dict[str, Any]] = Future()

        def begun(said: dict[str, Any]) -> None:
            if not hello.done():
                hello.set_result(said)

        def over(why: str) -> None:
            with contextlib.suppress(InvalidStateError):  # it had begun
                hello.set_exception(SandboxUnavailable(why))

        self._connection = Connection(
            at_socket if at_socket >= 0 else _take(process.stdout),
            os.dup(at_socket) if at_socket >= 0 else _take(process.stdin),
            _take(process.stderr),
            boot_message(own_modules(), told, own_codes() if config.own_interpreter else b""),
            begun,
            over,
        )
        try:
            said = hello.result(seconds)
        except (SandboxUnavailable, FutureTimeout) as error:
            why = f"it did not answer within {seconds:g} seconds" if isinstance(error, FutureTimeout) else str(error)
            self.close()
            raise SandboxUnavailable(
                f"no agent could be started: {'; '.join(filter(None, [why, self.said]))}"
            ) from None
        except BaseException:
            self.close()
            raise
        if lender is not None:
            self._stock = LentStock(self._connection, lender)
            self._stock.fill()
        self.python: tuple[int, ...] = tuple(part for part in said.get("python", ()) if type(part) is int)[:3]
        """The version of its interpreter."""
        self.platform = str(said.get("platform", ""))[:50]
        """`sys.platform` there."""
        self.workspace_path = str(said.get("workspace", ""))[:4096]
        """Where the workspace lies there."""
        self.warnings: tuple[str, ...] = tuple(str(line)[:1000] for line in said.get("warnings", ())[:_MOST_WARNINGS])
        """A sentence for each module of the preload list that could not be imported."""

    @property
    def alive(self) -> bool:
        """Whether it answers still."""
        return not self._connection.is_over

    def check_process(self) -> None:
        """Raise `SandboxUnavailable` in a forked child of the process that started it."""
        self._connection.owner.check()

    @property
    def said(self) -> str:
        """The last that it, or what carries it, said on standard error."""
        return self._connection.said[-1000:]

    @property
    def connection(self) -> Connection:
        """The connection to it. Raises `FileError` where it has ended, and in a forked child."""
        try:
            self.check_process()
        except SandboxUnavailable as error:
            raise FileError(errno.EIO, str(error)) from None
        if self._connection.is_over:
            raise FileError(errno.EIO, "the sandbox's agent has ended")
        return self._connection

    def start_guest(
        self,
        stdin: bytes = b"",
        watch: Mapping[str, float] | None = None,
        memory_ends: Callable[[], int] = lambda: 0,
    ) -> AgentGuest:
        """Start a guest that waits for its first message. Returns at once; where the agent has ended, so has the guest.

        `watch` are limits of the whole tree that its keeper looks after: `memory_mib` and `cpu_seconds`.
        `memory_ends`, where this machine can tell, returns how many processes there were ended for want of memory.
        Raises `SandboxUnavailable` in a forked child.
        """
        self.check_process()
        ends = self._stock.take() if self._stock is not None else None
        if ends is not None:
            return LentGuest(ends, stdin, watch or {}, memory_ends)
        return RemoteGuest(self._connection, stdin, watch or {}, memory_ends)

    def prepare(self) -> None:
        """Make ready what the next guests will take."""
        if self._stock is not None:
            self._stock.refill()

    def workspace(
        self,
        root: str,
        *,
        most_mib: int,
        input_folder: Workspace | None = None,
        is_quiet: Callable[[], bool] = lambda: False,
    ) -> RemoteWorkspace:
        """Return its files, for as long as it lives. See `RemoteWorkspace`."""
        return RemoteWorkspace(
            lambda: self.connection, root, most_mib=most_mib, input_folder=input_folder, is_quiet=is_quiet
        )

    def empty(self, kept: Sequence[str] = ()) -> None:
        """Remove all files of the workspace but what is below `input`, and at these relative paths, and leads there.

        Blocks. Raises `OSError`.
        """
        ask(self.connection, {"op": "empty", "kept": list(kept)}, most=0)

    def close(self) -> None:
        """End it with all its guests, and wait for that. Blocks; does nothing a second time, nor in a forked child."""
        if not self._connection.owner.is_here:
            return
        self._connection.close()
        if self._stock is not None:
            self._stock.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            self._process.wait()


def _take(file: Any) -> int:
    """Take a pipe's descriptor from the object that has it."""
    descriptor = os.dup(file.fileno())
    file.close()
    return descriptor
