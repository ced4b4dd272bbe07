"""A real Chromium without a window, driven by a pipe: what a page looks like to a browser, and what it asks for."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium")
MISSING = "Chromium is not installed (the Debian package `chromium`)"

_OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--remote-debugging-pipe"),
)
_PATIENCE = 60


@dataclass
class Visit:
    """The outcome of a visit to a page in the browser."""

    browser: Browser
    session: str
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def evaluate(self, script: str) -> Any:
        """Return the value of a JavaScript expression in the page."""
        asked = {"expression": script, "returnByValue": True, "awaitPromise": True}
        done = self.browser.ask("Runtime.evaluate", asked, self.session)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def click(self, selector: str) -> None:
        """Click on an element that leads to another page, and wait until all of that is there."""
        self.browser.follow(self, f"document.querySelector({json.dumps(selector)}).click()")


class Browser:
    """One browser, for as many pages as one likes. A context manager."""

    def __enter__(self) -> Browser:
        assert CHROMIUM is not None, MISSING
        self._profile = tempfile.mkdtemp(prefix="actbox-chromium-")
        (read_here, write_there), (read_there, write_here) = os.pipe(), os.pipe()
        # Out of the way of 3 and 4, which is where the browser looks for them.
        far = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (read_there, write_there)]
        command = [CHROMIUM, *_OPTIONS, f"--user-data-dir={self._profile}", "about:blank"]
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, "/dev/null", os.O_WRONLY, 0),
            (os.POSIX_SPAWN_DUP2, far[0], 3),
            (os.POSIX_SPAWN_DUP2, far[1], 4),
        ]
        self._pid = os.posix_spawn(CHROMIUM, command, dict(os.environ), file_actions=actions, setsid=True)
        for end in (read_there, write_there, *far):
            os.close(end)
        self._read, self._write = read_here, write_here
        self._buffer = b""
        self._asked = 0
        self._visits: dict[str, Visit] = {}
        self._loaded: set[str] = set()
        return self

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._read)
        os.close(self._write)
        shutil.rmtree(self._profile, ignore_errors=True)

    def visit(self, page: Path | str, *, dark: bool = False, width: int = 1000) -> Visit:
        """Open a page of the disk, or an address, wait until all of it is there, and return what happened."""
        target = self.ask("Target.createTarget", {"url": "about:blank"})["targetId"]
        session = self.ask("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        visit = self._visits[session] = Visit(self, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable", {}, session)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", {"features": [scheme]}, session)
        size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
        self.ask("Emulation.setDeviceMetricsOverride", size, session)
        self.ask("Page.navigate", {"url": page if isinstance(page, str) else page.as_uri()}, session)
        self._wait(session)
        # Whatever a page does of itself a moment after it was loaded.
        visit.evaluate("new Promise(done => setTimeout(done, 300))")
        return visit

    def follow(self, visit: Visit, script: str) -> None:
        """Evaluate a script that leads to another page, and wait until all of that is there."""
        self._loaded.discard(visit.session)
        visit.evaluate(script)
        self._wait(visit.session)

    def _wait(self, session: str) -> None:
        while session not in self._loaded:
            self._take(self._next())

    def ask(self, method: str, parameters: dict[str, Any], session: str | None = None) -> dict[str, Any]:
        """Send one command and return its answer."""
        self._asked += 1
        message = {"id": self._asked, "method": method, "params": parameters}
        message |= {} if session is None else {"sessionId": session}
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._asked:
                assert "error" not in answer, answer
                return answer["result"]
            self._take(answer)

    def _take(self, event: dict[str, Any]) -> None:
        visit = self._visits.get(event.get("sessionId", ""))
        if visit is None:
            return
        said = event.get("params", {})
        match event.get("method"):
            case "Page.loadEventFired":
                self._loaded.add(visit.session)
            case "Network.requestWillBeSent":
                visit.requests.append(said["request"]["url"])
            case "Log.entryAdded":
                visit.complaints.append(said["entry"]["text"])
            case "Runtime.consoleAPICalled" | "Runtime.exceptionThrown":
                visit.complaints.append(json.dumps(said))

    def _next(self) -> dict[str, Any]:
        until = time.monotonic() + _PATIENCE
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0, until - time.monotonic()))
            assert ready, "the browser does not answer"
            piece = os.read(self._read, 1 << 20)
            assert piece, "the browser has ended"
            self._buffer += piece
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)
