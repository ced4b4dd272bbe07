"""Replaces the WebAssembly library's general I/O error by `FileNotFoundError` or `FileExistsError`."""

from __future__ import annotations

import contextlib
import errno
import functools
import os

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Callable

_FUNCTIONS = ("stat", "lstat", "unlink", "remove", "rmdir", "mkdir", "rename", "replace")
_CAPABILITIES = (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks)


def name_what_is_missing() -> None:
    """Make the functions of `os` raise `FileNotFoundError` and `FileExistsError` as they do elsewhere."""
    for name in _FUNCTIONS:
        function = getattr(os, name)
        mended = _mended(function)
        for able in _CAPABILITIES:
            if function in able:
                able.add(mended)
        setattr(os, name, mended)


def _mended(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def called(path: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return function(path, *args, **kwargs)
        except OSError as error:
            if error.errno != errno.EIO or isinstance(path, int) or any(key.endswith("dir_fd") for key in kwargs):
                raise
            number = _number(function.__name__, os.fspath(path))
            if not number:
                raise
            raise OSError(number, os.strerror(number), path) from None

    return called


def _number(function: str, path: Any) -> int:
    """Return the errno that really applies, or 0 if it is neither of these."""
    is_there = _is_there(path)
    if function == "mkdir":
        return errno.EEXIST if is_there else errno.ENOENT
    return 0 if is_there else errno.ENOENT


def _is_there(path: Any) -> bool:
    try:
        os.close(os.open(path, os.O_RDONLY))
    except FileNotFoundError:  # also for a link to a missing target
        with contextlib.suppress(OSError):
            os.readlink(path)
            return True
        return False
    except OSError:
        return True
    return True
