"""Every engine that works here keeps the contract of the kit; a new one joins by its row in the table of engines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import pytest

import actbox
from actbox import Policy, Sandbox
from actbox.testing import SandboxContract
from tests.conftest import INSTALLED_APART, engine_check

# Engines that take long to start: cases that need no policy of their own share a sandbox.
_SLOW_TO_START: Final = ("container", "hyperlight", "node", "wasm")
# What the deep suite in tests/contract tries in every run need not be tried so in every one as well.
_APART: Final = INSTALLED_APART | {"process"}
# What an engine has to be told beside the policy; one that needs a server has it in a test module of its own.
_NEEDS_A_PLACE: Final = ("ssh",)


class EngineContract(SandboxContract):
    """The contract of an engine by its name."""

    engine: ClassVar[str]

    async def open(self, policy: Policy) -> Sandbox:
        return actbox.open_sandbox(self.engine, policy=policy, allow_unisolated=True)


def _class_of(engine: str) -> type:
    found = engine_check(engine)
    name = f"Test{engine.title()}"
    if not found.works:

        def test_it_works_here(self: object) -> None:
            pytest.skip(f"the {engine} engine does not work here: {found.reason}. {found.advice}")

        return type(name, (), {"test_it_works_here": test_it_works_here})
    given: Mapping[str, Any] = {"engine": engine, "share_box": engine in _SLOW_TO_START, "__module__": __name__}
    made = type(name, (EngineContract,), dict(given))
    return pytest.mark.engines(made) if engine in _APART else made


for _name in actbox.ENGINES:
    if _name not in _NEEDS_A_PLACE:
        globals()[f"Test{_name.title()}"] = _class_of(_name)
