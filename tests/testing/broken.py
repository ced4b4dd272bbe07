"""Sandboxes that are broken, each in one way, and the case that must notice."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import actbox
from actbox import (
    ApprovalDecided,
    Artifact,
    ArtifactCreated,
    Completed,
    ErrorKind,
    Event,
    ExecutionResult,
    FileError,
    FileInfo,
    Limits,
    Output,
    Policy,
    Program,
    Sandbox,
    SandboxStopped,
    Session,
    ToolFinished,
    Toolset,
    ToolStarted,
)
from actbox.sandbox.contract import Command, Tools, closing


class Sound(Sandbox):
    """An engine as it is, `process` unless told; what is below breaks one thing of it."""

    engine: ClassVar[str] = "process"

    caught_by: ClassVar[tuple[str, ...]] = ()
    """The cases that must fail, by their names."""
    seconds: ClassVar[float] = 30.0
    """How long a case may take."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.inner: Any = actbox.open_sandbox(self.engine, policy=self.kept(policy), allow_unisolated=True)
        self.traits = self.told(self.inner.traits)

    def kept(self, policy: Policy) -> Policy:
        return policy

    def told(self, traits: actbox.Traits) -> actbox.Traits:
        return traits

    def event(self, event: Event) -> Iterable[Event]:
        return [Completed(self.result(event.result))] if isinstance(event, Completed) else [event]

    def result(self, result: ExecutionResult) -> ExecutionResult:
        return result

    def program(self, program: Program | str) -> Program | str:
        return program

    def tools(self, tools: Tools) -> Tools:
        return tools

    async def start(self) -> None:
        await self.inner.start()

    async def stop(self) -> None:
        await self.inner.stop()

    @property
    def root(self) -> str:
        root: str = self.inner.root
        return root

    async def _broken(self, events: AsyncIterator[Event]) -> AsyncIterator[Event]:
        async with closing(events):
            async for event in events:
                for told in self.event(event):
                    yield told

    def stream(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> AsyncIterator[Event]:
        return self._broken(self.inner.stream(self.program(program), tools=self.tools(tools), timeout=timeout))

    def execute_stream(
        self,
        command: Command,
        *,
        stdin: bytes = b"",
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[Event]:
        return self._broken(self.inner.execute_stream(command, stdin=stdin, cwd=cwd, env=env, timeout=timeout))

    def stream_alone(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> AsyncIterator[Event]:
        return self._broken(self.inner.stream_alone(self.program(program), tools=self.tools(tools), timeout=timeout))

    async def run_alone(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> ExecutionResult:
        return self.result(await self.inner.run_alone(self.program(program), tools=tools, timeout=timeout))

    def session(self, *, forkable: bool = False) -> Session:
        session: Session = self.inner.session(forkable=forkable)
        return session

    async def read_file(self, path: str) -> bytes:
        data: bytes = await self.inner.read_file(path)
        return data

    async def write_file(self, path: str, data: bytes) -> None:
        await self.inner.write_file(path, data)

    async def remove_file(self, path: str, *, recursive: bool = False) -> None:
        await self.inner.remove_file(path, recursive=recursive)

    async def list_files(self, path: str = ".", *, recursive: bool = False) -> list[FileInfo]:
        entries: list[FileInfo] = await self.inner.list_files(path, recursive=recursive)
        return entries

    async def stat(self, path: str) -> FileInfo:
        entry: FileInfo = await self.inner.stat(path)
        return entry

    async def make_dir(self, path: str) -> None:
        await self.inner.make_dir(path)

    async def move(self, source: str, target: str) -> None:
        await self.inner.move(source, target)


# Output and events


class LosesOutput(Sound):
    caught_by = ("test_what_is_printed_comes_back_each_stream_by_itself", "test_lines_keep_their_order")

    def result(self, result: ExecutionResult) -> ExecutionResult:
        return replace(result, stdout="".join(result.stdout.splitlines(keepends=True)[:1]), stderr="")


class MixesStreams(Sound):
    caught_by = ("test_what_is_printed_comes_back_each_stream_by_itself",)

    def result(self, result: ExecutionResult) -> ExecutionResult:
        return replace(result, stdout=result.stdout + result.stderr, stderr="")


class StripsOutput(Sound):
    caught_by = ("test_text_is_given_as_it_was_printed[  indented]",)

    def result(self, result: ExecutionResult) -> ExecutionResult:
        return replace(result, stdout=result.stdout.strip() + "\n")


class TranslatesLineEnds(Sound):
    caught_by = ("test_line_ends_are_those_that_were_printed",)

    def result(self, result: ExecutionResult) -> ExecutionResult:
        return replace(result, stdout=result.stdout.replace("\r\n", "\n"))


class CutsOutput(Sound):
    caught_by = ("test_two_megabytes_of_output", "test_one_long_line_of_output")

    def result(self, result: ExecutionResult) -> ExecutionResult:
        return replace(result, stdout=result.stdout[:65_536])


class SpeaksNoUnicode(Sound):
    caught_by = ("test_printed[beyond 16 bits]", "test_printed[umlauts]")

    def result(self, result: ExecutionResult) -> ExecutionResult:
        return replace(result, stdout=result.stdout.encode("ascii", "replace").decode())


class ComposesCharacters(Sound):
    caught_by = ("test_printed[combining]",)

    def result(self, result: ExecutionResult) -> ExecutionResult:
        import unicodedata

        return replace(result, stdout=unicodedata.normalize("NFC", result.stdout))


class TellsNoOutput(Sound):
    caught_by = ("test_the_pieces_of_output_are_the_output_of_the_result", "test_output_comes_as_it_is_printed")
    seconds = 3

    def event(self, event: Event) -> Iterable[Event]:
        return [] if isinstance(event, Output) else [event]


class TellsOutputAtTheEnd(Sound):
    caught_by = ("test_output_comes_as_it_is_printed",)
    seconds = 3

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self.held: list[Event] = []

    def event(self, event: Event) -> Iterable[Event]:
        if isinstance(event, Output):
            self.held.append(event)
            return []
        if isinstance(event, Completed):
            held, self.held = self.held, []
            return [*held, event]
        return [event]


class TellsOutputTwice(Sound):
    caught_by = ("test_the_pieces_of_output_are_the_output_of_the_result",)

    def event(self, event: Event) -> Iterable[Event]:
        return [event, event] if isinstance(event, Output) else [event]


class GoesOnAfterTheEnd(Sound):
    caught_by = ("test_the_last_event_is_completed_and_there_is_one",)

    def event(self, event: Event) -> Iterable[Event]:
        return [event, Output("stdout", "late")] if isinstance(event, Completed) else [event]


class LosesPartialOutput(Sound):
    caught_by = (
        "test_what_was_printed_before_an_error_is_kept",
        "test_what_was_printed_before_the_time_ran_out_is_kept",
    )

    def result(self, result: ExecutionResult) -> ExecutionResult:
        return result if result.success else replace(result, stdout="")


# Results


class FailsWithZero(Sound):
    caught_by = ("test_an_error_is_no_exception_of_the_host", "test_a_program_may_end_itself_with_a_code")

    def result(self, result: ExecutionResult) -> ExecutionResult:
        return replace(result, exit_code=0)


class Raises(Sound):
    caught_by = ("test_an_error_is_no_exception_of_the_host",)

    def result(self, result: ExecutionResult) -> ExecutionResult:
        if not result.success:
            raise RuntimeError("the program failed")
        return result


class SaysRuntimeOfEverything(Sound):
    caught_by = (
        "test_source_that_is_no_program_is_a_syntax_error",
        "test_a_failed_call_that_is_not_caught_ends_the_program",
        "test_wall_time_ends_a_program",
    )

    def result(self, result: ExecutionResult) -> ExecutionResult:
        return replace(result, error=result.error and replace(result.error, kind=ErrorKind.RUNTIME))


class CountsLinesFromItsOwn(Sound):
    caught_by = ("test_an_error_has_the_line_of_the_program", "test_a_syntax_error_has_its_line")

    def result(self, result: ExecutionResult) -> ExecutionResult:
        error = result.error
        return replace(result, error=error and replace(error, line=error.line and error.line + 3))


class ShowsItsOwnFrames(Sound):
    caught_by = ("test_the_traceback_has_nothing_of_the_engine",)

    def result(self, result: ExecutionResult) -> ExecutionResult:
        error = result.error
        frame = '  File "/usr/lib/python3/site-packages/broken/engines/run.py", line 7, in run\n'
        return replace(result, error=error and replace(error, traceback=frame + error.traceback))


class TellsNoMessage(Sound):
    caught_by = ("test_an_error_has_its_message",)

    def result(self, result: ExecutionResult) -> ExecutionResult:
        error = result.error
        return replace(result, error=error and replace(error, message=f"{error.type}: {error.message}"))


class HasAnotherName(Sound):
    caught_by = ("test_the_result_names_the_engine",)

    def result(self, result: ExecutionResult) -> ExecutionResult:
        return replace(result, sandbox="another")


class CountsNoCalls(Sound):
    caught_by = ("test_calls_are_counted",)

    def result(self, result: ExecutionResult) -> ExecutionResult:
        return replace(result, usage=replace(result.usage, tool_calls=0))


class GivesTextForValues(Sound):
    caught_by = ("test_the_last_expression_is_the_value[list]", "test_the_last_expression_is_the_value[zero]")

    def result(self, result: ExecutionResult) -> ExecutionResult:
        return replace(result, value=result.value_text)


class GivesNumbersForBooleans(Sound):
    caught_by = ("test_the_last_expression_is_the_value[true]",)

    def result(self, result: ExecutionResult) -> ExecutionResult:
        return replace(result, value=int(result.value) if isinstance(result.value, bool) else result.value)


class InventsAValue(Sound):
    caught_by = ("test_a_program_that_ends_in_a_statement_has_no_value", "test_a_program_that_fails_has_no_value")

    def result(self, result: ExecutionResult) -> ExecutionResult:
        return replace(result, value_text=result.value_text or "None")


class GivesInputsAsText(Sound):
    caught_by = ("test_an_input_is_a_variable[list]",)

    def program(self, program: Program | str) -> Program | str:
        if not isinstance(program, Program):
            return program
        return replace(program, inputs={name: str(value) for name, value in program.inputs.items()})


class LeaksState(Sound):
    caught_by = ("test_variables_belong_to_one_run", "test_inputs_of_one_run_are_not_in_the_next")

    async def start(self) -> None:
        await super().start()
        self.kept_session = self.inner.session()

    def stream(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> AsyncIterator[Event]:
        return self._broken(self.kept_session.stream(program, tools=tools, timeout=timeout))


class LeaksTheEnvironment(Sound):
    caught_by = ("test_variables_of_the_host_are_not_inherited",)

    def kept(self, policy: Policy) -> Policy:
        return replace(policy, variables={**os.environ, **policy.variables})


# Files and artifacts


class LosesArtifacts(Sound):
    caught_by = ("test_a_file_in_output_is_an_artifact",)

    def result(self, result: ExecutionResult) -> ExecutionResult:
        return replace(result, artifacts=())


class TellsNoArtifacts(Sound):
    caught_by = ("test_artifacts_are_events_before_the_last",)

    def event(self, event: Event) -> Iterable[Event]:
        return [] if isinstance(event, ArtifactCreated) else [event]


class FollowsLinks(Sound):
    caught_by = ("test_links_in_output_are_not_followed",)

    def result(self, result: ExecutionResult) -> ExecutionResult:
        return replace(result, artifacts=(*result.artifacts, Artifact("link", b"of the host")))


class LosesArtifactsOfFailures(Sound):
    caught_by = ("test_artifacts_of_a_failed_run_are_kept",)

    def result(self, result: ExecutionResult) -> ExecutionResult:
        return result if result.success else replace(result, artifacts=())


class GivesOldArtifactsAgain(Sound):
    caught_by = ("test_only_what_a_run_made_or_changed_is_its_artifact",)

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self.all: tuple[Artifact, ...] = ()

    def result(self, result: ExecutionResult) -> ExecutionResult:
        self.all += result.artifacts
        return replace(result, artifacts=self.all)


class ReadsText(Sound):
    caught_by = (
        "test_a_file_goes_in_and_comes_out_whatever_it_is_called['-rf']",
        "test_text_is_utf_8_and_keeps_its_line_ends",
    )

    async def read_file(self, path: str) -> bytes:
        return (await super().read_file(path)).replace(b"\r\n", b"\n")


class CutsFiles(Sound):
    caught_by = ("test_a_large_file_goes_in_and_comes_out",)

    async def write_file(self, path: str, data: bytes) -> None:
        await super().write_file(path, data[: 2**20])


class MissesNothing(Sound):
    caught_by = ("test_what_is_missing_is_an_error_that_names_it",)

    async def read_file(self, path: str) -> bytes:
        try:
            return await super().read_file(path)
        except FileError:
            return b""


class ListsInAnyOrder(Sound):
    caught_by = ("test_a_listing_is_sorted_and_tells_kinds_and_sizes",)

    async def list_files(self, path: str = ".", *, recursive: bool = False) -> list[FileInfo]:
        return (await super().list_files(path, recursive=recursive))[::-1]


class NeverReplaces(Sound):
    caught_by = ("test_writing_makes_parent_folders_and_replaces",)

    async def write_file(self, path: str, data: bytes) -> None:
        try:
            old = await self.read_file(path)
        except FileError:
            old = b""
        await super().write_file(path, data + old[len(data) :])


class RemovesTooMuch(Sound):
    caught_by = ("test_a_folder_that_is_not_empty_is_removed_only_with_all_below_it",)

    async def remove_file(self, path: str, *, recursive: bool = False) -> None:
        await super().remove_file(path, recursive=True)


class AnswersPathsOutside(Sound):
    caught_by = ("test_a_path_that_leaves_the_workspace_is_refused['/etc/passwd']",)

    async def read_file(self, path: str) -> bytes:
        return b"" if path.startswith("/etc") else await super().read_file(path)


class CopiesInsteadOfMoving(Sound):
    caught_by = ("test_moving_makes_parent_folders_and_replaces",)

    async def move(self, source: str, target: str) -> None:
        await super().write_file(target, await super().read_file(source))


class KeepsTheWorkspace(Sound):
    caught_by = ("test_a_sandbox_that_was_started_again_has_an_empty_workspace",)
    left: bytes | None = None

    async def stop(self) -> None:
        try:
            self.left = await self.inner.read_file("a")
        except (FileError, SandboxStopped):
            self.left = None
        await super().stop()

    async def start(self) -> None:
        await super().start()
        if self.left is not None:
            await self.inner.write_file("a", self.left)


class RunsAloneInTheSameWorkspace(Sound):
    caught_by = ("test_its_files_are_its_own_and_gone_afterwards",)

    async def run_alone(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> ExecutionResult:
        return await self.run(program, tools=tools, timeout=timeout)


# Tools and approval


class NumbersAllCallsOne(Sound):
    caught_by = ("test_calls_are_events_with_what_was_sent_and_what_came_back",)

    def event(self, event: Event) -> Iterable[Event]:
        return [replace(event, call_id=1)] if isinstance(event, (ToolStarted, ToolFinished)) else [event]


class TellsCallsAfterwards(Sound):
    caught_by = ("test_a_call_is_told_while_it_is_under_way",)
    seconds = 3

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self.held: list[Event] = []

    def event(self, event: Event) -> Iterable[Event]:
        if isinstance(event, ToolStarted):
            self.held.append(event)
            return []
        held, self.held = self.held, []
        return [*held, event]


class CallsTwice(Sound):
    caught_by = ("test_every_kind_of_value_survives_both_ways[text]",)

    def tools(self, tools: Tools) -> Tools:
        return [_changed(tool, _twice) for tool in Toolset.of(tools)]


class RoundsNumbers(Sound):
    caught_by = ("test_every_kind_of_value_survives_both_ways[fraction]",)

    def tools(self, tools: Tools) -> Tools:
        return [_changed(tool, _rounded) for tool in Toolset.of(tools)]


class CallsOneAfterTheOther(Sound):
    caught_by = ("test_gathered_calls_of_asynchronous_tools_meet", "test_two_runs_are_under_way_at_once")
    seconds = 3

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self.one = asyncio.Lock()

    def tools(self, tools: Tools) -> Tools:
        return [_changed(tool, _locked, self.one) for tool in Toolset.of(tools)]


class Approves(Sound):
    caught_by = ("test_a_call_that_is_refused_is_never_made", "test_without_an_approver_such_a_run_is_refused")

    def tools(self, tools: Tools) -> Tools:
        return Toolset.of(tools).approved()


class TellsNoDecision(Sound):
    caught_by = ("test_questions_and_decisions_are_events_around_the_call",)

    def event(self, event: Event) -> Iterable[Event]:
        return [] if isinstance(event, ApprovalDecided) else [event]


class LosesTools(Sound):
    caught_by = ("test_a_tool_is_a_function_by_its_name",)

    def tools(self, tools: Tools) -> Tools:
        return None


def _changed(tool: Any, change: Any, *more: Any) -> Any:
    function = tool.function

    async def changed(*args: Any, **kwargs: Any) -> Any:
        return await change(function, args, kwargs, *more)

    return replace(tool, function=changed, is_async=True)


async def _called(function: Any, args: Any, kwargs: Any) -> Any:
    found = function(*args, **kwargs)
    return await found if asyncio.iscoroutine(found) else found


async def _twice(function: Any, args: Any, kwargs: Any) -> Any:
    await _called(function, args, kwargs)
    return await _called(function, args, kwargs)


async def _rounded(function: Any, args: Any, kwargs: Any) -> Any:
    found = await _called(function, args, kwargs)
    return round(found) if isinstance(found, float) else found


async def _locked(function: Any, args: Any, kwargs: Any, lock: asyncio.Lock) -> Any:
    async with lock:
        return await _called(function, args, kwargs)


# Ends and beginnings


class RunsOneAtATime(Sound):
    caught_by = ("test_two_runs_are_under_way_at_once", "test_one_that_takes_for_ever_does_not_hold_up_another")
    seconds = 3

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self.one = asyncio.Lock()

    async def _broken(self, events: AsyncIterator[Event]) -> AsyncIterator[Event]:
        async with self.one:
            async for event in super()._broken(events):
                yield event


class CannotBeCancelled(Sound):
    caught_by = ("test_nothing_of_a_cancelled_program_goes_on", "test_a_cancelled_run_withdraws_its_question")
    seconds = 3

    async def run(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> ExecutionResult:
        return await asyncio.shield(asyncio.ensure_future(super().run(program, tools=tools, timeout=timeout)))


class StopsWithoutEndingRuns(Sound):
    caught_by = ("test_stopping_the_sandbox_ends_what_runs_as_cancelled",)
    seconds = 3

    async def stop(self) -> None:
        self.inner, kept = actbox.open_sandbox("process", allow_unisolated=True), self.inner
        task = asyncio.create_task(asyncio.sleep(4))
        task.add_done_callback(lambda _: asyncio.ensure_future(kept.stop()))
        self.task = task


class StartsByItself(Sound):
    caught_by = ("test_before_the_start_nothing_runs",)

    def stream(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> AsyncIterator[Event]:
        return self._by_itself(program)

    async def _by_itself(self, program: Program | str) -> AsyncIterator[Event]:
        await self.inner.start()
        async for event in self.inner.stream(program):
            yield event


class LeavesTasks(Sound):
    caught_by = ("test_nothing_is_left_for_each_run",)

    def result(self, result: ExecutionResult) -> ExecutionResult:
        self.left = [*getattr(self, "left", []), asyncio.ensure_future(asyncio.sleep(60))]
        return result


class LeavesDescriptors(Sound):
    caught_by = ("test_nothing_is_left_for_each_run",)

    def result(self, result: ExecutionResult) -> ExecutionResult:
        os.open(os.devnull, os.O_RDONLY)
        return result


class LeavesADescriptorForEachSandbox(Sound):
    caught_by = ("test_no_descriptor_is_left_for_each_sandbox",)

    async def stop(self) -> None:
        os.open(os.devnull, os.O_RDONLY)
        await super().stop()


class LeavesTheWorkspace(Sound):
    caught_by = ("test_a_stopped_sandbox_leaves_no_workspace_behind",)

    async def stop(self) -> None:
        try:
            entries = await self.inner.list_files()
        except SandboxStopped:
            return
        folder = tempfile.mkdtemp()
        for entry in entries:
            if entry.kind == "file":
                await asyncio.to_thread(_place, f"{folder}/{entry.path}")
        await super().stop()


def _place(path: str) -> None:
    with open(path, "w"):
        pass


class SharesSessions(Sound):
    caught_by = ("test_a_session_has_nothing_of_other_runs_nor_they_of_it", "test_many_sessions_live_at_once")

    def session(self, *, forkable: bool = False) -> Session:
        if not hasattr(self, "shared"):
            self.shared = super().session(forkable=forkable)
        return self.shared


class LosesRunsOfAMap(Sound):
    caught_by = ("test_each_program_has_its_result_in_its_place",)

    def map(self, programs: Any, **given: Any) -> Any:
        return super().map(list(programs)[:10], **given)


class TakesAnyArguments(Sound):
    caught_by = ("test_arguments_that_make_no_sense_are_refused_at_once[{'concurrency': 0}]",)

    def map(self, programs: Any, **given: Any) -> Any:
        return super().map(programs)


# Commands


class JoinsArguments(Sound):
    caught_by = ("test_a_sequence_is_a_program_with_arguments_and_no_shell",)

    def execute_stream(self, command: Command, **given: Any) -> AsyncIterator[Event]:
        return super().execute_stream(command if isinstance(command, str) else " ".join(command), **given)


class RunsElsewhere(Sound):
    caught_by = ("test_a_missing_working_folder_fails_instead_of_running_elsewhere",)

    def execute_stream(self, command: Command, *, cwd: str | None = None, **given: Any) -> AsyncIterator[Event]:
        return super().execute_stream(command, cwd=None, **given)


class ForgetsStandardInput(Sound):
    caught_by = ("test_standard_input_is_given_as_bytes",)

    def execute_stream(self, command: Command, *, stdin: bytes = b"", **given: Any) -> AsyncIterator[Event]:
        return super().execute_stream(command, **given)


# Traits that are not true


def _lying(caught_by: tuple[str, ...], *, name: str = "", **traits: Any) -> type[Sound]:
    def told(self: Sound, found: actbox.Traits) -> actbox.Traits:
        return replace(found, **traits)

    name = name or f"Lies_{caught_by[0].removeprefix('test_')}"
    return type(name, (Sound,), {"told": told, "caught_by": caught_by})


LIES = (
    _lying(("test_an_empty_file_is_a_file",), files=False),
    _lying(("test_a_command_streams",), commands=False),
    _lying(("test_calls_are_counted",), tools=False, parallel_tools=False, await_tools=False),
    _lying(("test_a_program_that_awaits_gets_coroutines",), await_tools=False),
    _lying(("test_variables_last_from_run_to_run",), sessions=False),
    _lying(("test_a_copy_can_be_copied_again",), fork=True),
    _lying(("test_an_error_has_the_line_of_the_program",), tracebacks=False),
    _lying(("test_a_child_that_outlives_the_program_holds_nothing_up",), python="core"),
    _lying(("test_as_a_name",), python="subset"),
    _lying(("test_the_languages_and_the_level_of_python_agree",), languages=("python", "cobol"), python="none"),
    _lying(("test_a_program_reads_a_mounted_folder",), mounts=("ro",)),
    _lying(("test_a_policy_with_domains_is_kept",), domains=True),
    _lying(("test_a_program_cannot_write_its_inputs",), isolated=True),
    _lying(("test_cancelling_a_command_ends_all_its_processes",), notes=()),
    _lying(("test_what_is_said_to_be_enforced_are_limits_that_there_are",), enforced={"patience": "nobody"}),
    _lying(("test_processes_are_counted",), enforced={"wall_seconds": "host timer", "processes": "nobody"}),
    _lying(("test_an_engine_works_on_a_platform_that_it_is_for",), platforms=("amiga",)),
    _lying(("test_the_traits_are_plain_data",), notes=(object(),)),
    _lying(("test_an_engine_that_isolates_enforces_the_time",), isolated=True, enforced={}),
    _lying(("test_the_engine_has_a_name_and_says_how_it_isolates",), isolation=""),
    _lying(("test_what_one_trait_takes_for_granted_another_has",), sessions=False, fork=True),
)


# Limits that an engine of less than full CPython says it enforces, and does not


def _claiming(limit: str, caught_by: str) -> type[Sound]:
    enforced = {"wall_seconds": "host timer", limit: "nobody"}
    return _lying((caught_by,), name=f"Claims_{limit}", python="core", enforced=enforced)


CLAIMS = (
    _claiming("processes", "test_processes_are_counted"),
    _claiming("cpus", "test_a_share_of_the_processors_is_not_exceeded"),
    _claiming("workspace_mib", "test_the_workspace_may_not_outgrow_its_limit"),
)


# Limits that are forgotten


def _forgetting(limit: str, *caught_by: str, name: str = "", **more: Any) -> type[Sound]:
    def kept(self: Sound, policy: Policy) -> Policy:
        return replace(policy, limits=replace(policy.limits, **{limit: getattr(Limits(), limit)}))

    return type(name or f"Forgets_{limit}", (Sound,), {"kept": kept, "caught_by": caught_by, "seconds": 4.0, **more})


FORGETFUL = (
    _forgetting("wall_seconds", "test_wall_time_ends_a_program"),
    _forgetting("cpu_seconds", "test_processor_time_ends_a_program"),
    _forgetting("memory_mib", "test_memory_ends_a_program"),
    _forgetting("open_files", "test_open_files_are_counted"),
    _forgetting("file_mib", "test_a_file_may_not_outgrow_its_limit"),
    _forgetting("output_bytes", "test_output_ends_a_program", "test_a_command_keeps_to_the_output_limit"),
    _forgetting("tool_calls", "test_tool_calls_beyond_the_budget_end_a_program"),
    _forgetting("tool_bytes", "test_the_bytes_of_all_tool_calls_together_end_a_program"),
    _forgetting("message_bytes", "test_too_large_an_argument_never_reaches_the_tool"),
    _forgetting("artifacts", "test_too_many_artifacts_are_left_out_with_a_warning"),
    _forgetting("artifact_mib", "test_too_large_an_artifact_is_left_out_with_a_warning_that_names_it"),
)


def _forgetting_in_javascript(limit: str, caught_by: str) -> type[Sound]:
    return _forgetting(limit, caught_by, name=f"ForgetsInJavaScript_{limit}", engine="node", seconds=30.0)


FORGETFUL_IN_JAVASCRIPT = (
    _forgetting_in_javascript("cpus", "test_a_share_of_the_processors_is_not_exceeded"),
    _forgetting_in_javascript("memory_mib", "test_memory_ends_a_program"),
    _forgetting_in_javascript("processes", "test_processes_are_counted"),
    _forgetting_in_javascript("open_files", "test_open_files_are_counted"),
    _forgetting_in_javascript("file_mib", "test_a_file_may_not_outgrow_its_limit"),
    _forgetting_in_javascript("workspace_mib", "test_the_workspace_may_not_outgrow_its_limit"),
    _forgetting_in_javascript("disk_mib", "test_all_files_together_may_not_outgrow_their_limit"),
)


class IgnoresTimeouts(Sound):
    caught_by = ("test_a_timeout_lowers_the_wall_limit", "test_a_timeout_is_for_each_program")
    seconds = 4

    def stream(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> AsyncIterator[Event]:
        return super().stream(program, tools=tools)

    async def run_alone(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> ExecutionResult:
        return await super().run_alone(program, tools=tools)


def _below(kind: type[Sound]) -> list[type[Sound]]:
    return [found for child in kind.__subclasses__() for found in (child, *_below(child))]


BROKEN: tuple[type[Sound], ...] = tuple(_below(Sound))
