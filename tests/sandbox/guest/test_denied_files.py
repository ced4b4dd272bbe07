"""What a refusal by the system is told as: of the sandbox's doing, or the program's own."""

from __future__ import annotations

import errno
import os

import pytest

from actbox.sandbox.guest.failure import classified


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
