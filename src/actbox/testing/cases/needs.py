"""The `case` decorator, the features that a case can need, and the required refusal by an engine that lacks one."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

import pytest

from actbox.core.errors import Unsupported
from actbox.core.mounts import MountMode
from actbox.core.policy import Policy
from actbox.core.program import Program
from actbox.sandbox.contract import Sandbox
from actbox.sandbox.traits import Python, Traits
from actbox.testing.words import Words
from actbox.testing.words.python import LEVELS

from .ground import NO_ERROR, Cases, OpenBox, failed, raises_unsupported

_P = ParamSpec("_P")
_C = TypeVar("_C", bound="Cases")

REFUSED = "actbox refused"
"""The name of a test property that says which feature the engine lacks, so that only its refusal was checked."""
NOT_TRIED = "actbox not tried"
"""The name of a test property that says why nothing was tried: the engine does not claim the feature, or nobody can try
it.
"""


@dataclass(frozen=True)
class Need:
    """A feature that not every engine has. `refused` fails unless an engine without the feature refuses it properly.

    Where nothing can be refused, as nobody can ask for it, `is_asked_for` is false: `refused` looks at the traits only.
    """

    what: str
    there: Callable[[Traits, Words], bool]
    refused: Callable[[Cases], Awaitable[None]]
    is_asked_for: bool = True


def tool_for_the_kit() -> str:
    """Return a word."""
    return "called"


def _with_box(check: Callable[[Cases, Sandbox], Awaitable[None]]) -> Callable[[Cases], Awaitable[None]]:
    async def refused(cases: Cases) -> None:
        async with await cases.open(Policy()) as box:
            await check(cases, box)

    return refused


async def _no_files(cases: Cases, box: Sandbox) -> None:
    for call in (
        lambda: box.read_file("a"),
        lambda: box.write_file("a", b""),
        lambda: box.list_files(),
        lambda: box.stat("a"),
        lambda: box.remove_file("a"),
        lambda: box.make_dir("a"),
        lambda: box.move("a", "b"),
        lambda: box.run(cases.program(cases.words.answer("1"), files={"a": b"x"})),
    ):
        await raises_unsupported(cases, call)


async def _no_commands(cases: Cases, box: Sandbox) -> None:
    await raises_unsupported(cases, lambda: box.execute("true"))
    await raises_unsupported(cases, lambda: box.execute_stream("true"))


async def _no_tools(cases: Cases, box: Sandbox) -> None:
    program = cases.program(cases.words.answer("1"))
    await raises_unsupported(cases, lambda: box.run(program, tools=[tool_for_the_kit]))
    await raises_unsupported(cases, lambda: box.stream(program, tools=[tool_for_the_kit]))


async def _no_sessions(cases: Cases, box: Sandbox) -> None:
    with pytest.raises(Unsupported, match=cases.traits.engine):
        box.session()


async def _no_fork(cases: Cases, box: Sandbox) -> None:
    with pytest.raises(Unsupported, match=cases.traits.engine):
        box.session(forkable=True)


async def _no_await(cases: Cases, box: Sandbox) -> None:
    if cases.traits.python == "none":
        return  # Python and JavaScript define what `await` does
    result = await box.run(cases.program("found = await tool_for_the_kit()\n"), tools=[tool_for_the_kit])
    failed(result)
    assert result.error is not None, NO_ERROR
    assert "await" in f"{result.error.message} {result.error.hint}", result.error


async def _no_parallel(cases: Cases, box: Sandbox) -> None:
    """Check that calls run one after the other; only wrong results are failures."""
    calls: list[tuple[str, tuple[int, ...]]] = [("one_more", (n,)) for n in range(3)]
    result = await box.run(
        cases.program(cases.words.gathered("found", calls), cases.words.answer("found")), tools=[one_more]
    )
    if result.success:
        assert cases.words.answered(result) == [1, 2, 3]
    else:
        assert result.error is not None, NO_ERROR
        assert result.error.message


def one_more(number: int) -> int:
    """Add one."""
    return number + 1


async def _no_lines(cases: Cases, box: Sandbox) -> None:
    result = await box.run(cases.program(cases.words.fail("boom")))
    assert result.error is not None, NO_ERROR
    assert result.error.message
    assert result.error.line is None, "traits.tracebacks is false, and the error has a line"


async def _not_isolated(cases: Cases, box: Sandbox) -> None:
    assert cases.traits.notes, f"{cases.traits.engine} does not isolate, and traits.notes do not say what that means"


async def _no_promise(cases: Cases, box: Sandbox) -> None:
    """Check how a program ends that is ended from outside; its earlier output may be lost."""
    failed(await box.run(cases.program(cases.words.fail("boom"))))
    if "wall_seconds" not in cases.traits.enforced:
        return  # a program without end would also run without end here
    result = await box.run(cases.program(cases.words.forever()), timeout=0.5)
    assert result.error is not None, NO_ERROR
    assert result.exit_code == 124, result


async def _no_cwd(cases: Cases, box: Sandbox) -> None:
    for given in ({"cwd": "folder"}, {"env": {"A": "1"}}):
        program = cases.program(cases.words.answer("1"), **given)
        await raises_unsupported(cases, lambda program=program: box.run(program))  # type: ignore[misc]


FILES: Final = Need("files", lambda traits, words: traits.files, _with_box(_no_files))
CWD: Final = Need("cwd", lambda traits, words: traits.cwd, _with_box(_no_cwd))
COMMANDS: Final = Need("commands", lambda traits, words: traits.commands, _with_box(_no_commands))
TOOLS: Final = Need("tools", lambda traits, words: traits.tools, _with_box(_no_tools))
SESSIONS: Final = Need("sessions", lambda traits, words: traits.sessions, _with_box(_no_sessions))
FORK: Final = Need("fork", lambda traits, words: traits.fork, _with_box(_no_fork))
AWAIT: Final = Need("await_tools", lambda traits, words: traits.await_tools, _with_box(_no_await))
PARALLEL: Final = Need("parallel_tools", lambda traits, words: traits.parallel_tools, _with_box(_no_parallel))
PARTIAL: Final = Need("partial_output", lambda traits, words: traits.partial_output, _with_box(_no_promise))
LINES: Final = Need("tracebacks", lambda traits, words: traits.tracebacks, _with_box(_no_lines))
ISOLATED: Final = Need("isolated", lambda traits, words: traits.isolated, _with_box(_not_isolated), is_asked_for=False)


# Levels of Python

# A program that needs exactly this level of Python. An engine with a lower level cannot run it.
_NEEDS_IT: Final[dict[Python, str]] = {
    "subset": "1 + 1",
    "core": "class A:\n    pass\nclass B(A):\n    pass\ndef each():\n    yield B()\nassert isinstance(next(each()), A)",
    "standard library": "import asyncio, datetime, pathlib, string, traceback\nfrom email.message import EmailMessage",
    "full": "import subprocess, sys\nassert subprocess.run([sys.executable, '-c', '0'], check=True).returncode == 0",
}


def python(level: Python) -> Need:
    """Return the need of this level of Python."""

    def there(traits: Traits, words: Words) -> bool:
        return words.language == "python" and LEVELS.index(traits.python) >= LEVELS.index(level)

    async def refused(cases: Cases, box: Sandbox) -> None:
        program = Program(_NEEDS_IT[level])
        if "python" in cases.traits.languages:
            failed(await box.run(program))
        else:
            await raises_unsupported(cases, lambda: box.run(program))

    return Need(f"python: {level}", there, _with_box(refused))


def word(name: str) -> Need:
    """Return the need of a word that some languages lack: in such a language, a program that uses it must fail."""

    async def refused(cases: Cases, box: Sandbox) -> None:
        failed(await box.run(cases.program(cases.words.lacks[name])))

    return Need(f"word: {name}", lambda traits, words: name not in words.lacks, _with_box(refused))


async def _no_value(cases: Cases, box: Sandbox) -> None:
    result = await box.run(cases.program(cases.words.literal([1, 2])))
    assert result.success, result
    assert result.value in (None, [1, 2])


VALUE: Final = Need("value", lambda traits, words: words.has_value, _with_box(_no_value))


async def _names_apart(cases: Cases, box: Sandbox) -> None:
    both = cases.words.listed(cases.words.call("one_more", 1), "one_more")
    result = await box.run(cases.program(cases.words.answer(both), inputs={"one_more": 5}), tools=[one_more])
    assert cases.words.answered(result) == [2, 5], result


TOOL_VARIABLES: Final = Need(
    "tools as variables", lambda traits, words: words.tools_are_variables, _with_box(_names_apart)
)


# Features that a policy asks for


def limit(name: str) -> Need:
    """Return the need of an enforced limit. Results must never name a limit that is not enforced."""

    async def refused(cases: Cases) -> None:
        assert name not in cases.traits.enforced
        # A person has to act on the missing feature, so the sentence must name it.
        assert cases.traits.notes, f"{name} does not hold, and traits.notes say nothing"

    return Need(f"limit: {name}", lambda traits, words: name in traits.enforced, refused, is_asked_for=False)


def mount(mode: MountMode) -> Need:
    """Return the need of a mode in which a folder of the host can be mounted."""

    async def refused(cases: Cases) -> None:
        import tempfile

        from actbox.core.mounts import FileMount

        with tempfile.TemporaryDirectory() as folder, pytest.raises(Unsupported, match=cases.traits.engine):
            await (await cases.open(Policy(mounts=(FileMount(folder, "/data", mode),)))).start()

    return Need(f"mount: {mode}", lambda traits, words: mode in traits.mounts, refused)


async def _no_domains(cases: Cases) -> None:
    from actbox.core.domains import AllowedDomain

    with pytest.raises(Unsupported, match=cases.traits.engine):
        await (await cases.open(Policy(domains=(AllowedDomain("api.example.com"),)))).start()


DOMAINS: Final = Need("domains", lambda traits, words: traits.domains, _no_domains)


# Cases with needs


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
        setattr(tried, method.__qualname__.partition(".")[0], True)  # `-k` matches attributes: the group, by name
        return tried

    return decorate


class Refused(Exception):
    """The engine lacks what a case needs and refused it properly, so the case ends."""


class NotTried(Exception):
    """The engine does not claim what a case needs, or nobody can tell, so the case ends."""


async def needing(cases: Cases, *needs: Need) -> None:
    """Return if the engine has all of these needs; otherwise check its refusal of the first missing one, and end the
    case.
    """
    for need in needs:
        if not need.there(cases.traits, cases.words):
            cases._trying = f", while it was tried what comes of {need.what}, which the traits do not claim"
            await need.refused(cases)
            raise (Refused if need.is_asked_for else NotTried)(need.what)


async def kept(cases: Cases, open_box: OpenBox, policy: Policy) -> Sandbox:
    """Return a sandbox opened with a policy; if the engine refuses the policy in a proper sentence, end the case."""
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
