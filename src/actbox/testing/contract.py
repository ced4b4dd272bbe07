"""`SandboxContract`: the contract of `actbox.Sandbox` as a test class, for any sandbox that can be opened."""

from __future__ import annotations

from .cases.alone import AloneCases, MapCases
from .cases.approval import ApprovalCases
from .cases.artifacts import ArtifactCases
from .cases.at_once import AtOnceCases
from .cases.big_data import BigDataCases
from .cases.cancelling import CancellingCases
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


# The last is tried first: pytest collects what a class inherits from the end.
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
