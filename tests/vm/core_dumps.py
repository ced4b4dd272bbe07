"""Whether a program can have the host start its handler of core dumps (`core_pattern` with a pipe): no.

    tests/vm/run-in-vm -t 600 python tests/vm/core_dumps.py

The pattern is the whole machine's, so this runs in a machine of its own only. The kernel starts the handler in the root
of its first process.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import actbox

_PATTERN = Path("/proc/sys/kernel/core_pattern")
_FIRST_ROOT = Path("/proc/1/root")
_DIES = "import os, resource\nresource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
_GUESTS = {
    "a program": _DIES + "os.abort()",
    "a process that it starts": _DIES
    + "if os.fork() == 0: os.abort()\nassert os.wait()[1] & 0x7F == 6, 'it was not ended by a signal'",
    "another program": _DIES
    + "import subprocess\nassert subprocess.run(['sh', '-c', 'kill -ABRT $$']).returncode == -6",
}


def main() -> None:
    """End with 1 if a handler was started for a program, or if none is started where nothing stops it."""
    if "ACTBOX_EMULATED" not in os.environ:
        sys.exit("this changes core_pattern, which is the whole machine's: run it by tests/vm/run-in-vm")
    _PATTERN.write_text("|/bin/busybox mkdir /handled-%P")
    bare = subprocess.run([sys.executable, "-c", _DIES + "os.abort()"], check=False)
    failed = bare.returncode != -signal.SIGABRT or not _handled()
    print("outside of a sandbox, with the limit 0, the handler is", "not started" if failed else "started")
    with actbox.sync.open_sandbox("linux") as box:
        for name, code in _GUESTS.items():
            result = box.run(code)
            started = _handled()
            failed |= started or (result.error is not None and result.error.type != "SIGABRT")
            print(
                f"{name} in a sandbox, with the limit set to 0:", "started" if started else "not started", result.error
            )
    sys.exit(failed)


def _handled() -> bool:
    """Return whether a handler has been started since this was last asked; one that starts may take a while here."""
    time.sleep(3)
    found = list(_FIRST_ROOT.glob("handled-*"))
    for folder in found:
        folder.rmdir()
    return bool(found)


if __name__ == "__main__":
    main()
