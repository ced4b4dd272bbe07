"""`SandboxEscape`: the attempts as a test class, for any sandbox of Python that says that it isolates."""

from __future__ import annotations

from pathlib import Path

import pytest

from actbox.core.limits import Limits
from actbox.testing.cases.case import Cases, OpenBox, case, needing
from actbox.testing.cases.needs import ISOLATED, limit, python

from .attempts import EscapeAttempt, escape_attempts
from .prey import Prey


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
        """A hostile program is kept away from the host."""
        await needing(self, *(limit(name) for name in attempt.limits if name in Limits().to_dict()))
        box = await open_box(attempt.policy)
        with Prey(tmp_path).there() as prey:
            got_through = await attempt.got_through(box, prey)
        assert not got_through, f"{attempt.name}: {got_through}"
