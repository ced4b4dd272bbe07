"""What a model is told that acts by programs in fenced blocks alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from actbox.codeact.block_instructions import block_instructions
from actbox.codeact.final_answer import FinalAnswer
from actbox.core.errors import Unsupported
from actbox.sandbox.traits import Traits
from actbox.tools import Tool, Toolset

TRAITS = Traits(engine="some", isolation="walls", isolated=True, network="none", sessions=True)


def add(first: int, second: int) -> int:
    """Add two numbers. Written as ```add```."""
    return first + second


TOOLS = Toolset([Tool.from_function(add), FinalAnswer().tool])


@pytest.mark.parametrize(
    ("language", "name", "answers", "declares"),
    [
        ("python", "Python", "call final_answer(value)", "def add(first: int, second: int) -> int:"),
        ("javascript", "JavaScript", "call await final_answer(value)", "function add("),
        ("typescript", "TypeScript", "call await final_answer(value)", "function add("),
    ],
)
def test_programs_are_described_in_their_language(language: str, name: str, answers: str, declares: str) -> None:
    text = block_instructions(TOOLS, TRAITS, language=language)
    assert text.startswith(f"You solve tasks by writing {name} programs")
    assert f"fenced ```{language} block" in text
    assert "Blocks of other languages, such as ```text, are not run" in text
    assert answers in text
    assert declares in text
    assert ("ImportError" in text) == (language == "python")


def test_the_answer_is_called_like_the_other_functions() -> None:
    assert "call final_answer(value) in a program, like any of the functions below, or" in block_instructions(
        TOOLS, TRAITS
    )


def test_rtfs_is_told_of_no_await_which_it_does_not_have() -> None:
    text = block_instructions(TOOLS, TRAITS, language="rtfs")
    assert "def add(first: int, second: int) -> int:" in text
    assert "await" not in text


def test_a_declaration_cannot_end_its_fence() -> None:
    text = block_instructions(TOOLS, TRAITS)
    assert text.count("````") == 3  # one of them is the rule on longer fences
    assert text.rstrip().endswith("````")


def test_a_language_that_nothing_is_known_of_is_refused() -> None:
    with pytest.raises(Unsupported, match="'cobol'; there are: python, javascript, typescript, rtfs"):
        block_instructions(TOOLS, TRAITS, language="cobol")


def test_it_says_whether_state_is_kept() -> None:
    kept, fresh = (block_instructions(TOOLS, TRAITS, keeps_state=keeps) for keeps in (True, False))
    assert "share one interpreter" in kept
    assert "starts fresh" not in kept
    assert "starts fresh" in fresh
    assert "share one interpreter" not in fresh


def test_it_says_how_long_state_is_kept() -> None:
    kept, kept_on = (block_instructions(TOOLS, TRAITS, keeps_state=True, keeps_on=keeps) for keeps in (False, True))
    assert "until you have answered. Those of earlier requests are gone" in kept
    assert "also with those of earlier requests" in kept_on
    assert "are gone" not in kept_on


def test_it_promises_nothing_that_the_engine_lacks() -> None:
    bare = replace(TRAITS, files=False, python="subset", packages="none at all")
    text = block_instructions(Toolset(), bare, guidance=" Be brief. ")
    assert text.startswith("Be brief.\n\nYou solve")
    assert "Of Python there is: subset; packages: none at all." in text
    for lacking in ("/workspace", "/output", "final_answer", "functions", "CPython"):
        assert lacking not in text.replace("variables, functions", "")


@pytest.mark.parametrize(
    ("folders", "says"),
    [
        ({}, ("Programs start in /workspace; files below it stay", "below /output.")),
        (
            {"root": "/tmp/a/workspace"},
            ("Programs start in /tmp/a/workspace; files below it stay", "below /tmp/a/workspace/output."),
        ),
        (
            {"working_dir": "/workspace/project"},
            ("Programs start in /workspace/project. Files below /workspace stay.", "below /output."),
        ),
        ({"root": ""}, ("Programs start in a directory of the sandbox; files in it stay", "when a program ends.")),
        ({"root": "", "working_dir": "/srv/project"}, ("Programs start in /srv/project.\n", "when a program ends.")),
    ],
)
def test_folders_are_those_of_the_sandbox(folders: dict[str, str], says: tuple[str, ...]) -> None:
    text = block_instructions(TOOLS, TRAITS, **folders)  # type: ignore[arg-type]
    assert all(sentence in text for sentence in says)
    assert ("/workspace" in text) == ("/workspace" in "".join(says))
