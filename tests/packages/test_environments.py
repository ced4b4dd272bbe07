"""Named environments: locked and built once, seen by every program of their sandboxes, and managed from the shell."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

import actbox
from actbox import InvalidValue, Policy, Program, SandboxUnavailable
from actbox.cli.app import run_app
from actbox.cli.environment import contents, lines_of
from actbox.core.packages import Environment, PackagePolicy, PackageRules
from actbox.packages import provider
from actbox.packages.environments import EnvironmentRecords
from actbox.packages.interpreters import find_python
from actbox.sandbox.dependencies import Target
from actbox.sandbox.engines.linux.engine import LinuxSandbox

from .index_server import IndexServer
from .kits import run

pytestmark = pytest.mark.slow

KIT = Environment(name="kit", packages=("kit-greeting",))
WORDS = "kit_words-1.0-py3-none-any.whl"
GREETING = "kit_greeting-1.0-py3-none-any.whl"


def policy_of(index: IndexServer, environment: str | Environment = KIT, **more: object) -> Policy:
    return Policy(environment=environment, packages=PackagePolicy(index=index.address, **more))  # type: ignore[arg-type]


async def test_an_environment_is_built_at_its_first_use_and_is_there_for_all_later_programs(index: IndexServer) -> None:
    code = """
import importlib.metadata, subprocess, sys
import kit_greeting
ask = "import kit_greeting; print(kit_greeting.greeting)"
child = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True)
[kit_greeting.greeting, child.stdout, sorted(one.name for one in importlib.metadata.distributions())]
"""
    index.is_modern = True
    result = await run(policy_of(index), code)
    assert result.value == ["hello", "hello\n", ["kit_greeting", "kit_words"]], result
    assert index.files_fetched() == [GREETING, WORDS]
    index.requests.clear()
    again = await run(policy_of(index, "kit"), "import kit_words\nkit_words.word")
    assert (again.value, index.requests.total()) == ("hello", 0)
    assert (again.environment, [one.name for one in again.distributions]) == ("kit", ["kit-greeting", "kit-words"])
    assert all(len(one.sha256) == 64 for one in again.distributions)


async def test_a_session_and_a_command_have_it_too(index: IndexServer) -> None:
    async with actbox.open_sandbox("linux", policy=policy_of(index)) as box:
        async with box.session() as session:
            assert (await session.run("import kit_words\nkit_words.word")).value == "hello"
        done = await box.execute(["python3", "-c", "import kit_greeting; print(kit_greeting.greeting)"])
        assert done.stdout == "hello\n", done


async def test_what_a_program_asks_for_comes_on_top(index: IndexServer) -> None:
    words = Environment(name="words", packages=("kit-words",))
    rules = PackageRules(auto_approved=["kit-greeting"])
    policy = Policy(environment=words, packages=PackagePolicy(python=rules, index=index.address))
    index.is_modern = True
    async with actbox.open_sandbox("linux", policy=policy) as box:
        code = "import subprocess, sys, kit_greeting\nask = 'import kit_greeting; print(kit_greeting.greeting)'\n"
        code += "[kit_greeting.greeting, subprocess.run([sys.executable, '-c', ask], capture_output=True).stdout]"
        result = await box.run(Program(code, dependencies=("kit-greeting", "kit-words>=1")))
        assert result.value == ["hello", b"hello\n"], result
        assert [one.trust for one in result.distributions] == ["allow-listed", "pre-baked"]
        alone = await box.run("import importlib.util\nimportlib.util.find_spec('kit_greeting') is None")
        assert alone.value is True
    assert index.files_fetched() == [GREETING, WORDS]


async def test_two_of_one_name_that_are_built_at_once_each_have_their_own_packages(index: IndexServer) -> None:
    find = (
        "import importlib.util\n[importlib.util.find_spec(one) is not None for one in ('kit_words', 'kit_forbidden')]"
    )
    own = [Environment(name="kit", packages=(one,)) for one in ("kit-forbidden", "kit-words")]
    found = await asyncio.gather(*(run(policy_of(index, one), find) for one in own))
    assert [one.value for one in found] == [[False, True], [True, False]]


async def test_a_package_of_it_is_not_imported_before_there_is_a_sandbox(index: IndexServer) -> None:
    policy = Policy(environment=KIT, packages=PackagePolicy(index=index.address), preload=("kit_words", "colorsys"))
    result = await run(policy, "import sys\n['kit_words' in sys.modules, 'colorsys' in sys.modules]")
    assert result.value == [False, True]
    assert any("kit_words" in warning for warning in result.warnings)


def test_the_advice_about_an_unknown_environment_names_its_language(tmp_path: Path) -> None:
    said = EnvironmentRecords(tmp_path).unknown("nodejs-tools", "javascript")
    assert "`actbox environment build nodejs-tools --language javascript --with PACKAGE`" in said


@pytest.mark.parametrize(
    ("environment", "more", "why"),
    [
        ("kid", {}, "there is no environment 'kid'"),
        (KIT, {"offline": True}, "'kit' is not built.*`actbox environment build kit --with kit-greeting` with a net"),
        (KIT, {"python": PackageRules(blocked=["Kit.Words"])}, "'kit' cannot be built: kit-words==1.0 is blocked"),
        (KIT, {"review_days": 7}, "nobody has reviewed the environment 'kit' in the last 7 days"),
        (
            Environment(name="none", packages=("kit-nowhere",)),
            {},
            "'none' cannot be built: kit-nowhere cannot be had.*`actbox environment build none --with kit-nowhere`",
        ),
        (Environment(name="old", packages=(), python="3.2"), {}, "this machine has no Python 3.2"),
    ],
)
async def test_what_cannot_be_had_is_said_when_the_sandbox_opens(
    environment: str | Environment, more: dict[str, object], why: str, index: IndexServer
) -> None:
    with pytest.raises(SandboxUnavailable, match=why):
        await run(policy_of(index, environment, **more), "1")


def test_names_are_checked() -> None:
    for name in ("", "a b", "../x", "x" * 101):
        with pytest.raises(InvalidValue, match="cannot be the name of an environment"):
            Environment(name=name)
    with pytest.raises(InvalidValue, match="'clean' has a meaning of its own"):
        Environment(name="clean")


def test_environments_are_built_listed_shown_reviewed_and_removed_from_the_shell(
    index: IndexServer, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(*arguments: str, code: int = 0) -> str:
        assert run_app(["environment", *arguments]) == code
        captured = capsys.readouterr()
        return captured.out or captured.err

    assert "kit: 2 packages" in said("build", "kit", "--with", "kit-greeting", "--index", index.address)
    assert said("list").startswith("kit: 2 packages for cpython-3.")
    (provider.provider().cache / "environments" / "damaged.json").write_text("{")
    assert run_app(["environment", "list"]) == 0
    listed = capsys.readouterr()
    assert listed.out.startswith("kit: 2 packages") and "damaged.json is no record of an environment" in listed.err
    said("rm", "damaged")
    assert "there is no format 'xml'; there are: text, json" in said("show", "kit", "--format", "xml", code=2)
    shown = json.loads(said("show", "kit", "--format", "json"))
    assert [one["name"] for one in shown["distributions"]] == ["kit-greeting", "kit-words"]
    components = json.loads(said("show", "kit", "--format", "cyclonedx"))["components"]
    assert components[1]["purl"] == "pkg:pypi/kit-words@1.0" and components[1]["hashes"][0]["alg"] == "SHA-256"
    assert f"kit-words==1.0 --hash=sha256:{components[1]['hashes'][0]['content']}" in said("lock", "kit")
    assert "reviewed by ann" in said("review", "kit", "--by", "ann")
    assert "reviewed by ann today" in said("show", "kit") and "reviewed by ann today" in said("list")
    assert said("gc", "--days", "0.000001", "--gib", "0").endswith("MiB removed\n")
    record = provider.provider().records.read("kit")
    assert record is not None
    assert len(provider.provider()._fetcher.found(record.locked)) == 2, "packages of environments stay"
    said("rm", "kit")
    assert "there is no environment 'kit'; there are: none" in said("show", "kit", code=2)


async def test_a_lock_for_an_interpreter_elsewhere_is_kept_reviewed_and_removed_as_that_of_this_machine(
    index: IndexServer,
) -> None:
    made, rules = provider.provider(), PackagePolicy(index=index.address)
    record = await made.environments.build(KIT, rules, target=Target("3.12"))
    made.collect(keep_seconds=-1, most_bytes=0)
    assert len(made._fetcher.found(record.locked)) == 2
    assert [one.reviewed_by for one in made.environments.review("kit", "ann")] == ["ann"]
    assert made.environments.remove("kit")
    made.collect(keep_seconds=-1, most_bytes=0)
    assert made._fetcher.found(record.locked) == ()
    assert not made.environments.remove("kit")


@pytest.mark.parametrize(("python", "packages"), [("3.10", ["kit-words"]), ("3.9", [])])
async def test_markers_are_those_of_the_environments_interpreter(
    python: str, packages: list[str], index: IndexServer
) -> None:
    asked = Environment(name="kit", packages=("kit-words; python_version == '3.10'",))
    rules = PackagePolicy(index=index.address)
    record = await provider.provider().environments.build(asked, rules, target=Target(python))
    assert [one.name for one in record.locked] == packages


async def test_a_review_holds_for_one_lock_and_guards_the_name(index: IndexServer) -> None:
    made = provider.provider()
    await made.environments.build(KIT, PackagePolicy(index=index.address))
    made.environments.review("kit", "ann")
    assert (await run(policy_of(index, review_days=7), "import kit_words\nkit_words.word")).value == "hello"
    with pytest.raises(SandboxUnavailable, match="other packages here, which ann has reviewed"):
        await run(policy_of(index, Environment(name="kit", packages=("kit-words",))), "1")
    record = made.records.read("kit")
    assert record is not None
    made.records.write(replace(record, locked=record.locked[:1]))
    with pytest.raises(SandboxUnavailable, match="nobody has reviewed"):
        await run(policy_of(index, "kit", review_days=7), "1")


async def test_a_record_that_somebody_has_edited_is_built_anew(index: IndexServer) -> None:
    made = provider.provider()
    record = await made.environments.build(KIT, PackagePolicy(index=index.address))
    made.records.write(replace(record, locked=(replace(record.locked[0], version="9.9"), *record.locked[1:])))
    with pytest.raises(SandboxUnavailable, match="the package cache has another"):
        await run(policy_of(index, "kit"), "1")


def test_a_file_defines_environments(index: IndexServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "images.yaml"
    version = ".".join(__import__("platform").python_version_tuple()[:2])
    file.write_text(
        f"images:\n- name: words\n  base: python:{version}-slim\n  packages: [kit-words]\n"
        f"- name: scripts\n  base: node:20-slim\n"
    )
    build = ["environment", "build", "--config", str(file), "--index", index.address]
    assert run_app(build) == 0
    assert capsys.readouterr().out.startswith("words: 1 package for cpython-")
    assert run_app([*build, "--with", "kit-greeting"]) == 2
    affected = {"package": {"ecosystem": "PyPI", "name": "kit-words"}, "versions": ["1.0"]}
    (tmp_path / "osv.json").write_text(json.dumps({"id": "KIT-1", "affected": [affected]}))
    assert run_app([*build, "words", "--vulnerabilities", str(tmp_path / "osv.json")]) == 1
    assert "kit-words==1.0 has known vulnerabilities: KIT-1" in capsys.readouterr().err
    file.write_text(file.read_text() + "python:\n  blocked: [kit-words]\n")
    assert run_app([*build, "words"]) == 1
    assert "'words' cannot be built: kit-words is blocked" in capsys.readouterr().err


def test_an_environment_that_cannot_be_built_does_not_keep_the_others_of_a_file_from_it(
    index: IndexServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "images.yaml"
    file.write_text("images:\n- name: old\n  base: python:3.99-slim\n- name: scripts\n  base: node:20-slim\n")
    assert run_app(["environment", "build", "--config", str(file)]) == 1
    captured = capsys.readouterr()
    assert captured.out.startswith("scripts: 0 packages")
    assert "its base is python:3.99-slim, so that interpreter has to be on this machine" in captured.err
    assert captured.err.endswith("not built: old\n")


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
async def test_another_interpreter_is_used_if_the_machine_has_it(version: str, index: IndexServer) -> None:
    environment = Environment(name=f"kit{version}", packages=("kit-greeting",), python=version)
    try:
        find_python(version)
    except SandboxUnavailable as error:
        assert f"this machine has no Python {version}" in str(error)
        with pytest.raises(SandboxUnavailable, match=f"no Python {version}: install one"):
            await run(policy_of(index, environment), "1")
        return
    code = "import os, sys, kit_greeting as kit\n"
    code += "['%d.%d' % sys.version_info[:2], kit.greeting, os.path.exists(kit.__spec__.cached)]"
    assert (await run(policy_of(index, environment), code)).value == [version, "hello", True]


def test_each_step_of_a_build_and_each_approved_package_that_was_used_is_shown(
    index: IndexServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_app(["environment", "build", "kit", "--with", "kit-greeting", "--index", index.address]) == 0
    steps = [line for line in capsys.readouterr().err.splitlines() if line.startswith("  ")]
    assert steps[0] == "  kit: choosing versions for 1 requirements"
    assert [step.partition(" ")[0] for step in map(str.strip, steps)] == ["kit:", "fetching", "compiling", "kit:"]


def test_the_command_line_shows_each_step_of_a_build_before_the_first_use(
    index: IndexServer, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", index.address)
    assert run_app(["environment", "build", "kit", "--with", "kit-greeting"]) == 0
    records = provider.provider().records
    record = records.read("kit")
    assert record is not None
    records.write(replace(record, platform="cpython-3.11 of another machine"))
    capfd.readouterr()
    for steps in (["kit: choosing versions for 1 requirements", "kit: checking the hashes of 2 packages"], []):
        assert run_app(["run", "--environment", "kit", "-c", "import kit_words; print(kit_words.word)"]) == 0
        shown = capfd.readouterr()
        assert (shown.out, shown.err.splitlines()) == ("hello\n", steps)


async def test_an_environment_without_packages_is_built_once(index: IndexServer) -> None:
    empty = Environment(name="empty")
    assert (await run(policy_of(index, empty), "1")).value == 1
    assert (await run(policy_of(index, empty, offline=True), "1")).value == 1


async def test_the_first_use_of_an_approved_package_is_recorded_once(
    index: IndexServer, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = PackageRules(auto_approved=["kit-greeting"])
    policy = Policy(environment="clean", packages=PackagePolicy(python=rules, index=index.address))
    for _ in range(2):
        assert (await run(policy, "import kit_greeting", "kit-greeting")).success
    used = provider.provider().first_uses.read()
    assert [(one.name, one.version, len(one.sha256)) for one in used] == [
        ("kit-greeting", "1.0", 64),
        ("kit-words", "1.0", 64),
    ]
    assert run_app(["environment", "list"]) == 0
    listed = capsys.readouterr().out
    assert "kit-greeting==1.0, first used today" in listed and "there are no environments" in listed
    found = contents()
    assert found["packages"] == 2 and found["bytes"] > 0
    assert next(lines_of(found)).endswith("the oldest used today")


async def test_as_many_guests_wait_as_the_environment_says(index: IndexServer) -> None:
    environment = Environment(name="kit", packages=("kit-words",), warm_pool_size=3)
    async with actbox.open_sandbox("linux", policy=policy_of(index, environment)) as box:
        assert isinstance(box, LinuxSandbox) and box._pool is not None and box._stock is not None
        waiting = box._stock.least - (box._stock.nursery.privileged is True)  # one more waits in the workspace
        while box._pool.ready < waiting:
            await asyncio.sleep(0.01)
        assert (await box.run("import kit_words\nkit_words.word")).value == "hello"
        assert box._stock.least == 3
