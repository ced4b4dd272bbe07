"""How many watches of files a sandbox may have, and all sandboxes of an ordinary user."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

import actbox
from actbox.sandbox.engines.linux import stock
from actbox.sandbox.engines.linux.guest_ids import guest_ids
from tests.conftest import engine_check

ROOT = Path(__file__).parents[3]
_NS_GET_OWNER_UID = 0xB704
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


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user's guests are that very user outside")
def test_under_root_the_kernel_counts_what_a_guest_has_to_the_guests_id_and_not_to_roots() -> None:
    found = engine_check("linux")
    if not found.works:
        pytest.skip(f"the linux engine does not work here: {found.reason}")

    @actbox.tool
    def owners() -> list[int]:
        """Return the users who made the user namespaces of the sandboxes that there are."""
        made: list[int] = []
        for one in stock._stocks.values():
            nursery = one.nursery.pid
            for pid in Path(f"/proc/{nursery}/task/{nursery}/children").read_text().split():
                if Path(f"/proc/{pid}/comm").read_text() == "actbox-mounts\n":  # the nursery's helper
                    continue
                with open(f"/proc/{pid}/ns/user") as namespace:
                    answer = bytearray(4)
                    fcntl.ioctl(namespace, _NS_GET_OWNER_UID, answer)
                    made += struct.unpack("=I", answer)
        return made

    result = actbox.run("owners()", tools=[owners], engine="linux")
    assert result.value
    assert set(result.value) <= set(guest_ids().ids)
