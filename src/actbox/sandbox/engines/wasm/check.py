"""Whether the `wasm` engine works here."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Final

from actbox.sandbox.traits import EngineCheck

from .traits import TRAITS
from .worker import ADVICE, ENGINE_MISSING

_OLDEST_PYTHON: Final = (3, 12)
_WANTED: Final = (0, 11)


def check() -> EngineCheck:
    """Look for the library, and for a version of it that the engine knows."""
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
