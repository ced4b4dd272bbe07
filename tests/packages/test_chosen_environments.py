"""`Policy(environment="auto")`: a program gets the named environment that has most of its dependencies."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

import actbox
from actbox import InvalidValue, Policy, Program, SandboxUnavailable
from actbox.cli.app import run_app
from actbox.core.packages import AUTO, Environment, PackagePolicy, PackageRules
from actbox.packages import provider
from actbox.sandbox.opening import with_environment

from .index_server import IndexServer
from .kits import run

pytestmark = pytest.mark.slow

BLOCK = "# /// script\n# dependencies = ['Kit_Greeting']\n# ///\n"
WORDS = "import kit_words\nkit_words.word"


@pytest.fixture
def built(index: IndexServer) -> IndexServer:
    """Build `words` with one package, and `greetings` and `more` with one more each."""
    for name, packages in (
        ("words", ["kit-words"]),
        ("greetings", ["kit-greeting"]),
        ("more", ["kit-greeting", "kit-forbidden"]),
    ):
        asyncio.run(build(index, Environment(name=name, packages=tuple(packages))))
    index.requests.clear()
    return index


async def build(index: IndexServer, environment: Environment) -> None:
    await provider.provider().environments.build(environment, PackagePolicy(index=index.address))


def chosen(program: Program, engine: str = "linux", options: tuple[str, ...] = (), **packages: object) -> str:
    policy = Policy(environment=AUTO, packages=PackagePolicy(**packages) if packages else None)  # type: ignore[arg-type]
    return with_environment(policy, program, engine, options=options).environment_name


def asking(*dependencies: str) -> Program:
    return Program("", dependencies=dependencies)


def test_a_program_runs_in_the_environment_that_has_most_of_its_dependencies(built: IndexServer) -> None:
    policy = Policy(environment=AUTO)
    result = actbox.run(Program(WORDS, dependencies=("kit-words>=1",)), policy=policy)
    assert (result.value, result.environment) == ("hello", "words"), result
    result = actbox.run(BLOCK + WORDS, policy=policy)
    assert (result.value, result.environment) == ("hello", "greetings"), result
    assert actbox.run("1", policy=policy).environment == "host"
    assert built.requests.total() == 0


def test_of_several_the_one_with_the_fewest_packages_is_chosen_and_without_any_the_host(built: IndexServer) -> None:
    assert chosen(asking("kit-words")) == "words"
    assert chosen(asking("Kit.Words", "kit_greeting")) == "greetings"
    assert chosen(asking("kit-words", "kit-greeting", "kit-forbidden")) == "more"
    assert chosen(asking("kit-words>=2")) == "host"
    assert chosen(asking("kit-words; python_version < '3'")) == "host"
    assert chosen(asking("kit-words", "packaging", "pytest")) == "host", "the host has two of the three"


def test_an_environment_that_the_policy_or_the_program_refuses_is_not_chosen(built: IndexServer) -> None:
    every = asking("kit-words", "kit-greeting", "kit-forbidden")
    assert chosen(every, python=PackageRules(blocked=["Kit.Forbidden"])) == "greetings"
    assert chosen(every, review_days=1) == "host"
    provider.provider().environments.review("words", "ann")
    assert chosen(every, review_days=1) == "words"
    assert (
        chosen(Program("# /// script\n# dependencies = ['kit-words']\n# requires-python = '<3.5'\n# ///\n")) == "host"
    )
    assert chosen(Program("", "javascript", dependencies=("kit-words",)), "node") == "host"


def test_an_environment_that_is_not_built_here_is_not_chosen(built: IndexServer) -> None:
    records = provider.provider().records
    record = records.read("words")
    assert record is not None
    records.write(replace(record, platform="cpython-3.11 of another machine"))
    assert chosen(asking("kit-words")) == "greetings"
    records.remove("greetings")
    records.remove("more")
    assert chosen(asking("kit-words")) == "host"


def test_an_engine_without_environments_of_this_machine_has_its_default(built: IndexServer) -> None:
    for engine in ("process", "monty", "ssh", "wasm"):
        assert chosen(asking("kit-words"), engine) == "host"
    assert chosen(asking("kit-words"), "container", ("image",)) == "host"
    assert chosen(asking("kit-words"), "container") == "words"
    asyncio.run(build(built, Environment(name="words", packages=("kit-words",), image="python:3.12-slim")))
    assert (chosen(asking("kit-words"), "container"), chosen(asking("kit-words"))) == ("greetings", "words")


def test_a_sandbox_for_several_programs_names_its_environment() -> None:
    with pytest.raises(InvalidValue, match=r"chooses for one program.*name the environment"):
        actbox.open_sandbox("linux", policy=Policy(environment=AUTO))
    with pytest.raises(InvalidValue, match="'auto' has a meaning of its own"):
        Environment(name=AUTO)


async def test_a_built_environment_with_a_package_that_is_blocked_or_vulnerable_since_is_refused(
    index: IndexServer, tmp_path: Path
) -> None:
    await build(index, Environment(name="greetings", packages=("kit-greeting",)))
    advisory = tmp_path / "osv.json"
    affected = {"package": {"ecosystem": "PyPI", "name": "kit-words"}, "versions": ["1.0"]}
    advisory.write_text(json.dumps({"id": "OSV-1", "affected": [affected]}))
    rules, vulnerable = PackageRules(blocked=["Kit.Words"]), PackagePolicy(vulnerabilities=str(advisory))
    for packages, why in ((PackagePolicy(python=rules), "is blocked"), (vulnerable, "has.*OSV-1")):
        with pytest.raises(SandboxUnavailable, match=rf"'greetings' cannot be used: kit-words.*{why}"):
            await run(Policy(environment="greetings", packages=packages), "1")
    assert chosen(asking("kit-words"), vulnerabilities=str(advisory)) == "host"


def test_the_command_line_chooses_where_no_environment_is_named(
    built: IndexServer, capfd: pytest.CaptureFixture[str]
) -> None:
    def environment_of(*arguments: str) -> object:
        assert run_app(["run", "--json", *arguments]) == 0
        return json.loads(capfd.readouterr().out)["environment"]

    assert environment_of("--with", "kit-words", "-c", WORDS) == "words"
    assert environment_of("-c", BLOCK + WORDS) == "greetings"
    assert environment_of("--with", "kit-words", "--environment", "greetings", "-c", WORDS) == "greetings"
    assert environment_of("-c", "import packaging") == "host"
    assert environment_of("--with", "packaging", "-c", "import packaging, pytest") == "host"
