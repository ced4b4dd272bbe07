"""What is said where an engine needs something that is not installed: once why, and once what to do."""

from __future__ import annotations

from actbox.core.errors import SandboxUnavailable

from .traits import EngineCheck


class NotInstalled(SandboxUnavailable):
    """An engine lacks what can be installed: `reason` says what that is, `advice` how it is had."""

    def __init__(self, reason: str, advice: str) -> None:
        super().__init__(f"{reason}: {advice}")
        self.reason = reason
        self.advice = advice


def check_failed(engine: str, error: SandboxUnavailable, advice: str) -> EngineCheck:
    """Return what an engine's check says of an error; `advice` is for one that brings none."""
    if isinstance(error, NotInstalled):
        return EngineCheck(engine=engine, works=False, reason=error.reason, advice=error.advice)
    return EngineCheck(engine=engine, works=False, reason=str(error), advice=advice)
