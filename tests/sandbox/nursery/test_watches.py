"""How many watches of files a sandbox may have, and all sandboxes of an ordinary user."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import engine_check

ROOT = Path(__file__).parents[3]
_HOST = Path("/proc/sys/fs/inotify/max_user_instances")


@pytest.mark.parametrize(
    ("then", "most"),
    [("", lambda: int(_HOST.read_text()) // 2), ("bound_own(os.open('/proc', os.O_RDONLY))", lambda: 8)],
    ids=["of all sandboxes", "of one"],
)
def test_a_user_namespace_of_ours_has_bounds_of_its_own(then: str, most: object) -> None:
    found = engine_check("linux")
    if not found.works:
        pytest.skip(f"the linux engine does not work here: {found.reason}")
    assert callable(most)
    code = f"""
import os
from actbox.sandbox.nursery.identity import Identity
from actbox.sandbox.nursery.watches import bound_own
Identity(False).enter()
{then}
print(open("/proc/sys/user/max_inotify_instances").read(), end="")
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == f"{most()}\n", done
