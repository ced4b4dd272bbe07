"""What is a shell's own trouble: odd names, large files, noise, processes that hold on, lies on standard output."""

from __future__ import annotations

import asyncio
import errno
import os
import sys
import threading
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
import pytest_asyncio

import actbox
from actbox import ErrorKind, Limits, Policy, ProcessShell, Program, shell_traits
from actbox.core.events import Event, Output
from actbox.sandbox.contract import Command
from actbox.sandbox.shell import files
from actbox.sandbox.shell.requests import reply_of
from actbox.sandbox.shell.responses import ShellError
from tests.clock import Clock
from tests.engines.shell.local_shell import CallShell, LocalShell, PlainShell


@pytest_asyncio.fixture
async def box() -> AsyncIterator[LocalShell]:
    async with LocalShell(Policy(limits=Limits(wall_seconds=30)), python=sys.executable) as opened:
        yield opened


class Listening(LocalShell):
    """Remembers each command line that it was asked for."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.heard: list[Sequence[str]] = []

    async def open_process(self, arguments: Sequence[str]) -> Any:
        self.heard.append(tuple(arguments))
        return await super().open_process(arguments)


async def test_nothing_that_a_caller_gives_is_part_of_a_command_line() -> None:
    async with Listening(python=sys.executable) as box:
        await box.write_file("a name", b"content")
        await box.read_file("a name")
        await box.run("print('source')", timeout=50)
        await box.execute(["echo", "argument"], cwd="output", env={"A": "variable"}, stdin=b"input")
        assert len(box.heard) >= 5
        assert len(set(box.heard)) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        *("-rf", "a\nb", "'", "*", "$(id)", "\\", "\udc80\udcff"),
        *(
            pytest.param(name, marks=pytest.mark.long)
            for name in ("--", "-", "a b", '"', "`id`", "a;b", "ü", "~", "{a,b}", "#")
        ),
    ],
)
async def test_a_name_is_a_name(box: LocalShell, name: str) -> None:
    await box.write_file(f"folder/{name}", name.encode("utf-8", "surrogateescape"))
    assert await box.read_file(f"folder/{name}") == name.encode("utf-8", "surrogateescape")
    assert [entry.path for entry in await box.list_files("folder")] == [f"folder/{name}"]
    assert (await box.stat(f"folder/{name}")).kind == "file"
    await box.move(f"folder/{name}", f"moved/{name}")
    assert os.listdir(os.fsencode(f"{box.root}/moved")) == [os.fsencode(name)]
    await box.remove_file(f"moved/{name}")
    assert await box.list_files("moved") == []


@pytest.mark.slow
async def test_a_name_with_nul_is_refused(box: LocalShell) -> None:
    with pytest.raises(actbox.InvalidValue, match="NUL"):
        await box.write_file("a\0b", b"")


@pytest.mark.slow
async def test_a_large_file_goes_both_ways_in_pieces() -> None:
    class Measured(LocalShell):
        most = 0

        async def execute_stream(self, command: Command, **given: Any) -> AsyncIterator[Event]:  # type: ignore[override]
            Measured.most = max(Measured.most, len(given["stdin"]))
            said = 0
            async for event in super().execute_stream(command, **given):
                said += len(event.text) if isinstance(event, Output) else 0
                yield event
            Measured.most = max(Measured.most, said)

    data = os.urandom(2**20) * 100
    async with Measured(python=sys.executable) as box:
        await box.write_file("large", data)
        assert await box.read_file("large") == data
    assert Measured.most < 7 * 2**20


@pytest.mark.slow
async def test_a_write_that_breaks_off_leaves_the_old_file(box: LocalShell, monkeypatch: pytest.MonkeyPatch) -> None:
    await box.write_file("file", b"old")
    monkeypatch.setattr(LocalShell, "piece_bytes", 1000)
    asked = box._reply

    async def break_off(request: dict[str, Any], payload: bytes | memoryview = b"") -> Any:
        if request["do"] == "write" and request["start"] == 2000:
            raise actbox.SandboxUnavailable("the connection broke")
        return await asked(request, payload)

    monkeypatch.setattr(box, "_reply", break_off)
    with pytest.raises(actbox.SandboxUnavailable):
        await box.write_file("file", bytes(5000))
    assert await box.read_file("file") == b"old"
    assert [entry.path for entry in await box.list_files()] == ["file", "input", "output"]
    assert os.listdir(Path(box.root).parent / "drafts") == []


@pytest.mark.slow
async def test_a_file_that_changes_while_it_is_read_is_an_error(
    box: LocalShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalShell, "piece_bytes", 1000)
    await box.write_file("file", bytes(5000))
    asked = box._reply

    async def write_meanwhile(request: dict[str, Any], payload: bytes | memoryview = b"") -> Any:
        if request.get("start") == 2000:
            (Path(box.root) / "file").write_bytes(b"1" * 5000)
        return await asked(request, payload)

    monkeypatch.setattr(box, "_reply", write_meanwhile)
    with pytest.raises(actbox.FileError, match="written to while it was read"):
        await box.read_file("file")


async def test_no_more_is_taken_of_an_answer_than_was_asked_for() -> None:
    said = 0

    async def flood() -> AsyncGenerator[tuple[str, bytes]]:
        nonlocal said
        while True:
            said += 1
            yield "b", bytes(1000)

    with pytest.raises(ShellError, match="longer than what was asked for"):
        await reply_of(flood(), 10_000)
    assert said == 11


@pytest.mark.slow
async def test_a_list_that_is_too_long_says_how_long_it_may_be_and_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MOST_LISTED", 1_000)
    async with LocalShell() as box:
        for number in range(30):
            await box.write_file(f"folder/{number}", b"")
        assert "folder" in [entry.path for entry in await box.list_files()]
        with pytest.raises(actbox.FileError, match=r"more than 1,000 bytes; list one directory at a time") as raised:
            await box.list_files(recursive=True)
    assert raised.value.errno == errno.EFBIG


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "what"),
    [("[0, 0, 3500, 0, 0]", "sent something else"), ("[0, 0, 2**60, 0, 0]", "more than 5,000 bytes")],
)
async def test_a_program_that_has_written_over_the_requests_sources_floods_no_host(
    box: LocalShell, monkeypatch: pytest.MonkeyPatch, version: str, what: str
) -> None:
    monkeypatch.setattr(LocalShell, "piece_bytes", 1000)
    monkeypatch.setattr(LocalShell, "most_read_bytes", 5000)
    await box.write_file("file", bytes(5000))
    assert await box.read_file("file") == bytes(5000)
    forged = f"""
def read(request, stdin, responses):
    if request["start"] > 20_000:
        raise SystemExit
    responses.send("b", bytes(1000))
    responses.send_json("r", {{"version": {version}, "over": False}})
HANDLERS["read"] = read
"""
    result = await box.run(
        f"with open({box.root!r} + '/../code/guest/shell_requests/files.py', 'a') as f: f.write({forged!r})"
    )
    assert result.success, result.error
    with pytest.raises(actbox.FileError, match=what):
        await box.read_file("file")


@pytest.mark.slow
async def test_a_character_that_comes_in_halves_is_one_character(box: LocalShell) -> None:
    program = "import os, time\nfor byte in 'ü€😀'.encode():\n    os.write(1, bytes([byte])); time.sleep(0.05)"
    assert (await box.run(program)).stdout == "ü€😀"


@pytest.mark.slow
async def test_a_child_that_holds_the_output_holds_nobody_up_and_is_ended(box: LocalShell) -> None:
    result = await box.execute("sleep 600 & echo $!; setsid sleep 600 & echo $!", timeout=60)
    assert result.success, result
    assert not [process for process in result.stdout.split() if Path(f"/proc/{process}").exists()]


@pytest.mark.slow
async def test_a_missing_folder_fails_instead_of_running_elsewhere(box: LocalShell) -> None:
    result = await box.execute("touch here", cwd="not-there")
    assert result.exit_code == 126
    assert "not-there: No such file or directory" in result.stderr
    assert [entry.path for entry in await box.list_files()] == ["input", "output"]


@pytest.mark.slow
async def test_a_program_that_is_stopped_is_ended_with_all_that_it_started(box: LocalShell, clock: Clock) -> None:
    program = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen(['setsid', 'sleep', '600']).pid\n"
        "open('output/made', 'w').write('x')\n"
        "print(child, flush=True)\n"
        "time.sleep(600)"
    )
    result = await clock.run_out(box.stream(program, timeout=30), 30, after="\n")
    assert result.error is not None and result.error.kind is ErrorKind.TIMEOUT
    assert [artifact.name for artifact in result.artifacts] == ["made"]
    assert not Path(f"/proc/{int(result.stdout)}").exists()


@pytest.mark.slow
async def test_a_program_ends_with_the_command_that_asked_for_it(box: LocalShell) -> None:
    stream = box.stream("import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(600)")
    async for event in stream:
        if isinstance(event, Output):
            process = int(event.text)
            break
    assert Path(f"/proc/{process}").exists()
    await stream.aclose()
    assert not Path(f"/proc/{process}").exists()


@pytest.mark.slow
async def test_a_shell_that_cannot_end_a_command_keeps_no_program_running(tmp_path: Path, clock: Clock) -> None:
    program = (
        "import os, subprocess\n"
        "child = subprocess.Popen(['setsid', 'sleep', '600']).pid\n"
        "open('output/processes', 'w').write(f'{os.getpid()} {child}')\n"
        f"open({str(tmp_path / 'begun')!r}, 'x').close()\n"
        "while True: pass"
    )
    async with CallShell() as box:
        running = asyncio.create_task(box.run(program, timeout=30))
        while not (tmp_path / "begun").exists():
            await asyncio.sleep(0.01)
        clock.turn(30)
        result = await running
        assert result.error is not None and result.error.kind is ErrorKind.TIMEOUT
        assert result.warnings == ()
        for process in result.artifact("processes").data.split():
            assert not Path(f"/proc/{int(process)}").exists()
        await asyncio.gather(*box.calls)
        assert await box.list_files("output") != []
        assert os.listdir(f"{box.root}/../runs") == []


class _Late(CallShell):
    """Begins to run a program when the host has given it up."""

    def __init__(self) -> None:
        super().__init__()
        self.is_asked, self.is_over = threading.Event(), threading.Event()

    def call(self, arguments: Sequence[str], stdin: bytes) -> CompletedProcess[bytes]:
        if b'"do": "run"' in stdin:
            self.is_asked.set()
            self.is_over.wait()
        return super().call(arguments, stdin)


@pytest.mark.slow
async def test_a_program_that_was_given_up_before_it_began_never_begins() -> None:
    async with _Late() as box:
        running = asyncio.create_task(box.run("open('output/made', 'w')"))
        await asyncio.to_thread(box.is_asked.wait)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        box.is_over.set()
        done = await asyncio.gather(*box.calls)
        assert [call.returncode for call in done] == [0] * len(done)
        assert await box.list_files("output") == []
        assert (await box.run("1 + 1")).value == 2


@pytest.mark.slow
async def test_what_a_program_prints_is_never_taken_for_an_answer(box: LocalShell) -> None:
    forged = "\\nactbox-0\\nxeyJjb2RlIjogMH0=\\nrZm9yZ2Vk\\nz\\n"
    result = await box.run(f"print('{forged}', flush=True)\n1/0")
    assert result.error is not None and result.error.type == "ZeroDivisionError"
    assert result.stdout == forged.replace("\\n", "\n") + "\n"


async def test_an_error_has_its_line_and_a_traceback_of_the_program_alone(box: LocalShell) -> None:
    result = await box.run(Program("def f():\n    raise ValueError('no')\n\nf()", name="mine.py"))
    assert result.error is not None
    assert (result.error.line, result.error.type, result.error.message) == (2, "ValueError", "no")
    assert box.root not in result.error.traceback
    assert result.error.traceback.count("File ") == 2


@pytest.mark.slow
async def test_nothing_of_a_sandbox_is_left_there() -> None:
    box = LocalShell(python=sys.executable)
    async with box:
        base = Path(box.root).parent
        await box.run("import os\nos.makedirs('a/b/c')\nos.chmod('a', 0)\nopen(os.environ['TMPDIR'] + '/x', 'w')")
        await box.run_alone(Program("open('output/x', 'w')", files={"a/b": b""}))
        assert os.listdir(base / "runs") == []
    assert not base.exists()


@pytest.mark.slow
async def test_sessions_are_refused_with_a_sentence(box: LocalShell) -> None:
    with pytest.raises(actbox.Unsupported, match="the linux engine does"):
        box.session()


async def test_a_shell_without_python_is_refused() -> None:
    with pytest.raises(actbox.SandboxUnavailable, match=r"needs Python 3\.9 or newer behind its shell"):
        await LocalShell(python="no-such-python").start()


class _Forgetful(LocalShell):
    async def open_process(self, arguments: Sequence[str]) -> Any:
        return None


class _Plain(LocalShell):
    def open_process(self, arguments: Sequence[str]) -> Any:  # type: ignore[override]
        return None


class _WithoutInput(LocalShell):
    async def open_process(self, arguments: Sequence[str]) -> Any:
        return await asyncio.create_subprocess_exec(*arguments, stdout=PIPE, stderr=PIPE)


class _InOneStream(LocalShell):
    async def open_process(self, arguments: Sequence[str]) -> Any:
        return await asyncio.create_subprocess_exec(*arguments, stdin=PIPE, stdout=PIPE, stderr=STDOUT)


class _WithoutClient(LocalShell):
    async def open_process(self, arguments: Sequence[str]) -> Any:
        return await asyncio.create_subprocess_exec("no-such-client", *arguments, stdin=PIPE, stdout=PIPE, stderr=PIPE)


class _WithoutTraits(LocalShell):
    traits: Any = None


class _WithoutSuper(LocalShell):
    def __init__(self, **given: Any) -> None:
        pass


@pytest.mark.parametrize(
    ("kind", "error", "said"),
    [
        (_Forgetful, actbox.InvalidValue, r"_Forgetful.open_process must return .* None has no stdin and no stdout"),
        (_Plain, actbox.InvalidValue, "_Plain.open_process must be written `async def"),
        (_WithoutInput, actbox.InvalidValue, r"three pipes.*has no stdin$"),
        (_InOneStream, actbox.InvalidValue, r"three pipes.*has no stderr$"),
        (_WithoutClient, actbox.SandboxUnavailable, "^the local-shell engine: .*No such file.*: no-such-client$"),
        (_WithoutTraits, actbox.InvalidValue, "_WithoutTraits must say its `traits`"),
        (_WithoutSuper, actbox.InvalidValue, r"_WithoutSuper.__init__ must call super\(\)"),
    ],
)
async def test_a_slip_of_a_subclass_is_named(kind: type[LocalShell], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        await kind(python=sys.executable).start()


def test_a_policy_that_is_none_is_refused() -> None:
    given: Any = "linux"
    with pytest.raises(actbox.InvalidValue, match="policy must be a Policy"):
        LocalShell(given)


async def test_a_shell_whose_python_is_too_old_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actbox.sandbox.shell.requests.LEAST_PYTHON", (4, 0))
    with pytest.raises(actbox.SandboxUnavailable, match=r"it is Python 3\.\d+"):
        await LocalShell(python=sys.executable).start()


class Noisy(ProcessShell):
    """A shell that greets, complains and ends lines in its own way."""

    traits = shell_traits("noisy", isolation="none")

    async def open_process(self, arguments: Sequence[str]) -> Any:
        script = 'printf "Welcome\\r\\n\\r\\nto a shell"; echo grumble >&2; "$@" | sed "s/$/\\r/"'
        return await asyncio.create_subprocess_exec(
            "sh", "-c", script, "sh", *arguments, stdin=-1, stdout=-1, stderr=-1
        )


@pytest.mark.slow
async def test_a_greeting_of_the_shell_is_no_part_of_anything() -> None:
    async with Noisy(python=sys.executable) as box:
        await box.write_file("file", b"content")
        assert await box.read_file("file") == b"content"
        result = await box.run("print('said')\n1 + 1")
        assert (result.stdout, result.stderr, result.value) == ("said\n", "", 2)


class Breaking(LocalShell):
    """A shell whose commands say something else than they were asked for, when told to."""

    says = ""

    async def open_process(self, arguments: Sequence[str]) -> Any:
        if not self.says:
            return await super().open_process(arguments)
        return await asyncio.create_subprocess_exec("sh", "-c", self.says, stdin=-1, stdout=-1, stderr=-1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("says", "why"),
    [
        ("echo broken >&2; exit 3", "exit code 3, and said: broken"),
        ("kill -9 $$", "exit code 137"),
        ("exit 0", "exit code 0"),
        ("cat >/dev/null; head -c 3000000 /dev/zero", "exit code 0"),
    ],
)
async def test_a_shell_that_fails_is_a_failed_result_and_a_file_error(says: str, why: str) -> None:
    async with Breaking(python=sys.executable) as box:
        box.says = says
        result = await box.run("1")
        assert result.exit_code == 125 and result.error is not None
        assert result.error.kind is ErrorKind.SANDBOX and why in result.error.message
        with pytest.raises(actbox.FileError, match=why):
            await box.read_file("file")
        box.says = ""
        assert (await box.run("1 + 1")).value == 2


@pytest.mark.slow
async def test_the_one_method_is_enough() -> None:
    async with PlainShell(python=sys.executable) as box:
        workspace = Path(box.root)
        assert (await box.execute("pwd")).stdout.strip() == box.root
        await box.write_file("input/file", bytes(range(256)))
        assert await box.read_file("/input/file") == bytes(range(256))
        result = await box.run("open('output/made', 'wb').write(open('input/file', 'rb').read())")
        assert result.artifact("made").data == bytes(range(256))
        assert [r.value async for r in box.map(["1", "1/0", "3"])] == [1, None, 3]
        result = await box.run("import time\ntime.sleep(600)", timeout=0.5)
        assert result.error is not None and result.error.kind is ErrorKind.TIMEOUT
    assert not workspace.exists()
