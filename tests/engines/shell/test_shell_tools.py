"""Tools of programs over a shell, by every transport: what a program may do to it, and what comes of that."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from actbox import ErrorKind, Limits, Policy, Sandbox
from actbox.core.events import Output, ToolFinished, ToolStarted
from actbox.core.result import ExecutionResult
from actbox.sandbox.channel.mailbox import Mailbox
from actbox.sandbox.guest import wire
from actbox.sandbox.guest_process import GuestProcess
from actbox.sandbox.shell.mailbox import ShellMailbox
from actbox.sandbox.shell.responses import ShellError
from tests.engines.shell.local_shell import LocalShell, PlainShell
from tests.waiting import until

WAYS = {
    "files": (LocalShell, None),
    "files that are looked for": (PlainShell, None),
    "http": (LocalShell, ("127.0.0.1", 0)),
    "http alone": (PlainShell, ("127.0.0.1", 0)),
}


def box_by(way: str, **limits: Any) -> Sandbox:
    kind, address = WAYS[way]
    policy = Policy(limits=Limits(**{"wall_seconds": 60, **limits}))
    return kind(policy, python=sys.executable, tool_address=address)


@pytest_asyncio.fixture(params=list(WAYS))
async def box(request: pytest.FixtureRequest) -> AsyncIterator[Sandbox]:
    async with box_by(request.param, message_bytes=2**20, tool_calls=50) as opened:
        yield opened


def add(a: int, b: int = 1) -> int:
    return a + b


def error_of(result: ExecutionResult) -> tuple[ErrorKind, str]:
    assert result.error is not None, result
    return result.error.kind, result.error.message


@pytest.mark.slow
async def test_a_program_calls_tools_as_everywhere(box: Sandbox) -> None:
    plain = "print(add(1, 2))\n[add(a=3), call_tool('add', a=4, b=0)]"
    result = await box.run(plain, tools=[add])
    assert (result.stdout, result.value, result.usage.tool_calls) == ("3\n", [4, 4], 3)
    awaited = "import asyncio\nawait asyncio.gather(add(1), add(2), call_tool('add', a=3))"
    assert (await box.run(awaited, tools=[add])).value == [2, 3, 4]
    caught = "try:\n    add('x', {})\nexcept ToolError as error:\n    said = (error.tool, str(error) != '')\nsaid"
    assert (await box.run(caught, tools=[add])).value == ("add", True)


@pytest.mark.slow
async def test_bytes_and_large_values_go_both_ways(box: Sandbox) -> None:
    def turned(data: bytes) -> bytes:
        return data[::-1]

    program = "data = bytes(range(256)) * 2000\nturned(data) == data[::-1]"
    assert (await box.run(program, tools=[turned])).value is True


@pytest.mark.slow
async def test_a_result_of_ten_megabytes_is_a_failed_call_and_not_a_failed_run(box: Sandbox) -> None:
    def flood() -> str:
        return "x" * 10_000_000

    program = "try:\n    flood()\nexcept ToolError as error:\n    said = str(error)\nsaid"
    assert (
        "the result of 'flood' has more than the 1,048,576 bytes that a message may have"
        in (await box.run(program, tools=[flood])).value
    )


@pytest.mark.slow
async def test_a_tool_that_is_not_the_runs_is_refused_and_the_events_say_so(box: Sandbox) -> None:
    program = "try:\n    call_tool('secret')\nexcept ToolError as error:\n    said = str(error)\nsaid"
    events = [event async for event in box.stream(program, tools=[add])]
    assert [event.tool for event in events if isinstance(event, ToolStarted)] == ["secret"]
    (finished,) = [event for event in events if isinstance(event, ToolFinished)]
    assert not finished.success and "secret" in (finished.error or "")


@pytest.mark.slow
async def test_a_budget_ends_the_run(box: Sandbox) -> None:
    result = await box.run("for n in range(60):\n    add(n)", tools=[add])
    assert error_of(result)[0] is ErrorKind.BUDGET
    assert result.usage.tool_calls == 50


@pytest.mark.slow
async def test_a_call_under_way_is_cancelled_with_its_run(box: Sandbox) -> None:
    called, cancelled = asyncio.Event(), asyncio.Event()

    async def hang() -> None:
        called.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    running = asyncio.create_task(box.run("hang()", tools=[hang]))
    await called.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await cancelled.wait()
    assert (await box.run("add(1)", tools=[add])).value == 2


# What a program sends that no stub of ours would. Each finds its channel among its own descriptors.
_SEND = """
import os, socket, stat
channel = next(
    socket.socket(fileno=os.dup(number))
    for number in range(3, 64)
    if os.path.exists(f'/dev/fd/{number}') and stat.S_ISSOCK(os.fstat(number).st_mode)
)
def send(text, lengths=None):
    body = text.encode()
    head = lengths or (len(body).to_bytes(4, 'big') + bytes(4))
    channel.sendall(head + body)
"""
_CALL = '{"t": "call", "id": 1, "tool": "add", "args": {"a": 1}}'


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sent", "why"),
    [
        ("send('nonsense')", "not JSON"),
        (f"send('{_CALL}'); send('{_CALL}')", "two tool calls with one id"),
        (f"send('{_CALL[:-1]}, \"more\": 1}}')", "a field that nobody knows"),
        ("send('', (2**31).to_bytes(4, 'big') + bytes(4))", "the limit is"),
        (
            """send('{"t": "call", "id": 1, "tool": "add", "args": {"a": ' + '[' * 300 + ']' * 300 + '}}')""",
            "nested more",
        ),
        ("""send('{"t": "call", "id": -1, "tool": "add", "args": {}}')""", "out of bounds"),
    ],
)
async def test_nonsense_is_a_breach_of_the_rules(box: Sandbox, sent: str, why: str) -> None:
    result = await box.run(f"{_SEND}\n{sent}\nimport time\ntime.sleep(600)", tools=[add])
    kind, message = error_of(result)
    assert kind is ErrorKind.PROTOCOL
    assert why in message


# What lies in the folder of the mail


_MAIL = "import os, time\nmail = os.environ['TMPDIR'] + '/../mail'\nwhile not os.path.isdir(mail + '/in'): pass\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    "left",
    [
        "open(mail + '/{where}/1', 'wb').truncate(5 * 2**20)",
        "open(mail + '/{where}/1', 'wb')",
        "os.symlink('/etc/passwd', mail + '/{where}/1')",
        "os.mkfifo(mail + '/{where}/1')",
        "os.mkdir(mail + '/{where}/1')",
    ],
)
@pytest.mark.parametrize(("way", "where"), [("files that are looked for", "out"), ("files", "in")])
async def test_what_is_no_piece_ends_the_run_for_a_breach_of_the_rules(left: str, way: str, where: str) -> None:
    async with box_by(way) as box:
        result = await box.run(f"{_MAIL}{left.format(where=where)}\ntime.sleep(600)", tools=[add])
    kind, message = error_of(result)
    assert kind is ErrorKind.PROTOCOL
    assert "a piece of mail" in message


@pytest.mark.slow
async def test_a_forged_piece_is_read_like_any_other() -> None:
    call = wire.encode({"t": "call", "id": 7, "tool": "add", "args": {"a": 1}}, 1000)
    async with box_by("files that are looked for") as box:
        forged = f"{_MAIL}open(mail + '/draft', 'wb').write({call!r})\nos.rename(mail + '/draft', mail + '/out/1')\n"
        called = asyncio.Event()

        async def add(a: int) -> None:
            called.set()

        running = asyncio.create_task(box.run(f"{forged}time.sleep(600)", tools=[add]))
        await until(called.is_set)
        running.cancel()
        await asyncio.wait([running])
        nonsense = forged.replace(repr(call), repr(call * 2))
        result = await box.run(f"{nonsense}time.sleep(600)", tools=[add])
        assert error_of(result) == (
            ErrorKind.PROTOCOL,
            "the guest broke the rules of the channel: two tool calls with one id",
        )


@pytest.mark.slow
async def test_a_program_without_tools_has_no_mail(box: Sandbox) -> None:
    assert (await box.run("import os\nos.path.exists(os.environ['TMPDIR'] + '/../mail')")).value is False
    result = await box.run("add(1)")
    assert error_of(result)[0] is ErrorKind.RUNTIME


@pytest.mark.slow
async def test_a_mailbox_of_an_engines_own_takes_the_place_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actbox.sandbox.channel.mailbox._TOGETHER_SECONDS", 20.0)

    class OwnMailbox(ShellMailbox):
        """Takes no answer along with a question, as one over the file methods of a service would not."""

        asked = 0

        async def exchange(self, number: int, piece: bytes, wanted: int) -> bytes | None:
            OwnMailbox.asked += 1
            return await Mailbox.exchange(self, number, piece, wanted)

        async def wait(self, number: int) -> bytes | None:
            return await ShellMailbox.exchange(self, 0, b"", number)

    class Own(PlainShell):
        async def open_mailbox(self, folder: str) -> Mailbox:
            return OwnMailbox(self._reply, folder, brings_calls=True, piece_bytes=1000)

    async with Own(python=sys.executable) as box:
        assert (await box.run("add(add(1))", tools=[add])).value == 3
        assert OwnMailbox.asked


@pytest.mark.slow
@pytest.mark.parametrize("by", ["folder", "written"])
async def test_a_mailbox_needs_to_know_no_more_than_its_docstring_says(by: str) -> None:
    class Files(Mailbox):
        def __init__(self, folder: str) -> None:
            self.folder = Path(folder)

        @property
        def settings(self) -> dict[str, Any]:
            return {"by": by, "folder": str(self.folder)}

        async def wait(self, number: int) -> bytes | None:
            place = self.folder / "out" / str(number)
            while not place.exists():
                await asyncio.sleep(0.001)
            assert os.listdir(place.parent) == [str(number)]  # the next one comes when this one was taken
            piece = place.read_bytes()
            place.unlink()
            return piece

        async def put(self, number: int, piece: bytes) -> None:
            place = self.folder / "in" / str(number)
            if by == "folder":
                place.with_name("draft").write_bytes(piece)
                place.with_name("draft").rename(place)
                return
            with place.open("wb", buffering=0) as file:
                file.write(piece[:1])
                place.with_name(f"{number}.size").write_text(str(len(piece)))
                file.write(piece[1:])

    class Own(LocalShell):
        async def open_mailbox(self, folder: str) -> Mailbox:
            return Files(folder)

    said = Mailbox.settings.__doc__ or ""
    assert [name for name in ("`out/N`", "`in/N`", "`in/N.size`", "removes it", "renamed") if name not in said] == []
    async with Own(python=sys.executable) as box:
        left = "import os\nadd(1) + add(1)\nos.listdir(os.environ['TMPDIR'] + '/../mail/in')"
        result = await box.run(left, tools=[add])
        assert (result.value, result.usage.tool_calls) == ([], 2)
        awaited = "import asyncio\nawait asyncio.gather(*(add(n) for n in range(20)))"
        assert (await box.run(awaited, tools=[add])).value == list(range(1, 21))


@pytest.mark.slow
@pytest.mark.parametrize("way", ["files", "files that are looked for"])
async def test_mail_that_cannot_be_carried_is_a_failed_run(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with box_by(way) as box:

        async def fail(*_: object) -> None:
            raise ShellError("the connection broke")

        opened = box.open_mailbox  # type: ignore[attr-defined]

        async def open_failing(folder: str) -> Mailbox:
            mailbox: Mailbox = await opened(folder)
            mailbox.put = mailbox.exchange = fail  # type: ignore[method-assign, assignment]
            return mailbox

        monkeypatch.setattr(box, "open_mailbox", open_failing)
        result = await box.run("add(1)", tools=[add])
        assert error_of(result) == (ErrorKind.SANDBOX, "the tool calls could not be carried: the connection broke")
        monkeypatch.undo()
        assert (await box.run("add(1)", tools=[add])).value == 2


@pytest.mark.slow
async def test_output_that_comes_long_after_the_result_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GuestProcess, "grace_seconds", 0.0)
    async with box_by("files that are looked for") as box:
        program = "print('said')\nopen('output/made', 'w').write('x')\nadd(1)"
        result = await box.run(program, tools=[add])
    assert (result.stdout, result.value, [made.name for made in result.artifacts]) == ("said\n", 2, ["made"])


@pytest.mark.slow
@pytest.mark.parametrize("piece_bytes", [40, 1000])
async def test_a_shell_that_takes_little_at_once_gets_little_at_once(
    piece_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PlainShell, "piece_bytes", piece_bytes)
    async with box_by("files that are looked for") as box:
        assert (await box.run("add(1)", tools=[add])).value == 2


async def test_an_address_that_is_taken_is_a_failed_run() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        async with LocalShell(python=sys.executable, tool_address=taken.getsockname()) as box:
            kind, message = error_of(await box.run("add(1)", tools=[add]))
            assert kind is ErrorKind.SANDBOX and "cannot listen" in message
            assert (await box.run("1 + 1")).value == 2


@pytest.mark.slow
async def test_output_comes_before_the_call_that_follows_it_where_it_comes_as_it_goes() -> None:
    async with box_by("files") as box:
        events = [event async for event in box.stream("print('before')\nadd(1)\nprint('after')", tools=[add])]
    told = [
        event.text if isinstance(event, Output) else "call"
        for event in events
        if isinstance(event, (Output, ToolStarted))
    ]
    assert told == ["before\n", "call", "after\n"]


async def test_no_token_is_told_to_a_program_by_its_variables_or_arguments() -> None:
    async with box_by("http") as box:
        assert box.tool_proxy is not None  # type: ignore[attr-defined]
        program = "import os, sys\n(sorted(os.environ), sys.argv, open('/proc/self/cmdline').read(), add(1))"
        variables, arguments, line, _ = (await box.run(program, tools=[add])).value
    assert not any("TOKEN" in name or "ACTBOX" in name for name in variables)
    assert len(arguments) == 1 and "Bearer" not in line
