"""Whether the process that something belongs to has gone: only what is certain is said."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from actbox import SandboxUnavailable
from actbox.sandbox.engines.container import orphans
from actbox.sandbox.host_folders import make_folder, remove_folder
from actbox.sandbox.host_processes import begin_of_this_process, boot_id, has_gone, machine_id

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems do not say when a process began")

_IS_GONE = """
import os, sys
from actbox.sandbox.host_processes import has_gone
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
pids, begins = sys.argv[1::2], sys.argv[2::2]
print(os.path.exists("/proc/" + pids[0]), *(has_gone(int(pid), begin) for pid, begin in zip(pids, begins)))
"""


@contextmanager
def no_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def id_that_nobody_has() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


def test_a_process_is_known_by_its_id_and_its_begin() -> None:
    begin = begin_of_this_process()
    assert not has_gone(os.getpid(), begin)
    assert has_gone(os.getpid(), f"1{begin}")
    assert has_gone(id_that_nobody_has(), begin)
    assert has_gone(10**17, begin)


def test_one_that_only_waits_to_be_noticed_has_gone() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        begin = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[19]
        assert not has_gone(process.pid, begin)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert has_gone(process.pid, begin)


def test_where_it_is_not_known_when_it_began_it_has_gone_when_nobody_has_its_id() -> None:
    assert not has_gone(os.getpid(), "")
    assert has_gone(id_that_nobody_has(), "")


def test_a_process_that_may_open_nothing_more_takes_nobody_for_gone_and_marks_nothing_as_its_own() -> None:
    gone, begin = id_that_nobody_has(), begin_of_this_process()
    remove_folder(make_folder())
    with no_descriptors():
        seen = has_gone(os.getpid(), begin), has_gone(os.getpid(), f"1{begin}"), has_gone(gone, begin)
        for do in (begin_of_this_process, make_folder):
            with pytest.raises(OSError, match="Too many open files"):
                do()
        for say in (orphans.folder_prefix, orphans.labels_of_this_process):
            with pytest.raises(SandboxUnavailable, match="Too many open files"):
                say()
    assert seen == (False, False, True)


def test_which_boot_this_is_is_not_taken_to_be_unknown_for_want_of_a_descriptor() -> None:
    for ask in (boot_id, machine_id):
        ask.cache_clear()
        with no_descriptors(), pytest.raises(SandboxUnavailable, match="Too many open files"):
            ask()
        assert ask()


@pytest.mark.slow
def test_a_process_that_is_hidden_from_this_user_has_not_gone() -> None:
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("only root can hide the processes of others")
    own = [str(os.getpid()), begin_of_this_process()]
    hide = 'mount -t proc -o hidepid=2 proc /proc && exec "$@"'
    command = ["unshare", "--mount", "sh", "-c", hide, "sh", sys.executable, "-c", _IS_GONE]
    asked = [*own, own[0], "1", str(id_that_nobody_has()), "1"]
    said = subprocess.run([*command, *asked], capture_output=True, text=True, timeout=60, check=False)
    assert (said.stdout, said.stderr) == ("False False False True\n", "")
