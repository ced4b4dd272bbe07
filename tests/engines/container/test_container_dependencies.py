"""Environments, rules and dependencies of programs in containers, from an index of wheels on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import actbox
from actbox import ErrorKind, Policy, Program, SandboxUnavailable, Unsupported
from actbox.core.packages import Environment, PackagePolicy, PackageRules
from tests.engines.container.containers import RUNTIMES, image_with_python, needs
from tests.packages.index_server import IndexServer
from tests.packages.kits import policy_of
from tests.packages.wheel_factory import make_wheel

pytestmark = pytest.mark.engines

KIT = Environment(name="kit", packages=("kit-greeting",))
CODE = """
import os, subprocess, sys
import kit_greeting
ask = "import kit_greeting; print(kit_greeting.greeting)"
child = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True).stdout
try: open(kit_greeting.__file__, "a")
except OSError: child += "read-only"
[kit_greeting.greeting, child]
"""
SEEN = ["hello", "hello\nread-only"]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with image_with_python(needs(), tmp_path_factory.mktemp("image")) as name:
        yield name


@pytest.mark.parametrize("runtime", RUNTIMES, ids=lambda name: name or "usual")
async def test_a_program_has_what_it_asks_for_and_the_next_one_has_not(runtime: str, index: IndexServer) -> None:
    needs(runtime)
    async with actbox.open_sandbox("container", policy=policy_of(index), runtime=runtime) as box:
        for _ in range(2):
            result = await box.run(Program(CODE, dependencies=("kit-greeting",)))
            assert (result.error, result.value) == (None, SEEN)
            assert {one.name: one.version for one in result.distributions} == {
                "kit-greeting": "1.0",
                "kit-words": "1.0",
            }
            missed = await box.run("import os, kit_words")
            assert missed.error is not None and missed.error.kind is ErrorKind.MISSING_DEPENDENCY
        assert (await box.run("import os\nos.listdir('/opt/packages')")).value == []


async def test_runs_at_once_have_each_their_own(index: IndexServer) -> None:
    needs()
    policy = policy_of(index, auto_approved=["kit-greeting", "kit-words"])
    words = "import importlib.util, kit_words\nimportlib.util.find_spec('kit_greeting') is None"
    async with actbox.open_sandbox("container", policy=policy) as box:
        programs = [Program(CODE, dependencies=("kit-greeting",)), Program(words, dependencies=("kit-words",))] * 3
        results = await asyncio.gather(*map(box.run, programs))
    assert [(result.error, result.value) for result in results] == [(None, SEEN), (None, True)] * 3


async def test_programs_of_a_map_have_what_they_ask_for(index: IndexServer) -> None:
    needs()
    async with actbox.open_sandbox("container", policy=policy_of(index)) as box:
        programs = [Program(CODE, dependencies=("kit-greeting",))] * 3
        values = [result.value async for result in box.map(programs, concurrency=2)]
    assert values == [SEEN] * 3


@pytest.mark.parametrize("runtime", RUNTIMES, ids=lambda name: name or "usual")
async def test_a_session_gets_packages_while_it_lives(runtime: str, index: IndexServer) -> None:
    needs(runtime)
    make_wheel(index.folder, "kit_more", files={"kit_more.py": b"word = 'more'\n"})
    make_wheel(index.folder, "kit_late", files={"kit_late.py": b"word = 'late'\n"})
    policy = policy_of(index, auto_approved=["kit-greeting", "kit-more", "kit-late", "kit-trojan"])
    async with actbox.open_sandbox("container", policy=policy, runtime=runtime) as box:
        async with box.session() as session, box.session() as other:
            assert (await session.run(Program("kept = 1", dependencies=("kit-more",)))).success
            # The name of the next layer is looked up before it is there.
            looked = (
                "import os, kit_more\nlayers = kit_more.__file__.rpartition('/1/')[0]\nos.path.exists(layers + '/2')"
            )
            assert (await session.run(looked)).value is False
            result = await session.run(
                f"if kept:\n    %pip install kit-greeting\nos.path.exists(layers + '/2')\n{CODE}"
            )
            assert (result.error, result.value) == (None, SEEN)
            process = "import subprocess, sys\nsubprocess.run('pip install kit-late', shell=True, check=True)\n"
            result = await session.run(process + "import kit_late\nkit_late.word")
            assert (result.error, result.value) == (None, "late")
            refused = await session.run("%pip install kit-trojan")
            assert refused.error is not None and refused.error.type == "PackageBlocked"
            assert (await session.run("kept, kit_late.word")).value == (1, "late")
            result = await other.run("import kit_more\nkit_more.word")
            assert (result.value, len(result.warnings)) == ("more", 1), result
        assert (await box.run("import os\nos.listdir('/opt/packages')")).value == []


async def test_a_session_in_an_image_gets_packages(image: str, index: IndexServer) -> None:
    rules = policy_of(index).packages
    async with (
        actbox.open_sandbox("container", policy=Policy(packages=rules), image=image) as box,
        box.session() as one,
    ):
        result = await one.run(f"%pip install kit-greeting\n{CODE}")
        assert (result.error, result.value, result.environment) == (None, SEEN, image)


async def test_what_the_policy_blocks_is_refused(index: IndexServer) -> None:
    needs()
    async with actbox.open_sandbox("container", policy=policy_of(index)) as box:
        for asked in ("Kit.Forbidden", "kit-trojan"):
            result = await box.run(Program("print('ran')", dependencies=(asked,)))
            assert result.error is not None and result.stdout == ""
            assert (result.error.kind, result.error.type) == (ErrorKind.POLICY, "PackageBlocked")


async def test_a_copy_of_what_the_policy_blocks_is_refused(index: IndexServer) -> None:
    async with actbox.open_sandbox("container", policy=policy_of(index)) as box:
        await box.write_text("own/kit_forbidden.py", "")
        refused = await box.run("import sys\nsys.path.insert(0, 'own')\nimport kit_forbidden")
        assert refused.error is not None and refused.error.type == "PackageBlocked"


async def test_clean_is_the_standard_library_alone() -> None:
    needs()
    ask = "import importlib.metadata; print([one.name for one in importlib.metadata.distributions()])"
    code = f"""
import decimal, importlib.metadata, json, shutil, sqlite3, ssl, subprocess, sys
found = [one.name for one in importlib.metadata.distributions()]
for python in (sys.executable, "python3", "/usr/bin/python3"):
    if shutil.which(python):
        found.append(subprocess.run([python, "-c", {ask!r}], capture_output=True, text=True, check=True).stdout)
found
"""
    async with actbox.open_sandbox("container", policy=Policy(environment="clean")) as box:
        result = await box.run(code)
        started = await box.execute(["python3", "-c", ask])
    assert result.error is None
    assert set(result.value) == {"[]\n"}, result.value
    assert (started.stdout, result.environment, list(result.distributions)) == ("[]\n", "clean", [])


async def test_with_rules_a_program_finds_the_hosts_packages_that_they_approve() -> None:
    needs()
    policy = Policy(
        packages=PackagePolicy(python=PackageRules(auto_approved=["pydantic"], blocked=["typing-inspection"]))
    )
    code = """
import importlib.metadata, importlib.util
names = ["pydantic_core", "annotated_types", "typing_inspection", "pytest", "_pytest", "rich", "pip"]
found = {one.name.lower().replace("_", "-") for one in importlib.metadata.distributions()}
[sorted(found), [name for name in names if importlib.util.find_spec(name)]]
"""
    async with actbox.open_sandbox("container", policy=policy) as box:
        result = await box.run(code)
    approved = ["annotated-types", "pydantic", "pydantic-core", "typing-extensions"]
    assert (result.error, result.value) == (None, [approved, ["pydantic_core", "annotated_types"]])
    assert [one.name for one in result.distributions] == approved


@pytest.mark.parametrize("runtime", RUNTIMES, ids=lambda name: name or "usual")
async def test_a_named_environment_is_there_for_programs_sessions_and_commands(
    runtime: str, index: IndexServer
) -> None:
    needs(runtime)
    policy = Policy(
        environment=KIT, packages=PackagePolicy(index=index.address, python=policy_of(index).packages.python)
    )
    async with actbox.open_sandbox("container", policy=policy, runtime=runtime) as box:
        result = await box.run(CODE)
        assert (result.error, result.value, result.environment) == (None, SEEN, "kit")
        assert [one.name for one in result.distributions] == ["kit-greeting", "kit-words"]
        assert (await box.execute(["python3", "-c", "import kit_greeting"])).exit_code == 0
        async with box.session() as session:
            assert (await session.run("import kit_greeting\nkit_greeting.greeting")).value == "hello"
        other = await box.run("import pydantic")
        assert other.error is not None and other.error.kind is ErrorKind.MISSING_DEPENDENCY


async def test_a_program_of_an_image_has_what_it_asks_for(image: str, index: IndexServer) -> None:
    rules = policy_of(index).packages
    async with actbox.open_sandbox("container", policy=Policy(packages=rules), image=image) as box:
        result = await box.run(Program(CODE, dependencies=("kit-greeting",)))
        assert (result.error, result.value, result.environment) == (None, SEEN, image)


async def test_an_environment_can_name_an_image(image: str, index: IndexServer) -> None:
    environment = Environment(name="kit", packages=("kit-greeting",), image=image)
    policy = Policy(environment=environment, packages=policy_of(index).packages)
    async with actbox.open_sandbox("container", policy=policy) as box:
        result = await box.run(CODE)
        assert (result.error, result.value, result.environment) == (None, SEEN, "kit")
        assert (await box.run("import os\nos.path.exists('/usr/bin/env')")).value is False, "not the image's root"
    missing = Environment(name="kit", packages=("kit-greeting",), image="localhost/nobody-has:this")
    with pytest.raises(SandboxUnavailable, match="there is no image 'localhost/nobody-has:this' here"):
        async with actbox.open_sandbox("container", policy=Policy(environment=missing)):
            pass


def test_what_a_container_cannot_have_is_refused() -> None:
    with pytest.raises(Unsupported, match="an image is an environment of its own"):
        actbox.open_sandbox("container", policy=Policy(environment="clean"), image="python:3.13-slim")
    rules = Policy(packages=PackagePolicy(python=PackageRules(auto_approved=["openpyxl"])))
    with pytest.raises(Unsupported, match=r"does not support Policy\.packages"):
        actbox.open_sandbox("container", policy=rules, container="mine")


async def test_the_packages_of_an_image_count_as_its_own(image: str, index: IndexServer, tmp_path: Path) -> None:
    client = needs()
    site = "/usr/lib/python3/dist-packages"
    about = tmp_path / "kit_forbidden-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: kit_forbidden\nVersion: 1.0\n")
    (tmp_path / "Dockerfile").write_text(
        f"FROM {image}\nENV PYTHONPATH={site}\nCOPY {about.name} {site}/{about.name}\n"
    )
    name = f"{image}-with"
    client.run("build", "--pull=never", "--layers=false", "--tag", name, str(tmp_path), seconds=300)
    try:
        with pytest.raises(SandboxUnavailable, match=r"-with has packages that the policy blocks.*kit-forbidden"):
            async with actbox.open_sandbox("container", policy=Policy(packages=policy_of(index).packages), image=name):
                pass
        rules = PackagePolicy(python=PackageRules(auto_approved=["kit-forbidden"]), index=index.address)
        async with actbox.open_sandbox("container", policy=Policy(packages=rules), image=name) as box:
            result = await box.run(Program("1", dependencies=("kit-forbidden>=1",)))
            assert (result.error, index.requests.total()) == (None, 0)
            assert [one.name for one in result.distributions] == ["kit-forbidden"]
    finally:
        client.run("rmi", "--force", name)
