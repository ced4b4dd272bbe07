"""The keys and signatures of the journal: Ed25519, over the number and the hash of an entry."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Literal

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from actbox.core.errors import InvalidValue

Key = Ed25519PrivateKey | Ed25519PublicKey
Sealed = Literal["head", "archive"]
"""The meaning of a signature: `head` is the last entry of the journal, and `archive` the last one of a file that
`Journal.trim` has written. An archive's signature is no head, so that nobody can pass an old state off as the last."""


def sign(key: Ed25519PrivateKey, what: Sealed, seq: int, digest: str) -> bytes:
    """Return the signature of an entry as a head or the end of an archive."""
    return key.sign(_text(what, seq, digest))


def is_signed(key: Key, what: Sealed, seq: int, digest: str, signature: bytes) -> bool:
    """Return whether a signature is by this key, of this entry and of this meaning."""
    public = key.public_key() if isinstance(key, Ed25519PrivateKey) else key
    try:
        public.verify(signature, _text(what, seq, digest))
    except (InvalidSignature, TypeError):  # or no bytes at all
        return False
    return True


def _text(what: Sealed, seq: int, digest: str) -> bytes:
    return f"actbox journal {what} {seq} {digest}".encode()


def read_key(path: Path, *, may_make: bool = False) -> Key:
    """Return the key in a file; with `may_make`, make one that only this user can read if there is no file.

    Raises `InvalidValue`.
    """
    try:
        if may_make and not path.exists():
            _make(path)
        text = path.read_bytes()
        key = load_pem_private_key(text, None) if b"PRIVATE KEY" in text else load_pem_public_key(text)
    except OSError as error:
        raise InvalidValue(f"the journal's key {path} cannot be used: {error.strerror}") from None
    except (ValueError, TypeError) as error:
        raise InvalidValue(f"the journal's key {path} is no key in PEM form: {error}") from None
    if not isinstance(key, (Ed25519PrivateKey, Ed25519PublicKey)):
        raise InvalidValue(f"the journal's key {path} is no Ed25519 key")
    return key


def _make(path: Path) -> None:
    """Make a key in a file that is whole as soon as it has its name, also if this process is killed meanwhile."""
    made = Ed25519PrivateKey.generate()
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)  # only this user can read it
    try:
        with open(descriptor, "wb") as file:
            file.write(made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):  # another process was faster; its key counts
            os.link(name, path)
    finally:
        os.unlink(name)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Put the names in a directory on disk. Raises `OSError`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
