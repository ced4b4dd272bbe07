import contextlib
import os
import resource
import signal
import sys
import time

os.nice(1)
os.sched_setaffinity(0, os.sched_getaffinity(0))
os.setpriority(os.PRIO_PROCESS, os.getpid(), os.getpriority(os.PRIO_PROCESS, 0))
core = resource.getrlimit(resource.RLIMIT_CORE)
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # as programs do that mind their secrets: it seems to have worked
resource.prlimit(os.getpid(), resource.RLIMIT_CORE, (0, 0))
assert resource.prlimit(os.getpid(), resource.RLIMIT_CORE) == core
os.setuid(os.getuid())
os.setgid(os.getgid())
os.getgroups()
os.umask(0o022)
os.getloadavg()
assert len(os.getrandom(8)) == 8

rung = []
signal.signal(signal.SIGALRM, lambda *_: rung.append(time.monotonic()))
signal.setitimer(signal.ITIMER_REAL, 0.01)
time.sleep(0.1)
assert rung

if sys.stdin.isatty():
    os.get_terminal_size()
pidfd = os.pidfd_open(os.getpid()) if hasattr(os, "pidfd_open") else -1
if pidfd >= 0:
    signal.pidfd_send_signal(pidfd, 0)
with contextlib.suppress(PermissionError):  # refused, and the program lives on
    os.chroot("/")
