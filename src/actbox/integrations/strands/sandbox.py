"""`StrandsSandbox`: any sandbox of ours as the sandbox of a Strands agent."""

from __future__ import annotations

import posixpath
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from pathlib import PurePosixPath
from typing import Any, Self

from strands.sandbox import ExecutionResult, StreamChunk
from strands.types.tools import AgentTool

import actbox
from actbox.core.errors import ErrorKind, InvalidValue, SandboxStopped, Unsupported
from actbox.sandbox.contract import closing
from actbox.sandbox.slots import Slots
from actbox.tools import Tool, Toolset

from .background import NOT_THERE, BackgroundSession
from .code_tools import toolset_of
from .files import FilesOfWorkspace
from .languages import language_of, shell_of
from .lifetime import stop_at_exit, stopped
from .results import chunk_of, raise_timeout, result_of, said_of

# The kernel takes no argument of 128 KiB; a longer command goes in by standard input.
_MOST_ARGUMENT_BYTES = 100_000
_FROM_STDIN = 'eval "$(command -p cat)"'
CodeTools = Toolset | Iterable[Tool | Callable[..., Any]]


class StrandsSandbox(FilesOfWorkspace):
    """A sandbox for `Agent(sandbox=…)`: its shell, its code and its files are those of one sandbox of ours.

    `sandbox` is the name of an engine, as `actbox.open_sandbox` takes it with `policy` and the engine's own `options`
    (also `env`, `allow_unisolated`, `upstream`), or a sandbox of ours, which belongs to this one from then on. It
    starts when it is first used, or by `start()` or `async with`, and stops by `stop()` or when the process ends; once
    it was stopped only `start()` opens it again. It may be used from several event loops and by several agents at once:
    calls share the files below the working folder, and nothing else.

    `working_dir` is the folder in which commands and code start and from which relative paths lead: `/workspace` unless
    told. Below that it is made; elsewhere it must be there when the sandbox starts, as in an image or a mount, and what
    is written there may be gone with the command that wrote it. The file methods reach what lies below `/workspace`,
    `/input` and `/output`, where they follow no link, and in what `policy` mounts, where programs in the sandbox read
    and write for them, and read regular files of at most `Limits.file_mib`.

    `code_tools` are host functions that belong to the sandbox: code that runs in it calls them, and no model sees them.
    A function may have Strands' `@tool`, unless it takes the `ToolContext` of the agent that calls it.

    `timeout` is in seconds and may only lower the policy's wall limit (60 unless told, `Limits.wall_seconds`). Output
    beyond the policy's limit ends a run, which its standard error says.
    """

    def __init__(
        self,
        sandbox: str | actbox.Sandbox = "auto",
        *,
        policy: actbox.Policy | None = None,
        code_tools: CodeTools = (),
        working_dir: str | None = None,
        **options: Any,
    ) -> None:
        """Raise what `actbox.open_sandbox` raises, and `InvalidValue` for code tools that cannot be tools, and for a
        `working_dir` in which nothing lasts; `Unsupported` for one that the engine cannot give.
        """
        _check_folder("working_dir", working_dir)
        if isinstance(sandbox, actbox.Sandbox):
            if policy is not None or options:
                raise InvalidValue("a sandbox that is there already has its own policy and options")
            self.box = sandbox
        elif isinstance(sandbox, str):
            self.box = actbox.open_sandbox(sandbox, policy=policy, **options)
            if policy is not None:
                self.mounts, self.most_bytes = policy.mounts, policy.limits.file_mib * 2**20
        else:
            raise InvalidValue(f"sandbox is the name of an engine or a sandbox of ours, not {sandbox!r}")
        self.code_tools: Toolset = toolset_of(code_tools)
        if working_dir and not (self.traits.commands or self.traits.cwd):
            raise Unsupported(f"programs of the {self.traits.engine} engine start in /workspace: leave out working_dir")
        if self.traits.isolated and PurePosixPath(working_dir or "").is_relative_to("/tmp"):
            raise InvalidValue(
                f"working_dir={working_dir!r}: what a command writes in /tmp may be gone for the next one; name a"
                " folder below /workspace, such as 'project'"
            )
        self._given_working_dir = working_dir
        self._sessions: set[BackgroundSession] = set()
        self._is_started = False
        self._was_stopped = False
        # Event loops of several threads may want it started at once.
        self._starting = Slots(1, tools_wait=True)

    # Its life

    async def start(self) -> None:
        """Make the sandbox ready. A second call does nothing.

        Raises `SandboxUnavailable`, and `InvalidValue` where `working_dir` is missing and cannot be made.
        """
        async with self._starting.one():
            await self._start()

    async def stop(self) -> None:
        """End all that runs in it and remove its files. A second call does nothing."""
        async with self._starting.one():
            self._was_stopped = True
            if self._is_started:
                self._is_started = False
                for session in list(self._sessions):
                    await self.close_session(session)
                await self.box.stop()
                stopped(self)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.stop()

    @property
    def traits(self) -> actbox.Traits:
        """What the engine really does."""
        return self.box.traits

    @property
    def is_started(self) -> bool:
        """Whether it has started, and was not stopped since."""
        return self._is_started

    @property
    def working_dir(self) -> str:
        """Where commands and code start, as they know it. Where it was not told, it is known once it has started."""
        return posixpath.join(self.box.root, self._given_working_dir or "")

    async def ready(self) -> actbox.Sandbox:
        """Return the sandbox of ours, started. Raises `SandboxStopped` after `stop()`, and what `start()` does."""
        if not self._is_started:
            async with self._starting.one():
                if self._was_stopped:
                    raise SandboxStopped("the sandbox was stopped; start() opens it again, without its files")
                await self._start()
        return self.box

    async def _start(self) -> None:
        if self._is_started:
            return
        await self.box.start()
        try:
            await self._start_in_working_dir()
        except BaseException:
            await self.box.stop()
            raise
        self._is_started, self._was_stopped = True, False
        stop_at_exit(self)

    async def _start_in_working_dir(self) -> None:
        """Have the folder be there. Raises `InvalidValue` where it is missing and cannot be made."""
        if not self._given_working_dir:
            return
        if self.is_inside(self.working_dir):
            await self.box.make_dir(self.working_dir)
            return
        if self.traits.commands:
            result = await self.box.execute(["/bin/sh", "-c", ":"], cwd=self.working_dir)
        else:
            result = await self.box.run(actbox.Program("", self.traits.languages[0], cwd=self.working_dir))
        if result.exit_code == NOT_THERE:
            why = result.stderr.strip() or (result.error.message if result.error else "it is missing")
            raise InvalidValue(
                f"working_dir={self._given_working_dir!r} must be a folder that is in the sandbox (in its image, or in"
                f" a mount), or lie below {self.box.root}, where it is made: {why}"
            )

    # Commands and code

    async def execute_streaming(
        self,
        command: str,
        *,
        timeout: float | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        stdin: bytes = b"",
        **kwargs: Any,
    ) -> AsyncGenerator[StreamChunk | ExecutionResult, None]:
        """Run a shell command and yield its output, then its result.

        It fails with exit code 126 where the folder `cwd` is missing. What it leaves in the background ends with it.
        Raises `SandboxTimeoutError`, with what was printed, and `InvalidValue` for arguments that make no sense.
        """
        events = self.events_of_command(command, timeout=timeout, cwd=cwd, env=env, stdin=stdin)
        async with aclosing(_as_strands(events, timeout)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def execute(
        self,
        command: str,
        *,
        timeout: float | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        **kwargs: Any,
    ) -> ExecutionResult:
        """Run a shell command and return its result; see `execute_streaming`."""
        return await _last(self.execute_streaming(command, timeout=timeout, cwd=cwd, env=env, **kwargs))

    async def execute_code_streaming(
        self,
        code: str,
        language: str = "python",
        *,
        timeout: float | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        **kwargs: Any,
    ) -> AsyncGenerator[StreamChunk | ExecutionResult, None]:
        """Run code in a fresh interpreter and yield its output, then its result; artifacts are its output files.

        `language` is one of the engine's, also by its interpreter's name (`python3`, `node`), or a shell. Variables
        that an interpreter reads when it begins, such as `PYTHONPATH`, are too late in `env`. Raises what
        `execute_streaming` raises, and `Unsupported` for other languages, and for a `cwd` or `env` that the engine
        cannot give.
        """
        shell = shell_of(language, self.traits)
        if shell is not None:
            events = self.events_of_command(code, shell=shell, timeout=timeout, cwd=cwd, env=env)
        else:
            events = self.events_of_code(code, language, timeout=timeout, cwd=cwd, env=env)
        async with aclosing(_as_strands(events, timeout)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def execute_code(
        self,
        code: str,
        language: str = "python",
        *,
        timeout: float | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        **kwargs: Any,
    ) -> ExecutionResult:
        """Run code in a fresh interpreter and return its result; see `execute_code_streaming`."""
        return await _last(self.execute_code_streaming(code, language, timeout=timeout, cwd=cwd, env=env, **kwargs))

    async def events_of_command(
        self,
        command: str,
        *,
        shell: str = "/bin/sh",
        timeout: float | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
    ) -> AsyncGenerator[actbox.Event]:
        """Run a shell command and yield its events, as `actbox.Sandbox.execute_stream` does."""
        if not isinstance(command, str):
            raise InvalidValue(f"a command is text, not {type(command).__name__}")
        _check_folder("cwd", cwd)
        arguments = [shell, "-c", command]
        data = command.encode("utf-8", "surrogateescape")
        if len(data) > _MOST_ARGUMENT_BYTES:
            if stdin:
                raise InvalidValue(f"a command of {len(data):,} bytes has no standard input; put it into a file")
            arguments, stdin = [shell, "-c", _FROM_STDIN], data
        box = await self.ready()
        folder = self._folder(cwd)
        events = box.execute_stream(arguments, stdin=stdin, cwd=folder, env=env, timeout=timeout)
        async with closing(events):
            async for event in events:
                yield event

    async def events_of_code(
        self,
        code: str,
        language: str = "python",
        *,
        timeout: float | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        tools: Toolset | None = None,
    ) -> AsyncGenerator[actbox.Event]:
        """Run code in a fresh interpreter and yield its events, as `actbox.Sandbox.stream` does.

        `tools` are those of the program, in place of `code_tools`.
        """
        _check_folder("cwd", cwd)
        name = language_of(language, self.traits)
        toolset = self.code_tools if tools is None else tools
        box = await self.ready()
        folder = str(PurePosixPath(self._given_working_dir or "", cwd or ""))
        program = actbox.Program(code, name, cwd="" if folder in (".", box.root) else folder, env=env or {})
        events = box.stream(program, tools=toolset, timeout=timeout)
        async with closing(events):
            async for event in events:
                yield event

    def session(self) -> BackgroundSession:
        """Return live interpreter state in this sandbox, for any event loop, which ends with the sandbox.

        It begins in `working_dir`.

        Raises `Unsupported`, when its first program runs, where the engine has none. Close it by `close_session`.
        """
        session = BackgroundSession(self.ready, cwd=self._given_working_dir or "")
        self._sessions.add(session)
        return session

    async def close_session(self, session: BackgroundSession) -> None:
        """End a session. A second call does nothing."""
        await session.close()
        self._sessions.discard(session)

    def _folder(self, cwd: str | None) -> str:
        return str(PurePosixPath(self.working_dir, cwd or ""))

    # What it gives an agent

    def get_tools(self) -> list[AgentTool]:
        """Return `shell`, `file_editor` and, by the name `python_repl`, `python`, as far as the engine can do it.

        They are those of this package, and belong to this sandbox; an agent's own tools of the same names win.
        """
        # Imported here, since these tools know this class.
        from .tools_files import make_file_editor
        from .tools_python import make_python
        from .tools_shell import make_shell

        tools: list[AgentTool] = []
        if self.traits.commands:
            tools.append(make_shell(sandbox=self))
        if self.traits.files:
            tools.append(make_file_editor(sandbox=self))
        if "python" in self.traits.languages:
            tools.append(make_python(sandbox=self, name="python_repl"))
        return tools


def _check_folder(name: str, folder: Any) -> None:
    if folder is not None and (not isinstance(folder, str) or "\0" in folder):
        raise InvalidValue(f"{name} is the path of a folder in the sandbox, as text, not {folder!r}")


async def _as_strands(
    events: AsyncGenerator[actbox.Event], timeout: float | None
) -> AsyncGenerator[StreamChunk | ExecutionResult]:
    """Yield output and the result as Strands has them. What is said of a failure is the last of standard error."""
    async with aclosing(events):
        async for event in events:
            if isinstance(event, actbox.Output):
                yield chunk_of(event)
            elif isinstance(event, actbox.Completed):
                result = event.result
                if result.error is not None and result.error.kind is ErrorKind.TIMEOUT:
                    raise_timeout(result, timeout)
                if said := said_of(result):
                    yield StreamChunk(said, "stderr")
                yield result_of(result, said)


async def _last(chunks: AsyncGenerator[StreamChunk | ExecutionResult]) -> ExecutionResult:
    """Return the result, once nothing is left of what has made it."""
    async with aclosing(chunks):
        async for chunk in chunks:
            if isinstance(chunk, ExecutionResult):
                return chunk
    raise AssertionError("a stream ended without its result")
