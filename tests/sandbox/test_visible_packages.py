"""With rules for packages, programs find the installed packages that these approve, and what they need; no other."""

from __future__ import annotations

import pytest

import actbox
from actbox import Policy, Unsupported
from actbox.core.packages import PackagePolicy, PackageRules
from actbox.sandbox.visible_packages import _outermost, visible_versions
from tests.conftest import engine_check

APPROVED = {"pydantic", "pydantic-core", "annotated-types", "typing-extensions", "typing-inspection"}
ASK = """
import importlib.metadata, importlib.util
found = sorted({one.name.lower().replace("_", "-") for one in importlib.metadata.distributions()})
[found, [name for name in names if importlib.util.find_spec(name)]]
"""


def policy_of(preload: tuple[str, ...] = (), **rules: list[str]) -> Policy:
    found = engine_check("linux")
    if not found.works:
        pytest.skip(f"the linux engine does not work here: {found.reason}")
    return Policy(packages=PackagePolicy(python=PackageRules(**rules)), preload=preload)


async def test_programs_and_interpreters_that_they_start_find_what_is_approved_and_no_more() -> None:
    names = ["pydantic", "pydantic_core", "annotated_types", "pytest", "_pytest", "rich", "pip"]
    run_it = "import subprocess, sys\ncode = f'names = {names!r}\\n' + ask.rstrip().rpartition('\\n')[0]\n"
    run_it += "code += '\\nprint([found, [name for name in names if importlib.util.find_spec(name)]])'\n"
    run_it += "eval(subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True).stdout)"
    async with actbox.open_sandbox("linux", policy=policy_of(auto_approved=["pydantic"])) as box:
        own = await box.run(actbox.Program(ASK, inputs={"names": names}))
        started = await box.run(actbox.Program(run_it, inputs={"names": names, "ask": ASK}))
        used = await box.run("import pydantic\npydantic.TypeAdapter(int).validate_python('4')")
    for result in (own, started):
        assert result.value == [sorted(APPROVED), names[:3]], result
    assert used.value == 4


async def test_commands_of_what_is_not_approved_are_not_there() -> None:
    ask = "import shutil\n[shutil.which(name) is not None for name in ('coverage', 'pytest', 'uv')]"
    async with actbox.open_sandbox("linux", policy=policy_of(auto_approved=["coverage"])) as box:
        assert (await box.run(ask)).value == [True, False, False]


async def test_what_is_blocked_is_not_there_although_something_approved_needs_it() -> None:
    policy = policy_of(auto_approved=["pydantic"], blocked=["Pydantic_Core"])
    async with actbox.open_sandbox("linux", policy=policy) as box:
        result = await box.run("import pydantic")
    assert result.error is not None
    assert result.error.message == "pydantic-core is blocked by the policy"


async def test_what_is_not_approved_cannot_be_preloaded() -> None:
    async with actbox.open_sandbox(
        "linux", policy=policy_of(("pytest", "pydantic"), auto_approved=["pydantic"])
    ) as box:
        result = await box.run("import sys\n['pydantic' in sys.modules, 'pytest' in sys.modules]")
    assert result.value == [True, False]
    assert any("pytest" in warning for warning in result.warnings)


async def test_sandboxes_with_and_without_rules_live_side_by_side() -> None:
    ask = "import importlib.util\nimportlib.util.find_spec('pytest') is not None"
    async with (
        actbox.open_sandbox("linux", policy=policy_of(auto_approved=["pydantic"])) as some,
        actbox.open_sandbox("linux") as all_of_them,
    ):
        assert [(await box.run(ask)).value for box in (some, all_of_them, some)] == [False, True, False]


@pytest.mark.parametrize(("engine", "options"), [("process", {"allow_unisolated": True}), ("monty", {}), ("rtfs", {})])
async def test_an_engine_that_would_show_everything_refuses(engine: str, options: dict[str, bool]) -> None:
    with pytest.raises(Unsupported, match=f"the {engine} engine does not support Policy.packages"):
        async with actbox.open_sandbox(engine, policy=policy_of(auto_approved=["pydantic"]), **options):
            pass


def test_needs_of_extras_are_not_approved_with_a_package() -> None:
    assert visible_versions(PackageRules(auto_approved=["pydantic", "not-installed"])).keys() == APPROVED


def test_a_directory_that_packages_share_is_seen_in_part() -> None:
    seen = {"space/one/a.py", "space/one/b.py", "one-1.dist-info/RECORD", "single.py"}
    others = {"space/two/a.py", "two-1.dist-info/RECORD", "other.py"}
    assert sorted(_outermost(seen, others)) == ["one-1.dist-info", "single.py", "space/one"]
    assert sorted(_outermost(seen, set())) == ["one-1.dist-info", "single.py", "space"]
    assert sorted(_outermost({"space/__init__.py"}, {"space/__init__.py", "space/two/a.py"})) == []
