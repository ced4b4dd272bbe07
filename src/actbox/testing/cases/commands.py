"""Cases of `execute`: shell commands in the same sandbox."""

from __future__ import annotations

import asyncio

import pytest

from actbox.core.errors import ErrorKind
from actbox.core.events import Completed, Output
from actbox.core.policy import Policy
from actbox.sandbox.contract import Sandbox

from .ground import BRINGS_MODULES, NO_ERROR, Cases, OpenBox, failed, refuses_value
from .needs import COMMANDS, FILES, ISOLATED, PARTIAL, case, kept, limit


class CommandCases(Cases):
    """A shell command, or a program with arguments."""

    @case(COMMANDS)
    async def test_a_command_has_output_and_an_exit_code(self, box: Sandbox) -> None:
        """A command has output and an exit code; a non-zero code is the error `EXIT`."""
        result = await box.execute("echo out; echo err >&2; exit 3")
        assert (result.stdout, result.stderr, result.exit_code) == ("out\n", "err\n", 3)
        assert result.error is not None, NO_ERROR
        assert result.error.kind is ErrorKind.EXIT
        assert (await box.execute("true")).success

    @case(COMMANDS)
    async def test_a_sequence_is_a_program_with_arguments_and_no_shell(self, box: Sandbox) -> None:
        """The words of a sequence are passed to the program uninterpreted."""
        arguments = ["a b", "$HOME", "-n", "*", "'\"", "new\nline", "`x`", "ü"]
        result = await box.execute(["printf", "%s|", *arguments])
        assert result.stdout == "".join(f"{argument}|" for argument in arguments)

    @case(COMMANDS)
    async def test_a_command_line_is_for_bash_where_there_is_one(self, box: Sandbox) -> None:
        """The shell is bash if the sandbox has it, else `/bin/sh`."""
        result = await box.execute('command -v bash >/dev/null || exit 3; [ -n "$BASH_VERSION" ] && echo {a,b}')
        assert (result.stdout, result.exit_code) in (("a b\n", 0), ("", 3)), result

    @case(COMMANDS)
    async def test_standard_input_is_given_as_bytes(self, box: Sandbox) -> None:
        """Standard input is given as bytes, and is empty by default."""
        assert (await box.execute("wc -c", stdin=b"\0\xff" * 100_000)).stdout.strip() == "200000"
        assert (await box.execute("cat")).stdout == ""

    @case(COMMANDS, FILES)
    async def test_a_command_starts_in_the_workspace_or_where_it_is_told(self, box: Sandbox) -> None:
        """`cwd` is a directory inside the sandbox, by default `/workspace`."""
        await box.make_dir("sub folder")
        assert (await box.execute("pwd")).stdout == f"{box.root}\n"
        assert (await box.execute("pwd", cwd="sub folder")).stdout == f"{box.root}/sub folder\n"

    @case(COMMANDS)
    async def test_a_missing_working_folder_fails_instead_of_running_elsewhere(self, box: Sandbox) -> None:
        """A command with a missing `cwd` does not run."""
        result = await box.execute("echo ran", cwd="missing")
        failed(result)
        assert "ran" not in result.stdout

    @case(COMMANDS, FILES)
    async def test_commands_and_file_methods_share_the_workspace(self, box: Sandbox) -> None:
        """Commands and file methods see the same files."""
        await box.write_text("a.txt", "from the host\n")
        assert (await box.execute("cat a.txt && echo inside > b.txt")).stdout == "from the host\n"
        assert await box.read_text("b.txt") == "inside\n"

    @case(COMMANDS)
    async def test_variables_of_a_call_belong_to_it(self, box: Sandbox) -> None:
        """`env` is added to the variables of every run."""
        assert (await box.execute('echo "$KIT"', env={"KIT": "a b $c"})).stdout == "a b $c\n"
        assert (await box.execute('echo "[$KIT]"')).stdout == "[]\n"

    @case(COMMANDS)
    async def test_variables_of_a_call_come_on_top_of_the_policys(self, open_box: OpenBox) -> None:
        """The variables of the call win over those of the policy."""
        box = await kept(self, open_box, Policy(variables={"A": "policy", "B": "policy"}))
        assert (await box.execute("echo $A $B", env={"B": "call"})).stdout == "policy call\n"

    @case(COMMANDS)
    async def test_nothing_of_a_commands_shell_lasts(self, box: Sandbox) -> None:
        """Every command starts in a fresh shell."""
        await box.execute("cd /; export X=1")
        assert (await box.execute('echo "[$X]"; pwd')).stdout.split() == ["[]", box.root]

    @pytest.mark.parametrize(
        ("command", "exit_code"),
        [("no-such-command-here", 127), (["no-such-command-here"], 127), ("kill -9 $$", 137), ("kill -15 $$", 143)],
        ids=["missing", "missing program", "killed", "terminated"],
    )
    @case(COMMANDS)
    async def test_exit_codes_are_those_of_a_shell(self, box: Sandbox, command: str, exit_code: int) -> None:
        """The exit code for a command that signal n ended is 128+n."""
        result = await box.execute(command)
        failed(result)
        assert result.exit_code == exit_code

    @case(COMMANDS, PARTIAL, limit("wall_seconds"))
    async def test_a_command_times_out_with_its_output_kept(self, box: Sandbox) -> None:
        """A command that runs out of time ends with `TIMEOUT` and exit code 124."""
        result = await self.with_enough_time(
            lambda seconds: box.execute("echo begun; sleep 600", timeout=seconds), lambda result: bool(result.stdout)
        )
        assert (result.exit_code, result.stdout) == (124, "begun\n")
        assert result.error is not None, NO_ERROR
        assert result.error.kind is ErrorKind.TIMEOUT

    @case(COMMANDS)
    async def test_a_command_streams(self, box: Sandbox) -> None:
        """`execute_stream` yields events as `stream` does."""
        events = [event async for event in box.execute_stream("echo a; echo b >&2")]
        assert isinstance(events[-1], Completed)
        assert {(event.stream, event.text) for event in events[:-1] if isinstance(event, Output)} == {
            ("stdout", "a\n"),
            ("stderr", "b\n"),
        }

    @case(COMMANDS)
    async def test_a_command_that_leaves_a_child_behind_is_over_when_it_is_over(self, box: Sandbox) -> None:
        """A background process that keeps standard output open does not delay the command's end."""
        result = await box.execute("sleep 100 & echo done", timeout=60)
        assert (result.success, result.stdout) == (True, "done\n")

    @case(COMMANDS, FILES)
    async def test_files_made_by_a_command_are_artifacts(self, box: Sandbox) -> None:
        """Files that a command leaves below `/output` are artifacts."""
        result = await box.execute("echo x > output/made.txt")
        assert [artifact.name for artifact in result.artifacts] == ["made.txt"]

    @case(COMMANDS, limit("output_bytes"))
    async def test_a_command_keeps_to_the_output_limit(self, open_box: OpenBox) -> None:
        """A command beyond the output limit ends with `OUTPUT_LIMIT`, as a program does."""
        box = await open_box(output_bytes=10_000)
        result = await box.execute("yes", timeout=30)
        assert result.error is not None, NO_ERROR
        assert result.error.kind is ErrorKind.OUTPUT_LIMIT
        assert len(result.stdout) <= 10_000

    @case(COMMANDS)
    async def test_characters_split_across_writes_stay_whole(self, box: Sandbox) -> None:
        """Output is decoded as it arrives, and a character split across two writes stays whole."""
        result = await box.execute(r"printf '\303'; sleep 0.1; printf '\274'; printf '\360\237'; printf '\230\200'")
        assert result.stdout == "ü😀"

    @pytest.mark.parametrize("command", [[], "a\0b", "echo \ud800", ["echo", "\ud800"], ["a", 1], 5], ids=ascii)
    @case(COMMANDS)
    async def test_commands_that_make_no_sense_are_refused(self, box: Sandbox, command: str) -> None:
        """An invalid command raises `InvalidValue`, and nothing runs."""
        await refuses_value(box.execute(command))

    @pytest.mark.parametrize("cwd", ["a\0b", "\ud800", 5], ids=ascii)
    @case(COMMANDS)
    async def test_folders_that_make_no_sense_are_refused(self, box: Sandbox, cwd: str) -> None:
        """A `cwd` that is no path raises `InvalidValue`, and nothing runs."""
        await refuses_value(box.execute("true", cwd=cwd))

    @pytest.mark.parametrize("variables", [{"A=B": "1"}, {"": "1"}, {"A": "x\0"}, {"A": 1}], ids=repr)
    @case(COMMANDS)
    async def test_variables_that_make_no_sense_are_refused(self, box: Sandbox, variables: dict[str, str]) -> None:
        """Invalid variables raise `InvalidValue`, and nothing runs."""
        await refuses_value(box.execute("true", env=variables))

    @pytest.mark.parametrize("variables", BRINGS_MODULES, ids=str)
    @case(COMMANDS)
    async def test_variables_that_bring_modules_to_a_command_from_elsewhere_are_refused(
        self, box: Sandbox, variables: dict[str, str]
    ) -> None:
        """A `PYTHONPATH` outside the workspace and mounts, or a `PIP_TARGET`, raises `InvalidValue`, as for a
        program.
        """
        assert min(variables) in await refuses_value(box.execute("true", env=variables))

    @case(COMMANDS, FILES, ISOLATED)
    async def test_cancelling_a_command_ends_all_its_processes(self, box: Sandbox) -> None:
        """Cancelling the task that waits for a command ends all of its processes."""
        command = "sh -c 'while :; do date +%N > ticking; sleep 0.02; done' & wait"
        task = asyncio.create_task(box.execute(command))
        async with asyncio.timeout(self.patience):
            while "ticking" not in {entry.path for entry in await box.list_files()}:
                await asyncio.sleep(0.02)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        before = await box.read_file("ticking")
        await asyncio.sleep(0.3)
        assert await box.read_file("ticking") == before
