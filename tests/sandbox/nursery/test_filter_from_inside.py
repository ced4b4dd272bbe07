"""Every system call is tried from inside a guest, and what its filter lets through is compared with the table.

The program is `inside/probe.py`, which says how it tells a call that passed from one that was refused without making
it. So this can tell what the filter lets through; it cannot tell what the kernel then makes of it. What is expected
is read from the table itself, not from the filter that is made of it.
"""

from __future__ import annotations

import errno
import os
import random
import signal
from pathlib import Path
from typing import Any

import pytest

import actbox
from actbox.sandbox.engines.linux.hierarchies import support
from actbox.sandbox.nursery import linux
from actbox.sandbox.nursery.syscall_numbers import HIGHEST, NUMBERS
from actbox.sandbox.nursery.syscall_table import (
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
from tests.conftest import engine_check

ARCH = os.uname().machine
PROBE = (Path(__file__).parent / "inside" / "probe.py").read_text()
GROUPS = support()
COUNTED_HERE = GROUPS is not None and bool(GROUPS.enforcer("memory"))
PASSED, KILLED_BY_FILTER = errno.ENOSYS, -signal.SIGSYS
BEYOND = 150
ODD_WORDS = (0, 1, 2, 3, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 32, 0xDEADBEEF << 32 | 1, (1 << 64) - 1)
RANDOM_CALLS = 3000
X32_BIT = 0x40000000

# `uretprobe` and `uprobe`, x86-64: since Linux 6.14 the kernel asks no filter about these two, which it plants itself
# where a probe is. Called from anywhere else they end the process or fail, and do nothing.
UNFILTERED = {335: {-signal.SIGILL, errno.EPERM}, 336: {-signal.SIGILL, errno.ENXIO, errno.EPERM}}

Call = tuple[int, ...]

pytestmark = [
    pytest.mark.skipif(not engine_check("linux").works, reason="the linux engine does not work here"),
    pytest.mark.skipif(ARCH not in NUMBERS, reason="there is no table for this architecture"),
]

# Each call that is answered with a signal costs a process, which takes long on a machine that has much else to do.
LIMITS = actbox.Limits(wall_seconds=300, cpu_seconds=300)


def holds(condition: Condition, call: Call) -> bool:
    word = call[1 + condition.argument] & 0xFFFFFFFF
    if isinstance(condition, Only):
        return word & condition.mask in condition.values
    if isinstance(condition, Never):
        return word & condition.mask != condition.value
    if isinstance(condition, NeverWith):
        return call[1 + condition.other] & 0xFFFFFFFF != condition.when or word not in condition.values
    if isinstance(condition, NullWith):
        return call[1 + condition.other] & 0xFFFFFFFF != condition.when or call[1 + condition.argument] == 0
    assert isinstance(condition, Without)
    return not word & condition.bits


def by_the_table(call: Call, *, chroot: bool = False, counted: bool = False) -> int | None:
    """Return what the table says of a call: `None` that it is allowed, else its errno, or minus SIGSYS."""
    number = call[0] & 0xFFFFFFFF
    if ARCH == "x86_64" and X32_BIT <= number < X32_BIT << 1:
        return KILLED_BY_FILTER
    if number > HIGHEST:
        return errno.ENOSYS
    names = [name for name, known in NUMBERS[ARCH].items() if known == number]
    if not names:
        return errno.EPERM
    (name,) = names
    groups = [*ALLOWED, *((CHROOT,) if chroot else ())]
    if any(name in group.split() for _, group in groups):
        return None
    for _, group, conditions in (*(CONDITIONAL_COUNTED if counted else ()), *CONDITIONAL):
        if name in group.split():
            return next((condition.refusal for condition in conditions if not holds(condition, call)), None)
    if any(name in group.split() for _, group in KILLED):
        return KILLED_BY_FILTER
    return next((code for _, group, code in REFUSED if name in group.split()), errno.EPERM)


def every_number() -> list[Call]:
    return [(number, *words) for number in range(HIGHEST + BEYOND) for words in ([0] * 5, [(1 << 64) - 1] * 5)]


def every_condition() -> list[Call]:
    """Return calls about each condition: each value that it names, those beside it, and single bits."""
    calls: list[Call] = []
    for _, names, conditions in CONDITIONAL:
        for name in names.split():
            if name not in NUMBERS[ARCH]:
                continue
            passing = [0] * 5
            for condition in conditions:
                passing[condition.argument] = a_passing_word(condition)
            for condition in conditions:
                for word in telling_words(condition):
                    for high in (0, 0xDEADBEEF << 32):
                        words = list(passing)
                        words[condition.argument] = high | word
                        calls.append((NUMBERS[ARCH][name], *words))
                        if isinstance(condition, (NeverWith, NullWith)):
                            words[condition.other] = high | condition.when
                            calls.append((NUMBERS[ARCH][name], *words))
    return calls


def a_passing_word(condition: Condition) -> int:
    if isinstance(condition, Only):
        return condition.values[0]
    return condition.value + 1 if isinstance(condition, Never) else 0


def telling_words(condition: Condition) -> list[int]:
    if isinstance(condition, (Only, NeverWith)):
        named = [*condition.values]
    elif isinstance(condition, Never):
        named = [condition.value]
    elif isinstance(condition, NullWith):
        named = [0]
    else:
        assert isinstance(condition, Without)
        named = [condition.bits]
    beside = [word + step for word in named for step in (-1, 0, 1)] + [0x5412, 0x541C]  # TIOCSTI TIOCLINUX
    return sorted({word & 0xFFFFFFFF for word in [*beside, *(1 << bit for bit in range(32)), 0, 0xFFFFFFFF]})


def random_calls(count: int) -> list[Call]:
    chance = random.Random(20)
    calls = []
    for _ in range(count):
        number = chance.choice((chance.randrange(HIGHEST + BEYOND), chance.getrandbits(31), chance.getrandbits(32)))
        if number & X32_BIT and chance.random() < 0.95:  # each of these costs a process
            number = chance.randrange(HIGHEST + BEYOND)
        words = [chance.choice((*ODD_WORDS, chance.getrandbits(64), chance.getrandbits(16))) for _ in range(5)]
        calls.append((number, *words))
    return calls


def answers(asked: list[Call], *, real: bool = False, forkable: bool = False) -> list[int]:
    """Return what the filter of a guest answers to calls."""
    inputs: dict[str, Any] = {"asked": [list(call) for call in asked], "real": real}
    policy = actbox.Policy(limits=LIMITS)
    with actbox.sync.open_sandbox("linux", policy=policy) as box:
        if forkable:
            with box.session(forkable=True) as session:
                result = session.run(actbox.Program(PROBE, inputs=inputs))
        else:
            result = box.run(actbox.Program(PROBE, inputs=inputs))
    assert result.success, result.error
    assert isinstance(result.value, list)
    return result.value


def differences(asked: list[Call], *, forkable: bool = False) -> list[tuple[str, int, int | None]]:
    wanted = [by_the_table(call, chroot=forkable, counted=COUNTED_HERE) for call in asked]
    found = answers(asked, forkable=forkable)
    return [
        (" ".join(map(hex, call)), got, want)
        for call, got, want in zip(asked, found, wanted, strict=True)
        if got != (PASSED if want is None else want) and not is_the_kernels_own(call, got)
    ]


def is_the_kernels_own(call: Call, got: int) -> bool:
    return ARCH == "x86_64" and got in UNFILTERED.get(call[0] & 0xFFFFFFFF, ())


@pytest.mark.slow
@pytest.mark.parametrize("forkable", [False, True], ids=["ordinary", "forkable"])
def test_every_number_gets_through_or_not_as_the_table_says(forkable: bool) -> None:
    assert differences(every_number(), forkable=forkable) == []


@pytest.mark.slow
def test_every_condition_decides_as_the_table_says() -> None:
    asked = every_condition()
    assert len(asked) > 2000
    assert differences(asked) == []


@pytest.mark.slow
def test_random_calls_get_through_or_not_as_the_table_says() -> None:
    assert differences(random_calls(RANDOM_CALLS)) == []


def test_calls_that_shall_look_missing_are_not_made() -> None:
    """What the filter answers with ENOSYS looks, to the other tests, like what it allows: here it is called for real.

    Each argument is -1, to which every kernel that has the call answers with something else than ENOSYS. Of a number
    that this kernel lacks nothing can be told, and need not be.
    """
    asked: list[Call] = [
        (number, *[(1 << 64) - 1] * 5)
        for number in range(HIGHEST + BEYOND)
        if by_the_table((number, *[0] * 5), counted=COUNTED_HERE) == errno.ENOSYS
    ]
    assert NUMBERS[ARCH]["clone3"] in [call[0] for call in asked]
    assert set(answers(asked, real=True)) == {errno.ENOSYS}


def test_the_probe_itself_tells_a_call_that_passes_from_one_that_does_not() -> None:
    """Were the second filter not in force, calls would be made, and their own errors and successes would show."""
    passing: list[Call] = [(NUMBERS[ARCH][name], *[0] * 5) for name in ("getpid", "read", "close")]
    assert answers(passing) == [PASSED] * 3
    made = answers(passing, real=True)
    assert made[0] == 0 and errno.ENOSYS not in made
    namespaces: Call = (NUMBERS[ARCH]["clone"], linux.CLONE_NEWUSER, 0, 0, 0, 0)
    assert answers([namespaces], real=True) == [errno.EPERM]


@pytest.mark.slow
def test_a_call_that_the_table_does_not_know_of_would_be_found() -> None:
    """A forkable session's filter lets one call more through than the table says of an ordinary guest."""
    asked = every_number()
    found = answers(asked, forkable=True)
    table = [by_the_table(call, counted=COUNTED_HERE) for call in asked]
    passed = {call[0] for call, got, said in zip(asked, found, table, strict=True) if got == PASSED != said}
    allowed = {call[0] for call, said in zip(asked, table, strict=True) if said is None}
    assert passed - allowed == {NUMBERS[ARCH]["chroot"]}


INT_0X80 = """
import ctypes, mmap, os
everything = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
page = mmap.mmap(-1, mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, everything)
address = ctypes.addressof(ctypes.c_char.from_buffer(page))
ends = []
for number in numbers:
    page.seek(0)
    page.write(b"\\xb8" + number.to_bytes(4, "little") + b"\\xcd\\x80\\xc3")  # mov eax, number; int 0x80; ret
    child = os.fork()
    if child == 0:
        ctypes.CFUNCTYPE(ctypes.c_int)(address)()
        os._exit(0)
    ends.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
ends
"""


@pytest.mark.slow
@pytest.mark.skipif(ARCH != "x86_64", reason="this is about x86_64")
def test_no_32_bit_call_gets_through() -> None:
    numbers = [*range(0, HIGHEST + BEYOND, 7), 20, 11, 120, X32_BIT | 20]
    with actbox.sync.open_sandbox("linux", policy=actbox.Policy(limits=LIMITS)) as box:
        result = box.run(actbox.Program(INT_0X80, inputs={"numbers": numbers}))
    assert result.success, result.error
    # A kernel without 32-bit calls ends the process too, with another signal.
    assert set(result.value) <= {-signal.SIGSYS, -signal.SIGSEGV}
    assert len(set(result.value)) == 1


@pytest.mark.slow
@pytest.mark.skipif(ARCH != "x86_64", reason="this is about x86_64")
def test_no_x32_call_gets_through() -> None:
    asked: list[Call] = [(X32_BIT | number, *[0] * 5) for number in range(0, 600, 5)]
    assert set(answers(asked)) == {KILLED_BY_FILTER}
