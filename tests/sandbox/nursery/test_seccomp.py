"""The filter as a table: what it answers to which call, found by evaluating it as the kernel would."""

from __future__ import annotations

import errno
import fcntl
import re
import resource
import socket
import stat
import struct
from pathlib import Path

import pytest

from actbox.sandbox.nursery import linux, seccomp, syscall_table
from actbox.sandbox.nursery.bpf import (
    ALLOW,
    KILL,
    choose,
    encode,
    evaluate,
    if_any_bit,
    if_one_of,
    load_number,
    refuse,
    returns,
)
from actbox.sandbox.nursery.syscall_numbers import AUDIT_ARCH, HIGHEST, NUMBERS

HEADERS = {
    "x86_64": [Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"), Path("/usr/include/asm/unistd_64.h")],
    "aarch64": [Path("/usr/include/asm-generic/unistd.h")],
}
GARBAGE = 0xDEADBEEF << 32  # what a caller may leave in the half of a register that the kernel does not read

NOT_PERMITTED = refuse(errno.EPERM)
NOT_KNOWN = refuse(errno.ENOSYS)
INVALID = refuse(errno.EINVAL)

TIOCSTI, TIOCLINUX, TCGETS, FIONREAD = 0x5412, 0x541C, 0x5401, 0x541B
F_SETOWN_EX, F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW, F_SETDELEG = 15, 36, 37, 38, 1040
PR_SET_NAME, PR_SET_MM, PR_SET_PTRACER, PR_SET_VMA = 15, 35, 0x59616D61, 0x53564D41

in_both_tables = pytest.mark.parametrize("arch", sorted(NUMBERS))


def answer(arch: str, call: str | int, *arguments: int, chroot: bool = False, counted: bool = False) -> int:
    number = NUMBERS[arch][call] if isinstance(call, str) else call
    return evaluate(seccomp.build(arch, chroot=chroot, counted=counted), AUDIT_ARCH[arch], number, arguments)


@in_both_tables
def test_every_call_of_the_allowed_groups_is_allowed_whatever_its_arguments(arch: str) -> None:
    program = seccomp.build(arch)
    for _, names in syscall_table.ALLOWED:
        for name in names.split():
            if name in NUMBERS[arch]:
                for word in (0, 1, 0xFFFFFFFFFFFFFFFF):
                    assert evaluate(program, AUDIT_ARCH[arch], NUMBERS[arch][name], (word,) * 6) == ALLOW, name


@in_both_tables
def test_every_number_that_the_table_does_not_allow_is_denied(arch: str) -> None:
    program = seccomp.build(arch)
    allowed = {NUMBERS[arch][name] for name in seccomp.allowed_names(arch)}
    for number in [*range(601), 0x3FFFFFFF, 0x80000000, 0xFFFFFFFF]:
        if number not in allowed:
            assert evaluate(program, AUDIT_ARCH[arch], number) != ALLOW, number


@in_both_tables
def test_a_call_newer_than_the_table_looks_like_one_that_the_kernel_lacks(arch: str) -> None:
    assert answer(arch, HIGHEST + 1) == NOT_KNOWN
    assert answer(arch, -1) == NOT_KNOWN


@in_both_tables
def test_clone3_looks_missing_so_that_the_c_library_takes_clone(arch: str) -> None:
    assert answer(arch, "clone3") == NOT_KNOWN


@in_both_tables
def test_what_a_program_may_try_in_good_faith_is_refused(arch: str) -> None:
    for _, names, code in syscall_table.REFUSED:
        for name in names.split():
            if name in NUMBERS[arch]:
                assert answer(arch, name) == refuse(code), name
    for name in [
        "mount",
        "unshare",
        "setns",
        "ptrace",
        "bpf",
        "keyctl",
        "io_uring_setup",
        "perf_event_open",
        "userfaultfd",
        "chroot",
    ]:
        assert answer(arch, name) == NOT_PERMITTED


@in_both_tables
def test_what_only_an_attack_does_ends_the_process(arch: str) -> None:
    for name in [
        "kexec_load",
        "kexec_file_load",
        "init_module",
        "finit_module",
        "delete_module",
        "reboot",
        "swapon",
        "swapoff",
    ]:
        assert answer(arch, name) == KILL
    if arch == "x86_64":
        assert answer(arch, "iopl") == answer(arch, "ioperm") == KILL


@in_both_tables
def test_another_architectures_calls_end_the_process(arch: str) -> None:
    others = {AUDIT_ARCH[name] for name in AUDIT_ARCH if name != arch}
    for other in others | {0x40000003, 0x40000028, 0}:  # AUDIT_ARCH_I386, AUDIT_ARCH_ARM
        assert evaluate(seccomp.build(arch), other, NUMBERS[arch]["read"]) == KILL


def test_the_x32_table_is_closed() -> None:
    for name in ("read", "mount", "execve"):
        assert answer("x86_64", 0x40000000 | NUMBERS["x86_64"][name]) == KILL
    assert answer("x86_64", 0x40000000 + 520) == KILL  # numbers that only x32 has
    assert answer("x86_64", 0x7FFFFFFF) == KILL


@in_both_tables
def test_chroot_is_allowed_only_to_sessions_that_may_be_forked(arch: str) -> None:
    assert answer(arch, "chroot") == NOT_PERMITTED
    assert answer(arch, "chroot", chroot=True) == ALLOW
    assert seccomp.allowed_names(arch, chroot=True) - seccomp.allowed_names(arch) == {"chroot"}
    assert answer(arch, "mount", chroot=True) == NOT_PERMITTED


@in_both_tables
@pytest.mark.parametrize("high", [0, GARBAGE])
def test_anonymous_memory_is_shared_only_where_a_control_group_counts_it(arch: str, high: int) -> None:
    shared, private, validated, anonymous, fixed, huge = 1, 2, 3, 0x20, 0x10, 0x40000
    for more in (0, fixed):
        flags = high | shared | anonymous | more
        assert answer(arch, "mmap", 0, 4096, 3, flags) == NOT_PERMITTED
        assert answer(arch, "mmap", 0, 4096, 3, flags, counted=True) == ALLOW
        for kind in (shared, validated, private, private | anonymous):
            assert answer(arch, "mmap", 0, 4096, 3, high | kind | more) == ALLOW
    for kind in (shared, validated, private):
        for counted in (False, True):
            flags = high | kind | anonymous | huge
            assert answer(arch, "mmap", 0, 4096, 3, flags, counted=counted) == refuse(errno.ENOMEM)


@in_both_tables
def test_no_pages_are_sent_or_received_without_a_copy(arch: str) -> None:
    for counted in (False, True):
        for name in ("sendfile", "splice", "tee"):
            assert answer(arch, name, counted=counted) == refuse(errno.EINVAL)
    zerocopy_receive, tcp = 35, socket.IPPROTO_TCP
    for high in (0, GARBAGE):
        assert answer(arch, "getsockopt", 3, high | tcp, high | zerocopy_receive) == refuse(errno.ENOPROTOOPT)
    assert answer(arch, "getsockopt", 3, tcp, socket.TCP_INFO) == ALLOW


@in_both_tables
@pytest.mark.parametrize("high", [0, GARBAGE])
def test_sockets_get_options_and_no_programs_and_no_close_that_waits(arch: str, high: int) -> None:
    attach_filter, attach_bpf, reuseport_cbpf, reuseport_ebpf = 26, 50, 51, 52
    for option in (socket.SO_LINGER, attach_filter, attach_bpf, reuseport_cbpf, reuseport_ebpf):
        assert answer(arch, "setsockopt", 3, high | socket.SOL_SOCKET, high | option) == NOT_PERMITTED
    timestamps, of_udp, udp_lite = (29, 35, 37, 63, 64, 65), (100, 104), 136
    for level, options in ((socket.SOL_SOCKET, timestamps), (socket.IPPROTO_UDP, of_udp), (udp_lite, of_udp)):
        for option in options:
            assert answer(arch, "setsockopt", 3, high | level, high | option) == NOT_PERMITTED
    flow_labels, joins = 32, ((socket.IPPROTO_IP, (35, 39, 42, 46)), (socket.IPPROTO_IPV6, (20, 42, 46)))
    for level, options in (*joins, (socket.IPPROTO_IPV6, (flow_labels,))):
        for option in options:
            assert answer(arch, "setsockopt", 3, high | level, high | option) == refuse(errno.ENODEV)
    for option in (socket.SO_REUSEADDR, socket.SO_SNDBUF, 0, 0xFFFFFFFF):
        assert answer(arch, "setsockopt", 3, high | socket.IPPROTO_UDP, high | option) == ALLOW
        assert answer(arch, "setsockopt", 3, high | socket.SOL_SOCKET, high | option) == ALLOW
    assert attach_filter == socket.IPV6_V6ONLY  # of another level
    assert answer(arch, "setsockopt", 3, high | socket.IPPROTO_IPV6, high | socket.IPV6_V6ONLY) == ALLOW
    assert answer(arch, "setsockopt", 3, high | socket.IPPROTO_TCP, high | socket.TCP_NODELAY) == ALLOW


@in_both_tables
@pytest.mark.parametrize("high", [0, GARBAGE])
def test_clone_makes_threads_and_processes_but_no_namespaces(arch: str, high: int) -> None:
    thread, process = 0x3D0F00, 0x1200011
    assert answer(arch, "clone", high | thread) == answer(arch, "clone", high | process) == ALLOW
    for name, flag in vars(linux).items():
        if name.startswith("CLONE_NEW") and name not in ("CLONE_NEWTIME", "CLONE_NEW_ANY"):
            assert answer(arch, "clone", high | process | flag) == NOT_PERMITTED, name


@in_both_tables
@pytest.mark.parametrize("high", [0, GARBAGE])
def test_threads_share_one_table_of_descriptors(arch: str, high: int) -> None:
    files, thread, unshare, close_on_exec = 0x400, 0x3D0F00, 0x2, 0x4
    assert answer(arch, "clone", high | thread) == ALLOW
    assert answer(arch, "clone", high | thread & ~files) == NOT_PERMITTED
    for flags in (0, close_on_exec):
        assert answer(arch, "close_range", 3, 9, high | flags) == ALLOW
        assert answer(arch, "close_range", 3, 9, high | flags | unshare) == INVALID


@in_both_tables
@pytest.mark.parametrize("high", [0, GARBAGE])
def test_sockets_are_local_or_internet_streams_and_datagrams(arch: str, high: int) -> None:
    flags = socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
    families = {int(family) for family in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6)}
    dccp, packet, icmp, sctp, udp_lite = 6, 10, 1, 132, 136
    for family in families:
        for kind in (int(socket.SOCK_STREAM), int(socket.SOCK_DGRAM)):
            assert answer(arch, "socket", high | family, high | kind | flags, high) == ALLOW
        for kind in (int(socket.SOCK_RAW), int(socket.SOCK_RDM), int(socket.SOCK_SEQPACKET), dccp, packet):
            assert answer(arch, "socket", high | family, high | kind | flags, high) == NOT_PERMITTED
        for protocol in (icmp, sctp, udp_lite):
            wanted = refuse(errno.EPROTONOSUPPORT)
            assert answer(arch, "socket", high | family, socket.SOCK_STREAM, high | protocol) == wanted
    for family in set(range(64)) - families:
        assert answer(arch, "socket", high | family, socket.SOCK_STREAM) == refuse(errno.EAFNOSUPPORT), family


@in_both_tables
def test_socket_pairs_are_local(arch: str) -> None:
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
        assert answer(arch, "socketpair", socket.AF_UNIX, kind | socket.SOCK_CLOEXEC) == ALLOW
    assert answer(arch, "socketpair", socket.AF_UNIX, socket.SOCK_RAW) == NOT_PERMITTED
    assert answer(arch, "socketpair", socket.AF_INET, socket.SOCK_SEQPACKET) == refuse(errno.EAFNOSUPPORT)


@in_both_tables
@pytest.mark.parametrize("high", [0, GARBAGE])
def test_ioctl_asks_and_never_types_into_a_terminal(arch: str, high: int) -> None:
    assert answer(arch, "ioctl", 0, high | TCGETS) == answer(arch, "ioctl", 0, high | FIONREAD) == ALLOW
    set_interface_flags = 0x8914
    for request in (TIOCSTI, TIOCLINUX, set_interface_flags, 0, 0xFFFFFFFF):
        assert answer(arch, "ioctl", 0, high | request) == refuse(errno.ENOTTY), hex(request)


@in_both_tables
@pytest.mark.parametrize("high", [0, GARBAGE])
def test_fcntl_locks_files_and_takes_no_lease_that_would_hold_up_a_writer(arch: str, high: int) -> None:
    allowed = [fcntl.F_DUPFD_CLOEXEC, fcntl.F_GETFD, fcntl.F_SETFL, fcntl.F_SETLK, fcntl.F_SETLKW]
    for command in allowed:
        assert answer(arch, "fcntl", 3, high | command) == ALLOW, command
    for command in (fcntl.F_SETLEASE, fcntl.F_NOTIFY, F_SETDELEG, linux.F_SETPIPE_SZ, 0x7FFFFFFF, 0xFFFFFFFF):
        assert answer(arch, "fcntl", 3, high | command) == NOT_PERMITTED, command


@in_both_tables
@pytest.mark.parametrize("high", [0, GARBAGE])
def test_a_lock_that_outlives_its_process_cannot_be_had(arch: str, high: int) -> None:
    for command in (F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW):
        assert answer(arch, "fcntl", 3, high | command) == NOT_PERMITTED, command


@in_both_tables
@pytest.mark.parametrize("high", [0, GARBAGE])
def test_the_signals_of_a_descriptor_go_neither_to_pid_1_nor_to_its_process_group(arch: str, high: int) -> None:
    for owner in (1, 0xFFFFFFFF):
        assert answer(arch, "fcntl", 3, high | fcntl.F_SETOWN, high | owner) == NOT_PERMITTED, owner
        assert answer(arch, "fcntl", 3, high | fcntl.F_SETFD, high | owner) == ALLOW, owner
    for owner in (0, 2, 0xFFFFFFFE):
        assert answer(arch, "fcntl", 3, high | fcntl.F_SETOWN, high | owner) == ALLOW, owner
    assert answer(arch, "fcntl", 3, high | F_SETOWN_EX) == NOT_PERMITTED


@in_both_tables
@pytest.mark.parametrize("high", [0, GARBAGE])
def test_the_limit_of_core_dumps_can_be_asked_for_and_seems_to_be_set(arch: str, high: int) -> None:
    core, limits = resource.RLIMIT_CORE, 0x7FFF_0000_1000
    assert answer(arch, "setrlimit", high | core, limits) == refuse(0)
    assert answer(arch, "setrlimit", high | resource.RLIMIT_NOFILE, limits) == ALLOW
    for process in (0, 11):
        assert answer(arch, "prlimit64", high | process, high | core, 0, limits) == ALLOW
        for pointer in (limits, 1, 1 << 32, 0xFFFFFFFF):
            assert answer(arch, "prlimit64", high | process, high | core, pointer, limits) == refuse(0)
            assert answer(arch, "prlimit64", high | process, high | resource.RLIMIT_NOFILE, pointer) == ALLOW
    assert answer(arch, "prlimit64", high | 1, high | core, limits) == NOT_PERMITTED


@in_both_tables
@pytest.mark.parametrize("high", [0, GARBAGE])
def test_prctl_names_threads_but_gives_no_rights(arch: str, high: int) -> None:
    for option in (PR_SET_NAME, PR_SET_VMA, linux.PR_SET_NO_NEW_PRIVS, linux.PR_SET_SECCOMP):
        assert answer(arch, "prctl", high | option) == ALLOW, option
    assert answer(arch, "prctl", high | linux.PR_SET_DUMPABLE, 0) == refuse(0)
    for option in (PR_SET_MM, PR_SET_PTRACER, linux.PR_CAP_AMBIENT, linux.PR_SET_SECUREBITS, 0x7FFFFFFF):
        assert answer(arch, "prctl", high | option) == NOT_PERMITTED, option


@in_both_tables
def test_the_personality_can_be_asked_for_and_not_changed(arch: str) -> None:
    address_no_randomize = 0x0040000
    assert answer(arch, "personality", 0xFFFFFFFF) == answer(arch, "personality", 0) == ALLOW
    assert answer(arch, "personality", address_no_randomize) == NOT_PERMITTED


@in_both_tables
@pytest.mark.parametrize("high", [0, GARBAGE, 0xDEAD0000])
def test_nodes_of_devices_cannot_be_made(arch: str, high: int) -> None:
    for kind in (0, stat.S_IFREG, stat.S_IFIFO, stat.S_IFSOCK):
        assert answer(arch, "mknodat", 0, 0, high | kind | 0o644) == ALLOW
    for kind in (stat.S_IFCHR, stat.S_IFBLK, stat.S_IFDIR, stat.S_IFLNK, 0xF000):
        assert answer(arch, "mknodat", 0, 0, high | kind | 0o644) == NOT_PERMITTED
    if arch == "x86_64":
        assert answer(arch, "mknod", 0, high | stat.S_IFIFO) == ALLOW
        assert answer(arch, "mknod", 0, high | stat.S_IFCHR) == NOT_PERMITTED


@in_both_tables
@pytest.mark.parametrize("high", [0, GARBAGE])
def test_pid_1_cannot_be_starved_by_those_that_it_watches(arch: str, high: int) -> None:
    for name in ["prlimit64", "sched_setaffinity", "sched_setparam", "sched_setscheduler", "sched_setattr"]:
        assert answer(arch, name, high | 1) == NOT_PERMITTED
        assert answer(arch, name, 0) == answer(arch, name, 11) == ALLOW
    prio_user, ioprio_user = 2, 3
    for name, one, all_of_the_user in (("setpriority", 0, prio_user), ("ioprio_set", 1, ioprio_user)):
        assert answer(arch, name, one, 0) == answer(arch, name, one, 11) == ALLOW
        assert answer(arch, name, high | one, high | 1) == NOT_PERMITTED
        assert answer(arch, name, high | all_of_the_user, 0) == NOT_PERMITTED


@in_both_tables
@pytest.mark.parametrize("high", [0, GARBAGE])
def test_a_filter_of_ones_own_may_not_ask_a_listener(arch: str, high: int) -> None:
    assert answer(arch, "seccomp", 1, high) == answer(arch, "seccomp", 1, high | 1) == ALLOW
    assert answer(arch, "seccomp", 1, high | 8) == answer(arch, "seccomp", 1, high | 9) == NOT_PERMITTED


def test_every_call_is_named_once_and_has_a_number() -> None:
    groups = [*syscall_table.ALLOWED, *syscall_table.KILLED]
    groups += [group[:2] for group in syscall_table.CONDITIONAL]
    groups += [group[:2] for group in syscall_table.REFUSED]
    names = [name for _, group in groups for name in group.split()]
    assert sorted(names) == sorted(set(names))
    assert set(names) == set(NUMBERS["x86_64"]) | set(NUMBERS["aarch64"])
    assert syscall_table.CHROOT[1] in names
    assert all(reason.endswith(".") for reason, _ in groups)


@in_both_tables
def test_the_numbers_are_those_of_the_kernels_headers(arch: str) -> None:
    header = next((path for path in HEADERS[arch] if path.exists()), None)
    if header is None:
        pytest.skip("the kernel's headers are not installed")
    defined = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", header.read_text())
    official = {"newfstatat" if name == "fstatat" else name: int(number) for name, number in defined}
    for name, number in NUMBERS[arch].items():
        assert official.get(name) == number, name
    absent = (set(NUMBERS["x86_64"]) | set(NUMBERS["aarch64"])) - set(NUMBERS[arch])
    assert not absent & set(official)


def test_numbers_do_not_repeat() -> None:
    for numbers in NUMBERS.values():
        assert len(set(numbers.values())) == len(numbers)


@in_both_tables
def test_the_filter_is_found_by_halving(arch: str) -> None:
    program = seccomp.build(arch)
    by_halving_and_then_ioctls_list = 16 + 40
    assert _longest_path(program) < by_halving_and_then_ioctls_list
    assert len(program) // 8 < 500


def test_a_choice_reaches_over_code_longer_than_a_branch_can_jump() -> None:
    ranges = [(number, if_any_bit(1 << 31, KILL) * 2 + returns(number)) for number in range(300)]
    program = encode(load_number() + choose(ranges))
    for number in range(300):
        assert evaluate(program, 0, number) == number
    assert evaluate(program, 0, 1000) == 299


def test_an_architecture_without_a_table_is_an_error() -> None:
    with pytest.raises(
        NotImplementedError, match="no table of system calls for 'riscv64', only for aarch64 and x86_64"
    ):
        seccomp.build("riscv64")
    with pytest.raises(NotImplementedError):
        seccomp.allowed_names("riscv64")


def test_a_filter_too_long_for_the_kernel_is_an_error() -> None:
    with pytest.raises(ValueError, match="at most 4096 instructions, not 4097"):
        encode(returns(ALLOW) * 4097)


def test_the_evaluator_refuses_what_it_does_not_know() -> None:
    with pytest.raises(ValueError, match="instruction 0 has the unknown operation 0x1"):
        evaluate(encode([(0x01, 0, 0, 0)]), AUDIT_ARCH["x86_64"], 0)


def _longest_path(program: bytes) -> int:
    """Return how many instructions the unluckiest call meets. Jumps go forward, so one pass from the end tells."""
    code = list(struct.iter_unpack("<HBBI", program))
    is_jump, is_return, always = 0x05, 0x06, 0x05
    longest = [0] * len(code)
    for position in reversed(range(len(code))):
        operation, if_true, if_false, operand = code[position]
        if operation == is_return:
            steps: tuple[int, ...] = ()
        elif operation == always:
            steps = (operand,)
        elif operation & 0x07 == is_jump:
            steps = (if_true, if_false)
        else:
            steps = (0,)
        longest[position] = 1 + max((longest[position + 1 + step] for step in steps), default=0)
    return longest[0]


@pytest.mark.parametrize("values", [(5,), (5, 6), (1, 5, 6, 7, 9), (2, 3, 9, 10), (13, 26, 50, 51, 52, 76)])
def test_code_for_several_values_refuses_these_and_no_other(values: tuple[int, ...]) -> None:
    program = encode([*load_number(), *if_one_of(values, KILL), *returns(ALLOW)])
    refused = [number for number in range(100) if evaluate(program, 0, number) == KILL]
    assert refused == list(values)
