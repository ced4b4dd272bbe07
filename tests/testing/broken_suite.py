"""The contract on each sandbox that is broken, and on the sound one; `test_broken_sandboxes.py` runs cases of it."""

from __future__ import annotations

from typing import ClassVar

from actbox import Policy, Sandbox
from actbox.testing import SandboxContract
from tests.testing.broken import BROKEN, Sound


class _Contract(SandboxContract):
    kind: ClassVar[type[Sound]]

    async def open(self, policy: Policy) -> Sandbox:
        return self.kind(policy)


for _kind in (Sound, *BROKEN):
    _name = f"Test{_kind.__name__}"
    globals()[_name] = type(_name, (_Contract,), {"kind": _kind, "seconds_for_a_case": _kind.seconds})
