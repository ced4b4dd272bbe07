"""From the command line to a sandbox: `python -m actbox.testing SANDBOX`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from actbox import InvalidValue, Policy
from actbox.testing.__main__ import with_plugin
from actbox.testing.cases.mounts import MountCases
from actbox.testing.target import opener

_CHECKOUT = Path(__file__).resolve().parents[2]
_TOY = "tests.testing.toy_to_point_at"


def command(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "actbox.testing", *words, "-p", "no:cacheprovider"],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=_CHECKOUT,
        env=os.environ | {"COLUMNS": "200"},
    )


@pytest.mark.slow
def test_the_command_tries_a_sandbox_by_the_contract_and_says_what_it_lacks() -> None:
    done = command(f"{_TOY}:open_box", "-k", "test_an_empty_program_succeeds or test_a_copy_can_be_copied_again")
    assert "2 passed" in done.stdout, done.stdout + done.stderr
    assert "TestContract: what this sandbox lacks, and refuses as it should" in done.stdout
    assert "1 × fork" in done.stdout
    assert done.returncode == 0


@pytest.mark.slow
def test_a_group_of_cases_is_chosen_by_its_name() -> None:
    done = command(f"{_TOY}:open_box", "-k", "MountCases", "--collect-only", "-q")
    named = {line.rpartition("::")[2] for line in done.stdout.splitlines() if "::" in line}
    assert {name.partition("[")[0] for name in named} == {name for name in vars(MountCases) if name.startswith("test_")}


@pytest.mark.slow
def test_a_function_is_given_options_typed_as_those_of_actbox_run() -> None:
    told = ["--option", "say=[1, 2]", "--option", "name=runsc"]
    done = command(f"{_TOY}:open_told", *told, "-k", "test_an_empty_program_succeeds", "-x")
    assert "Unsupported: told [1, 2] and 'runsc'" in done.stdout, done.stdout + done.stderr


@pytest.mark.slow
def test_the_option_of_pytest_reaches_an_engine() -> None:
    pytest_of_the_suite = [sys.executable, "-m", "pytest", *with_plugin(), "--pyargs", "actbox.testing.suite", "-x"]
    done = subprocess.run(
        [*pytest_of_the_suite, "--actbox-sandbox=container", "--actbox-option=engine=runsc", "-k", "empty_program"],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=_CHECKOUT,
    )
    assert "the container engine has no option 'engine'" in done.stdout, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "option", "said"),
    [
        ("rtfs", "steps=5", "the rtfs engine has no option 'steps'"),
        ("rtfs", "steps", "NAME=VALUE, not 'steps'"),
    ],
)
@pytest.mark.parametrize("module", ["actbox.testing", "actbox.testing.bench"])
def test_an_option_that_there_is_not_is_named(module: str, target: str, option: str, said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", module, target, "--option", option], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr


@pytest.mark.slow
def test_the_command_tries_to_get_out_of_it() -> None:
    done = command("linux", "-k", "TestEscape and environment")
    assert "passed" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("target", ["nothing", "no_such_module:open", f"{_TOY}:missing"])
def test_a_sandbox_that_there_is_not_is_named(target: str) -> None:
    done = command(target)
    assert done.returncode == 2
    assert target.partition(":")[0] in done.stderr


@pytest.mark.slow
def test_the_suite_without_a_sandbox_says_how_it_is_given() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *with_plugin(), "--pyargs", "actbox.testing.suite", "-x", "-q"],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=_CHECKOUT,
    )
    assert "--actbox-sandbox my.module:open_box" in done.stdout
    assert done.returncode == 1


@pytest.mark.parametrize("name", ["open_box", "open_box_later"])
async def test_a_function_may_be_asynchronous(name: str) -> None:
    assert (await opener(f"{_TOY}:{name}")(Policy())).traits.engine == "process"


async def test_what_returns_no_sandbox_is_refused() -> None:
    with pytest.raises(InvalidValue, match="returns a str, and no Sandbox"):
        await opener(f"{_TOY}:no_box")(Policy())


@pytest.mark.slow
def test_the_plugin_costs_a_run_without_the_kit_none_of_it() -> None:
    code = (
        "import sys, actbox.testing.plugin\n"
        "print([name for name in sys.modules if name.startswith('actbox.testing.') and not name.endswith('.plugin')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
