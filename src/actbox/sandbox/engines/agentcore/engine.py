"""`AgentCoreSandbox`: a session of the service, in which each run is a command with its own process."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import resources
from typing import Any, ClassVar, Final

from actbox.core.errors import FileError, InvalidValue, SandboxStopped, SandboxUnavailable, Unsupported
from actbox.core.policy import Policy
from actbox.core.program import Program
from actbox.sandbox.artifacts import shown
from actbox.sandbox.channel.mailbox import Mailbox
from actbox.sandbox.contract import Tools
from actbox.sandbox.engines.node.boot import node_command
from actbox.sandbox.requests import encode_program, resolved
from actbox.sandbox.shell import ShellError, shell_traits
from actbox.sandbox.shell.guest import BYTES_A_SECOND
from actbox.sandbox.shell.installation import Installation, ProgramRequest, RunFolders
from actbox.tools.typescript import RESERVED_WORDS, javascript_name

from .kernel import KernelCommand, KernelTask
from .options import AgentCoreOptions
from .service import Service, ServiceError, SessionEnded
from .session import WAITER, AgentCoreSession, SandboxWithKernel
from .task import Task

# The most seconds until a program has started. A program with a shorter time limit may take that limit, plus
# `_BESIDES_SECONDS`.
_BEGIN_SECONDS = 90.0
_BESIDES_SECONDS = 10.0
_PYTHON_FILE_NAME: Final = "program.py"
_FILE_NAMES: Final = {"javascript": "program.js", "typescript": "program.ts"}
_BASE: Final = re.compile(r"actbox-[a-z0-9_]+")

TRAITS: Final = shell_traits(
    "agentcore",
    isolation="a machine of the AWS service, of which each sandbox has one to itself",
    isolated=True,
    platforms=("linux", "darwin"),
    languages=("python", "javascript", "typescript"),
    sessions=True,
    session_languages=("python",),
    packages="those of the code interpreter",
    network="what the code interpreter's network mode allows; the system's own has none",
    notes=(
        "the service ends its session after session_seconds, whatever runs in it; the next call says so",
        "each step is a request to AWS, and several of them make a run: it takes as long as they do",
        "a session lives in the service's kernel, of which there is one: one session at a time, whose programs have "
        "the limits of time, output and artifacts only; tasks that await stand still between its programs",
        "JavaScript and TypeScript need Node on the service's machine, TypeScript 22.13 or later; sessions run Python",
        "programs of one sandbox run as one user of one machine: they can see and end each other, and write to input/",
    ),
)


class AgentCoreSandbox(SandboxWithKernel):
    """Programs in a session of Amazon Bedrock AgentCore's code interpreter."""

    traits = TRAITS
    cleanup_seconds: ClassVar[float] = 5.0

    def __init__(self, policy: Policy, options: AgentCoreOptions) -> None:
        """Raise `Unsupported` for restrictions of a policy that the service cannot impose."""
        # The directory in which the service starts commands, so that its file tools reach the sandbox.
        super().__init__(policy, python=options.python, folder=".")
        self.service = Service(options)
        self._mailboxes = 0
        """The number of runs with tools under way. Their output must be read at once, because it carries the calls."""
        self._node = options.node
        self._over: list[str] = []
        """The directories of commands that have ended; the next command removes them."""

    async def connect(self) -> None:
        await self.service.start()
        self._in_kernel = None
        self._over.clear()

    async def disconnect(self) -> None:
        await self.service.stop()

    async def open_process(self, arguments: Sequence[str]) -> Task:
        """Return a command that starts once its standard input is complete; its command line is always the same."""
        if isinstance(arguments, KernelCommand):
            return KernelTask(self.service, arguments, self._over)
        waiter = f"{self._base_name()}/{WAITER}" if self._mailboxes else ""
        return Task(self.service, arguments[0], self._over, waiter=waiter)

    async def open_mailbox(self, folder: str) -> Mailbox:
        place = f"{self._base_name()}{folder.removeprefix(self._base())}"
        self._mailboxes += 1
        return AgentCoreMailbox(self.service, place, folder, self._mailbox_closed)

    def _mailbox_closed(self) -> None:
        self._mailboxes -= 1

    async def _install(self) -> Installation:
        installation = await super()._install()
        name = installation.base.rpartition("/")[2]
        if not _BASE.fullmatch(name):  # the name becomes a part of commands
            raise SandboxUnavailable(f"the service has made a directory of another name: {shown(installation.base)}")
        script = (resources.files(__package__) / "wait.sh").read_bytes()
        try:
            wrote = await self.service.call("writeFiles", content=[{"path": f"{name}/{WAITER}", "blob": script}])
        except ShellError as error:
            raise SandboxUnavailable(str(error)) from error
        if wrote.is_error:
            raise SandboxUnavailable(f"writeFiles: {wrote.text[:500]}")
        return installation

    async def _done(
        self, path: str, request: dict[str, Any], payload: bytes | memoryview = b""
    ) -> tuple[dict[str, Any], bytes]:
        try:
            return await super()._done(path, request, payload)
        except FileError as error:
            if isinstance(error.__cause__, SessionEnded):
                raise SandboxStopped(str(error.__cause__)) from error
            raise

    async def _remove(self, installation: Installation, folder: str) -> None:
        if folder != installation.base:  # the service removes that with its session
            try:
                async with asyncio.timeout(self.cleanup_seconds):
                    await super()._remove(installation, folder)
            except TimeoutError:
                raise SandboxUnavailable(
                    f"{folder} could not be removed: the service does not say that it was"
                ) from None

    def _running(self) -> Installation:
        installation = super()._running()
        if self.service.ended:
            raise SandboxStopped(self.service.ended)
        return installation

    # JavaScript and TypeScript: the guest becomes Node, which takes over the channel and reads the program from it

    def _checked(self, program: Program | str, tools: Tools, timeout: float | None) -> ProgramRequest:
        request = super()._checked(program, tools, timeout)
        language = request.program.language
        if language == "python":
            return request
        if unusable := sorted(RESERVED_WORDS.intersection(request.program.inputs)):
            raise InvalidValue(f"Program.inputs: {unusable[0]!r} cannot be the name of a variable in JavaScript")
        name = _FILE_NAMES[language] if request.program.name == _PYTHON_FILE_NAME else request.program.name
        return replace(request, program=replace(request.program, name=name))

    def _frame(self, message: Mapping[str, Any], variables: Mapping[str, str], place: RunFolders) -> bytes:
        if message.get("language", "python") == "python":
            return super()._frame(message, variables, place)
        limits = self.policy.limits
        common = {
            "variables": {**self._variables(f"{place.folder}/tmp"), **resolved(variables, place.workspace)},
            # No memory limit: V8 maps far more memory than it uses. Its command line sets its own limit.
            "limits": {name: getattr(limits, name) for name in ("cpu_seconds", "file_mib", "open_files")},
            "message_bytes": limits.message_bytes,
            "workspace": place.workspace,
        }
        become = {"t": "exec", "arguments": node_command(self._node, limits), "cwd": place.workspace, "channel": True}
        tools = [{**spec, "alias": javascript_name(spec["alias"])} for spec in message["tools"]]
        return encode_program({**become, **common}) + encode_program({**message, "tools": tools, **common})

    def begin_seconds(self, timeout: float, sent: int) -> float:
        return min(timeout + _BESIDES_SECONDS, _BEGIN_SECONDS) + sent / BYTES_A_SECOND

    # Sessions

    def session(self, *, forkable: bool = False) -> AgentCoreSession:
        """Return a session; only one at a time can be live. See `Sandbox.session`."""
        self._running()
        if forkable:
            raise Unsupported("the agentcore engine cannot copy the service's kernel; the linux engine forks sessions")
        self._check_kernel()
        return AgentCoreSession(self)


class AgentCoreMailbox(Mailbox):
    """The mailbox of one run, in the directory `place`, relative to the service's; `folder` is its absolute path.

    The service can neither rename a file nor write one atomically, so a second file has the size of each piece
    (`WrittenFolderTransport`). `closed` is called when the run is over.
    """

    brings_calls = False

    def __init__(self, service: Service, place: str, folder: str, closed: Callable[[], None]) -> None:
        self._service = service
        self._place = place
        self._folder = folder
        self._closed = closed

    @property
    def settings(self) -> dict[str, Any]:
        return {"by": "written", "folder": self._folder}

    async def wait(self, number: int) -> bytes | None:
        raise NotImplementedError("calls come with the run's output")

    async def put(self, number: int, piece: bytes) -> None:
        path = f"{self._place}/in/{number}"
        content = [{"path": path, "blob": piece}, {"path": f"{path}.size", "text": str(len(piece))}]
        wrote = await self._service.call("writeFiles", content=content)
        if wrote.is_error:
            raise ServiceError(f"writeFiles: {wrote.text[:500]}")

    async def close(self) -> None:
        self._closed()
