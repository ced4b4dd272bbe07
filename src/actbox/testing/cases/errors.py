"""Cases of failed programs: they raise no exception, and their results say why they failed."""

from __future__ import annotations

import pytest

from actbox.core.errors import ErrorKind, InvalidValue, Unsupported
from actbox.core.program import Program
from actbox.sandbox.contract import Sandbox

from .ground import NO_ERROR, Cases, failed, refuses_value
from .needs import LINES, PARTIAL, TOOL_VARIABLES, TOOLS, case, python, word


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class ErrorCases(Cases):
    """The error in the result of a failed program."""

    @case()
    async def test_an_error_is_no_exception_of_the_host(self, box: Sandbox) -> None:
        """An error of the program is `RUNTIME`, and its exit code 1."""
        result = await box.run(self.program(self.words.fail("boom")))
        failed(result)
        assert result.error is not None, NO_ERROR
        assert (result.error.kind, result.exit_code) == (ErrorKind.RUNTIME, 1)
        assert result.error.type

    @case(word("message"))
    async def test_an_error_has_its_message(self, box: Sandbox) -> None:
        """`message` is the program's own message, and nothing else."""
        result = await box.run(self.program(self.words.fail("no such city: Löwenstein")))
        assert result.error is not None, NO_ERROR
        assert result.error.message == "no such city: Löwenstein"

    @case(LINES)
    async def test_an_error_has_the_line_of_the_program(self, box: Sandbox) -> None:
        """`line` counts from 1 in the program's own source."""
        for before in (0, 1, 30):
            lines = [self.words.let(f"x{n}", "1") for n in range(before)]
            error = (await box.run(self.program(*lines, self.words.fail("boom")))).error
            assert error is not None, NO_ERROR
            assert error.line == before + 1

    @case(LINES)
    async def test_the_traceback_shows_that_line(self, box: Sandbox) -> None:
        """`traceback` has the program's own frames."""
        failing = self.words.fail("boom")
        error = (await box.run(self.program(self.words.let("x", "1"), failing))).error
        assert error is not None, NO_ERROR
        assert failing.strip() in error.traceback

    @case(LINES)
    async def test_the_traceback_has_nothing_of_the_engine(self, box: Sandbox) -> None:
        """`traceback` has the program's own frames only."""
        error = (await box.run(self.program(self.words.fail("boom")))).error
        assert error is not None, NO_ERROR
        for ours in ("site-packages", "_actbox", "/engines/", "/guest/", "node:internal"):
            assert ours not in error.traceback

    @case(python("subset"), LINES)
    async def test_an_error_in_a_function_has_the_functions_line(self, box: Sandbox) -> None:
        """`line` is where the error was raised, and the traceback shows the calls that led there."""
        error = (await box.run("def inner():\n    return 1 / 0\n\ndef outer():\n    return inner()\n\nouter()\n")).error
        assert error is not None, NO_ERROR
        assert (error.type, error.line) == ("ZeroDivisionError", 2)
        for line in ("return 1 / 0", "return inner()"):
            assert line in error.traceback

    @case(python("core"))
    async def test_a_chain_of_exceptions_is_told(self, box: Sandbox) -> None:
        """For a chain of exceptions, the error is the last one."""
        code = "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError('outer') from e"
        error = (await box.run(code)).error
        assert error is not None, NO_ERROR
        assert (error.type, error.message) == ("ValueError", "outer")

    @case(python("core"))
    async def test_an_exception_whose_text_fails_is_told_all_the_same(self, box: Sandbox) -> None:
        """A program cannot break the report of its own failure."""
        result = await box.run("class Odd(Exception):\n    def __str__(self): raise ValueError\nraise Odd")
        failed(result)
        assert result.error is not None, NO_ERROR
        assert result.error.type == "Odd"

    @case()
    async def test_source_that_is_no_program_is_a_syntax_error(self, box: Sandbox) -> None:
        """`SYNTAX`: the source is not a program. None of it has run."""
        result = await box.run(self.program(self.words.broken))
        failed(result)
        assert result.error is not None, NO_ERROR
        assert result.error.kind is ErrorKind.SYNTAX
        assert result.stdout == ""

    @case(python("subset"))
    async def test_source_that_is_indented_as_a_whole_runs(self, box: Sandbox) -> None:
        """Source may be indented as a whole; text within quotes keeps its indentation."""
        lines = ["", "x = '''a", "  b", "c'''", "", "# all of it", "if x:", "    x += 'd'", "x", ""]
        result = await box.run("\n    ".join(lines))
        assert result.value == "a\n      b\n    cd", result

    @pytest.mark.parametrize(("source", "line"), [("    x = 1\n    1 / 0", 2), ("    x = 1\n    no program", 2)])
    @case(python("subset"), LINES)
    async def test_an_error_in_source_that_is_indented_has_its_line(self, box: Sandbox, source: str, line: int) -> None:
        """`line` counts from 1 in the program's own source."""
        error = (await box.run(source)).error
        assert error is not None, NO_ERROR
        assert error.line == line, error

    @case(python("subset"))
    async def test_source_of_which_some_is_indented_is_no_program(self, box: Sandbox) -> None:
        """Source of which only some lines are indented is a syntax error."""
        error = (await box.run("    x = 1\ny = 2\n")).error
        assert error is not None, NO_ERROR
        assert error.kind is ErrorKind.SYNTAX

    @pytest.mark.parametrize("line", ["!pip install no_such_package_here", "%pip install -q no_such_package_here"])
    @case(python("standard library"))
    async def test_a_line_that_installs_packages_has_a_hint(self, box: Sandbox, line: str) -> None:
        """A line that installs packages fails with a hint on what to do instead."""
        error = (await box.run(f"{line}\nimport no_such_package_here")).error
        assert error is not None, NO_ERROR
        assert (error.kind, error.line) == (ErrorKind.SYNTAX, 1)
        assert "no_such_package_here" in error.hint and "leave this line out" in error.hint, error

    @case(LINES)
    async def test_a_syntax_error_has_its_line(self, box: Sandbox) -> None:
        """`line` counts from 1 in the program's own source."""
        error = (await box.run(self.program(self.words.broken))).error
        assert error is not None, NO_ERROR
        assert error.line == 2

    @case(word("exit"))
    async def test_a_program_may_end_itself_with_a_code(self, box: Sandbox) -> None:
        """`EXIT`: the program ended itself with a non-zero code, which is the result's."""
        result = await box.run(self.program(self.words.exit(3), self.words.say("never")))
        failed(result)
        assert result.error is not None, NO_ERROR
        assert (result.exit_code, result.error.kind, result.stdout) == (3, ErrorKind.EXIT, "")

    @case(word("exit"))
    async def test_a_program_that_ends_itself_with_zero_succeeds(self, box: Sandbox) -> None:
        """`exit_code` is 0 exactly when the run succeeded."""
        result = await box.run(self.program(self.words.say("out"), self.words.exit(0), self.words.say("never")))
        assert (result.success, result.exit_code, result.stdout) == (True, 0, "out\n")

    @case(python("subset"))
    async def test_a_missing_package_is_named(self, box: Sandbox) -> None:
        """`MISSING_DEPENDENCY` where the environment lacks it, `UNSUPPORTED` where the engine has no packages."""
        error = (await box.run("import no_such_package_here")).error
        assert error is not None, NO_ERROR
        assert error.kind in (ErrorKind.MISSING_DEPENDENCY, ErrorKind.UNSUPPORTED), error
        assert "no_such_package_here" in f"{error.message} {error.hint}"

    @case()
    async def test_endless_recursion_ends_with_an_error_and_hurts_nobody(self, box: Sandbox) -> None:
        """The sandbox works on after endless recursion."""
        failed(await box.run(self.program(self.words.recurse()), timeout=20))
        await self.still_works(box)

    @case()
    async def test_an_empty_program_succeeds(self, box: Sandbox) -> None:
        """An empty program succeeds."""
        result = await box.run(self.program(""))
        assert (result.success, result.stdout, result.value) == (True, "", None)

    @case(python("full"))
    async def test_a_process_that_ends_itself_has_its_own_code(self, box: Sandbox) -> None:
        """A process that ends itself abruptly reports its own exit code."""
        assert (await box.run("import os\nos._exit(7)")).exit_code == 7

    @case(python("full"))
    async def test_a_crash_names_its_signal(self, box: Sandbox) -> None:
        """`CRASH`: the program died by a signal, which the error's type names; 128+n is its exit code."""
        result = await box.run("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)")
        assert result.error is not None, NO_ERROR
        assert (result.error.kind, result.error.type, result.exit_code) == (ErrorKind.CRASH, "SIGSEGV", 139)
        await self.still_works(box)

    @case(python("core"))
    async def test_nobody_types(self, box: Sandbox) -> None:
        """A program that reads standard input is told that nobody types."""
        failed(await box.run("input('name? ')", timeout=20))


class BadInputCases(Cases):
    """Invalid arguments raise `InvalidValue`; source that is no program gives a failed result."""

    @pytest.mark.parametrize("timeout", [0, -1, float("nan"), True, "5"], ids=repr)
    @case()
    async def test_a_timeout_that_makes_no_sense_is_refused(self, box: Sandbox, timeout: float) -> None:
        """`timeout` is a number of seconds above zero."""
        assert "timeout" in await refuses_value(box.run(self.program(self.words.answer("1")), timeout=timeout))

    @pytest.mark.parametrize("program", [None, 5, b"1", ["1"]], ids=repr)
    @case()
    async def test_what_is_no_program_is_refused(self, box: Sandbox, program: str) -> None:
        """A program is text or a `Program`."""
        await refuses_value(box.run(program))

    @case()
    async def test_another_language_is_refused_by_name(self, box: Sandbox) -> None:
        """A language that the engine lacks raises `Unsupported`."""
        with pytest.raises(Unsupported, match="cobol"):
            await box.run(Program("DISPLAY 1.", language="cobol"))

    @case(TOOLS, TOOL_VARIABLES)
    async def test_an_input_with_the_name_of_a_tool_is_refused(self, box: Sandbox) -> None:
        """An input may not have the name of a tool."""
        program = self.program(self.words.answer("1"), inputs={"add": 1})
        assert "add" in await refuses_value(box.run(program, tools=[add]))

    @pytest.mark.parametrize("tools", [5, [5], ["add"], [add, add]], ids=["number", "numbers", "names", "twice"])
    @case(TOOLS)
    async def test_what_is_no_set_of_tools_is_refused(self, box: Sandbox, tools: list[object]) -> None:
        """An argument `tools` that is no collection of differently named functions is refused."""
        with pytest.raises((InvalidValue, TypeError)):
            await box.run(self.program(self.words.answer("1")), tools=tools)  # type: ignore[arg-type]

    @pytest.mark.parametrize("code", ["x = 1\0", "x = '\ud800'"], ids=["NUL", "lone surrogate"])
    @case(python("subset"))
    async def test_characters_that_source_cannot_have_are_an_error_of_the_program(
        self, box: Sandbox, code: str
    ) -> None:
        """Source with invalid characters is an error of the program, not an exception for the caller."""
        result = await box.run(Program(code))
        if not result.success:
            assert result.error is not None, NO_ERROR
            assert result.error.kind is ErrorKind.SYNTAX
        await self.still_works(box)

    @case(word("say"))
    async def test_windows_line_ends_are_fine(self, box: Sandbox) -> None:
        """Source may have Windows line ends."""
        source = (self.words.let("x", "1") + self.words.answer("x")).replace("\n", "\r\n")
        assert self.words.answered(await box.run(self.program(source))) == 1

    @case(PARTIAL, word("say"))
    async def test_a_program_of_many_lines_runs(self, box: Sandbox) -> None:
        """A program may have twenty thousand lines."""
        source = "".join(self.words.let("x", str(n)) for n in range(20_000))
        assert await self.answer(box, source, self.words.answer("x")) == 19_999
