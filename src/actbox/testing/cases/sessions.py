"""Cases of sessions: live interpreter state that several programs share, one after the other."""

from __future__ import annotations

import asyncio

import pytest

from actbox.core.errors import ErrorKind, SandboxStopped
from actbox.core.events import Completed, Output
from actbox.sandbox.contract import Sandbox

from .ground import NO_ERROR, Cases, OpenBox, failed
from .needs import FILES, LINES, SESSIONS, TOOLS, case, python, word


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class SessionCases(Cases):
    """The state that lasts from run to run of a session."""

    @case(SESSIONS)
    async def test_variables_last_from_run_to_run(self, box: Sandbox) -> None:
        """Variables last from run to run of a session."""
        async with box.session() as session:
            await session.run(self.program(self.words.let("x", "40")))
            await session.run(self.program(self.words.let("y", self.words.plus("x", "1"))))
            result = await session.run(self.program(self.words.answer(self.words.plus("y", "1"))))
        assert self.words.answered(result) == 42
        assert (result.success, result.state_kept, result.sandbox) == (True, True, self.traits.engine)

    @case(SESSIONS, python("subset"))
    async def test_functions_and_imports_last(self, box: Sandbox) -> None:
        """Functions and imports last from run to run of a session."""
        async with box.session() as session:
            await session.run("import json\ndef twice(n):\n    return 2 * n")
            assert (await session.run("json.dumps([twice(21)])")).value == "[42]"

    @case(SESSIONS)
    async def test_a_session_has_nothing_of_other_runs_nor_they_of_it(self, box: Sandbox) -> None:
        """A session's state is its own."""
        async with box.session() as session, box.session() as other:
            await session.run(self.program(self.words.let("mine", "1")))
            for run in (other.run, box.run):
                failed(await run(self.program(self.words.answer("mine"))))
            assert (await session.run(self.program(self.words.answer("mine")))).success

    @case(SESSIONS)
    async def test_what_was_bound_before_an_error_stays(self, box: Sandbox) -> None:
        """Variables that a run bound before it failed stay bound."""
        async with box.session() as session:
            result = await session.run(self.program(self.words.let("x", "7"), self.words.fail("boom")))
            failed(result)
            assert result.state_kept is True
            assert self.words.answered(await session.run(self.program(self.words.answer("x")))) == 7

    @case(SESSIONS, word("exit"))
    async def test_an_exit_ends_the_run_and_not_the_session(self, box: Sandbox) -> None:
        """`sys.exit()` ends the run only."""
        async with box.session() as session:
            result = await session.run(self.program(self.words.let("x", "7"), self.words.exit(3)))
            assert (result.exit_code, result.state_kept) == (3, True)
            assert self.words.answered(await session.run(self.program(self.words.answer("x")))) == 7

    @case(SESSIONS)
    async def test_a_syntax_error_leaves_the_state_alone(self, box: Sandbox) -> None:
        """A syntax error is `SYNTAX`, and leaves the session's state unchanged."""
        async with box.session() as session:
            await session.run(self.program(self.words.let("x", "7")))
            result = await session.run(self.program(self.words.broken))
            assert result.error is not None, NO_ERROR
            assert result.error.kind is ErrorKind.SYNTAX
            assert self.words.answered(await session.run(self.program(self.words.answer("x")))) == 7

    @case(SESSIONS, word("say"))
    async def test_output_is_that_of_the_run(self, box: Sandbox) -> None:
        """The output of an earlier run is not repeated."""
        async with box.session() as session:
            for text in ("one", "two"):
                assert (await session.run(self.program(self.words.say(text)))).stdout == f"{text}\n"

    @case(SESSIONS, python("subset"))
    async def test_the_value_of_an_earlier_run_is_not_given_again(self, box: Sandbox) -> None:
        """A run that ends in a statement has no value."""
        async with box.session() as session:
            assert (await session.run("41 + 1")).value == 42
            assert (await session.run("x = 1")).value_text is None

    @case(SESSIONS, FILES, word("write"))
    async def test_artifacts_are_those_of_the_run(self, box: Sandbox) -> None:
        """Artifacts are those of the run, while `/workspace` belongs to the sandbox."""
        async with box.session() as session:
            for name in ("a", "b"):
                result = await session.run(self.program(self.words.write(f"output/{name}", "x")))
                assert [artifact.name for artifact in result.artifacts] == [name]
            assert await box.read_file("output/a") == b"x"

    @case(SESSIONS)
    async def test_inputs_are_bound_anew_and_then_stay_like_any_variable(self, box: Sandbox) -> None:
        """A program's inputs are bound anew in each run; inputs then stay."""
        async with box.session() as session:
            for value in (1, 2):
                program = self.program(self.words.answer("given"), inputs={"given": value})
                assert self.words.answered(await session.run(program)) == value
            assert self.words.answered(await session.run(self.program(self.words.answer("given")))) == 2

    @case(SESSIONS, TOOLS)
    async def test_tools_that_a_run_does_not_have_are_unbound(self, box: Sandbox) -> None:
        """Tools that an earlier run had and this one has not are unbound."""
        call = self.program(self.words.answer(self.words.call("add", 1, 2)))
        async with box.session() as session:
            assert (await session.run(call, tools=[add])).success
            failed(await session.run(call))
            assert (await session.run(call, tools=[add])).success

    @case(SESSIONS, TOOLS)
    async def test_tool_calls_are_counted_in_each_run(self, box: Sandbox) -> None:
        """The limits on tool calls hold for each run."""
        async with box.session() as session:
            for _ in range(2):
                program = self.program(self.words.let("x", self.words.call("add", 1, 2)))
                assert (await session.run(program, tools=[add])).usage.tool_calls == 1

    @case(SESSIONS)
    async def test_runs_queue(self, box: Sandbox) -> None:
        """Runs of a session queue: the next begins when the previous one is over."""
        async with box.session() as session:
            await session.run(self.program(self.words.let("n", "0")))
            grow = self.program(self.words.let("n", self.words.plus("n", "1")))
            results = await asyncio.gather(*(session.run(grow) for _ in range(10)))
            assert all(result.success for result in results), results
            assert self.words.answered(await session.run(self.program(self.words.answer("n")))) == 10

    @case(SESSIONS)
    async def test_a_program_that_runs_out_of_time_says_whether_the_state_is_kept(self, box: Sandbox) -> None:
        """`ExecutionResult.state_kept` says whether a session kept its state after a timeout; an ended session answers
        with `SANDBOX` and 125.
        """
        async with box.session() as session:
            await session.run(self.program(self.words.let("x", "7")))
            result = await session.run(self.program(self.words.forever()), timeout=0.3)
            assert result.error is not None, NO_ERROR
            assert result.error.kind is ErrorKind.TIMEOUT
            after = await session.run(self.program(self.words.answer("x")))
            if result.state_kept:
                assert self.words.answered(after) == 7, after.error
            else:
                assert after.error is not None, NO_ERROR
                assert (after.error.kind, after.exit_code) == (ErrorKind.SANDBOX, 125)
                assert not session.alive

    @case(SESSIONS, word("say"))
    async def test_a_session_streams_as_a_sandbox_does(self, box: Sandbox) -> None:
        """`stream` yields its events, as `Sandbox.stream` does."""
        async with box.session() as session:
            events = [event async for event in session.stream(self.program(self.words.say("out")))]
        assert "".join(event.text for event in events if isinstance(event, Output)) == "out\n"
        assert isinstance(events[-1], Completed)

    @case(SESSIONS, python("subset"), LINES)
    async def test_each_program_has_a_name_and_lines_of_its_own(self, box: Sandbox) -> None:
        """Programs of a session are named `program.py`, `program-2.py` and so on; an error's `line` is one of the
        program that just ran.
        """
        async with box.session() as session:
            await session.run("def divide(a, b):\n    return a / b")
            error = (await session.run("\n\n\ndivide(1, 0)")).error
        assert error is not None, NO_ERROR
        assert error.line == 4
        assert "program-2.py" in error.traceback

    @case(SESSIONS, FILES, word("write"))
    async def test_sessions_and_runs_share_the_workspace(self, box: Sandbox) -> None:
        """Sessions and runs of a sandbox share `/workspace`."""
        async with box.session() as session:
            await session.run(self.program(self.words.write("from_session", "s")))
            await box.write_text("from_host", "h")
            read = self.words.listed(self.words.read("from_session"), self.words.read("from_host"))
            assert self.words.answered(await session.run(self.program(self.words.answer(read)))) == ["s", "h"]

    @case(SESSIONS, FILES)
    async def test_a_session_has_the_file_methods_too(self, box: Sandbox) -> None:
        """A session has the methods of `Files`, over the same workspace."""
        async with box.session() as session:
            await session.write_text("a.txt", "x")
            assert await box.read_text("a.txt") == await session.read_text("a.txt") == "x"
            assert session.root == box.root


class SessionLifeCases(Cases):
    """Starting and closing a session."""

    @case(SESSIONS)
    async def test_a_session_begins_with_its_first_run(self, box: Sandbox) -> None:
        """A session is alive before it was started explicitly."""
        session = box.session()
        assert session.alive
        assert (await session.run(self.program(self.words.answer("1")))).success
        await session.start()
        await session.close()

    @case(SESSIONS)
    async def test_a_closed_session_says_so(self, box: Sandbox) -> None:
        """Methods raise `SandboxStopped` after `close()`, which does nothing a second time."""
        session = box.session()
        await session.start()
        for _ in range(2):
            await session.close()
        assert not session.alive
        with pytest.raises(SandboxStopped):
            await session.run(self.program(self.words.answer("1")))
        await self.still_works(box)

    @case(SESSIONS)
    async def test_stopping_the_sandbox_ends_its_sessions(self, open_box: OpenBox) -> None:
        """Methods raise `SandboxStopped` after the sandbox's `stop()`."""
        box = await open_box()
        session = box.session()
        await session.run(self.program(self.words.let("x", "1")))
        await box.stop()
        assert not session.alive
        with pytest.raises(SandboxStopped):
            await session.run(self.program(self.words.answer("x")))

    @case(SESSIONS)
    async def test_closing_a_session_ends_a_program_that_runs(self, box: Sandbox) -> None:
        """`close` ends the interpreter, by force if a program runs."""
        session = box.session()
        await session.start()
        async with self.going_on(session) as task, asyncio.timeout(self.patience):
            await session.close()
            found = (await asyncio.gather(task, return_exceptions=True))[0]
        assert isinstance(found, SandboxStopped) or not getattr(found, "success", True), found

    @case(SESSIONS)
    async def test_a_session_is_no_plain_context_manager(self, box: Sandbox) -> None:
        """Using a session with a plain `with` raises `TypeError`, which says how to write it."""
        with pytest.raises(TypeError, match="async with"):
            with box.session():
                pass
        async with box.session() as session:
            assert self.words.answered(await session.run(self.program(self.words.answer("1")))) == 1

    @case(SESSIONS, python("full"))
    async def test_a_session_whose_process_ended_answers_that(self, box: Sandbox) -> None:
        """A session that has ended by itself answers every further run with `SANDBOX` and exit code 125."""
        async with box.session() as session:
            first = await session.run("import os\nos._exit(3)")
            assert (first.exit_code, first.state_kept) == (3, False)
            for _ in range(2):
                after = await session.run("1")
                assert after.error is not None, NO_ERROR
                assert (after.error.kind, after.exit_code) == (ErrorKind.SANDBOX, 125)

    @case(SESSIONS, FILES, python("core"))
    async def test_an_open_file_goes_on_where_it_was(self, box: Sandbox) -> None:
        """Open files last from run to run."""
        await box.write_text("lines", "one\ntwo\n")
        async with box.session() as session:
            assert (await session.run("file = open('lines')\nfile.readline()")).value == "one\n"
            assert (await session.run("file.readline()")).value == "two\n"

    @case(SESSIONS)
    async def test_many_sessions_live_at_once(self, box: Sandbox) -> None:
        """Each of many sessions has its own state."""
        sessions = [box.session() for _ in range(4)]
        try:
            for number, session in enumerate(sessions):
                await session.run(self.program(self.words.let("mine", str(number))))
            answers = [await session.run(self.program(self.words.answer("mine"))) for session in sessions]
            assert list(map(self.words.answered, answers)) == [0, 1, 2, 3]
        finally:
            for session in sessions:
                await session.close()
