"""Positive controls: attempts on an engine into which a weakness has been planted, where they must get through."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import actbox
from tests.escape.attempt import Attempt, NotApplicable, Outcome, Verdict
from tests.escape.ground import Fresh, need_counted_memory, one_box
from tests.escape.host_things import SECRET
from tests.escape.proofs import WHERE_MEMORY_IS_COUNTED
from tests.escape.suite import Finding
from tests.escape.weaknesses import Weakness

ENGINE = "linux"
"""The engine that weaknesses are planted into; the only one that isolates."""


async def prove(weakness: Weakness, attempts: Iterable[Attempt], things: dict[str, Any]) -> list[Finding]:
    """Make attempts, one after the other, where a weakness is planted; the engine works here, and nobody else uses it."""
    traits = actbox.check(ENGINE).traits
    assert traits is not None
    findings = []
    with weakness.planted():
        ground = weakness.ground(ENGINE, traits, things)
        async with one_box(ground) as box:
            fresh = Fresh(ground, box)
            for attempt in attempts:
                try:
                    if attempt.what in WHERE_MEMORY_IS_COUNTED:
                        need_counted_memory()
                except NotApplicable as reason:
                    findings.append(Finding(attempt, Verdict(Outcome.NOT_APPLICABLE, str(reason))))
                    continue
                # What gets through may spoil what it was after.
                with tempfile.TemporaryDirectory(prefix="actbox-escape-") as folder:
                    file = Path(folder) / "secret.txt"
                    file.write_text(SECRET)
                    ground.things = {**things, "host_folder": folder, "host_file": str(file)}
                    findings.append(Finding(attempt, await fresh.attempt(attempt)))
    return findings
