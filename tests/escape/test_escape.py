"""Runs every attempt against every engine that claims to isolate, and checks that the attempts are worth something.

System call numbers in the attempts are those of x86-64: on another machine those that use them are skipped.
"""

from __future__ import annotations

import os
import platform
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import actbox
from actbox import FileMount, Policy, Sandbox
from tests.conftest import OpenBox
from tests.escape.attempts import ATTEMPTS, PRELUDE, Attempt

CANARY = "canary-" + "5f0e9a"


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """Things of this host that a guest must not reach, all of them really there."""
    secret = tmp_path / "secret.txt"
    secret.write_text("secret of the host")
    monkeypatch.setenv("ACTBOX_TEST_CANARY", CANARY)
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as abstract:
        name = f"actbox-test-{os.getpid()}"
        abstract.bind(f"\0{name}")
        abstract.listen()
        yield {
            "host_file": str(secret),
            "checkout": str(Path(__file__).parents[1]),
            "host_pid": os.getpid(),
            "host_port": server.getsockname()[1],
            "host_name": socket.gethostname(),
            "abstract": name,
            "canary": CANARY,
            "canary_backwards": f"ACTBOX_TEST_CANARY={CANARY}"[::-1],
        }


@pytest_asyncio.fixture
async def guarded(isolated_engine: str, open_box: OpenBox, host: dict[str, Any]) -> AsyncIterator[Sandbox]:
    yield await open_box()


def program(attempt: Attempt, host: dict[str, Any]) -> str:
    code = attempt.code
    for name, value in host.items():
        code = code.replace(f"{{{name}!r}}", repr(value)).replace(f"{{{name}}}", str(value))
    return PRELUDE + code


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: f"{attempt.group}: {attempt.what}")
async def test_a_guest_cannot(attempt: Attempt, guarded: Sandbox, host: dict[str, Any]) -> None:
    if "syscall(" in attempt.code and platform.machine() != "x86_64":
        pytest.skip(f"uses system call numbers of x86-64; this is {platform.machine()}")
    result = await guarded.run(program(attempt, host), timeout=20)
    assert "ESCAPED" not in result.stdout, result.stdout
    assert "STOPPED" in result.stdout, (result.stdout, result.stderr, result.error)


# Against an engine that isolates nothing these must get through, or they would prove nothing elsewhere either.
HARMLESS_ON_THE_HOST = {
    "read a file of the host's by its path",
    "list the folder of the tests",
    "walk out with ..",
    "signal a process of the host by its id",
    "be without a filter",
    "be without no_new_privs",
    "connect to the host's loopback",
    "connect to an abstract socket of the host",
    "learn the host's name",
    "see pid 1",
    "see a process of the host",
    "read the host's boot parameters",
    "have more than the five devices",
    "learn the users of the host",
    "list /sys",
}


@pytest.mark.parametrize(
    "attempt",
    [attempt for attempt in ATTEMPTS if attempt.what in HARMLESS_ON_THE_HOST],
    ids=lambda attempt: attempt.what,
)
async def test_the_attempts_get_through_where_nothing_isolates(attempt: Attempt, host: dict[str, Any]) -> None:
    async with actbox.open_sandbox("process", allow_unisolated=True) as box:
        result = await box.run(program(attempt, host))
    assert "ESCAPED" in result.stdout, (result.stdout, result.stderr, result.error)


# Attempts that need more than one run


async def test_files_in_tmp_are_gone_in_the_next_run(guarded: Sandbox) -> None:
    await guarded.run("open('/tmp/left', 'w').write('x')\nopen('/dev/shm/left', 'w').write('x')")
    result = await guarded.run("import os\nos.listdir('/tmp') + os.listdir('/dev/shm')")
    assert "left" not in result.value


async def test_a_link_in_the_place_of_the_inputs_shows_nothing_of_the_host(
    guarded: Sandbox, host: dict[str, Any]
) -> None:
    """Removing the folder from outside lets a guest put a link there, which the next run's mount must not follow."""
    folder = str(Path(host["host_file"]).parent)
    await guarded.remove_file("input", recursive=True)
    planted = await guarded.run(
        actbox.Program(
            "import os\ntry: os.rmdir('input')\nexcept OSError: pass\nos.symlink(f, 'input')", inputs={"f": folder}
        )
    )
    result = await guarded.run("import os\nprint(os.listdir('/workspace/input/'))")
    assert "secret.txt" not in result.stdout, (planted, result)


async def test_a_link_where_a_mount_goes_leads_the_mount_nowhere_on_the_host(
    isolated_engine: str, open_box: OpenBox, tmp_path: Path
) -> None:
    victim, given = tmp_path / "victim", tmp_path / "given"
    victim.mkdir()
    given.mkdir()
    (given / "a").write_text("given")
    box = await open_box(Policy(mounts=(FileMount(given, "/workspace/a/b/c"),)))
    await box.run("import os, shutil\nos.rename('a', 'old')")
    await box.run("1")
    await box.write_file("z", b"")
    await box.remove_file("a", recursive=True)
    await box.execute(["ln", "-s", str(victim), "a"])
    await box.run("1")
    assert list(victim.iterdir()) == []


async def test_a_guest_cannot_hold_the_next_runs_channel(guarded: Sandbox) -> None:
    """A process that outlives its run would be able to; none does."""
    await guarded.run(
        "import os\nif os.fork() == 0:\n    os.setsid()\n    import time\n    time.sleep(2)\n"
        "    open('/workspace/alive', 'w').close()\n    os._exit(0)"
    )
    await guarded.run("import time\ntime.sleep(2.5)")
    assert "alive" not in {entry.path for entry in await guarded.list_files()}


async def test_two_sandboxes_cannot_see_each_others_processes_or_files(isolated_engine: str, open_box: OpenBox) -> None:
    import asyncio

    one, two = await open_box(), await open_box()
    await one.write_file("mine", b"x")
    long = asyncio.create_task(one.run("import time\ntime.sleep(1)"))
    seen = await two.run("import os\n[sorted(n for n in os.listdir('/proc') if n.isdigit()), os.listdir('/workspace')]")
    assert seen.value == [["2"], ["input", "output"]] or seen.value == [["2"], ["output", "input"]]
    await long
