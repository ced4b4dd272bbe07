"""Paths in a workspace: what they name, and how an error says which one failed."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final

from actbox.core.errors import FileError, InvalidValue

NO_FOLDER: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
"""What opening or listing a folder fails with where there is none, or a file or a link in its place."""


def names_below(root: str, path: str) -> tuple[str, ...]:
    """Return the names that lead from the workspace, which programs know as `root`, to what a path means.

    Raises `InvalidValue` for what is no path in a workspace.
    """
    if not isinstance(path, str) or not path or "\0" in path:
        raise InvalidValue(f"a path in the workspace must be non-empty text without NUL, not {path!r}")
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
    """Raise `FileError` for a path of bytes that are not UTF-8, which Python has as lone surrogates."""
    try:
        path.encode()
    except UnicodeEncodeError:
        raise FileError(errno.EILSEQ, f"{path!r}: the names of files are UTF-8 in this sandbox") from None


@contextlib.contextmanager
def told(path: str) -> Iterator[None]:
    """Turn the operating system's error into one that names the path inside the sandbox, and only that."""
    try:
        yield
    except FileError:
        raise
    except OSError as error:
        is_link = error.errno in (errno.ELOOP, errno.ENOTDIR) and error.strerror == os.strerror(error.errno)
        why = "a link or a file on the way, which is not followed" if is_link else error.strerror or str(error)
        raise FileError(error.errno, f"{path}: {why}") from None
