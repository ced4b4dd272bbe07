"""Sets attributes of this process on Linux. Most functions return whether it worked; other systems have none."""

from __future__ import annotations

_PR_SET_DUMPABLE = 4
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NAME = 15
_PR_SET_SECCOMP = 22
_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_MODE_FILTER = 2


def set_dumpable(dumpable: bool) -> bool:
    """Set whether other processes of the same user may trace this process and read its memory."""
    return _prctl(_PR_SET_DUMPABLE, int(dumpable))


def become_subreaper() -> bool:
    """Make this process the parent of its descendants' orphans."""
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_with_parent(signal: int) -> bool:
    """Have the kernel send this process a signal when its parent ends."""
    return _prctl(_PR_SET_PDEATHSIG, signal)


def install_filter(program: bytes) -> None:
    """Put this process, and everything that it starts, under a system call filter, for good. Raises `OSError`."""
    import ctypes
    import struct

    libc = ctypes.CDLL(None, use_errno=True)
    instructions = ctypes.create_string_buffer(program, len(program))
    described = ctypes.create_string_buffer(struct.pack("@HP", len(program) // 8, ctypes.addressof(instructions)))
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
        _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(described), 0, 0
    ):
        raise OSError(ctypes.get_errno(), "a filter of system calls could not be installed")


def set_name(name: str) -> bool:
    """Set this process's name in process lists."""
    import ctypes

    return _prctl(_PR_SET_NAME, ctypes.c_char_p(name.encode()))


def _prctl(option: int, value: object) -> bool:
    try:
        import ctypes

        return int(ctypes.CDLL(None).prctl(option, value, 0, 0, 0)) == 0
    except (ImportError, OSError, AttributeError):  # not Linux, or a Python without ctypes
        return False
