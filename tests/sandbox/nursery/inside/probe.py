"""Run inside a guest: say of each call whether the filter lets it pass, without making it.

A guest may put a filter of its own over ours, and of all filters' answers the kernel takes the strictest: kill, then an
error, then "ask the tracer", then allow. So a second filter that asks for a tracer, of which there is none, stops each
call that ours allows, with ENOSYS, and changes nothing of what ours refuses. Only calls with a mark in their last
argument are stopped so; our conditions look at the first four. Where ours says ENOSYS itself the two look the same:
such calls are made for real (`real`), with arguments that no kernel accepts.

`asked` is a list of numbers, each with its five arguments; the value is a list of what came of each: an errno, 0 for a
call that worked, or minus the signal that ended the process.
"""

# ruff: noqa: F821

import ctypes
import mmap
import os
import struct
import tempfile

MARK = 0x5EED5EED
PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
TRACE, ALLOW = 0x7FF00000, 0x7FFF0000
LAST_ARGUMENT = 16 + 8 * 5
NOT_MADE = -1000

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
# Shared with the children: how far they have come, and what they found.
size = 8 + 4 * len(asked)
with tempfile.TemporaryFile() as shared:
    shared.truncate(size)
    found = mmap.mmap(shared.fileno(), size)


def stop_marked_calls():
    code = [(LOAD, 0, 0, LAST_ARGUMENT), (EQUAL, 0, 1, MARK), (RETURN, 0, 0, TRACE), (RETURN, 0, 0, ALLOW)]
    program = b"".join(struct.pack("<HBBI", *line) for line in code)
    kept = ctypes.create_string_buffer(program, len(program))
    described = ctypes.create_string_buffer(struct.pack("@HP", len(code), ctypes.addressof(kept)))
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(described), 0, 0):
        os._exit(99)


def ask_from(start):
    if not real:
        stop_marked_calls()
    last = ctypes.c_long(0 if real else MARK)
    for position in range(start, len(asked)):
        struct.pack_into("<q", found, 0, position)
        words = [ctypes.c_long(word - (1 << 64) if word >= 1 << 63 else word) for word in asked[position]]
        ctypes.set_errno(0)
        result = libc.syscall(*words, last)
        struct.pack_into("<i", found, 8 + 4 * position, ctypes.get_errno() if result == -1 else 0)
    os._exit(0)


struct.pack_into(f"<{len(asked)}i", found, 8, *[NOT_MADE] * len(asked))
start = 0
while start < len(asked):
    child = os.fork()
    if child == 0:
        ask_from(start)
    status = os.waitpid(child, 0)[1]
    if status == 0:
        break
    start = struct.unpack_from("<q", found, 0)[0]
    struct.pack_into("<i", found, 8 + 4 * start, os.waitstatus_to_exitcode(status))
    start += 1
list(struct.unpack_from(f"<{len(asked)}i", found, 8))
