"""What becomes of one request, noted as it goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from actbox.core.events import NetworkRequest

from .refusal import Denied

_MOST_OF_A_METHOD = 40
_MOST_OF_A_PATH = 2000


@dataclass(slots=True, kw_only=True)
class Record:
    """One request and its outcome so far. `target` is a path with its query, which is left out of what is told.

    Bytes are those of bodies; in a tunnel, those of the encrypted connection.
    """

    host: str = ""
    port: int = 0
    method: str = ""
    target: str = ""
    decision: Literal["allowed", "refused"] = "allowed"
    reason: str = ""
    status: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0

    def failed(self, denied: Denied) -> None:
        """Note why the request came to nothing."""
        self.decision = "refused" if denied.by_policy else "allowed"
        self.reason = denied.sentence

    def told(self) -> NetworkRequest:
        """Return the event."""
        return NetworkRequest(
            host=self.host,
            port=self.port,
            method=self.method[:_MOST_OF_A_METHOD],
            path=self.target.partition("?")[0][:_MOST_OF_A_PATH],
            decision=self.decision,
            reason=self.reason,
            status=self.status,
            sent_bytes=self.sent_bytes,
            received_bytes=self.received_bytes,
        )
