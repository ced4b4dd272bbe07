"""The environment `clean`: programs have the interpreter and its standard library, and no package of the host's."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator

import pytest

import actbox
from actbox import Policy, Sandbox, SandboxUnavailable, Unsupported
from tests.conftest import engine_check

CLEAN = Policy(environment="clean")


@pytest.fixture
async def box() -> AsyncIterator[Sandbox]:
    found = engine_check("linux")
    if not found.works:
        pytest.skip(f"the linux engine does not work here: {found.reason}")
    async with actbox.open_sandbox("linux", policy=CLEAN) as box:
        yield box


async def test_a_program_has_the_standard_library_and_no_distribution(box: Sandbox) -> None:
    code = """
import decimal, importlib.metadata, json, sqlite3, ssl, sys
found = [distribution.name for distribution in importlib.metadata.distributions()]
try: import pydantic
except ImportError as error: found.append(error.name)
found, sys.version_info[:2], sys.flags.no_site
"""
    result = await box.run(code)
    assert result.value == (["pydantic"], tuple(sys.version_info[:2]), 1), result
    assert box.traits.packages.startswith("none")


@pytest.mark.parametrize("python", ["sys.executable", "'python3'", "'/usr/bin/python3'"])
async def test_an_interpreter_that_a_program_starts_finds_no_distribution_either(box: Sandbox, python: str) -> None:
    code = f"""
import shutil, subprocess, sys
python = shutil.which({python})
ask = "import importlib.metadata; print([one.name for one in importlib.metadata.distributions()])"
subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True).stdout if python else "[]\\n"
"""
    assert (await box.run(code)).value == "[]\n"


async def test_a_command_starts_the_same_interpreter(box: Sandbox) -> None:
    started = await box.execute(["python3", "-c", "import sys; print(sys.prefix)"])
    assert started.stdout.strip() == (await box.run("import sys\nsys.prefix")).value


async def test_sandboxes_of_both_environments_live_side_by_side(box: Sandbox) -> None:
    asks = "import importlib.util\nimportlib.util.find_spec('pydantic') is not None"
    async with actbox.open_sandbox("linux") as other:
        assert [(await one.run(asks)).value for one in (box, other, box)] == [False, True, False]


async def test_modules_of_the_standard_library_can_be_preloaded() -> None:
    async with actbox.open_sandbox(
        "linux", policy=Policy(environment="clean", preload=("colorsys", "pydantic"))
    ) as box:
        result = await box.run("import sys\n'colorsys' in sys.modules")
    assert result.value is True
    assert [warning for warning in result.warnings if "pydantic" in warning], "it cannot be preloaded there"


@pytest.mark.parametrize(("engine", "options"), [("process", {"allow_unisolated": True}), ("monty", {}), ("rtfs", {})])
async def test_an_engine_without_it_refuses_it(engine: str, options: dict[str, bool]) -> None:
    with pytest.raises(Unsupported, match=f"the {engine} engine has no environment 'clean'; the linux, container"):
        async with actbox.open_sandbox(engine, policy=CLEAN, **options):
            pass


async def test_an_environment_that_nobody_has_defined_is_refused_with_the_nearest() -> None:
    with pytest.raises(SandboxUnavailable, match=r"no environment 'clan' \(did you mean 'clean'\?\)"):
        async with actbox.open_sandbox("linux", policy=Policy(environment="clan")):
            pass
