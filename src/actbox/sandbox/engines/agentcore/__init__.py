"""The `agentcore` engine: sessions of Amazon Bedrock AgentCore's code interpreter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actbox.core.policy import Policy

from .check import check
from .engine import AgentCoreSandbox
from .options import SYSTEM_INTERPRETER, AgentCoreOptions
from .traits import TRAITS

if TYPE_CHECKING:
    from actbox.sandbox.egress.upstream import Upstream

__all__ = ["TRAITS", "AgentCoreOptions", "AgentCoreSandbox", "check", "open_engine"]


def open_engine(
    policy: Policy,
    upstream: Upstream | None,
    *,
    region: str | None = None,
    identifier: str = SYSTEM_INTERPRETER,
    session_name: str | None = None,
    session_seconds: int = 900,
    client: Any = None,
    python: str = "python3",
    node: str = "node",
) -> AgentCoreSandbox:
    """Return a sandbox in a session of the service's, which starts with it; see `AgentCoreOptions`."""
    options = AgentCoreOptions(
        region=region,
        identifier=identifier,
        session_name=session_name,
        session_seconds=session_seconds,
        client=client,
        python=python,
        node=node,
    )
    return AgentCoreSandbox(policy, options)
