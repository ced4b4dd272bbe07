"""A real sshd on loopback, with keys of its own, for the user whom the tests run as."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from actbox import EngineCheck, Policy, Sandbox
from actbox.sandbox.engines.ssh import TRAITS
from actbox.sandbox.registry import TABLE, Engine

WITHOUT_SSHD = "there is no sshd here: install openssh-server"
_CONFIG = """
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/client_key.pub
PidFile {folder}/pid
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
MaxStartups 100
MaxSessions 100
"""


def find_sshd() -> str | None:
    """Return where sshd is, which is often in no search path of an ordinary user."""
    return shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")


@dataclass(frozen=True, kw_only=True)
class EngineOnMachine(Engine):
    """A row of the table of engines that has a machine, which nobody need name then."""

    machine: Mapping[str, Any]

    def check(self) -> EngineCheck:
        return EngineCheck(engine=self.name, works=True, traits=TRAITS)

    def open(self, policy: Policy, upstream: Any, options: Mapping[str, Any]) -> Sandbox:
        return Engine.open(self, policy, upstream, {**self.machine, **options})


@dataclass(frozen=True)
class SshServer:
    folder: Path
    port: int
    process: int

    @property
    def options(self) -> dict[str, Any]:
        """The options with which `open_sandbox("ssh", …)` reaches the server, independent of the user's own
        configuration.
        """
        return {
            "host": f"{getpass.getuser()}@127.0.0.1",
            "port": self.port,
            "key": str(self.folder / "client_key"),
            "known_hosts": str(self.folder / "known_hosts"),
            "config": "none",
        }

    @property
    def engine(self) -> EngineOnMachine:
        """The ssh engine on it, with the Python of the tests."""
        row = TABLE["ssh"]
        as_it_is = {field.name: getattr(row, field.name) for field in fields(Engine)}
        return EngineOnMachine(**as_it_is, machine={**self.options, "python": sys.executable})

    def cut_connections(self) -> None:
        """End the processes that serve connections now; the server itself goes on."""
        for process in _children(self.process):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, 9)


def _children(process: int) -> list[int]:
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process)], capture_output=True, text=True, check=False)
    return [int(line) for line in listed.stdout.split()]


@contextlib.contextmanager
def ssh_server(folder: Path) -> Iterator[SshServer]:
    """Have a server for a block."""
    for name in ("host_key", "client_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    port = _port()
    key = " ".join((folder / "host_key.pub").read_text().split()[:2])
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {key}\n")
    (folder / "config").write_text(_CONFIG.format(port=port, folder=folder))
    if os.geteuid() == 0:
        os.makedirs("/run/sshd", mode=0o755, exist_ok=True)  # where it puts itself before anybody has logged in
    sshd = find_sshd()
    assert sshd is not None
    # In the background, as on another machine: what the engine holds ready there is below nobody here.
    subprocess.run([sshd, "-E", str(folder / "log"), "-f", str(folder / "config")], check=True)
    pid = folder / "pid"
    for _ in range(1200):
        if pid.exists() and pid.read_text().endswith("\n") and _answers(port):
            break
        time.sleep(0.05)
    else:
        raise RuntimeError((folder / "log").read_text())
    process = int(pid.read_text())
    try:
        yield SshServer(folder, port, process)
    finally:
        os.kill(process, signal.SIGTERM)


def _port() -> int:
    """Return a free port that Linux gives to nobody who asks for any, and other processes' servers begin elsewhere."""
    for port in range(10_000 + os.getpid() % 20_000, 32_000):
        with socket.socket() as tried, contextlib.suppress(OSError):
            tried.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("no port is free")


def _answers(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0
