"""No operation of the linux engine spends more than `budgets.md` allows, in counts that no clock changes.

A change that spends more has to say so in that table. `benchmarks/` measures the time.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conftest import engine_check
from tests.sandbox import budgets
from tests.sandbox.budgets import Figures, NotCounted
from tests.sandbox.spending import FAULTS, GUEST, LOOP, NURSERY, PID_1, THREADS
from tests.sandbox.system_calls import SYSTEM_CALLS, samples_of


@pytest.mark.parametrize("count", [budgets.count_kernel, budgets.count_python, budgets.count_system_calls])
def test_no_operation_spends_more_than_its_budget(count: Callable[[], Figures]) -> None:
    found = engine_check("linux")
    if not found.works:
        pytest.skip(f"no budget was counted: {found.reason}")
    try:
        counted = count()
    except NotCounted as why:
        pytest.skip(f"system calls were not counted: {why}")
    risen = budgets.risen(counted, budgets.budgets(budgets.version()))
    assert not risen, "\n".join([*risen, f"If that is meant, say so in {budgets.TABLE}, which tells how."])


def test_a_figure_may_rise_by_its_slack_and_no_more() -> None:
    allowed = {("run", GUEST, FAULTS): 100, ("fork", LOOP, SYSTEM_CALLS): 40}
    assert budgets.risen({("run", GUEST, FAULTS): 120, ("fork", LOOP, SYSTEM_CALLS): 46}, allowed) == []
    assert budgets.risen({("run", GUEST, FAULTS): 121, ("fork", LOOP, SYSTEM_CALLS): 47}, allowed) == [
        "fork, event loop: system calls rose from 40 to 47",
        "run, guest: page faults rose from 100 to 121",
    ]


def test_a_process_without_a_row_may_spend_nothing_but_the_slack() -> None:
    assert budgets.risen({("run", NURSERY, SYSTEM_CALLS): 2}, {}) == []
    assert budgets.risen({("run", NURSERY, SYSTEM_CALLS): 3}, {}) == ["run, nursery: system calls rose from 0 to 3"]


def test_the_table_that_is_printed_is_read_back_as_it_was() -> None:
    counted = {("run", LOOP, SYSTEM_CALLS): 54, ("run", LOOP, FAULTS): 3, ("run", GUEST, FAULTS): 480}
    assert budgets.figures_of(budgets.page(counted)) == counted


def test_system_calls_are_counted_for_each_process() -> None:
    log = """\
10 execve("/usr/bin/python", ["python"], 0x7ffe /* 20 vars */) = 0
10 clone3({flags=CLONE_VM|CLONE_THREAD, exit_signal=0}, 88 <unfinished ...>
11 set_robust_list(0x7f, 24) = 0
10 <... clone3 resumed> => {parent_tid=[11]}, 88) = 11
10 clone(child_stack=NULL, flags=SIGCHLD) = 20
20 prctl(PR_SET_NAME, "actbox-nursery") = 0
30 prctl(PR_SET_NAME, "actbox-init") = 0
10 newfstatat(AT_FDCWD, "/actbox-budgets/begin/run", 0x7ffd, 0) = -1 ENOENT (No such file or directory)
10 sendmsg(5, {msg_name=NULL}, 0 <unfinished ...>
20 recvmsg(3, {msg_name=NULL}, 0) = 10
10 <... sendmsg resumed>) = 10
11 futex(0x7f, FUTEX_WAKE_PRIVATE, 1) = 1
11 close(4) = 0
30 poll([{fd=3, events=POLLIN}], 1, 10) = 0 (Timeout)
30 fcntl(0, F_DUPFD_CLOEXEC, 0) = 6
30 getdents64(6, 0x55ad /* 56 entries */, 32768) = 1648
30 close(6) = 0
30 openat(0, "2/stat", O_RDONLY) = 6
30 readv(6, [{iov_base="2 (actbox-guest) S 1", iov_len=8192}], 1) = 317
30 close(6) = 0
30 pwrite64(3, "cpu  7", 6, 0) = 6
30 poll([{fd=3, events=POLLIN}], 1, 10) = 1 ([{fd=3, revents=POLLIN}])
30 recvmsg(3, {msg_name=NULL}, 0) = 10
10 newfstatat(AT_FDCWD, "/actbox-budgets/end/run", 0x7ffd, 0) = -1 ENOENT (No such file or directory)
10 close(5) = 0
31 write(3, "y", 1) = 1
31 --- SIGKILL {si_signo=SIGKILL} ---
31 +++ killed by SIGKILL +++
10 newfstatat(AT_FDCWD, "/actbox-budgets/settle/run", 0x7ffd, 0) = -1 ENOENT (No such file or directory)
"""
    (sample,) = samples_of(log.splitlines())["run"]
    assert {process: counts[SYSTEM_CALLS] for process, counts in sample.items()} == {
        LOOP: 1,
        THREADS: 1,
        NURSERY: 1,
        PID_1: 2,  # without the check, which ends with the second poll
        GUEST: 1,
    }
