"""Programs of a coding agent have the packages that they name or import, if the policy of the sandbox approves them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import actbox
from actbox.codeact import ModelReply, ScriptedModel
from actbox.codegen import CodingAgent, Outcome, RetryPolicy, Task, TextCheck
from actbox.core.packages import Environment, PackagePolicy, PackageRules
from actbox.packages import provider
from actbox.packages.store import PackageStore
from actbox.sandbox.contract import Sandbox
from tests.conftest import engine_check
from tests.packages.index_server import IndexServer, serving_index
from tests.packages.kits import make_kits, policy_of
from tests.packages.registry_server import serving_registry
from tests.packages.wheel_factory import make_wheel

pytestmark = pytest.mark.slow

GREETING = "import kit_greeting\nkit_greeting.greeting"
FORBIDDEN = "import kit_forbidden\n'forbidden'"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[IndexServer]:
    """An index with a few wheels, one of them PyYAML's, and a package cache of the test's own."""
    found = engine_check("linux")
    if not found.works:
        pytest.skip(f"the linux engine does not work here: {found.reason}")
    wheels = tmp_path / "wheels"
    make_kits(wheels)
    make_wheel(wheels, "PyYAML", "6.0", files={"yaml.py": b"def safe_load(text): return {'kit': text}\n"})
    made = provider.PackageProvider(PackageStore(tmp_path / "cache"))
    monkeypatch.setattr(provider, "provider", lambda cache=None: made)
    with serving_index(wheels) as served:
        yield served


@pytest.fixture
async def box(index: IndexServer) -> AsyncIterator[Sandbox]:
    policy = policy_of(index, auto_approved=["kit-greeting", "PyYAML", "kit_trojan"])
    async with actbox.open_sandbox("linux", policy=policy) as opened:
        yield opened


async def solve(box: Sandbox, *replies: str, language: str = "python", **more: Any) -> tuple[Outcome, ScriptedModel]:
    model = ScriptedModel(list(replies))
    return await CodingAgent(model, box, **more).solve(Task("greet", language=language)), model


@pytest.mark.parametrize(
    ("reply", "requirements"),
    [
        (f"```python\n{GREETING}\n```\n```requirements\nkit-greeting>=1\n```", "kit-greeting>=1\n"),
        (f'```python\n# /// script\n# dependencies = ["kit-greeting"]\n# ///\n{GREETING}\n```', "kit-greeting\n"),
        (f"```python\n{GREETING}\n```", "kit-greeting\n"),
    ],
    ids=["named", "in a script block", "imported"],
)
async def test_a_program_runs_with_an_approved_package(box: Sandbox, reply: str, requirements: str) -> None:
    outcome, model = await solve(box, reply)
    assert outcome.solved and outcome.answer == "hello", outcome.attempts[-1].result
    assert outcome.requirements == requirements
    assert "Approved packages: kit-greeting, PyYAML, kit_trojan." in model.asked[0][0].text


async def test_an_imported_module_is_in_the_package_of_another_name(box: Sandbox, index: IndexServer) -> None:
    outcome, _ = await solve(box, "```python\nimport yaml\nyaml.safe_load('x')\n```")
    assert outcome.answer == {"kit": "x"} and outcome.requirements == "pyyaml\n"
    assert set(index.files_fetched()) == {"PyYAML-6.0-py3-none-any.whl"}


@pytest.mark.parametrize("program", [FORBIDDEN, "import kit_trojan", "import kit_words"], ids=str.split)
async def test_a_refused_package_is_a_failure_of_policy_that_the_model_reads(box: Sandbox, program: str) -> None:
    replies = [f"```python\n{program}\n```", f"```python\n{GREETING}\n```"]
    outcome, model = await solve(box, *replies)
    assert (outcome.stopped, outcome.attempts[0].error_class) == ("policy", "policy"), outcome
    assert outcome.code.strip() == program and len(model.asked) == 1
    outcome, model = await solve(box, *replies, retry=RetryPolicy(error_specific={"policy": 1}, attempt_backoff_ms=[]))
    assert outcome.solved and outcome.answer == "hello"
    assert "kit-" in model.asked[1][-1].text and "(policy)" in model.asked[1][-1].text


async def test_an_import_that_the_program_can_do_without_is_not_asked_for(box: Sandbox, index: IndexServer) -> None:
    program = (
        "try:\n    import kit_words\nexcept (ImportError, OSError):\n    import yaml as kit_words\nkit_words.__name__"
    )
    outcome, _ = await solve(box, f"```python\n{program}\n```")
    assert outcome.answer == "yaml" and outcome.requirements == "", outcome.attempts[-1].result
    assert set(index.files_fetched()) == {"PyYAML-6.0-py3-none-any.whl"}
    blocks = PackagePolicy(python=PackageRules(auto_approved=[], blocked=["kit-words"]))
    outcome, _ = await solve(box, f"```python\n{program}\n```", packages=blocks, retry=RetryPolicy(max_attempts=1))
    assert not outcome.solved and "kit-words is blocked" in outcome.reason


async def test_a_package_that_the_agent_blocks_is_never_fetched(box: Sandbox, index: IndexServer) -> None:
    blocks = PackagePolicy(python=PackageRules(auto_approved=[], blocked=["kit-greeting"]))
    replies = [f"```python\n{GREETING}\n```", "```python\nimport yaml\n'hi'\n```"]
    outcome, model = await solve(box, *replies, packages=blocks, retry=RetryPolicy(error_specific={"policy": 1}))
    assert outcome.solved and outcome.answer == "hi"
    assert "The package kit-greeting is blocked" in model.asked[1][-1].text
    assert set(index.files_fetched()) == {"PyYAML-6.0-py3-none-any.whl"}


async def test_tests_and_examples_run_with_the_packages_of_the_program(box: Sandbox) -> None:
    test = "from solution import greet\ndef test_greet(): assert greet() == 'hello'\n"
    program = "import kit_greeting\ndef greet(): return kit_greeting.greeting\ngreet()"
    agent = CodingAgent(ScriptedModel([f"```python\n{program}\n```"]), box)
    outcome = await agent.solve(Task("greet", checks=[TextCheck(test)]))
    assert outcome.solved, outcome.attempts[-1].checks


async def test_a_sandbox_without_rules_runs_programs_with_what_is_installed(index: IndexServer) -> None:
    async with actbox.open_sandbox("linux") as box:
        reply = ModelReply(
            "```python\nimport pandas\nlen(pandas.DataFrame({'a': [1, 2]}))\n```\n```requirements\npandas\n```"
        )
        outcome = await CodingAgent(ScriptedModel([reply]), box).solve("count")
        assert outcome.solved and outcome.answer == 2 and outcome.requirements == "pandas\n", outcome.attempts
        outcome, _ = await solve(box, f"```python\n{GREETING}\n```", retry=RetryPolicy(max_attempts=1))
        assert outcome.attempts[0].error_class == "import_error"
    assert not index.requests


async def test_what_the_environment_has_needs_no_approval_of_its_own(index: IndexServer) -> None:
    kit = Environment(name="kit", packages=("kit-greeting",))
    policy = replace(policy_of(index), environment=kit)
    async with actbox.open_sandbox("linux", policy=policy) as box:
        outcome, _ = await solve(
            box, "```python\nimport kit_words\nkit_words.word\n```\n```requirements\nkit-words\n```"
        )
    assert outcome.solved and outcome.answer == "hello", outcome.attempts[-1].result


async def test_a_program_in_javascript_runs_with_an_approved_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = engine_check("node")
    if not found.works:
        pytest.skip(f"the node engine does not work here: {found.reason}")
    made = provider.PackageProvider(PackageStore(tmp_path / "cache"))
    monkeypatch.setattr(provider, "provider", lambda cache=None: made)
    with serving_registry() as served:
        served.add("greeting", "1.0.0", {"index.js": "exports.greeting = 'hello'"})
        served.add("forbidden")
        rules = PackageRules(auto_approved=["greeting"], blocked=["forbidden"])
        policy = actbox.Policy(packages=PackagePolicy(nodejs=rules, npm_registry=served.address))
        async with actbox.open_sandbox("node", policy=policy) as box:
            for named in ("```requirements\ngreeting@^1.0.0\n```", ""):
                reply = f"```javascript\nconst {{ greeting }} = require('greeting');\ngreeting\n```\n{named}"
                outcome, _ = await solve(box, reply, language="javascript")
                assert outcome.solved and outcome.answer == "hello", outcome.attempts[-1].result
            outcome, _ = await solve(box, "```javascript\nrequire('forbidden')\n```", language="javascript")
            assert outcome.stopped == "policy"
