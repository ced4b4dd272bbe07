"""Attempts on the host by its end of the channel: frames that break the rules, and calls of what was not given.

The guest's own code runs in the same process as the program, so a program can write whatever it likes to the channel. A
frame that breaks the rules must end the run with `PROTOCOL`, and nothing of it may be believed.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import struct
import sys
import time
from typing import Any

import actbox
from actbox import ErrorKind, FileMount, Policy, Program, Session
from actbox.sandbox.channel.calls import MAX_CALLS_AT_ONCE, MESSAGES_HELD
from actbox.sandbox.channel.decoding import STEP_BYTES
from actbox.sandbox.guest.wire import MAX_VALUES, VALUES_OF_A_CONTAINER
from tests.escape.attempt import Bare, Group, Verdict, escaped_if, stopped, unproven
from tests.escape.ground import Ground

GROUP = Group(
    "channel and protocol",
    Bare.HOST_STOPS_IT,
    slow=frozenset(
        [
            "keep the host from other sandboxes with large messages",
            "have the host hold more values than their text is long",
        ]
    ),
)

FIND_CHANNEL = (
    "import os, stat, struct\n"
    "channel = next(n for n in range(3, 100) if os.path.exists(f'/proc/self/fd/{n}') and stat.S_ISSOCK(os.fstat(n).st_mode))\n"
    "def write(data):\n"
    "    view = memoryview(data)\n"
    "    while view: view = view[os.write(channel, view):]\n"
    "def frame(body, blobs=b''): return struct.pack('!II', len(body), len(blobs)) + body + blobs\n"
)
# Whoever closes the first of these sockets waits for three seconds, as the second reads nothing.
A_CLOSE_THAT_WAITS = (
    "import array, os, socket, struct\n"
    "server = socket.create_server(('127.0.0.1', 0))\n"
    "one = socket.create_connection(server.getsockname())\nother, _ = server.accept()\n"
    "one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 3))\none.setblocking(False)\n"
    "try:\n    while True: one.send(bytes(65536))\nexcept BlockingIOError: pass\n"
)
_WAIT = "\nimport time\ntime.sleep(300)\n"
# Of guest and host the one that closes a socket last waits for it: the host, if it reads only when the guest has closed.
_SEND_AND_CLOSE = (
    "sock = socket.socket(fileno=os.dup(channel))\n"  # a forked process has not the channel itself
    "if os.fork() == 0:\n"
    "    while not os.path.exists('/data/busy'): pass\n"
    "    rights = array.array('i', [one.fileno(), other.fileno()])\n"
    "    sock.sendmsg([b'\\0'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])\n"
    "    one.close()\n    other.close()\n    open('/data/closed', 'w').close()\n    os._exit(0)\n"
    "one.close()\nother.close()\nkeep_busy()"
)


def add(a: int, b: int = 10) -> int:
    """Add."""
    return a + b


async def _is_ended(ground: Ground, code: str) -> Verdict:
    """Run code that breaks the rules and then waits, and say whether the host ended it for that."""
    box = await ground.open()
    result = await box.run(FIND_CHANNEL + "print('BEGUN', flush=True)\n" + code + _WAIT, tools=[add], timeout=50)
    if "BEGUN" not in result.stdout:
        return unproven((result.stderr, result.error))
    kind = result.error.kind if result.error else None
    after = await box.run("6 * 7")
    return escaped_if(kind is not ErrorKind.PROTOCOL or after.value != 42, f"{result.error}; then {after.value}")


def _json(**message: Any) -> str:
    return f"write(frame({json.dumps(message).encode()!r}))"


def _done(**fields: Any) -> str:
    return _json(t="done", exit=0, **fields)


def _call(**fields: Any) -> str:
    return _json(**{"t": "call", "id": 1, "tool": "add", "args": {"a": 1}, **fields})


_BREAKS_THE_RULES = {
    "write nonsense": "write(b'nonsense' * 100)",
    "announce a frame of eight gigabytes": "write(b'\\xff' * 8)",
    "announce blobs of four gigabytes": "write(struct.pack('!II', 2, 0xffffffff) + b'{}')",
    "end in the middle of a frame": "write(struct.pack('!II', 100, 0) + b'{')\nos.close(channel)",
    "send an empty frame": "write(frame(b''))",
    "send a frame that is a list": "write(frame(b'[]'))",
    "send a frame that is a number": "write(frame(b'1'))",
    "send a frame that is not UTF-8": 'write(frame(b\'{"t":"\\xff\\xfe"}\'))',
    "send a frame in UTF-16": "write(frame('{}'.encode('utf-16')))",
    "send JSON that is nested too deeply": "write(frame(b'[' * 100_000))",
    "send JSON that is nested deeply and right": "write(frame(b'{\"t\":' + b'[' * 50_000 + b']' * 50_000 + b'}'))",
    "send a number of a hundred thousand digits": 'write(frame(b\'{"t":"done","exit":0,"value":\' + b\'9\' * 100_000 + b\'}\'))',
    "send more values than a message may have": (
        'write(frame(b\'{"t":"done","exit":0,"value":[\' + b\'{},\' * 2_100_000 + b\'1]}\'))'
    ),
    "send more empty lists than a message may have": (
        'write(frame(b\'{"t":"done","exit":0,"value":[\' + b\'[],\' * 200_000 + b\'1]}\'))'
    ),
    "send a million brackets, none of them too deep": (
        "body = b','.join([b'[' * 150 + b']' * 150] * 6500)\n"
        'write(frame(b\'{"t":"call","id":1,"tool":"nothing","args":{"x":[\' + body + b\']}}\'))'
    ),
    "send a large result with a number that would take all memory": (
        'write(frame(b\'{"t":"done","exit":0,"tagged":["value"],"value":[\' + b\'1,\' * 200_000'
        ' + b\'{"!decimal":"1E+999999999"}]}\'))'
    ),
    "send a message that is nothing but a blob": ("write(frame(b'{\"\\\\u0000\":0,\"blobs\":[1]}', b'x'))"),
    "send a message without a kind": _json(exit=0),
    "send a message of the host's": _json(t="run", code="1"),
    "send a message to pid 1": _json(t="adopt", number=1, pid=1),
    "send a kind that is no text": _json(t=["call"], id=1),
    "send a result with a field too many": _done(extra=1),
    "send a result that names its own sandbox": _done(sandbox="none"),
    "send a result with artifacts of its own": _done(artifacts=[{"name": "../x", "data": ""}]),
    "send a result with an exit code of its own measure": _json(t="done", exit=256, error={"kind": "EXIT"}),
    "send a result whose exit code is negative": _json(t="done", exit=-9, error={"kind": "EXIT"}),
    "send a result that contradicts itself": _json(t="done", exit=1),
    "blame the sandbox": _json(t="done", exit=1, error={"kind": "SANDBOX", "message": "the machine is broken"}),
    "say that time was up": _json(t="done", exit=1, error={"kind": "TIMEOUT"}),
    "say that it was cancelled": _json(t="done", exit=1, error={"kind": "CANCELLED"}),
    "send an error with a field too many": _json(t="done", exit=1, error={"kind": "EXIT", "approve": True}),
    "send an error that is text": _json(t="done", exit=1, error="EXIT"),
    "say that it used no number of time": 'write(frame(b\'{"t":"done","exit":0,"cpu_ms":NaN}\'))',
    "say that it used endless time": 'write(frame(b\'{"t":"done","exit":0,"cpu_ms":Infinity}\'))',
    "say that it used less than no memory": _done(max_rss_bytes=-1),
    "send forms that are no text": _done(forms={"text/html": {"a": 1}}),
    "send more forms than there are": _done(forms={f"text/{n}": "" for n in range(100)}),
    "send forms by number": _done(forms={"!map": [[1, "x"]]}, tagged=["forms"]),
    "send a result that is tagged as what it says of itself": _done(lost={"!set": [1]}, tagged=["lost"]),
    "call a tool by names that are no text": _call(args={"!map": [["a", 1], [{"!bytes": "Yg=="}, 2]]}, tagged=["args"]),
    "send a true in the place of a number": _json(t="done", exit=True, error={"kind": "EXIT"}),
    "call a tool under the number 0": _call(id=0),
    "call a tool under a number below 0": _call(id=-1),
    "call a tool under a number beyond numbers": _call(id=2**60),
    "call a tool under a true": _call(id=True),
    "call a tool twice under one number": _call() + "\n" + _call(),
    "call a tool whose name is a list": _call(tool=["add"]),
    "call a tool whose name is very long": _call(tool="a" * 1000),
    "call a tool with arguments that are a list": _call(args=[1, 2]),
    "call a tool with a field too many": _call(approved=True),
    "name a blob that there is not": 'write(frame(b\'{"t":"done","exit":0,"value":{"\\\\u0000":0},"blobs":[]}\'))',
    "name a blob below the first": (
        'write(frame(b\'{"t":"done","exit":0,"value":{"\\\\u0000":-1},"blobs":[1]}\', b\'x\'))'
    ),
    "name a blob by a true": (
        'write(frame(b\'{"t":"done","exit":0,"value":{"\\\\u0000":true},"blobs":[1,1]}\', b\'xy\'))'
    ),
    "name a blob twice": (
        'write(frame(b\'{"t":"done","exit":0,"value":[{"\\\\u0000":0},{"\\\\u0000":0}],"blobs":[1]}\', b\'x\'))'
    ),
    "carry blobs that it does not list": 'write(frame(b\'{"t":"done","exit":0}\', b\'secret\'))',
    "list blobs that it does not carry": 'write(frame(b\'{"t":"done","exit":0,"blobs":[1000000]}\'))',
    "list blobs of sizes below nothing": 'write(frame(b\'{"t":"done","exit":0,"blobs":[-1,1]}\'))',
    "close the channel and go on": "os.close(channel)",
}


def _add_broken_rules() -> None:
    for what, code in _BREAKS_THE_RULES.items():

        async def breaks(ground: Ground, code: str = code) -> Verdict:
            return await _is_ended(ground, code)

        GROUP.function(what)(breaks)


_add_broken_rules()


@GROUP.function("leave a result that cannot be read behind a large call")
async def _(ground: Ground) -> Verdict:
    box = await ground.open()
    call = 'b\'{"t":"call","id":1,"tool":"add","args":{"a":[\' + b"0," * 899_999 + b"0]}}"'
    result = await asyncio.wait_for(
        box.run(
            FIND_CHANNEL + f"write(frame({call}))\n{_done(forms={'!map': [[1, 'x']]}, tagged=['forms'])}\nos._exit(0)",
            tools=[add],
            timeout=50,
        ),
        120,
    )
    return escaped_if(result.error is None or result.error.kind is not ErrorKind.PROTOCOL, result.error)


_NAMES_OUTSIDE = (
    *(
        "secret",
        "SECRET",
        "add.__globals__",
        "__class__",
        "__import__",
        "os.system",
        "",
        " add",
        "add ",
        "add\0",
        "../secret",
    ),
    *("call_tool", "final_answer", "ａｄｄ", "a" * 256),
)


@GROUP.function("call a tool outside of what the run was given")
async def _(ground: Ground) -> Verdict:
    called = []

    def secret() -> str:
        called.append("secret")
        return "secret"

    box = await ground.open()
    await box.run("secret()", tools=[secret])
    called.clear()
    result = await box.run(
        Program(
            "answers = []\nfor name in names:\n"
            "    try: answers.append(call_tool(name))\n    except ToolError as error: answers.append(None)\nanswers",
            inputs={"names": list(_NAMES_OUTSIDE)},
        ),
        tools=[add],
    )
    if result.value is None:
        return unproven(result.error)
    return escaped_if(bool(called) or any(answer is not None for answer in result.value), result.value)


@GROUP.function("keep a tool of an earlier run of the session")
async def _(ground: Ground) -> Verdict:
    called = []

    def secret() -> str:
        called.append(1)
        return "secret"

    session = await ground.open_session()
    await session.run("kept, ask = secret, call_tool\nsecret()", tools=[secret])
    called.clear()
    result = await session.run(
        "answers = []\nfor name in ('kept()', 'ask(\"secret\")', 'secret()'):\n"
        "    try: answers.append(eval(name))\n    except Exception as error: answers.append(None)\nanswers",
        tools=[add],
    )
    return escaped_if(bool(called) or result.value != [None] * 3, result.value)


@GROUP.function("reach into a tool with arguments that are attributes")
async def _(ground: Ground) -> Verdict:
    reached = []

    def note(text: str = "") -> str:
        reached.append(text)
        return "noted"

    box = await ground.open()
    result = await box.run(
        "wrong = [{'__globals__': 1}, {'self': 1}, {'text': 1}, {'text': ['x']}, {'text': None}, {'text': {'$ref': '#'}}]\n"
        "passed = []\nfor arguments in wrong:\n"
        "    try: passed.append(call_tool('note', **arguments))\n    except (ToolError, TypeError): pass\npassed",
        tools=[note],
    )
    return escaped_if(bool(reached) or result.value != [], (reached, result.value, result.error))


@GROUP.function("bring the host to unpickle something")
async def _(ground: Ground) -> Verdict:
    mark = os.path.join(ground.things["host_folder"], "unpickled")
    box = await ground.open()
    result = await box.run(
        "import pickle\nclass Bomb:\n    def __reduce__(self): return (open, (mark, 'w'))\n"
        "echo(pickle.dumps(Bomb()).hex())\nclass Value(dict):\n    __reduce__ = Bomb.__reduce__\nValue(a=1)".replace(
            "mark", repr(mark)
        ),
        tools=[_echo()],
    )
    return escaped_if(os.path.exists(mark), result.value_text)


def _echo() -> Any:
    def echo(value: Any) -> Any:
        """Return what is given."""
        return value

    return echo


@GROUP.function("end a session's next run before it began")
async def _(ground: Ground) -> Verdict:
    session = await ground.open_session()
    forged = _json(t="done", exit=0, value="forged", run=2)
    await session.run(FIND_CHANNEL + forged + "\n1")
    result = await _run_if_alive(session, "'true'")
    return escaped_if("forged" in str(result), result)


@GROUP.function("change the result after the end")
async def _(ground: Ground) -> Verdict:
    box = await ground.open()
    result = await box.run(FIND_CHANNEL + _done(value="first") + "\n" + _done(value="second") + _WAIT, timeout=50)
    return escaped_if(result.value == "second", (result.value, result.error))


@GROUP.function("answer for a run that is over")
async def _(ground: Ground) -> Verdict:
    session = await ground.open_session()
    await session.run(FIND_CHANNEL + "1")
    result = await session.run(_json(t="done", exit=0, value="forged", run=1) + "\n'true'")
    return escaped_if(result.value == "forged", (result.value, result.error))


async def _run_if_alive(session: Session, code: str) -> Any:
    try:
        result = await session.run(code)
    except actbox.ActboxError as error:
        return repr(error)
    return result.value if result.error is None else result.error


@GROUP.function("call a tool between two runs of a session")
async def _(ground: Ground) -> Verdict:
    called = []

    def note() -> None:
        called.append(1)

    session = await ground.open_session()
    await session.run(
        FIND_CHANNEL
        + "import threading, time\ndef later():\n    time.sleep(0.2)\n    "
        + _json(t="call", id=77, tool="note", args={})
        + "\nthreading.Thread(target=later, daemon=True).start()",
        tools=[note],
    )
    await session.run("import time\ntime.sleep(0.5)", tools=[add])
    return escaped_if(bool(called), called)


@GROUP.function("fill the host with descriptors that come along")
async def _(ground: Ground) -> Verdict:
    def here() -> int:
        return len(os.listdir("/proc/self/fd"))

    box = await ground.open()
    result = await box.run(
        FIND_CHANNEL + "import array, errno, json, socket, time\nsock = socket.socket(fileno=os.dup(channel))\n"
        "body = json.dumps({'t': 'call', 'id': 1000, 'tool': 'here', 'args': {}}).encode()\n"
        "rights = array.array('i', [os.open('/dev/null', os.O_RDONLY) for _ in range(60)])\n"
        # The kernel bounds how many descriptors are on the way, for all processes of a user together.
        "def send():\n    try: return sock.sendmsg([frame(body)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])\n"
        "    except PermissionError: return 'refused'\n"
        "    except OSError as error:\n        if error.errno != errno.ETOOMANYREFS: raise\n"
        "first = here()\nwhile not send(): time.sleep(0.05)\n[first, here()]",
        tools=[here],
    )
    if result.error is not None and result.error.kind is ErrorKind.PROTOCOL:
        return stopped(result.error)
    if result.value is None:
        return unproven(result.error)
    first, after = result.value
    return escaped_if(after >= first + 60, result.value)


@GROUP.function("make the host wait when it closes a socket that came along", Bare.HARMFUL)
async def _(ground: Ground) -> Verdict:
    longest, last = 0.0, time.monotonic()
    folder = ground.folder()

    async def note_pauses() -> None:
        nonlocal longest, last
        while True:
            last = time.monotonic()
            await asyncio.sleep(0.01)
            longest = max(longest, time.monotonic() - last)

    async def keep_busy() -> None:
        """Keep the host from its event loop until the sockets are on their way, and nowhere else."""
        nonlocal last
        (folder / "busy").touch()
        end = time.monotonic() + 5
        while not (folder / "closed").exists() and time.monotonic() < end:
            time.sleep(0.005)
        last = time.monotonic()

    box = await ground.open(Policy(mounts=(FileMount(folder, "/data", "rw"),)))
    noting = asyncio.create_task(note_pauses())
    try:
        code = FIND_CHANNEL + A_CLOSE_THAT_WAITS + _SEND_AND_CLOSE
        result = await box.run(code, tools=[keep_busy], timeout=10)
        if result.error is not None and result.error.type == "PermissionError":
            return stopped(result.error)
        longest = max(longest, time.monotonic() - last)  # the run may go on before the note
    finally:
        noting.cancel()
    if not (folder / "closed").exists():
        return unproven((result.stderr, result.error))
    return escaped_if(longest > 1, (longest, result.error))


@GROUP.function("disturb the host with data out of band")
async def _(ground: Ground) -> Verdict:
    box = await ground.open()
    result = await box.run(
        FIND_CHANNEL + "import socket\nsock = socket.socket(fileno=os.dup(channel))\nfor _ in range(100):\n"
        "    try: sock.send(b'!', socket.MSG_OOB)\n    except OSError: break\nadd(1)",
        tools=[add],
        timeout=5,
    )
    after = await box.run("add(1)", tools=[add])
    fine = result.error is None or result.error.kind in (ErrorKind.PROTOCOL, ErrorKind.TIMEOUT)
    return escaped_if(not fine or after.value != 11, (result.error, after))


@GROUP.function("call the host as fast as it can, without hearing the answers")
async def _(ground: Ground) -> Verdict:
    answered = 0

    async def large() -> str:
        nonlocal answered
        answered += 1
        return "x" * 2**15

    box = await ground.open(message_bytes=2**15 + 2**10)
    result = await box.run(
        FIND_CHANNEL + "n = 0\nwhile n < 5000:\n    n += 1\n"
        '    write(frame(b\'{"t":"call","id":%d,"tool":"large","args":{}}\' % n))',
        tools=[large],
        timeout=1,
    )
    # What it does not take may wait on the host only up to a few messages of the greatest length; and when the program
    # has been stopped, what it asked for last is not done any more. Before CPython 3.12 no call is answered at once.
    most = 100 if sys.version_info >= (3, 12) else MAX_CALLS_AT_ONCE + 100
    return escaped_if(answered > most or result.error is None, (answered, result.error))


# As many empty lists as a message may have.
_LARGE = f"body = b'[' + b'[],' * {MAX_VALUES // (VALUES_OF_A_CONTAINER + 1) - 100} + b'1]'\n"


@GROUP.function("have the host hold more values than their text is long")
async def _(ground: Ground) -> Verdict:
    begun = 0

    async def hold(values: list[Any]) -> None:
        nonlocal begun
        begun += 1
        await asyncio.sleep(60)

    box = await ground.open()
    code = (
        FIND_CHANNEL + _LARGE + "for n in range(1, 61):\n"
        '    write(frame(b\'{"t":"call","id":%d,"tool":"hold","args":{"values":%s}}\' % (n, body)))'
    )
    running = asyncio.create_task(box.run(code, tools=[hold]))
    while not begun and not running.done():
        await asyncio.sleep(0.01)
    await asyncio.sleep(3)  # in which all the others would begin as well
    await box.stop()
    result = await running
    # The text of all is half of what may be held here; as values they take more than ten times as much.
    if not begun:
        return unproven(result.error)
    return escaped_if(begun > 2 * MESSAGES_HELD or result.error is None, (begun, result.error))


@GROUP.function("keep the host from other sandboxes with large messages")
async def _(ground: Ground) -> Verdict:
    turns = 0
    between: list[int] = []

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def take(values: list[Any]) -> None:
        between.append(turns)

    box, other = await ground.open(), await ground.open()
    counting = asyncio.create_task(count_turns())
    running = asyncio.create_task(
        box.run(
            FIND_CHANNEL + _LARGE + "for n in range(1, 31):\n"
            '    write(frame(b\'{"t":"call","id":%d,"tool":"take","args":{"values":%s}}\' % (n, body)))\n'
            "    os.read(channel, 65536)",
            tools=[take],
            timeout=60,
        )
    )
    try:
        while not between and not running.done():
            await asyncio.sleep(0)
        value = (await other.run("6 * 7")).value
        answered_before = len(between)
        result = await running
    finally:
        counting.cancel()
        running.cancel()
    if len(between) < 30:
        return unproven((len(between), result.error))
    # Each message is several steps long, and the event loop has a turn after each.
    fewest = min(after - before for before, after in itertools.pairwise(between))
    steps = 3 * (MAX_VALUES // (VALUES_OF_A_CONTAINER + 1)) // STEP_BYTES
    return escaped_if(value != 42 or answered_before == 30 or fewest < steps, (value, answered_before, fewest))


@GROUP.function("speak in the name of the guest that a command has replaced")
async def _(ground: Ground) -> Verdict:
    box = await ground.open()
    body = json.dumps({"t": "done", "exit": 0, "value": "forged"}).encode()
    header = struct.pack("!II", len(body), 0)
    script = "for n in 3 4 5 6 7 8 9; do printf '%b' \"$1\" >&$n; done 2>/dev/null; exit 3"
    text = "".join(f"\\0{byte:03o}" for byte in header + body)
    result = await box.execute(["sh", "-c", script, "sh", text])
    return stopped(result.exit_code) if result.exit_code == 3 and result.value is None else escaped_if(True, result)
