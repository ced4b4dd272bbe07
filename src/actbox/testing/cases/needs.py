"""What a case can need of an engine, and how an engine that lacks it must refuse it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pytest

from actbox.core.errors import Unsupported
from actbox.core.mounts import MountMode
from actbox.core.policy import Policy
from actbox.core.program import Program
from actbox.sandbox.contract import Sandbox
from actbox.sandbox.traits import Python, Traits
from actbox.testing.words import Words
from actbox.testing.words.python import LEVELS

if TYPE_CHECKING:
    from .case import Cases


NO_ERROR: Final = "a run that fails has a result with `error`, an ErrorInfo that says why, and this one has none"


@dataclass(frozen=True)
class Need:
    """Something that not every engine has. `refused` fails where an engine without it does not say so as it should.

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
    from .case import raises_unsupported

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
    from .case import raises_unsupported

    await raises_unsupported(cases, lambda: box.execute("true"))
    await raises_unsupported(cases, lambda: box.execute_stream("true"))


async def _no_tools(cases: Cases, box: Sandbox) -> None:
    from .case import raises_unsupported

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
    from .case import failed

    if cases.traits.python == "none":
        return  # what `await` is, Python and JavaScript say
    result = await box.run(cases.program("found = await tool_for_the_kit()\n"), tools=[tool_for_the_kit])
    failed(result)
    assert result.error is not None, NO_ERROR
    assert "await" in f"{result.error.message} {result.error.hint}", result.error


async def _no_parallel(cases: Cases, box: Sandbox) -> None:
    """Calls one after the other are fine; a result that is wrong is not."""
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
    """A program that is ended may have lost what it printed, but not how it ended."""
    from .case import failed

    failed(await box.run(cases.program(cases.words.fail("boom"))))
    if "wall_seconds" not in cases.traits.enforced:
        return  # whatever runs without end would do so here
    result = await box.run(cases.program(cases.words.forever()), timeout=0.5)
    assert result.error is not None, NO_ERROR
    assert result.exit_code == 124, result


async def _no_cwd(cases: Cases, box: Sandbox) -> None:
    from .case import raises_unsupported

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


# How much of Python

# A program that needs just so much of Python. An engine that has less of it cannot run this one.
_NEEDS_IT: Final[dict[Python, str]] = {
    "subset": "1 + 1",
    "core": "class A:\n    pass\nclass B(A):\n    pass\ndef each():\n    yield B()\nassert isinstance(next(each()), A)",
    "standard library": "import asyncio, datetime, pathlib, string, traceback\nfrom email.message import EmailMessage",
    "full": "import subprocess, sys\nassert subprocess.run([sys.executable, '-c', '0'], check=True).returncode == 0",
}


def python(level: Python) -> Need:
    """Return the need of so much Python."""

    def there(traits: Traits, words: Words) -> bool:
        return words.language == "python" and LEVELS.index(traits.python) >= LEVELS.index(level)

    async def refused(cases: Cases, box: Sandbox) -> None:
        from .case import failed, raises_unsupported

        program = Program(_NEEDS_IT[level])
        if "python" in cases.traits.languages:
            failed(await box.run(program))
        else:
            await raises_unsupported(cases, lambda: box.run(program))

    return Need(f"python: {level}", there, _with_box(refused))


def word(name: str) -> Need:
    """Return the need of a word that some language lacks: a program that says it all the same must fail."""

    async def refused(cases: Cases, box: Sandbox) -> None:
        from .case import failed

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


# What a policy asks for


def limit(name: str) -> Need:
    """Return the need of a limit that holds. One that does not hold is never what a result names."""

    async def refused(cases: Cases) -> None:
        assert name not in cases.traits.enforced
        # What to do about it is a person's affair, who must be able to read that it is missing.
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
