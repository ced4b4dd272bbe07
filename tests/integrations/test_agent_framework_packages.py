"""Programs of Agent Framework's agents ask for packages, and people answer by the framework's own requests."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("agent_framework", reason="the extra actbox[agent-framework] is not installed")

from actbox import Unsupported
from actbox.core.packages import PackagePolicy, PackageRules
from actbox.integrations.agent_framework import LinuxCodeActProvider, LinuxExecuteCodeTool, MontyCodeActProvider
from tests.integrations.af_payments import Conversation
from tests.integrations.af_scripted import about, answers, code
from tests.packages.conftest import index  # noqa: F401 (a fixture)
from tests.packages.index_server import IndexServer
from tests.packages.kits import policy_of

CODE = "import kit_greeting\nprint(kit_greeting.greeting)"
SENT = {"code": CODE, "dependencies": ["kit-greeting"]}
ASKS: dict[str, Any] = {"auto_approved": [], "requires_approval": {"kit-greeting": "it greets"}}


def provider_of(index: IndexServer, **rules: Any) -> LinuxCodeActProvider:  # noqa: F811
    policy = policy_of(index, **rules)
    return LinuxCodeActProvider(environment=policy.environment, packages=policy.packages)


def test_an_engine_without_packages_refuses_them_when_the_provider_is_made() -> None:
    pytest.importorskip("pydantic_monty")
    with pytest.raises(Unsupported, match=r"the monty engine does not support Policy\.packages"):
        MontyCodeActProvider(packages=PackagePolicy())


def test_a_tool_of_its_own_takes_dependencies_too() -> None:
    tool = LinuxExecuteCodeTool(packages=PackagePolicy(python=PackageRules(auto_approved=["six"])))
    assert "dependencies" in tool.parameters()["properties"]
    assert "Approved packages: six. Others are refused." in tool.description
    assert "dependencies" not in LinuxExecuteCodeTool().parameters()["properties"]


@pytest.mark.slow
async def test_a_call_names_packages_beside_its_program(index: IndexServer) -> None:  # noqa: F811
    async with provider_of(index) as codeact:
        talk = Conversation(codeact, [code(SENT)], ["done"])
        assert (await talk.say("go")).text == "done"
        assert "hello" in talk.client.read()
        assert "dependencies" in talk.client.tool().parameters()["properties"]
    async with LinuxCodeActProvider() as codeact:
        talk = Conversation(codeact, [code(SENT)], ["done"])
        await talk.say("go")
        assert "execute_code takes no 'dependencies'" in talk.client.read()


@pytest.mark.slow
@pytest.mark.parametrize("approved", [True, False], ids=["approved", "refused"])
@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
async def test_a_question_about_a_package_is_the_frameworks_own(
    index: IndexServer,  # noqa: F811
    approved: bool,
    streams: bool,
) -> None:
    index.is_modern = True
    async with provider_of(index, **ASKS) as codeact:
        talk = Conversation(codeact, [code(SENT)], ["done"], streams=streams)
        asked = await talk.say("go")
        (request,) = asked.user_input_requests
        assert (about(request)["what"], request.function_call.name) == ("install", "install_packages")
        greeting, words = request.function_call.parse_arguments()["packages"]
        assert (greeting["name"], greeting["version"], greeting["reason"]) == ("kit-greeting", "1.0", "it greets")
        assert (words["brought_by"], words["licence"]) == (["kit-greeting"], "BSD")
        assert words["size"] > 0 and words["released"].startswith("2026-01-02")
        assert (await talk.say(answers(asked, approved))).text == "done"
        assert ("hello" in talk.client.read()) is approved
        if not approved:
            assert "PackageNotApproved" in talk.client.read()


@pytest.mark.slow
async def test_an_answer_about_other_packages_than_the_question_counts_as_no(index: IndexServer) -> None:  # noqa: F811
    async with provider_of(index, **ASKS) as codeact:
        talk = Conversation(codeact, [code(SENT)], ["done"])
        asked = await talk.say("go")
        assert talk.session is not None
        (kept,) = talk.session.state["tool_approval"]["pending_approval_requests"]
        kept["function_call"]["arguments"] = {"packages": []}
        assert (await talk.say(answers(asked))).text == "done"
        assert "the answer is about other packages than the question" in talk.client.read()


@pytest.mark.slow
async def test_where_nobody_can_be_asked_the_package_is_refused(index: IndexServer) -> None:  # noqa: F811
    policy = policy_of(index, **ASKS)
    async with LinuxExecuteCodeTool(environment="clean", packages=policy.packages) as tool:
        contents = await tool.invoke(arguments=SENT)
        assert "kit-greeting was refused: nobody can be asked here" in str([content.to_dict() for content in contents])
