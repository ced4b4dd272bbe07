"""Frames that a program writes itself amid calls that one thread answers: its run ends right, and so does the next."""

from __future__ import annotations

import pytest

import actbox
from actbox import ErrorKind
from actbox.sandbox.channel import thread_calls
from tests.sandbox.in_lanes import linux_works, ready  # noqa: F401 (a fixture for all here)

_CHANNEL = """
import json, os, socket, stat, struct, time
channel = next(n for n in range(3, 100) if os.path.exists(f"/proc/self/fd/{n}") and stat.S_ISSOCK(os.fstat(n).st_mode))
def frame(**message):
    text = json.dumps(message).encode()
    return struct.pack("!II", len(text), 0) + text
def call(number):
    return frame(t="call", id=number, tool="add", args={"a": 1})
def ask(data, answers=1):
    got = b""
    os.write(channel, data)
    while got.count(b"return") < answers: got += os.read(channel, 65536)
def done(data=b""):
    os.write(channel, data + frame(t="done", exit=0, value=7, alone=True))
    os._exit(231)
# From the third call on the thread answers.
for number in range(1, 9): ask(call(number))
"""


@pytest.mark.parametrize(
    ("code", "calls", "kind"),
    [
        ("for one in call(9)[:-1]: os.write(channel, bytes([one]))\nask(call(9)[-1:])\ndone()", 9, None),
        ("ask(call(9) + call(10), 2)\nask(call(11))\ndone()", 11, None),
        ("done(call(9))", 9, None),
        ("os.write(channel, call(9))\ndone()", 9, None),
        ("if os.fork() == 0:\n    for number in range(9, 9_000): ask(call(number))\ndone()", None, None),
        ("socket.socket(fileno=os.dup(channel)).shutdown(socket.SHUT_RD)\ndone(call(9))", 9, None),
        ("ask(call(8))", 8, ErrorKind.PROTOCOL),
        ("os.write(channel, frame(t='call', id=9, tool='add', args=[1]))\ntime.sleep(60)", 8, ErrorKind.PROTOCOL),
        ("os.write(channel, call(9)[:-1])\nos.close(channel)\ntime.sleep(60)", 8, ErrorKind.PROTOCOL),
    ],
)
async def test_what_a_program_writes_amid_calls_by_the_thread_disturbs_no_other_run(
    code: str, calls: int | None, kind: ErrorKind | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread_calls, "_WAIT_SECONDS", 60)
    made = 0

    def add(a: int) -> int:
        nonlocal made
        made += 1
        return a + 1

    async with actbox.open_sandbox("linux") as box:
        result = await box.run(_CHANNEL + code, tools=[add])
        assert (result.error and result.error.kind) == kind, result
        assert result.value == (7 if kind is None else None)
        assert calls is None or result.usage.tool_calls == calls
        await ready(box)
        made = 0
        after = await box.run("[add(n) for n in range(9)]", tools=[add])
        assert (after.value, after.usage.tool_calls, made) == (list(range(1, 10)), 9, 9)
