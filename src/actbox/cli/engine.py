"""From `--sandbox` and `--allow-unisolated` to a sandbox, with sentences that name these options."""

from __future__ import annotations

from actbox.core.errors import SandboxUnavailable
from actbox.core.policy import Policy
from actbox.sandbox.contract import Sandbox
from actbox.sandbox.opening import ENGINES, open_sandbox

from .exits import UsageError


def open_engine(engine: str, *, allow_unisolated: bool, policy: Policy | None = None) -> Sandbox:
    """Return what `open_sandbox` does. Raises `UsageError` for an engine that there is not."""
    if engine not in ("auto", *ENGINES):
        raise UsageError(
            f"--sandbox {engine}: there is no such engine; there are: auto, {', '.join(ENGINES)}",
            "actbox doctor says which of them work here",
        )
    if engine == "process" and not allow_unisolated:
        raise SandboxUnavailable(
            "the process engine isolates nothing: programs run as you; if that is meant, say --allow-unisolated too"
        )
    return open_sandbox(engine, policy=policy, allow_unisolated=allow_unisolated)
