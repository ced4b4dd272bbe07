"""The channel in the hands of a guest that closes it, writes nonsense into it or floods it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from actbox import Completed, ErrorKind, Sandbox, ToolStarted
from tests.conftest import OpenBox

pytestmark = pytest.mark.one_engine_first


def add(a: int, b: int = 10) -> int:
    """Add."""
    return a + b


async def slow(number: int, seconds: float = 0.2) -> int:
    await asyncio.sleep(seconds)
    return number


def echo(value: Any) -> Any:
    return value


FIND_CHANNEL = (
    "import os, socket, stat\n"
    "open_ones = [n for n in range(3, 100) if os.path.exists(f'/proc/self/fd/{n}')]\n"
    "channel = next(n for n in open_ones if stat.S_ISSOCK(os.fstat(n).st_mode))\n"
)


@pytest.mark.parametrize(
    "abuse",
    [
        "os.close(channel)\nimport time\ntime.sleep(60)",
        "os.close(channel)",
        "os.write(channel, b'garbage' * 100)\nimport time\ntime.sleep(60)",
        "os.write(channel, b'\\xff' * 8)\nimport time\ntime.sleep(60)",
        'import struct\nm = b\'{"t":"done","exit":0,"extra":1}\'\n'
        "os.write(channel, struct.pack('!II', len(m), 0) + m)\nimport time\ntime.sleep(60)",
        'import struct\nm = b\'{"t":"done","exit":0,"error":{"kind":"SANDBOX"}}\'\n'
        "os.write(channel, struct.pack('!II', len(m), 0) + m)\nimport time\ntime.sleep(60)",
        'import struct\nm = b\'{"t":"call","id":1,"tool":"add","args":{}}\' * 1\n'
        "os.write(channel, 2 * (struct.pack('!II', len(m), 0) + m))\nimport time\ntime.sleep(60)",
        "import struct, time\nm = b'[' * 100_000\nos.write(channel, struct.pack('!II', len(m), 0) + m)\ntime.sleep(60)",
    ],
)
async def test_a_guest_that_abuses_the_channel_is_ended(box: Sandbox, abuse: str) -> None:
    result = await box.run(FIND_CHANNEL + "print('before')\n" + abuse, tools=[add], timeout=30)
    assert result.error is not None
    assert result.error.kind is ErrorKind.PROTOCOL
    assert result.stdout == "before\n"


async def test_a_guest_that_floods_the_channel_is_held_back_and_ended(box: Sandbox) -> None:
    code = (
        FIND_CHANNEL + "import struct\n"
        "n = 0\nwhile True:\n    n += 1\n"
        '    m = b\'{"t":"call","id":%d,"tool":"slow","args":{"number":1,"seconds":60}}\' % n\n'
        "    os.write(channel, struct.pack('!II', len(m), 0) + m)\n"
    )
    events = [event async for event in box.stream(code, tools=[slow], timeout=2)]
    assert isinstance(events[-1], Completed)
    assert events[-1].result.error is not None
    assert events[-1].result.error.kind is ErrorKind.TIMEOUT
    assert sum(isinstance(event, ToolStarted) for event in events) <= 1100


async def test_large_arguments_are_held_back_before_they_fill_the_host(open_box: OpenBox) -> None:
    import resource

    box = await open_box(message_bytes=4 * 2**20)

    async def never(data: str) -> None:
        await asyncio.sleep(60)

    code = (
        FIND_CHANNEL + "import struct\nn = 0\ntext = 'x' * 4_000_000\n"
        "while True:\n    n += 1\n"
        '    m = (\'{"t":"call","id":%d,"tool":"never","args":{"data":"%s"}}\' % (n, text)).encode()\n'
        "    os.write(channel, struct.pack('!II', len(m), 0) + m)\n"
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    events = [event async for event in box.stream(code, tools=[never], timeout=2)]
    assert sum(isinstance(event, ToolStarted) for event in events) <= 8
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024 < 200


@pytest.mark.slow
async def test_a_message_of_too_many_values_is_refused_on_both_ends(box: Sandbox) -> None:
    result = await box.run("echo([{}] * 3_000_000)", tools=[echo])
    assert result.error is not None
    assert result.error.kind is ErrorKind.TOOL
    assert "values" in result.error.message
    forged = FIND_CHANNEL + (
        "import struct, time\nm = b'[' + b'{},' * 3_000_000 + b'1]'\n"
        'm = b\'{"t":"done","exit":0,"value":\' + m + b\'}\'\n'
        "view = memoryview(struct.pack('!II', len(m), 0) + m)\n"
        "while view: view = view[os.write(channel, view):]\ntime.sleep(60)"
    )
    result = await box.run(forged)
    assert result.error is not None
    assert result.error.kind is ErrorKind.PROTOCOL
    assert (await box.run("len(echo(',' * 3_000_000))", tools=[echo])).value == 3_000_000


@pytest.mark.parametrize("code", ["'x' * 50_000", "raise ValueError('ü' * 9000)", "list(range(50_000))", "1 / 0", "1"])
async def test_a_result_too_long_for_a_message_is_cut_and_not_lost(open_box: OpenBox, code: str) -> None:
    for most in (100, 10_000):
        box = await open_box(message_bytes=most)
        result = await box.run(code)
        assert result.error is None or result.error.kind is ErrorKind.RUNTIME, result.error
        assert result.success == ("raise" not in code and "/" not in code)


_INTERFACES = """
import fcntl, os, stat, struct
names = set()
for number in range(64):
    try:
        if not stat.S_ISSOCK(os.fstat(number).st_mode): continue
    except OSError:
        continue
    for index in range(1, 64):
        try:
            told = fcntl.ioctl(number, 0x8910, struct.pack('16si20x', b'', index))  # SIOCGIFNAME
        except OSError:
            continue
        names.add(told[:16].rstrip(bytes(1)).decode())
sorted(names - {'lo'})
"""


async def test_no_socket_that_a_program_is_born_with_tells_of_the_hosts_network(isolated_box: Sandbox) -> None:
    """A socket belongs to the network namespace that it was made in, and says which interfaces there are."""
    result = await isolated_box.run(_INTERFACES)
    assert (result.error, result.value) == (None, [])
    if isolated_box.traits.sessions:
        async with isolated_box.session() as session:
            result = await session.run(_INTERFACES)
            assert (result.error, result.value) == (None, [])
