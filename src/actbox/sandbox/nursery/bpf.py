"""Classic BPF as seccomp(2) takes it: instructions, decision trees made of them, and an evaluator.

A filter is a list of instructions that reads the number, the architecture and the arguments of a system call
(`struct seccomp_data`) and returns an action. Jumps only go forward.
"""

from __future__ import annotations

import struct

# Actions: what the kernel does with the call.
ALLOW = 0x7FFF0000
KILL = 0x80000000  # the whole process, with SIGSYS
_ERRNO = 0x00050000

# One instruction: code, jump if true, jump if false, operand. Jumps count from the next instruction.
Instruction = tuple[int, int, int, int]
Code = list[Instruction]

_LOAD = 0x20  # BPF_LD | BPF_W | BPF_ABS
_AND = 0x54  # BPF_ALU | BPF_AND | BPF_K
_JUMP = 0x05  # BPF_JMP | BPF_JA
_IF_EQUAL = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
_IF_GREATER_OR_EQUAL = 0x35  # BPF_JMP | BPF_JGE | BPF_K
_IF_ANY_BIT = 0x45  # BPF_JMP | BPF_JSET | BPF_K
_RETURN = 0x06  # BPF_RET | BPF_K

_LONGEST_BRANCH = 255
_LONGEST_PROGRAM = 4096

# struct seccomp_data, little-endian: int nr; __u32 arch; __u64 instruction_pointer; __u64 args[6].
_DATA = struct.Struct("<IIQ6Q")
_INSTRUCTION = struct.Struct("<HBBI")


def refuse(code: int) -> int:
    """Return the action that fails the call with an errno and does not make it."""
    return _ERRNO | code


def returns(action: int) -> Code:
    """End with an action."""
    return [(_RETURN, 0, 0, action)]


def load_number() -> Code:
    """Take up the system call's number."""
    return [(_LOAD, 0, 0, 0)]


def load_architecture() -> Code:
    """Take up the AUDIT_ARCH_* value of the table that the number is from."""
    return [(_LOAD, 0, 0, 4)]


def load_argument(index: int, mask: int = 0xFFFFFFFF) -> Code:
    """Take up the lower half of an argument, counted from 0, and of it the bits of `mask`."""
    load = (_LOAD, 0, 0, 16 + 8 * index)
    return [load] if mask == 0xFFFFFFFF else [load, (_AND, 0, 0, mask)]


def unless_one_of(values: tuple[int, ...], otherwise: int) -> Code:
    """Go on if what was taken up is one of `values`; else end with an action."""
    count = len(values)
    tests: Code = [(_IF_EQUAL, count - position, 0, value) for position, value in enumerate(values)]
    return [*tests, *returns(otherwise)]


def if_equal(value: int, then: int) -> Code:
    """End with an action if what was taken up is `value`; else go on."""
    return [(_IF_EQUAL, 0, 1, value), *returns(then)]


def if_any_bit(bits: int, then: int) -> Code:
    """End with an action if what was taken up has any of `bits`; else go on."""
    return [(_IF_ANY_BIT, 0, 1, bits), *returns(then)]


def when_equal(value: int, then: Code) -> Code:
    """Do some code if what was taken up is `value`, and go on."""
    return [(_IF_EQUAL, 0, len(then), value), *then]


def choose(ranges: list[tuple[int, Code]]) -> Code:
    """Find what was taken up among ranges by halving, and do that range's code, which ends with an action.

    A range is its first value and its code, and goes up to the next one. They are sorted, from 0 on.
    """
    if len(ranges) == 1:
        return ranges[0][1]
    middle = len(ranges) // 2
    below, above = choose(ranges[:middle]), choose(ranges[middle:])
    first = ranges[middle][0]
    if len(below) <= _LONGEST_BRANCH:
        return [(_IF_GREATER_OR_EQUAL, len(below), 0, first), *below, *above]
    return [(_IF_GREATER_OR_EQUAL, 0, 1, first), (_JUMP, 0, 0, len(below)), *below, *above]


def encode(code: Code) -> bytes:
    """Return the array of `struct sock_filter`."""
    if len(code) > _LONGEST_PROGRAM:
        raise ValueError(f"a filter has at most {_LONGEST_PROGRAM} instructions, not {len(code)}")
    return b"".join(_INSTRUCTION.pack(*instruction) for instruction in code)


def evaluate(program: bytes, architecture: int, number: int, arguments: tuple[int, ...] = ()) -> int:
    """Return the action that the kernel would find in a filter for one call: `ALLOW`, `KILL`, `refuse(…)`.

    `architecture` is an AUDIT_ARCH_* value; arguments are words of 64 bits, those not given are 0. ValueError
    for an instruction that the functions above do not make.
    """
    words = [argument & 0xFFFFFFFFFFFFFFFF for argument in arguments]
    data = _DATA.pack(number & 0xFFFFFFFF, architecture, 0, *words, *[0] * (6 - len(words)))
    code = list(_INSTRUCTION.iter_unpack(program))
    position = accumulator = 0
    while True:
        operation, if_true, if_false, operand = code[position]
        position += 1
        if operation == _RETURN:
            return int(operand)
        if operation == _LOAD:
            accumulator = int.from_bytes(data[operand : operand + 4], "little")
        elif operation == _AND:
            accumulator &= operand
        elif operation == _JUMP:
            position += operand
        elif operation == _IF_EQUAL:
            position += if_true if accumulator == operand else if_false
        elif operation == _IF_GREATER_OR_EQUAL:
            position += if_true if accumulator >= operand else if_false
        elif operation == _IF_ANY_BIT:
            position += if_true if accumulator & operand else if_false
        else:
            raise ValueError(f"instruction {position - 1} has the unknown operation {operation:#x}")
