"""The results file of `actbox map`: one whole line per result, written at once, so that a crash tears at most the last
line.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from .errors import UsageError
from .jobs import JobId, is_job_id
from .output import to_json


class CannotWrite(Exception):
    """A result could not be written, for example because the disk is full; the file ends with the last whole line."""


class ResultsFile:
    """Results by id, appended to a file that only one writer may have open. A context manager.

    `done` are the ids that were in it when it was opened; `repaired` is a sentence on a repair of its end, or "".
    """

    def __init__(self, path: Path, *, resume: bool) -> None:
        """Open or create the file.

        Raises `UsageError` if it cannot be written, has results already and `resume` is false, is being written by
        another process, or has a damaged line before its end. An incomplete last line is cut off.
        """
        self.path = path
        self.done: set[JobId] = set()
        self.repaired = ""
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise UsageError(f"cannot write {path}: {error.strerror}", "give --out a file that you can write") from None
        try:
            self._take()
            found = os.fstat(self._descriptor)
            # A pipe or a device has no end that could be repaired.
            self._regular = stat.S_ISREG(found.st_mode)
            self._size = found.st_size if self._regular else 0
            if self._size and not resume:
                raise UsageError(f"{path} is not empty", "continue it with --resume, or name a new file")
            self._read()
        except BaseException:
            os.close(self._descriptor)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)

    def write(self, identity: JobId, document: Mapping[str, Any]) -> None:
        """Append one line. Raises `CannotWrite` after removing what was written of the line."""
        line = to_json({"id": identity, **document}).encode() + b"\n"
        view = memoryview(line)
        try:
            while view:
                view = view[os.write(self._descriptor, view) :]
        except OSError as error:
            self._cut(self._size)
            raise CannotWrite(f"cannot write to {self.path}: {error.strerror}") from error
        self._size += len(line)

    def _take(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno != errno.EWOULDBLOCK:
                return  # this file system has no locks
            raise UsageError(
                f"{self.path} is in use by another actbox process", "wait for it, or name a new file"
            ) from None

    def _read(self) -> None:
        if not self._size:
            return
        whole = 0
        with open(os.dup(self._descriptor), "rb") as lines:
            lines.seek(0)
            for number, line in enumerate(lines, 1):
                identity = _identity_in(line)
                if identity is None and line.strip():
                    if line.endswith(b"\n"):
                        raise UsageError(
                            f"{self.path}, line {number}, is damaged: not a result",
                            "remove the line, then continue with --resume: its program runs again",
                        )
                    break
                if identity is not None:
                    self.done.add(identity)
                whole += len(line)
                ended = line.endswith(b"\n")
        if whole < self._size:
            self._cut(whole)
            self.repaired = f"the last line of {self.path} was incomplete and has been removed; its program runs again"
        elif not ended:
            self._size += os.write(self._descriptor, b"\n")

    def _cut(self, size: int) -> None:
        if self._regular:
            os.ftruncate(self._descriptor, size)
            self._size = size


def _identity_in(line: bytes) -> JobId | None:
    """Return the id of the result in a line; `None` if the line is not a result."""
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or "exit_code" not in document or not is_job_id(document.get("id")):
        return None
    identity: JobId = document["id"]
    return identity
