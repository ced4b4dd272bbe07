"""What Linux lets a process say of itself. Most return whether they could: another system has none of it."""

from __future__ import annotations

_PR_SET_DUMPABLE = 4
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NAME = 15
_PR_SET_SECCOMP = 22
_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_MODE_FILTER = 2


def set_dumpable(dumpable: bool) -> bool:
    """Let other processes of the same user look into this one and trace it, or not."""
    return _prctl(_PR_SET_DUMPABLE, int(dumpable))


def become_subreaper() -> bool:
    """Become the parent of what descendants leave behind when they end."""
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_with_parent(signal: int) -> bool:
    """Get a signal when the parent ends."""
    return _prctl(_PR_SET_PDEATHSIG, signal)


def install_filter(program: bytes) -> None:
    """Put this process, and all that it starts, under a filter of system calls, for good. Raises `OSError`."""
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
    """Say by which name a list of processes shows this one."""
    import ctypes

    return _prctl(_PR_SET_NAME, ctypes.c_char_p(name.encode()))


def _prctl(option: int, value: object) -> bool:
    try:
        import ctypes

        return int(ctypes.CDLL(None).prctl(option, value, 0, 0, 0)) == 0
    except (ImportError, OSError, AttributeError):  # no Linux, or a Python without ctypes
        return False
