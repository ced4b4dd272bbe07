"""Cases of printed output, and of results of successful runs."""

from __future__ import annotations

import json

import pytest

from actbox.core.result import ExecutionResult
from actbox.sandbox.contract import Sandbox

from .ground import Cases
from .needs import PARTIAL, case, python, word


class OutputCases(Cases):
    """Printed output comes back in the result."""

    @case(word("say"))
    async def test_what_is_printed_comes_back_each_stream_by_itself(self, box: Sandbox) -> None:
        """`stdout` and `stderr` each contain the text that the program wrote to that stream."""
        result = await box.run(self.program(self.words.say("out"), self.words.complain("err")))
        assert (result.stdout, result.stderr) == ("out\n", "err\n")

    @case(word("say"))
    async def test_lines_keep_their_order(self, box: Sandbox) -> None:
        """Output is in the order in which it was printed."""
        result = await box.run(self.program(*(self.words.say(f"line {n}") for n in range(200))))
        assert result.stdout.splitlines() == [f"line {n}" for n in range(200)]

    @case()
    async def test_a_program_that_prints_nothing_has_no_output(self, box: Sandbox) -> None:
        """A program that prints nothing has empty output."""
        result = await box.run(self.program(self.words.let("x", "1")))
        assert (result.stdout, result.stderr) == ("", "")

    @case(word("say"))
    async def test_output_of_one_run_is_not_in_the_next(self, box: Sandbox) -> None:
        """The output of one run is not in the next."""
        for text in ("one", "two"):
            assert (await box.run(self.program(self.words.say(text)))).stdout == f"{text}\n"

    @case(word("say"), PARTIAL)
    async def test_what_was_printed_before_an_error_is_kept(self, box: Sandbox) -> None:
        """The output of a failed program up to its failure is kept."""
        result = await box.run(self.program(self.words.say("before"), self.words.fail("boom"), self.words.say("after")))
        assert result.stdout == "before\n"
        assert not result.success

    @pytest.mark.parametrize(
        "text", ["", "  indented", "tab\tand trailing  ", "a\\nb", "%s {} ${x}", "'\"`", "\x1b[31mred"]
    )
    @case(word("say"))
    async def test_text_is_given_as_it_was_printed(self, box: Sandbox, text: str) -> None:
        """Output is returned as it was printed, uninterpreted."""
        assert (await box.run(self.program(self.words.say(text)))).stdout == f"{text}\n"

    @case(word("say"))
    async def test_line_ends_are_those_that_were_printed(self, box: Sandbox) -> None:
        """Carriage returns and empty lines in output are unchanged."""
        assert (await box.run(self.program(self.words.say("a\r\nb\rc\n\nd")))).stdout == "a\r\nb\rc\n\nd\n"

    @case(python("full"))
    async def test_what_children_and_c_libraries_write_is_output_too(self, box: Sandbox) -> None:
        """Output includes text that child processes and C libraries wrote to the descriptors."""
        code = "import os, subprocess\nsubprocess.run(['echo', 'child'])\nos.write(2, b'raw')"
        result = await box.run(code)
        assert (result.stdout, result.stderr) == ("child\n", "raw")

    @case(python("full"))
    async def test_bytes_that_are_no_text_are_replaced(self, box: Sandbox) -> None:
        """Bytes that are no UTF-8 are replaced in the output, which is text."""
        assert (await box.run("import os\nos.write(1, b'a\\xffb')")).stdout == "a\ufffdb"

    @case(python("full"))
    async def test_a_child_that_outlives_the_program_holds_nothing_up(self, box: Sandbox) -> None:
        """A run is over when its program is over; all its processes end with it."""
        code = "import subprocess\nsubprocess.Popen(['sleep', '100'])\nprint('done')"
        result = await box.run(code, timeout=50)
        assert (result.success, result.stdout) == (True, "done\n")

    @case(python("full"))
    async def test_threads_are_awaited_and_atexit_is_called(self, box: Sandbox) -> None:
        """A program ends as a script ends."""
        code = (
            "import atexit, threading, time\nname = 'thread'\natexit.register(lambda: print('at exit of', name))\n"
            "threading.Thread(target=lambda: (time.sleep(0.1), print(name))).start()\nprint('main')"
        )
        assert (await box.run(code)).stdout == "main\nthread\nat exit of thread\n"


class ResultCases(Cases):
    """The fields of a result."""

    async def _ordinary(self, box: Sandbox) -> ExecutionResult:
        return await box.run(self.program(self.words.answer(self.words.plus("40", "2"))))

    @case()
    async def test_a_run_that_succeeds_says_so_in_every_way(self, box: Sandbox) -> None:
        """`exit_code` is 0 exactly when the run succeeded."""
        result = await self._ordinary(box)
        assert (result.success, result.exit_code, result.error) == (True, 0, None)
        assert self.words.answered(result) == 42

    @case()
    async def test_the_result_names_the_engine(self, box: Sandbox) -> None:
        """`sandbox` names the engine."""
        assert (await self._ordinary(box)).sandbox == box.traits.engine == self.traits.engine

    @case()
    async def test_a_run_outside_of_a_session_says_nothing_of_state(self, box: Sandbox) -> None:
        """`state_kept` is `None` after any run that is not a session's."""
        assert (await self._ordinary(box)).state_kept is None

    @case()
    async def test_usage_is_told(self, box: Sandbox) -> None:
        """Times are in milliseconds; tool calls and approval time are 0 for a program without tools."""
        usage = (await self._ordinary(box)).usage
        assert usage.wall_ms > 0
        assert usage.queue_ms >= 0
        assert (usage.tool_calls, usage.approval_ms) == (0, 0)

    @case()
    async def test_a_result_is_a_json_document_and_can_be_read_back(self, box: Sandbox) -> None:
        """`from_dict` restores the result from which `to_dict` made a document."""
        programs = {self.words.answer(self.words.literal({"a": [1, None]})): True, self.words.fail("boom"): False}
        for program, succeeds in programs.items():
            result = await box.run(self.program(program))
            assert result.success is succeeds, result
            document = json.loads(json.dumps(result.to_dict()))
            assert document["success"] is result.success
            assert ExecutionResult.from_dict(document).to_dict() == result.to_dict()

    @case()
    async def test_there_are_no_artifacts_changes_or_warnings_of_nothing(self, box: Sandbox) -> None:
        """Artifacts, changes and warnings are empty for a run that caused none."""
        result = await self._ordinary(box)
        assert (result.artifacts, result.changes, result.warnings) == ((), (), ())
