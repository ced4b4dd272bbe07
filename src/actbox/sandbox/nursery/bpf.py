"""Classic BPF as seccomp(2) takes it: instructions, decision trees built from them, and an evaluator.

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
_TO_SHARED = -1  # a jump to code that several ranges share, until its place is known

_LARGEST = 0xFFFFFFFF
_LONGEST_BRANCH = 255
_LONGEST_PROGRAM = 4096

# struct seccomp_data, little-endian: int nr; __u32 arch; __u64 instruction_pointer; __u64 args[6].
_DATA = struct.Struct("<IIQ6Q")
_INSTRUCTION = struct.Struct("<HBBI")


def refuse(code: int) -> int:
    """Return the action that fails a call with an errno instead of making it; with 0 the call seems to succeed."""
    return _ERRNO | code


def returns(action: int) -> Code:
    """Return code that ends with an action."""
    return [(_RETURN, 0, 0, action)]


def load_number() -> Code:
    """Return code that loads the system call's number."""
    return [(_LOAD, 0, 0, 0)]


def load_architecture() -> Code:
    """Return code that loads the AUDIT_ARCH_* value of the table that the number is from."""
    return [(_LOAD, 0, 0, 4)]


def load_argument(index: int, mask: int = 0xFFFFFFFF) -> Code:
    """Return code that loads the lower half of an argument, counted from 0, and keeps only the bits of `mask`."""
    load = (_LOAD, 0, 0, 16 + 8 * index)
    return [load] if mask == 0xFFFFFFFF else [load, (_AND, 0, 0, mask)]


def load_upper_half(index: int) -> Code:
    """Return code that loads the upper half of an argument, counted from 0."""
    return [(_LOAD, 0, 0, 20 + 8 * index)]


def unless_one_of(values: tuple[int, ...], otherwise: int) -> Code:
    """Return code that goes on if the loaded value is one of `values`, and else ends with an action."""
    code = returns(otherwise)
    for first, last in reversed(_runs(values)):
        past_the_rest = len(code)
        if first == last:
            code = [(_IF_EQUAL, past_the_rest, 0, first), *code]
        else:
            from_first = [(_IF_GREATER_OR_EQUAL, 0, 1, first)] if first else []  # no value is below 0
            code = [*from_first, (_IF_GREATER_OR_EQUAL, 0, past_the_rest, last + 1), *code]
    return code


def _runs(values: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return the first and last of each run of values that follow one another."""
    runs: list[tuple[int, int]] = []
    for value in sorted(values):
        if runs and value == runs[-1][1] + 1 and value < _LARGEST:
            runs[-1] = (runs[-1][0], value)
        else:
            runs.append((value, value))
    return runs


def if_equal(value: int, then: int) -> Code:
    """Return code that ends with an action if the loaded value is `value`, and else goes on."""
    return [(_IF_EQUAL, 0, 1, value), *returns(then)]


def if_one_of(values: tuple[int, ...], then: int) -> Code:
    """Return code that ends with an action if the loaded value is one of `values`, and else goes on."""
    code = returns(then)
    past = 1  # the end of the code, from the check that is put before what there is; only the last one jumps there
    for first, last in reversed(_runs(values)):
        to_action = len(code) - 1
        if first == last:
            code = [(_IF_EQUAL, to_action, past, first), *code]
        else:
            skip = past + 1 if past else 1
            code = [(_IF_GREATER_OR_EQUAL, 0, skip, first), (_IF_GREATER_OR_EQUAL, past, to_action, last + 1), *code]
        past = 0
    return code


def if_any_bit(bits: int, then: int) -> Code:
    """Return code that ends with an action if the loaded value has any of `bits`, and else goes on."""
    return [(_IF_ANY_BIT, 0, 1, bits), *returns(then)]


def when_equal(value: int, then: Code) -> Code:
    """Return code that runs `then` if the loaded value is `value`, and goes on."""
    return [(_IF_EQUAL, 0, len(then), value), *then]


def choose(ranges: list[tuple[int, Code]]) -> Code:
    """Return code that finds the loaded value's range by binary search and runs that range's code.

    A range is its first value and its code, which must end with an action; it extends to the next range. The ranges are
    sorted and begin at 0. Code that several ranges have stands only once, at the end.
    """
    long = [code for _, code in ranges if len(code) > 2]
    shared: list[Code] = []
    for code in long:
        if long.count(code) > 1 and code not in shared:
            shared.append(code)
    ends = [[(_TO_SHARED, 0, 0, shared.index(code))] if code in shared else code for _, code in ranges]
    program = _halve([first for first, _ in ranges], ends)
    starts = []
    for code in shared:
        starts.append(len(program))
        program += code
    return [
        (_JUMP, 0, 0, starts[one[3]] - place - 1) if one[0] == _TO_SHARED else one for place, one in enumerate(program)
    ]


def _halve(firsts: list[int], codes: list[Code]) -> Code:
    if len(codes) == 1:
        return codes[0]
    middle = len(codes) // 2
    below, above = _halve(firsts[:middle], codes[:middle]), _halve(firsts[middle:], codes[middle:])
    first = firsts[middle]
    if len(below) <= _LONGEST_BRANCH:
        return [(_IF_GREATER_OR_EQUAL, len(below), 0, first), *below, *above]
    return [(_IF_GREATER_OR_EQUAL, 0, 1, first), (_JUMP, 0, 0, len(below)), *below, *above]


def encode(code: Code) -> bytes:
    """Return the code as an array of `struct sock_filter`."""
    if len(code) > _LONGEST_PROGRAM:
        raise ValueError(f"a filter has at most {_LONGEST_PROGRAM} instructions, not {len(code)}")
    return b"".join(_INSTRUCTION.pack(*instruction) for instruction in code)


def evaluate(program: bytes, architecture: int, number: int, arguments: tuple[int, ...] = ()) -> int:
    """Return the action that the kernel would find in a filter for one call: `ALLOW`, `KILL`, `refuse(…)`.

    `architecture` is an AUDIT_ARCH_* value; arguments are 64-bit words, missing ones are 0. Raises ValueError for an
    instruction that the functions above do not make.
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
