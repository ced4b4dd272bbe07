"""Every engine that works here keeps the contract of the kit."""

from __future__ import annotations

from typing import ClassVar

import pytest

import actbox
from actbox import Policy, Sandbox
from actbox.testing import SandboxContract


class _Engine(SandboxContract):
    engine: ClassVar[str]

    @classmethod
    def setup_class(cls) -> None:
        found = actbox.check(cls.engine)
        if not found.works:
            pytest.skip(f"the {cls.engine} engine does not work here: {found.reason}. {found.advice}")
        super().setup_class()

    async def open(self, policy: Policy) -> Sandbox:
        return actbox.open_sandbox(self.engine, policy=policy, allow_unisolated=True)


class TestLinux(_Engine):
    engine = "linux"


class TestProcess(_Engine):
    engine = "process"


class TestRtfs(_Engine):
    engine = "rtfs"
