"""Whatever is given, a review ends and says what it could not read."""

from __future__ import annotations

import ast
import importlib.util
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from actbox import Program
from actbox.review import review, tool_calls
from actbox.review.values import Names

UNPARSABLE = {
    "an open bracket": "x = (",
    "a null byte": "x = 1\ny = '\0'",
    "a lone surrogate": "x = '\ud800'",
    "bad indentation": "if 1:\npass",
    "many brackets": "(" * 100_000,
    "many signs": "-" * 100_000 + "1",
    "prose": "I will now search for rivers.",
}


@pytest.mark.parametrize("source", UNPARSABLE.values(), ids=UNPARSABLE.keys())
def test_source_that_does_not_parse_is_one_finding(source: str) -> None:
    (finding,) = review(source).findings
    assert finding.rule == "syntax" and finding.line >= 1 and finding.message


def test_the_place_of_a_syntax_error_is_told() -> None:
    (finding,) = review("x = 1\n\ndef f(:\n").findings
    assert (finding.line, finding.column, finding.source) == (3, 7, "def f(:")


def test_an_escape_that_python_warns_of_is_no_error() -> None:
    assert review(r"x = '\d'").findings == ()


def test_shell_commands_are_not_read() -> None:
    (finding,) = review(Program("rm -rf /", language="bash")).findings
    assert finding.rule == "not-read" and "bash" in finding.message


def test_a_byte_order_mark_is_dropped() -> None:
    assert [finding.rule for finding in review("\ufeffeval('1')").findings] == ["code"]


DEEP = {
    "calls": "import os\nos.system" + "('x')" * 2000,
    "attributes": "import os\nos" + ".path.os" * 1000 + ".system('x')",
    "sums": "x = " + "+".join(["'a'"] * 3000),
    "elif": "if a: pass\n" + "elif a: pass\n" * 500,
    "lambdas": "lambda: " * 150 + "eval('1')",
    "chained names": "".join(f"x{n} = x{n + 1}\n" for n in range(3000)) + "x3000 = eval",
    "doubling texts": "x = 'a'\n" + "x += x\n" * 100,
    "doubling lists": "x = []\n" + "x = [x, x]\n" * 100 + "for y in x: x += y\n",
    "doubling paths": "import os\nx0 = 'a'\n" + "".join(f"x{n + 1} = os.path.join(x{n}, x{n})\n" for n in range(60)),
    "references": "import os\n" + "".join(f"x = os.a{n}\n" for n in range(200)) + "x.system('x')\n" * 200,
    "mixed names": "\n".join(f"x{n} = x{(n * 7) % 50} + x{(n * 3) % 50}\nx{n} += {n}" for n in range(50)),
    "long numbers": "x = " + "9" * 4000,
    "one long line": "x = 1;" * 20_000,
}


@pytest.mark.slow
@pytest.mark.parametrize("source", DEEP.values(), ids=DEEP.keys())
def test_deep_and_wide_source_is_read_or_said_not_to_be(source: str) -> None:
    rules = {finding.rule for finding in review(source).findings}
    dangerous = "system" in source or "eval" in source
    assert not dangerous or rules & {"process", "code", "not-read", "syntax"}


IN_PROPORTION = {
    "a chain of calls": lambda n: "y = x\nx = a" + ".b()" * n,
    "calls in calls": lambda n: "y = x\nx = " + "f(" * n + ")" * n,
    "joined texts": lambda n: "y = x\nx = " + "''.join([" * n + "])" * n,
    "names": lambda n: "".join(f"x{m + 1} = x{m}.b(x{m})\n" for m in range(n)),
}


@pytest.mark.parametrize("source", IN_PROPORTION.values(), ids=IN_PROPORTION.keys())
def test_twice_the_source_takes_twice_the_evaluations(
    source: Callable[[int], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluated: list[ast.expr] = []
    original = Names.values
    monkeypatch.setattr(
        Names, "values", lambda self, node, scope: evaluated.append(node) or original(self, node, scope)
    )

    def evaluations(length: int) -> int:
        evaluated.clear()
        assert {finding.rule for finding in review(source(length)).findings} == set()
        return len(evaluated)

    assert evaluations(20) < 3 * evaluations(10)


@pytest.mark.slow
def test_names_that_are_made_of_each_other_are_given_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    source = "".join(f"h = x{n}\n" for n in range(1000)) + "".join(f"x{n} = h\n" for n in range(1000))
    evaluated: list[ast.expr] = []
    original = Names.values
    monkeypatch.setattr(
        Names, "values", lambda self, node, scope: evaluated.append(node) or original(self, node, scope)
    )
    assert [finding.rule for finding in review(source).findings] == ["not-read"]
    assert len(evaluated) < 20 * len(source)


@pytest.mark.slow
def test_a_program_with_much_data_in_it_is_read() -> None:
    assert review("x = [" + "1, " * 50_000 + "]\n" + "y = x\n" * 100).findings == ()


def test_source_that_is_too_large_is_said_not_to_be_read() -> None:
    (finding,) = review("x = 1\n" * 2**18).findings
    assert finding.rule == "not-read"


STDLIB = Path(sysconfig.get_path("stdlib"))
FOLDERS = sorted({path.relative_to(STDLIB).parts[0] for path in STDLIB.glob("*/*.py")} - {"site-packages", "test"})


def _readable(path: Path) -> str | None:
    try:
        return importlib.util.decode_source(path.read_bytes())
    except (SyntaxError, UnicodeDecodeError):
        return None


# One letter of the alphabet in each run of the suite, all of it in the long one.
OTHERS = ["[!h]*.py", *(f"{name}/**/*.py" for name in FOLDERS)]


@pytest.mark.parametrize("pattern", ["h*.py", *(pytest.param(other, marks=pytest.mark.long) for other in OTHERS)])
def test_the_standard_library_is_read_to_the_end(pattern: str) -> None:
    for path in STDLIB.glob(pattern):
        source = None if {"test", "tests"} & set(path.parts) else _readable(path)
        if source is None:
            continue  # test data, some of it wrong on purpose
        unread = [finding for finding in review(source).findings if finding.rule in ("syntax", "not-read")]
        if "lib2to3" in path.parts:
            continue  # has Python 2 in its tests
        assert not unread, (path, unread)


@pytest.mark.slow
def test_modules_that_only_compute_have_no_grave_findings() -> None:
    for name in ("heapq", "bisect", "statistics", "textwrap", "colorsys", "fractions", "calendar", "difflib", "string"):
        source = _readable(STDLIB / f"{name}.py")
        if source is None:
            source = (STDLIB / name / "__init__.py").read_text()
        grave = {finding.rule for finding in review(source).findings}
        assert not grave & {"process", "network", "native", "unpickle", "system-read", "system-write", "delete-tree"}, (
            name
        )


def test_reading_runs_nothing(tmp_path: Path) -> None:
    review(f"open({str(tmp_path / 'x')!r}, 'w')")
    tool_calls(f"open({str(tmp_path / 'x')!r}, 'w')")
    assert list(tmp_path.iterdir()) == []
