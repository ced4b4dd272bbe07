"""The `rtfs` engine: runs programs of a pure language in this process, where they can reach only their tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actbox.core.policy import Policy
from actbox.sandbox.traits import EngineCheck

from .engine import RtfsSandbox
from .traits import TRAITS

if TYPE_CHECKING:
    from actbox.sandbox.egress.upstream import Upstream

__all__ = ["TRAITS", "RtfsSandbox", "check", "open_engine"]


def check() -> EngineCheck:
    """Return that the engine works, which it does everywhere."""
    return EngineCheck(engine="rtfs", works=True, traits=TRAITS)


def open_engine(policy: Policy, upstream: Upstream | None) -> RtfsSandbox:
    """Return a sandbox; `upstream` is unused, because programs cannot reach a network."""
    return RtfsSandbox(policy)
