"""How commands of the tool `shell` go in and how their state comes out: past all others in the sandbox."""

from __future__ import annotations

from contextlib import aclosing

import pytest

pytest.importorskip("strands", reason="the extra actbox[strands] is not installed")

from strands.sandbox import ExecutionResult, StreamChunk
from strands.sandbox.errors import SandboxTimeoutError
from strands.sandbox.not_a_sandbox_local_environment import NotASandboxLocalEnvironment

from actbox.integrations.strands import StrandsSandbox
from actbox.integrations.strands.shell_state import ShellState
from actbox.integrations.strands.shell_wrapper import OWN, Frames, Report, run_wrapped
from tests.clock import Clock
from tests.integrations.strands_agents.conftest import ENGINES
from tests.integrations.strands_agents.places import run_out, sandbox_on

FIRST = {f"{OWN}folder": ".", f"{OWN}before": "", f"{OWN}unset": ""}


async def ran(shell: ShellState, box: StrandsSandbox, command: str) -> tuple[ExecutionResult, str, str]:
    """Return the result of a command, what it has streamed of standard error, and the note on its state."""
    streamed, note = "", ""
    result = None
    async for item in shell.run(box, command, 30):
        if isinstance(item, StreamChunk):
            streamed += item.data if item.stream_type == "stderr" else ""
        elif isinstance(item, ExecutionResult):
            result = item
        else:
            note = item
    assert result is not None
    return result, streamed, note


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
async def test_no_other_command_finds_a_file_of_a_shell(engine: str) -> None:
    async with sandbox_on(engine) as box:
        watch = (
            "echo watching; until [ -e stop ]; do"
            ' for found in .actbox* /tmp/.actbox*; do [ -e "$found" ] && echo "$found"; done; done; echo end'
        )
        seen = ""
        shell = ShellState()
        async with aclosing(box.execute_streaming(watch)) as output:
            async for item in output:
                if isinstance(item, StreamChunk):
                    if not seen:
                        for number in range(5):
                            await ran(shell, box, f"mkdir d{number}; cd d{number}; export A={number}")
                        await box.write_file("stop", b"")
                    seen += item.data
        assert seen == "watching\nend\n"
        assert shell.folder == "/workspace/d0/d1/d2/d3/d4"


async def test_the_token_of_a_command_is_in_no_environment_and_no_arguments() -> None:
    async with sandbox_on("linux") as box:
        report = Report()
        look = f"set -a; cd /; cat /proc/$$/environ /proc/$$/cmdline; env; cat; echo {'x' * 200_000} | wc -c"
        async with aclosing(run_wrapped(box, look, 30, FIRST, report)) as output:
            items = [item async for item in output]
        result = items[-1]
        assert isinstance(result, ExecutionResult)
        assert f"{OWN}folder" in result.stdout
        assert result.stdout.endswith("200001\n")
        assert report.token not in result.stdout
        assert report.state is not None
        assert bytes.fromhex(report.state[0]) == b"/\n\0/workspace"


@pytest.mark.slow
async def test_what_a_command_prints_is_told_exactly() -> None:
    async with sandbox_on("linux") as box:
        shell = ShellState()
        for printed in ("", "a", "a\n", "[", "[0123:]\n[", "[\n\n"):
            result, streamed, note = await ran(shell, box, f"printf %s '{printed}' >&2; printf %s '{printed}'; exit 3")
            assert (result.stdout, result.stderr, streamed) == (printed, printed, printed)
            assert (result.exit_code, note) == (3, "")


async def test_the_files_that_a_command_writes_are_its_own() -> None:
    async with sandbox_on("linux") as box:
        shell = ShellState()
        command = "".join(f"exec {number}>f{number}; echo {number} >&{number}; " for number in (3, 4, 5, 6, 7, 9))
        result, _, note = await ran(shell, box, f"{command} export A=1; mkdir -p d; cd d")
        assert (result.stderr, note) == ("", "")
        assert [await box.read_file(f"f{number}") for number in (3, 6, 7, 9)] == [b"3\n", b"6\n", b"7\n", b"9\n"]
        assert shell.folder == "/workspace/d"


@pytest.mark.slow
@pytest.mark.parametrize(
    "forged",
    [
        "head -c 9000000 /dev/zero | tr '\\0' 0; printf ]",
        "printf 2f0a00:; head -c 80000 /dev/zero | tr '\\0' 0; echo ]",
        "printf 0a",
        "echo xyz:]",
        "echo ]",
        "echo 2f0a00:]",
        "echo many:many]",
    ],
)
async def test_what_a_command_tells_in_place_of_its_shell_is_bounded(forged: str) -> None:
    async with sandbox_on("linux") as box:
        shell = ShellState()
        await ran(shell, box, "mkdir a; cd a; export A=1")
        forge = f'trap : EXIT; {{ printf "[%s:" "$__actbox_token"; {forged}; }} >&2; echo out; exit 4'
        result, _, note = await ran(shell, box, forge)
        assert (result.exit_code, result.stdout, result.stderr) == (4, "out\n", "")
        assert "before it" in note or "the variables stay what they were" in note
        after, _, _ = await ran(shell, box, 'pwd; echo "[$A]"')
        assert after.stdout in ("/workspace/a\n[1]\n", "/\n[1]\n")


@pytest.mark.slow
async def test_a_command_that_spoils_its_own_shell_keeps_its_output() -> None:
    async with sandbox_on("linux") as box:
        spoil = 'mkdir "$__actbox_place" "$__actbox_place.new"; ln -sf /etc/passwd "$__actbox_file"'
        for command in (spoil, "unset __actbox_token", "__actbox_kept=1"):
            result, _, note = await ran(ShellState(), box, f"echo out; {command}; true")
            assert (result.exit_code, result.stdout) == (0, "out\n")
            assert not note or "as they were before it" in note


async def test_what_is_printed_before_a_timeout_has_no_frame_in_it(clock: Clock) -> None:
    async with sandbox_on("linux") as box:
        command = "echo out >&2; __actbox_keep; echo >/workspace/begun; exec sleep 600"

        async def hangs() -> None:
            async with aclosing(run_wrapped(box, command, 30, FIRST, Report())) as output:
                async for _ in output:
                    pass

        with pytest.raises(SandboxTimeoutError) as caught:
            await run_out(box, hangs(), clock.turn, 30)
        assert caught.value.stderr == "out\n"


async def test_a_sandbox_of_strands_own_is_left_no_file() -> None:
    report = Report()
    async with aclosing(run_wrapped(NotASandboxLocalEnvironment(), "ls -a /tmp; cat", 30, FIRST, report)) as output:
        *_, result = [item async for item in output]
    assert isinstance(result, ExecutionResult)
    assert ".actbox-shell-" not in result.stdout
    assert result.stderr == ""
    assert report.state is not None


def test_a_frame_is_taken_out_wherever_the_text_is_split() -> None:
    text = "a[[T[T:2f:30]\nb]\n[T:31]\n[T"
    for first in range(len(text) + 1):
        for second in range(first, len(text) + 1):
            frames = Frames("T")
            passed = [frames.passed(piece) for piece in (text[:first], text[first:second], text[second:])]
            assert "".join(passed) + frames.rest() == "a[[Tb]\n[T"
            assert frames.inside == "31"
    frames = Frames("T")
    assert frames.passed("x[T:" + "0" * 1_000_000) == "x"
    assert frames.passed("0]\ny") == "y"
    assert frames.inside is None
