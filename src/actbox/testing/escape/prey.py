"""The targets of escape attempts: objects of this host, each of which shows whether it was reached."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from subprocess import PIPE
from typing import Any, Final, Self

_ANSWER: Final = "import os\nwhile said := os.read(0, 1): os.write(1, said)"
_PATIENCE_SECONDS: Final = 60.0


class Prey:
    """The targets of one attempt: a directory, a file, a process, a port and a variable of this host.

    A program is told where they are (`inputs`), and never what is in them: whatever comes back with `secret` in it was
    read out here.
    """

    def __init__(self, folder: Path) -> None:
        """Choose the targets within an existing directory, which belongs to the attempt."""
        self.folder = folder
        self.secret = secrets.token_hex(16)
        self.path = folder / "secret.txt"
        self.variable = "KIT_PREY"
        self.received: list[bytes] = []
        self._before: set[str] = set()
        self._own: dict[tuple[int, object], threading.Event] = {}

    @contextmanager
    def there(self) -> Iterator[Self]:
        """Provide the targets for the duration of a `with` block."""
        with ExitStack() as stack:
            self.path.write_text(self.secret)
            (self.folder / f"named-{self.secret}").mkdir()
            (self.folder / "kit_prey_module.py").write_text(f"word = {self.secret!r}\n")
            self._before = set(os.listdir(self.folder))
            before = os.environ.get(self.variable)
            os.environ[self.variable] = self.secret
            stack.callback(_restore, self.variable, before)
            # The process has its secret among its arguments, as a careless service has its password.
            self.process = stack.enter_context(
                subprocess.Popen([sys.executable, "-ISc", _ANSWER, self.secret], stdin=PIPE, stdout=PIPE)
            )
            stack.callback(self.process.kill)
            self._listen(stack)
            yield self

    def inputs(self) -> dict[str, Any]:
        """Return the targets' places, as inputs of a program."""
        return {
            "path": str(self.path),
            "folder": str(self.folder),
            "port": self.port,
            "pid": self.process.pid,
            "variable": self.variable,
        }

    def reached(self) -> str:
        """Return what the attempt did to the host; "" if nothing."""
        planted = set(os.listdir(self.folder)) - self._before
        if planted:
            return f"there is {sorted(planted)[0]} in the host's folder"
        if not self.path.is_file() or self.path.read_text() != self.secret:
            return "the host's file was changed"
        if not self._is_answered():
            return "the host's process was ended"
        self._hear_all()
        return f"the host received a {self.received[0].decode()}" if self.received else ""

    def _is_answered(self) -> bool:
        """Return whether the process answers, which it does no more once a signal to end it was sent."""
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            os.write(self.process.stdin.fileno(), b"?")
        except BrokenPipeError:
            return False
        return os.read(self.process.stdout.fileno(), 1) == b"?"

    def _hear_all(self) -> None:
        """Wait until the servers have received everything that was sent before: each takes it in its order."""
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            with socket.socket(socket.AF_INET, kind) as own:
                own.bind(("127.0.0.1", 0))
                heard = self._own[kind, own.getsockname()] = threading.Event()
                own.connect(("127.0.0.1", self.port))
                own.send(b"x")
                heard.wait(_PATIENCE_SECONDS)

    def _listen(self, stack: ExitStack) -> None:
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.port: int = tcp.getsockname()[1]
        udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        udp.bind(("127.0.0.1", self.port))
        for listener, take in ((tcp, self._take_connection), (udp, self._take_datagram)):
            listener.settimeout(0.05)
            thread = threading.Thread(target=self._serve, args=(listener, take), daemon=True)
            self._over = False
            thread.start()
            stack.callback(thread.join)
        stack.callback(setattr, self, "_over", True)

    def _serve(self, listener: socket.socket, take: Any) -> None:
        while not self._over:
            try:
                take(listener)
            except TimeoutError:
                continue

    def _take_connection(self, listener: socket.socket) -> None:
        connection, sender = listener.accept()
        connection.close()
        self._receive(socket.SOCK_STREAM, sender, b"connection")

    def _take_datagram(self, listener: socket.socket) -> None:
        _, sender = listener.recvfrom(100)
        self._receive(socket.SOCK_DGRAM, sender, b"datagram")

    def _receive(self, kind: int, sender: object, what: bytes) -> None:
        heard = self._own.get((kind, sender))
        if heard is not None:
            heard.set()
        else:
            self.received.append(what)


def _restore(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value
