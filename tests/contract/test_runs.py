"""What a run gives back: output, values, errors, exit codes."""

from __future__ import annotations

import asyncio

import pytest

import actbox
from actbox import Completed, ErrorKind, Output, Policy, Program, Sandbox
from tests.conftest import OpenBox


async def test_what_is_printed_comes_back(box: Sandbox) -> None:
    result = await box.run("import sys\nprint('out')\nprint('err', file=sys.stderr)")
    assert (result.stdout, result.stderr) == ("out\n", "err\n")
    assert result.success
    assert result.exit_code == 0
    assert result.error is None
    assert result.sandbox == box.traits.engine


async def test_the_last_expression_is_the_value(box: Sandbox) -> None:
    result = await box.run("x = [1, 2.5, None, True, 'ü']\n{'list': x, 'sum': 3}")
    assert result.value == {"list": [1, 2.5, None, True, "ü"], "sum": 3}
    assert result.value_text == "{'list': [1, 2.5, None, True, 'ü'], 'sum': 3}"


async def test_a_program_that_ends_in_a_statement_has_no_value(box: Sandbox) -> None:
    result = await box.run("x = 1")
    assert (result.value, result.value_text) == (None, None)


@pytest.mark.parametrize("expression", ["object()", "{1, 2}", "float('nan')", "b'x'", "open('/dev/null')"])
async def test_a_value_that_is_no_json_is_text(box: Sandbox, expression: str) -> None:
    result = await box.run(expression)
    assert result.success
    assert result.value is None
    assert result.value_text


async def test_a_value_whose_repr_fails_does_not_fail_the_run(box: Sandbox) -> None:
    result = await box.run("class Bad:\n    def __repr__(self): raise ValueError('no')\nBad()")
    assert result.success
    assert "Bad object whose repr() raised ValueError" in (result.value_text or "")


async def test_a_numpy_number_is_a_json_number(box: Sandbox) -> None:
    result = await box.run("import numpy\nnumpy.int64(7)")
    assert result.value == 7


async def test_rich_forms_come_with_the_value(box: Sandbox) -> None:
    code = "class Rich:\n    def _repr_html_(self): return '<b>hi</b>'\n    def _repr_png_(self): return b'png'\nRich()"
    result = await box.run(code)
    assert result.value_forms == {"text/html": "<b>hi</b>", "image/png": b"png"}


async def test_a_table_has_its_html(box: Sandbox) -> None:
    result = await box.run("import pandas\npandas.DataFrame({'a': [1, 2]})")
    assert "<table" in str(result.value_forms["text/html"])
    assert "a" in (result.value_text or "")


async def test_inputs_are_variables(box: Sandbox) -> None:
    result = await box.run(Program("rows[0]['n'] + extra", inputs={"rows": [{"n": 40}], "extra": 2}))
    assert result.value == 42


async def test_await_may_stand_at_the_top_level(box: Sandbox) -> None:
    code = "import asyncio\nasync def double(x):\n    await asyncio.sleep(0)\n    return 2 * x\nawait double(21)"
    assert (await box.run(code)).value == 42


async def test_every_run_starts_fresh(box: Sandbox) -> None:
    assert (await box.run("x = 1\nimport os\nos.environ['KEPT'] = '1'\nos.chdir('/')")).success
    again = await box.run("import os\n('x' in globals(), 'KEPT' in os.environ, os.getcwd())")
    assert again.value == [False, False, box.root]


async def test_the_program_is_main(box: Sandbox) -> None:
    assert (await box.run("if __name__ == '__main__':\n    print('yes')")).stdout == "yes\n"


async def test_classes_of_the_program_can_be_pickled_and_used_in_other_processes(box: Sandbox) -> None:
    code = (
        "import dataclasses, multiprocessing, pickle\n"
        "@dataclasses.dataclass\nclass Point:\n    x: int\n"
        "def double(point): return Point(point.x * 2)\n"
        "assert pickle.loads(pickle.dumps(Point(1))) == Point(1)\n"
        "with multiprocessing.get_context('fork').Pool(2) as pool:\n"
        "    points = pool.map(double, [Point(1), Point(2)])\n"
        "[point.x for point in points]"
    )
    result = await box.run(code)
    assert result.value == [2, 4], result


async def test_threads_are_awaited_and_atexit_is_called(box: Sandbox) -> None:
    code = (
        "import atexit, threading, time\n"
        "atexit.register(print, 'at exit')\n"
        "threading.Thread(target=lambda: (time.sleep(0.1), print('thread'))).start()\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "ThreadPoolExecutor(1).submit(lambda: (time.sleep(0.15), print('pool')))\n"
    )
    assert (await box.run(code)).stdout == "thread\npool\nat exit\n"


async def test_a_file_that_was_left_open_is_written_out(box: Sandbox) -> None:
    await box.run("f = open('kept.txt', 'w')\nf.write('text')")
    assert await box.read_text("kept.txt") == "text"


async def test_the_source_of_a_function_can_be_read(box: Sandbox) -> None:
    result = await box.run("import inspect\ndef f():\n    return 1  # here\nprint(inspect.getsource(f))")
    assert "return 1  # here" in result.stdout


async def test_output_of_children_and_of_c_libraries_is_captured(box: Sandbox) -> None:
    result = await box.run("import os, subprocess\nsubprocess.run(['echo', 'child'])\nos.write(2, b'raw')")
    assert (result.stdout, result.stderr) == ("child\n", "raw")


async def test_output_comes_as_it_is_printed(box: Sandbox) -> None:
    seen_before_the_end = False
    async for event in box.stream("import time\nprint('first')\ntime.sleep(0.5)\nprint('second')"):
        if isinstance(event, Output) and event.text == "first\n":
            started = asyncio.get_running_loop().time()
        if isinstance(event, Completed):
            seen_before_the_end = asyncio.get_running_loop().time() - started > 0.3
    assert seen_before_the_end


async def test_completed_is_the_last_event_and_has_the_whole_output(box: Sandbox) -> None:
    events = [event async for event in box.stream("print(1)\nimport sys\nsys.stdout.flush()\nprint(2)")]
    assert isinstance(events[-1], Completed)
    assert "".join(event.text for event in events if isinstance(event, Output)) == events[-1].result.stdout == "1\n2\n"


async def test_characters_split_across_writes_stay_whole(box: Sandbox) -> None:
    code = "import os, time\nfor byte in 'ü€😀'.encode():\n    os.write(1, bytes([byte]))\n    time.sleep(0.01)"
    assert (await box.run(code)).stdout == "ü€😀"


async def test_bytes_that_are_no_text_are_replaced(box: Sandbox) -> None:
    assert (await box.run("import os\nos.write(1, b'a\\xffb')")).stdout == "a\ufffdb"


async def test_a_nul_and_a_lone_surrogate_can_be_printed(box: Sandbox) -> None:
    assert (await box.run("print('a\\0b', '\\ud800')")).stdout == "a\0b \\ud800\n"


async def test_an_exception_has_type_message_line_and_its_own_frames(box: Sandbox) -> None:
    result = await box.run("import json\n\ndef read(text):\n    return json.loads(text)\n\nread('{')")
    assert result.exit_code == 1
    assert result.error is not None
    assert result.error.kind is ErrorKind.RUNTIME
    assert result.error.type == "JSONDecodeError"
    assert result.error.line == 4
    assert "return json.loads(text)" in result.error.traceback
    assert "decoder.py" not in result.error.traceback
    assert "_actbox" not in result.error.traceback
    assert "guest" not in result.error.traceback


async def test_what_was_printed_before_an_error_is_kept(box: Sandbox) -> None:
    result = await box.run("print('before')\n1 / 0")
    assert result.stdout == "before\n"
    assert result.value is None


async def test_a_chain_of_exceptions_is_told(box: Sandbox) -> None:
    result = await box.run("try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError('outer') from e")
    assert result.error is not None
    assert "ZeroDivisionError" in result.error.traceback
    assert "outer" in result.error.traceback


async def test_an_exception_whose_text_fails_is_told_all_the_same(box: Sandbox) -> None:
    result = await box.run("class Odd(Exception):\n    def __str__(self): raise ValueError\nraise Odd")
    assert result.error is not None
    assert result.error.type == "Odd"


@pytest.mark.parametrize(
    ("code", "exit_code", "kind"),
    [
        ("import sys\nsys.exit()", 0, None),
        ("import sys\nsys.exit(0)", 0, None),
        ("import sys\nsys.exit(3)", 3, ErrorKind.EXIT),
        ("import sys\nsys.exit('words')", 1, ErrorKind.EXIT),
        ("import os\nos._exit(7)", 7, ErrorKind.EXIT),
        ("import os\nos._exit(0)", 0, None),
        ("raise KeyboardInterrupt", 1, ErrorKind.RUNTIME),
    ],
)
async def test_a_program_may_end_itself(box: Sandbox, code: str, exit_code: int, kind: ErrorKind | None) -> None:
    result = await box.run(code)
    assert result.exit_code == exit_code
    assert (result.error.kind if result.error else None) is kind


async def test_the_words_of_sys_exit_are_on_standard_error(box: Sandbox) -> None:
    assert (await box.run("import sys\nsys.exit('words')")).stderr == "words\n"


async def test_nobody_types_and_the_hint_says_what_to_do(box: Sandbox) -> None:
    result = await box.run("input('name? ')")
    assert result.error is not None
    assert result.error.type == "EOFError"
    assert "inputs" in result.error.hint


async def test_a_missing_package_is_named(box: Sandbox) -> None:
    result = await box.run("import no_such_package_here.sub")
    assert result.error is not None
    assert result.error.kind is ErrorKind.MISSING_DEPENDENCY
    assert "no_such_package_here" in result.error.hint
    assert "an editable install is not seen" in result.error.hint


async def test_runs_at_once_do_not_disturb_each_other(box: Sandbox) -> None:
    results = await asyncio.gather(*(box.run(f"import time\ntime.sleep(0.1)\nprint({n})\n{n}") for n in range(8)))
    assert [result.value for result in results] == list(range(8))
    assert [result.stdout for result in results] == [f"{n}\n" for n in range(8)]


async def test_randomness_differs_from_run_to_run(box: Sandbox) -> None:
    code = "import random, numpy, uuid\n[random.random(), float(numpy.random.random()), str(uuid.uuid4())]"
    first, second = await asyncio.gather(box.run(code), box.run(code))
    assert all(one != other for one, other in zip(first.value, second.value, strict=True))


async def test_another_language_is_refused_by_name(box: Sandbox) -> None:
    with pytest.raises(actbox.Unsupported, match="Python"):
        await box.run(Program("1", language="cobol"))


async def test_a_timeout_that_makes_no_sense_is_refused(box: Sandbox) -> None:
    for timeout in (0, -1, float("nan"), True, "5"):
        with pytest.raises(actbox.InvalidValue, match="timeout"):
            await box.run("1", timeout=timeout)  # type: ignore[arg-type]


async def test_usage_is_measured(box: Sandbox) -> None:
    result = await box.run("x = 0\nfor i in range(2_000_000): x += i")
    assert result.usage.wall_ms > 10
    assert result.usage.cpu_ms > 10
    assert result.usage.max_rss_bytes > 2**20


async def test_a_result_is_a_json_document(box: Sandbox) -> None:
    import json

    document = json.loads(json.dumps((await box.run("print(1)\n1 / 0")).to_dict()))
    assert document["stdout"] == "1\n"
    assert document["error"]["kind"] == "RUNTIME"
    assert document["success"] is False


async def test_a_number_too_long_to_be_read_back_is_text(box: Sandbox) -> None:
    result = await box.run("import sys\nsys.set_int_max_str_digits(0)\n10 ** 5000")
    assert result.success, result.error
    assert result.value is None
    assert len(result.value_text or "") == 5001
    assert (await box.run("'7' * 5000")).value == "7" * 5000


@pytest.mark.parametrize(
    "code",
    [
        "class A:\n    def __str__(self): raise ValueError\nimport sys\nsys.exit(A())",
        "class E(Exception):\n    @property\n    def __class__(self): raise ValueError\nraise E",
        "class E(Exception):\n    def __getattribute__(self, name): raise ValueError\nraise E",
    ],
)
async def test_what_cannot_be_looked_at_is_told_and_nothing_of_ours_shows(box: Sandbox, code: str) -> None:
    result = await box.run(code)
    assert result.error is not None
    assert result.exit_code == 1
    assert result.error.type in ("SystemExit", "E")
    assert "guest" not in result.stderr + result.error.traceback


async def test_files_open_for_both_reading_and_writing_are_written_out_too(box: Sandbox) -> None:
    await box.run("import sys\nsys.kept = open('kept', 'w+b')\nsys.kept.write(b'x')")
    assert await box.read_file("kept") == b"x"


async def test_processes_are_forked_where_a_program_says_nothing(box: Sandbox) -> None:
    code = (
        "import multiprocessing\nfrom concurrent.futures import ProcessPoolExecutor\n"
        "def double(n): return 2 * n\n"
        "with ProcessPoolExecutor(2) as pool: found = list(pool.map(double, [1, 2]))\n"
        "[found, multiprocessing.get_start_method()]"
    )
    assert (await box.run(code, timeout=20)).value == [[2, 4], "fork"]


async def test_a_value_is_given_however_deep_it_is_nested(box: Sandbox) -> None:
    """Where nesting ends is a matter of each library on the way: there must be no depth at which a run fails."""
    for depth in (100, *range(960, 1000, 3), 10_000, 100_000):
        result = await box.run(f"x = []\nfor _ in range({depth}): x = [x]\nx")
        assert result.success, (depth, result.error, result.stderr)
        assert result.value_text


async def test_a_program_has_the_name_that_it_was_given(box: Sandbox) -> None:
    result = await box.run(Program("import sys\nprint(sys.argv)\n1 / 0", name="report.py"))
    assert result.stdout == "['report.py']\n"
    assert result.error is not None
    assert 'File "report.py", line 3' in result.error.traceback


async def test_variables_of_the_policy_and_of_the_sandbox_are_in_every_run(open_box: OpenBox) -> None:
    box = await open_box(Policy(variables={"A": "policy", "B": "policy"}), env={"B": "sandbox"})
    for _ in range(2):
        result = await box.run("import os\n[os.environ['A'], os.environ['B'], os.environ.pop('A')]")
        assert result.value == ["policy", "sandbox", "policy"]


async def test_the_errors_of_a_group_are_all_told(box: Sandbox) -> None:
    result = await box.run("raise ExceptionGroup('several', [ValueError('first'), KeyError('second')])")
    assert result.error is not None
    assert result.error.type == "ExceptionGroup"
    for words in ("several", "ValueError: first", "KeyError: 'second'"):
        assert words in result.error.traceback


async def test_a_long_traceback_and_a_long_message_are_cut_in_the_middle(box: Sandbox) -> None:
    result = await box.run("raise ValueError('begin' + 'x' * 1_000_000 + 'end')")
    assert result.error is not None
    assert len(result.error.message) < 50_000
    assert result.error.message.startswith("begin")
    assert result.error.message.endswith("end")
    assert "left out" in result.error.message


async def test_a_program_may_close_or_replace_its_own_streams(box: Sandbox) -> None:
    for code in (
        "import sys\nprint('kept')\nsys.stdout.close()\nsys.stderr = None",
        "import sys, io\nprint('kept')\nsys.stdout = io.StringIO()\nprint('lost')",
        "import os\nprint('kept')\nos.close(1)\nos.close(2)",
        "import os\nprint('kept')\nos.dup2(os.open('/dev/null', os.O_WRONLY), 1)\nprint('lost')",
    ):
        result = await box.run(code)
        assert result.success, (code, result.error)
        assert result.stdout == "kept\n"


async def test_output_of_a_child_that_outlives_the_program_is_cut_off_and_holds_nothing_up(box: Sandbox) -> None:
    code = "import subprocess\nsubprocess.Popen(['sh', '-c', 'sleep 300; echo late'])\nprint('done')\n'value'"
    result = await box.run(code, timeout=30)
    assert result.success
    assert (result.stdout, result.value) == ("done\n", "value")


async def test_sleeping_costs_wall_time_and_no_processor_time(box: Sandbox) -> None:
    usage = (await box.run("import time\ntime.sleep(0.3)")).usage
    assert usage.wall_ms >= 300
    assert usage.cpu_ms < 200


async def test_other_programs_of_the_environment_run_as_children(box: Sandbox) -> None:
    code = (
        "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import numpy; print(numpy.arange(3).sum())'])"
    )
    result = await box.run(code)
    assert (result.stdout, result.stderr) == ("3\n", "")


async def test_modules_that_a_run_leaves_in_the_workspace_do_not_become_the_guests_own(box: Sandbox) -> None:
    """The program's folder comes first on its path, as for every script; what the guest needs is loaded by then."""
    await box.run("for name in ('wire', 'json', 'traceback'): open(name + '.py', 'w').write('raise SystemExit(9)')")
    result = await box.run("print('fine')\n{'a': 1}")
    assert (result.stdout, result.value) == ("fine\n", {"a": 1})
    assert (await box.run("1 / 0")).error.type == "ZeroDivisionError"  # type: ignore[union-attr]
