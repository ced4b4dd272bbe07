"""Parses paths in a workspace, and names the path in errors about it."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final

from actbox.core.errors import FileError, InvalidValue
from actbox.core.program import can_be_bytes

NO_FOLDER: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
"""The errnos of opening or listing a directory that does not exist, or is a file or a link."""


def names_below(root: str, path: str) -> tuple[str, ...]:
    """Return the names on a path from the workspace, whose path for programs is `root`.

    Raises `InvalidValue` for a path outside the workspace, or an invalid one.
    """
    if not isinstance(path, str) or not path or "\0" in path:
        raise InvalidValue(f"a path in the workspace must be non-empty text without NUL, not {path!r}")
    if not can_be_bytes(path):
        raise InvalidValue(f"a path in the workspace must be text, not half of a surrogate pair: {path!r}")
    pure = PurePosixPath(path)
    if pure.is_absolute():
        for place, prefix in ((root, ()), ("/workspace", ()), ("/input", ("input",)), ("/output", ("output",))):
            if pure.is_relative_to(place):
                pure = PurePosixPath(*prefix, *pure.relative_to(place).parts)
                break
        else:
            raise InvalidValue(f"{path!r} is outside the workspace; paths lie below {root}, /input or /output")
    if ".." in pure.parts:
        raise InvalidValue(f"{path!r} must not contain '..'")
    return pure.parts


def refuse_undecoded(path: str) -> None:
    """Raise `FileError` for a path with bytes that are not UTF-8, which Python represents as lone surrogates."""
    try:
        path.encode()
    except UnicodeEncodeError:
        raise FileError(errno.EILSEQ, f"{path!r}: the names of files are UTF-8 in this sandbox") from None


@contextlib.contextmanager
def errors_naming(path: str) -> Iterator[None]:
    """Turn an `OSError` in the block into a `FileError` that names only the path inside the sandbox."""
    try:
        yield
    except FileError:
        raise
    except OSError as error:
        is_link = error.errno in (errno.ELOOP, errno.ENOTDIR) and error.strerror == os.strerror(error.errno)
        why = (
            "the path leads through a link, which is not followed, or through a file"
            if is_link
            else error.strerror or str(error)
        )
        raise FileError(error.errno, f"{path}: {why}") from None
