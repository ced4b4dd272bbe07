"""A simulation of a system other than Linux in this process, as far as possible; it must run before all other code.

What Python has on Linux and not elsewhere is taken away, or raises what it raises there. Processes that are started
begin with the same.
"""

from __future__ import annotations

# What knows by itself how to be on another system.
import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile  # noqa: F401
import zoneinfo  # noqa: F401

import pydantic  # noqa: F401

_MODULES = {"fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "syslog", "crypt", "spwd", "posix", "readline"}
# Windows has none of these; macOS has more, so what works without them works there.
_OF_OS = [
    "O_NOFOLLOW",
    "O_DIRECTORY",
    "O_CLOEXEC",
    "O_NONBLOCK",
    "O_NDELAY",
    "O_PATH",
    "O_SYNC",
    "O_DSYNC",
    "O_NOATIME",
    "O_NOCTTY",
    "O_TMPFILE",
    "chown",
    "chroot",
    "confstr",
    "ctermid",
    "eventfd",
    "fchdir",
    "fchmod",
    "fchown",
    "fork",
    "forkpty",
    "getegid",
    "geteuid",
    "getgid",
    "getgroups",
    "getloadavg",
    "getpgid",
    "getpgrp",
    "getpriority",
    "getrandom",
    "getresgid",
    "getresuid",
    "getsid",
    "getuid",
    "getxattr",
    "initgroups",
    "killpg",
    "lchown",
    "listxattr",
    "lockf",
    "login_tty",
    "makedev",
    "memfd_create",
    "mkfifo",
    "mknod",
    "nice",
    "openpty",
    "pathconf",
    "pidfd_open",
    "pipe2",
    "posix_fadvise",
    "posix_fallocate",
    "posix_openpt",
    "posix_spawn",
    "posix_spawnp",
    "pread",
    "preadv",
    "pwrite",
    "pwritev",
    "readv",
    "register_at_fork",
    "removexattr",
    "sched_getaffinity",
    "sched_setaffinity",
    "sched_yield",
    "sendfile",
    "setegid",
    "seteuid",
    "setgid",
    "setgroups",
    "setns",
    "setpgid",
    "setpriority",
    "setsid",
    "setuid",
    "setxattr",
    "splice",
    "statvfs",
    "fstatvfs",
    "sync",
    "sysconf",
    "tcgetpgrp",
    "ttyname",
    "umask",
    "uname",
    "unshare",
    "wait",
    "wait3",
    "wait4",
    "waitid",
    "writev",
    "copy_file_range",
]
_OF_SIGNAL = [
    "SIGALRM",
    "SIGCHLD",
    "SIGCONT",
    "SIGHUP",
    "SIGKILL",
    "SIGPIPE",
    "SIGQUIT",
    "SIGSTOP",
    "SIGTSTP",
    "SIGUSR1",
    "SIGUSR2",
    "alarm",
    "pause",
    "pthread_kill",
    "pthread_sigmask",
    "setitimer",
    "siginterrupt",
    "sigpending",
    "sigwait",
]
_WITH_DIR_FD = [
    "chmod",
    "link",
    "lstat",
    "mkdir",
    "open",
    "readlink",
    "remove",
    "rename",
    "replace",
    "rmdir",
    "stat",
    "symlink",
    "unlink",
    "utime",
    "access",
]
_SELF = os.path.abspath(__file__)


class _Lacking:
    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name in _MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


class _Process(subprocess.Popen):  # type: ignore[type-arg]
    """One that is started with no more than Windows takes, and begins as this one did."""

    def __init__(self, command: list[str], **options: object) -> None:
        known = {"stdin", "stdout", "stderr", "env", "cwd", "bufsize", "text", "encoding"}
        if not set(options) <= known:
            raise ValueError(f"not on Windows: {sorted(set(options) - known)}")
        at = next(n for n, word in enumerate(command) if word.endswith(".py"))
        begin = f"import runpy, sys\nrunpy.run_path({_SELF!r})\nsys.argv = sys.argv[1:]\n"
        begin += "runpy.run_path(sys.argv[0], run_name='__main__')"
        super().__init__([*command[:at], "-c", begin, *command[at:]], **options)  # type: ignore[call-overload]

    def kill(self) -> None:  # `TerminateProcess`
        if self.poll() is None:  # else the number may be another process's by now
            with contextlib.suppress(ProcessLookupError):  # another thread has just waited for it
                os.kill(self.pid, 9)

    terminate = kill


def _refusing(function: object, *names: str) -> object:
    def called(*args: object, **kwargs: object) -> object:
        if any(kwargs.get(name) is not None for name in names) or (args and isinstance(args[0], int)):
            raise NotImplementedError("dir_fd unavailable on this platform")
        return function(*args, **kwargs)  # type: ignore[operator]

    return called


def _not_there(*args: object, **kwargs: object) -> None:
    raise NotImplementedError


def _pretend() -> None:
    sysconfig.get_config_vars()
    for name in _MODULES:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, _Lacking())  # type: ignore[arg-type]
    sys.platform = os.environ.get("PLATFORM", "win32")  # type: ignore[misc]
    for module, names in ((os, _OF_OS), (signal, _OF_SIGNAL)):
        for name in names:
            if hasattr(module, name):
                delattr(module, name)
    for known in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):
        known.clear()
    shutil._use_fd_functions = False  # type: ignore[attr-defined]
    for name in _WITH_DIR_FD:
        setattr(os, name, _refusing(getattr(os, name), "dir_fd", "src_dir_fd", "dst_dir_fd"))
    for name in ("scandir", "listdir"):
        setattr(os, name, _refusing(getattr(os, name)))
    for name in ("add_reader", "add_writer", "remove_reader", "add_signal_handler"):
        setattr(asyncio.SelectorEventLoop, name, _not_there)
    subprocess.Popen = _Process  # type: ignore[misc]


_pretend()
