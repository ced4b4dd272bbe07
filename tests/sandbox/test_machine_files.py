"""What programs and libraries read in `/proc` of the machine: the run's own limits, and nothing of the host's."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import actbox
from actbox import Limits, Policy
from actbox.sandbox.nursery.machine_files import processors, texts
from tests.conftest import engine_check, with_marks

_MIB = 2**20
_LIMITS = Limits(memory_mib=640, cpus=1)


@pytest.fixture(params=with_marks(["linux", "container"]))
def box(request: pytest.FixtureRequest) -> Iterator[actbox.sync.SyncSandbox]:
    if not (found := engine_check(request.param)).works:
        pytest.skip(f"the {request.param} engine does not work here: {found.reason}")
    with actbox.sync.open_sandbox(request.param, policy=Policy(limits=_LIMITS)) as opened:
        yield opened


def value_of(box: actbox.sync.SyncSandbox, code: str) -> object:
    result = box.run(code)
    assert result.success, result.error
    return result.value


@pytest.mark.slow
def test_libraries_and_commands_find_the_runs_own_memory_and_processors(box: actbox.sync.SyncSandbox) -> None:
    begun = time.time()
    told = value_of(
        box,
        """
import os, subprocess, joblib, psutil
memory = psutil.virtual_memory()
{
    'memory': [memory.total, 0 <= memory.available <= memory.total, psutil.swap_memory().total],
    'processors': [os.cpu_count(), joblib.cpu_count(), psutil.cpu_count(), psutil.cpu_count(logical=False)],
    'times': len(psutil.cpu_times(percpu=True)), 'percent': psutil.cpu_percent(0.05) >= 0,
    'begun': psutil.boot_time(),
    'network': list(psutil.net_io_counters(pernic=True)),
    'free': subprocess.check_output(['free', '--mebi'], text=True).splitlines()[1].split()[1],
    'uptime': subprocess.check_output(['uptime'], text=True).split('load average: ')[1].strip()[:4] != '',
}
""",
    )
    assert isinstance(told, dict)
    assert abs(told.pop("begun") - begun) < 60
    assert told == {
        "memory": [640 * _MIB, True, 0],
        "processors": [1, 1, 1, 1],
        "times": 1,
        "percent": True,
        "network": ["lo"],
        "free": "640",
        "uptime": True,
    }


def test_no_value_of_the_host_is_in_these_files(box: actbox.sync.SyncSandbox) -> None:
    names = ["meminfo", "stat", "cpuinfo", "loadavg", "uptime", "net/dev"]
    seen = value_of(box, f"{{name: open('/proc/' + name).read() for name in {names}}}")
    assert isinstance(seen, dict)
    made = {name: text.decode() for name, text in texts(640, 1, time.time()).items()}
    memory = {line.split()[0]: int(line.split()[1]) for line in seen["meminfo"].splitlines()}
    assert memory.keys() == {line.split()[0] for line in made["meminfo"].splitlines()}
    assert {name for name, kib in memory.items() if kib} == {"MemTotal:", "MemFree:", "MemAvailable:"}
    assert max(memory.values()) == 640 * 1024
    assert seen["cpuinfo"] == made["cpuinfo"]
    assert [line.split()[0] for line in seen["stat"].splitlines()] == [
        line.split()[0] for line in made["stat"].splitlines()
    ]
    assert seen["loadavg"].split()[3:] == ["1/1", "1"]
    assert float(seen["uptime"].split()[0]) < 60 < time.monotonic()
    assert [line.split(":")[0].strip() for line in seen["net/dev"].splitlines()[2:]] == ["lo"]
    for line in Path("/proc/net/dev").read_text().splitlines()[2:]:
        assert line not in seen["net/dev"] or set(line.split()[1:]) == {"0"}


def test_a_program_cannot_change_them(box: actbox.sync.SyncSandbox) -> None:
    refused = value_of(
        box,
        """
import os
def fails(action):
    try:
        action()
    except OSError:
        return True
    return False
changes = [
    lambda path: open(path, 'w'), lambda path: open(path, 'a'), lambda path: open(path, 'r+'),
    lambda path: os.chmod(path, 0o666), lambda path: os.truncate(path, 0), os.unlink,
]
[fails(lambda: change('/proc/' + name)) for name in ('meminfo', 'stat') for change in changes]
""",
    )
    assert refused == [True] * 12


@pytest.mark.slow
@pytest.mark.parametrize("box", ["linux"], indirect=True)
def test_what_the_run_has_used_is_told_as_it_goes(box: actbox.sync.SyncSandbox) -> None:
    assert value_of(
        box,
        """
import psutil, time
kept = bytearray(200 * 2**20)
while psutil.virtual_memory().used < 200 * 2**20 or psutil.cpu_times().user == 0:
    sum(range(10_000))
True
""",
    )


@pytest.mark.parametrize("box", ["linux"], indirect=True)
def test_a_copy_of_a_session_has_them_too_and_nothing_else_appears(box: actbox.sync.SyncSandbox) -> None:
    reads = """
def read(name):
    try:
        return open('/proc/' + name).read(8)
    except OSError as error:
        return type(error).__name__
[read(name) for name in ('meminfo', 'net/dev', 'sys/kernel/hostname', 'kcore', 'keys', 'version', 'interrupts')]
"""
    session = box.session(forkable=True)
    first = session.run(reads).value
    copy = session.fork()
    assert first == copy.run(reads).value == ["MemTotal", "Inter-| ", *["FileNotFoundError"] * 5]


@pytest.mark.parametrize(("cpus", "there", "told"), [(64.0, 2, 2), (1.5, 4, 2), (0.05, 4, 1), (3.0, 8, 3)])
def test_a_share_of_processors_is_rounded_up_and_never_more_than_there_are(cpus: float, there: int, told: int) -> None:
    assert processors(cpus, there) == told
