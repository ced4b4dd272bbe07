"""The `rtfs` engine: programs of a pure language, in this process, that can reach nothing but their tools."""

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
    """Return that it works, as it does everywhere."""
    return EngineCheck(engine="rtfs", works=True, traits=TRAITS)


def open_engine(policy: Policy, upstream: Upstream | None) -> RtfsSandbox:
    """Return a sandbox; nothing in it can reach a network, so `upstream` is of no use to it."""
    return RtfsSandbox(policy)
