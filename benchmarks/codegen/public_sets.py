"""HumanEval, MBPP and BigCodeBench as exercises, from the files of whoever has them. None of their tasks is kept here.

The tests run after the program's lines, in the same interpreter and a fresh sandbox, as the sets' own programs do it.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from actbox.core.errors import InvalidValue

from .exercise import Case, Exercise

_RUN_TEST_CASES = """
import unittest

_outcome = unittest.TestResult()
unittest.defaultTestLoader.loadTestsFromTestCase(TestCases).run(_outcome)
assert _outcome.testsRun and _outcome.wasSuccessful()
"""


def human_eval(path: Path) -> list[Exercise]:
    """Return the exercises of `HumanEval.jsonl`, also as `.gz`.

    A row has `task_id`, `prompt` (imports, signature and docstring), `canonical_solution` (the body), `entry_point` and
    `test` (a function `check(candidate)`).
    """
    return _exercises(path, "HumanEval", ("prompt", "canonical_solution", "test", "entry_point"), _of_human_eval)


def mbpp(path: Path) -> list[Exercise]:
    """Return the exercises of `mbpp.jsonl`, or of `sanitized-mbpp.json`.

    A row has `task_id`, `text` (sanitized: `prompt`), `code`, `test_list` (assertions), and `test_setup_code`
    (sanitized: `test_imports`, a list). The goal shows the first assertion, which has the name of the function.
    """
    return _exercises(path, "MBPP", ("code", "test_list"), _of_mbpp)


def big_code_bench(path: Path) -> list[Exercise]:
    """Return the exercises of BigCodeBench (instruct), as JSON lines or Parquet.

    A row has `task_id`, `instruct_prompt`, `complete_prompt` (imports, signature and docstring), `canonical_solution`
    (the body), `test` (a `unittest.TestCase` named `TestCases`) and `entry_point`. Its programs need many packages
    (`libs`), which the sandbox's environment must have.
    """
    names = ("instruct_prompt", "complete_prompt", "canonical_solution", "test", "entry_point")
    return _exercises(path, "BigCodeBench", names, _of_big_code_bench)


def _of_human_eval(row: Mapping[str, Any]) -> tuple[str, str, str]:
    goal = f"Complete this Python function. Write the whole function, with its imports.\n\n{row['prompt']}"
    return goal, row["prompt"] + row["canonical_solution"], f"{row['test']}\n\ncheck({row['entry_point']})"


def _of_mbpp(row: Mapping[str, Any]) -> tuple[str, str, str]:
    text = row.get("text") or row.get("prompt") or ""
    setup = row.get("test_setup_code") or "\n".join(row.get("test_imports") or ())
    goal = f"{text}\n\nThis has to hold for your Python function: {row['test_list'][0]}"
    return goal, row["code"].replace("\r\n", "\n"), "\n".join([setup, *row["test_list"]])


def _of_big_code_bench(row: Mapping[str, Any]) -> tuple[str, str, str]:
    return row["instruct_prompt"], row["complete_prompt"] + row["canonical_solution"], row["test"] + _RUN_TEST_CASES


def _exercises(
    path: Path, group: str, names: Sequence[str], read: Callable[[Mapping[str, Any]], tuple[str, str, str]]
) -> list[Exercise]:
    found = []
    for number, row in enumerate(_rows(path), start=1):
        missing = [name for name in ("task_id", *names) if not isinstance(row, Mapping) or row.get(name) is None]
        if missing:
            raise InvalidValue(f"{path}: row {number} lacks {', '.join(missing)}, so it is none of {group}")
        goal, right, tests = read(row)
        case = Case(tests=tests)
        name = str(row["task_id"]).removeprefix(f"{group}/")
        found.append(
            Exercise(name=f"{group} {name}", group=group, goal=goal, make=lambda random, case=case: case, right=right)
        )
    return found


def _rows(path: Path) -> list[Any]:
    """Return the rows of a file of JSON lines, of a JSON list, or of Parquet. Raises `InvalidValue`."""
    try:
        if path.suffix == ".parquet":
            import pandas

            return list(json.loads(pandas.read_parquet(path).to_json(orient="records")))
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        text = data.decode()
        if text.lstrip().startswith("["):
            return list(json.loads(text))
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    except ImportError as error:
        raise InvalidValue(f"{path}: Parquet needs pandas and pyarrow ({error}); JSON lines need nothing") from None
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise InvalidValue(f"{path} cannot be read: {error}") from None
