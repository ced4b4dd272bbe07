"""What a refusal by the system is told as: of the sandbox's doing, or the program's own."""

from __future__ import annotations

import errno
import os

import pytest

import actbox
from actbox.sandbox.guest.error_hints import classified
from tests.conftest import engine_check


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("/etc/x", "POLICY"),
        (b"/etc/x", "POLICY"),
        ("/workspace/../etc/x", "POLICY"),
        ("/workspace/a", "RUNTIME"),
        ("/tmp/a", "RUNTIME"),
        ("a", "RUNTIME"),
        (None, "RUNTIME"),
    ],
)
def test_no_access_is_the_policys_outside_of_where_programs_write(name: str | bytes | None, kind: str) -> None:
    error = OSError(errno.EACCES, os.strerror(errno.EACCES), name)
    found, _, hint = classified(error, "program.py", ())
    assert (found, "write below /workspace" in hint) == (kind, kind == "POLICY")


@pytest.mark.parametrize(
    ("program", "hint"),
    [
        ("import os\nos.kill(1, 9)", "signals only to processes that it has started"),
        (
            "import fcntl\nfcntl.fcntl(open('/tmp/x', 'w+'), fcntl.F_SETLEASE, fcntl.F_WRLCK)",
            "lock with fcntl.flock or fcntl.lockf",
        ),
        (
            "import fcntl\nfcntl.fcntl(\n    open('/tmp/x', 'w+'),\n    fcntl.F_SETLEASE,\n    fcntl.F_WRLCK,\n)",
            "lock with fcntl.flock or fcntl.lockf",
        ),
        ("import os\nos.nice(-1)  # terminate early", "the sandbox does not allow this call; do without it"),
        ("import mmap, os\nos.kill, os.nice(-1), mmap.mmap", "the sandbox does not allow this call; do without it"),
        (
            "import time\ntime.clock_settime(time.CLOCK_REALTIME, 0)",
            "the sandbox does not allow this call; do without it",
        ),
        ("open('/etc/x', 'w')", "write below /workspace or /tmp only"),
        ("%%bash\nls", "give it to subprocess.run(['bash', '-c', '...'], check=True)"),
        ("%%time\nx = 1", "leave `%%time` out"),
    ],
)
async def test_what_is_refused_says_what_to_do_instead(program: str, hint: str) -> None:
    if not (found := engine_check("linux")).works:
        pytest.skip(f"the linux engine does not work here: {found.reason}")
    async with actbox.open_sandbox("linux") as box:
        error = (await box.run(program)).error
    assert error is not None and hint in error.hint, error
