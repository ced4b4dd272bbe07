"""The program in what a model sent as the arguments of `execute_code`, and the sentence where there is none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from actbox.codeact.arguments import NoProgram, program_of, sent_program
from actbox.core.program import MAX_SOURCE_BYTES

PROGRAM = "for i in range(2):\n    print(i)\n"


@pytest.mark.parametrize(
    "arguments",
    [
        {"code": PROGRAM},
        {"code": PROGRAM, "language": "python", "timeout": 5},
        json.dumps({"code": PROGRAM}),
        json.dumps(json.dumps({"code": PROGRAM})),
        {"code": ["for i in range(2):\n", "    print(i)\n"]},
        {"code": f"```python\n{PROGRAM}```"},
        {"code": f"\n```\n{PROGRAM}```\n\n"},
        {"code": f"~~~py\n{PROGRAM}~~~"},
        {"code": f"```python\n{PROGRAM}"},
        {"code": f"````\n{PROGRAM}````"},
        json.dumps({"code": ["```python\n", *PROGRAM.splitlines(keepends=True), "```"]}),
    ],
)
def test_what_is_clearly_meant_is_the_program(arguments: Any) -> None:
    assert program_of(arguments, tool_name="execute_code") == PROGRAM


@pytest.mark.parametrize(
    ("lines", "program"),
    [
        (["x = 1", "print(x)"], "x = 1\nprint(x)"),
        (["x = 1\n", "print(x)"], "x = 1\nprint(x)"),
        (["x = 1"], "x = 1"),
        (["if 1:", "", "    x = 1\n"], "if 1:\n\n    x = 1\n"),
    ],
)
def test_a_list_of_lines_is_the_program_whether_they_end_or_not(lines: list[str], program: str) -> None:
    assert program_of({"code": lines}, tool_name="execute_code") == program


@pytest.mark.parametrize(
    "code",
    [
        "x = '''\n```python\n1\n```\n'''",
        "# ```\n1",
        "Here it is:\n```python\n1\n```",
        "```python\n1\n```\nThat is all.",
        "```python\n1\n```\n```python\n2\n```",
        "  1",
    ],
)
def test_what_is_not_one_fenced_block_alone_stays_as_it_is(code: str) -> None:
    assert program_of({"code": code}, tool_name="execute_code") == code


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (None, "was given nothing for its arguments"),
        ([], "was given a list for its arguments"),
        ([{"code": "1"}], "was given a list for its arguments"),
        (7, "was given a number for its arguments"),
        (True, "was given true or false for its arguments"),
        (b'{"code": "1"}', "was given bytes for its arguments"),
        ("7", "was given a number for its arguments"),
        ("null", "was given nothing for its arguments"),
        ("", "the arguments are no JSON"),
        ("print(1)", "the arguments are no JSON"),
        ('{"code": "1"', "the arguments are no JSON"),
        ('"print(1)"', "the arguments are no JSON"),
        (json.dumps(json.dumps(json.dumps({"code": "1"}))), "was given text for its arguments"),
        ("[" * 100_000, "the arguments are no JSON"),
        ("9" * 5_000, "the arguments are no JSON"),
        ({}, "have no 'code', they are empty"),
        ("{}", "have no 'code', they are empty"),
        ({"source": "1", "lang": "py"}, "have no 'code', they have 'source', 'lang'"),
        ({"code": None}, "'code' is nothing"),
        ({"code": 7}, "'code' is a number"),
        ({"code": {"text": "1"}}, "'code' is an object"),
        ({"code": []}, "'code' is a list"),
        ({"code": ["1", 2]}, "'code' is a list"),
        ({"code": ""}, "'code' is empty"),
        ({"code": " \n\t"}, "'code' is empty"),
        ({"code": ["", "\n"]}, "'code' is empty"),
        ({"code": "```python\n```"}, "'code' is empty"),
        ({"code": "```\n\n```"}, "'code' is empty"),
        ({"code": "#" * (MAX_SOURCE_BYTES + 1)}, "'code' has more than"),
    ],
)
def test_what_is_no_program_gets_a_sentence_that_says_how_to_send_one(arguments: Any, words: str) -> None:
    with pytest.raises(NoProgram) as raised:
        program_of(arguments, tool_name="run_python")
    assert words in str(raised.value)
    assert len(str(raised.value)) < 500
    assert '"code"' in str(raised.value) or "put data into files" in str(raised.value)


def test_packages_are_taken_where_programs_may_ask_for_them_and_refused_elsewhere() -> None:
    sent = {"code": "1", "dependencies": ["openpyxl>=3.1"], "language": "python"}
    assert sent_program(sent, tool_name="t", packages=True) == ("1", ("openpyxl>=3.1",))
    assert sent_program({**sent, "dependencies": "six"}, tool_name="t", packages=True).dependencies == ("six",)
    assert program_of({**sent, "dependencies": []}, tool_name="t") == "1"
    with pytest.raises(NoProgram, match="t takes no 'dependencies': send the program without it"):
        program_of(sent, tool_name="t")
    with pytest.raises(NoProgram, match="t takes no 'language', only code and dependencies"):
        sent_program(sent, tool_name="t", packages=True, only_known=True)
    for wrong in (7, {"six": "1"}, ["six", 7]):
        with pytest.raises(NoProgram, match="is a list of requirements as text"):
            sent_program({**sent, "dependencies": wrong}, tool_name="t", packages=True)


def test_keys_that_nobody_would_read_are_not_repeated_at_length() -> None:
    with pytest.raises(NoProgram) as raised:
        program_of({"x" * 100_000: "1"}, tool_name="execute_code")
    assert len(str(raised.value)) < 500


def test_a_large_program_is_taken_as_it_is() -> None:
    program = "x = 1  # " + "y" * 300_000
    assert program_of(json.dumps({"code": program}), tool_name="execute_code") == program
