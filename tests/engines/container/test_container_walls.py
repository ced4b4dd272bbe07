"""What a container is made like, and that a program in it meets its walls: once more under gVisor."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

import actbox
from actbox import ErrorKind, FileError, Limits, Policy, Sandbox, Unsupported
from actbox.sandbox.engines.container import control_groups, mounts
from actbox.sandbox.engines.container.client import Client
from actbox.sandbox.engines.container.engine import ContainerSandbox
from actbox.sandbox.remote.agent import Agent
from actbox.sandbox.remote.agent_guest import AgentGuest
from actbox.sandbox.remote.lent import _LentEnds
from tests.engines.container.containers import RUNTIMES, needs

pytestmark = pytest.mark.engines


@pytest.fixture(params=RUNTIMES, ids=lambda name: name or "usual")
def runtime(request: pytest.FixtureRequest) -> str:
    needs(request.param)
    return request.param


def needs_groups(client: Client) -> None:
    """Skip the test where this user's containers have no control groups that limit them."""
    if control_groups.controllers(client) != control_groups.ALL:
        pytest.skip("control groups do not limit the containers of this user here")


@pytest_asyncio.fixture
async def box(runtime: str) -> AsyncIterator[Sandbox]:
    async with actbox.open_sandbox("container", runtime=runtime) as opened:
        yield opened


async def test_a_program_has_no_privileges_no_network_and_nothing_of_the_hosts(box: Sandbox) -> None:
    os.environ["ACTBOX_TEST_SECRET"] = "the host's own"
    code = """
import os, socket
status = dict(line.split(':', 1) for line in open('/proc/self/status'))
found = {name: status[name].strip() for name in ('CapEff', 'CapPrm', 'CapBnd') if name in status}
def tried(function):
    try:
        return function() or 'worked'
    except OSError as error:
        return type(error).__name__
{
    'caps': [int(value, 16) for value in found.values()],
    'uid': os.getuid(),
    'root': tried(lambda: open('/new', 'w')),
    'usr': tried(lambda: open('/usr/new', 'w')),
    'input': tried(lambda: open('/input/new', 'w')),
    'network': tried(lambda: socket.create_connection(('192.0.2.1', 80), 2)),
    'secret': os.environ.get('ACTBOX_TEST_SECRET', ''),
    'shadow': os.path.exists('/etc/shadow'),
    'agent': [tried(lambda: os.listdir(f'/proc/{name}/fd')) for name in os.listdir('/proc') if name.isdigit()
              and open(f'/proc/{name}/stat').read().split()[1] in ('(actbox-agent)', '(actbox-zygote)')],
}
"""
    result = await box.run(code)
    assert result.error is None, result.error
    seen = result.value
    assert set(seen["caps"]) <= {0}
    assert seen["uid"] >= 1000
    for place in ("root", "usr", "input"):
        assert seen[place] in ("OSError", "PermissionError"), (place, seen)
    assert seen["network"] in ("OSError", "PermissionError", "TimeoutError", "ConnectionRefusedError"), seen
    assert (seen["secret"], seen["shadow"]) == ("", False)
    if "gVisor" not in box.traits.isolation:  # to which no process is too private for another of the same user
        assert seen["agent"] and set(seen["agent"]) <= {"PermissionError"}


def test_a_workspace_without_a_limit_on_files_is_said_to_be_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def told(runtime: str) -> bool:
        notes = actbox.open_sandbox("container", runtime=runtime).traits.notes
        return any("number of files and directories" in note for note in notes)

    assert told("runsc") and told("kata")
    monkeypatch.setattr(mounts, "has_privilege", lambda: True)
    assert not told("")
    monkeypatch.setattr(mounts, "has_privilege", lambda: False)
    assert told("")


async def test_how_a_container_is_made_can_be_read_from_its_runtime() -> None:
    client = needs()
    needs_groups(client)
    async with actbox.open_sandbox("container", policy=Policy(limits=Limits(cpus=0.5))) as box:
        assert isinstance(box, ContainerSandbox) and box._agent_place is not None
        made = client.json("container", "inspect", box._agent_place.name)[0]  # type: ignore[union-attr]
    host = made["HostConfig"]
    assert host["NetworkMode"] == "none"
    assert host["ReadonlyRootfs"] is True
    assert host["Privileged"] is False
    assert not made.get("EffectiveCaps") and not made.get("BoundingCaps")
    assert any("no-new-privileges" in option for option in host["SecurityOpt"])
    assert not any("seccomp=unconfined" in option for option in host["SecurityOpt"])
    limits = box.policy.limits
    assert host["Memory"] >= limits.memory_mib * 2**20 > 0
    assert host["Memory"] == host["MemorySwap"]
    assert limits.processes < host["PidsLimit"] < limits.processes + 100
    assert made["Config"]["User"].split(":")[0].isdigit() and not made["Config"]["User"].startswith("0")
    assert made["Config"]["Labels"]["io.actbox.pid"] == str(os.getpid())


async def test_limits_that_the_control_groups_cannot_keep_are_neither_asked_for_nor_claimed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As it is where an ordinary user runs Podman, on a machine that gives users a part of its controllers or none."""
    client = needs()
    monkeypatch.setattr(control_groups, "has_privilege", lambda: False)
    assert os.geteuid() != 0 or control_groups.controllers(client) == control_groups.ALL  # Podman says so itself
    monkeypatch.setattr(control_groups, "_asked", lambda *client: frozenset({"pids"}))
    policy = Policy(limits=Limits(cpus=0.5, processes=77))
    async with actbox.open_sandbox("container", policy=policy) as box:
        assert isinstance(box, ContainerSandbox) and box._agent_place is not None
        host = client.json("container", "inspect", box._agent_place.name)[0]["HostConfig"]  # type: ignore[union-attr]
    assert (host["Memory"], host["NanoCpus"], host["CpuQuota"]) == (0, 0, 0)
    assert 77 < host["PidsLimit"] < 177
    assert "processes" in box.traits.enforced and "cpus" not in box.traits.enforced
    assert any("do not limit" in note and "share of the processors, memory" in note for note in box.traits.notes)


async def test_a_program_is_told_nothing_of_this_machine_by_its_kernel() -> None:
    needs()
    code = """
import grp, os, pwd
me = os.getuid()
{
    'sys': os.listdir('/sys'),
    'switches': os.listdir('/proc/sys'),
    'told': [name for name in ('diskstats', 'filesystems', 'swaps', 'version') if open('/proc/' + name).read(1)],
    'groups': sorted({line.split(':', 2)[2] for line in open('/proc/self/cgroup').read().split()}),
    'users': [line.split(':')[0] for name in ('passwd', 'group') for line in open('/etc/' + name)],
    'names': [pwd.getpwuid(me).pw_name, grp.getgrgid(os.getgid()).gr_name],
}
"""
    async with actbox.open_sandbox("container") as box:
        seen = (await box.run(code)).value
    assert seen["sys"] == seen["switches"] == seen["told"] == []
    assert seen["groups"] == ["/"]
    assert seen["users"] == ["root", "agent", "root", "agent"]
    assert seen["names"] == ["agent", "agent"]


async def test_what_the_kernel_ends_for_want_of_memory_is_a_matter_of_memory() -> None:
    """It counts what no process has: hardly anything stays mapped, and yet the container as a whole fills."""
    needs_groups(needs())
    limits = Limits(memory_mib=128, workspace_mib=600, file_mib=600)
    code = """
import ctypes, mmap, os, time
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_ssize_t
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
size, zeros = 32 << 20, os.open('/dev/zero', os.O_RDWR)
while True:  # of each piece of shared memory a page stays mapped
    at = libc.mmap(None, size, 3, 1, zeros, 0)
    if at == -1: raise OSError(ctypes.get_errno(), 'it cannot be mapped')
    ctypes.memset(ctypes.c_void_p(at), 1, size)
    libc.munmap(ctypes.c_void_p(at + 4096), ctypes.c_size_t(size - 4096))
"""
    async with actbox.open_sandbox("container", policy=Policy(limits=limits)) as box:
        error = (await box.run(code, timeout=60)).error
        assert error is not None
        assert (error.kind, error.limit) == (ErrorKind.MEMORY, "memory_mib"), error
        assert (await box.run("'alive'")).value == "alive"


async def test_a_locked_folder_in_the_output_does_not_hinder_the_next_run() -> None:
    needs()
    code = "import os\nos.mkdir('output/in')\nopen('output/in/a', 'w').write('a')\nos.chmod('output/in', 0)"
    async with actbox.open_sandbox("container") as box:
        result = await box.run(code)
        assert result.warnings == ("output/in/a could not be collected: Permission denied",)
        assert (await box.run("import os\nos.stat('output/in').st_mode & 0o777")).value == 0


async def test_the_inputs_are_emptied_when_their_folder_is_removed() -> None:
    needs()
    async with actbox.open_sandbox("container") as box:
        await box.write_file("input/a/b", b"x")
        with pytest.raises(FileError, match="recursive=True"):
            await box.remove_file("input")
        await box.remove_file("input", recursive=True)
        assert (await box.run("import os\nos.listdir('/input')")).value == []
        await box.write_file("input/c", b"x")
        assert (await box.run("import os\nos.listdir('/input')")).value == ["c"]


async def test_a_run_may_not_have_more_processes_for_those_that_ended_before_it() -> None:
    code = "import resource\nresource.getrlimit(resource.RLIMIT_NPROC)"
    async with actbox.open_sandbox("container") as opened:
        first, second = [(await opened.run(code)).value for _ in range(2)]
        assert first == second
        async with opened.session() as session:
            assert (await session.run("1")).success
            assert (await opened.run(code)).value[0] > first[0]


async def test_timers_are_bounded() -> None:
    needs()
    code = """
import ctypes
libc, made, timer = ctypes.CDLL(None), 0, ctypes.c_void_p()
while made < 3000 and libc.timer_create(1, None, ctypes.byref(timer)) == 0: made += 1
made
"""
    async with actbox.open_sandbox("container") as box:
        assert (await box.run(code)).value <= 256


async def test_runs_sessions_tools_and_files_are_those_of_every_engine(box: Sandbox) -> None:
    @actbox.tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    await box.write_file("input/given.txt", b"given")
    await box.write_file("mine.txt", b"mine")
    code = (
        "import asyncio\nboth = await asyncio.gather(add(1, 2), add(3, 4))\n"
        "open('/output/made.txt', 'w').write(open('/input/given.txt').read() + open('mine.txt').read())\nboth"
    )
    result = await box.run(code, tools=[add])
    assert (result.error, result.value) == (None, [3, 7])
    assert [(artifact.name, artifact.data) for artifact in result.artifacts] == [("made.txt", b"givenmine")]
    async with box.session() as session:
        await session.run("x = 20")
        stuck = await session.run("while True: pass", timeout=0.5)
        assert stuck.state_kept and stuck.exit_code == 124
        assert (await session.run("x + 1")).value == 21
    failed = await box.run("def f():\n    return 1 / 0\nf()")
    assert failed.error is not None and (failed.error.type, failed.error.line) == ("ZeroDivisionError", 2)
    assert (await box.execute(["sh", "-c", "cat; exit 3"], stdin=b"in")).exit_code == 3


async def test_a_timeout_ends_the_program_inside_and_not_only_who_asked(box: Sandbox) -> None:
    stuck = await box.run(
        "import subprocess\nsubprocess.Popen(['setsid', 'sleep', '777'])\nwhile True: pass", timeout=1
    )
    assert stuck.exit_code == 124
    names = (
        "import contextlib, os\nfound = []\nfor name in os.listdir('/proc'):\n"
        "    with contextlib.suppress(OSError):\n        found.append(open(f'/proc/{name}/cmdline').read())\nfound"
    )
    found = (await box.run(names)).value
    assert found and not any("777" in line for line in found)


async def test_a_file_of_a_hundred_mib_goes_in_and_comes_out(box: Sandbox) -> None:
    data = os.urandom(2**20) * 100
    await box.write_file("big", data)
    assert await box.read_file("big") == data
    await box.write_file("input/big", data)
    result = await box.run("import hashlib\nhashlib.sha256(open('/input/big', 'rb').read()).hexdigest()")
    import hashlib

    assert result.value == hashlib.sha256(data).hexdigest()


async def test_each_run_has_a_fresh_process_and_temporary_folder(box: Sandbox) -> None:
    await box.run(
        "import builtins, os\nbuiltins.left = 1\nopen('/tmp/left', 'w').close()\nopen('/dev/shm/left', 'w').close()"
    )
    result = await box.run(
        "import builtins, os\n[hasattr(builtins, 'left'), os.listdir('/tmp'), os.listdir('/dev/shm')]"
    )
    assert result.value == [False, [], []]


async def test_a_program_that_kills_all_it_can_hurts_its_own_sandbox_only(runtime: str) -> None:
    async with actbox.open_sandbox("container", runtime=runtime) as box:
        await box.write_file("kept", b"x")
        result = await box.run("import os\nos.kill(-1, 9)\nimport time\ntime.sleep(600)", timeout=50)
        assert not result.success
        after = await box.run("open('kept').read()")
        assert (after.error, after.value) == (None, "x")


@pytest.mark.parametrize(
    "policy",
    [
        Policy(domains=[actbox.AllowedDomain("example.com")]),
        Policy(mounts=[actbox.FileMount("/usr/share", "/data", "overlay")]),
        Policy(mounts=[actbox.FileMount("/usr/share", "/input")]),
    ],
    ids=["domains", "overlay", "a folder at /input"],
)
def test_what_a_container_cannot_keep_is_refused_by_the_name_of_what_can(policy: Policy) -> None:
    with pytest.raises(Unsupported, match="linux"):
        actbox.open_sandbox("container", policy=policy)


async def test_a_guest_has_the_hosts_own_channel_and_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many that begin at once the agent carries for those for which none was ready; nobody sees a difference."""
    client = needs()
    if not client.is_local or os.geteuid() != 0 or os.path.exists("/sys/fs/selinux/enforce"):
        pytest.skip("nothing is lent to guests here")
    kinds: list[str] = []
    start = Agent.start_guest

    def note(self: Agent, *given: Any) -> AgentGuest:
        guest = start(self, *given)
        kinds.append(type(guest).__name__)
        return guest

    monkeypatch.setattr(Agent, "start_guest", note)

    @actbox.tool
    def double(number: int) -> int:
        """Double."""
        return 2 * number

    code = (
        "import sys\nprint(number)\nopen('/dev/stdout', 'a').write('again\\n')\nprint('e', file=sys.stderr)\n"
        "double(number)"
    )
    async with actbox.open_sandbox("container") as box:
        first = await box.run(actbox.Program(code, inputs={"number": 1}), tools=[double])
        assert (first.error, first.value, first.stdout, first.stderr) == (None, 2, "1\nagain\n", "e\n")
        assert kinds == ["LentGuest"]
        programs = [actbox.Program(code, inputs={"number": number}) for number in range(6)]
        results = await asyncio.gather(*(box.run(program, tools=[double]) for program in programs))
        assert [(result.error, result.value) for result in results] == [(None, 2 * number) for number in range(6)]
        assert {result.stdout for result in results} == {f"{number}\nagain\n" for number in range(6)}
        assert (await box.execute(["cat"], stdin=b"x" * 100_000)).stdout == "x" * 100_000


async def test_guests_that_wait_and_are_killed_are_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    needs()
    ended: list[object] = []
    end = _LentEnds._end

    def note(self: _LentEnds, *given: Any) -> None:
        end(self, *given)
        if self._on_end is None:  # it waited still
            ended.append(self)

    monkeypatch.setattr(_LentEnds, "_end", note)
    kill = """
import contextlib, os
killed = 0
for name in os.listdir('/proc'):
    with contextlib.suppress(OSError):
        if name.isdigit() and open(f'/proc/{name}/comm').read() == 'actbox-keeper\\n' and int(name) != os.getppid():
            os.kill(int(name), 9)
            killed += 1
killed
"""
    async with actbox.open_sandbox("container") as box:
        for _ in range(3):
            ended.clear()
            result = await box.run(kill)
            assert result.error is None
            for _ in range(200):  # until those that were killed are known to be; one may have been about to end anyway
                if len(ended) >= result.value:
                    break
                await asyncio.sleep(0.01)
            assert (await box.run("'alive'")).value == "alive"


async def test_writing_elsewhere_is_refused_with_the_places_where_it_is_not(box: Sandbox) -> None:
    """`EROFS` of one kernel is `EACCES` of another."""
    error = (await box.run("open('/etc/x', 'w')")).error
    assert error is not None
    assert (error.kind, error.hint) == (
        ErrorKind.POLICY,
        "the sandbox does not allow this; write below /workspace or /tmp only",
    )
