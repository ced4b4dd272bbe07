"""The clearance of a connection: whether it may still send what a sandbox with its present label has."""

from __future__ import annotations

from actbox.core.domains import AllowedDomain
from actbox.sandbox.taint import LabelRefused, Outlet, Taint

from .refusal_responses import Denied


class Clearance:
    """The entry that a connection is used for, against the label of its sandbox. `outlet` is the connection."""

    def __init__(self, taint: Taint, entry: AllowedDomain, host: str, outlet: Outlet) -> None:
        self._taint = taint
        self._entry = entry
        self._host = host
        self._outlet = outlet
        self._cleared = taint.clearance(entry.cleared)
        self._has_received = False

    def check(self) -> None:
        """Raise `Denied` if nothing may be sent any more."""
        if refusal := self._taint.refusal(self._host, self._cleared):
            raise label_denied(refusal)

    def receive(self) -> None:
        """Raise the sandbox's label to that of the host's answers, before one is passed on.

        All other connections that are not cleared for it are closed; this one passes on the answer, and sends nothing.
        Raises `Denied` if the sandbox must not read it.
        """
        try:
            self._taint.raise_to(self._entry.label, keep=self._outlet)
        except LabelRefused as refused:
            raise label_denied(str(refused)) from None
        self._has_received = True

    @property
    def only_receives(self) -> bool:
        """True if the answer has begun to arrive, and nothing more may be sent."""
        return self._has_received and not self._taint.allows(self._cleared)


def label_denied(sentence: str) -> Denied:
    """Return the refusal of a request or a connection for the label of its sandbox."""
    return Denied(403, f"Refused by the network policy: {sentence}.")
