"""`Service`: one session of the service, with each invocation as one call in a thread.

The client is synchronous, and a stream that is not read to its end keeps its connection. So a thread makes each call
and reads its stream; if the caller is cancelled, the thread still reads to the end. The client's own timeout is five
minutes, after which it tries again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import threading
import time
from collections.abc import Mapping
from typing import Any, Final, Protocol

from actbox.core.errors import ActboxError, InvalidValue, SandboxUnavailable
from actbox.sandbox.blocking import run_blocking
from actbox.sandbox.shell import ShellError
from actbox.sandbox.shell.guest import BYTES_A_SECOND

from .cancellation import soon
from .options import MOST_SECONDS, AgentCoreOptions
from .response import InvalidResponse, ServiceResponse, StreamException, response_of

EXTRA: Final = "pip install 'actbox[agentcore]'"
HOW_TO_LOG_IN: Final = "`aws configure`, or the variables AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
_THROTTLED: Final = frozenset({"ThrottlingException", "TooManyRequestsException", "Throttling"})
_GONE: Final = "ResourceNotFoundException"
# Seconds between attempts of a throttled call, besides the AWS client's own attempts. Each pause varies a little, so
# that many sandboxes do not try again at the same moment.
_PAUSES: Final = (0.25, 0.5, 1.0, 2.0, 4.0)
# The most seconds for a call with all its attempts, besides the time to send data. `executeCode` has no limit here: it
# takes as long as the program.
_ANSWER_SECONDS: Final = 60.0
_LASTING: Final = "executeCode"
_MOST_OF_A_REASON: Final = 500
# The errors that a call in an ended session may return.
_PERHAPS_GONE: Final = frozenset({_GONE, "ConflictException", "ValidationException", "InternalServerException"})
_NO_LEAVE: Final = frozenset(
    {"AccessDeniedException", "UnrecognizedClientException", "InvalidSignatureException", "ExpiredTokenException"}
)


class ServiceError(ShellError):
    """Raised when the service failed a call; the message has the call and the service's reason.

    `code` is the service's name of the error; empty if the service was not reached.
    """

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class SessionEnded(ServiceError):
    """Raised when the service's session is over; nothing of it is left."""


class Client(Protocol):
    """The part of `bedrock_agentcore.tools.code_interpreter_client.CodeInterpreter` that the engine uses."""

    session_id: str | None
    identifier: str | None

    def start(self, identifier: str, name: str, session_timeout_seconds: int) -> str:
        """Start a session."""

    def get_session(self, interpreter_id: str, session_id: str) -> Mapping[str, Any]:
        """Return the service's description of a session."""

    @property
    def control_plane_client(self) -> Any:
        """The boto3 client for other operations."""

    @property
    def data_plane_client(self) -> Any:
        """The boto3 client for invocations; `CodeInterpreter.invoke` would replace a stopped session by a new one."""


def make_client(options: AgentCoreOptions) -> Client:
    """Return the client. Raises `SandboxUnavailable` if the extra is missing or no region is configured."""
    if options.client is not None:
        client: Client = options.client
        return client
    try:
        import boto3
        from bedrock_agentcore.tools.code_interpreter_client import CodeInterpreter
    except ImportError as error:
        raise SandboxUnavailable(f"the agentcore engine needs the AWS client, which is not here: {EXTRA}") from error
    from botocore.exceptions import BotoCoreError

    try:
        session = boto3.Session()
        region = options.region or region_of(session.region_name)
        if not region:
            raise SandboxUnavailable(
                "the agentcore engine needs a region of AWS: open_sandbox('agentcore', region='eu-west-1'), or set"
                " AWS_REGION"
            )
        made: Client = CodeInterpreter(region, session)
    except BotoCoreError as error:
        raise SandboxUnavailable(f"the AWS client cannot be made: {error}") from error
    return made


def region_of(configured: str | None) -> str:
    """Return the region of boto3's configuration, else AWS_REGION, which boto3 does not read."""
    return configured or os.environ.get("AWS_REGION", "")


class Service:
    """Starts, calls and stops one session of a code interpreter. Usable from any event loop."""

    def __init__(self, options: AgentCoreOptions) -> None:
        self._options = options
        self._client: Client | None = None
        self._session_id = self._identifier = ""
        self._changing = threading.Lock()
        self.ended = ""
        """The reason why the session ended by itself; empty otherwise."""

    async def start(self) -> None:
        """Start a session. Raises `SandboxUnavailable`.

        If the caller is cancelled, or the time is up, a session that starts later is stopped. The caller waits a few
        seconds for that; afterwards the thread that starts the session stops it.
        """
        given_up = threading.Event()
        starting = asyncio.create_task(run_blocking(self._start, given_up))
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                await asyncio.shield(starting)
        except BaseException as error:
            if starting.done() and not starting.cancelled() and starting.exception() is error:
                raise
            given_up.set()
            await soon(self._never_started(starting))
            if isinstance(error, TimeoutError):
                raise SandboxUnavailable(f"StartCodeInterpreterSession: {_unanswered(_ANSWER_SECONDS)}") from None
            raise

    async def _never_started(self, starting: asyncio.Task[str]) -> None:
        await asyncio.wait([starting])
        if starting.exception() is None and starting.result():
            await run_blocking(self._stop, starting.result())

    async def stop(self) -> None:
        """Stop the session, unless it is over. Raises `SandboxUnavailable` if it goes on, and AWS bills it.

        A cancelled caller waits only a few seconds; the session is still stopped.
        """
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            stopping = await soon(run_blocking(self._stop))
            if stopping.done():
                stopping.result()
            return
        session = self._session_id
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                await run_blocking(self._stop)
        except TimeoutError:
            raise SandboxUnavailable(self._goes_on(session, _unanswered(_ANSWER_SECONDS))) from None

    async def call(self, tool: str, **arguments: Any) -> ServiceResponse:
        """Invoke a tool of the session and return its whole answer.

        Raises `SessionEnded` and `ServiceError`. A failed tool raises nothing: see `ServiceResponse.is_error`.
        """
        if tool == _LASTING:
            return await run_blocking(self._call, tool, arguments)
        sent = sum(len(file.get("blob", b"")) for file in arguments.get("content", ()))
        seconds = _ANSWER_SECONDS + sent / BYTES_A_SECOND
        try:
            async with asyncio.timeout(seconds):
                return await run_blocking(self._call, tool, arguments)
        except TimeoutError:
            raise ServiceError(f"{tool}: {_unanswered(seconds)}") from None

    async def goes_on(self) -> bool:
        """Return whether the session is live; if not, `ended` has the reason. Raises `ServiceError`."""
        return await run_blocking(self._still_there)

    # In threads

    def _start(self, given_up: threading.Event) -> str:
        """Start a session and return its id; if `given_up` is set meanwhile, stop the session and return ""."""
        options = self._options
        if options.client is not None and options.client.session_id:
            raise InvalidValue("the client has a session already; give each sandbox one of its own")
        client = make_client(options)

        def start() -> tuple[str, str]:
            session = client.start(options.identifier, options.name_for_a_session(), options.session_seconds)
            identifier = client.identifier or options.identifier
            if not isinstance(session, str) or not session or not isinstance(identifier, str):
                raise InvalidResponse("the session has no name")
            return session, identifier

        try:
            session, identifier = self._patiently("StartCodeInterpreterSession", start)
        except ServiceError as error:
            self._let_go(client)
            raise SandboxUnavailable(str(error)) from error
        with self._changing:
            if not given_up.is_set():
                self._client, self._session_id, self._identifier, self.ended = client, session, identifier, ""
                return self._session_id
        self._stop_session(client, session, identifier)
        return ""

    def _stop(self, only: str = "") -> None:
        with self._changing:
            if only not in ("", self._session_id):
                return
            client, self._client = self._client, None
            session, self._session_id = self._session_id, ""
        if client is not None and session:
            self._stop_session(client, session, self._identifier)

    def _stop_session(self, client: Client, session: str, identifier: str) -> None:
        # `CodeInterpreter.stop` would stop the session that it started last, which may be another one.
        stop = client.data_plane_client.stop_code_interpreter_session
        try:
            self._patiently(
                "StopCodeInterpreterSession", lambda: stop(codeInterpreterIdentifier=identifier, sessionId=session)
            )
        except ServiceError as error:
            if error.code != _GONE:
                raise SandboxUnavailable(self._goes_on(session, str(error))) from error
        finally:
            self._let_go(client)
        if client.session_id == session:
            client.session_id = client.identifier = None

    def _goes_on(self, session: str, why: str) -> str:
        seconds = self._options.session_seconds
        return f"session {session} could not be stopped, and goes on for up to {seconds} seconds: {why}"

    def _let_go(self, client: Client) -> None:
        """Close the connections of a client, unless the caller gave it."""
        if self._options.client is None:
            client.data_plane_client.close()
            client.control_plane_client.close()

    def _call(self, tool: str, arguments: dict[str, Any]) -> ServiceResponse:
        client, session, identifier = self._client, self._session_id, self._identifier
        if client is None or not session:
            raise SessionEnded("the sandbox was stopped")
        if self.ended:
            raise SessionEnded(self.ended)

        def invoke() -> ServiceResponse:
            response = client.data_plane_client.invoke_code_interpreter(
                codeInterpreterIdentifier=identifier, sessionId=session, name=tool, arguments=arguments
            )
            with contextlib.closing(response["stream"]) as events:
                return response_of(events)

        try:
            answer: ServiceResponse = self._patiently(tool, invoke)
        except ServiceError as error:
            if error.code in _PERHAPS_GONE and not self._still_there():
                raise SessionEnded(self.ended or "the sandbox was stopped") from error
            raise
        return answer

    def _patiently(self, what: str, do: Any) -> Any:
        """Return the result of `do`, repeated while it is throttled. Raises `ServiceError` for the client's errors."""
        from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError, NoCredentialsError

        for pause in (*_PAUSES, None):
            try:
                return do()
            except StreamException as error:
                code, said = error.code, str(error)
            except ClientError as error:
                about = error.response.get("Error", {})
                code, said = str(about.get("Code", "")), str(about.get("Message", error))
                code = code[:1].upper() + code[1:]  # in a stream the code is a member's name, in lower case
            except NoCredentialsError as error:
                raise ServiceError(f"{what}: there are no AWS credentials: {HOW_TO_LOG_IN}") from error
            except (BotoCoreError, HTTPClientError, OSError) as error:
                raise ServiceError(f"{what}: the service cannot be reached: {error}") from error
            except ActboxError:
                raise
            except Exception as error:  # botocore's parsers and `response_of` raise errors without a common base
                why = f"{type(error).__name__}: {error}"[:_MOST_OF_A_REASON]
                raise ServiceError(f"{what}: the service's answer cannot be understood: {why}") from error
            if code not in _THROTTLED:
                raise ServiceError(f"{what}: {_sentence(code, said)}", code)
            if pause is not None:
                time.sleep(pause * random.uniform(0.8, 1.2))
        tries = len(_PAUSES) + 1
        raise ServiceError(
            f"{what}: the service has refused it {tries} times, as there were too many requests: {said}", code
        )

    def _still_there(self) -> bool:
        """Ask the service whether the session is live; if not, set `ended` to the reason."""
        client, session, identifier = self._client, self._session_id, self._identifier
        if client is None or not session or self.ended:
            return False
        try:
            known = self._patiently("GetCodeInterpreterSession", lambda: client.get_session(identifier, session))
            status = known.get("status")
            why = "its status is TERMINATED" if status == "TERMINATED" else ""
        except ServiceError as error:
            if error.code != _GONE:
                raise
            why = str(error)
        if why:
            self.ended = (
                f"the service's session is over ({why}): it lives {self._options.session_seconds} seconds at most;"
                f" open another sandbox, with session_seconds up to {MOST_SECONDS} if that was too short"
            )
        return not why


def _unanswered(seconds: float) -> str:
    return f"the service has not answered within {seconds:.0f} seconds"


def _sentence(code: str, said: str) -> str:
    if code in _NO_LEAVE:
        return f"the AWS credentials do not allow it ({code}): {said}"
    if code == _GONE:
        return f"there is no such thing in this region ({code}): {said}"
    if code == "ServiceQuotaExceededException":
        return f"the account has as many as its quota allows ({code}): {said}"
    return f"{code}: {said}"
