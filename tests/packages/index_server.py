"""A package index on loopback: the simple pages of a directory of wheels, as the specification has them.

The pages are HTML, or JSON with the size and upload time of each file and its metadata beside it.

https://packaging.python.org/specifications/simple-repository-api/
"""

from __future__ import annotations

import json
import threading
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
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
        self.is_modern = False
        """True if the pages are JSON."""
        self.sizes: dict[str, int] = {}
        """Sizes that JSON pages give in place of the right ones, by file name."""
        self.yanked: dict[str, str] = {}
        """Reasons why files are yanked, by file name."""
        self.files_at = ""
        """The address of another host that has the files, if this one's pages link there."""
        self.answers = threading.Event()
        """Cleared by a test whose index is to answer nothing for now."""
        self.answers.set()
        self.is_asked = threading.Event()
        """Set when something is asked for, also if the index answers nothing for now."""
        self.asked: Queue[str] = Queue()
        """The path of each request, as soon as it has come."""

    def files_fetched(self) -> list[str]:
        """Return the names of the files that were fetched whole, each as often as it was."""
        return sorted(Path(path).name for path in self.requests.elements() if path.endswith((".whl", ".tar.gz")))

    def page(self, name: str) -> str | None:
        files = [path for pattern in ("*.whl", "*.tar.gz") for path in sorted(self.folder.glob(pattern))]
        wheels = [path for path in files if normalized_name(path.name.split("-")[0]) == name]
        if not wheels:
            return None
        if self.is_modern:
            return json.dumps(
                {"meta": {"api-version": "1.1"}, "name": name, "files": [self._entry(one) for one in wheels]}
            )
        lines = [self._line(path) for path in wheels]
        return f"<!DOCTYPE html><html><body>{'<br>'.join(lines)}</body></html>"

    def metadata(self, name: str) -> bytes | None:
        """Return the metadata of a wheel, which `name` has with `.metadata` after it, or `None`."""
        path = self.folder / name.removesuffix(".metadata")
        if not self.is_modern or not name.endswith(".whl.metadata") or not path.is_file():
            return None
        with zipfile.ZipFile(path) as wheel:
            return wheel.read(next(entry for entry in wheel.namelist() if entry.endswith(".dist-info/METADATA")))

    def _line(self, path: Path) -> str:
        yanked = f' data-yanked="{self.yanked[path.name]}"' if path.name in self.yanked else ""
        return f'<a href="{self.files_at}/files/{path.name}#sha256={self._hash(path)}"{yanked}>{path.name}</a>'

    def _entry(self, path: Path) -> dict[str, Any]:
        return {
            "filename": path.name,
            "url": f"{self.files_at}/files/{path.name}",
            "hashes": {"sha256": self._hash(path)},
            "size": self.sizes.get(path.name, path.stat().st_size),
            "upload-time": "2026-01-02T03:04:05Z",
            "core-metadata": path.suffix == ".whl",
            "yanked": self.yanked.get(path.name, False),
        }

    def _hash(self, path: Path) -> str:
        return self.hashes.get(path.name) or sha256_of(path)


@contextmanager
def serving_index(folder: Path) -> Iterator[IndexServer]:
    """Serve the wheels of a directory for a block."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            kind, _, name = self.path.strip("/").partition("/")
            body: bytes | None = None
            served.is_asked.set()
            served.asked.put(self.path)
            served.answers.wait()
            if kind == "simple" and (page := served.page(name)) is not None:
                body = page.encode()
            elif kind == "files" and (folder / name).is_file():
                body = (folder / name).read_bytes()
            elif kind == "files":
                body = served.metadata(name)
            if self.command == "GET":
                served.requests[self.path] += 1
            self.send_response(200 if body is not None else 404)
            page_type = "application/vnd.pypi.simple.v1+json" if served.is_modern else "text/html"
            self.send_header("Content-Type", page_type if kind == "simple" else "application/octet-stream")
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
        served.answers.set()
        server.shutdown()
        server.server_close()
        thread.join()
