"""What the processes of a stopped sandbox have used is read in the event loop, so of a bounded number of them."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from actbox.sandbox.engines.linux import used

MANY = 300
# Each thread but the first has one child, which waits until the standard input ends.
CODE = f"""
import os, sys, threading
made = threading.Barrier({MANY})
def family():
    if os.fork() == 0:
        os.read(0, 1)
        os._exit(0)
    made.wait()
    os.read(0, 1)
threads = [threading.Thread(target=family) for _ in range({MANY} - 1)]
for thread in threads: thread.start()
made.wait()
print("up", flush=True)
for thread in threads: thread.join()
"""


@pytest.mark.parametrize("code", [CODE, "import os\nprint('up', flush=True)\nos.read(0, 1)"], ids=["many", "one"])
def test_a_bounded_number_of_files_is_read(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    opened: list[str] = []

    def note(path: str, *given: Any) -> Any:
        opened.append(path)
        return open(path, *given)

    monkeypatch.setattr(used, "open", note, raising=False)
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        pidfd = os.pidfd_open(process.pid)
        found = used.used_below(pidfd)
        os.close(pidfd)
    of_children = [path for path in opened if path.endswith("/children")]
    if code is CODE:
        assert found.max_rss_bytes > 2**20
        assert len(of_children) == 64 and len(opened) <= 64 + 2 * 64 + 1
    else:
        assert (found, len(of_children)) == (used.Used(), 1)
