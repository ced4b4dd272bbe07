"""A workspace's files if the host cannot open them by descriptor: a WebAssembly instance serves them.

A program may move its files while the host uses them, and put links in their place. If the system cannot open a file
without following links, WebAssembly can: this instance sees only the workspace.
"""

from __future__ import annotations

import errno
import os
import secrets
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Final

from actbox.core.errors import FileError, InvalidValue, SandboxStopped, Unsupported
from actbox.core.limits import Limits
from actbox.core.result import Artifact
from actbox.sandbox.artifacts import MADE_ANEW, MAX_DEPTH, MAX_ENTRIES, MAX_PATH_CHARACTERS, Candidate, LeftOut, choose
from actbox.sandbox.blocking import run_blocking
from actbox.sandbox.files import info_of
from actbox.sandbox.guest import wire
from actbox.sandbox.paths import errors_naming, names_below, refuse_undecoded
from actbox.sandbox.storage import FileInfo

from .runtime import runtime
from .worker import Design, Volume, Worker

_PIECE_BYTES: Final = 2**20
_MOST_ANSWER_BYTES: Final = 64 * 2**20
_MEMORY_MIB: Final = 512
_MOST_FILE_MIB: Final = 2**20
_OPEN_FILES: Final = 128


class ServedWorkspace:
    """A `Storage` over an instance, which is made at its first use."""

    root = "/workspace"

    def __init__(self, folder: str, input_folder: str, output: str) -> None:
        """The three directories lie on the host, beside each other. Raises `OSError`."""
        self._design = Design(
            folder=folder,
            volumes=(
                Volume.of(folder, "/workspace"),
                Volume.of(input_folder, "/input"),
                Volume.of(output, "/workspace/output"),
            ),
            memory_mib=_MEMORY_MIB,
            file_mib=_MOST_FILE_MIB,
            open_files=_OPEN_FILES,
        )
        self._lock = threading.Lock()
        self._worker: Worker | None = None
        self._closed = False

    def close(self) -> None:
        """End the instance, after operations under way."""
        with self._lock:
            self._closed = True
            worker, self._worker = self._worker, None
        if worker is not None:
            worker.end()

    def trace(self) -> object:
        """Return `None`: computing a change marker would take too long."""
        return None

    def read(self, path: str) -> bytes:
        """Return a regular file's content."""
        names = self._names(path)
        with errors_naming(path):
            return self._read(names, None)

    def write(self, path: str, data: bytes, mode: int | None = None) -> None:
        """Create or replace a file atomically. Raises `Unsupported` for a mode, which WebAssembly's files lack."""
        if mode is not None:
            raise Unsupported("the files of the wasm engine have no modes on this system; leave mode= out")
        names = self._names(path)
        if not names:
            raise FileError(errno.EISDIR, f"{path}: is a directory")
        draft = f".{secrets.token_hex(8)}.part"
        view = memoryview(data)
        with errors_naming(path):
            while True:
                piece, view = bytes(view[:_PIECE_BYTES]), view[_PIECE_BYTES:]
                self._ask("write", path=names, draft=draft, data=piece, last=not view)
                if not view:
                    return

    def remove(self, path: str, recursive: bool) -> None:
        """Remove a file, a link or an empty directory, or with `recursive` a directory and everything below it."""
        names = self._names(path)
        if not names:
            raise InvalidValue("the workspace itself cannot be removed here; stop() removes it")
        self._refuse_apart(names, path)
        with errors_naming(path):
            self._ask("remove", path=names, recursive=recursive)

    def discard(self, path: str) -> None:
        """Remove a file in the workspace's own directory, even if `input` hides it."""
        with errors_naming(path):
            self._ask("discard", path=path)

    def list(self, path: str, recursive: bool) -> list[FileInfo]:
        """Return the entries of a directory, sorted by path."""
        names = self._names(path)
        with errors_naming(path):
            entries = self._ask("list", path=names, recursive=recursive)
        return sorted(map(_info, entries), key=lambda entry: entry.path)

    def stat(self, path: str) -> FileInfo:
        """Return one entry."""
        names = self._names(path)
        with errors_naming(path):
            return _info(self._ask("stat", path=names))

    def make_dir(self, path: str) -> None:
        """Make a directory and its parents."""
        names = self._names(path)
        with errors_naming(path):
            self._ask("make_dir", path=names)

    def move(self, source: str, target: str) -> None:
        """Rename within the workspace."""
        names, other = self._names(source), self._names(target)
        for each, path in ((names, source), (other, target)):
            self._refuse_apart(each, path)
        with errors_naming(source):
            self._ask("move", path=names, target=other)

    def mark_output(self, limits: Limits) -> ServedOutput:
        """Record the content of `output` now; if `output` is no directory any more it is made anew, with a warning."""
        made_anew = self._ask("mark")
        return ServedOutput(self, limits, [MADE_ANEW] if made_anew else [])

    def mark_empty_output(self, limits: Limits) -> None:
        """Return `None`: looking would block."""
        return None

    def outputs(self) -> tuple[Mapping[str, tuple[int, tuple[int, ...]]], str]:
        """Return the content of `output`, for each path the size, -1 for anything but a file, and a change marker.

        The second item is a sentence if that is not everything.
        """
        found, end = self._ask(
            "outputs", most=MAX_ENTRIES, most_characters=MAX_PATH_CHARACTERS, most_depth=MAX_DEPTH + 1
        )
        return {path: (size, tuple(mark)) for path, size, mark in found}, end

    def read_output(self, path: str, most: int) -> bytes:
        """Return at most `most` bytes of a file below `output`. Raises `OSError`."""
        return self._read(("output", *path.split("/")), most)

    # Inside

    def _names(self, path: str) -> tuple[str, ...]:
        names = names_below(self.root, path)
        refuse_undecoded(path)
        return names

    def _refuse_apart(self, names: tuple[str, ...], path: str) -> None:
        if names in (("input",), ("output",)):
            raise FileError(errno.EBUSY, f"{path}: this directory cannot be moved or removed; change its contents")

    def _read(self, names: tuple[str, ...], most: int | None) -> bytes:
        pieces = deque[bytes]()
        start, is_over = 0, False
        while not is_over and (most is None or start < most):
            wanted = _PIECE_BYTES if most is None else min(_PIECE_BYTES, most - start)
            piece, is_over = self._ask("read", path=names, start=start, most=wanted)
            pieces.append(piece)
            start += len(piece)
        return b"".join(pieces)

    def _ask(self, operation: str, **arguments: Any) -> Any:
        """Run an operation in the instance. Raises `OSError`, `SandboxStopped` and `SandboxUnavailable`."""
        order = wire.encode({"t": "files", "op": operation, **arguments}, _MOST_ANSWER_BYTES)
        answer = _Answer()
        with self._lock:
            if self._closed:
                raise SandboxStopped("the sandbox was stopped meanwhile")
            if self._worker is None:
                self._worker = Worker(runtime().folder)
                self._worker.open(self._design)
            self._worker.begin(answer, order)
            answer.heard.wait()
            if answer.said is None:
                self._worker.end()
                self._worker = None
        if answer.said is None:
            raise OSError(errno.EIO, "the process that has the files ended; try again")
        if "ok" in answer.said:
            return answer.said["ok"]
        number = getattr(errno, str(answer.said["errno"]), errno.EIO)
        raise OSError(number, os.strerror(number))


class ServedOutput:
    """An `Output` whose change markers are kept in this process."""

    def __init__(self, workspace: ServedWorkspace, limits: Limits, warnings: list[str]) -> None:
        self._workspace = workspace
        self._limits = limits
        self._warnings = warnings
        self._before, _ = workspace.outputs()

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    async def collect_if_any(self) -> tuple[list[Artifact], list[str]]:
        """Return the new and changed files sorted by name, and one sentence for each omission."""
        return await run_blocking(self._collect)

    def _collect(self) -> tuple[list[Artifact], list[str]]:
        left_out = LeftOut()
        try:
            now, end = self._workspace.outputs()
            artifacts = choose(self._changed(now), self._limits, left_out)
        except (OSError, SandboxStopped) as error:
            return [], [*self._warnings, f"output/ was not collected: {error}"]
        if end:
            left_out.end(end)
        return artifacts, [*self._warnings, *left_out.warnings()]

    def _changed(self, now: Mapping[str, tuple[int, tuple[int, ...]]]) -> Iterator[Candidate]:
        for path, found in now.items():
            if self._before.get(path) != found:
                size = found[0] if found[0] >= 0 else None
                yield Candidate(path, size, lambda most, path=path: self._workspace.read_output(path, most))  # type: ignore[misc]


def _info(entry: Any) -> FileInfo:
    info = info_of(entry)
    if info is None:
        raise FileError(errno.EPROTO, "the description of a file makes no sense")
    return info


class _Answer:
    """Receives the one message that the instance sends."""

    def __init__(self) -> None:
        self.said: dict[str, Any] | None = None
        self.heard = threading.Event()
        self._reader = wire.FrameReader(_MOST_ANSWER_BYTES)

    def on_begin(self) -> None:
        pass

    def on_message(self, data: bytes) -> None:
        for said in self._reader.feed(data):
            self.said = said

    def on_output(self, name: str, data: bytes) -> None:
        pass

    def on_tick(self, cpu_seconds: float) -> None:
        pass

    def on_end(self, report: Mapping[str, Any], is_over: bool) -> None:
        self.heard.set()

    def on_lost(self, exit_code: int, has_begun: bool) -> None:
        self.said = None
        self.heard.set()
