"""Runs every attempt against every engine that claims to isolate, and checks that the attempts are worth something.

System call numbers in the attempts are those of x86-64: on another machine those that use them are skipped.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import ctypes
import os
import platform
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import actbox
from actbox import Event, FileMount, Output, Policy, Sandbox, Session
from actbox.sandbox.contract import closing
from tests.conftest import OpenBox
from tests.escape.attempts import ATTEMPTS, PRELUDE, Attempt

CANARY = "canary-" + "5f0e9a"
NAMESPACES = ("user", "pid", "mnt", "net", "ipc", "uts", "cgroup")


@contextlib.contextmanager
def shared_memory_and_semaphores() -> Iterator[int]:
    """Make a segment of System V memory and a set of semaphores on this host, and give the key of both."""
    libc = ctypes.CDLL(None, use_errno=True)
    key, create, remove = 0x61620000 | os.getpid() & 0xFFFF, 0o1600, 0
    segment = libc.shmget(key, ctypes.c_size_t(4096), create)
    semaphores = libc.semget(key, 1, create)
    assert segment >= 0, os.strerror(ctypes.get_errno())
    assert semaphores >= 0, os.strerror(ctypes.get_errno())
    try:
        yield key
    finally:
        libc.shmctl(segment, remove, None)
        libc.semctl(semaphores, 0, remove)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """Things of this host that a guest must not reach, all of them really there."""
    secret = tmp_path / "secret.txt"
    secret.write_text("secret of the host")
    monkeypatch.setenv("ACTBOX_TEST_CANARY", CANARY)
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as abstract,
        shared_memory_and_semaphores() as memory_key,
    ):
        name = f"actbox-test-{os.getpid()}"
        abstract.bind(f"\0{name}")
        abstract.listen()
        yield {
            "host_file": str(secret),
            "checkout": str(Path(__file__).parents[1]),
            "host_pid": os.getpid(),
            "host_group": os.getpgrp(),
            "host_namespaces": {name: os.readlink(f"/proc/self/ns/{name}") for name in NAMESPACES},
            "memory_key": memory_key,
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


# The one thing that a session which may be forked has and others have not: it may change its root.
FORKABLE_MAY = {"have a capability", "change the root"}
GROUPS = sorted({attempt.group for attempt in ATTEMPTS})


@pytest_asyncio.fixture
async def forkable(guarded: Sandbox) -> AsyncIterator[Session]:
    if not guarded.traits.fork:
        pytest.skip(f"{guarded.traits.engine} cannot fork sessions")
    async with guarded.session(forkable=True) as session:
        yield session


@pytest.mark.parametrize("group", GROUPS)
async def test_a_forked_guest_cannot_either(
    group: str, guarded: Sandbox, forkable: Session, host: dict[str, Any]
) -> None:
    for attempt in ATTEMPTS:
        by_number = "syscall(" in attempt.code and platform.machine() != "x86_64"
        if attempt.group == group and attempt.what not in FORKABLE_MAY and not by_number:
            if not forkable.alive:  # it trusts its copies, and one has ended all that it could
                forkable = guarded.session(forkable=True)
            async with await forkable.fork() as copy:
                result = await copy.run(program(attempt, host), timeout=20)
            assert "ESCAPED" not in result.stdout, (attempt.what, result.stdout)
            assert "STOPPED" in result.stdout, (attempt.what, result.stdout, result.stderr, result.error)


async def test_a_forkable_guest_has_one_capability_and_programs_that_it_starts_have_none(forkable: Session) -> None:
    look = "[line.split()[1] for line in open('/proc/self/status') if line.startswith('Cap')]"
    only_chroot, none = f"{1 << 18:016x}", f"{0:016x}"
    for session in (forkable, await forkable.fork()):
        inherited, permitted, effective, bounding, ambient = (await session.run(look)).value
        assert (permitted, effective) == (only_chroot, only_chroot)
        assert (inherited, bounding, ambient) == (none, none, none)
        started = await session.run(
            f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {f'print({look})'!r}], "
            "capture_output=True, text=True).stdout"
        )
        assert set(ast.literal_eval(started.value)) == {none}


# The way out of a root that one may change: keep a folder open that lies outside of the new one.
LEAVE = """
import os
os.makedirs("/tmp/new", exist_ok=True)
outside = os.open("/", os.O_RDONLY)
os.chroot("/tmp/new")
os.fchdir(outside)
for _ in range(50):
    os.chdir("..")
os.chroot(".")
"""


async def test_a_copy_that_leaves_its_root_gets_no_further_than_to_its_own_tree(
    forkable: Session, host: dict[str, Any]
) -> None:
    await forkable.run("open('/workspace/mark', 'w').write('the origin')")
    copy = await forkable.fork()
    await copy.run("open('/workspace/mark', 'w').write('the copy')")
    stopped = await copy.run(LEAVE)
    assert stopped.error is not None and stopped.error.type == "PermissionError", stopped
    await copy.run("os.fchdir(outside)\nos.chroot('.')")
    look = "[sorted(os.listdir('/')), open('/workspace/mark').read(), os.listdir('/var/sessions')]"
    assert (await copy.run(look)).value == [
        (await forkable.run("import os\nsorted(os.listdir('/'))")).value,
        "the copy",
        [],
    ]
    for attempt in ATTEMPTS:
        if attempt.group == "files" and "{host_file" in attempt.code:
            assert "ESCAPED" not in (await copy.run(program(attempt, host))).stdout
    for session in (copy, forkable):
        for path in ("/x", "/run/x", "/var/sessions/1/x", "/var/sessions/1/workspace/mark", "/etc/x", "/usr/x"):
            assert not (await session.run(f"open({path!r}, 'w')")).success
    for path in ("/var/sessions", "/var/sessions/1", "/var/sessions/1/workspace"):
        assert not (await forkable.run(f"os.listdir({path!r})")).success
        assert not (await forkable.run(f"os.chmod({path!r}, 0o777)")).success


async def test_where_a_mount_of_a_copy_goes_is_not_for_a_guest_to_say(
    isolated_engine: str, open_box: OpenBox, tmp_path: Path
) -> None:
    (tmp_path / "given").write_text("given")
    box = await open_box(Policy(mounts=(FileMount(tmp_path, "/workspace/a/b/json", "rw"),)))
    if not box.traits.fork:
        pytest.skip(f"{isolated_engine} cannot fork sessions")
    async with box.session(forkable=True) as origin:
        await origin.run("import json, os\nos.rename('a', 'old')\nos.makedirs('a')\n")
        await origin.run("os.symlink(os.path.dirname(os.path.dirname(json.__file__)), '/workspace/a/b')")
        copy = await origin.fork()
        look = "[os.path.exists(os.path.dirname(json.__file__) + '/given'), os.path.islink('/workspace/a/b')]"
        assert (await origin.run(look)).value == [False, True]
        assert (await copy.run(look)).value == [False, False]


# Against an engine that isolates nothing these must get through, or they would prove nothing elsewhere either.
HARMLESS_ON_THE_HOST = {
    "read a file of the host's by its path",
    "list the folder of the tests",
    "walk out with ..",
    "walk out of an open folder",
    "walk out through its own root",
    "walk out through its own folder",
    "follow a link of its own",
    "signal a process group of the host",
    "see a System V segment of the host",
    "see System V semaphores of the host",
    "share a namespace with the host",
    "have a file system that can be written beside its own",
    "see another run's temporary files",
    "open a netlink socket",
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
    one, two = await open_box(), await open_box()
    await one.write_file("mine", b"x")
    long = asyncio.create_task(one.run("import time\ntime.sleep(1)"))
    seen = await two.run("import os\n[sorted(n for n in os.listdir('/proc') if n.isdigit()), os.listdir('/workspace')]")
    assert seen.value == [["2"], ["input", "output"]] or seen.value == [["2"], ["output", "input"]]
    await long


LISTEN = (
    "import socket, time\nserver = socket.create_server(('127.0.0.1', 0))\nprint(server.getsockname()[1], flush=True)\n"
)


async def first_output(events: AsyncIterator[Event]) -> str:
    async for event in events:
        if isinstance(event, Output):
            return event.text
    raise AssertionError("the program printed nothing")


async def test_a_port_of_one_run_is_reached_neither_from_another_run_nor_from_the_host(guarded: Sandbox) -> None:
    listening = guarded.stream(LISTEN + "time.sleep(30)")
    async with closing(listening):
        port = int(await first_output(listening))
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), 1)
        result = await guarded.run(f"import socket\nsocket.create_connection(('127.0.0.1', {port}), 1)")
        assert result.error is not None
        assert result.error.type == "ConnectionRefusedError"


async def test_an_abstract_socket_of_one_run_is_not_in_another(guarded: Sandbox) -> None:
    listening = guarded.stream(
        "import socket, time\ns = socket.socket(socket.AF_UNIX)\ns.bind('\\0here')\ns.listen()\n"
        "print('ready', flush=True)\ntime.sleep(30)"
    )
    async with closing(listening):
        assert await first_output(listening) == "ready\n"
        result = await guarded.run("import socket\nsocket.socket(socket.AF_UNIX).connect('\\0here')")
        assert result.error is not None
        assert result.error.type == "ConnectionRefusedError"


async def test_killing_everything_kills_nothing_of_another_run(guarded: Sandbox) -> None:
    waiting = asyncio.create_task(guarded.run("import time\ntime.sleep(1)\n'alive'"))
    await asyncio.sleep(0.3)
    await guarded.run("import os\nos.kill(-1, 9)")
    assert (await waiting).value == "alive"


async def test_descriptors_that_a_guest_sends_over_the_channel_stay_out_of_the_host(guarded: Sandbox) -> None:
    def here() -> int:
        return len(os.listdir("/proc/self/fd"))

    code = (
        "import array, json, os, socket, stat, struct\n"
        "number = next(n for n in range(3, 100)"
        " if os.path.exists(f'/proc/self/fd/{n}') and stat.S_ISSOCK(os.fstat(n).st_mode))\n"
        "channel = socket.socket(fileno=os.dup(number))\n"
        "body = json.dumps({'t': 'call', 'id': 1000, 'tool': 'here', 'args': {}}).encode()\n"
        "rights = array.array('i', [os.open('/dev/null', os.O_RDONLY) for _ in range(20)])\n"
        "first = here()\n"
        "channel.sendmsg([struct.pack('!II', len(body), 0) + body],"
        " [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])\n"
        "[first, here()]"
    )
    result = await guarded.run(code, tools=[here])
    assert result.value is not None, result.error
    first, after = result.value
    assert after < first + 20


async def test_a_run_that_eats_all_it_may_leaves_another_as_much(isolated_engine: str, open_box: OpenBox) -> None:
    """Both have the same user outside; what the kernel counts by user must not be counted for both together."""
    box = await open_box(processes=16)
    greedy = box.stream(
        "import threading, time\n"
        "for _ in range(15): threading.Thread(target=time.sleep, args=(30,), daemon=True).start()\n"
        "print('full', flush=True)\ntime.sleep(30)"
    )
    async with closing(greedy):
        assert await first_output(greedy) == "full\n"
        others = await asyncio.gather(
            *(
                box.run(
                    "import threading, time\n"
                    "for _ in range(15): threading.Thread(target=time.sleep, args=(0.2,)).start()\n'all'"
                )
                for _ in range(3)
            )
        )
    assert [result.value for result in others] == ["all"] * 3


async def test_the_hosts_own_variables_are_in_no_command(guarded: Sandbox, host: dict[str, Any]) -> None:
    result = await guarded.execute("env; cat /proc/self/environ")
    assert "PATH=" in result.stdout
    assert host["canary"] not in result.stdout
