"""The base of all cases: opening a sandbox for each, and common steps."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from typing import Any, ClassVar, Final, Protocol, TypeVar

import pytest

from actbox.core.errors import ErrorKind, InvalidValue, Unsupported
from actbox.core.limits import Limits
from actbox.core.policy import Policy
from actbox.core.program import Program
from actbox.core.result import ExecutionResult
from actbox.sandbox.contract import Sandbox, Session, Tools
from actbox.sandbox.traits import Traits
from actbox.testing.words import Words, words_of

_T = TypeVar("_T")

NO_ERROR: Final = "a run that fails has a result with `error`, an ErrorInfo that says why, and this one has none"


class OpenBox(Protocol):
    """A function that opens and starts a sandbox for one case; the sandbox is stopped after the case."""

    async def __call__(self, policy: Policy | None = None, **limits: Any) -> Sandbox:
        """Return a started sandbox with this policy, or with the default policy and these limits."""
        ...


class Cases:
    """The base class of cases: it provides each with a sandbox, and with the words of the engine's language.

    Not for use by itself: `SandboxContract` and `SandboxEscape` are made of it. Each test class has an event loop of
    its own, in which all of its cases run, one after the other.
    """

    share_box: ClassVar[bool] = False
    """True if cases with the default policy share one sandbox, whose files are cleared between them.

    For engines that take long to start. A case that needs a policy of its own, or stops its sandbox, has its own.
    """
    seconds_for_a_case: ClassVar[float] = 120.0
    """The time limit of a case, in seconds; processes that were ended must be gone within a quarter of it."""

    traits: Traits
    words: Words
    _trying: str
    _properties: list[tuple[str, object]]
    _ground: ClassVar[_Ground]

    async def open(self, policy: Policy) -> Sandbox:
        """Return a sandbox that has not started. Raise `Unsupported` for a policy that the engine cannot enforce."""
        raise NotImplementedError(
            f"{type(self).__name__} must say how a sandbox is opened: async def open(self, policy)"
        )

    def words_for(self, traits: Traits) -> Words:
        """Return the words in which programs are written: those of the engine's language by default."""
        return words_of(traits)

    @classmethod
    def setup_class(cls) -> None:
        """Make the event loop of this class."""
        cls._ground = _Ground()

    @classmethod
    def teardown_class(cls) -> None:
        """Stop the sandbox that cases shared, and end the event loop."""
        cls._ground.close()

    @pytest.fixture(autouse=True)
    def _noted(self, request: pytest.FixtureRequest) -> None:
        # Not by `record_property`, which warns if reports are written as xunit2.
        self._properties = request.node.user_properties

    @pytest.fixture
    def open_box(self) -> Iterator[OpenBox]:
        """Yield a function that opens further sandboxes with their own policies."""
        boxes: list[Sandbox] = []

        async def open_one(policy: Policy | None = None, **limits: Any) -> Sandbox:
            box = await _opened(self, policy if policy is not None else Policy(limits=Limits(**limits)))
            boxes.append(box)
            await box.start()
            return box

        async def stop_all() -> None:
            for box in boxes:
                await box.stop()

        yield open_one
        self._ground.run(stop_all())

    @pytest.fixture
    def box(self, open_box: OpenBox) -> Sandbox:
        """Return a started sandbox with the default policy and an empty workspace."""
        sandbox: Sandbox = self._ground.run(self._ground.shared(self) if self.share_box else open_box())
        return sandbox

    # Steps that many cases share

    def program(self, *statements: str, **given: Any) -> Program:
        """Return a program of these statements in the engine's language; `given` are further arguments of `Program`."""
        return Program("".join(statements), language=self.words.language, **given)

    async def answer(self, box: Sandbox, *statements: str, tools: Tools = None, **given: Any) -> Any:
        """Run statements that end in an `answer`, and return its value; the run must succeed."""
        result = await box.run(self.program(*statements, **given), tools=tools)
        assert result.success, result
        return self.words.answered(result)

    async def still_works(self, box: Sandbox) -> None:
        """Check that the sandbox still runs a program, whatever happened before."""
        assert await self.answer(box, self.words.answer(self.words.plus("1", "1"))) == 2

    @property
    def patience(self) -> float:
        """Return the seconds after which an ended program must be gone."""
        return self.seconds_for_a_case / 4

    async def with_enough_time(self, attempt: Callable[[float], Awaitable[_T]], was_enough: Callable[[_T], bool]) -> _T:
        """Make an attempt with a time limit, in seconds, that leaves enough time, and return its outcome.

        On a busy machine a program may run out of time before it comes to what the case is about. Such an attempt shows
        nothing of the sandbox, and is followed by one with twice the time. The last one has `patience`, and its outcome
        is returned whatever it is.
        """
        seconds = min(1.0, self.patience)
        while True:
            outcome = await attempt(seconds)
            if seconds >= self.patience or was_enough(outcome):
                return outcome
            seconds = min(2 * seconds, self.patience)

    @asynccontextmanager
    async def going_on(self, place: Sandbox | Session) -> AsyncIterator[asyncio.Task[ExecutionResult]]:
        """Provide a running program that never ends by itself. If the engine has tools, the program has called one, so
        that it surely runs.
        """
        begun = asyncio.Event()

        def begin() -> None:
            loop.call_soon_threadsafe(begun.set)

        loop, tools = asyncio.get_running_loop(), [begin] if self.traits.tools else None
        first = self.words.let("x", self.words.call("begin")) if tools else ""
        task = asyncio.create_task(place.run(self.program(first, self.words.forever()), tools=tools))
        try:
            if tools:
                async with asyncio.timeout(self.patience):
                    await begun.wait()
            else:
                await asyncio.sleep(0.1)
            yield task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


class _Ground:
    """The event loop of one test class, and the sandbox that its cases share."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._box: Sandbox | None = None
        self._traits: Traits | None = None

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return self._runner.run(coroutine)

    async def traits(self, cases: Cases) -> Traits:
        if self._traits is None:
            self._traits = (await _opened(cases, Policy())).traits
        return self._traits

    async def shared(self, cases: Cases) -> Sandbox:
        if self._box is None:
            self._box = await _opened(cases, Policy())
            await self._box.start()
        elif self._box.traits.files:
            await _clear(self._box)
        return self._box

    def close(self) -> None:
        try:
            if self._box is not None:
                self._runner.run(self._box.stop())
        finally:
            self._runner.close()


async def _opened(cases: Cases, policy: Policy) -> Sandbox:
    """Return the sandbox that a test class opens; explain in a sentence a likely misuse."""
    opening: Any = cases.open(policy)
    found = await opening if inspect.isawaitable(opening) else opening
    if opening is found or not isinstance(found, Sandbox):
        pytest.fail(
            f"{type(cases).__name__} must have `async def open(self, policy)`, which returns an actbox.Sandbox that"
            f" has not started; this open() returns {found!r}",
            pytrace=False,
        )
    return found


async def _clear(box: Sandbox) -> None:
    for entry in await box.list_files():
        if entry.path not in ("input", "output"):
            await box.remove_file(entry.path, recursive=True)
    for folder in ("input", "output"):
        for entry in await box.list_files(folder):
            await box.remove_file(entry.path, recursive=True)


async def raises_unsupported(cases: Cases, attempt: Callable[[], Any]) -> None:
    """Check that an attempt raises `Unsupported` with a sentence that names the engine."""
    with pytest.raises(Unsupported) as caught:
        found = attempt()
        if inspect.isawaitable(found):
            await found
        else:
            async for _ in found:
                pass
    said = str(caught.value)
    assert cases.traits.engine in said, f"the refusal does not name the engine {cases.traits.engine!r}: {said}"


BRINGS_MODULES: Final = ({"PYTHONPATH": "/usr/lib"}, {"PYTHONPATH": "a:../b"}, {"PIP_TARGET": "a"})
"""Environment variables that would import modules from outside the workspace and mounts."""


async def refuses_value(attempt: Awaitable[Any]) -> str:
    """Check that an attempt raises `InvalidValue` for its argument, and return the sentence."""
    with pytest.raises(InvalidValue) as caught:
        await attempt
    assert str(caught.value)
    return str(caught.value)


def ran_out_of_time(result: ExecutionResult) -> bool:
    """Return whether a time limit ended the run."""
    return result.error is not None and result.error.kind is ErrorKind.TIMEOUT


def failed(result: ExecutionResult) -> None:
    """Check that the run failed, with a non-zero exit code and an error in words."""
    assert not result.success, result
    assert result.exit_code != 0, result
    assert result.error is not None, NO_ERROR
    assert result.error.message or result.error.type, result.error
