"""State that programs in JavaScript share."""

from __future__ import annotations

import pytest

from actbox import ErrorKind, Program, Sandbox, SandboxStopped, Unsupported
from tests.clock import Clock
from tests.waiting import until


def search(query: str) -> str:
    return query.upper()


def when_told(what: str) -> str:
    """Return a program that leaves a timer behind, which does this once it is told that the program's run is over."""
    look = "if (!require('fs').existsSync('over')) return"
    return f"const timer = setInterval(() => {{ {look}; clearInterval(timer); {what} }}, 5)"


async def tell_and_wait_for(box: Sandbox, name: str) -> None:
    """Tell a timer that its program's run is over, and wait until it has made a file."""

    async def has_come() -> bool:
        return any(entry.path.endswith(name) for entry in await box.list_files())

    await box.write_text("over", "")
    await until(has_come)


@pytest.mark.slow
async def test_what_a_program_declares_is_there_for_the_next(box: Sandbox) -> None:
    async with box.session() as session:
        await session.run(
            "let a = 1; const b = {n: 2}; function f() { return a + b.n } class C {}\nimport fs from 'fs';"
        )
        result = await session.run("a += 10; [f(), typeof C, typeof fs.readFileSync]")
        assert result.value == [13, "function", "function"]
        assert result.state_kept is True
        assert (await session.run("const b = 3; b")).value == 3


@pytest.mark.slow
async def test_a_session_starts_with_nothing_of_others(box: Sandbox) -> None:
    async with box.session() as one, box.session() as other:
        await one.run("var a = 1")
        assert (await other.run("typeof a")).value == "undefined"
    assert (await box.run("typeof a")).value == "undefined"


@pytest.mark.slow
async def test_what_was_bound_before_a_failure_stays(box: Sandbox) -> None:
    async with box.session() as session:
        failed = await session.run("let a = 5;\nnull.x")
        assert failed.error is not None and failed.error.line == 2 and failed.state_kept is True
        assert (await session.run("a")).value == 5


@pytest.mark.slow
@pytest.mark.parametrize("language", ["javascript", "typescript"])
async def test_a_promise_that_is_the_last_value_and_is_rejected_is_the_programs_error(
    box: Sandbox, language: str
) -> None:
    async with box.session() as session:
        await session.run("let a = 5")
        program = Program("async function main() {\n  throw new RangeError('too far')\n}\nmain()", language)
        failed = await session.run(program, timeout=60)
        assert failed.error is not None and failed.state_kept is True
        assert (failed.error.kind, failed.error.type, failed.error.line) == (ErrorKind.RUNTIME, "RangeError", 2)
        assert (await session.run("a")).value == 5


async def test_a_promise_that_is_thrown_counts_as_what_it_is_rejected_with(box: Sandbox) -> None:
    async with box.session() as session:
        failed = await session.run("\nthrow Promise.reject(new RangeError('too far'))", timeout=60)
        assert failed.error is not None
        assert (failed.error.kind, failed.error.type, failed.error.line) == (ErrorKind.RUNTIME, "RangeError", 2)


async def test_an_exit_ends_the_run_only(box: Sandbox) -> None:
    async with box.session() as session:
        await session.run("let a = 5")
        result = await session.run("console.log('one'); process.exit(3); console.log('two')")
        assert (result.exit_code, result.stdout) == (3, "one\n")
        assert result.error is not None and result.error.kind is ErrorKind.EXIT
        assert (await session.run("process.exit()")).success
        assert (await session.run("setTimeout(() => process.exit(4)); await new Promise(() => {})")).exit_code == 4
        assert (await session.run("a")).value == 5


@pytest.mark.slow
async def test_programs_have_file_names_of_their_own(box: Sandbox) -> None:
    async with box.session() as session:
        await session.run("function f() { throw new Error('here') }")
        error = (await session.run("\nf()")).error
        assert error is not None and error.line == 2
        assert "at f (program.js:1:22)\n    at program-2.js:2:1" in error.traceback


@pytest.mark.slow
async def test_inputs_and_tools_are_bound_anew(box: Sandbox) -> None:
    async with box.session() as session:
        first = await session.run(Program("await search(word)", "javascript", inputs={"word": "a"}), tools=[search])
        assert first.value == "A"
        assert (await session.run("[word, typeof search, typeof call_tool]")).value == ["a", "undefined", "undefined"]
        await session.run("globalThis.search = 5", tools=[search])
        assert (await session.run("search")).value == 5


async def test_tools_answer_during_a_run_only(box: Sandbox) -> None:
    async with box.session() as session:
        await session.run("let kept = search; let late = null", tools=[search])
        write = "require('fs').writeFileSync('said', '')"
        await session.run(when_told(f"kept('x').catch(e => {{ late = e.message; {write} }})"))
        await tell_and_wait_for(box, "said")
        late = await session.run("late")
        assert late.value == "tools answer only while a program of the session runs"


@pytest.mark.slow
async def test_timers_go_on_between_runs(box: Sandbox) -> None:
    async with box.session() as session:
        write = "require('fs').writeFileSync('ticked', '')"
        await session.run("let n = 0; " + when_told(f"n = 1; console.log('ticked'); {write}"))
        await tell_and_wait_for(box, "ticked")
        result = await session.run("n")
        assert (result.value, result.stdout) == (1, "ticked\n")


async def test_an_error_between_runs_is_told_and_ends_nothing(box: Sandbox) -> None:
    async with box.session() as session:
        write = "require('fs').writeFileSync('thrown', '')"
        first = await session.run(when_told(f"{write}; throw new Error('left behind')"))
        await tell_and_wait_for(box, "thrown")
        result = await session.run("1")
        assert first.success and result.value == 1
        assert "Error: left behind" in result.stderr


@pytest.mark.slow
async def test_a_program_that_waits_too_long_is_interrupted_and_its_session_goes_on(box: Sandbox, clock: Clock) -> None:
    async with box.session() as session:
        await session.run("let a = 1")
        events = session.stream("a = 2; console.log('begun'); await new Promise(() => {})", timeout=30)
        result = await clock.run_out(events, 30, after="begun\n")
        assert result.error is not None and result.error.kind is ErrorKind.TIMEOUT
        assert result.state_kept is True
        assert (await session.run("a")).value == 2


@pytest.mark.slow
async def test_a_program_that_computes_too_long_ends_its_session(box: Sandbox) -> None:
    async with box.session() as session:
        result = await session.run("for (;;);", timeout=0.3)
        assert result.error is not None and result.error.kind is ErrorKind.TIMEOUT
        assert result.state_kept is False
        after = await session.run("1")
        assert after.error is not None and after.error.kind is ErrorKind.SANDBOX
        assert not session.alive
    assert (await box.run("1")).value == 1


async def test_a_session_cannot_be_forked(box: Sandbox) -> None:
    refusal = "the node engine cannot fork sessions; the linux and monty engines can, which run Python"
    with pytest.raises(Unsupported, match=refusal):
        box.session(forkable=True)
    async with box.session() as session:
        with pytest.raises(Unsupported, match=refusal):
            await session.fork()


@pytest.mark.slow
async def test_a_closed_session_runs_nothing_more(box: Sandbox) -> None:
    session = box.session()
    async with session:
        await session.run("setInterval(() => {}, 5)")
    with pytest.raises(SandboxStopped):
        await session.run("1")
