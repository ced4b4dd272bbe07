"""Replies of models: every form in which a program comes, and the replies that have none."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from actbox.codeact.model import Message, ModelReply, ScriptedModel, ToolCall, ToolSpec, complete
from actbox.codegen.protocol import MOST_REPLY_CHARS, response_of
from actbox.codegen.response import RESPONSE, CodingResponse

SPECIFIED = {
    "code": "import pandas as pd\nimport matplotlib\n",
    "language": "python",
    "dependencies": ["pandas", "matplotlib"],
    "entry_point": "main()",
    "input_parsing": "CSV file read from stdin or first arg",
    "output_format": "PNG written to /output/chart.png",
    "explanation": "Uses pandas for data loading, groups by...",
    "tests": "def test_chart_creation(): ...",
    "estimated_runtime_ms": 2000,
}
"""The response of the specification's section 7.2."""


def read(text: str = "", *calls: ToolCall, language: str = "python", cut: bool = False) -> CodingResponse:
    return response_of(ModelReply(text, calls, cut=cut), language)


@pytest.mark.parametrize("form", ["{}", "Here it is:\n```json\n{}\n```\nDone.", "```\n{}\n```"])
def test_the_response_of_the_specification_is_read_from_json(form: str) -> None:
    found = read(form.replace("{}", json.dumps(SPECIFIED)))
    assert {name: getattr(found, name) for name in SPECIFIED} == {**SPECIFIED, "dependencies": ("pandas", "matplotlib")}
    assert (found.form, found.noted) == ("json", ())
    assert json.loads(found.model_dump_json()) == {**SPECIFIED, "files": {}}


@pytest.mark.parametrize("name", [RESPONSE.name, "execute_code"])
def test_a_call_has_the_response_in_its_arguments(name: str) -> None:
    for arguments in ({"code": "print(1)"}, '{"code": "print(1)"}'):
        found = read("Now:", ToolCall("c1", name, arguments))
        assert (found.code, found.form, found.call_id, found.noted) == ("print(1)", "call", "c1", ())


def test_a_call_of_a_tool_that_does_not_exist_is_taken_only_with_code_in_it() -> None:
    with_code = read("", ToolCall("c1", "run_python", {"code": "print(1)"}))
    assert with_code.code == "print(1)"
    assert "'run_python', which does not exist" in with_code.noted[0]
    for reply in (
        read("", ToolCall("c1", "search", {"query": "tea"})),
        read('{"name": "search", "arguments": {"query": "tea"}}'),
    ):
        assert (reply.form, reply.has_program) == ("unknown_tool", False)
        assert "'search', which does not exist" in reply.noted[0]


def test_a_block_has_the_program_and_the_words_around_it_explain() -> None:
    found = read("I group by region.\n\n```python\nprint(1)\n```\n\nThat is all.")
    assert (found.code, found.form, found.language) == ("print(1)\n", "blocks", "python")
    assert found.explanation == "I group by region.\n\nThat is all."


@pytest.mark.parametrize(
    "text",
    [
        "```python app/main.py\nA = 1\n```\n```python app/core.py\nB = 2\n```",
        '```python:app/main.py\nA = 1\n```\n```py title="app/core.py"\nB = 2\n```',
        "### app/main.py\n```python\nA = 1\n```\n**`app/core.py`**:\n\n```python\nB = 2\n```",
        "```python\n# app/main.py\nA = 1\n```\n```python\n# file: app/core.py\nB = 2\n```",
    ],
    ids=["after the language", "with a colon", "on the line before", "in a comment"],
)
def test_several_files_are_named_in_any_usual_way(text: str) -> None:
    found = read(text)
    assert list(found.files) == ["app/main.py", "app/core.py"]
    assert found.code == ""
    assert "A = 1" in found.files["app/main.py"]


@pytest.mark.parametrize(("language", "suffix"), [("kotlin", "kt"), ("ruby", "rb"), ("perl", "pl"), ("rust", "rs")])
def test_files_have_the_suffix_of_their_language(language: str, suffix: str) -> None:
    found = read(f"```{language} lib/sum.{suffix}\none\n```\n```{language}\ntwo\n```", language=language)
    assert list(found.files) == [f"main.{suffix}", f"lib/sum.{suffix}"]


def test_blocks_without_names_are_one_program() -> None:
    assert read("```python\nx = 1\n```\nand then\n```python\nprint(x)\n```").code == "x = 1\n\nprint(x)\n"


def test_tests_requirements_and_data_beside_the_program_are_told_apart() -> None:
    found = read(
        "```requirements\npandas>=2\n# a comment\n```\n"
        "```bash\npip install -q openpyxl 'rich>=13'\n```\n"
        "```python main.py\nimport core\ncore.run()\n```\n"
        "```python core.py\ndef run(): ...\n```\n"
        "```json settings.json\n{}\n```\n"
        "```python test_core.py\nimport core\ndef test_run(): assert core.run() is None\n```\n"
    )
    assert list(found.files) == ["main.py", "core.py", "settings.json"]
    assert "def test_run" in found.tests
    assert found.dependencies == ("pandas>=2", "openpyxl", "rich>=13")


def test_comments_at_the_top_of_a_program_name_its_packages() -> None:
    assert read("```python\n# requirements: pandas>=2, openpyxl\nimport pandas\n```").dependencies == (
        "pandas>=2",
        "openpyxl",
    )
    assert read("```python\n# pip install rich\nprint(1)\n```").dependencies == ("rich",)


def test_an_answer_that_is_only_code_is_a_program_and_says_so() -> None:
    found = read("import math\nprint(math.factorial(100))\n")
    assert (found.code, found.form) == ("import math\nprint(math.factorial(100))\n", "code")
    assert "code alone" in found.noted[0]
    assert read("const x = [1, 2];\nconsole.log(x.length);", language="javascript").form == "code"
    assert read("(reduce + 0 (get inputs :values))", language="rtfs").form == "code"


def test_another_language_is_a_program_in_that_language() -> None:
    found = read("```js\nconsole.log(1)\n```")
    assert (found.language, found.code) == ("javascript", "console.log(1)\n")
    assert read("```js\nconsole.log(1)\n```", language="typescript").code == "console.log(1)\n"
    assert read("```js\nconsole.log(1)\n```", language="auto").language == "javascript"
    assert read("print(1)", language="auto").language == "python"


def test_the_language_that_was_asked_for_is_taken_out_of_several() -> None:
    assert read("```js\nconsole.log(1)\n```\n```python\nprint(1)\n```").code == "print(1)\n"


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("", "nothing"),
        ("   \n", "nothing"),
        ("I cannot do that.", "words"),
        ("The total is 42 (see above), as f(x) says.", "words"),
        ("<!DOCTYPE html>\n<html><body>502 Bad Gateway</body></html>", "html"),
        ('{"code": "import os\\nprint(', "cut"),
        ('```json\n{"code": "import os', "cut"),
        ('{"code": ""}', "nothing"),
        ("```text\nregion  amount\nnorth   3\n```", "words"),
        ("print(1)\n" * (MOST_REPLY_CHARS // 9 + 1), "too_long"),
    ],
)
def test_a_reply_without_a_program_says_what_it_was(text: str, form: str) -> None:
    found = read(text)
    assert (found.form, found.has_program) == (form, False)
    assert len(found.noted) == 1


def test_half_an_answer_is_a_program_that_says_so() -> None:
    for found in (read("```python\nimport os\nfor x in"), read("```python\nprint(1)\n```", cut=True)):
        assert found.has_program
        assert "in the middle" in found.noted[0]


def test_fields_that_cannot_be_read_are_left_out_and_the_rest_is_kept() -> None:
    found = read(
        json.dumps(
            {
                "code": ["import os", "print(os)"],
                "language": "Python 3.12",
                "dependencies": "pandas, numpy",
                "estimated_runtime_ms": "about a second",
                "files": {"../../etc/passwd": "x"},
                "entry_point": {"call": "main"},
                "confidence": 0.9,
            }
        )
    )
    assert (found.code, found.language, found.dependencies) == ("import os\nprint(os)", "python", ("pandas", "numpy"))
    assert (found.files, found.entry_point, found.estimated_runtime_ms) == ({}, "", None)
    assert len(found.noted) == 2


def test_code_in_a_fence_within_json_is_unwrapped_and_line_ends_in_strings_are_allowed() -> None:
    assert read('{"code": "```python\nprint(1)\n```"}').code == "print(1)\n"


def test_files_come_as_a_list_or_by_path() -> None:
    for files in ([{"path": "a.py", "content": "A = 1"}], {"./a.py": "A = 1"}):
        assert read(json.dumps({"files": files})).files == {"a.py": "A = 1"}


@pytest.mark.parametrize(
    ("given", "kept", "notes"),
    [
        (["json", "math", "os.path"], (), 3),
        (["sklearn", "PIL>=10", "cv2"], ("scikit-learn", "pillow>=10", "opencv-python-headless"), 3),
        (["none", "N/A", "", "- pandas"], ("pandas",), 0),
        (
            ["pandas[excel]>=2,<3", "numpy; python_version>'3.8'"],
            ("pandas[excel]>=2,<3", "numpy; python_version>'3.8'"),
            0,
        ),
        (["--index-url http://x", "rm -rf /"], (), 2),
    ],
)
def test_dependencies_are_requirements_and_what_is_none_is_left_out(
    given: list[str], kept: tuple[str, ...], notes: int
) -> None:
    found = read(json.dumps({"code": "print(1)", "dependencies": given}))
    assert found.dependencies == kept
    assert len(found.noted) == notes


def test_the_schema_of_the_response_holds_for_what_is_read() -> None:
    assert set(RESPONSE.input_schema["properties"]) == set(CodingResponse.model_fields) - {"form", "noted", "call_id"}
    assert set(RESPONSE.input_schema["required"]) == set(RESPONSE.input_schema["properties"])


async def test_only_a_model_with_structured_output_is_given_the_schema() -> None:
    class Structured:
        name = "structured"
        has_structured_output = True
        given: ToolSpec | None = None

        async def complete(
            self, messages: Sequence[Message], tools: Sequence[ToolSpec], output: ToolSpec | None = None
        ) -> ModelReply:
            self.given = output
            return ModelReply(json.dumps(SPECIFIED))

    model: Any = Structured()
    assert response_of(await complete(model, [], [], RESPONSE)).form == "json"
    assert model.given is RESPONSE
    assert response_of(await complete(ScriptedModel(["```python\n1\n```"]), [], [], RESPONSE)).form == "blocks"
