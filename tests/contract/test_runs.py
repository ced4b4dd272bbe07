"""What a run gives back: output, values, errors, exit codes."""

from __future__ import annotations

import asyncio
import datetime
import decimal
import enum
import json
import uuid
from dataclasses import dataclass
from typing import Any

import pytest

import actbox
from actbox import Completed, ErrorKind, Output, Policy, Program, Sandbox
from tests.conftest import OpenBox


@dataclass
class Point:
    x: int
    tags: tuple[str, ...]


class Colour(enum.Enum):
    RED = "red"


async def test_what_is_printed_comes_back(box: Sandbox) -> None:
    result = await box.run("import sys\nprint('out')\nprint('err', file=sys.stderr)")
    assert (result.stdout, result.stderr) == ("out\n", "err\n")
    assert result.success
    assert result.exit_code == 0
    assert result.error is None
    assert result.sandbox == box.traits.engine


async def test_a_result_carries_its_program_and_the_language(box: Sandbox) -> None:
    result = await box.run("1 + 1")
    assert (result.code, result.language) == ("1 + 1", "python")
    command = await box.execute("true")
    assert (command.code, command.language) == (None, None)
    async with box.session() as session:
        result = await session.run("1 + 2")
    assert (result.code, result.language) == ("1 + 2", "python")


async def test_the_last_expression_is_the_value(box: Sandbox) -> None:
    result = await box.run("x = [1, 2.5, None, True, 'ü']\n{'list': x, 'sum': 3}")
    assert result.value == {"list": [1, 2.5, None, True, "ü"], "sum": 3}
    assert result.value_text == "{'list': [1, 2.5, None, True, 'ü'], 'sum': 3}"


async def test_a_program_that_ends_in_a_statement_has_no_value(box: Sandbox) -> None:
    result = await box.run("x = 1")
    assert (result.value, result.value_text) == (None, None)


@pytest.mark.parametrize("expression", ["object()", "open('/dev/null')", "[{'a': object()}]"])
async def test_a_value_that_cannot_cross_is_text_and_a_warning(box: Sandbox, expression: str) -> None:
    result = await box.run(expression)
    assert result.success
    assert result.value is None
    assert result.value_text
    (warning,) = result.warnings
    assert warning.startswith("the value is there as text only: value" + ("[0]['a']" if "{" in expression else ""))


async def test_a_value_with_a_rich_form_that_cannot_cross_is_no_warning(box: Sandbox) -> None:
    result = await box.run("class Rich:\n    def _repr_html_(self): return '<b>hi</b>'\nRich()")
    assert (result.value, result.warnings, len(result.value_forms)) == (None, (), 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "expression",
    [
        "pandas.DataFrame([[1, 2]], columns=['a', 'a'])",
        "pandas.DataFrame({'a': range(100_001)})",
        "pandas.DataFrame({'a': pandas.period_range('2026-01', periods=2, freq='M')})",
        "pandas.Series(range(100_001))",
    ],
)
async def test_a_table_that_cannot_cross_is_a_warning_although_it_has_a_rich_form(
    box: Sandbox, expression: str
) -> None:
    result = await box.run(f"import pandas\n{expression}")
    assert result.value is None
    (warning,) = result.warnings
    assert warning.startswith("the value is there as text only: value")


@pytest.mark.slow
@pytest.mark.parametrize("expression", ["plt.plot([1, 2])", "plt.title('x')", "plt.hist([1, 2, 2])", "plt.gca()"])
async def test_parts_of_a_figure_that_was_collected_are_no_warning(box: Sandbox, expression: str) -> None:
    result = await box.run(f"import matplotlib.pyplot as plt\n{expression}")
    assert (result.value, result.warnings, len(result.artifacts)) == (None, (), 1)


@pytest.mark.slow
async def test_parts_of_a_figure_that_nobody_collects_are_a_warning(box: Sandbox) -> None:
    result = await box.run("from matplotlib.figure import Figure\nFigure().subplots().plot([1])")
    assert result.value is None
    assert "value[0] is of type Line2D" in result.warnings[0]


@pytest.mark.parametrize("text, crosses", [("'(1,)'", True), ("'я' * 90_000", False)])
async def test_a_result_that_is_too_long_loses_its_forms_first(open_box: OpenBox, text: str, crosses: bool) -> None:
    box = await open_box(policy=Policy(limits=actbox.Limits(message_bytes=200_000)))
    result = await box.run(
        "class Rich(tuple):\n"
        f"    def __repr__(self): return {text}\n"
        "    def _repr_html_(self): return 'x' * 300_000\n"
        "Rich([1])"
    )
    assert result.success, result.error
    assert result.value_forms == {}
    if crosses:
        assert (result.value, result.warnings) == ((1,), ())
    else:
        assert (result.value, len(result.warnings)) == (None, 1)
        assert "too long" in result.warnings[0]


WHOLE: list[Any] = [
    float("nan"),
    {1, (2, 3)},  # without text: its hash, and with it the order of a set, is another in each process
    {"rows": [(1, b"x"), frozenset({None})]},
    [datetime.datetime(2026, 1, 2, 3, tzinfo=datetime.UTC), datetime.date(2026, 1, 2), datetime.time(3)],
    [datetime.timedelta(hours=1), decimal.Decimal("1.10"), uuid.UUID(int=1)],
    {1: "a", "1": "b"},
    {"!set": [1], "a": {"!date": "x"}},
]


@pytest.mark.parametrize("value", WHOLE, ids=lambda value: type(value).__name__)
async def test_values_cross_whole_in_every_direction(box: Sandbox, value: Any) -> None:
    heard: list[Any] = []

    def echo(value: Any) -> Any:
        heard.append(value)
        return value

    code = "back = echo(given)\nassert repr(back) == repr(given), back\nback"
    result = await box.run(Program(code, inputs={"given": value}), tools=[echo])
    assert result.error is None, result.error
    assert [repr(result.value), repr(heard)] == [repr(value), repr([value])]
    document = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert repr(actbox.ExecutionResult.from_dict(document).value) == repr(value)


async def test_records_and_enums_of_a_program_arrive_as_the_tool_annotates_them(box: Sandbox) -> None:
    heard: list[Any] = []

    def keep(point: Point, colour: Colour, day: datetime.date, other: Any) -> None:
        heard.append((point, colour, day, other))

    code = (
        "import enum, dataclasses, datetime\n"
        "@dataclasses.dataclass\nclass Point:\n    x: int\n    tags: tuple\n"
        "class Colour(enum.Enum):\n    RED = 'red'\n"
        "point = Point(1, ('a',))\nkeep(point, Colour.RED, datetime.date(2026, 1, 2), [point, Colour.RED])"
    )
    result = await box.run(code, tools=[keep])
    assert result.error is None, result.error
    assert heard == [
        (Point(1, ("a",)), Colour.RED, datetime.date(2026, 1, 2), [{"x": 1, "tags": ("a",)}, "red"]),
    ]


@pytest.mark.slow
async def test_tables_are_records_with_their_types(box: Sandbox) -> None:
    code = (
        "import numpy, pandas\n[pandas.DataFrame({'n': [1, 2], 'x': [0.5, None]}), numpy.arange(2), numpy.float32(1.5)]"
    )
    table, array, number = (await box.run(code)).value
    assert table["dtypes"] == {"n": "int64", "x": "float64"}
    assert repr(table["records"]) == "[{'n': 1, 'x': 0.5}, {'n': 2, 'x': nan}]"
    assert (array, number) == ([0, 1], 1.5)


async def test_a_value_whose_repr_fails_does_not_fail_the_run(box: Sandbox) -> None:
    result = await box.run("class Bad:\n    def __repr__(self): raise ValueError('no')\nBad()")
    assert result.success
    assert "Bad object whose repr() raised ValueError" in (result.value_text or "")


@pytest.mark.slow
async def test_a_numpy_number_is_a_json_number(box: Sandbox) -> None:
    result = await box.run("import numpy\nnumpy.int64(7)")
    assert result.value == 7


async def test_rich_forms_come_with_the_value(box: Sandbox) -> None:
    code = "class Rich:\n    def _repr_html_(self): return '<b>hi</b>'\n    def _repr_png_(self): return b'png'\nRich()"
    result = await box.run(code)
    assert result.value_forms == {"text/html": "<b>hi</b>", "image/png": b"png"}


@pytest.mark.slow
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
    assert again.value == (False, False, box.root)


async def test_the_program_is_main(box: Sandbox) -> None:
    assert (await box.run("if __name__ == '__main__':\n    print('yes')")).stdout == "yes\n"


@pytest.mark.slow
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
        "printed = threading.Event()\n"
        "threading.Thread(target=lambda: (time.sleep(0.1), print('thread'), printed.set())).start()\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "ThreadPoolExecutor(1).submit(lambda: (printed.wait(), print('pool')))\n"
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
    code = "import os, time\nprint('first')\nwhile not os.path.exists('seen'): time.sleep(0.01)\nprint('second')"
    async for event in box.stream(code):
        if isinstance(event, Output) and event.text == "first\n":
            await box.write_file("seen", b"")
    assert isinstance(event, Completed)
    assert (event.result.error, event.result.stdout) == (None, "first\nsecond\n")


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
    assert "editable" not in result.error.hint


@pytest.mark.slow
async def test_runs_at_once_do_not_disturb_each_other(box: Sandbox) -> None:
    results = await asyncio.gather(*(box.run(f"import time\ntime.sleep(0.1)\nprint({n})\n{n}") for n in range(8)))
    assert [result.value for result in results] == list(range(8))
    assert [result.stdout for result in results] == [f"{n}\n" for n in range(8)]


@pytest.mark.slow
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


@pytest.mark.slow
async def test_a_number_too_long_to_be_read_back_is_text(box: Sandbox) -> None:
    result = await box.run("import sys\nsys.set_int_max_str_digits(0)\n10 ** 5000")
    assert result.success, result.error
    assert result.value is None
    assert len(result.value_text or "") == 5001
    assert (await box.run("'7' * 5000")).value == "7" * 5000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("2 ** 20000", "value is an integer of more than 4,300 digits; give it as hex()"),
        (
            "'x' * 5_000_000",
            "value: a message of 5,000,012 bytes; the limit is 4,194,304 (a quarter of message_bytes); write it to a"
            " file below output/",
        ),
        (
            "import numpy\nnumpy.zeros(2_000_000)",
            "value is an array of 2,000,000 items, and one of more than 1,000,000 does not cross; write it to a file",
        ),
    ],
    ids=["digits", "bytes", "items"],
)
async def test_a_value_that_is_too_large_says_how_to_give_it(box: Sandbox, code: str, said: str) -> None:
    result = await box.run(code)
    assert result.value is None
    assert result.warnings == (f"the value is there as text only: {said}",)


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


@pytest.mark.slow
async def test_processes_are_forked_where_a_program_says_nothing(box: Sandbox) -> None:
    code = (
        "import multiprocessing\nfrom concurrent.futures import ProcessPoolExecutor\n"
        "def double(n): return 2 * n\n"
        "with ProcessPoolExecutor(2) as pool: found = list(pool.map(double, [1, 2]))\n"
        "[found, multiprocessing.get_start_method()]"
    )
    assert (await box.run(code, timeout=50)).value == [[2, 4], "fork"]


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
async def test_other_programs_of_the_environment_run_as_children(box: Sandbox) -> None:
    code = (
        "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import numpy; print(numpy.arange(3).sum())'])"
    )
    result = await box.run(code)
    assert (result.stdout, result.stderr) == ("3\n", "")


@pytest.mark.slow
@pytest.mark.one_engine_first
async def test_processes_of_joblib_find_the_functions_of_the_program_and_have_no_tools(box: Sandbox) -> None:
    def add(a: int) -> int:
        return a

    code = (
        "from joblib import Parallel, delayed\nOFFSET = 10\nprint('once')\n"
        "def square(n): return n * n + OFFSET\ndef call(n): return add(n)\n"
        "print(Parallel(n_jobs=2, backend='loky')(delayed(square)(n) for n in range(3)))\n"
    )
    result = await box.run(code + "Parallel(n_jobs=2, backend='loky')(delayed(call)(n) for n in range(2))", tools=[add])
    assert result.stdout == "once\n[10, 11, 14]\n", result
    assert result.error is not None
    assert "tools can be called from the program's first process only" in result.error.traceback


@pytest.mark.slow
async def test_modules_that_a_run_leaves_in_the_workspace_do_not_become_the_guests_own(box: Sandbox) -> None:
    """The program's folder comes first on its path, as for every script; what the guest needs is loaded by then."""
    await box.run("for name in ('wire', 'json', 'traceback'): open(name + '.py', 'w').write('raise SystemExit(9)')")
    result = await box.run("print('fine')\n{'a': 1}")
    assert (result.stdout, result.value) == ("fine\n", {"a": 1})
    assert (await box.run("1 / 0")).error.type == "ZeroDivisionError"  # type: ignore[union-attr]


@pytest.mark.one_engine_first
async def test_an_error_for_a_missing_module_that_names_none_has_a_whole_hint(box: Sandbox) -> None:
    error = (await box.run("""raise ModuleNotFoundError("No module named 'x y; …'")""")).error
    assert error is not None and error.hint.startswith("the module is not installed"), error
