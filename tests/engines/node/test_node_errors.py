"""What a program is told that failed: kind, message, its own lines, and what to do."""

from __future__ import annotations

import pytest

from actbox import ErrorKind, Program, Sandbox


@pytest.mark.slow
async def test_source_that_is_no_program_has_its_line(box: Sandbox) -> None:
    result = await box.run("const a = 1;\n\nconst b = ;\n")
    assert result.error is not None
    assert (result.error.kind, result.error.type, result.error.line) == (ErrorKind.SYNTAX, "SyntaxError", 3)
    assert result.error.message == "Unexpected token ';'"
    assert "program.js:3\nconst b = ;\n          ^\n" in result.error.traceback
    assert result.exit_code == 1


@pytest.mark.slow
async def test_a_program_in_python_is_told_which_language_runs_here(box: Sandbox) -> None:
    for program, language in (("import pandas as pd", "JavaScript"), (Program("x: = 1", "typescript"), "TypeScript")):
        error = (await box.run(program)).error
        assert error is not None
        assert error.hint == f"programs here are {language}: correct line 1 and send the whole program again"


@pytest.mark.slow
@pytest.mark.parametrize("code", ["function f( {", "let a = 1; let a = 2", "`${", "import fs from", "await = 1"])
async def test_other_source_that_is_no_program(box: Sandbox, code: str) -> None:
    error = (await box.run(code)).error
    assert error is not None and error.kind is ErrorKind.SYNTAX and error.line == 1


async def test_an_error_has_type_message_line_and_the_program_s_own_frames(box: Sandbox) -> None:
    result = await box.run("function f(x) {\n  return x.y.z;\n}\n\nf({});\n")
    error = result.error
    assert error is not None
    assert (error.kind, error.type, error.line) == (ErrorKind.RUNTIME, "TypeError", 2)
    assert error.message == "Cannot read properties of undefined (reading 'z')"
    assert error.traceback.splitlines() == [
        "program.js:2",
        "  return x.y.z;",
        "             ^",
        "",
        "TypeError: Cannot read properties of undefined (reading 'z')",
        "    at f (program.js:2:14)",
        "    at program.js:5:1",
    ]
    assert result.stderr == ""


@pytest.mark.slow
async def test_lines_are_the_model_s_own_with_imports_above_them(box: Sandbox) -> None:
    code = "import {\n  readFileSync,\n  writeFileSync\n} from 'fs';\nexport const x = 1;\nthrow new RangeError('here')"
    error = (await box.run(code)).error
    assert error is not None and (error.type, error.line) == ("RangeError", 6)


@pytest.mark.slow
async def test_lines_are_the_model_s_own_in_typescript(box: Sandbox) -> None:
    code = "type A = {\n  b: string\n}\nconst f = (a: A): never => { throw new Error(a.b) }\nf({ b: 'x' })"
    error = (await box.run(Program(code, "typescript"))).error
    assert error is not None and (error.line, error.message) == (4, "x")
    assert "program.ts:4" in error.traceback


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("await 0;\nawait (async () => { await 0; throw new Error('deep') })()", 2),
        ("Promise.reject(new Error('deep'))", 1),
        ("\nsetTimeout(() => { throw new Error('deep') }, 1)", 2),
        ("process.nextTick(() => {\n  throw new Error('deep') })", 2),
        ("new (require('events'))().emit('error', new Error('deep'))", 1),
    ],
)
async def test_an_error_counts_wherever_it_is_thrown(box: Sandbox, code: str, line: int) -> None:
    result = await box.run(code)
    assert result.error is not None
    assert (result.exit_code, result.error.message, result.error.line) == (1, "deep", line)


@pytest.mark.slow
async def test_what_the_program_handles_itself_is_no_error(box: Sandbox) -> None:
    code = "process.on('uncaughtException', e => console.log('caught', e.message));\nsetTimeout(() => { throw new Error('x') })"
    result = await box.run(code)
    assert result.success and result.stdout == "caught x\n"
    assert (await box.run("try { null.x } catch (e) { e.name }")).value == "TypeError"


@pytest.mark.slow
async def test_what_is_thrown_need_be_no_error(box: Sandbox) -> None:
    error = (await box.run("throw {code: 5}")).error
    assert error is not None and (error.type, error.message) == ("object", "{ code: 5 }")
    hostile = "class E extends Error { get message() { throw 1 } get stack() { throw 2 } }; throw new E()"
    error = (await box.run(hostile)).error
    assert error is not None and error.kind is ErrorKind.RUNTIME and "cannot be shown" in error.message


@pytest.mark.slow
async def test_a_cause_is_part_of_the_traceback(box: Sandbox) -> None:
    error = (await box.run("const b = new Error('below');\nthrow new Error('above', { cause: b })")).error
    assert error is not None and error.line == 2
    assert "Error: above" in error.traceback and "caused by Error: below\n    at program.js:1:11" in error.traceback


@pytest.mark.slow
async def test_a_runtime_syntax_error_is_no_fault_of_the_source(box: Sandbox) -> None:
    for code in ("JSON.parse('{')", "new Function('(')", "eval('(')"):
        error = (await box.run(f"1;\n{code}")).error
        assert error is not None and (error.kind, error.type, error.line) == (ErrorKind.RUNTIME, "SyntaxError", 2)


@pytest.mark.slow
async def test_a_name_that_a_module_lacks_is_told(box: Sandbox) -> None:
    error = (await box.run("1;\nimport { readFileSink } from 'fs'")).error
    assert error is not None and error.line == 2
    assert error.message == "The requested module 'fs' does not provide an export named 'readFileSink'"


@pytest.mark.slow
@pytest.mark.parametrize("code", ["require('lodash')", "import _ from 'lodash'", "await import('lodash')"])
async def test_a_package_that_is_not_there_is_a_missing_dependency(box: Sandbox, code: str) -> None:
    error = (await box.run(f"1;\n{code}")).error
    assert error is not None
    assert (error.kind, error.line) == (ErrorKind.MISSING_DEPENDENCY, 2)
    assert "lodash is not installed here" in error.hint


@pytest.mark.slow
async def test_a_file_that_is_not_there_is_no_missing_dependency(box: Sandbox) -> None:
    error = (await box.run("import './nothing.js'")).error
    assert error is not None and error.kind is ErrorKind.RUNTIME and error.line == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "exit_code"), [("process.exit(3)", 3), ("process.exitCode = 4", 4), ("process.exit(256 + 7)", 7)]
)
async def test_a_program_may_end_itself(box: Sandbox, code: str, exit_code: int) -> None:
    result = await box.run(f"console.log('said'); {code}")
    assert result.error is not None
    assert (result.exit_code, result.error.kind, result.stdout) == (exit_code, ErrorKind.EXIT, "said\n")


@pytest.mark.slow
async def test_an_end_with_zero_is_a_success_whatever_is_awaited(box: Sandbox) -> None:
    assert (await box.run("process.exit()")).success
    assert (await box.run("setTimeout(() => process.exit(0), 5); await new Promise(() => {})")).success


@pytest.mark.slow
async def test_a_promise_that_nobody_can_settle_is_told_instead_of_waited_for(box: Sandbox) -> None:
    collect = "setTimeout(() => { for (let i = 0; i < 2e6; i++) ({ i }) }, 5);"
    for code in ("await new Promise(() => {})", f"{collect} await new Promise(() => {{}})"):
        error = (await box.run(code, timeout=50)).error
        assert error is not None and error.kind is ErrorKind.RUNTIME and "can never come" in error.message


@pytest.mark.slow
async def test_a_crash_is_told_by_its_signal(box: Sandbox) -> None:
    error = (await box.run("process.kill(process.pid, 'SIGSEGV'); await new Promise(d => setTimeout(d, 2000))")).error
    assert error is not None and (error.kind, error.type) == (ErrorKind.CRASH, "SIGSEGV")


@pytest.mark.slow
async def test_hints_say_what_to_do(box: Sandbox) -> None:
    def get_weather(city: str) -> dict[str, int]:
        return {"degrees": 20}

    error = (await box.run("getWeather('Paris')", tools=[get_weather])).error
    assert error is not None and error.hint == "there is a tool named get_weather"
    error = (await box.run("const w = get_weather('Paris');\nw.days.length", tools=[get_weather])).error
    assert error is not None and "write `await get_weather(…)`" in error.hint


@pytest.mark.slow
async def test_typescript_that_is_more_than_types_is_refused_with_its_line(box: Sandbox) -> None:
    error = (await box.run(Program("const a: number = 1;\nenum Colour { Red }", "typescript"))).error
    assert error is not None
    assert (error.kind, error.line) == (ErrorKind.SYNTAX, 2)
    assert "types are stripped and nothing else" in error.hint


async def test_a_channel_that_a_program_writes_to_is_broken(box: Sandbox) -> None:
    error = (
        await box.run(
            "require('fs').writeSync(3, 'nonsense nonsense nonsense'); await new Promise(d => setTimeout(d, 3000))"
        )
    ).error
    assert error is not None and error.kind is ErrorKind.PROTOCOL


@pytest.mark.slow
async def test_a_refused_signal_and_a_refused_file_say_what_to_do_instead(box: Sandbox) -> None:
    signal = (await box.run("process.kill(1, 'SIGTERM')")).error
    file = (await box.run("require('fs').writeFileSync('/etc/x', 'a')")).error
    assert signal is not None and file is not None
    assert (signal.kind, file.kind) == (ErrorKind.POLICY, ErrorKind.POLICY)
    assert "only to processes that it has started" in signal.hint
    assert "write below /workspace or /tmp" in file.hint
