"""The `wasm` engine: CPython on WebAssembly by pyeryx, in worker processes, on any platform.

`engine.py` is the sandbox, `pool.py` the workers that wait, `worker.py` the host's handle on one worker process, and
`worker_process.py` the code of that process. `program.py` is one program as the host receives it, `outcome.py` makes
its outcome, and `runtime.py` has the files that all workers share. The guest's modules run inside an instance
(`sandbox/guest/wasm.py`, `inbox.py`).
"""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from actbox.core.policy import Policy
from actbox.sandbox.traits import EngineCheck, NotInstalled

from .engine import WasmSandbox
from .traits import TRAITS
from .worker import ADVICE, ENGINE_MISSING

if TYPE_CHECKING:
    from actbox.sandbox.egress.upstream import Upstream

__all__ = ["TRAITS", "WasmSandbox", "check", "open_engine"]
_OLDEST_PYTHON: Final = (3, 12)
_WANTED: Final = (0, 11)


def open_engine(policy: Policy, upstream: Upstream | None) -> WasmSandbox:
    """Return a sandbox. Raises `SandboxUnavailable` if pyeryx is not installed."""
    found = check()
    if not found.works:
        raise NotInstalled(found.reason, found.advice)
    return WasmSandbox(policy, upstream)


def check() -> EngineCheck:
    """Check that the library is installed, in a version that the engine supports."""
    if sys.version_info < _OLDEST_PYTHON:
        needed, here = (".".join(map(str, version[:2])) for version in (_OLDEST_PYTHON, sys.version_info))
        reason = f"pyeryx, by which the wasm engine runs, is made for Python {needed} and later, and this is {here}"
        advice = f"run actbox in Python {needed} or later, with {ADVICE}"
        return EngineCheck(engine="wasm", works=False, reason=reason, advice=advice, traits=TRAITS)
    if find_spec("eryx") is None:
        return EngineCheck(engine="wasm", works=False, reason=ENGINE_MISSING, advice=ADVICE, traits=TRAITS)
    try:
        found = version("pyeryx")
    except PackageNotFoundError:
        found = ""
    if tuple(found.split(".")[:2]) != tuple(map(str, _WANTED)):
        reason = f"the wasm engine is made for pyeryx {'.'.join(map(str, _WANTED))}, not {found or 'another eryx'}"
        return EngineCheck(engine="wasm", works=False, reason=reason, advice=ADVICE, traits=TRAITS)
    return EngineCheck(engine="wasm", works=True, traits=TRAITS)
