"""The agent's file operations for the host, each in a thread: files may be large, and their disk slow.

A `CALL` frame carries the request. File content goes as `DATA` pieces, no further than the reader has room. One
`RESULT` ends the operation: `{"ok": ...}`, or `{"errno": ..., "error": ...}` from the operating system.
"""

from __future__ import annotations

import json
import os
import queue
import threading
from collections import deque

from . import frames
from .beneath import empty, write_all
from .tree import OPERATIONS, TooMuch, Tree

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Callable, Deque, Dict, Iterator, List, Tuple

_THREADS = 4
_MOST_WAITING = 512 * 1024
_MOST_MARKS = 4096


class _Operation:
    """One file operation, shared by the loop and the thread that does it."""

    def __init__(self, stream: int, request: Dict[str, Any]) -> None:
        self.stream = stream
        self.request = request
        self.changed = threading.Condition()
        self.room = frames.WINDOW
        self.received: Deque[bytes] = deque()
        self.ended = False
        self.given_up = False


class _GivenUp(Exception):
    """Raised in an operation that the host has cancelled."""


class FileService:
    """Runs the host's file operations. The agent's loop calls its methods, except those named `_do…`."""

    def __init__(self, tree: Tree, wake: Callable[[], None]) -> None:
        self._tree = tree
        self._wake = wake
        self._operations: Dict[int, _Operation] = {}
        self._jobs: queue.Queue[_Operation] = queue.Queue()
        self._threads = 0
        self._idle = threading.Semaphore(0)
        self._out: Deque[bytes] = deque()
        self._out_bytes = 0
        self._changed = threading.Condition()
        self._marks: Dict[int, Dict[str, Tuple[int, int]]] = {}

    def begin(self, stream: int, request: Dict[str, Any]) -> None:
        """Start an operation."""
        operation = _Operation(stream, request)
        self._operations[stream] = operation
        if request["op"] == "collect" and not self._marks.get(request["marks"]) and self._tree.is_output_empty():
            self._do_in_loop(operation)  # the usual case after a run; not worth a thread
            return
        if self._threads < _THREADS and not self._idle.acquire(blocking=False):
            self._threads += 1
            threading.Thread(target=self._work, daemon=True).start()
        self._jobs.put(operation)

    def hear(self, kind: int, stream: int, payload: bytes) -> None:
        """Handle a frame for an operation; a frame for a finished operation is ignored."""
        operation = self._operations.get(stream)
        if operation is None:
            return
        with operation.changed:
            if kind == frames.CREDIT:
                operation.room += frames.credit_of(payload)
            elif kind == frames.DATA:
                operation.received.append(payload)
            elif kind == frames.END:
                operation.ended = True
            elif kind == frames.KILL:
                operation.given_up = True
            operation.changed.notify_all()

    def taken(self) -> List[bytes]:
        """Return the frames to be sent now."""
        with self._changed:
            taken = list(self._out)
            self._out.clear()
            self._out_bytes = 0
            self._changed.notify_all()
        return taken

    def _do_in_loop(self, operation: _Operation) -> None:
        self._marks.pop(operation.request["marks"], None)
        self._operations.pop(operation.stream, None)
        self._say(frames.pack_json(frames.RESULT, operation.stream, {"ok": {"left_out": [], "end": "", "empty": True}}))

    def _say(self, frame: bytes) -> None:
        with self._changed:
            self._out.append(frame)
            self._out_bytes += len(frame)
        self._wake()

    def _work(self) -> None:
        while True:
            operation = self._jobs.get()
            try:
                answer = {"ok": self._do(operation)}
            except _GivenUp:
                answer = {"errno": 0, "error": "given up"}
            except OSError as error:
                answer = {"errno": error.errno or 0, "error": error.strerror or str(error)}
            except Exception as error:
                answer = {"errno": 0, "error": "%s: %s" % (type(error).__name__, error)}
            self._operations.pop(operation.stream, None)
            self._say(frames.pack_json(frames.RESULT, operation.stream, answer))
            self._idle.release()

    def _do(self, operation: _Operation) -> Any:
        request = operation.request
        if request["op"] in OPERATIONS:
            return OPERATIONS[request["op"]](self._tree, request)
        return getattr(self, "_do_" + request["op"])(operation, request)

    def _do_read(self, operation: _Operation, request: Dict[str, Any]) -> Any:
        descriptor = self._tree.open_file(request["path"])
        left = request["most"]
        try:
            while left > 0:
                data = os.read(descriptor, min(left, frames.PIECE))
                if not data:
                    break
                left -= len(data)
                self._send(operation, data)
        finally:
            os.close(descriptor)
        return None

    def _do_write(self, operation: _Operation, request: Dict[str, Any]) -> Any:
        with self._tree.draft(request["path"], request["mode"]) as descriptor:
            for piece in self._pieces(operation):
                write_all(descriptor, piece)
        return None

    def _do_list(self, operation: _Operation, request: Dict[str, Any]) -> Any:
        self._send_lines(operation, map(list, self._tree.list(request["path"], request["recursive"])))

    def _do_mark(self, operation: _Operation, request: Dict[str, Any]) -> Any:
        marks, anew = self._tree.mark()
        while len(self._marks) >= _MOST_MARKS:  # marks of runs that nobody collected from
            self._marks.pop(next(iter(self._marks)))
        self._marks[request["marks"]] = marks
        return anew

    def _do_forget(self, operation: _Operation, request: Dict[str, Any]) -> Any:
        self._marks.pop(request["marks"], None)

    def _do_collect(self, operation: _Operation, request: Dict[str, Any]) -> Any:
        """Send the new and changed files in `output`; return the omissions, and why collecting stopped early."""
        marks = self._marks.pop(request["marks"], {})
        left_out: List[str] = []
        end = ""
        try:
            self._send_lines(operation, map(list, self._tree.changed(marks, left_out)))
        except TooMuch as enough:
            end = str(enough)
        return {"left_out": [path[:4000] for path in left_out[:8]], "more": len(left_out), "end": end, "empty": False}

    def _do_empty(self, operation: _Operation, request: Dict[str, Any]) -> Any:
        empty(self._tree.top, ["input", *request["kept"]])
        self._tree.make_dir(["output"])

    def _send_lines(self, operation: _Operation, things: Iterator[Any]) -> None:
        waiting: List[bytes] = []
        size = 0
        try:
            for thing in things:
                waiting.append(json.dumps(thing).encode("ascii") + b"\n")
                size += len(waiting[-1])
                if size >= frames.PIECE:
                    self._send(operation, b"".join(waiting))
                    waiting, size = [], 0
        finally:
            self._send(operation, b"".join(waiting))

    def _send(self, operation: _Operation, data: bytes) -> None:
        view = memoryview(data)
        while view:
            with operation.changed:
                while operation.room <= 0 and not operation.given_up:
                    operation.changed.wait()
                if operation.given_up:
                    raise _GivenUp
                count = min(len(view), operation.room, frames.PIECE)
                operation.room -= count
            with self._changed:
                while self._out_bytes >= _MOST_WAITING:
                    self._changed.wait()
            self._say(frames.pack(frames.DATA, operation.stream, frames.CONTENT, bytes(view[:count])))
            view = view[count:]

    def _pieces(self, operation: _Operation) -> Iterator[bytes]:
        while True:
            with operation.changed:
                while not operation.received and not operation.ended and not operation.given_up:
                    operation.changed.wait()
                if operation.given_up:
                    raise _GivenUp
                if not operation.received:
                    return
                piece = operation.received.popleft()
            yield piece
            self._say(frames.pack_credit(operation.stream, frames.CONTENT, len(piece)))
