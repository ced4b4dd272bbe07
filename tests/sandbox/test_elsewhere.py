"""On a system without the modules of POSIX, the engines that need them say so, and the others work."""

from __future__ import annotations

import json
import subprocess
import sys

_ASKS = """
import json, sys
for name in ("fcntl", "grp", "pty", "pwd", "resource", "termios"):
    sys.modules[name] = None
import actbox
print(json.dumps({name: [found.works, found.reason] for name in actbox.ENGINES for found in [actbox.check(name)]}))
"""


def test_an_engine_that_cannot_be_imported_does_not_work_and_says_why() -> None:
    done = subprocess.run([sys.executable, "-c", _ASKS], capture_output=True, text=True, timeout=120, check=True)
    found = json.loads(done.stdout)
    works, reason = found["linux"]
    assert not works
    assert reason in [f"it needs the module {name}, which this system does not have" for name in ("fcntl", "resource")]
    assert not any(found[name][0] for name in ("container", "ssh", "process", "node"))
    assert found["rtfs"] == [True, ""]
