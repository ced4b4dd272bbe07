"""JavaScript programs with packages of npm, from a registry on loopback: what they get, and what they are refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import actbox
from actbox import ErrorKind, ExecutionResult, Policy, Program, SandboxUnavailable, Unsupported
from actbox.cli.app import run_app
from actbox.codeact import CallbackApprover
from actbox.core.packages import AUTO, Environment, PackagePolicy, PackageRules
from actbox.packages import provider
from actbox.packages.store import PackageStore
from actbox.sandbox.opening import with_environment
from actbox.tools import ApprovalDecision, ApprovalRequest, Approver
from tests.conftest import engine_check

from .registry_server import RegistryServer, serving_registry

pytestmark = pytest.mark.slow

KIT = Environment(name="kit", packages=("greeting",), language="javascript")
BOTH = ["greeting-1.0.0.tgz", "words-1.2.0.tgz"]


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RegistryServer]:
    """A registry with a few packages, and a package cache of the test's own."""
    found = engine_check("node")
    if not found.works:
        pytest.skip(f"the node engine does not work here: {found.reason}")
    made = provider.PackageProvider(PackageStore(tmp_path / "cache"))
    monkeypatch.setattr(provider, "provider", lambda cache=None: made)
    with serving_registry() as served:
        served.add("words", "1.2.0", {"index.js": "exports.word = 'hello'; exports.version = 1"}, license="MIT")
        served.add("words", "2.0.0", {"index.js": "exports.word = 'hallo'; exports.version = 2"})
        greets = "exports.greeting = require('words').word"
        served.add("greeting", "1.0.0", {"index.js": greets}, dependencies={"words": "^1.0.0"})
        served.add("forbidden")
        served.add("trojan", dependencies={"forbidden": "*"})
        yield served


def policy_of(
    registry: RegistryServer,
    environment: str | Environment = "host",
    approver: Approver | None = None,
    more: dict[str, Any] | None = None,
    **rules: Any,
) -> Policy:
    rules = {"auto_approved": ["greeting", "trojan"], "blocked": ["forbidden"], **rules}
    packages = PackagePolicy(
        nodejs=PackageRules(**rules), npm_registry=registry.address, approver=approver, **(more or {})
    )
    return Policy(environment=environment, packages=packages)


async def run(policy: Policy, code: str, *dependencies: str) -> ExecutionResult:
    async with actbox.open_sandbox("node", policy=policy) as box:
        return await box.run(Program(code, "javascript", dependencies=dependencies))


async def test_a_program_requires_and_imports_what_it_asks_for_and_what_that_brings(registry: RegistryServer) -> None:
    registry.add("@kit/modern", files={"main.mjs": "export const word = 'modern'"}, type="module", main="main.mjs")
    code = """
import { greeting } from "greeting";
import { word } from "@kit/modern";
const { execFileSync } = require("child_process");
const ask = "console.log(require('greeting').greeting)";
const child = execFileSync(process.execPath, ["-e", ask], { encoding: "utf8" });
let refused;
try { require("fs").appendFileSync(require.resolve("greeting"), "x") } catch (error) { refused = error.code }
[greeting, require("greeting").greeting, require("words").version, word, child, refused]
"""
    policy = policy_of(registry, auto_approved=["greeting", "@kit/modern"])
    result = await run(policy, code, "greeting@^1", "@kit/modern")
    assert result.value == ["hello", "hello", 1, "modern", "hello\n", "EROFS"], result
    assert [(one.name, one.version, len(one.sha256)) for one in result.distributions] == [
        ("@kit/modern", "1.0.0", 64),
        ("greeting", "1.0.0", 64),
        ("words", "1.2.0", 64),
    ]


async def test_two_versions_of_one_package_lie_where_npm_puts_them(registry: RegistryServer) -> None:
    result = await run(
        policy_of(registry, auto_approved=["greeting", "words"]),
        "[require('words').word, require('greeting').greeting, (await import('words')).default.version]",
        "greeting",
        "words@^2",
    )
    assert result.value == ["hallo", "hello", 2], result
    assert [(one.name, one.version) for one in result.distributions][1:] == [("words", "1.2.0"), ("words", "2.0.0")]


async def test_an_alias_is_judged_by_the_name_of_its_package(registry: RegistryServer) -> None:
    registry.add(
        "masked", files={"index.js": "module.exports = require('plain').word"}, dependencies={"plain": "npm:words@1"}
    )
    assert (await run(policy_of(registry, auto_approved=["masked"]), "require('masked')", "masked")).value == "hello"
    blocked = await run(policy_of(registry, auto_approved=["masked"], blocked=["words"]), "1", "masked")
    assert blocked.error is not None and "words==1.2.0, which masked brings, is blocked" in blocked.error.message


async def test_a_later_program_asks_the_registry_for_nothing_and_programs_at_once_fetch_once(
    registry: RegistryServer,
) -> None:
    program = Program("require('greeting').greeting", "javascript", dependencies=("greeting",))
    async with actbox.open_sandbox("node", policy=policy_of(registry)) as box:
        results = await asyncio.gather(*(box.run(program) for _ in range(10)))
        assert [result.value for result in results] == ["hello"] * 10
        assert registry.files_fetched() == BOTH
        registry.requests.clear()
        assert (await box.run(program)).value == "hello"
        assert (await box.run("try { require('greeting') } catch (error) { error.code }")).value == "MODULE_NOT_FOUND"
    offline = await run(policy_of(registry, more={"offline": True}), "require('greeting').greeting", "greeting")
    assert (offline.value, registry.requests.total()) == ("hello", 0)


async def test_packages_share_their_files_in_the_cache(registry: RegistryServer) -> None:
    await run(policy_of(registry), "1", "greeting")
    result = await run(policy_of(registry, auto_approved=["words"]), "require('words').word", "words@1")
    assert (result.value, registry.files_fetched()) == ("hello", BOTH)


@pytest.mark.parametrize(
    ("asked", "type_", "why"),
    [
        ("forbidden", "PackageBlocked", "forbidden is blocked by the policy"),
        ("trojan", "PackageBlocked", "forbidden==1.0.0 is blocked by the policy"),
        ("words", "PackageNotApproved", "words needs an approval"),
    ],
)
async def test_what_the_policy_does_not_allow_is_refused_and_nothing_of_it_is_fetched(
    asked: str, type_: str, why: str, registry: RegistryServer
) -> None:
    result = await run(policy_of(registry), "console.log('ran')", asked)
    assert result.error is not None and result.stdout == ""
    assert (result.error.kind, result.error.type, result.exit_code) == (ErrorKind.POLICY, type_, 125)
    assert why in result.error.message, result.error.message
    assert registry.files_fetched() == []


async def test_a_blocked_package_that_an_archive_requires_behind_the_registrys_back_is_not_there(
    registry: RegistryServer,
) -> None:
    path = registry.add("sly", dependencies={"forbidden": "*"})
    tarball = registry.tarballs[path]
    integrity = registry.dist("sly")["integrity"]
    registry.add("sly")  # the page has no dependencies now
    registry.tarballs[path] = tarball
    registry.dist("sly")["integrity"] = integrity
    result = await run(policy_of(registry, auto_approved=["sly"]), "require('forbidden')", "sly")
    assert result.error is not None and result.error.kind is ErrorKind.POLICY


async def test_a_registry_that_lies_about_a_file_is_not_believed(registry: RegistryServer, tmp_path: Path) -> None:
    registry.tarballs["/words/-/words-1.2.0.tgz"] = registry.tarballs["/words/-/words-2.0.0.tgz"]
    result = await run(policy_of(registry), "console.log('ran')", "greeting")
    assert result.error is not None and result.stdout == ""
    assert (result.error.kind, result.error.type) == (ErrorKind.MISSING_DEPENDENCY, "BadTarball")
    assert "words-1.2.0.tgz has the hash sha512:" in result.error.message
    assert list((tmp_path / "cache" / "sets").iterdir()) == []


async def test_an_install_script_is_not_run_and_the_result_says_so(registry: RegistryServer) -> None:
    touch = "touch /opt/fetched/ran /workspace/ran ran"
    registry.add("scripted", files={"index.js": "exports.here = 1"}, scripts={"preinstall": touch, "install": touch})
    code = "const { existsSync, readdirSync } = require('fs');"
    code += "[require('scripted').here, existsSync('ran'), readdirSync('/node_modules/scripted')]"
    result = await run(policy_of(registry, auto_approved=["scripted"]), code, "scripted")
    assert result.value == [1, False, ["index.js", "package.json"]], result
    assert result.warnings == ("scripted 1.0.0: its install script is not run",)


async def test_an_approver_is_asked_about_a_package_with_all_versions_that_it_brings(registry: RegistryServer) -> None:
    asked: list[ApprovalRequest] = []

    def decide(request: ApprovalRequest) -> ApprovalDecision:
        asked.append(request)
        return ApprovalDecision(True, standing=True)

    registry.add("old", files={"index.js": "module.exports = require('words').version"}, dependencies={"words": "1"})
    registry.add("pair", files={"index.js": "module.exports = [require('words').version, require('old')]"})
    registry.add(
        "pair",
        "1.0.1",
        {"index.js": "module.exports = [require('words').version, require('old')]"},
        dependencies={"words": "2", "old": "*"},
        license="ISC",
    )
    policy = policy_of(registry, approver=CallbackApprover(decide), requires_approval={"pair": "two of a kind"})
    for _ in range(2):
        assert (await run(policy, "require('pair')", "pair")).value == [2, 1]
    (request,) = asked
    assert [(one.name, one.version) for one in request.packages] == [
        *[("pair", "1.0.1"), ("old", "1.0.0"), ("words", "2.0.0"), ("words", "1.2.0")]
    ]
    first = request.packages[0]
    assert (first.licence, first.released, first.reason) == ("ISC", "2026-01-02T03:04:05.000Z", "two of a kind")
    assert len(first.sha256) == 64 and first.size == len(registry.tarballs["/pair/-/pair-1.0.1.tgz"])


@pytest.mark.parametrize("asked", ["nowhere", "greeting@^2", "greeting@git+https://h.example/x#abc"])
async def test_what_cannot_be_had_is_named(asked: str, registry: RegistryServer) -> None:
    policy = policy_of(
        registry, approver=CallbackApprover(lambda _: ApprovalDecision(True)), auto_approved=["nowhere", "greeting"]
    )
    result = await run(policy, "1", asked)
    assert result.error is not None and result.error.kind is ErrorKind.MISSING_DEPENDENCY
    assert f"{asked} cannot be had" in result.error.message, result.error.message


async def test_a_registry_that_is_down_is_said_to_be(registry: RegistryServer) -> None:
    policy = PackagePolicy(nodejs=PackageRules(auto_approved=["greeting"]), npm_registry="http://127.0.0.1:9/")
    result = await run(Policy(packages=policy), "1", "greeting")
    assert result.error is not None and result.error.kind is ErrorKind.MISSING_DEPENDENCY
    assert "greeting cannot be had" in result.error.message and "127.0.0.1:9" in result.error.message


async def test_a_file_without_a_sha512_is_refused(registry: RegistryServer) -> None:
    registry.dist("words", "1.2.0")["integrity"] = "sha1-" + "A" * 27 + "="
    result = await run(policy_of(registry), "1", "greeting")
    assert result.error is not None
    assert "the registry gives no SHA-512 for words 1.2.0" in result.error.message, result.error.message


async def test_optional_packages_for_other_machines_are_left_out(registry: RegistryServer) -> None:
    registry.add("for-linux", os=["linux"])
    registry.add("for-others", os=["!linux"])
    registry.add("native", optionalDependencies={"for-linux": "*", "for-others": "*"})
    result = await run(policy_of(registry, auto_approved=["native"]), "1", "native")
    assert [one.name for one in result.distributions] == ["for-linux", "native"], result


async def test_a_mirror_whose_pages_name_another_host_is_asked_itself(registry: RegistryServer) -> None:
    registry.dist("words", "1.2.0")["tarball"] = "https://registry.npmjs.org/words/-/words-1.2.0.tgz"
    assert (await run(policy_of(registry), "require('greeting').greeting", "greeting")).value == "hello"


async def test_a_package_with_a_known_vulnerability_is_refused(registry: RegistryServer, tmp_path: Path) -> None:
    events = [{"introduced": "0"}, {"fixed": "1.3.0"}]
    affected = {"package": {"ecosystem": "npm", "name": "words"}, "ranges": [{"type": "SEMVER", "events": events}]}
    (tmp_path / "osv.json").write_text(json.dumps({"id": "GHSA-1", "affected": [affected]}))
    policy = policy_of(registry, more={"vulnerabilities": str(tmp_path / "osv.json")})
    result = await run(policy, "1", "greeting")
    assert result.error is not None and "words==1.2.0 has known vulnerabilities: GHSA-1" in result.error.message


# Named environments


async def test_an_environment_is_there_for_programs_sessions_and_commands(registry: RegistryServer) -> None:
    policy = policy_of(registry, KIT)
    code = "const { greeting } = await import('greeting'); [greeting, require('words').word]"
    async with actbox.open_sandbox("node", policy=policy) as box:
        for _ in range(2):
            result = await box.run(code)
            assert result.value == ["hello", "hello"], result
        async with box.session() as session:
            in_session = await session.run("require('greeting').greeting")
            assert in_session.value == "hello"
            assert (in_session.environment, list(in_session.distributions)) == ("kit", list(result.distributions))
        done = await box.execute(["node", "-p", "require('greeting').greeting"])
        assert done.stdout == "hello\n", done
    assert (result.environment, [one.name for one in result.distributions]) == ("kit", ["greeting", "words"])
    assert registry.files_fetched() == BOTH
    registry.requests.clear()
    assert (await run(policy_of(registry, "kit"), "require('greeting').greeting")).value == "hello"
    program = Program("", "typescript", dependencies=("greeting@^1",))
    for blocked, chosen in (["forbidden"], "kit"), (["words"], "host"):
        policy = with_environment(policy_of(registry, AUTO, blocked=blocked), program, "node")
        assert policy.environment == chosen
    assert registry.requests.total() == 0


async def test_a_program_of_a_session_that_asks_for_more_is_refused_and_the_session_goes_on(
    registry: RegistryServer,
) -> None:
    async with actbox.open_sandbox("node", policy=policy_of(registry)) as box, box.session() as session:
        assert (await session.run("let kept = 1")).success
        with pytest.raises(Unsupported, match="sessions of the node engine get no packages beyond their environment"):
            await session.run(Program("1", "javascript", dependencies=("greeting",)))
        assert (await session.run("kept")).value == 1


async def test_what_a_program_asks_for_comes_on_top_of_the_locked_versions(registry: RegistryServer) -> None:
    async with actbox.open_sandbox("node", policy=policy_of(registry, KIT)):
        pass
    registry.add("words", "1.3.0", {"index.js": "exports.word = 'too new'"})
    registry.add(
        "louder", files={"index.js": "module.exports = require('words').word + '!'"}, dependencies={"words": "1"}
    )
    async with actbox.open_sandbox("node", policy=policy_of(registry, KIT, auto_approved=["louder"])) as box:
        program = Program("[require('louder'), require('greeting').greeting]", "javascript", dependencies=("louder",))
        result = await box.run(program)
        assert result.value == ["hello!", "hello"], result
        assert [(one.name, one.version, str(one.trust)) for one in result.distributions] == [
            ("greeting", "1.0.0", "pre-baked"),
            ("louder", "1.0.0", "allow-listed"),
            ("words", "1.2.0", "pre-baked"),
        ]
        had = await box.run(Program("1", "javascript", dependencies=("greeting@^1", "words@~1.2")))
        assert had.success and had.usage.install_ms == 0
        other = await box.run(Program("1", "javascript", dependencies=("words@2",)))
        assert other.error is not None and other.error.type == "PackageNotApproved"


async def test_an_environment_of_another_language_is_refused_by_name(registry: RegistryServer) -> None:
    with pytest.raises(
        SandboxUnavailable, match="'kit' is for javascript, and this sandbox runs python; the node engine"
    ):
        async with actbox.open_sandbox("linux", policy=Policy(environment=KIT)):
            pass
    with pytest.raises(
        SandboxUnavailable, match="'web' is for python, and this sandbox runs javascript; the linux engine"
    ):
        async with actbox.open_sandbox("node", policy=Policy(environment=Environment(name="web"))):
            pass


async def test_a_clean_environment_shows_nothing_of_the_hosts_packages(registry: RegistryServer) -> None:
    code = f"require('fs').existsSync({pytest.__file__!r})"
    assert [(await run(Policy(environment=name), code)).value for name in ("host", "clean")] == [True, False]


def test_environments_are_built_and_shown_from_the_shell(
    registry: RegistryServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "images.yaml"
    file.write_text("images:\n- name: nodejs-tools\n  base: node:20-slim\n  packages: [greeting, words@2]\n")

    def said(*arguments: str) -> str:
        assert run_app(["environment", *arguments]) == 0
        return capsys.readouterr().out

    assert said("build", "--config", str(file), "--npm-registry", registry.address).startswith(
        "nodejs-tools: 3 packages for node linux-"
    )
    lock = json.loads(said("lock", "nodejs-tools"))["packages"]
    assert lock[""]["dependencies"] == {"greeting": "*", "words": "2"}
    assert lock["node_modules/greeting/node_modules/words"]["integrity"].startswith("sha512-")
    bill = json.loads(said("show", "nodejs-tools", "--format", "cyclonedx"))
    assert [one["purl"] for one in bill["components"]][1:] == ["pkg:npm/words@1.2.0", "pkg:npm/words@2.0.0"]
    command = ["build", "small", "--language", "javascript", "--with", "words@1", "--npm-registry", registry.address]
    assert said(*command).startswith("small: 1 package for node ")


# A package that a program misses


async def test_a_program_that_misses_an_approved_package_begins_again_with_it(registry: RegistryServer) -> None:
    registry.add("@kit/tools", files={"lib/one.js": "module.exports = 1"})
    policy = policy_of(registry, auto_approved=["greeting", "@kit/tools"])
    for code, value in (
        ("require('greeting').greeting", "hello"),
        ("import { greeting } from 'greeting'; greeting", "hello"),
        ("require('@kit/tools/lib/one.js')", 1),
    ):
        result = await run(policy, code)
        assert result.value == value, result
        assert "was begun again with it" in result.warnings[0]


async def test_a_program_that_has_had_an_effect_is_told_what_to_send(registry: RegistryServer) -> None:
    code = "require('fs').writeFileSync('mark', 'x'); require('greeting')"
    result = await run(policy_of(registry), code)
    assert result.error is not None and result.error.kind is ErrorKind.MISSING_DEPENDENCY
    assert result.error.hint.endswith("send what is left of it with 'greeting' in `dependencies`"), result.error.hint


@pytest.mark.parametrize("code", ["require('forbidden')", "require('words')", "require('./lib')", "require('@x')"])
async def test_a_package_that_is_not_approved_is_not_installed_for_it(code: str, registry: RegistryServer) -> None:
    result = await run(policy_of(registry), code)
    assert result.error is not None and result.warnings == ()
    assert registry.requests.total() == 0


def test_the_command_line_and_npms_settings_name_packages_and_the_registry(
    registry: RegistryServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("npm_config_registry", registry.address)
    code = "console.log(require('greeting').greeting)"
    assert run_app(["run", "--language", "javascript", "--with", "greeting", "-c", code]) == 0
    assert capfd.readouterr().out == "hello\n"


@pytest.mark.parametrize("path", ["lib/node_modules/forbidden/index.js", "lib/node_modules/forbidden.js"])
async def test_a_package_with_a_copy_of_a_blocked_one_is_refused(path: str, registry: RegistryServer) -> None:
    registry.add("greeting", "1.1.0", {path: "", "lib/node_modules/other/index.js": ""})
    async with actbox.open_sandbox("node", policy=policy_of(registry)) as box:
        result = await box.run(Program("1", language="javascript", dependencies=("greeting",)))
    assert result.error is not None and result.error.type == "PackageBlocked", result
    assert "greeting==1.1.0 is blocked by the policy: it brings forbidden" in result.error.message
