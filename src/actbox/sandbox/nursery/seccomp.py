"""The seccomp filter of a guest: an allow-list of system calls, assembled by hand from `syscall_table`.

No library is needed, and nothing but the table says what is allowed. A filter holds for the thread that
installs it and all that it starts, and can never be taken off. It checks the architecture first: the same
number means another call in another table (32-bit calls on a 64-bit kernel).

Kernels from 5.11 on remember the numbers that are allowed whatever their arguments, and then skip the filter.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

from . import linux
from .bpf import (
    ALLOW,
    KILL,
    Code,
    choose,
    encode,
    if_any_bit,
    if_equal,
    load_architecture,
    load_argument,
    load_number,
    refuse,
    returns,
    unless_one_of,
    when_equal,
)
from .syscall_numbers import AUDIT_ARCH, HIGHEST, NUMBERS
from .syscall_table import (
    ALLOWED,
    CHROOT,
    CONDITIONAL,
    COUNTED,
    KILLED,
    REFUSED,
    Condition,
    Never,
    NeverWith,
    Only,
    Without,
)

# On x86_64 a number with this bit is of the x32 table: the same calls again, past a list of numbers.
_X32_BIT = 0x40000000


def build(arch: str | None = None, *, chroot: bool = False, counted: bool = False) -> bytes:
    """Return the filter for an architecture (`x86_64` or `aarch64`), by default this interpreter's.

    `chroot` allows that call, for sessions that may be forked; `counted` allows what takes memory that only a control
    group can count, for where one does. NotImplementedError for another architecture.
    """
    arch = arch or native_architecture()
    _check_known(arch)
    return encode(
        [
            *load_architecture(),
            *unless_one_of((AUDIT_ARCH[arch],), otherwise=KILL),
            *load_number(),
            *choose(_ranges(arch, _allowed(chroot, counted))),
        ]
    )


def install(program: bytes) -> None:
    """Put this thread, and all that it starts from now on, under a filter, for good.

    Needs `no_new_privs` (EACCES). Other threads of the process stay free: install while there are none.
    """
    instructions = ctypes.create_string_buffer(program, len(program))
    sock_fprog = struct.pack("@HP", len(program) // 8, ctypes.addressof(instructions))
    described = ctypes.create_string_buffer(sock_fprog, len(sock_fprog))
    linux.prctl(linux.PR_SET_SECCOMP, linux.SECCOMP_MODE_FILTER, ctypes.addressof(described))


def allowed_names(arch: str | None = None, *, chroot: bool = False, counted: bool = False) -> frozenset[str]:
    """Return the names of the calls that a guest may make, also those where the arguments decide."""
    numbers = NUMBERS[_check_known(arch or native_architecture())]
    groups = [names for _, names in _allowed(chroot, counted)] + [names for _, names, _ in CONDITIONAL]
    return frozenset(name for names in groups for name in names.split() if name in numbers)


def native_architecture() -> str:
    """Return the name of this interpreter's table of calls. NotImplementedError where there is none here."""
    if struct.calcsize("P") != 8:
        raise NotImplementedError("the filter needs an interpreter of 64 bits, and this one has 32")
    return _check_known(os.uname().machine)


def _check_known(arch: str) -> str:
    if arch not in NUMBERS:
        known = " and ".join(sorted(NUMBERS))
        raise NotImplementedError(f"there is no table of system calls for {arch!r}, only for {known}")
    return arch


def _allowed(chroot: bool, counted: bool) -> list[tuple[str, str]]:
    """Return the groups of calls that are allowed whatever their arguments."""
    return [*ALLOWED, *(COUNTED if counted else ()), *((CHROOT,) if chroot else ())]


def _ranges(arch: str, allowed: list[tuple[str, str]]) -> list[tuple[int, Code]]:
    """Return what to do from which number on; neighbours that do the same are one range."""
    by_number = _code_by_number(arch, allowed)
    ranges: list[tuple[int, Code]] = []
    for number in range(HIGHEST + 1):
        code = by_number.get(number, returns(refuse(errno.EPERM)))
        if not ranges or ranges[-1][1] != code:
            ranges.append((number, code))
    ranges.append((HIGHEST + 1, returns(refuse(errno.ENOSYS))))
    if arch == "x86_64":
        ranges.append((_X32_BIT, returns(KILL)))
        ranges.append((_X32_BIT << 1, returns(refuse(errno.ENOSYS))))  # negative numbers
    return ranges


def _code_by_number(arch: str, allowed: list[tuple[str, str]]) -> dict[int, Code]:
    by_name: dict[str, Code] = {}
    for _, names, code in REFUSED:
        by_name.update((name, returns(refuse(code))) for name in names.split())
    for _, names in KILLED:
        by_name.update((name, returns(KILL)) for name in names.split())
    for _, names, conditions in CONDITIONAL:
        by_name.update((name, _check(conditions)) for name in names.split())
    for _, names in allowed:
        by_name.update((name, returns(ALLOW)) for name in names.split())
    numbers = NUMBERS[arch]
    return {numbers[name]: code for name, code in by_name.items() if name in numbers}


def _check(conditions: tuple[Condition, ...]) -> Code:
    """Return code that allows a call if all conditions hold; the first that fails says how it is refused."""
    code: Code = []
    for condition in conditions:
        refusal = refuse(condition.refusal)
        if isinstance(condition, Only):
            code += load_argument(condition.argument, condition.mask) + unless_one_of(condition.values, refusal)
        elif isinstance(condition, Never):
            code += load_argument(condition.argument, condition.mask) + if_equal(condition.value, refusal)
        elif isinstance(condition, Without):
            code += load_argument(condition.argument) + if_any_bit(condition.bits, refusal)
        elif isinstance(condition, NeverWith):
            refused = [line for value in condition.values for line in if_equal(value, refusal)]
            then = load_argument(condition.argument) + refused
            code += load_argument(condition.other) + when_equal(condition.when, then)
        else:
            raise TypeError(f"no code is known for the condition {type(condition).__name__}")
    return code + returns(ALLOW)
