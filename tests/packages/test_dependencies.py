"""Programs with dependencies, from an index on loopback: what they get, what they are refused, and what it costs."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

import actbox
from actbox import ErrorKind, Policy, Program, Unsupported
from actbox.core.packages import PackagePolicy, PackageRules
from actbox.packages import provider

from .index_server import IndexServer
from .kits import policy_of, run
from .wheel_factory import make_wheel

pytestmark = pytest.mark.slow


async def test_a_program_has_what_it_asks_for_and_what_that_brings(index: IndexServer) -> None:
    code = """
import os, subprocess, sys
import kit_greeting
ask = "import kit_greeting; print(kit_greeting.greeting)"
child = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True).stdout
try: open(kit_greeting.__file__, "a")
except OSError as error: refused = error.strerror
[kit_greeting.greeting, child, refused]
"""
    result = await run(policy_of(index), code, "kit_greeting>=1")
    assert result.value == ["hello", "hello\n", "Read-only file system"], result


async def test_a_second_program_asks_the_index_for_nothing(index: IndexServer) -> None:
    policy = policy_of(index)
    await run(policy, "import kit_greeting", "kit-greeting")
    index.requests.clear()
    result = await run(policy, "import kit_greeting\nkit_greeting.greeting", "kit-greeting")
    assert (result.value, dict(index.requests)) == ("hello", {})


async def test_twenty_programs_at_once_fetch_each_file_once(index: IndexServer) -> None:
    index.is_modern = True  # else uv fetches the wheels too, for their metadata
    code = "import kit_greeting\nkit_greeting.greeting"
    async with actbox.open_sandbox("linux", policy=policy_of(index)) as box:
        program = Program(code, dependencies=("kit-greeting",))
        results = await asyncio.gather(*(box.run(program) for _ in range(20)))
    assert [result.value for result in results] == ["hello"] * 20
    assert index.files_fetched() == ["kit_greeting-1.0-py3-none-any.whl", "kit_words-1.0-py3-none-any.whl"]


async def test_a_program_without_dependencies_has_none_of_an_earlier_one(index: IndexServer) -> None:
    async with actbox.open_sandbox("linux", policy=policy_of(index)) as box:
        assert (await box.run(Program("import kit_words", dependencies=("kit-greeting",)))).success
        result = await box.run("import kit_words")
    assert result.error is not None and result.error.kind is ErrorKind.MISSING_DEPENDENCY


def test_run_takes_dependencies(index: IndexServer) -> None:
    code = "import kit_greeting\nkit_greeting.greeting"
    assert actbox.run(code, dependencies=["kit-greeting"], policy=policy_of(index)).value == "hello"
    with pytest.raises(TypeError, match="its own inputs, files and dependencies"):
        actbox.run(Program(code), dependencies=["kit-greeting"])


async def test_a_script_block_names_dependencies_too(index: IndexServer) -> None:
    code = '# /// script\n# dependencies = ["kit-greeting"]\n# ///\nimport kit_greeting\nkit_greeting.greeting'
    assert (await run(policy_of(index), code)).value == "hello"


@pytest.mark.parametrize(
    ("block", "kind", "message", "hint"),
    [
        (
            "dependencies = [kit]",
            ErrorKind.SYNTAX,
            "the script block is not TOML",
            '# dependencies = ["openpyxl>=3.1"]',
        ),
        (
            "requires-python = '>=3.99'",
            ErrorKind.UNSUPPORTED,
            "the program requires Python >=3.99",
            "build NAME --python",
        ),
    ],
)
async def test_a_script_block_that_cannot_be_met_is_a_result(
    block: str, kind: ErrorKind, message: str, hint: str, index: IndexServer
) -> None:
    result = await run(policy_of(index), f"# /// script\n# {block}\n# ///\nprint(1)")
    assert result.error is not None and (result.error.kind, result.stdout) == (kind, "")
    assert result.error.message.startswith(message) and hint in result.error.hint, result.error


async def test_a_script_block_without_end_is_ignored_with_a_warning(index: IndexServer) -> None:
    result = await run(policy_of(index), "# /// script\n# dependencies = ['kit-greeting']\n1")
    assert (result.value, result.distributions.asked) == (1, ())
    assert any("line 1 is ignored" in warning for warning in result.warnings), result.warnings


@pytest.mark.parametrize(
    ("asked", "type_", "why"),
    [
        ("Kit_Forbidden", "PackageBlocked", "Kit_Forbidden is blocked by the policy"),
        ("kit-trojan", "PackageBlocked", "kit-forbidden==1.0 is blocked by the policy"),
        ("kit-words", "PackageNotApproved", "kit-words needs an approval"),
    ],
)
async def test_what_the_policy_does_not_allow_is_refused_and_nothing_of_it_is_fetched(
    asked: str, type_: str, why: str, index: IndexServer
) -> None:
    index.is_modern = True
    result = await run(policy_of(index), "print('ran')", asked)
    assert result.error is not None and result.stdout == ""
    assert (result.error.kind, result.error.type, result.exit_code) == (ErrorKind.POLICY, type_, 125)
    assert why in result.error.message, result.error.message
    assert index.files_fetched() == []


async def test_a_policy_without_packages_has_none(index: IndexServer) -> None:
    result = await run(Policy(environment="clean"), "print('ran')", "kit-greeting")
    assert result.error is not None
    assert (result.error.type, index.requests.total()) == ("PackageNotApproved", 0)


async def test_what_the_environment_has_costs_nothing(index: IndexServer) -> None:
    policy = Policy(packages=PackagePolicy(python=PackageRules(auto_approved=["pydantic"]), index=index.address))
    result = await run(policy, "import pydantic\npydantic.__name__", "pydantic>=2")
    assert (result.value, index.requests.total()) == ("pydantic", 0)


async def test_what_the_environment_has_need_not_be_in_the_index(index: IndexServer) -> None:
    index.is_modern = True
    code = b"import pydantic\nname = pydantic.__name__\n"
    make_wheel(index.folder, "kit_model", files={"kit_model.py": code}, requires=("pydantic>=2",))
    rules = PackageRules(auto_approved=["pydantic", "kit-model"])
    policy = Policy(packages=PackagePolicy(python=rules, index=index.address))
    result = await run(policy, "import kit_model\nkit_model.name", "kit-model")
    assert (result.value, result.error) == ("pydantic", None)
    assert index.files_fetched() == ["kit_model-1.0-py3-none-any.whl"]


async def test_an_index_that_lies_about_a_file_is_not_believed(index: IndexServer, tmp_path: Path) -> None:
    index.hashes["kit_words-1.0-py3-none-any.whl"] = "0" * 64
    result = await run(policy_of(index), "print('ran')", "kit-greeting")
    assert result.error is not None and result.stdout == ""
    assert "kit_words-1.0-py3-none-any.whl" in result.error.message and "hash" in result.error.message
    assert list((tmp_path / "cache" / "sets").iterdir()) == []


@pytest.mark.parametrize("asked", ["kit-nowhere", "kit-greeting>=2"])
async def test_what_the_index_does_not_have_is_named(asked: str, index: IndexServer) -> None:
    result = await run(policy_of(index, auto_approved=["kit-nowhere", "kit-greeting"]), "1", asked)
    assert result.error is not None
    assert result.error.kind is ErrorKind.MISSING_DEPENDENCY and asked in result.error.message


async def test_an_index_that_is_down_is_said_to_be(index: IndexServer) -> None:
    policy = PackagePolicy(python=PackageRules(auto_approved=["kit-greeting"]), index="http://127.0.0.1:9/simple")
    result = await run(Policy(environment="clean", packages=policy), "1", "kit-greeting")
    assert result.error is not None
    assert result.error.kind is ErrorKind.MISSING_DEPENDENCY and "kit-greeting cannot be had" in result.error.message


async def test_other_engines_refuse_dependencies(index: IndexServer) -> None:
    program = Program("1", dependencies=("kit-greeting",))
    async with actbox.open_sandbox("process", allow_unisolated=True) as box:
        with pytest.raises(
            Unsupported, match="the process engine installs no dependencies; the linux, container and wasm"
        ):
            await box.run(program)


def _greeting(cache: Path, address: str) -> object:
    os.environ[provider.CACHE_VARIABLE] = str(cache)
    rules = PackageRules(auto_approved=["kit-greeting"])
    policy = Policy(environment="clean", packages=PackagePolicy(python=rules, index=address))
    return asyncio.run(run(policy, "import kit_greeting\nkit_greeting.greeting", "kit-greeting")).value


def test_processes_that_want_a_package_at_once_fetch_it_once(index: IndexServer, tmp_path: Path) -> None:
    index.is_modern = True
    index.answers.clear()
    with ProcessPoolExecutor(3, multiprocessing.get_context("spawn")) as pool:
        running = [pool.submit(_greeting, tmp_path / "shared", index.address) for _ in range(3)]
        for _ in running:
            index.asked.get(timeout=60)
        index.answers.set()
        assert [one.result() for one in running] == ["hello"] * 3
    assert index.files_fetched() == ["kit_greeting-1.0-py3-none-any.whl", "kit_words-1.0-py3-none-any.whl"]


async def test_offline_the_cache_answers_for_what_it_can_in_any_words_and_together(index: IndexServer) -> None:
    make_wheel(index.folder, "kit_words", "2.0")
    make_wheel(index.folder, "kit_alone")
    make_wheel(index.folder, "kit_old", requires=("kit-words<2",))
    policy = policy_of(index, auto_approved=["kit-greeting", "kit-alone", "kit-old"])
    for each in ("kit-greeting", "kit-alone", "kit-old"):
        await run(policy, "1", each)
    assert policy.packages is not None
    offline = replace(policy, packages=replace(policy.packages, offline=True))
    index.requests.clear()
    had: dict[tuple[str, ...], list[str]] = {
        ("kit-greeting==1.0",): ["kit-greeting", "kit-words"],
        ("Kit_Greeting>=0.5",): ["kit-greeting", "kit-words"],
        ("kit-alone", "kit-greeting"): ["kit-alone", "kit-greeting", "kit-words"],
    }
    for asked, names in had.items():
        result = await run(offline, "1", *asked)
        assert (result.error, sorted(one.name for one in result.distributions)) == (None, names)
    for refused in (("kit-greeting>1",), ("kit-greeting", "kit-old")):
        result = await run(offline, "1", *refused)
        assert result.error is not None and "cannot be had offline" in result.error.message
    assert index.requests.total() == 0
