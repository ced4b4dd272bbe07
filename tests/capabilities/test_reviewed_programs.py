"""`execute.python` and `execute.javascript` block the specification's risky patterns unless they are told otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from actbox.capabilities.outcome import Outcome
from actbox.capabilities.standard import standard_registry
from actbox.codeact import CallbackApprover
from actbox.review import Rules, javascript_tree

PYTHON = "import subprocess as s\nprint(s.run(['true']).returncode)"
JAVASCRIPT = "const {exec: go} = require('node:child_process')\ngo('ls')"


async def outcome_of(code: str, *, capability: str = "execute.python", given: Any = None, **settings: Any) -> Outcome:
    async with standard_registry(
        engine="process", allow_unisolated=True, granted=["compute"], javascript_environment="host", **settings
    ) as registry:
        return await registry.invoke(capability, {"code": code, **(given or {})})


async def test_a_blocked_program_does_not_run_and_the_refusal_names_rule_and_line() -> None:
    done = await outcome_of(PYTHON)
    assert done.error is not None and not done.ok
    assert (done.error.kind, done.error.step) == ("refused", "validate_input")
    assert "line 2: process: calls subprocess.run" in done.error.message
    assert done.engine == ""


@pytest.mark.parametrize("rules", [None, Rules.preset("spec", {"process": "allow"})], ids=["none", "other verdicts"])
async def test_it_runs_where_it_is_configured_otherwise(rules: Rules | None) -> None:
    done = await outcome_of(PYTHON, rules=rules)
    assert done.ok and done.output["stdout"] == "0\n"
    assert done.warnings == ()


async def test_warnings_are_those_of_the_outcome() -> None:
    done = await outcome_of("import os\nos.popen('true').close()")
    assert done.ok and "review: line 2: process: calls os.popen" in done.warnings[0]


async def test_nobody_is_asked_about_a_program_that_is_blocked() -> None:
    asked: list[object] = []
    async with standard_registry(approver=CallbackApprover(asked.append)) as registry:  # type: ignore[arg-type]
        done = await registry.invoke("execute.python", {"code": PYTHON})
        assert done.error is not None and done.error.step == "validate_input" and not asked
        done = await registry.invoke("execute.python", {"code": "1"})
        assert done.error is not None and done.error.step == "approval" and asked


async def test_inputs_count_as_what_they_are() -> None:
    code = "import importlib\nimportlib.import_module(name).run(['true'])"
    done = await outcome_of(code, given={"inputs": {"name": "subprocess"}})
    assert done.error is not None and "line 2: process: calls subprocess.run" in done.error.message


async def test_source_that_does_not_parse_runs_into_its_own_error() -> None:
    done = await outcome_of("print(")
    assert done.ok and "was never closed" in done.output["error"]


async def test_javascript_is_blocked_before_an_engine_is_looked_for() -> None:
    pytest.importorskip("tree_sitter_javascript", reason="the extra actbox[review] is not installed")
    done = await outcome_of(JAVASCRIPT, capability="ccos.execute.javascript")
    assert done.error is not None and done.error.kind == "refused"
    assert "line 2: process: calls child_process.exec" in done.error.message


async def test_javascript_that_cannot_be_read_for_want_of_a_package_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "tree_sitter", None)
    javascript_tree.parser.cache_clear()
    done = await outcome_of("1 + 1", capability="execute.javascript")
    assert done.error is not None and done.error.kind == "unavailable"
    assert "pip install 'actbox[review]'" in done.error.message
