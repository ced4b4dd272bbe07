"""The `wasm` engine: CPython on WebAssembly by pyeryx, in worker processes, on any platform.

`engine.py` is the sandbox, `stock.py` the workers that wait, `worker.py` the handle on one and `inside.py` what runs
there; `conversation.py` is one program as the host hears it, `outcome.py` what that came to, `runtime.py` what all
workers share. What runs inside the instance is the guest's (`sandbox/guest/wasm.py`, `inbox.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actbox.core.policy import Policy
from actbox.sandbox.not_installed import NotInstalled

from .check import check
from .engine import WasmSandbox
from .traits import TRAITS

if TYPE_CHECKING:
    from actbox.sandbox.egress.upstream import Upstream

__all__ = ["TRAITS", "WasmSandbox", "check", "open_engine"]


def open_engine(policy: Policy, upstream: Upstream | None) -> WasmSandbox:
    """Return a sandbox. Raises `SandboxUnavailable` where pyeryx is not installed."""
    found = check()
    if not found.works:
        raise NotInstalled(found.reason, found.advice)
    return WasmSandbox(policy, upstream)
