"""A Strands agent that acts by programs is told how to ask for packages, and gets those that the policy allows."""

from __future__ import annotations

import pytest

pytest.importorskip("strands", reason="the extra actbox[strands] is not installed")

from actbox import InvalidValue
from actbox.core.packages import PackagePolicy
from actbox.integrations.strands import CodeActPlugin, StrandsSandbox
from tests.integrations.strands_agents.acting import acting, block, observations, seen
from tests.packages.conftest import index  # noqa: F401 (a fixture)
from tests.packages.index_server import IndexServer
from tests.packages.kits import policy_of


@pytest.mark.slow
async def test_a_plugin_opens_its_sandbox_with_packages_and_a_script_block_asks(index: IndexServer) -> None:  # noqa: F811
    program = (
        '# /// script\n# dependencies = ["kit-greeting"]\n# ///\nimport kit_greeting\nprint(kit_greeting.greeting)'
    )
    policy = policy_of(index)
    turns = [block(program), "done"]
    agent = acting("linux", *turns, environment=policy.environment, packages=policy.packages)
    await agent.invoke_async("go")
    assert observations(agent) == ["[stdout]\nhello"]
    assert "Approved packages: kit-greeting, kit_trojan. Others are refused." in str(seen(agent)[0])


def test_a_sandbox_that_is_there_has_its_own_packages() -> None:
    with pytest.raises(InvalidValue, match="give them to its policy"):
        CodeActPlugin(StrandsSandbox("linux"), packages=PackagePolicy())
