"""`execute`: shell commands in the same sandbox."""

from __future__ import annotations

import asyncio

import pytest

from actbox.core.errors import ErrorKind
from actbox.core.events import Completed, Output
from actbox.core.policy import Policy
from actbox.sandbox.contract import Sandbox

from .case import Cases, OpenBox, case, failed, kept, refuses_value
from .needs import COMMANDS, FILES, ISOLATED, NO_ERROR, PARTIAL, limit


class CommandCases(Cases):
    """A shell command, or a program with arguments."""

    @case(COMMANDS)
    async def test_a_command_has_output_and_an_exit_code(self, box: Sandbox) -> None:
        """`EXIT`: the command ended itself with a non-zero code."""
        result = await box.execute("echo out; echo err >&2; exit 3")
        assert (result.stdout, result.stderr, result.exit_code) == ("out\n", "err\n", 3)
        assert result.error is not None, NO_ERROR
        assert result.error.kind is ErrorKind.EXIT
        assert (await box.execute("true")).success

    @case(COMMANDS)
    async def test_a_sequence_is_a_program_with_arguments_and_no_shell(self, box: Sandbox) -> None:
        """Nothing in it is interpreted."""
        arguments = ["a b", "$HOME", "-n", "*", "'\"", "new\nline", "`x`", "ü"]
        result = await box.execute(["printf", "%s|", *arguments])
        assert result.stdout == "".join(f"{argument}|" for argument in arguments)

    @case(COMMANDS)
    async def test_standard_input_is_given_as_bytes(self, box: Sandbox) -> None:
        """And is empty where nothing is given."""
        assert (await box.execute("wc -c", stdin=b"\0\xff" * 100_000)).stdout.strip() == "200000"
        assert (await box.execute("cat")).stdout == ""

    @case(COMMANDS, FILES)
    async def test_a_command_starts_in_the_workspace_or_where_it_is_told(self, box: Sandbox) -> None:
        """`cwd` is a folder inside the sandbox, `/workspace` unless told."""
        await box.make_dir("sub folder")
        assert (await box.execute("pwd")).stdout == f"{box.root}\n"
        assert (await box.execute("pwd", cwd="sub folder")).stdout == f"{box.root}/sub folder\n"

    @case(COMMANDS)
    async def test_a_missing_working_folder_fails_instead_of_running_elsewhere(self, box: Sandbox) -> None:
        """Nothing runs."""
        result = await box.execute("echo ran", cwd="missing")
        failed(result)
        assert "ran" not in result.stdout

    @case(COMMANDS, FILES)
    async def test_commands_and_file_methods_share_the_workspace(self, box: Sandbox) -> None:
        """Files are the sandbox's."""
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
        """Those of the call win."""
        box = await kept(self, open_box, Policy(variables={"A": "policy", "B": "policy"}))
        assert (await box.execute("echo $A $B", env={"B": "call"})).stdout == "policy call\n"

    @case(COMMANDS)
    async def test_nothing_of_a_commands_shell_lasts(self, box: Sandbox) -> None:
        """Every run starts fresh."""
        await box.execute("cd /; export X=1")
        assert (await box.execute('echo "[$X]"; pwd')).stdout.split() == ["[]", box.root]

    @pytest.mark.parametrize(
        ("command", "exit_code"),
        [("no-such-command-here", 127), (["no-such-command-here"], 127), ("kill -9 $$", 137), ("kill -15 $$", 143)],
        ids=["missing", "missing program", "killed", "terminated"],
    )
    @case(COMMANDS)
    async def test_exit_codes_are_those_of_a_shell(self, box: Sandbox, command: str, exit_code: int) -> None:
        """128+n for signal n."""
        result = await box.execute(command)
        failed(result)
        assert result.exit_code == exit_code

    @case(COMMANDS, PARTIAL, limit("wall_seconds"))
    async def test_a_command_times_out_with_its_output_kept(self, box: Sandbox) -> None:
        """`TIMEOUT`, and 124."""
        result = await box.execute("echo begun; sleep 60", timeout=await self.brief(box))
        assert (result.exit_code, result.stdout) == (124, "begun\n")
        assert result.error is not None, NO_ERROR
        assert result.error.kind is ErrorKind.TIMEOUT

    @case(COMMANDS)
    async def test_a_command_streams(self, box: Sandbox) -> None:
        """As `stream` does."""
        events = [event async for event in box.execute_stream("echo a; echo b >&2")]
        assert isinstance(events[-1], Completed)
        assert {(event.stream, event.text) for event in events[:-1] if isinstance(event, Output)} == {
            ("stdout", "a\n"),
            ("stderr", "b\n"),
        }

    @case(COMMANDS)
    async def test_a_command_that_leaves_a_child_behind_is_over_when_it_is_over(self, box: Sandbox) -> None:
        """A child that keeps standard output open holds nothing up."""
        result = await box.execute("sleep 100 & echo done", timeout=60)
        assert (result.success, result.stdout) == (True, "done\n")

    @case(COMMANDS, FILES)
    async def test_files_made_by_a_command_are_artifacts(self, box: Sandbox) -> None:
        """As those of a program."""
        result = await box.execute("echo x > output/made.txt")
        assert [artifact.name for artifact in result.artifacts] == ["made.txt"]

    @case(COMMANDS, limit("output_bytes"))
    async def test_a_command_keeps_to_the_output_limit(self, open_box: OpenBox) -> None:
        """`OUTPUT_LIMIT`, as for a program."""
        box = await open_box(output_bytes=10_000)
        result = await box.execute("yes", timeout=30)
        assert result.error is not None, NO_ERROR
        assert result.error.kind is ErrorKind.OUTPUT_LIMIT
        assert len(result.stdout) <= 10_000

    @case(COMMANDS)
    async def test_characters_split_across_writes_stay_whole(self, box: Sandbox) -> None:
        """Output is decoded as it goes, and no character is cut."""
        result = await box.execute(r"printf '\303'; sleep 0.1; printf '\274'; printf '\360\237'; printf '\230\200'")
        assert result.stdout == "ü😀"

    @pytest.mark.parametrize("command", [[], "a\0b", ["a", 1], 5], ids=repr)
    @case(COMMANDS)
    async def test_commands_that_make_no_sense_are_refused(self, box: Sandbox, command: str) -> None:
        """`InvalidValue`, and nothing runs."""
        await refuses_value(box.execute(command))

    @pytest.mark.parametrize("variables", [{"A=B": "1"}, {"": "1"}, {"A": "x\0"}, {"A": 1}], ids=repr)
    @case(COMMANDS)
    async def test_variables_that_make_no_sense_are_refused(self, box: Sandbox, variables: dict[str, str]) -> None:
        """`InvalidValue`, and nothing runs."""
        await refuses_value(box.execute("true", env=variables))

    @case(COMMANDS, FILES, ISOLATED)
    async def test_cancelling_a_command_ends_all_its_processes(self, box: Sandbox) -> None:
        """Cancelling the task that waits for it ends the program and all its processes."""
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
