"""Where files go that are too large to be in a message: a store that gives each an id."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

from actbox.core.errors import InvalidValue

from .items import HostedFileContent


class FileStore(Protocol):
    """Keeps files by an id.

    The same bytes put again with the same name and media type have the same id. Every method but `list` raises
    `KeyError` for an id that is not there, or whose time is over; any may raise `OSError`.
    """

    def put(
        self, data: bytes, *, name: str | None = None, media_type: str | None = None, keep_seconds: float | None = None
    ) -> HostedFileContent:
        """Keep a file, for so many seconds or until it is deleted; put again it is kept for the longer of both."""
        ...

    def get(self, file_id: str) -> bytes:
        """Return the bytes of a file."""
        ...

    def info(self, file_id: str) -> HostedFileContent:
        """Return what is known of a file."""
        ...

    def delete(self, file_id: str) -> None:
        """Forget a file."""
        ...

    def list(self) -> list[HostedFileContent]:
        """Return what is known of all files, the oldest first."""
        ...


_ID = re.compile(r"file-[0-9a-f]{40}")


class LocalFileStore:
    """A store in a folder: the bytes of each file, and a small document. The id comes from bytes, name and media type.

    Several processes may share one. Files are readable by their owner only. A file whose time is over is gone for
    everybody at once; its bytes go when `remove_expired` is called, or the same process puts another file.
    """

    def __init__(self, folder: str | Path) -> None:
        """`folder` is made if it is not there."""
        self._documents, self._bytes = Path(folder) / "files", Path(folder) / "bytes"
        for part in (self._documents, self._bytes):
            part.mkdir(mode=0o700, parents=True, exist_ok=True)

    def put(
        self, data: bytes, *, name: str | None = None, media_type: str | None = None, keep_seconds: float | None = None
    ) -> HostedFileContent:
        """Keep a file, for so many seconds or until it is deleted; put again it is kept for the longer of both."""
        if keep_seconds is not None and not keep_seconds > 0:
            raise InvalidValue(f"keep_seconds must be more than 0, and is {keep_seconds}")
        self.remove_expired()
        digest = hashlib.sha256(data).hexdigest()
        file_id = "file-" + hashlib.sha256(f"{digest}\0{name}\0{media_type}".encode()).hexdigest()[:40]
        now = datetime.now(UTC)
        expires = None if keep_seconds is None else (now + timedelta(seconds=keep_seconds)).timestamp()
        document: dict[str, Any] = {
            "name": name,
            "media_type": media_type,
            "size": len(data),
            "created": now.timestamp(),
            "expires": expires,
        }
        with contextlib.suppress(KeyError):
            known = self._read(file_id)
            document["created"] = known["created"]
            document["expires"] = None if None in (expires, known["expires"]) else max(expires or 0, known["expires"])
        if not (self._bytes / file_id).exists():
            _write(self._bytes / file_id, data)
        _write(self._documents / file_id, json.dumps(document).encode())
        return self.info(file_id)

    def get(self, file_id: str) -> bytes:
        """Return the bytes of a file; `KeyError` where there is none of that id, or its time is over."""
        self._read(file_id)
        try:
            return (self._bytes / file_id).read_bytes()
        except FileNotFoundError:  # deleted since
            raise KeyError(f"no file {file_id!r}") from None

    def info(self, file_id: str) -> HostedFileContent:
        """Return what is known of a file; `KeyError` where there is none of that id, or its time is over."""
        document = self._read(file_id)
        return HostedFileContent(
            file_id=file_id,
            media_type=document["media_type"],
            name=document["name"],
            size_bytes=document["size"],
            created_at=datetime.fromtimestamp(document["created"], UTC),
        )

    def delete(self, file_id: str) -> None:
        """Forget a file; `KeyError` where there is none of that id, or its time is over."""
        self._read(file_id)
        self._remove(file_id)

    def list(self) -> list[HostedFileContent]:
        """Return what is known of all files, the oldest first."""
        found = []
        for file_id in self._ids():
            with contextlib.suppress(KeyError):
                found.append(self.info(file_id))
        return sorted(found, key=lambda file: (file.created_at or datetime.min.replace(tzinfo=UTC), file.file_id))

    def remove_expired(self) -> None:
        """Remove what is left of files whose time is over."""
        for file_id in self._ids():
            with contextlib.suppress(FileNotFoundError):
                if _is_over(json.loads((self._documents / file_id).read_bytes())):
                    self._remove(file_id)

    def _remove(self, file_id: str) -> None:
        for folder in (self._documents, self._bytes):
            (folder / file_id).unlink(missing_ok=True)

    def _ids(self) -> Iterator[str]:
        return (entry.name for entry in self._documents.iterdir() if _ID.fullmatch(entry.name))

    def _read(self, file_id: str) -> dict[str, Any]:
        if _ID.fullmatch(file_id):  # anything else may be a path that leads elsewhere
            with contextlib.suppress(FileNotFoundError):
                document: dict[str, Any] = json.loads((self._documents / file_id).read_bytes())
                if not _is_over(document):
                    return document
        raise KeyError(f"no file {file_id!r}")


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
