"""What docs/engines/kit.md says can be done: its modules are test modules, and its program runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from actbox.sandbox.contract import Sandbox, Session
from actbox.sandbox.storage import Files
from actbox.testing import SandboxContract, escape_attempts
from actbox.testing.__main__ import with_plugin
from tests.code_blocks import Block, blocks_of, check_python
from tests.conftest import engine_check

_PAGE = Path(__file__).resolve().parents[2] / "docs" / "engines" / "kit.md"
_PYTHON = [block for block in blocks_of(_PAGE) if block.language == "python"]
_MODULES = [block for block in _PYTHON if "SandboxContract" in block.code]
# What the page says of one that is only begun.
_CASES_OF = {"TestBare": "TraitsCases or LifecycleCases or FileCases or CommandCases"}
# One case of each kind; an engine's own tests have all of them.
_CASES = "test_an_empty_program_succeeds or test_numbers_are_large or test_a_copy_can_be_copied_again or environment"


def _class_in(block: Block) -> str:
    return block.code.partition("(SandboxContract)")[0].rpartition("class ")[2]


@pytest.fixture(autouse=True)
def an_isolated_engine() -> None:
    found = engine_check("linux")
    if not found.works:
        pytest.skip(f"the page opens the linux engine, which does not work here: {found.reason}")


@pytest.mark.slow
@pytest.mark.parametrize("block", _MODULES, ids=lambda block: f"line {block.line}")
def test_a_module_of_the_page_is_a_test_module(block: Block, tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(block.code)
    cases = _CASES_OF.get(_class_in(block), _CASES)
    command = [sys.executable, "-m", "pytest", *with_plugin(), "-q", "-c", "/dev/null", "--confcutdir", ".", "."]
    done = subprocess.run(
        [*command, "-k", cases],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{_class_in(block)}: what this sandbox lacks, and refuses as it should" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    "block", [block for block in _PYTHON if block not in _MODULES], ids=lambda block: f"line {block.line}"
)
def test_a_program_of_the_page_prints_what_it_says(block: Block, tmp_path: Path) -> None:
    check_python(block, tmp_path)


def test_the_page_names_what_a_sandbox_has_to_have_and_has() -> None:
    rows = dict(re.findall(r"^\| (required.*|built.*|provided.*) \| (.*) \|$", _PAGE.read_text(), re.MULTILINE))
    named = {what: set(re.findall(r"`(\w+)`", names)) for what, names in rows.items()}
    assert named["required"] | named["required for files"] == Sandbox.__abstractmethods__
    assert named["required for files"] == Files.__abstractmethods__
    public = {name for name in dir(Sandbox) if not name.startswith("_")}
    assert named["built from these"] | named["provided, raises `Unsupported`"] == (public - Sandbox.__abstractmethods__)
    of_a_session = re.search(
        r"a `Session`, for which you write (.*?) and the file methods", _PAGE.read_text(), re.DOTALL
    )
    assert of_a_session is not None
    assert set(re.findall(r"`(\w+)`", of_a_session[1])) == Session.__abstractmethods__ - Files.__abstractmethods__


def test_the_page_names_every_group_of_cases() -> None:
    groups = {kind.__name__ for kind in SandboxContract.__mro__ if kind.__name__.endswith("Cases")} - {"Cases"}
    assert set(re.findall(r"`(\w+Cases)`", _PAGE.read_text())) == groups


@pytest.mark.slow
def test_the_groups_are_tried_in_the_order_of_the_page() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *with_plugin(), "--pyargs", "actbox.testing.suite", "--collect-only", "-q"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    found = re.findall(r"::TestContract::(test_\w+)", done.stdout)
    group_of = {name: group.__name__ for group in SandboxContract.__mro__ for name in vars(group) if "test_" in name}
    of_the_page = re.search(r"The groups, in an order in which you can build: (.*?)\.\n", _PAGE.read_text(), re.DOTALL)
    assert of_the_page is not None
    assert list(dict.fromkeys(group_of[name] for name in found)) == re.findall(r"`(\w+)`", of_the_page[1])


def test_there_are_as_many_attempts_as_the_page_says() -> None:
    assert 65 <= len(escape_attempts()) <= 80
