"""Every engine that works here keeps the contract of the kit; a new one joins by its row in the table of engines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

import pytest

import actbox
from actbox import Policy, Sandbox
from actbox.testing import SandboxContract
from actbox.testing.cases.alone import MapCases
from actbox.testing.cases.approval import ApprovalCases
from actbox.testing.cases.artifacts import ArtifactCases
from actbox.testing.cases.at_once import AtOnceCases
from actbox.testing.cases.big_data import BigDataCases
from actbox.testing.cases.cancelling import CancellingCases
from actbox.testing.cases.children import ChildCases
from actbox.testing.cases.errors import ErrorCases
from actbox.testing.cases.events import EventCases
from actbox.testing.cases.files import WorkspaceCases
from actbox.testing.cases.limits import LimitCases
from actbox.testing.cases.parallel_calls import ParallelCallCases
from actbox.testing.cases.sessions import SessionCases, SessionLifeCases
from actbox.testing.cases.tools import ToolCases
from actbox.testing.cases.unicode import UnicodeCases
from actbox.testing.cases.values import FreshCases, InputCases, ValueCases
from tests.conftest import INSTALLED_APART, engine_check
from tests.left_out import is_left_out

# Engines that take long to start: cases that need no policy of their own share a sandbox.
_SLOW_TO_START: Final = ("container", "hyperlight", "node", "wasm")
# The groups of cases that are slow on an engine. It has tests of its own for what they are about, some of them quick.
_SLOW_ON_LINUX: Final = (
    *(LimitCases, CancellingCases, ChildCases, MapCases, AtOnceCases, ParallelCallCases),
    *(BigDataCases, UnicodeCases, SessionLifeCases),
)
_SLOW_ELSEWHERE: Final = (
    *_SLOW_ON_LINUX,
    *(ToolCases, ValueCases, InputCases, FreshCases, ErrorCases, EventCases, ArtifactCases, WorkspaceCases),
    *(ApprovalCases, SessionCases),
)
_SLOW: Final = {"linux": _SLOW_ON_LINUX, "node": _SLOW_ELSEWHERE, "wasm": _SLOW_ELSEWHERE}
# What the deep suite in tests/contract tries in every run need not be tried so in every one as well.
_APART: Final = INSTALLED_APART | {"process"}
# What an engine has to be told beside the policy; one that needs a server has it in a test module of its own.
_NEEDS_A_PLACE: Final = ("ssh",)


class _Opened:
    engine: ClassVar[str]

    async def open(self, policy: Policy) -> Sandbox:
        return actbox.open_sandbox(self.engine, policy=policy, allow_unisolated=True)


def _classes_of(engine: str) -> Iterator[type]:
    """Yield the test classes of an engine: one of the whole contract, or a second one of the cases that are slow."""
    found = engine_check(engine)
    name = f"Test{engine.title()}"
    if not found.works:

        def test_it_works_here(self: object) -> None:
            pytest.skip(f"the {engine} engine does not work here: {found.reason}. {found.advice}")

        yield type(name, (), {"test_it_works_here": test_it_works_here})
        return
    given: Mapping[str, Any] = {"engine": engine, "share_box": engine in _SLOW_TO_START, "__module__": __name__}
    slow = _SLOW.get(engine, ())
    groups = tuple(group for group in SandboxContract.__bases__ if group not in slow)
    made = type(name, (_Opened, *groups), dict(given))
    yield pytest.mark.engines(made) if engine in _APART else made
    if slow:
        yield pytest.mark.slow(type(f"{name}Slowly", (_Opened, *slow), dict(given)))


for _name in actbox.ENGINES:
    if _name not in _NEEDS_A_PLACE and not (_name in _APART and is_left_out(["engines"])):
        globals().update({made.__name__: made for made in _classes_of(_name)})
