"""Sandboxes over a shell keep the contract, however their tool calls travel."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from actbox import Limits, Policy, Sandbox
from actbox.testing.cases.approval import ApprovalCases
from actbox.testing.cases.cancelling import CancellingCases
from actbox.testing.cases.parallel_calls import ParallelCallCases
from actbox.testing.cases.tools import ToolCases
from tests.engines.shell.local_shell import LocalShell, PlainShell

pytestmark = pytest.mark.engines


# By files, with output as it goes, the whole contract is tried in tests/testing/test_toy_of_the_page.py.


class _Calls(ToolCases, ParallelCallCases, ApprovalCases, CancellingCases):
    """What has to do with tool calls."""

    share_box = True
    seconds_for_a_case = 600.0


class TestByHttp(_Calls):
    async def open(self, policy: Policy) -> Sandbox:
        return LocalShell(policy, python=sys.executable, tool_address=("127.0.0.1", 0))


class TestByFilesThatAreLookedFor(_Calls):
    async def open(self, policy: Policy) -> Sandbox:
        if policy.limits == Limits():  # a thousand calls are as many processes
            policy = replace(policy, limits=Limits(wall_seconds=500))
        return PlainShell(policy, python=sys.executable)


class TestByHttpWithoutPartialOutput(_Calls):
    async def open(self, policy: Policy) -> Sandbox:
        return PlainShell(policy, python=sys.executable, tool_address=("127.0.0.1", 0))
