"""Which engine a class is for, and what is said where there is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from actbox.core.errors import SandboxUnavailable
from actbox.core.policy import Policy
from actbox.sandbox.contract import Sandbox
from actbox.sandbox.opening import ENGINES, open_sandbox

_EXTRAS: Final = {"wasm": "wasm", "monty": "monty", "hyperlight": "hyperlight"}


def opener(engine: str) -> Callable[[Policy], Sandbox]:
    """Return what opens sandboxes of an engine. Raises `SandboxUnavailable` where the engine is not installed."""
    if engine not in ENGINES:
        extra = _EXTRAS.get(engine)
        how = (
            f"install the extra: pip install 'actbox[{extra}]'" if extra else "install a version of actbox that has it"
        )
        raise SandboxUnavailable(f"the engine {engine!r} is not installed; {how}. Here are: {', '.join(ENGINES)}")
    return lambda policy: open_sandbox(engine, policy=policy)
