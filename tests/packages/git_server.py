"""A host on loopback with TLS: Git repositories, by Git's own server program, and files beside them."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from actbox.sandbox.egress.authority import Authority


def git(folder: Path, *words: str) -> str:
    """Run Git in a directory and return what it prints."""
    names = {f"GIT_{who}_{what}": "tests@example" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environment = {**os.environ, **names, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    done = subprocess.run(["git", *words], cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit(repository: Path, files: Mapping[str, bytes]) -> str:
    """Add files to a repository, which is made if it is missing; return the commit."""
    if not repository.is_dir():
        repository.mkdir(parents=True)
        git(repository, "init", "--quiet", "--initial-branch=main")
    for name, data in files.items():
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_bytes(data)
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "--message=change")
    return git(repository, "rev-parse", "HEAD")


@contextmanager
def serving_git(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Serve the repositories and files below a directory for a block, at an address that this process trusts."""
    authority = Authority(["127.0.0.1"])
    trusted = folder.parent / "authority.pem"
    trusted.write_bytes(authority.pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))

    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given, directory=str(folder))

        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            if ".git/" not in path:
                return super().do_GET()
            length = int(self.headers.get("Content-Length") or 0)
            variables = {
                "GIT_PROJECT_ROOT": str(folder),
                "GIT_HTTP_EXPORT_ALL": "1",
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                "PATH_INFO": path.replace(".git/", "/.git/"),
                "QUERY_STRING": query,
                "REQUEST_METHOD": self.command,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "CONTENT_LENGTH": str(length),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            }
            done = subprocess.run(
                ["git", "-c", "safe.directory=*", "http-backend"],
                env={"PATH": os.environ["PATH"], **variables},
                input=self.rfile.read(length),
                capture_output=True,
                check=True,
            )
            head, _, body = done.stdout.partition(b"\r\n\r\n")
            lines = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
            self.send_response(int(lines.pop("Status", "200").split()[0]))
            for name, value in {**lines, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *words: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = authority.context("127.0.0.1").wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
