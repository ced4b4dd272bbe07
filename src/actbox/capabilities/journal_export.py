"""The journal as JSON lines: written, and verified.

A line is an entry as `Entry.to_dict` has it, a blob (`{"blob": DIGEST, "data": BASE64}`), or at the end a signature
(`{"head": …}` or `{"archive": …}`, see `journal_signing`) of the last entry.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from actbox.core.errors import InvalidValue

from .database import StoreError
from .journal_chain import Chain, Entry, JournalVerification, from_base64, is_blob, row_of
from .journal_signing import Sealed, is_signed, read_key, sync_directory

Seal = tuple[Sealed, int, str, bytes]
"""A signature: its meaning, the number and hash of the entry, the signature itself."""


def write_lines(path: Path, entries: Iterable[Entry], blobs: Iterable[tuple[str, bytes]], seal: Seal | None) -> int:
    """Write a new file, put it on disk, and return the number of entries. Raises `StoreError`."""
    count = 0
    try:
        with open(path, "x", encoding="utf-8") as file:
            for entry in entries:
                _write(file, entry.to_dict())
                count += 1
            for digest, data in blobs:
                _write(file, {"blob": digest, "data": base64.b64encode(data).decode()})
            if seal is not None and count:
                what, seq, of, signature = seal
                _write(file, {what: {"seq": seq, "hash": of, "signature": base64.b64encode(signature).decode()}})
            file.flush()
            os.fsync(file.fileno())
        sync_directory(path.parent)
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror}") from None
    return count


def verify_lines(
    *paths: str | os.PathLike[str], key: str | os.PathLike[str] | None = None, expect: str = ""
) -> JournalVerification:
    """Verify files that `Journal.export` or `Journal.trim` has written, each the continuation of the one before.

    With `key`, a signature must vouch for the last entry. Lines that lack at the beginning are no problem: see
    `JournalVerification.first`. Raises `InvalidValue` for a key or file that cannot be used.
    """
    public = None if key is None else read_key(Path(key))
    chain = Chain(None, expect)
    signed = False
    for where, line in _lines(paths):
        try:
            said = json.loads(line)
            seal = _seal(said)
            if seal is not None:
                signed = public is not None and chain.signature(seal[1], seal[2], is_signed(public, *seal))
            elif "blob" in said:
                if not is_blob(said["blob"], from_base64(said["data"])):
                    chain.problem(f"the blob {str(said['blob'])[:12]} was changed")
            else:
                chain.entry(row_of(said))
                signed = False
        except (ValueError, KeyError, TypeError, RecursionError):
            chain.problem(f"{where} is no entry")
            signed = False
    if public is not None and not signed and not chain.problems:
        chain.problem("no signature vouches for the last entry")
    return chain.result(signed)


def _write(file: IO[str], line: Mapping[str, Any]) -> None:
    file.write(json.dumps(line) + "\n")


def _lines(paths: Iterable[str | os.PathLike[str]]) -> Iterator[tuple[str, str]]:
    several = len(paths := tuple(paths)) > 1
    for path in paths:
        try:
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                for number, line in enumerate(file, 1):
                    yield f"line {number} of {path}" if several else f"line {number}", line
        except OSError as error:
            raise InvalidValue(f"{path} cannot be read: {error.strerror}") from None


def _seal(said: Mapping[str, Any]) -> Seal | None:
    """Return the signature in a line, `None` if it is another line. Raises `KeyError`, `TypeError` and `ValueError`."""
    for what in ("head", "archive"):
        if what in said:
            found = said[what]
            return what, int(found["seq"]), str(found["hash"]), from_base64(found["signature"])
    return None
