"""A registry of npm on loopback: the pages of its packages as JSON, and their archives.

https://github.com/npm/registry/blob/main/docs/REGISTRY-API.md
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
import threading
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote


def make_tarball(about: Mapping[str, Any], files: Mapping[str, str] | None = None) -> bytes:
    """Return an archive as `npm pack` makes it, of a `package.json` and further files."""
    named = {"package.json": json.dumps(about), **(files or {})}
    return tarball_of({f"package/{path}": text for path, text in named.items()})


def tarball_of(files: Mapping[str, str], *more: tarfile.TarInfo) -> bytes:
    """Return a compressed archive of text files by path, and of further entries without content."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        for path, text in files.items():
            member = tarfile.TarInfo(path)
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
        for member in more:
            archive.addfile(member)
    return gzip.compress(written.getvalue(), mtime=0)


class RegistryServer:
    """The packages at `address`, and how often each path was asked for."""

    def __init__(self, port: int) -> None:
        self.address = f"http://127.0.0.1:{port}/"
        self.requests: Counter[str] = Counter()
        self.tarballs: dict[str, bytes] = {}
        """Archives by path. Whoever changes one later makes a registry that lies."""
        self._pages: dict[str, dict[str, Any]] = {}

    def add(self, name: str, version: str = "1.0.0", files: Mapping[str, str] | None = None, **about: Any) -> str:
        """Publish a version of a package with further fields of its `package.json`; return its archive's path."""
        manifest = {"name": name, "version": version, **about}
        tarball = make_tarball(manifest, files)
        path = f"/{name}/-/{name.rpartition('/')[2]}-{version}.tgz"
        self.tarballs[path] = tarball
        page = self._pages.setdefault(name, {"name": name, "dist-tags": {}, "versions": {}, "time": {}})
        integrity = "sha512-" + b64encode(hashlib.sha512(tarball).digest()).decode()
        page["dist-tags"]["latest"] = version
        page["time"][version] = "2026-01-02T03:04:05.000Z"
        page["versions"][version] = {
            **manifest,
            **({"hasInstallScript": True} if "install" in about.get("scripts", {}) else {}),
            "dist": {"tarball": self.address.rstrip("/") + path, "integrity": integrity},
        }
        return path

    def dist(self, name: str, version: str = "1.0.0") -> dict[str, Any]:
        """Return what a page says of the archive of a version, to be changed."""
        found: dict[str, Any] = self._pages[name]["versions"][version]["dist"]
        return found

    def files_fetched(self) -> list[str]:
        """Return the names of the archives that were fetched, each as often as it was."""
        return sorted(path.rpartition("/")[2] for path in self.requests.elements() if path.endswith(".tgz"))

    def body(self, path: str) -> bytes | None:
        """Return what is at a path."""
        page = self._pages.get(path.strip("/"))
        return json.dumps(page).encode() if page is not None else self.tarballs.get(path)


@contextmanager
def serving_registry() -> Iterator[RegistryServer]:
    """Serve packages of npm for a block."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = unquote(self.path)
            body = served.body(path)
            if self.command == "GET":
                served.requests[path] += 1
            self.send_response(200 if body is not None else 404)
            self.send_header(
                "Content-Type", "application/octet-stream" if path.endswith(".tgz") else "application/json"
            )
            self.send_header("Content-Length", str(len(body or b"{}")))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body or b"{}")

        do_HEAD = do_GET

        def log_message(self, *words: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served = RegistryServer(server.server_port)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
