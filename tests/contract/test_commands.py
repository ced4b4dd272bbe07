"""`execute`: shell commands in the same sandbox."""

from __future__ import annotations

import importlib.util
import re
import sys

import pytest

from actbox import ErrorKind, InvalidValue, Output, Sandbox
from tests.clock import Clock
from tests.conftest import OpenBox


async def test_a_command_has_output_and_exit_code(box: Sandbox) -> None:
    result = await box.execute("echo out; echo err >&2; exit 3")
    assert (result.stdout, result.stderr, result.exit_code) == ("out\n", "err\n", 3)
    assert result.error is not None
    assert result.error.kind is ErrorKind.EXIT


async def test_a_sequence_is_a_program_with_arguments_and_no_shell(box: Sandbox) -> None:
    result = await box.execute(["printf", "%s|", "a b", "$HOME", "-n"])
    assert result.stdout == "a b|$HOME|-n|"


@pytest.mark.slow
async def test_standard_input_is_given_as_bytes(box: Sandbox) -> None:
    assert (await box.execute("wc -c", stdin=b"\0" * 300_000)).stdout.strip() == "300000"
    assert (await box.execute("cat")).stdout == ""


@pytest.mark.slow
async def test_a_command_starts_where_it_is_told(box: Sandbox) -> None:
    await box.make_dir("sub")
    assert (await box.execute("pwd")).stdout.strip() == box.root
    assert (await box.execute("pwd", cwd="sub")).stdout.strip() == f"{box.root}/sub"
    assert (await box.execute("pwd", cwd="/usr")).stdout.strip() == "/usr"
    missing = await box.execute("pwd", cwd="missing")
    assert missing.exit_code == 126
    assert "missing" in missing.stderr


@pytest.mark.slow
async def test_variables_of_a_call_come_on_top_of_the_sandboxs(open_box: OpenBox) -> None:
    box = await open_box(env={"A": "1", "B": "1"})
    assert (await box.execute("echo $A $B $C", env={"B": "2", "C": "3"})).stdout == "1 2 3\n"
    assert (await box.run("import os\n[os.environ['A'], os.environ['B'], 'C' in os.environ]")).value == [
        "1",
        "1",
        False,
    ]


@pytest.mark.slow
async def test_nothing_of_a_commands_shell_lasts(box: Sandbox) -> None:
    await box.execute("cd /; export X=1; umask 077")
    assert (await box.execute('echo "$X"; pwd; umask')).stdout.split() == [box.root, "0022"]


@pytest.mark.parametrize(
    ("command", "exit_code"),
    [
        ("no-such-command-here", 127),
        (["no-such-command-here"], 127),
        (["/"], 126),
        ("kill -9 $$", 137),
        ("kill -15 $$", 143),
    ],
)
async def test_exit_codes_are_those_of_a_shell(box: Sandbox, command: str | list[str], exit_code: int) -> None:
    result = await box.execute(command)
    assert result.exit_code == exit_code
    assert result.error is not None


async def test_a_command_times_out_with_its_output_kept(box: Sandbox, clock: Clock) -> None:
    events = box.execute_stream("echo begun; sleep 600", timeout=30)
    result = await clock.run_out(events, 30, after="begun\n")
    assert result.exit_code == 124
    assert result.stdout == "begun\n"
    assert result.error is not None
    assert result.error.kind is ErrorKind.TIMEOUT


async def test_output_of_a_command_streams(box: Sandbox) -> None:
    pieces = []
    async for event in box.execute_stream("echo a; while [ ! -e seen ]; do sleep 0.01; done; echo b"):
        if isinstance(event, Output):
            pieces.append(event.text)
            await box.write_file("seen", b"")
    assert pieces == ["a\n", "b\n"]


async def test_a_command_that_leaves_a_child_behind_is_over_when_it_is_over(box: Sandbox) -> None:
    result = await box.execute("sleep 300 & echo done", timeout=30)
    assert (result.exit_code, result.stdout) == (0, "done\n")


async def test_files_made_by_a_command_are_artifacts(box: Sandbox) -> None:
    result = await box.execute("echo x > output/made.txt")
    assert [artifact.name for artifact in result.artifacts] == ["made.txt"]


async def test_commands_keep_limits(open_box: OpenBox) -> None:
    box = await open_box(file_mib=1)
    result = await box.execute("head -c 3000000 /dev/zero > big; stat -c %s big")
    assert int(result.stdout) == 2**20


@pytest.mark.slow
async def test_the_environments_python_is_the_first_on_the_path(box: Sandbox) -> None:
    result = await box.execute("python -c 'import sys, pydantic; print(sys.version_info[:2])'")
    assert result.stdout.strip() == str(tuple(sys.version_info[:2]))


@pytest.mark.parametrize("command", [[], "a\0b", ["a", 1]])
async def test_commands_that_make_no_sense_are_refused(box: Sandbox, command: object) -> None:
    with pytest.raises(InvalidValue):
        await box.execute(command)  # type: ignore[arg-type]


@pytest.mark.parametrize("variables", [{"A=B": "1"}, {"": "1"}, {"A": "x\0"}, {"A": 1}, {"A": "\ud800"}])
async def test_variables_that_make_no_sense_are_refused(box: Sandbox, variables: dict[str, str]) -> None:
    with pytest.raises(InvalidValue, match="variable"):
        await box.execute("true", env=variables)


@pytest.mark.slow
async def test_an_installer_without_a_network_says_so_and_is_not_waited_for(isolated_box: Sandbox) -> None:
    if importlib.util.find_spec("pip") is None:
        pytest.fail("pip is needed in the environment of the tests")
    result = await isolated_box.execute([sys.executable, "-m", "pip", "install", "no-such-package"])
    assert result.error is not None
    assert result.error.kind is ErrorKind.EXIT
    # The words of pip until 25, and of later ones.
    assert re.search("Failed to establish a new connection|NewConnectionError|NameResolutionError", result.stderr)
    variables = await isolated_box.execute("echo $PIP_RETRIES $UV_OFFLINE")
    assert variables.stdout == "1 1\n"
