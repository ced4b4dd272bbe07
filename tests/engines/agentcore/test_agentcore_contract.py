"""The agentcore engine keeps the contract, over the wire of the service."""

from __future__ import annotations

from typing import ClassVar

import pytest

import actbox
from actbox import ErrorKind, Policy, Sandbox, Unsupported
from actbox.testing import SandboxContract
from actbox.testing.cases.lifecycle import TraitsCases
from actbox.testing.cases.output import OutputCases
from actbox.testing.cases.values import ValueCases
from tests.engines.agentcore.code_service import CodeService


class _Opened:
    service: ClassVar[CodeService]

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def a_service(cls, service: CodeService) -> None:
        cls.service = service

    async def open(self, policy: Policy) -> Sandbox:
        return actbox.open_sandbox("agentcore", policy=policy, region="eu-west-1")


@pytest.mark.slow
class TestTheCore(_Opened, TraitsCases, OutputCases, ValueCases):
    """What is tried also where the whole contract takes too long."""

    share_box = True


@pytest.mark.engines
class TestAgentCore(_Opened, SandboxContract):
    share_box = True
    seconds_for_a_case = 600.0

    def test_a_program_cannot_write_its_inputs(self, box: Sandbox) -> None:
        """On this engine it can, and the traits say so: all is one user's there."""
        assert any("write to input/" in note for note in box.traits.notes)

    # The service has one kernel, so a second session at a time is refused, and how its process ended is not known.

    def test_a_session_has_nothing_of_other_runs_nor_they_of_it(self, box: Sandbox) -> None:
        async def tried() -> None:
            async with box.session() as session:
                assert (await session.run("mine = 1")).success
                assert not (await box.run("mine")).success
                assert (await session.run("mine")).value == 1
            async with box.session() as another:
                assert not (await another.run("mine")).success

        self._ground.run(tried())

    def test_many_sessions_live_at_once(self, box: Sandbox) -> None:
        async def tried() -> None:
            async with box.session():
                with pytest.raises(Unsupported, match="agentcore"):
                    box.session()

        self._ground.run(tried())

    def test_a_session_whose_process_ended_answers_that(self, box: Sandbox) -> None:
        async def tried() -> None:
            async with box.session() as session:
                first = await session.run("import os\nos._exit(3)")
                assert (first.success, first.state_kept) == (False, False)
                for _ in range(2):
                    after = await session.run("1")
                    assert after.error is not None
                    assert (after.error.kind, after.exit_code) == (ErrorKind.SANDBOX, 125)

        self._ground.run(tried())
