"""The host's handle on an agent that runs elsewhere: starts it by a command, and requests guests and files from it."""

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
    """The settings of an agent."""

    workspace: str = ""
    """The workspace's directory there, which must exist; if empty, the agent makes one for itself."""
    preload: tuple[str, ...] = ()
    """Modules that it imports before it forks guests."""
    paths: tuple[str, ...] = ()
    """Directories there from which it and programs can import, ahead of the interpreter's own."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of every guest."""
    keep_variables: bool = False
    """True if guests also get the environment variables that the agent was started with."""
    filter_program: bytes = b""
    """A system call filter for every guest, made by `nursery.seccomp.build` for the architecture there."""
    alone: bool = False
    """True if the agent may end all processes of its user there, and remove everything that it can in `/tmp`."""
    own_interpreter: bool = False
    """True if its interpreter is assumed to be the one of this process."""


# Gives the command a socket as descriptor 3: `subprocess` passes descriptors on under their own numbers.
_WITH_SOCKET = (
    "import os, sys\nsocket = int(sys.argv[1])\n"
    "if socket != 3: os.dup2(socket, 3); os.close(socket)\n"
    "os.execvp(sys.argv[2], sys.argv[2:])"
)


def agent_arguments(python: str, *, at_socket: bool = False) -> list[str]:
    """Return the command line that turns a Python interpreter into an agent; see `Agent.start` for `at_socket`."""
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
        """Start a command that runs an agent at its standard input and output, and wait until the agent is ready.

        Blocks.

        The command must end with the result of `agent_arguments`. Raises `SandboxUnavailable` with the command's error
        output if there is no agent after `seconds`. With `at_socket` the agent uses a socket that the command gets as
        its descriptor 3, which is faster than pipes if nothing stands between the two ends. With a `lender` too, guests
        use lent descriptors, which is faster still.
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
        settings = {
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
            with contextlib.suppress(InvalidStateError):  # it had started
                hello.set_exception(SandboxUnavailable(why))

        self._connection = Connection(
            at_socket if at_socket >= 0 else _take(process.stdout),
            os.dup(at_socket) if at_socket >= 0 else _take(process.stdin),
            _take(process.stderr),
            boot_message(own_modules(), settings, own_codes() if config.own_interpreter else b""),
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
        """The value of `sys.platform` there."""
        self.workspace_path = str(said.get("workspace", ""))[:4096]
        """The path of the workspace there."""
        self.warnings: tuple[str, ...] = tuple(str(line)[:1000] for line in said.get("warnings", ())[:_MOST_WARNINGS])
        """One sentence for each module of the preload list that could not be imported."""

    @property
    def alive(self) -> bool:
        """True if the agent still answers."""
        return not self._connection.is_over

    def check_process(self) -> None:
        """Raise `SandboxUnavailable` in a forked child of the process that started the agent."""
        self._connection.owner.check()

    @property
    def said(self) -> str:
        """The end of the standard error of the agent, or of the command that runs it."""
        return self._connection.said[-1000:]

    @property
    def connection(self) -> Connection:
        """The connection to the agent. Raises `FileError` if it has ended, and in a forked child."""
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
        """Start a guest that waits for its first message. Returns at once; if the agent has ended, so has the guest.

        `watch` are limits of the whole tree that its keeper enforces: `memory_mib` and `cpu_seconds`. `memory_ends`
        returns, if this machine can tell, how many processes there were killed for lack of memory. Raises
        `SandboxUnavailable` in a forked child.
        """
        self.check_process()
        ends = self._stock.take() if self._stock is not None else None
        if ends is not None:
            return LentGuest(ends, stdin, watch or {}, memory_ends)
        return RemoteGuest(self._connection, stdin, watch or {}, memory_ends)

    def prepare(self) -> None:
        """Prepare what the next guests will need."""
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
        """Return the agent's files, usable as long as it lives. See `RemoteWorkspace`."""
        return RemoteWorkspace(
            lambda: self.connection, root, most_mib=most_mib, input_folder=input_folder, is_quiet=is_quiet
        )

    def empty(self, kept: Sequence[str] = ()) -> None:
        """Remove all files of the workspace except those below `input` and at the paths `kept`, with their parents.

        Blocks. Raises `OSError`.
        """
        ask(self.connection, {"op": "empty", "kept": list(kept)}, most=0)

    def close(self) -> None:
        """End the agent with all its guests, and wait for that.

        Blocks; does nothing a second time, nor in a forked child.
        """
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
    """Take over a pipe's descriptor from its file object."""
    descriptor = os.dup(file.fileno())
    file.close()
    return descriptor
