"""The filter installed for real: what the kernel answers under it, and what ordinary programs make of it."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from actbox.sandbox.nursery import linux, seccomp
from actbox.sandbox.nursery.syscall_numbers import NUMBERS

own_process = pytest.mark.own_process
on_x86_64 = pytest.mark.skipif(os.uname().machine != "x86_64", reason="this is about x86_64")

PROGRAMS = Path(__file__).parent / "programs"
TIOCSTI = 0x5412
AF_ALG, AF_VSOCK = 38, 40
SIGCHLD = 17
NO_SUCH_FLAGS = 0xFFFF  # so that nothing happens where the filter fails to stop it


def call(name: str, *arguments: int) -> int:
    """Make a system call as a hostile program would, and return its errno, 0 if it worked."""
    libc = ctypes.CDLL(None, use_errno=True)
    words = [ctypes.c_long(argument) for argument in arguments]
    result = libc.syscall(ctypes.c_long(NUMBERS[seccomp.native_architecture()][name]), *words)
    return ctypes.get_errno() if result == -1 else 0


def install() -> None:
    linux.set_no_new_privs()
    seccomp.install(seccomp.build())


@own_process(linux.CLONE_NEWNS)
def test_the_walls_cannot_be_touched_even_by_one_with_every_capability() -> None:
    install()
    for name in [
        "mount",
        "umount2",
        "unshare",
        "setns",
        "pivot_root",
        "chroot",
        "open_tree",
        "fsopen",
        "mount_setattr",
        "ptrace",
        "bpf",
    ]:
        assert call(name) == errno.EPERM, name
    for name in [
        "keyctl",
        "add_key",
        "io_uring_setup",
        "perf_event_open",
        "userfaultfd",
        "process_vm_readv",
        "pidfd_getfd",
    ]:
        assert call(name) == errno.EPERM, name
    assert call("unshare", linux.CLONE_NEWUSER) == errno.EPERM
    with pytest.raises(PermissionError, match="mount: Operation not permitted"):
        linux.mount("tmpfs", "/mnt", "tmpfs")
    assert call("getpid") == 0  # and the process goes on


@own_process()
def test_clone_makes_no_namespace() -> None:
    install()
    for flag in (linux.CLONE_NEWUSER, linux.CLONE_NEWPID, linux.CLONE_NEWNET, linux.CLONE_NEWNS):
        assert call("clone", flag | SIGCHLD, 0, 0, 0, 0) == errno.EPERM
    assert call("clone3") == errno.ENOSYS


@own_process()
def test_the_kernels_own_sockets_cannot_be_had() -> None:
    install()
    for family in (AF_VSOCK, AF_ALG, socket.AF_NETLINK, socket.AF_PACKET):
        with pytest.raises(OSError) as caught:
            socket.socket(family, socket.SOCK_DGRAM)
        assert caught.value.errno == errno.EAFNOSUPPORT
    with pytest.raises(PermissionError):
        socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP)


@own_process()
def test_a_terminal_cannot_be_typed_into() -> None:
    _controller, terminal = os.openpty()
    install()
    assert os.isatty(terminal)
    character = ctypes.create_string_buffer(b"x")
    assert call("ioctl", terminal, TIOCSTI, ctypes.addressof(character)) == errno.ENOTTY
    assert call("ioctl", terminal, 1 << 32 | TIOCSTI, ctypes.addressof(character)) == errno.ENOTTY


@own_process()
def test_a_named_pipe_can_be_made_and_a_device_cannot(tmp_path: Path) -> None:
    install()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(PermissionError):
        os.mknod(tmp_path / "memory", 0o600 | 0o020000, os.makedev(1, 1))


@pytest.mark.slow
@own_process()
def test_loading_another_kernel_ends_the_process() -> None:
    assert _end_of_one_that(lambda: call("kexec_load", 0, 0, 0, NO_SUCH_FLAGS)) == -signal.SIGSYS


@pytest.mark.slow
@own_process()
def test_all_threads_end_with_it() -> None:
    def attack() -> None:
        thread = threading.Thread(target=call, args=("reboot", 0, 0, 0, 0))
        thread.start()
        thread.join()

    assert _end_of_one_that(attack) == -signal.SIGSYS


@pytest.mark.slow
@on_x86_64
@own_process()
def test_a_call_by_its_x32_number_ends_the_process() -> None:
    libc = ctypes.CDLL(None)
    assert _end_of_one_that(lambda: libc.syscall(ctypes.c_long(0x40000000 | NUMBERS["x86_64"]["getpid"]))) == (
        -signal.SIGSYS
    )


@pytest.mark.slow
@on_x86_64
@own_process()
def test_a_32_bit_call_ends_the_process() -> None:
    getpid = bytes.fromhex("b814000000cd80c3")  # mov eax, 20; int 0x80; ret
    everything = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
    page = mmap.mmap(-1, mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, everything)
    page.write(getpid)
    function = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    if _end_of_one_that(function, before=lambda: None) != 0:
        pytest.skip("this kernel has no 32-bit calls")
    assert _end_of_one_that(function) == -signal.SIGSYS


@own_process()
def test_a_filter_needs_no_new_privs_and_says_so() -> None:
    if os.geteuid() == 0:
        os.setresuid(65534, 65534, 65534)
    if linux.prctl(linux.PR_GET_NO_NEW_PRIVS):
        pytest.skip("this process cannot gain rights anyway")
    with pytest.raises(PermissionError, match="prctl"):
        seccomp.install(seccomp.build())


@own_process()
def test_only_a_forkable_session_may_enter_another_root(tmp_path: Path) -> None:
    # Without capabilities the kernel refuses too; what tells the two apart is the way a missing folder is answered.
    linux.set_no_new_privs()
    seccomp.install(seccomp.build(chroot=True))
    with pytest.raises(FileNotFoundError):
        os.chroot(tmp_path / "missing")
    install()
    with pytest.raises(PermissionError):
        os.chroot(tmp_path / "missing")


# Ordinary programs


@pytest.mark.slow
@pytest.mark.parametrize("program", sorted(PROGRAMS.glob("*.py")), ids=lambda path: path.stem)
def test_an_ordinary_program_runs(program: Path, tmp_path: Path) -> None:
    if program.stem == "data_science":
        for name in ("numpy", "pandas", "matplotlib"):
            pytest.importorskip(name)
    ended = run_filtered([sys.executable, str(program)], tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    "tool, script",
    [
        ("node", 'node -e \'require("fs").writeFileSync("f", "x"); fetch; setTimeout(() => console.log(1), 10)\''),
        ("git", "git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x && git log"),
        ("gcc", "echo 'int main(void) { return 0; }' > a.c && gcc -O2 a.c -o a && ./a"),
        (
            "bash",
            "mkdir -p d/e && for i in 1 2 3; do cat <(echo $i) | tee d/e/$i; done | sort -rn | xargs -n1 find d -name",
        ),
        ("make", "printf 'all: a b\\na b:\\n\\ttouch $@\\n' > Makefile && make -j2 && rm a b"),
        ("tar", "seq 10000 > n && tar czf n.tar.gz n && mv n m && tar xzf n.tar.gz && cmp n m && cp -a n o"),
    ],
)
def test_an_ordinary_command_runs(tool: str, script: str, tmp_path: Path) -> None:
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    ended = run_filtered(["bash", "-ec", script], tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")


def run_filtered(command: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command under the filter, from a fresh interpreter that installs it and becomes the command."""
    launcher = "import os, sys; from actbox.sandbox.nursery import linux, seccomp; linux.set_no_new_privs(); "
    launcher += "seccomp.install(seccomp.build()); os.execvp(sys.argv[1], sys.argv[1:])"
    settings = {"PYTHONPATH": os.pathsep.join(sys.path), "HOME": str(cwd), "MPLCONFIGDIR": str(cwd)}
    return subprocess.run(
        [sys.executable, "-c", launcher, *command],
        cwd=cwd,
        env={"PATH": os.environ["PATH"], **settings},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=200,
    )


def _end_of_one_that(act: Callable[[], object], before: Callable[[], None] = install) -> int:
    """Return how a child ends that acts under the filter: 0, an exit code, or minus a signal."""
    child = os.fork()
    if child == 0:
        before()
        act()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
