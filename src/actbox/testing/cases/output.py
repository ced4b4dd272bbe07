"""What a program prints, and what a run comes to where nothing goes wrong."""

from __future__ import annotations

import json

import pytest

from actbox.core.result import ExecutionResult
from actbox.sandbox.contract import Sandbox

from .case import Cases, case
from .needs import PARTIAL, python, word


class OutputCases(Cases):
    """What a program prints comes back."""

    @case(word("say"))
    async def test_what_is_printed_comes_back_each_stream_by_itself(self, box: Sandbox) -> None:
        """`stdout` and `stderr` are what the program wrote to each."""
        result = await box.run(self.program(self.words.say("out"), self.words.complain("err")))
        assert (result.stdout, result.stderr) == ("out\n", "err\n")

    @case(word("say"))
    async def test_lines_keep_their_order(self, box: Sandbox) -> None:
        """Output is in the order in which it was printed."""
        result = await box.run(self.program(*(self.words.say(f"line {n}") for n in range(200))))
        assert result.stdout.splitlines() == [f"line {n}" for n in range(200)]

    @case()
    async def test_a_program_that_prints_nothing_has_no_output(self, box: Sandbox) -> None:
        """What nobody printed is not in the output."""
        result = await box.run(self.program(self.words.let("x", "1")))
        assert (result.stdout, result.stderr) == ("", "")

    @case(word("say"))
    async def test_output_of_one_run_is_not_in_the_next(self, box: Sandbox) -> None:
        """Every run starts fresh."""
        for text in ("one", "two"):
            assert (await box.run(self.program(self.words.say(text)))).stdout == f"{text}\n"

    @case(word("say"), PARTIAL)
    async def test_what_was_printed_before_an_error_is_kept(self, box: Sandbox) -> None:
        """A program that fails has the output that it had until then."""
        result = await box.run(self.program(self.words.say("before"), self.words.fail("boom"), self.words.say("after")))
        assert result.stdout == "before\n"
        assert not result.success

    @pytest.mark.parametrize(
        "text", ["", "  indented", "tab\tand trailing  ", "a\\nb", "%s {} ${x}", "'\"`", "\x1b[31mred"]
    )
    @case(word("say"))
    async def test_text_is_given_as_it_was_printed(self, box: Sandbox, text: str) -> None:
        """Output is never interpreted."""
        assert (await box.run(self.program(self.words.say(text)))).stdout == f"{text}\n"

    @case(word("say"))
    async def test_line_ends_are_those_that_were_printed(self, box: Sandbox) -> None:
        """Neither carriage returns nor empty lines are changed."""
        assert (await box.run(self.program(self.words.say("a\r\nb\rc\n\nd")))).stdout == "a\r\nb\rc\n\nd\n"

    @case(python("full"))
    async def test_what_children_and_c_libraries_write_is_output_too(self, box: Sandbox) -> None:
        """Output is what was written to the descriptors, whoever wrote it."""
        code = "import os, subprocess\nsubprocess.run(['echo', 'child'])\nos.write(2, b'raw')"
        result = await box.run(code)
        assert (result.stdout, result.stderr) == ("child\n", "raw")

    @case(python("full"))
    async def test_bytes_that_are_no_text_are_replaced(self, box: Sandbox) -> None:
        """Output is text, whatever bytes were written."""
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
            "import atexit, threading, time\natexit.register(print, 'at exit')\n"
            "threading.Thread(target=lambda: (time.sleep(0.1), print('thread'))).start()\nprint('main')"
        )
        assert (await box.run(code)).stdout == "main\nthread\nat exit\n"


class ResultCases(Cases):
    """What a result says of itself."""

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
        """Times are in milliseconds; there were no tool calls, and nobody was asked."""
        usage = (await self._ordinary(box)).usage
        assert usage.wall_ms > 0
        assert usage.queue_ms >= 0
        assert (usage.tool_calls, usage.approval_ms) == (0, 0)

    @case()
    async def test_a_result_is_a_json_document_and_can_be_read_back(self, box: Sandbox) -> None:
        """`from_dict` returns the result that `to_dict` made this of."""
        programs = {self.words.answer(self.words.literal({"a": [1, None]})): True, self.words.fail("boom"): False}
        for program, succeeds in programs.items():
            result = await box.run(self.program(program))
            assert result.success is succeeds, result
            document = json.loads(json.dumps(result.to_dict()))
            assert document["success"] is result.success
            assert ExecutionResult.from_dict(document).to_dict() == result.to_dict()

    @case()
    async def test_there_are_no_artifacts_changes_or_warnings_of_nothing(self, box: Sandbox) -> None:
        """What a run did not do is not told."""
        result = await self._ordinary(box)
        assert (result.artifacts, result.changes, result.warnings) == ((), (), ())
