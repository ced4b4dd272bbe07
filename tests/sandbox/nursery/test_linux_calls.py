from __future__ import annotations

import errno
import os
import select
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from actbox.sandbox.nursery import bpf, linux, seccomp

NOBODY = 65534

MOUNTS = linux.CLONE_NEWNS
own_process = pytest.mark.own_process


# Namespaces


@own_process(0)
def test_an_unshared_namespace_is_another_one_and_setns_goes_back() -> None:
    linux.unshare(linux.CLONE_NEWUTS)
    first = os.readlink("/proc/self/ns/uts")
    way_back = os.open("/proc/self/ns/uts", os.O_RDONLY)
    linux.unshare(linux.CLONE_NEWUTS)
    assert os.readlink("/proc/self/ns/uts") != first
    linux.setns(way_back, linux.CLONE_NEWUTS)
    assert os.readlink("/proc/self/ns/uts") == first


@own_process(linux.CLONE_NEWUTS)
def test_the_host_name_is_the_namespaces_own() -> None:
    linux.sethostname("box")
    assert os.uname().nodename == "box"


@own_process(linux.CLONE_NEWNET)
def test_loopback_carries_nothing_until_it_is_up() -> None:
    with socket.socket() as listener, socket.socket() as client:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        with pytest.raises(OSError) as caught:
            client.connect(listener.getsockname())
        assert caught.value.errno == errno.ENETUNREACH
    linux.bring_loopback_up()
    linux.bring_loopback_up()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        socket.create_connection(listener.getsockname()).close()


def test_all_namespaces_are_named() -> None:
    flags = [value for name, value in vars(linux).items() if name.startswith("CLONE_NEW") and name != "CLONE_NEW_ANY"]
    assert len(flags) == 8
    assert sum(flags) == linux.CLONE_NEW_ANY


# Mounts


@own_process(MOUNTS)
def test_a_bind_mount_shows_a_folder_in_another_place_until_it_is_unmounted(tmp_path: Path) -> None:
    source, target = _folder(tmp_path / "source", "file"), _folder(tmp_path / "target")
    linux.mount(str(source), str(target), None, linux.MS_BIND)
    assert os.listdir(target) == ["file"]
    linux.umount(str(target), linux.MNT_DETACH)
    assert os.listdir(target) == []


@own_process(MOUNTS)
def test_a_failed_call_says_its_name_and_its_path() -> None:
    with pytest.raises(FileNotFoundError) as caught:
        linux.mount("/", "/no such place", None, linux.MS_BIND)
    assert caught.value.filename == "/no such place"
    assert str(caught.value).startswith("[Errno 2] mount: ")
    with pytest.raises(OSError, match=r"umount: .*'/no such place'"):
        linux.umount("/no such place")
    with pytest.raises(OSError, match=r"open_tree: .*'/no such place'"):
        linux.open_tree(linux.AT_FDCWD, "/no such place", linux.OPEN_TREE_CLONE)


@own_process(MOUNTS)
def test_a_detached_copy_can_be_sealed_before_it_is_attached(tmp_path: Path) -> None:
    source, target = _folder(tmp_path / "source", "file"), _folder(tmp_path / "target")
    copy = linux.open_tree(linux.AT_FDCWD, str(source), linux.OPEN_TREE_CLONE | linux.AT_RECURSIVE)
    linux.mount_setattr(copy, linux.AT_RECURSIVE, linux.MOUNT_ATTR_RDONLY | linux.MOUNT_ATTR_NOSUID)
    linux.move_mount(copy, str(target))
    assert os.listdir(target) == ["file"]
    assert os.statvfs(target).f_flag & os.ST_NOSUID
    with pytest.raises(OSError) as caught:
        (target / "another").touch()
    assert caught.value.errno == errno.EROFS
    (source / "another").touch()  # the original is as it was
    assert not os.get_inheritable(copy)


@own_process(MOUNTS)
def test_attributes_reach_the_mounts_below_only_when_asked_and_can_be_cleared(tmp_path: Path) -> None:
    root = str(tmp_path)
    linux.mount("tmpfs", root, "tmpfs")
    below = _folder(tmp_path / "below")
    linux.mount("tmpfs", str(below), "tmpfs")
    linux.mount_setattr(root, 0, linux.MOUNT_ATTR_RDONLY)
    assert os.statvfs(root).f_flag & os.ST_RDONLY
    assert not os.statvfs(below).f_flag & os.ST_RDONLY
    linux.mount_setattr(root, linux.AT_RECURSIVE, linux.MOUNT_ATTR_RDONLY)
    assert os.statvfs(below).f_flag & os.ST_RDONLY
    linux.mount_setattr(root, linux.AT_RECURSIVE, 0, linux.MOUNT_ATTR_RDONLY)
    assert not os.statvfs(below).f_flag & os.ST_RDONLY


@own_process(MOUNTS)
def test_a_new_filesystem_takes_its_options(tmp_path: Path) -> None:
    options: dict[str, str | bool] = {"size": "1m", "mode": "750", "inode64": True, "inode32": False}
    tmpfs = linux.detached_mount("tmpfs", options, linux.MOUNT_ATTR_NODEV)
    linux.move_mount(tmpfs, str(tmp_path))
    found = os.statvfs(tmp_path)
    assert found.f_frsize * found.f_blocks == 1 << 20
    assert os.stat(tmp_path).st_mode & 0o777 == 0o750
    described = next(line for line in Path("/proc/self/mounts").read_text().splitlines() if f" {tmp_path} " in line)
    assert "nodev" in described
    assert "inode64" in described


@own_process(MOUNTS)
def test_a_refused_option_is_told_in_the_kernels_own_words() -> None:
    before = os.listdir("/proc/self/fd")
    with pytest.raises(OSError, match=r"fsconfig bogus: .*Unknown parameter 'bogus'.*tmpfs"):
        linux.detached_mount("tmpfs", {"bogus": "1"})
    with pytest.raises(OSError, match=r"fsopen: .*no such filesystem"):
        linux.detached_mount("no such filesystem", {})
    assert os.listdir("/proc/self/fd") == before


@pytest.mark.parametrize(
    "_user",
    [
        pytest.param("as it is", marks=own_process(MOUNTS)),
        pytest.param(
            "ordinary",
            marks=[
                own_process(MOUNTS, uid=NOBODY),
                pytest.mark.skipif(os.geteuid() != 0, reason="this is an ordinary user already"),
            ],
        ),
    ],
)
def test_a_process_of_any_user_can_move_into_a_root_of_its_own_and_leave_the_old_one(_user: str) -> None:
    linux.move_mount(linux.detached_mount("tmpfs", {}), "/mnt")
    os.mkdir("/mnt/usr")
    usr = linux.open_tree(linux.AT_FDCWD, "/usr", linux.OPEN_TREE_CLONE | linux.AT_RECURSIVE)
    linux.mount_setattr(usr, linux.AT_RECURSIVE, linux.MOUNT_ATTR_RDONLY)
    linux.move_mount(usr, "/mnt/usr")
    os.chdir("/mnt")
    linux.pivot_root(".", ".")
    linux.umount(".", linux.MNT_DETACH)
    assert os.listdir("/") == ["usr"]
    assert os.listdir("/..") == ["usr"]
    assert "bin" in os.listdir("/usr")


# Privileges


@own_process(MOUNTS)
def test_dropped_capabilities_are_gone_for_programs_too() -> None:
    assert linux.effective_capabilities() & 1 << linux.CAP_SYS_ADMIN
    linux.gain_no_capabilities()
    linux.keep_capabilities(frozenset())
    assert linux.effective_capabilities() == 0
    with pytest.raises(PermissionError):
        linux.mount("tmpfs", "/mnt", "tmpfs")
    assert set(_capability_sets_of_a_program().values()) == {0}


@own_process(MOUNTS)
def test_a_kept_capability_stays_in_the_process_and_never_reaches_a_program() -> None:
    linux.gain_no_capabilities()
    linux.keep_capabilities(frozenset({linux.CAP_SYS_CHROOT}))
    assert linux.effective_capabilities() == 1 << linux.CAP_SYS_CHROOT
    os.chroot("/")
    assert set(_capability_sets_of_a_program().values()) == {0}
    with pytest.raises(PermissionError):  # PR_CAP_AMBIENT_RAISE
        linux.prctl(linux.PR_CAP_AMBIENT, 2, linux.CAP_SYS_CHROOT)
    with pytest.raises(PermissionError):
        linux.prctl(linux.PR_SET_SECUREBITS, 0)


@own_process(MOUNTS)
def test_dropping_without_the_right_to_is_an_error_and_not_silence() -> None:
    linux.gain_no_capabilities()
    linux.keep_capabilities(frozenset())
    with pytest.raises(PermissionError, match="prctl"):
        linux.gain_no_capabilities()


@own_process()
def test_no_new_privs_is_set() -> None:
    linux.set_no_new_privs()
    assert linux.prctl(linux.PR_GET_NO_NEW_PRIVS) == 1


@own_process()
def test_dumpable_goes_off_and_on() -> None:
    linux.set_dumpable(False)
    assert linux.prctl(linux.PR_GET_DUMPABLE) == 0
    linux.set_dumpable(True)
    assert linux.prctl(linux.PR_GET_DUMPABLE) == 1


# Processes and descriptors


@pytest.mark.slow
@own_process()
def test_the_parents_death_is_signalled() -> None:
    alive, held = os.pipe()
    parent = os.fork()
    if parent == 0:
        ready, told = os.pipe()
        if os.fork() == 0:
            linux.set_parent_death_signal(signal.SIGKILL)
            os.write(told, b"x")
            signal.pause()
        os.read(ready, 1)
        os._exit(0)
    os.waitpid(parent, 0)
    os.close(held)
    assert select.select([alive], [], [], 10)[0], "the grandchild lives on"
    assert os.read(alive, 1) == b""


@pytest.mark.slow
@own_process()
def test_a_subreaper_waits_for_its_descendants_orphans() -> None:
    linux.set_child_subreaper()
    child = os.fork()
    if child == 0:
        if os.fork() == 0:
            while os.getppid() == child:
                signal.sigtimedwait([], 0.001)
            os._exit(7)
        os._exit(0)
    os.waitpid(child, 0)
    _, status = os.waitpid(-1, 0)
    assert os.waitstatus_to_exitcode(status) == 7


@pytest.mark.slow
@own_process()
def test_a_pidfd_signals_its_process_and_tells_its_end() -> None:
    child = os.fork()
    if child == 0:
        signal.pause()
    pidfd = linux.pidfd_open(child)
    assert not select.select([pidfd], [], [], 0)[0]
    linux.pidfd_send_signal(pidfd, signal.SIGKILL)
    assert select.select([pidfd], [], [], 10)[0]
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    with pytest.raises(ProcessLookupError):
        linux.pidfd_send_signal(pidfd, signal.SIGKILL)
    with pytest.raises(ProcessLookupError, match="pidfd_open"):
        linux.pidfd_open(child)


@own_process()
def test_close_range_closes_what_lies_between_and_nothing_else() -> None:
    _check_close_range()


@own_process()
def test_a_kernel_without_close_range_closes_the_same() -> None:
    _refuse_call(436, errno.ENOSYS)
    _check_close_range()


@own_process(MOUNTS)
def test_without_close_range_and_proc_nothing_is_guessed() -> None:
    linux.mount("tmpfs", "/proc", "tmpfs")
    _refuse_call(436, errno.ENOSYS)
    with pytest.raises(FileNotFoundError, match="/proc/self/fd"):
        linux.close_range(3)


@own_process(0)
def test_a_pipe_takes_the_size_asked_for_or_says_that_it_cannot() -> None:
    readable, writable = os.pipe()
    assert linux.set_pipe_size(writable, 100_000) == 131_072
    os.set_blocking(writable, False)
    assert os.write(writable, bytes(200_000)) == 131_072
    with pytest.raises(PermissionError):
        linux.set_pipe_size(readable, 1 << 30)


def _folder(path: Path, *files: str) -> Path:
    path.mkdir()
    for name in files:
        (path / name).touch()
    return path


def _capability_sets_of_a_program() -> dict[str, int]:
    status = subprocess.run(["/bin/cat", "/proc/self/status"], capture_output=True, text=True, check=True).stdout
    lines = (line.split(":") for line in status.splitlines() if line.startswith("Cap"))
    return {name: int(value, 16) for name, value in lines}


def _check_close_range() -> None:
    kept, *closed, last = (os.dup2(1, number) for number in range(200, 206))
    linux.close_range(closed[0], closed[-1])
    os.fstat(kept)
    os.fstat(last)
    for fd in closed:
        with pytest.raises(OSError):
            os.fstat(fd)
    linux.close_range(kept)
    for fd in (kept, last):
        with pytest.raises(OSError):
            os.fstat(fd)
    os.fstat(1)


def _refuse_call(number: int, code: int) -> None:
    """Answer one system call with an error from now on, as a kernel that lacks it would."""
    refusal, rest = bpf.returns(bpf.refuse(code)), bpf.returns(bpf.ALLOW)
    linux.set_no_new_privs()
    seccomp.install(bpf.encode(bpf.load_number() + bpf.choose([(0, rest), (number, refusal), (number + 1, rest)])))
