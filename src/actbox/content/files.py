"""Stores for files that are too large for a message; each file gets an id."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from pydantic import ValidationError

from actbox.core.errors import InvalidValue

from .items import HostedFileContent


class FileStore(Protocol):
    """A store that keeps files by id.

    The same bytes put again with the same name and media type have the same id. Every method but `list` raises
    `KeyError` for an id that is unknown or expired; any may raise `OSError`.
    """

    def put(
        self, data: bytes, *, name: str | None = None, media_type: str | None = None, keep_seconds: float | None = None
    ) -> HostedFileContent:
        """Keep a file for so many seconds or until it is deleted; a file that is put again is kept for the longer
        time.
        """
        ...

    def get(self, file_id: str) -> bytes:
        """Return the bytes of a file."""
        ...

    def info(self, file_id: str) -> HostedFileContent:
        """Return a file's name, media type, size and times, without its bytes."""
        ...

    def delete(self, file_id: str) -> None:
        """Delete a file."""
        ...

    def list(self) -> list[HostedFileContent]:
        """Return the descriptions of all files, the oldest first."""
        ...


_ID = re.compile(r"file-[0-9a-f]{40}")
_FIELDS = frozenset({"name", "media_type", "size", "created", "expires"})
_MOST_SECONDS = 10**10


class LocalFileStore:
    """A store in a directory: for each file its bytes and a small JSON document. The id is derived from bytes, name and
    media type.

    Several processes may share one. Only the owner can read the files. An expired file is gone for everybody at once;
    its bytes are removed by `remove_expired`.
    """

    def __init__(self, folder: str | Path) -> None:
        """Open the store in `folder`, which is created if it is missing."""
        self._documents, self._bytes = Path(folder) / "files", Path(folder) / "bytes"
        self._lock = Path(folder) / "lock"
        for part in (self._documents, self._bytes):
            part.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock.touch(mode=0o600)

    def put(
        self, data: bytes, *, name: str | None = None, media_type: str | None = None, keep_seconds: float | None = None
    ) -> HostedFileContent:
        """Keep a file for so many seconds or until it is deleted; a file that is put again is kept for the longer
        time.
        """
        if keep_seconds is not None and not 0 < keep_seconds <= _MOST_SECONDS:
            raise InvalidValue(f"keep_seconds must be more than 0 and at most {_MOST_SECONDS:,}, and is {keep_seconds}")
        described = json.dumps([hashlib.sha256(data).hexdigest(), name, media_type])
        file_id = "file-" + hashlib.sha256(described.encode()).hexdigest()[:40]
        now = datetime.now(UTC)
        expires = None if keep_seconds is None else now.timestamp() + keep_seconds
        document: dict[str, Any] = {
            "name": name,
            "media_type": media_type,
            "size": len(data),
            "created": now.timestamp(),
            "expires": expires,
        }
        _described(file_id, document)  # raises for an invalid document before anything is written
        with self._alone():
            with contextlib.suppress(KeyError):
                known = self._read(file_id)
                document["created"] = known["created"]
                if expires is not None:
                    document["expires"] = None if known["expires"] is None else max(expires, known["expires"])
            if not _has(self._bytes / file_id, len(data)):
                _write(self._bytes / file_id, data)
            _write(self._documents / file_id, json.dumps(document).encode())
        return _described(file_id, document)

    def get(self, file_id: str) -> bytes:
        """Return the bytes of a file; `KeyError` if the id is unknown or the file has expired."""
        self._read(file_id)
        try:
            return (self._bytes / file_id).read_bytes()
        except FileNotFoundError:  # deleted since
            raise KeyError(f"no file {file_id!r}") from None

    def info(self, file_id: str) -> HostedFileContent:
        """Return a file's description; `KeyError` if the id is unknown or the file has expired."""
        return _described(file_id, self._read(file_id))

    def delete(self, file_id: str) -> None:
        """Delete a file; `KeyError` if the id is unknown or the file has expired."""
        with self._alone():
            self._read(file_id)
            self._remove(file_id)

    def list(self) -> list[HostedFileContent]:
        """Return the descriptions of all files, the oldest first."""
        found = []
        for file_id in self._ids():
            with contextlib.suppress(KeyError, ValidationError):  # deleted since, or written by another program
                found.append(self.info(file_id))
        return sorted(found, key=lambda file: (file.created_at or datetime.min.replace(tzinfo=UTC), file.file_id))

    def remove_expired(self) -> None:
        """Remove expired files. This reads the document of each file."""
        with self._alone():
            for file_id in self._ids():
                document = self._document(file_id)
                if document is not None and _is_over(document):
                    self._remove(file_id)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Lock the store against changes by other threads and processes for the duration of a `with` block."""
        import fcntl  # missing on Windows, where everything else here works

        with open(self._lock, "a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _remove(self, file_id: str) -> None:
        for folder in (self._documents, self._bytes):
            (folder / file_id).unlink(missing_ok=True)

    def _ids(self) -> Iterator[str]:
        return (entry.name for entry in self._documents.iterdir() if _ID.fullmatch(entry.name))

    def _read(self, file_id: str) -> dict[str, Any]:
        document = self._document(file_id)
        if document is None or _is_over(document):
            raise KeyError(f"no file {file_id!r}")
        return document

    def _document(self, file_id: str) -> dict[str, Any] | None:
        """Return a file's document, or `None` if it is missing or is not the document of a file."""
        if not isinstance(file_id, str) or not _ID.fullmatch(
            file_id
        ):  # any other text may be a path that leads elsewhere
            return None
        try:
            document = json.loads((self._documents / file_id).read_bytes())
        except (FileNotFoundError, ValueError):
            return None
        return document if isinstance(document, dict) and document.keys() >= _FIELDS else None


def _described(file_id: str, document: dict[str, Any]) -> HostedFileContent:
    return HostedFileContent(
        file_id=file_id,
        media_type=document["media_type"],
        name=document["name"],
        size_bytes=document["size"],
        created_at=datetime.fromtimestamp(document["created"], UTC),
    )


def _has(path: Path, size: int) -> bool:
    try:
        return path.stat().st_size == size
    except FileNotFoundError:
        return False


def _is_over(document: dict[str, Any]) -> bool:
    return document["expires"] is not None and document["expires"] <= datetime.now(UTC).timestamp()


def _write(path: Path, data: bytes) -> None:
    """Write a file as a whole or not at all; it is readable by its owner only."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".")
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
