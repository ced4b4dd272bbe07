"""What all cases share: how a sandbox is opened for one, and what it needs before it can be tried."""

from __future__ import annotations

import asyncio
import functools
import inspect
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from typing import Any, ClassVar, Concatenate, ParamSpec, Protocol, TypeVar

import pytest

from actbox.core.errors import InvalidValue, Unsupported
from actbox.core.limits import Limits
from actbox.core.policy import Policy
from actbox.core.program import Program
from actbox.core.result import ExecutionResult
from actbox.sandbox.contract import Sandbox, Tools
from actbox.sandbox.traits import Traits
from actbox.testing.words import Words, words_of

from .needs import NO_ERROR, Need

_P = ParamSpec("_P")
_C = TypeVar("_C", bound="Cases")

REFUSED = "actbox refused"
"""The name of the property of a test that says what the engine lacks, so that its refusal was checked instead."""
NOT_TRIED = "actbox not tried"
"""The same of what the engine does not claim, or nobody could try, so that nothing was."""


class OpenBox(Protocol):
    """Opens and starts a sandbox for one case, which is stopped after it."""

    async def __call__(self, policy: Policy | None = None, **limits: Any) -> Sandbox:
        """Return a started sandbox with a policy, or with the default one but for these limits."""
        ...


class Cases:
    """The ground on which cases stand: a sandbox for each of them, and the words of its language.

    Not for use by itself: `SandboxContract` and `SandboxEscape` are made of it. Each test class has an event loop of
    its own, in which all of its cases run, one after the other.
    """

    share_box: ClassVar[bool] = False
    """Whether cases with the default policy share one sandbox, of which only the files are cleared between them.

    For engines that take long to start. A case that needs a policy of its own, or stops its sandbox, has its own."""
    seconds_for_a_case: ClassVar[float] = 120.0
    """A case that takes longer has failed, and one in which what was ended stays for a quarter of it."""

    traits: Traits
    words: Words
    _trying: str
    _properties: list[tuple[str, object]]
    _ground: ClassVar[_Ground]

    async def open(self, policy: Policy) -> Sandbox:
        """Return a sandbox that has not started. Raise `Unsupported` for a policy that the engine cannot keep."""
        raise NotImplementedError(
            f"{type(self).__name__} must say how a sandbox is opened: async def open(self, policy)"
        )

    def words_for(self, traits: Traits) -> Words:
        """Return how programs are said: those of the engine's language, unless it has a dialect of its own."""
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
        # Not by `record_property`, which warns where reports are written as xunit2.
        self._properties = request.node.user_properties

    @pytest.fixture
    def open_box(self) -> Iterator[OpenBox]:
        """A function that opens further sandboxes, with policies of their own."""
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
        """A sandbox with the default policy, started, with an empty workspace."""
        sandbox: Sandbox = self._ground.run(self._ground.shared(self) if self.share_box else open_box())
        return sandbox

    # What cases say often

    def program(self, *statements: str, **given: Any) -> Program:
        """Return a program of these statements, in the engine's language; `given` as for `Program`."""
        return Program("".join(statements), language=self.words.language, **given)

    async def answer(self, box: Sandbox, *statements: str, tools: Tools = None, **given: Any) -> Any:
        """Run statements of which the last ends in an `answer`, and return that; the run must succeed."""
        result = await box.run(self.program(*statements, **given), tools=tools)
        assert result.success, result
        return self.words.answered(result)

    async def still_works(self, box: Sandbox) -> None:
        """Whatever happened before, the next program runs."""
        assert await self.answer(box, self.words.answer(self.words.plus("1", "1"))) == 2

    @property
    def patience(self) -> float:
        """Seconds after which what was ended, or has all that it waits for, must be over."""
        return self.seconds_for_a_case / 4

    async def brief(self, box: Sandbox) -> float:
        """Return a limit, in seconds, that a program of a few lines keeps here, however busy the machine is now."""
        begun = time.perf_counter()
        await self.still_works(box)
        return max(0.5, 10 * (time.perf_counter() - begun))


def case(
    *needs: Need,
) -> Callable[[Callable[Concatenate[_C, _P], Coroutine[Any, Any, None]]], Callable[Concatenate[_C, _P], None]]:
    """Make a test of an asynchronous method of a `Cases` class; its docstring is the sentence that it proves.

    Where the engine's traits say that it lacks one of the `needs`, the case checks how that is refused instead.
    """

    def decorate(
        method: Callable[Concatenate[_C, _P], Coroutine[Any, Any, None]],
    ) -> Callable[Concatenate[_C, _P], None]:
        @functools.wraps(method)
        def tried(self: _C, /, *args: _P.args, **kwargs: _P.kwargs) -> None:
            self._ground.run(_bounded(self, needs, lambda: method(self, *args, **kwargs)))

        tried.needs = needs  # type: ignore[attr-defined]
        setattr(tried, method.__qualname__.partition(".")[0], True)  # `-k` finds attributes: the group by its name
        return tried

    return decorate


class Refused(Exception):
    """The engine lacks what a case needs, and says so as it should: there is nothing more to try."""


class NotTried(Exception):
    """The engine does not claim what a case needs, or nobody could tell whether it is so."""


async def needing(cases: Cases, *needs: Need) -> None:
    """Go on if the engine has all of these; else check how it refuses the first that it lacks, and end the case."""
    for need in needs:
        if not need.there(cases.traits, cases.words):
            cases._trying = f", while it was tried what comes of {need.what}, which the traits do not claim"
            await need.refused(cases)
            raise (Refused if need.is_asked_for else NotTried)(need.what)


async def kept(cases: Cases, open_box: OpenBox, policy: Policy) -> Sandbox:
    """Open a sandbox with a policy that an engine may refuse: then with a sentence, and the case is over."""
    try:
        return await open_box(policy)
    except Unsupported as refusal:
        assert cases.traits.engine in str(refusal), f"the refusal does not say which engine it is: {refusal}"
        raise Refused("this policy") from None


async def _bounded(cases: Cases, needs: Sequence[Need], body: Callable[[], Awaitable[None]]) -> None:
    traits = await cases._ground.traits(cases)
    cases.traits, cases.words, cases._trying = traits, cases.words_for(traits), ""
    try:
        async with asyncio.timeout(cases.seconds_for_a_case) as clock:
            await needing(cases, *needs)
            await body()
    except Refused as refused:
        cases._properties.append((REFUSED, str(refused)))
    except NotTried as untried:
        cases._properties.append((NOT_TRIED, str(untried)))
    except TimeoutError:
        if clock.expired():
            pytest.fail(f"not over after {cases.seconds_for_a_case:g} seconds{cases._trying}", pytrace=False)
        raise


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
    """Have a test class open a sandbox; what it may have misunderstood is said in a sentence."""
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
    """What is asked for is refused with `Unsupported`, and the sentence names the engine that refuses it."""
    with pytest.raises(Unsupported) as caught:
        found = attempt()
        if inspect.isawaitable(found):
            await found
        else:
            async for _ in found:
                pass
    said = str(caught.value)
    assert cases.traits.engine in said, f"the refusal does not name the engine {cases.traits.engine!r}: {said}"


async def refuses_value(attempt: Awaitable[Any]) -> str:
    """An argument that makes no sense is refused with `InvalidValue`; return the sentence."""
    with pytest.raises(InvalidValue) as caught:
        await attempt
    assert str(caught.value)
    return str(caught.value)


def failed(result: ExecutionResult) -> None:
    """The run failed, in words."""
    assert not result.success, result
    assert result.exit_code != 0, result
    assert result.error is not None, NO_ERROR
    assert result.error.message or result.error.type, result.error
