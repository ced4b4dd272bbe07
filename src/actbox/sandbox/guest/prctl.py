"""What Linux lets a process say of itself. Each returns whether it could: another system has none of it."""

from __future__ import annotations

_PR_SET_DUMPABLE = 4
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NAME = 15


def set_dumpable(dumpable: bool) -> bool:
    """Let other processes of the same user look into this one and trace it, or not."""
    return _prctl(_PR_SET_DUMPABLE, int(dumpable))


def become_subreaper() -> bool:
    """Become the parent of what descendants leave behind when they end."""
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_with_parent(signal: int) -> bool:
    """Get a signal when the parent ends."""
    return _prctl(_PR_SET_PDEATHSIG, signal)


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
