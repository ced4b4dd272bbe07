"""The answers to the tool calls of one run: files in its folder, one request each. Calls come with the run's output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from actbox.sandbox.channel.mailbox import Mailbox

from .service import Service, ServiceError


class AgentCoreMailbox(Mailbox):
    """Mail of a run whose mail lies in `place`, relative to the service's folder; `folder` is the same, absolute.

    The service cannot rename a file, nor write it all at once, so the size of each piece is told beside it
    (`guest/mail/written.py`). `closed` is called when the run is over.
    """

    brings_calls = False

    def __init__(self, service: Service, place: str, folder: str, closed: Callable[[], None]) -> None:
        self._service = service
        self._place = place
        self._folder = folder
        self._closed = closed

    @property
    def told(self) -> dict[str, Any]:
        return {"by": "written", "folder": self._folder}

    async def wait(self, number: int) -> bytes | None:
        raise NotImplementedError("calls come with the run's output")

    async def put(self, number: int, piece: bytes) -> None:
        path = f"{self._place}/in/{number}"
        content = [{"path": path, "blob": piece}, {"path": f"{path}.size", "text": str(len(piece))}]
        wrote = await self._service.call("writeFiles", content=content)
        if wrote.is_error:
            raise ServiceError(f"writeFiles: {wrote.text[:500]}")

    async def close(self) -> None:
        self._closed()
