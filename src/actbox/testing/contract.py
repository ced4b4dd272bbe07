"""`SandboxContract` and `SandboxEscape`: the contract of `actbox.Sandbox` and the escape attempts, as test classes."""

from __future__ import annotations

from pathlib import Path

import pytest

from actbox.core.limits import Limits
from actbox.testing.cases.ground import Cases, OpenBox
from actbox.testing.cases.needs import ISOLATED, case, limit, needing, python

from .cases.alone import AloneCases, MapCases
from .cases.approval import ApprovalCases
from .cases.artifacts import ArtifactCases
from .cases.at_once import AtOnceCases
from .cases.big_data import BigDataCases
from .cases.cancelling import CancellingCases
from .cases.children import ChildCases
from .cases.commands import CommandCases
from .cases.errors import BadInputCases, ErrorCases
from .cases.events import EventCases
from .cases.files import FileCases, WorkspaceCases
from .cases.forks import ForkCases
from .cases.lifecycle import LifecycleCases, NothingLeftCases, TraitsCases
from .cases.limits import LimitCases
from .cases.mounts import MountCases
from .cases.output import OutputCases, ResultCases
from .cases.parallel_calls import ParallelCallCases
from .cases.sessions import SessionCases, SessionLifeCases
from .cases.tools import ToolCases
from .cases.unicode import UnicodeCases
from .cases.values import FreshCases, InputCases, StartCases, ValueCases
from .escape.attempts import EscapeAttempt, escape_attempts
from .escape.prey import Prey


# Listed in reverse: pytest collects inherited cases starting with the last base class.
class SandboxContract(
    NothingLeftCases,
    BigDataCases,
    UnicodeCases,
    MountCases,
    CommandCases,
    AtOnceCases,
    MapCases,
    AloneCases,
    ForkCases,
    SessionLifeCases,
    SessionCases,
    CancellingCases,
    ApprovalCases,
    ParallelCallCases,
    ToolCases,
    LimitCases,
    ArtifactCases,
    WorkspaceCases,
    FileCases,
    EventCases,
    BadInputCases,
    ErrorCases,
    FreshCases,
    ChildCases,
    StartCases,
    InputCases,
    ValueCases,
    ResultCases,
    OutputCases,
    LifecycleCases,
    TraitsCases,
):
    """The contract, to be subclassed by a test class that says how a sandbox is opened.

        class TestMySandbox(SandboxContract):
            async def open(self, policy):
                return MySandbox(policy)

    Each case is a sentence of `actbox.sandbox.contract`. What the sandbox's `traits` say that it lacks is not tried:
    the case checks then that it is refused as the contract says. `share_box` and `seconds_for_a_case` are for slow
    engines.
    """


class SandboxEscape(Cases):
    """Attempts to get out, to be subclassed by a test class that says how a sandbox is opened.

        class TestMyWalls(SandboxEscape):
            async def open(self, policy):
                return MySandbox(policy)

    They are an attacker's first hundred ideas and no proof that there is no other; what gets through is a hole. A
    sandbox that does not isolate must say so in the notes of its traits, and no attempt is made.
    """

    @pytest.mark.parametrize("attempt", escape_attempts(), ids=lambda attempt: attempt.name)
    @case(python("subset"), ISOLATED)
    async def test_it_does_not_get_through(self, open_box: OpenBox, tmp_path: Path, attempt: EscapeAttempt) -> None:
        """An escape attempt does not get through."""
        await needing(self, *(limit(name) for name in attempt.limits if name in Limits().to_dict()))
        box = await open_box(attempt.policy)
        with Prey(tmp_path).there() as prey:
            got_through = await attempt.got_through(box, prey)
        assert not got_through, f"{attempt.name}: {got_through}"
