"""The kernel counts processes by user, so a program begins when every guest that waits beside it is up."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from actbox.sandbox.guest import frames

PATIENCE = 60

SERVE = """
import os, socket, sys
from actbox.sandbox.guest import agent
host, zygote, workspace, shared = int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]
agent._SHARED = (shared,)  # a run alone in its container begins with these folders empty
agent.Agent(host, os.dup(host), socket.socket(fileno=zygote), 0, workspace, alone=True, is_ours=False).serve()
"""


class Served:
    """An agent in a process of its own; the test is its host, and makes its guests."""

    def __init__(self, host: socket.socket, zygote: socket.socket) -> None:
        self.host = host
        self._zygote = zygote
        self._parser = frames.FrameParser()
        host.settimeout(PATIENCE)
        zygote.settimeout(PATIENCE)

    def make_guest(self) -> tuple[socket.socket, socket.socket]:
        """Return the control socket and the channel of the guest that the agent asks for next."""
        _, descriptors, _, _ = socket.recv_fds(self._zygote, 4096, 4)
        control, channel, stdout, stderr = descriptors
        os.close(stdout)
        os.close(stderr)
        return socket.socket(fileno=control), socket.socket(fileno=channel)

    def settle(self) -> None:
        """Return once the agent has handled everything sent before."""
        self.host.sendall(frames.pack_json(frames.CALL, 99, {"op": "collect", "marks": 99}))
        while True:
            for kind, _, stream, _ in self._parser.feed(self.host.recv(65536)):
                if (kind, stream) == (frames.RESULT, 99):
                    return


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    for name in ("workspace", "shared"):
        (tmp_path / name).mkdir()
    (tmp_path / "workspace/output").mkdir()
    host, of_host = socket.socketpair()
    zygote, of_zygote = socket.socketpair()
    passed = [of_host.fileno(), of_zygote.fileno()]
    places = [str(tmp_path / name) for name in ("workspace", "shared")]
    with host, zygote:
        with of_host, of_zygote:
            running = subprocess.Popen([sys.executable, "-c", SERVE, *map(str, passed), *places], pass_fds=passed)
        try:
            yield Served(host, zygote)
        finally:
            host.close()
            assert running.wait(PATIENCE) == 0


@pytest.mark.parametrize("becomes", ["up", "impossible"])
def test_a_program_begins_once_the_guest_that_replaces_its_own_is_up(
    served: Served, tmp_path: Path, becomes: str
) -> None:
    first, second = served.make_guest(), served.make_guest()
    for control, _ in (first, second):
        control.sendall(b'{"up": true}\n')
    (tmp_path / "shared/left").touch()
    served.host.sendall(
        frames.pack_json(frames.OPEN, 1, {"lent": False, "stdin": False, "watch": {}})
        + frames.pack(frames.DATA, 1, frames.CHANNEL, b"program")
    )
    third = served.make_guest()
    served.settle()
    with pytest.raises(BlockingIOError):
        first[1].recv(100, socket.MSG_DONTWAIT)
    if becomes == "up":
        third[0].sendall(b'{"up": true}\n')
    else:
        third[0].close()
    first[1].settimeout(PATIENCE)
    assert first[1].recv(100) == b"program"
    assert list((tmp_path / "shared").iterdir()) == []
    for control, channel in (first, second, third):
        control.close()
        channel.close()
