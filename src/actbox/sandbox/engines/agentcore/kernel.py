"""Code in the service's kernel: the only interpreter of its session that lasts from call to call."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from actbox.core.result import Artifact
from actbox.sandbox.guest.shell_requests.kernel import EXIT_GONE
from actbox.sandbox.shell import ControlCommand, ShellError

from .cancellation import soon
from .response import ServiceResponse, bytes_of, files_in
from .service import Service
from .task import Names, Task, new_names, pause_of

# The most seconds for an interrupted program to end before the kernel is killed, and for the kernel to end then.
_INTERRUPT_SECONDS: Final = 2.0
_KILL_SECONDS: Final = 20.0
# The most seconds that a caller waits for both.
_STOP_SECONDS: Final = 6.0
_LOOK_SECONDS: Final = 0.05
# The most seconds for the kernel to restart.
_ANEW_SECONDS: Final = 20.0
_MOST_PID: Final = 2**22
_SUFFIXES: Final = {"jpeg": ".jpg", "svg+xml": ".svg", "plain": ".txt"}


@dataclass(slots=True)
class Kernel:
    """The state of the kernel, which has one session at a time."""

    ended: str = ""
    """The reason why the session's variables are lost; empty while they exist."""
    interrupts: int = 0
    """The number of interrupts sent to the kernel."""
    shown: list[ServiceResponse] = field(default_factory=list)
    """The service's answers for programs that have ended, with everything except their output."""


class KernelCommand(ControlCommand):
    """The command of a request that the kernel carries out. `here` is the absolute path of the service's directory."""

    names: Names
    here: str
    kernel: Kernel
    waiter: str

    @classmethod
    def of(cls, command: Sequence[str], here: str, kernel: Kernel, waiter: str) -> KernelCommand:
        """Return the same command for the kernel; `waiter` is as for a `Task`."""
        made = cls(command)
        made.names, made.here, made.kernel, made.waiter = new_names(), here, kernel, waiter
        return made

    @property
    def request_fields(self) -> dict[str, Any]:
        """The request's fields about its files."""
        return {
            "input": f"{self.here}/{self.names.input}",
            "output_folder": f"{self.here}/{self.names.folder}",
            "pause": pause_of(self.waiter),
        }


class KernelTask(Task):
    """Code sent to the kernel, with the interface of `ShellProcess`."""

    def __init__(self, service: Service, command: KernelCommand, over: list[str]) -> None:
        super().__init__(service, command[0], over, waiter=command.waiter, names=command.names)
        self._here = command.here
        self._kernel = command.kernel

    def _content(self, stdin: bytes) -> bytes:
        return stdin

    async def _start(self) -> Any:
        # Programs may have changed the kernel's working directory, so the path is absolute; it is a Python literal.
        path = f"{self._here}/{self._names.input}"
        code = (
            f'import sys\nwith open({path!r}, "rb") as r:\n    exec(r.read(int(r.readline())), {{"r": r, "sys": sys}})'
        )
        return asyncio.create_task(self._service.call("executeCode", code=code, language="python"))

    async def _seen(self, handle: Any) -> ServiceResponse | None:
        return await handle if handle.done() else None

    async def _ended(self, end: bytes, handle: Any) -> int:
        self._kernel.shown.append(await asyncio.shield(handle))
        code = await super()._ended(end, handle)
        if code == EXIT_GONE:
            self._kernel.ended = "the service's kernel was started anew"
        return code

    def _without_end(self, seen: ServiceResponse) -> ShellError:
        said = (seen.stderr or seen.stdout or seen.text).strip()[-500:]
        self._kernel.ended = "the service's kernel has ended" + (f": {said}" if said else "")
        return ShellError(self._kernel.ended)

    async def _stopped(self, handle: Any) -> None:
        """Interrupt the program; if it does not end, kill the kernel."""
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
        text = next(iter(files_in(answer).values()), b"")
        number = int(text) if text.isdigit() and len(text) < 10 else 0
        return number if 1 < number <= _MOST_PID else 0

    async def _signal(self, name: str, pid: int) -> None:
        await self._service.call("executeCommand", command=shlex.join(["kill", f"-{name}", str(pid)]))


async def start_anew(service: Service) -> None:
    """Clear everything that the last session left in the kernel. Raises `ShellError`."""
    try:
        async with asyncio.timeout(_ANEW_SECONDS):
            answer = await service.call("executeCode", code="None", language="python", clearContext=True)
    except TimeoutError:
        raise ShellError(f"executeCode: the service has not answered within {_ANEW_SECONDS:.0f} seconds") from None
    if answer.is_error:
        raise ShellError(f"executeCode: {(answer.stderr or answer.text)[:500]}")


def shown_in(answers: Sequence[ServiceResponse], most: int, most_bytes: int) -> tuple[list[Artifact], list[str]]:
    """Return the images and resources that programs displayed as artifacts, and one sentence for each omission."""
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
    media_type = of.get("mimeType")
    return media_type if isinstance(media_type, str) else ""
