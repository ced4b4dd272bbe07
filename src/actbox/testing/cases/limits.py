"""Cases of limits: each limit that an engine enforces is exceeded once, and the result names it."""

from __future__ import annotations

from typing import Any, Final, NoReturn

import pytest

from actbox.core.errors import ErrorKind, Unsupported
from actbox.core.limits import Limits
from actbox.core.result import ExecutionResult
from actbox.sandbox.contract import Sandbox

from .ground import NO_ERROR, Cases, OpenBox, failed, ran_out_of_time
from .needs import FILES, LINES, PARTIAL, SESSIONS, TOOLS, NotTried, case, limit, needing, word

_NO_SUCH_THING: Final = (
    ErrorKind.MISSING_DEPENDENCY,
    ErrorKind.POLICY,
    ErrorKind.RUNTIME,
    ErrorKind.SYNTAX,
    ErrorKind.UNSUPPORTED,
)


def echo(text: str) -> str:
    """Return the text unchanged."""
    return text


class LimitCases(Cases):
    """A program that exceeds a limit ends, and the error names the limit."""

    def _ended(self, result: ExecutionResult, *kinds: ErrorKind, limit: str = "") -> None:
        failed(result)
        assert result.error is not None, NO_ERROR
        assert result.error.kind in kinds, result.error
        if limit:
            assert result.error.limit == limit, result.error

    @case(limit("wall_seconds"))
    async def test_wall_time_ends_a_program(self, open_box: OpenBox) -> None:
        """`TIMEOUT`: wall time ran out, and 124 is the exit code."""

        async def attempt(seconds: float) -> tuple[ExecutionResult, ExecutionResult]:
            box = await open_box(wall_seconds=seconds)
            endless = await box.run(self.program(self.words.forever()))
            return endless, await box.run(self.program(self.words.answer(self.words.plus("1", "1"))))

        result, after = await self.with_enough_time(attempt, lambda results: not ran_out_of_time(results[1]))
        self._ended(result, ErrorKind.TIMEOUT, limit="wall_seconds")
        assert result.exit_code == 124
        assert after.success and self.words.answered(after) == 2, after

    @case(limit("wall_seconds"))
    async def test_a_timeout_lowers_the_wall_limit(self, box: Sandbox) -> None:
        """`timeout` in seconds may only lower the policy's wall limit."""
        result = await box.run(self.program(self.words.forever()), timeout=0.3)
        self._ended(result, ErrorKind.TIMEOUT, limit="wall_seconds")
        await self.still_works(box)

    @case(limit("wall_seconds"))
    async def test_a_timeout_cannot_raise_the_wall_limit(self, open_box: OpenBox) -> None:
        """`timeout` in seconds may only lower the policy's wall limit."""
        box = await open_box(wall_seconds=0.3)
        result = await box.run(self.program(self.words.forever()), timeout=1000)
        self._ended(result, ErrorKind.TIMEOUT, limit="wall_seconds")

    @case(limit("wall_seconds"), PARTIAL, word("say"))
    async def test_what_was_printed_before_the_time_ran_out_is_kept(self, box: Sandbox) -> None:
        """Output printed before a timeout is kept (the trait `partial_output`)."""
        called: list[None] = []

        def call() -> None:
            called.append(None)

        tools = [call] if self.traits.tools else None
        then = self.words.let("x", self.words.call("call")) if tools else ""
        program = self.program(self.words.say("begun"), then, self.words.forever())
        result = await self.with_enough_time(
            lambda seconds: box.run(program, tools=tools, timeout=seconds),
            lambda result: bool(called if tools else result.stdout),  # a call follows what was printed
        )
        assert ran_out_of_time(result), result
        assert result.stdout == "begun\n"

    @case(limit("cpu_seconds"))
    async def test_processor_time_ends_a_program(self, open_box: OpenBox) -> None:
        """`TIMEOUT` by `cpu_seconds`, or where a language counts steps, `BUDGET`."""
        box = await open_box(cpu_seconds=1, wall_seconds=60)
        result = await box.run(self.program(self.words.forever()))
        self._ended(result, ErrorKind.TIMEOUT, ErrorKind.BUDGET)
        assert result.error is not None, NO_ERROR
        assert result.error.limit in ("cpu_seconds", "steps")
        await self.still_works(box)

    @case(limit("memory_mib"))
    async def test_memory_ends_a_program(self, open_box: OpenBox) -> None:
        """Exceeding the memory limit ends the program with `MEMORY`, and the sandbox works on."""
        box = await open_box(memory_mib=128)
        self._ended(await box.run(self.program(self.words.hold(640))), ErrorKind.MEMORY)
        await self.still_works(box)

    @case(word("repeat"), limit("output_bytes"))
    async def test_output_ends_a_program(self, open_box: OpenBox) -> None:
        """Exceeding the output limit ends the program with `OUTPUT_LIMIT`; the first part of stdout and stderr is
        kept.
        """
        box = await open_box(output_bytes=10_000)
        result = await box.run(self.program(self.words.repeat(100_000, self.words.say("x" * 99))))
        self._ended(result, ErrorKind.OUTPUT_LIMIT, limit="output_bytes")
        assert len((result.stdout + result.stderr).encode()) <= 10_000
        assert result.stdout.startswith("x") or not self.traits.partial_output
        await self.still_works(box)

    @case(word("repeat"), limit("output_bytes"))
    async def test_output_within_the_limit_is_whole(self, open_box: OpenBox) -> None:
        """Output within the limit is not cut."""
        box = await open_box(output_bytes=10_000)
        result = await box.run(self.program(self.words.repeat(90, self.words.say("x" * 99))))
        assert (result.success, len(result.stdout)) == (True, 9_000)

    @case(TOOLS, limit("tool_calls"))
    async def test_tool_calls_beyond_the_budget_end_a_program(self, open_box: OpenBox) -> None:
        """`BUDGET`: as many calls as allowed are made, and no more."""
        box = await open_box(tool_calls=3)
        made: list[int] = []

        def note(number: int) -> int:
            made.append(number)
            return number

        calls = "".join(self.words.let(f"x{n}", self.words.call("note", n)) for n in range(5))
        result = await box.run(self.program(calls), tools=[note])
        self._ended(result, ErrorKind.BUDGET, limit="tool_calls")
        assert made == [0, 1, 2]
        assert result.usage.tool_calls == 3

    @case(TOOLS, limit("tool_calls"))
    async def test_as_many_calls_as_allowed_are_fine_in_every_run(self, open_box: OpenBox) -> None:
        """Limits hold for each run by itself."""
        box = await open_box(tool_calls=3)
        calls = "".join(self.words.let(f"x{n}", self.words.call("echo", "a")) for n in range(3))
        for _ in range(2):
            assert (await box.run(self.program(calls), tools=[echo])).success

    @case(TOOLS, limit("tool_bytes"))
    async def test_the_bytes_of_all_tool_calls_together_end_a_program(self, open_box: OpenBox) -> None:
        """`BUDGET`: arguments and results of all tool calls of one run together."""
        box = await open_box(tool_bytes=20_000)
        calls = "".join(self.words.let(f"x{n}", self.words.call("echo", "x" * 1000)) for n in range(30))
        result = await box.run(self.program(calls), tools=[echo])
        self._ended(result, ErrorKind.BUDGET, limit="tool_bytes")
        assert result.usage.tool_calls < 30

    @case(TOOLS, limit("message_bytes"))
    async def test_too_large_an_argument_never_reaches_the_tool(self, open_box: OpenBox) -> None:
        """`message_bytes` bounds one message: a tool's arguments or result."""
        box = await open_box(message_bytes=20_000)
        received: list[int] = []

        def note(text: str) -> int:
            received.append(len(text))
            return len(text)

        failed(await box.run(self.program(self.words.let("x", self.words.call("note", "x" * 50_000))), tools=[note]))
        assert received == []
        await self.still_works(box)

    @case(TOOLS, limit("message_bytes"))
    async def test_too_large_a_result_is_a_failed_call(self, open_box: OpenBox) -> None:
        """`message_bytes` bounds one message: a tool's arguments or result."""
        box = await open_box(message_bytes=20_000)

        def large() -> str:
            return "x" * 50_000

        failed(await box.run(self.program(self.words.let("x", self.words.call("large"))), tools=[large]))
        await self.still_works(box)

    @case(limit("processes"))
    async def test_processes_are_counted(self, open_box: OpenBox) -> None:
        """Too many processes or threads are the error `PROCESSES`."""
        box = await open_box(processes=16)
        there = await self._kinds_alive(box)
        if not there:
            self._untried("processes", "no program here can have a thread or a process of its own")
        for kind in there:
            result = await box.run(self.program(self.words.have_alive(40)[kind]))
            self._ended(result, ErrorKind.PROCESSES)
            await self.still_works(box)

    @case(limit("open_files"))
    async def test_open_files_are_counted(self, open_box: OpenBox) -> None:
        """`open_files` limits the files that one process has open at once."""
        box = await open_box(open_files=40)
        self._ended(await self._hold_open_too_many(box), ErrorKind.RUNTIME)

    @case(limit("open_files"), LINES)
    async def test_a_program_that_keeps_its_files_open_is_told_the_line_and_what_to_do(self, open_box: OpenBox) -> None:
        """Reporting an error needs files too: some are left for that after a program has used up its own."""
        box = await open_box(open_files=40)
        result = await self._hold_open_too_many(box)
        self._ended(result, ErrorKind.RUNTIME, limit="open_files")
        assert result.error is not None, NO_ERROR
        assert result.error.line, result.error
        assert result.error.hint, result.error
        await self.still_works(box)

    @case(FILES, word("write"), limit("file_mib"))
    async def test_a_file_may_not_outgrow_its_limit(self, open_box: OpenBox) -> None:
        """A file that exceeds its limit is the error `DISK`."""
        box = await open_box(file_mib=1)
        self._ended(await box.run(self.program(self.words.write_large("big", 3))), ErrorKind.DISK)
        assert all(entry.size <= 2**20 for entry in await box.list_files())

    @case(FILES, word("write"), limit("workspace_mib"))
    async def test_the_workspace_may_not_outgrow_its_limit(self, open_box: OpenBox) -> None:
        """A workspace that exceeds its limit is the error `DISK`."""
        box = await open_box(workspace_mib=4)
        six = "".join(self.words.write_large(f"{n}", 2) for n in range(6))
        self._ended(await box.run(self.program(six)), ErrorKind.DISK)

    @case(FILES, word("write"), limit("disk_mib"))
    async def test_all_files_together_may_not_outgrow_their_limit(self, open_box: OpenBox) -> None:
        """All files that a program writes, wherever it can, exceed `disk_mib` with the error `DISK`."""
        box = await open_box(disk_mib=4)
        six = "".join(self.words.write_large(f"{n}", 2) for n in range(6))
        self._ended(await box.run(self.program(six)), ErrorKind.DISK)

    @case(limit("cpus"))
    async def test_a_share_of_the_processors_is_not_exceeded(self, open_box: OpenBox) -> None:
        """`cpus`: processor time for each second of wall time, at most."""
        try:
            # The share is so small that a busy machine, which may leave a program little, cannot pass for an enforced
            # limit.
            box = await open_box(cpus=0.05)
        except Unsupported as refusal:
            assert self.traits.engine in str(refusal), refusal
            beside = await self._kinds_alive(await open_box(cpus=1))
            assert not beside, f"cpus is in traits.enforced; less than one is refused, but a program can have {beside}"
            self._untried("cpus", "less than one is refused, and nothing goes on beside a program")
        result = await box.run(self.program(self.words.share_of_a_processor()))
        assert result.success, f"no program of the kit can find out whether cpus holds: {result.error}"
        share = self.words.answered(result)
        if share is None:
            assert result.usage.cpu_ms > 0, "neither a program nor Usage tells how much processor time was used"
            share = result.usage.cpu_ms / result.usage.wall_ms
        assert share < 0.1

    async def _hold_open_too_many(self, box: Sandbox) -> ExecutionResult:
        """Run a program that opens 80 files and keeps them open; skip the case if no file can be opened."""
        written = self.words.write("a", "x")
        if not await self._can(box, written, self.words.hold_open("a", 2)):
            assert not self.traits.files or self.traits.python in ("none", "subset"), "a program cannot open two files"
            self._untried("open_files", "no program here can have an open file")
        return await box.run(self.program(written, self.words.hold_open("a", 80)))

    async def _can(self, box: Sandbox, *statements: str) -> bool:
        """Return True if a program within the limits succeeds; otherwise check that the engine lacks the feature."""
        result = await box.run(self.program(*statements))
        assert result.error is None or result.error.kind in _NO_SUCH_THING, result.error
        return result.success

    async def _kinds_alive(self, box: Sandbox) -> list[str]:
        """Return the kinds, such as threads, of which a program can have two alive beside itself."""
        there = [kind for kind, two in self.words.have_alive(2).items() if await self._can(box, two)]
        assert there or self.traits.python != "full", "full CPython has threads and processes, and this has neither"
        return there

    def _untried(self, name: str, why: str) -> NoReturn:
        """End a case about a limit that no program can exceed here."""
        raise NotTried(f"limit: {name} ({self.traits.enforced[name]}), which cannot be tried: {why}")

    @case(limit("wall_seconds"), SESSIONS)
    async def test_a_session_keeps_to_the_wall_limit_in_each_run(self, open_box: OpenBox) -> None:
        """The limit on wall time holds for each run."""

        async def attempt(seconds: float) -> tuple[ExecutionResult, ExecutionResult, bool]:
            box = await open_box(wall_seconds=seconds)
            async with box.session() as session:
                first = await session.run(self.program(self.words.answer("1")))
                return first, await session.run(self.program(self.words.forever())), session.alive

        first, result, alive = await self.with_enough_time(attempt, lambda outcome: not ran_out_of_time(outcome[0]))
        assert first.success, first
        self._ended(result, ErrorKind.TIMEOUT, limit="wall_seconds")
        assert result.state_kept is alive

    @pytest.mark.parametrize("name", Limits().to_dict())
    @case()
    async def test_as_much_as_a_limit_can_be_is_as_good_as_none(self, open_box: OpenBox, name: str) -> None:
        """Each limit accepts its greatest value, `disk_mib` where it is enforced."""
        if Limits.__dataclass_fields__[name].default is None:
            await needing(self, limit(name))
        most: dict[str, Any] = {name: Limits.__dataclass_fields__[name].metadata["most"]}
        await self.still_works(await open_box(**most))

    @case(FILES, limit("workspace_mib"))
    async def test_what_fits_into_the_workspace_is_placed(self, open_box: OpenBox) -> None:
        """Files that fit into the workspace limit are placed."""
        box = await open_box(workspace_mib=4)
        await box.write_file("a", bytes(2**20))
        assert len(await box.read_file("a")) == 2**20
