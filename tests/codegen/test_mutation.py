"""Mutants of programs."""

from __future__ import annotations

import ast
import textwrap

import pytest

from actbox.codegen.mutation import hollow, mutants

PROGRAM = textwrap.dedent(
    '''\
    """Totals."""

    import math


    def total(rows: "list[int]", least: int = 0) -> int:
        """Return the total of 3 rows."""
        found = 0
        for row in rows:
            if row > least and row not in (7, 8):
                found = found + row
        return found


    def name():
        return f"total of {1 + 1}"


    if __name__ == "__main__":
        print(total([1, 2]))
    '''
)


def test_each_mutant_is_a_program_with_one_fault_on_a_line_of_its_own() -> None:
    lines = PROGRAM.split("\n")
    made = list(mutants(PROGRAM))
    assert len({mutant.source for mutant in made}) == len(made) > 8
    for mutant in made:
        ast.parse(mutant.source)
        changed = mutant.source.split("\n")
        assert len(changed) == len(lines)
        assert [number for number, line in enumerate(changed, 1) if line != lines[number - 1]] == [mutant.line]


def test_the_seed_alone_decides_the_order() -> None:
    first = [str(mutant) for mutant in mutants(PROGRAM, seed=1)]
    assert first == [str(mutant) for mutant in mutants(PROGRAM, seed=1)]
    assert first != [str(mutant) for mutant in mutants(PROGRAM, seed=2)]
    assert sorted(first) == sorted(str(mutant) for mutant in mutants(PROGRAM, seed=2))


def test_values_comparisons_operators_and_constants_change() -> None:
    made = {(mutant.before, mutant.after) for mutant in mutants(PROGRAM)}
    assert {
        ("found", "None"),
        ("row > least", "row <= least"),
        ("row not in (7, 8)", "row in (7, 8)"),
        ("found + row", "found - row"),
        ("7", "8"),
    } <= made


def test_docstrings_annotations_f_strings_and_the_main_guard_stay_as_they_are() -> None:
    for mutant in mutants(PROGRAM):
        assert '"""Return the total of 3 rows."""' in mutant.source
        assert '"list[int]"' in mutant.source
        assert "of {1 + 1}" in mutant.source or mutant.before.startswith("f")
        assert 'if __name__ == "__main__":' in mutant.source


def test_the_named_functions_come_first() -> None:
    made = list(mutants("def a():\n    return 1\ndef b():\n    return 2 + 3\n", first={"b"}))
    assert [mutant.line for mutant in made] == [4] * (len(made) - 2) + [2, 2]


def test_a_value_over_several_lines_leaves_the_others_where_they_are() -> None:
    (mutant, *_) = mutants("def f(a, é):\n    return (a ==\n        é)\nx = f\n")
    assert mutant.source == "def f(a, é):\n    return (None)\n\nx = f\n"
    assert mutant.before == "a == é"


@pytest.mark.parametrize("source", ["", "def", "\0", "x = [" + "(" * 500, "import math"])
def test_a_program_without_anything_to_change_has_no_mutants(source: str) -> None:
    assert list(mutants(source)) == []


def test_a_hollow_program_has_all_names_and_does_nothing() -> None:
    scope: dict[str, object] = {"__name__": "hollow"}
    exec(hollow(PROGRAM), scope)
    assert scope["total"]([1]) is None  # type: ignore[operator]
    assert (hollow("def"), hollow("x = 1")) == ("def", "x = 1")
