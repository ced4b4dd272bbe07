"""`AgentCoreSandbox`: a session of the service's, in which each run is a started command with a process of its own."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from importlib import resources
from typing import Any, ClassVar, Final

from actbox.core.errors import FileError, InvalidValue, SandboxStopped, SandboxUnavailable, Unsupported
from actbox.core.policy import Policy
from actbox.core.program import Program
from actbox.sandbox.channel.mailbox import Mailbox
from actbox.sandbox.contract import Tools
from actbox.sandbox.engines.node.boot import node_command
from actbox.sandbox.left_out import shown
from actbox.sandbox.requests import encode_program
from actbox.sandbox.shell import ProcessShell, ShellError
from actbox.sandbox.shell.errands import answers_of, stdin_of
from actbox.sandbox.shell.guest import BYTES_A_SECOND, ShellGuest
from actbox.sandbox.shell.places import Place, ProgramRequest, There
from actbox.tools.typescript import RESERVED_WORDS, javascript_name

from .kernel import Kernel, KernelErrand, KernelTask
from .mail import AgentCoreMailbox
from .options import AgentCoreOptions
from .service import Service, SessionEnded
from .session import AgentCoreSession
from .task import Task
from .traits import TRAITS

# How long the service may take until a program has started; where that has less time than so, no longer than its time
# and this.
_BEGIN_SECONDS = 90.0
_BESIDES_SECONDS = 10.0
_WAITER: Final = "code/wait.sh"
_PYTHON_FILE_NAME: Final = "program.py"
_FILE_NAMES: Final = {"javascript": "program.js", "typescript": "program.ts"}
_BASE: Final = re.compile(r"actbox-[a-z0-9_]+")


class AgentCoreSandbox(ProcessShell):
    """Programs in a session of Amazon Bedrock AgentCore's code interpreter."""

    traits = TRAITS
    aftermath_seconds: ClassVar[float] = 5.0

    def __init__(self, policy: Policy, options: AgentCoreOptions) -> None:
        """Raise `Unsupported` for what a policy restricts and the service cannot."""
        # Below the folder in which commands of the service start, so that its own file tools reach it.
        super().__init__(policy, python=options.python, folder=".")
        self.service = Service(options)
        self._mailboxes = 0
        """How many runs go on that call tools: their output is to be heard at once, as calls come with it."""
        self._node = options.node
        self._in_kernel: AgentCoreSession | None = None
        self._over: list[str] = []
        """Folders of commands that have ended; the next one removes them."""

    async def connect(self) -> None:
        await self.service.start()
        self._in_kernel = None
        self._over.clear()

    async def disconnect(self) -> None:
        await self.service.stop()

    async def open_process(self, arguments: Sequence[str]) -> Task:
        """Return a command that starts when its standard input is complete; what it runs is always the same."""
        if isinstance(arguments, KernelErrand):
            return KernelTask(self.service, arguments, self._over)
        waiter = f"{self._base_name()}/{_WAITER}" if self._mailboxes else ""
        return Task(self.service, arguments[0], self._over, waiter=waiter)

    def _base_name(self) -> str:
        """Return the sandbox's folder, relative to that in which commands start."""
        return self._base().rpartition("/")[2]

    async def open_mailbox(self, folder: str) -> Mailbox:
        place = f"{self._base_name()}{folder.removeprefix(self._base())}"
        self._mailboxes += 1
        return AgentCoreMailbox(self.service, place, folder, self._mailbox_closed)

    def _mailbox_closed(self) -> None:
        self._mailboxes -= 1

    async def _arrive(self) -> There:
        there = await super()._arrive()
        name = there.base.rpartition("/")[2]
        if not _BASE.fullmatch(name):  # which becomes a part of commands
            raise SandboxUnavailable(f"the service has made a folder of another name: {shown(there.base)}")
        script = (resources.files(__package__) / "wait.sh").read_bytes()
        try:
            wrote = await self.service.call("writeFiles", content=[{"path": f"{name}/{_WAITER}", "blob": script}])
        except ShellError as error:
            raise SandboxUnavailable(str(error)) from error
        if wrote.is_error:
            raise SandboxUnavailable(f"writeFiles: {wrote.text[:500]}")
        return there

    async def _done(
        self, path: str, request: dict[str, Any], payload: bytes | memoryview = b""
    ) -> tuple[dict[str, Any], bytes]:
        try:
            return await super()._done(path, request, payload)
        except FileError as error:
            if isinstance(error.__cause__, SessionEnded):
                raise SandboxStopped(str(error.__cause__)) from error
            raise

    async def _remove(self, there: There, folder: str) -> None:
        if folder != there.base:  # that goes with the session
            try:
                async with asyncio.timeout(self.aftermath_seconds):
                    await super()._remove(there, folder)
            except TimeoutError:
                raise SandboxUnavailable(
                    f"{folder} could not be removed: the service does not say that it was"
                ) from None

    def _running(self) -> There:
        there = super()._running()
        if self.service.ended:
            raise SandboxStopped(self.service.ended)
        return there

    # JavaScript and TypeScript: the guest becomes Node, which takes the channel over and is told the program

    def _checked(self, program: Program | str, tools: Tools, timeout: float | None) -> ProgramRequest:
        request = super()._checked(program, tools, timeout)
        language = request.program.language
        if language == "python":
            return request
        if unusable := sorted(RESERVED_WORDS.intersection(request.program.inputs)):
            raise InvalidValue(f"Program.inputs: {unusable[0]!r} cannot be the name of a variable in JavaScript")
        name = _FILE_NAMES[language] if request.program.name == _PYTHON_FILE_NAME else request.program.name
        return replace(request, program=replace(request.program, name=name))

    def _frame(self, message: Mapping[str, Any], variables: Mapping[str, str], place: Place) -> bytes:
        if message.get("language", "python") == "python":
            return super()._frame(message, variables, place)
        limits = self.policy.limits
        common = {
            "variables": {**self._variables(f"{place.folder}/tmp"), **variables},
            # V8 maps far more memory than it uses, and is told by its command line how much of that it may.
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
        """Open a session, of which one can have begun at a time; see `Sandbox.session`."""
        self._running()
        if forkable:
            raise Unsupported("the agentcore engine cannot copy the service's kernel; the linux engine forks sessions")
        self._check_kernel()
        return AgentCoreSession(self)

    def _check_kernel(self) -> None:
        if self._in_kernel is not None:
            raise Unsupported(
                "the agentcore engine has one session at a time, as the service has one kernel: close the other one, or"
                " open another sandbox"
            )

    def enter_kernel(self, session: AgentCoreSession) -> None:
        """Have a session begin, which then has the kernel. Raises `Unsupported` while another one has it."""
        if self._in_kernel is not session:
            self._check_kernel()
            self._in_kernel = session

    def leave_kernel(self, session: AgentCoreSession) -> None:
        """Let there be another session."""
        if self._in_kernel is session:
            self._in_kernel = None

    @property
    def is_running(self) -> bool:
        """Whether it was started, and neither stopped since nor ended by the service."""
        return self._there is not None and not self.service.ended

    def checked(self, program: Program | str, tools: Tools, timeout: float | None) -> ProgramRequest:
        """Return what a caller asks for, checked. Raises `InvalidValue` and `Unsupported`."""
        return self._checked(program, tools, timeout)

    @asynccontextmanager
    async def guest_in_kernel(
        self, kernel: Kernel, request: ProgramRequest, about: Mapping[str, Any], frame: bytes
    ) -> AsyncGenerator[ShellGuest | str]:
        """Have the kernel run a program, or say why it does not; at the end of the block it is over."""
        there, limits, place = self._running(), self.policy.limits, self._shared_place()
        async with AsyncExitStack() as opened:
            mailbox: Mailbox | None = None
            try:
                await self._place_files(request.program, place)
                if len(request.toolset):
                    mailbox = await self.open_mailbox(f"{place.folder}/mail")
                    opened.push_async_callback(mailbox.close)
            except (ShellError, SandboxUnavailable) as error:
                yield str(error)
                return
            waiter = f"{self._base_name()}/{_WAITER}" if mailbox is not None else ""
            errand = KernelErrand.of(self.errand, there.base.rpartition("/")[0], kernel, waiter)
            told = {
                "run": place.folder,
                "workspace": place.workspace,
                "artifacts": limits.artifacts,
                "artifact_bytes": limits.artifact_mib * 2**20,
            }
            request_of_it = {
                **about,
                **told,
                **errand.told,
                "do": "kernel",
                "frame_bytes": len(frame),
                "mail": None if mailbox is None else mailbox.terms,
                "variables": {**self._variables(f"{there.base}/tmp"), **self.policy.variables},
                "message_bytes": limits.message_bytes,
                "code": f"{there.base}/code",
            }
            guest = ShellGuest(
                lambda: answers_of(self, errand, lambda token: stdin_of({**request_of_it, "token": token}, frame)),
                lambda: self._answers(there, {"do": "aftermath", **told}),
                limits,
                mailbox,
                aftermath_seconds=self.aftermath_seconds,
            )
            self._guests.add(guest)
            is_taken = False
            try:
                ending = await guest.begun(self.begin_seconds(request.seconds, len(frame)))
                if ending is not None and (ending.failure or guest.stopped):
                    yield ending.failure or "the sandbox was stopped"
                    return
                is_taken = True
                yield guest
            finally:
                if not is_taken:
                    guest.close()
                await guest.over()
                self._guests.discard(guest)
