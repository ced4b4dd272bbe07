"""Packages for an account of another machine: sent to its sandbox's directory, and removed with it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import actbox
from actbox import ErrorKind, Policy, Program, Sandbox, SandboxUnavailable, Unsupported
from actbox.core.packages import Environment, PackagePolicy, PackageRules
from tests.engines.ssh.ssh_server import SshServer
from tests.packages.index_server import IndexServer
from tests.packages.kits import policy_of
from tests.packages.wheel_factory import make_wheel

pytestmark = pytest.mark.engines

KIT = Environment(name="kit", packages=("kit-greeting",))
CODE = """
import subprocess, sys
import kit_greeting
ask = "import kit_greeting; print(kit_greeting.greeting)"
[kit_greeting.greeting, subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True).stdout]
"""


def opened(server: SshServer, policy: Policy) -> Sandbox:
    return actbox.open_sandbox("ssh", policy=policy, allow_unisolated=True, python=sys.executable, **server.options)


async def test_a_program_has_what_it_asks_for_and_the_next_one_has_not(server: SshServer, index: IndexServer) -> None:
    async with opened(server, Policy(packages=policy_of(index).packages)) as box:
        for _ in range(2):
            result = await box.run(Program(CODE, dependencies=("kit-greeting",)))
            assert (result.error, result.value) == (None, ["hello", "hello\n"])
            assert {"kit-greeting", "kit-words", "pydantic"} <= {one.name for one in result.distributions}
            missed = await box.run("import kit_words")
            assert missed.error is not None and missed.error.kind is ErrorKind.MISSING_DEPENDENCY
        refused = await box.run(Program("print('ran')", dependencies=("kit-trojan",)))
        assert refused.error is not None and refused.error.type == "PackageBlocked"
        values = [result.value async for result in box.map([Program(CODE, dependencies=("kit-greeting",))] * 2)]
        assert values == [["hello", "hello\n"]] * 2
        folder = Path(box.root).parent
        assert len(list((folder / "packages").iterdir())) == 1
    assert not folder.exists()


async def test_a_session_gets_packages_while_it_lives(server: SshServer, index: IndexServer) -> None:
    make_wheel(index.folder, "kit_more", files={"kit_more.py": b"word = 'more'\n"})
    policy = policy_of(index, auto_approved=["kit-greeting", "kit-more", "kit-trojan"])
    async with opened(server, Policy(packages=policy.packages)) as box, box.session() as session:
        assert (await session.run(Program("kept = 1", dependencies=("kit-more",)))).success
        result = await session.run(f"%pip install kit-greeting\n{CODE}")
        assert (result.error, result.value) == (None, ["hello", "hello\n"])
        refused = await session.run("%pip install kit-trojan")
        assert refused.error is not None and refused.error.type == "PackageBlocked"
        assert (await session.run("import kit_more\nkept, kit_more.word")).value == (1, "more")
        missed = await box.run("import kit_words")
        assert missed.error is not None and missed.error.kind is ErrorKind.MISSING_DEPENDENCY


async def test_a_named_environment_is_there_for_programs_sessions_and_commands(
    server: SshServer, index: IndexServer
) -> None:
    async with opened(server, Policy(environment=KIT, packages=policy_of(index).packages)) as box:
        result = await box.run(CODE)
        assert (result.error, result.value, result.environment) == (None, ["hello", "hello\n"], "kit")
        done = await box.execute([sys.executable, "-c", "import kit_greeting"])
        assert (done.exit_code, done.stderr) == (0, "")
        async with box.session() as session:
            assert (await session.run("import kit_greeting\nkit_greeting.greeting")).value == "hello"


async def test_a_copy_of_a_blocked_package_is_refused(server: SshServer, index: IndexServer) -> None:
    async with opened(server, Policy(packages=policy_of(index).packages)) as box:
        await box.write_text("own/kit_forbidden.py", "")
        refused = await box.run("import sys\nsys.path.insert(0, 'own')\nimport kit_forbidden")
        assert refused.error is not None and refused.error.type == "PackageBlocked"
        assert (await box.run("import pydantic\npydantic.__name__")).value == "pydantic"


async def test_what_an_account_has_although_the_policy_blocks_it_is_said(server: SshServer, index: IndexServer) -> None:
    rules = PackagePolicy(python=PackageRules(blocked=["pytest"]), index=index.address)
    with pytest.raises(SandboxUnavailable, match=r"has packages that the policy blocks.*: pytest"):
        async with opened(server, Policy(packages=rules)):
            pass


def test_the_packages_of_an_account_cannot_be_hidden(server: SshServer) -> None:
    with pytest.raises(Unsupported, match="cannot hide an account's packages"):
        opened(server, Policy(environment="clean"))
