"""The seccomp filter of a guest: an allow-list of system calls, assembled from `syscall_table` without a library.

Nothing but the table says what is allowed. A filter applies to the thread that installs it and everything that it
starts, and can never be removed. It checks the architecture first: the same number means another call in another table
(32-bit calls on a 64-bit kernel).

Kernels from 5.11 on cache the numbers that are allowed whatever their arguments, and then skip the filter.
"""

from __future__ import annotations

import ctypes
import errno
import functools
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
    if_one_of,
    load_architecture,
    load_argument,
    load_number,
    load_upper_half,
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
    CONDITIONAL_COUNTED,
    KILLED,
    REFUSED,
    Condition,
    Never,
    NeverWith,
    NullWith,
    Only,
    Without,
)

# On x86_64 a number with this bit belongs to the x32 table, which bypasses a list of plain numbers.
_X32_BIT = 0x40000000


@functools.lru_cache(maxsize=None)
def build(arch: str | None = None, *, chroot: bool = False, counted: bool = False) -> bytes:
    """Return the filter for an architecture (`x86_64` or `aarch64`), by default this interpreter's.

    `chroot` allows that call, for forkable sessions. `counted` allows calls for memory that only a control group can
    count, if there is one. Raises NotImplementedError for another architecture.
    """
    arch = arch or native_architecture()
    _check_known(arch)
    return encode(
        [
            *load_architecture(),
            *unless_one_of((AUDIT_ARCH[arch],), otherwise=KILL),
            *load_number(),
            *choose(_ranges(_code_by_number(arch, chroot, counted), arch)),
        ]
    )


def install(program: bytes) -> None:
    """Put this thread, and everything that it starts from now on, under a filter, for good.

    Needs `no_new_privs` (EACCES). Other threads of the process stay unfiltered: install it while there are none.
    """
    instructions = ctypes.create_string_buffer(program, len(program))
    sock_fprog = struct.pack("@HP", len(program) // 8, ctypes.addressof(instructions))
    described = ctypes.create_string_buffer(sock_fprog, len(sock_fprog))
    linux.prctl(linux.PR_SET_SECCOMP, linux.SECCOMP_MODE_FILTER, ctypes.addressof(described))


def allowed_names(arch: str | None = None, *, chroot: bool = False) -> frozenset[str]:
    """Return the names of the calls that a guest may make, including those allowed only with certain arguments."""
    numbers = NUMBERS[_check_known(arch or native_architecture())]
    groups = [names for _, names in _allowed(chroot)] + [names for _, names, _ in CONDITIONAL]
    return frozenset(name for names in groups for name in names.split() if name in numbers)


def native_architecture() -> str:
    """Return the name of this interpreter's system call table. Raises NotImplementedError if it is not known."""
    if struct.calcsize("P") != 8:
        raise NotImplementedError("the filter needs an interpreter of 64 bits, and this one has 32")
    return _check_known(os.uname().machine)


def _check_known(arch: str) -> str:
    if arch not in NUMBERS:
        known = " and ".join(sorted(NUMBERS))
        raise NotImplementedError(f"there is no table of system calls for {arch!r}, only for {known}")
    return arch


def _allowed(chroot: bool) -> list[tuple[str, str]]:
    """Return the groups of calls that are allowed with any arguments."""
    return [*ALLOWED, *((CHROOT,) if chroot else ())]


def _ranges(by_number: dict[int, Code], arch: str) -> list[tuple[int, Code]]:
    """Return ranges of call numbers, each as its first number and code; neighbors with the same code are merged."""
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


def _code_by_number(arch: str, chroot: bool, counted: bool) -> dict[int, Code]:
    by_name: dict[str, Code] = {}
    for _, names, code in REFUSED:
        by_name.update((name, returns(refuse(code))) for name in names.split())
    for _, names in KILLED:
        by_name.update((name, returns(KILL)) for name in names.split())
    for _, names, conditions in (*CONDITIONAL, *(CONDITIONAL_COUNTED if counted else ())):
        by_name.update((name, _check(conditions)) for name in names.split())
    for _, names in _allowed(chroot):
        by_name.update((name, returns(ALLOW)) for name in names.split())
    numbers = NUMBERS[arch]
    return {numbers[name]: code for name, code in by_name.items() if name in numbers}


def _check(conditions: tuple[Condition, ...]) -> Code:
    """Return code that allows a call if all conditions hold; the first that fails decides the errno."""
    code: Code = []
    whole = -1  # the unmasked argument that the last condition loaded, which needs no second load
    for condition in conditions:
        refusal = refuse(condition.refusal)
        mask = condition.mask if isinstance(condition, (Only, Never)) else 0xFFFFFFFF
        load = load_argument(condition.argument, mask)[whole == condition.argument :]
        loaded = whole
        is_simple = isinstance(condition, (Only, Never, Without))
        whole = condition.argument if is_simple and mask == 0xFFFFFFFF else -1
        if isinstance(condition, Only):
            code += load + unless_one_of(condition.values, refusal)
        elif isinstance(condition, Never):
            code += load + if_equal(condition.value, refusal)
        elif isinstance(condition, Without):
            code += load + if_any_bit(condition.bits, refusal)
        elif isinstance(condition, NeverWith):
            then = load_argument(condition.argument) + if_one_of(condition.values, refusal)
            code += load_argument(condition.other)[loaded == condition.other :] + when_equal(condition.when, then)
        elif isinstance(condition, NullWith):
            then = load_argument(condition.argument) + unless_one_of((0,), refusal)
            then += load_upper_half(condition.argument) + unless_one_of((0,), refusal)
            code += load_argument(condition.other) + when_equal(condition.when, then)
        else:
            raise TypeError(f"no code is known for the condition {type(condition).__name__}")
    return code + returns(ALLOW)
