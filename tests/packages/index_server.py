"""A package index on loopback: the simple pages of a directory of wheels, as the specification has them.

https://packaging.python.org/specifications/simple-repository-api/
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from actbox.core.packages import normalized_name

from .wheel_factory import sha256_of


class IndexServer:
    """The wheels of a directory at `address`, and how often each path was asked for."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.address = f"http://127.0.0.1:{port}/simple"
        self.requests: Counter[str] = Counter()
        self.hashes: dict[str, str] = {}
        """Hashes that the pages give in place of the right ones, by file name."""

    def files_fetched(self) -> list[str]:
        """Return the names of the wheels that were fetched whole, each as often as it was."""
        return sorted(Path(path).name for path in self.requests.elements() if path.endswith(".whl"))

    def page(self, name: str) -> str | None:
        wheels = [path for path in self.folder.glob("*.whl") if normalized_name(path.name.split("-")[0]) == name]
        if not wheels:
            return None
        lines = [f'<a href="/files/{path.name}#sha256={self._hash(path)}">{path.name}</a>' for path in wheels]
        return f"<!DOCTYPE html><html><body>{'<br>'.join(lines)}</body></html>"

    def _hash(self, path: Path) -> str:
        return self.hashes.get(path.name) or sha256_of(path)


@contextmanager
def serving_index(folder: Path) -> Iterator[IndexServer]:
    """Serve the wheels of a directory for a block."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            kind, _, name = self.path.strip("/").partition("/")
            body: bytes | None = None
            if kind == "simple" and (page := served.page(name)) is not None:
                body = page.encode()
            elif kind == "files" and (folder / name).is_file():
                body = (folder / name).read_bytes()
            if self.command == "GET":
                served.requests[self.path] += 1
            self.send_response(200 if body is not None else 404)
            self.send_header("Content-Type", "text/html" if kind == "simple" else "application/octet-stream")
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            if body is not None and self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET

        def log_message(self, *words: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served = IndexServer(folder, server.server_port)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
