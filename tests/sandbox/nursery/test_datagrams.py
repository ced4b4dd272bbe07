"""Datagrams with descriptors beside them, where the one who receives them may have no more open."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import os, resource, socket
from actbox.sandbox.nursery.passing import DescriptorsLost, receive, send

here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
null = os.open("/dev/null", os.O_RDONLY)
send(there, {"number": 1}, [null] * 5)
send(there, {"number": 2}, [])
send(there, {"number": 3}, [null] * 5)
count = len(os.listdir("/proc/self/fd"))
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (null + 3, most))
try:
    receive(here)
except DescriptorsLost as error:
    print(error.strerror)
resource.setrlimit(resource.RLIMIT_NOFILE, (null + 100, most))
print(len(os.listdir("/proc/self/fd")) - count)
print(receive(here))
data, descriptors = receive(here)
print(data, len(descriptors))
"""


def test_descriptors_that_do_not_fit_are_missed_and_none_of_them_stays_open() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.splitlines() == [
        "Too many open files",
        "0",
        "(b'{\"number\": 2}', [])",
        "b'{\"number\": 3}' 5",
    ], done
