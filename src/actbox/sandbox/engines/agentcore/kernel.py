"""Code in the service's kernel, the one interpreter of a session that lasts from call to call."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from actbox.core.result import Artifact
from actbox.sandbox.guest.errands.kernel import EXIT_GONE
from actbox.sandbox.shell import Errand, ShellError

from .answer import Answer, bytes_of, files_in
from .command import Names, new_names
from .letting_go import soon
from .service import Service
from .task import Task, pause_of

_CODE: Final = """import sys
with open(%s, "rb") as r:
    exec(r.read(int(r.readline())), {"r": r, "sys": sys})
"""
# How long an interrupted program may take to end before the kernel is killed, and how long that may take.
_INTERRUPT_SECONDS: Final = 2.0
_KILL_SECONDS: Final = 20.0
# How long both are waited for.
_STOP_SECONDS: Final = 6.0
_LOOK_SECONDS: Final = 0.05
# How long a kernel may take to be started anew.
_ANEW_SECONDS: Final = 20.0
_MOST_PID: Final = 2**22
_SUFFIXES: Final = {"jpeg": ".jpg", "svg+xml": ".svg", "plain": ".txt"}


@dataclass(slots=True)
class Kernel:
    """What is known of the kernel, in which one session lives at a time."""

    ended: str = ""
    """Why the session's variables are gone, if they are."""
    interrupts: int = 0
    """How many interrupts it was sent."""
    shown: list[Answer] = field(default_factory=list)
    """What the service said of the programs that have ended, besides what they printed."""


class KernelErrand(Errand):
    """An errand that is done in the kernel. `here` is the service's folder, as an absolute path."""

    names: Names
    here: str
    kernel: Kernel
    waiter: str

    @classmethod
    def of(cls, errand: Sequence[str], here: str, kernel: Kernel, waiter: str) -> KernelErrand:
        """Return the same command for the kernel; `waiter` as for a `Task`."""
        made = cls(errand)
        made.names, made.here, made.kernel, made.waiter = new_names(), here, kernel, waiter
        return made

    @property
    def told(self) -> dict[str, Any]:
        """What a request has to say of it."""
        return {
            "input": f"{self.here}/{self.names.input}",
            "spool": f"{self.here}/{self.names.folder}",
            "pause": pause_of(self.waiter),
        }


class KernelTask(Task):
    """Code that was sent to the kernel, as `ShellProcess` has a process."""

    def __init__(self, service: Service, errand: KernelErrand, over: list[str]) -> None:
        super().__init__(service, errand[0], over, waiter=errand.waiter, names=errand.names)
        self._here = errand.here
        self._kernel = errand.kernel

    def _content(self, stdin: bytes) -> bytes:
        return stdin

    async def _start(self) -> Any:
        # Where the kernel is by now its programs have decided, so the path is absolute; as a literal of Python.
        path = f"{self._here}/{self._names.input}"
        code = (
            f'import sys\nwith open({path!r}, "rb") as r:\n    exec(r.read(int(r.readline())), {{"r": r, "sys": sys}})'
        )
        return asyncio.create_task(self._service.call("executeCode", code=code, language="python"))

    async def _seen(self, handle: Any) -> Answer | None:
        return await handle if handle.done() else None

    async def _ended(self, end: bytes, handle: Any) -> int:
        self._kernel.shown.append(await asyncio.shield(handle))
        code = await super()._ended(end, handle)
        if code == EXIT_GONE:
            self._kernel.ended = "the service's kernel was started anew"
        return code

    def _without_end(self, seen: Answer) -> ShellError:
        said = (seen.stderr or seen.stdout or seen.text).strip()[-500:]
        self._kernel.ended = "the service's kernel has ended" + (f": {said}" if said else "")
        return ShellError(self._kernel.ended)

    async def _stopped(self, handle: Any) -> None:
        """Interrupt the program; end the kernel where that does not end it."""
        try:
            while not handle.done():
                if pid := await self._pid():
                    self._kernel.interrupts += 1
                    await self._signal("INT", pid)
                    await asyncio.wait([handle], timeout=_INTERRUPT_SECONDS)
                    if handle.done():
                        break
                    self._kernel.ended = "a program could not be interrupted, so the service's kernel was ended"
                    await self._signal("KILL", pid)
                    await asyncio.wait([handle], timeout=_KILL_SECONDS)
                    return
                await asyncio.wait([handle], timeout=_LOOK_SECONDS)
            handle.exception()
        except ShellError as error:
            self._kernel.ended = f"a program could not be interrupted: {error}"

    async def _stop(self, handle: Any) -> None:
        stopping = await soon(self._stopped(handle), _STOP_SECONDS)
        if not stopping.done():
            self._kernel.ended = "the service has not said that a program was ended, which may go on in its kernel"

    async def _pid(self) -> int:
        answer = await self._service.call("readFiles", paths=[f"{self._names.folder}/pid"])
        told = next(iter(files_in(answer).values()), b"")
        number = int(told) if told.isdigit() and len(told) < 10 else 0
        return number if 1 < number <= _MOST_PID else 0

    async def _signal(self, name: str, pid: int) -> None:
        await self._service.call("executeCommand", command=shlex.join(["kill", f"-{name}", str(pid)]))


async def start_anew(service: Service) -> None:
    """Have the kernel forget all that the session before has left in it."""
    try:
        async with asyncio.timeout(_ANEW_SECONDS):
            answer = await service.call("executeCode", code="None", language="python", clearContext=True)
    except TimeoutError:
        raise ShellError(f"executeCode: the service has not answered within {_ANEW_SECONDS:.0f} seconds") from None
    if answer.is_error:
        raise ShellError(f"executeCode: {(answer.stderr or answer.text)[:500]}")


def shown_in(answers: Sequence[Answer], most: int, most_bytes: int) -> tuple[list[Artifact], list[str]]:
    """Return what programs have shown, images and resources, as artifacts; and a sentence for what was left out."""
    found: list[Artifact] = []
    left = most_bytes
    for block in (block for answer in answers for block in answer.content):
        data, media_type, name = _shown(block)
        if data is None:
            continue
        if len(found) >= most or len(data) > left:
            return found, ["what was shown is more than the limits on artifacts allow: the rest was left out"]
        left -= len(data)
        kind = media_type.partition("/")[2].partition(";")[0]
        suffix = _SUFFIXES.get(kind, f".{kind}" if kind.isalnum() else ".bin")
        found.append(Artifact(name or f"shown-{len(found) + 1}{suffix}", data, media_type))
    return found, []


def _shown(block: Any) -> tuple[bytes | None, str, str]:
    media_type = _media_type(block)
    if block.get("type") == "image" and isinstance(block.get("data"), bytes):
        return block["data"], media_type or "image/png", ""
    resource = block.get("resource")
    if block.get("type") == "resource" and isinstance(resource, dict):
        name = str(resource.get("uri") or "").rstrip("/").rpartition("/")[2]
        name = name if name not in (".", "..") and name.isprintable() else ""
        return bytes_of(resource), _media_type(resource) or media_type or "application/octet-stream", name
    return None, "", ""


def _media_type(of: Any) -> str:
    told = of.get("mimeType")
    return told if isinstance(told, str) else ""
