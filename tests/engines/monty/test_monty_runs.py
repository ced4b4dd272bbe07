"""What programs come to in the `monty` engine: values, output, errors in the program's own lines."""

from __future__ import annotations

import asyncio

import pytest

import actbox
from actbox import ErrorInfo, ErrorKind, Output, Policy, Program, Sandbox


async def error_of(box: Sandbox, program: str | Program) -> ErrorInfo:
    result = await box.run(program)
    assert result.error is not None and result.exit_code != 0, result
    return result.error


@pytest.mark.parametrize(
    ("code", "value", "text"),
    [
        ("1 + 1", 2, "2"),
        ("{'a': [1, 2.5, None, True]}", {"a": [1, 2.5, None, True]}, "{'a': [1, 2.5, None, True]}"),
        ("(1, 2)", (1, 2), "(1, 2)"),
        ("{1}", {1}, "{1}"),
        ("float('inf')", float("inf"), "inf"),
        ("b'\\xff'", b"\xff", "b'\\xff'"),
        ("'é😀'", "é😀", "'é😀'"),
        ("class A:\n  def __init__(self): self.n = 1\nA()", None, "<A object with {'n': 1}>"),
        ("10 ** 5000", None, "<int that cannot be shown: "),
        ("x = 1", None, None),
        ("", None, None),
        ("# nothing", None, None),
    ],
)
async def test_the_last_expression_is_the_value(box: Sandbox, code: str, value: object, text: str | None) -> None:
    result = await box.run(code)
    assert result.success, result.error
    assert result.value == value
    assert (result.value_text or "").startswith(text or "") and (result.value_text is None) is (text is None)


@pytest.mark.slow
@pytest.mark.parametrize(
    "code", ["x = [1] * 10\nfor _ in range(30): x = [x] * 10\nx", "'x' * 50_000_000", "[0] * 500_000"]
)
async def test_a_value_that_would_be_too_large_written_out_is_told_in_short(box: Sandbox, code: str) -> None:
    result = await box.run(code)
    assert result.success and result.value in (None, [0] * 500_000)
    assert result.value_text is not None and len(result.value_text) < 200_000


@pytest.mark.slow
async def test_a_value_that_the_library_does_not_send_is_an_error_that_says_what_to_do(box: Sandbox) -> None:
    error = await error_of(box, "'x' * 300_000_000")
    assert "exceeds the maximum" in error.message and "summary" in error.hint


async def test_output_comes_as_it_goes_and_is_kept_when_the_program_fails(box: Sandbox) -> None:
    first: Output | None = None
    async with asyncio.timeout(60):
        async for event in box.stream("import sys, time\nprint('a')\nprint('b', file=sys.stderr)\ntime.sleep(60)"):
            if isinstance(event, Output):
                first = event
                break
    assert first == Output("stdout", "a\n")
    result = await box.run("import sys\nprint('a')\nprint('b', file=sys.stderr)\n1 / 0")
    assert (result.stdout, result.stderr) == ("a\n", "b\n")


async def test_an_exception_says_its_type_line_and_the_programs_own_frames(box: Sandbox) -> None:
    error = await error_of(box, Program("def f(a):\n    return 1 / a\n\nf(0)", name="share.py"))
    assert (error.kind, error.type, error.message, error.line) == (
        ErrorKind.RUNTIME,
        "ZeroDivisionError",
        "division by zero",
        2,
    )
    assert 'File "share.py", line 4, in <module>' in error.traceback
    assert "    return 1 / a" in error.traceback
    assert "python-input" not in error.traceback


async def test_a_syntax_error_says_its_line(box: Sandbox) -> None:
    error = await error_of(box, "x = 1\ny = = 2")
    assert (error.kind, error.type, error.line) == (ErrorKind.SYNTAX, "SyntaxError", 2)
    assert "line 2" in error.hint


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("class A: pass\nclass B(A): pass", "class inheritance"),
        ("def g():\n    yield 1", "yield"),
        ("x = 1\ndel x", "del"),
        ("import pandas", "pandas"),
        ("import subprocess", "standard library"),
        ("import sys\nsys.exit(3)", "exit"),
        ("exit()", "exit"),
        ("globals()", "globals"),
        ("'a'.translate({})", "translate"),
        ("open('a', 'r+')", "update modes"),
        (f"print({'1, ' * 300})", "255"),
        ("raise SystemExit(3)", "fault"),
    ],
)
async def test_what_the_subset_lacks_names_the_engine_that_has_it(box: Sandbox, code: str, said: str) -> None:
    error = await error_of(box, code)
    assert error.kind is ErrorKind.UNSUPPORTED
    assert "linux engine" in error.hint
    assert said in error.message + error.hint


async def test_a_programs_own_mistakes_are_not_put_down_to_the_subset(box: Sandbox) -> None:
    for code in ("'a'.uper()", "import math\nmath.sqroot(2)", "print(nmae)", "[].foo"):
        error = await error_of(box, code)
        assert (error.kind, error.hint) == (ErrorKind.RUNTIME, ""), code


async def test_input_is_said_to_be_in_vain(box: Sandbox) -> None:
    assert "there is no keyboard" in (await error_of(box, "input()")).hint


async def test_system_exit_ends_a_program(box: Sandbox) -> None:
    assert (await box.run("print(1)\nraise SystemExit\nprint(2)")).stdout == "1\n"
    result = await box.run("raise SystemExit('3')")
    assert result.error is not None
    assert (result.error.kind, result.exit_code) == (ErrorKind.EXIT, 3)


async def test_inputs_are_variables_and_copies(box: Sandbox) -> None:
    rows = [1, 2]
    result = await box.run(Program("rows.append(3)\nlen(rows)", inputs={"rows": rows}))
    assert (result.value, rows) == (3, [1, 2])


async def test_every_run_starts_fresh(box: Sandbox) -> None:
    await box.run("left = 1")
    assert (await error_of(box, "left")).type == "NameError"


async def test_nothing_of_the_hosts_environment_shows_but_the_policys_variables_do() -> None:
    async with actbox.open_sandbox("monty", policy=Policy(variables={"A": "1"})) as box:
        result = await box.run("import os\n[dict(os.environ), os.getenv('A'), os.getenv('HOME'), os.getenv('B', 'c')]")
    assert result.value == [{"A": "1"}, "1", None, "c"]


async def test_the_name_of_the_script_is_an_option() -> None:
    async with actbox.open_sandbox("monty", script_name="job.py") as box:
        assert str((await box.run("__file__")).value).endswith("/job.py")
    for name in ("", "a/b", 3):
        with pytest.raises(actbox.InvalidValue, match="script_name"):
            actbox.open_sandbox("monty", script_name=name)


@pytest.mark.slow
async def test_many_programs_run_at_once_each_alone(box: Sandbox) -> None:
    values = [result.value async for result in box.map([f"import time\ntime.sleep(0.01)\n{n}" for n in range(40)])]
    assert values == list(range(40))


async def test_a_sibling_has_the_options_of_its_sandbox() -> None:
    async with actbox.open_sandbox("monty", type_check=True, script_name="job.py") as box:
        assert str((await box.run_alone("__file__")).value).endswith("/job.py")
        error = (await box.run_alone("x: int = 'a'")).error
        assert error is not None and error.kind is ErrorKind.TYPE


async def test_commands_are_refused_with_the_engine_that_has_them(box: Sandbox) -> None:
    with pytest.raises(actbox.Unsupported, match="linux"):
        await box.execute("true")


async def test_a_missing_library_is_said_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from actbox.sandbox.engines.monty import library
    from actbox.sandbox.registry import TABLE

    library._library.cache_clear()
    monkeypatch.setitem(__import__("sys").modules, "pydantic_monty", None)
    try:
        with pytest.raises(actbox.SandboxUnavailable, match=r"pip install 'actbox\[monty\]'"):
            actbox.open_sandbox("monty")
        found = TABLE["monty"].check()
        assert (found.works, found.advice) == (False, "pip install 'actbox[monty]'")
        assert "not installed" in found.reason and "pip install" not in found.reason
    finally:
        library._library.cache_clear()


async def test_a_worker_that_does_not_start_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from actbox.sandbox.registry import TABLE

    monkeypatch.setenv("MONTY_BIN", "/nowhere/monty")
    found = TABLE["monty"].check()
    assert not found.works and "cannot start" in found.reason
    with pytest.raises(actbox.SandboxUnavailable, match="cannot start"):
        async with actbox.open_sandbox("monty"):
            pass


def test_the_engine_works_here_and_says_what_it_is() -> None:
    from actbox.sandbox.registry import TABLE

    found = TABLE["monty"].check()
    assert found.works, found.reason
    assert found.traits is not None and found.traits.python == "subset"
