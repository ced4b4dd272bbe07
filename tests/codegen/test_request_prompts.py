"""The texts by which a model is asked for a program."""

from __future__ import annotations

import pytest

import actbox
from actbox.codeact.final_answer import FinalAnswer
from actbox.codeact.model import ModelReply
from actbox.codegen import Constraints, Example, Task
from actbox.codegen.protocol import response_of
from actbox.codegen.request_prompts import first_request, instructions, request_for_tests, without_program
from actbox.tools import Toolset


def search(query: str) -> list[str]:
    """Search."""
    return [query]


@pytest.mark.parametrize(("language", "words"), [("python", "def search(query: str)"), ("javascript", "search(args")])
def test_instructions_say_how_to_answer_and_which_tools_there_are(language: str, words: str) -> None:
    traits = actbox.open_sandbox("process", allow_unisolated=True).traits
    tools = Toolset.of([search]).with_tools(FinalAnswer().tool)
    text = instructions(tools, traits, language=language, guidance="Write clean code.")
    assert text.startswith("Write clean code.\n\n")
    assert f"one fenced ```{language} block" in text
    assert "final_answer(value)" in text
    assert words in text
    by_schema = instructions(tools, traits, language=language, by_schema=True)
    assert "JSON object of the given schema" in by_schema
    assert f"If you see no schema, answer with the program in one fenced ```{language} block" in by_schema


def test_instructions_are_there_for_languages_that_nothing_runs() -> None:
    traits = actbox.open_sandbox("process", allow_unisolated=True).traits
    text = instructions(Toolset.of([search]), traits, language="rust")
    assert "You write rust programs" in text and "```rust app/main.rs" in text
    assert "## RTFS" in instructions(Toolset(), traits, language="rtfs")


def test_a_request_has_all_that_the_task_says() -> None:
    task = Task(
        "Total by region.",
        inputs={"rows": [1, 2]},
        outputs=["chart.png"],
        declared={"sales.csv": "region,amount"},
        context="For the board.",
        constraints=Constraints(max_lines=40, dependencies_allowed=False, max_dependencies=0, timeout_ms=500),
        examples=[Example(1, 2), Example("...", "...")],
        output_requirements=["PNG image"],
    )
    assert first_request(task) == (
        "Total by region.\n\n"
        "For the board.\n\n"
        "Input files, below input/:\n- sales.csv: not given; its columns are said to be region,amount\n\n"
        "Variables that the program has already:\n- rows = [1, 2]\n\n"
        "Required of the outcome:\n- the file output/chart.png\n- PNG image\n\n"
        "Constraints:\n- at most 40 lines of code\n- the standard library alone, no other packages\n"
        "- it must end within 500 ms\n\n"
        "Examples of input and expected output:\n- 1 gives 2"
    )
    assert "Each test must fail" in request_for_tests(task)


def test_a_reply_without_a_program_is_answered_with_what_it_was() -> None:
    said = without_program(response_of(ModelReply("<html>503</html>")), "python")
    assert said == (
        "The answer was a web page (HTML), not a program. Send one whole program, in one fenced ```python block."
    )
