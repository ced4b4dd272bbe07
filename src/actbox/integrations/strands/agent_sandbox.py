"""`AgentSandbox`: any actbox sandbox as a Strands agent's sandbox, except for the tools that it gives the agent."""

from __future__ import annotations

import posixpath
import threading
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from pathlib import PurePosixPath
from typing import Any, Final, Self

from strands.sandbox import LANGUAGE_PATTERN, ExecutionResult, StreamChunk

import actbox
from actbox.core.errors import ErrorKind, InvalidValue, SandboxStopped, Unsupported
from actbox.sandbox.contract import closing
from actbox.sandbox.run_slots import Slots
from actbox.tools import Tool, Toolset

from .background import NOT_THERE, BackgroundSession
from .exit_cleanup import stop_at_exit, stopped
from .files import FilesOfWorkspace
from .tool_conversion import toolset_of
from .translation import as_strands_says, chunk_of, language_of, messages_of, raise_timeout, shell_of, strands_result

# The kernel accepts no argument of 128 KiB; a longer command is sent through standard input.
_MOST_ARGUMENT_BYTES = 100_000
_FROM_STDIN = 'eval "$(command -p cat)"'
NO_INTERPRETER: Final = 127
"""The exit code for a missing interpreter, as in a shell."""

CodeTools = Toolset | Iterable[Tool | Callable[..., Any]]


class AgentSandbox(FilesOfWorkspace):
    """An actbox sandbox with the methods of a Strands sandbox, usable from any event loop; see `StrandsSandbox`."""

    def __init__(
        self,
        sandbox: str | actbox.Sandbox = "auto",
        *,
        policy: actbox.Policy | None = None,
        code_tools: CodeTools = (),
        working_dir: str | None = None,
        **options: Any,
    ) -> None:
        """Raise the errors of `actbox.open_sandbox`; `InvalidValue` for functions that cannot be code tools, and for a
        `working_dir` in which nothing lasts; `Unsupported` for one that the engine does not support.
        """
        _check_folder("working_dir", working_dir)
        if isinstance(sandbox, actbox.Sandbox):
            if policy is not None or options:
                raise InvalidValue("a sandbox that is there already has its own policy and options")
            self.box = sandbox
            policy = getattr(sandbox, "policy", None)
        elif isinstance(sandbox, str):
            try:
                self.box = actbox.open_sandbox(sandbox, policy=policy, **options)
            except actbox.ActboxError as error:
                error.args = (as_strands_says(str(error)),)
                raise
            policy = actbox.Policy() if policy is None else policy
            self.mounts, self.most_bytes = policy.mounts, policy.limits.file_mib * 2**20
        else:
            raise InvalidValue(f"sandbox is the name of an engine or a sandbox of ours, not {sandbox!r}")
        if isinstance(policy, actbox.Policy) and policy.model_clearance is not None:
            raise Unsupported(
                "a Strands agent reads what programs print, so Policy.egress_max and Policy.model_cleared cannot be"
                " kept there; CodeAgent and the providers for Agent Framework can"
            )
        self.most_seconds = policy.limits.wall_seconds if isinstance(policy, actbox.Policy) else None
        """The policy's wall limit, which bounds every `timeout`; `None` if a given sandbox has none."""
        self.code_tools: Toolset = toolset_of(code_tools)
        if working_dir and not (self.traits.commands or self.traits.cwd):
            raise Unsupported(f"programs of the {self.traits.engine} engine start in /workspace: leave out working_dir")
        if self.traits.isolated and PurePosixPath(working_dir or "").is_relative_to("/tmp"):
            raise InvalidValue(
                f"working_dir={working_dir!r}: what a command writes in /tmp may be gone for the next one; name a"
                " directory below /workspace, such as 'project'"
            )
        self._given_working_dir = working_dir
        self._sessions: set[BackgroundSession] = set()
        self._is_started = False
        self.stopped = threading.Event()
        """Set by `stop()` before anything ends; each start makes a new event."""
        # Event loops of several threads may start it at once.
        self._starting = Slots(1, tools_wait=True)

    # Lifetime

    async def start(self) -> None:
        """Start the sandbox. A second call does nothing.

        Raises `SandboxUnavailable`, and `InvalidValue` if `working_dir` is missing and cannot be made.
        """
        async with self._starting:
            await self._start()

    async def stop(self) -> None:
        """End everything that runs in it and remove its files. A second call does nothing."""
        async with self._starting:
            self.stopped.set()
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
        """The traits of the engine."""
        return self.box.traits

    @property
    def is_started(self) -> bool:
        """True if it was started and not stopped since."""
        return self._is_started

    @property
    def working_dir(self) -> str:
        """The directory in which commands and code start; by default it is known only after the start."""
        return posixpath.join(self.box.root, self._given_working_dir or "")

    async def ready(self) -> actbox.Sandbox:
        """Return the actbox sandbox, started. Raises `SandboxStopped` after `stop()`, and the errors of `start()`."""
        if not self._is_started:
            async with self._starting:
                if self.stopped.is_set():
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
        self._is_started = True
        if self.stopped.is_set():
            self.stopped = threading.Event()
        stop_at_exit(self)

    async def _start_in_working_dir(self) -> None:
        """Make the directory if needed. Raises `InvalidValue` if it is missing and cannot be made."""
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
                f"working_dir={self._given_working_dir!r} must be a directory that is in the sandbox (in its image, or"
                f" in a mount), or lie below {self.box.root}, where it is made: {why}"
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

        The exit code is 126 if the directory `cwd` is missing. Background processes of the command end with it. Raises
        `SandboxTimeoutError`, with the output so far, and `InvalidValue` for invalid arguments.
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

        `language` is one of the engine's, or the name of its interpreter (`python3`, `node`), or a shell. Variables in
        `env` come too late for those that an interpreter reads at its start, such as `PYTHONPATH`. A missing
        interpreter gives exit code 127, as in Strands' own sandboxes, with a sentence that lists those available.
        Raises the errors of `execute_streaming`, `InvalidValue` (a `ValueError`) for text that cannot name an
        interpreter, and `Unsupported` for a `cwd` or `env` that the engine does not support.
        """
        if not isinstance(language, str) or not LANGUAGE_PATTERN.fullmatch(language):
            raise InvalidValue(f"language is the name of an interpreter, such as 'python3', not {language!r}")
        shell = shell_of(language, self.traits)
        if shell is None and (missing := _missing(language, self.traits)):
            yield StreamChunk(missing, "stderr")
            yield ExecutionResult(exit_code=NO_INTERPRETER, stdout="", stderr=missing)
            return
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

        `tools` replace `code_tools` for the program.
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
        """Return a session in this sandbox, usable from any event loop, which ends with the sandbox.

        Its programs start in `working_dir`.

        The first program raises `Unsupported` if the engine has no sessions. Close it with `close_session`.
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


def _missing(language: str, traits: actbox.Traits) -> str:
    """Return why an interpreter is missing, "" if it is available."""
    try:
        language_of(language, traits)
    except Unsupported as error:
        return f"Language interpreter not found: {language}: {error}"
    return ""


def _check_folder(name: str, folder: Any) -> None:
    if folder is not None and (not isinstance(folder, str) or "\0" in folder):
        raise InvalidValue(f"{name} is the path of a directory in the sandbox, as text, not {folder!r}")


async def _as_strands(
    events: AsyncGenerator[actbox.Event], timeout: float | None
) -> AsyncGenerator[StreamChunk | ExecutionResult]:
    """Yield output and the result in Strands' form, with the description of a failure at the end of standard error."""
    async with aclosing(events):
        async for event in events:
            if isinstance(event, actbox.Output):
                yield chunk_of(event)
            elif isinstance(event, actbox.Completed):
                result = event.result
                if result.error is not None and result.error.kind is ErrorKind.TIMEOUT:
                    raise_timeout(result, timeout)
                if messages := messages_of(result):
                    yield StreamChunk(messages, "stderr")
                yield strands_result(result, messages)


async def _last(chunks: AsyncGenerator[StreamChunk | ExecutionResult]) -> ExecutionResult:
    """Return the result, once the generator has finished."""
    async with aclosing(chunks):
        async for chunk in chunks:
            if isinstance(chunk, ExecutionResult):
                return chunk
    raise AssertionError("a stream ended without its result")
