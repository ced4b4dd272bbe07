"""Opening a session of the service, and what is said where it cannot be opened."""

from __future__ import annotations

import importlib
import importlib.util
import os
import subprocess
import sys
from typing import Any

import pytest

import actbox
from actbox import InvalidValue, Policy, SandboxStopped, SandboxUnavailable, Unsupported
from actbox.sandbox.engines.agentcore.options import AgentCoreOptions
from actbox.sandbox.engines.agentcore.service import make_client
from actbox.sandbox.languages import FULL_CPYTHON
from tests.engines.agentcore.code_service import CodeService


@pytest.mark.slow
async def test_a_session_lives_as_long_as_the_sandbox(service: CodeService) -> None:
    box = actbox.open_sandbox("agentcore", region="eu-west-1")
    before = len(service.running)
    await box.start()
    assert len(service.running) == before + 1
    await box.stop()
    await box.stop()
    assert len(service.running) == before
    with pytest.raises(SandboxStopped):
        await box.run("1")


@pytest.mark.slow
async def test_options_reach_the_service_and_names_are_unique(service: CodeService) -> None:
    service.calls.clear()
    options: dict[str, Any] = {"identifier": "mine-abc", "session_seconds": 60, "session_name": "agent-7"}
    async with actbox.open_sandbox("agentcore", region="eu-west-1", **options) as box:
        assert (await box.run("1")).value == 1
    for _ in range(2):
        async with actbox.open_sandbox("agentcore", region="eu-west-1"):
            pass
    named, *others = service.called("StartCodeInterpreterSession")
    assert (named["codeInterpreterIdentifier"], named["name"], named["sessionTimeoutSeconds"]) == (
        "mine-abc",
        "agent-7",
        60,
    )
    assert len({other["name"] for other in others}) == 2
    assert {other["codeInterpreterIdentifier"] for other in others} == {"aws.codeinterpreter.v1"}


@pytest.mark.slow
async def test_a_client_can_be_given(service: CodeService) -> None:
    from bedrock_agentcore.tools.code_interpreter_client import CodeInterpreter

    client = CodeInterpreter("us-east-1")
    async with actbox.open_sandbox("agentcore", client=client) as box:
        assert (await box.run("6 * 7")).value == 42
        with pytest.raises(InvalidValue, match="session already"):
            await actbox.open_sandbox("agentcore", client=client).start()
    assert client.session_id is None
    client.data_plane_client.close()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"region": "eu west"}, "region"),
        ({"region": "x@example.org:443/#-1"}, "region"),
        ({"identifier": "a/b"}, "identifier"),
        ({"session_name": ""}, "session_name"),
        ({"session_name": "x" * 101}, "session_name"),
        ({"session_seconds": 0}, "session_seconds"),
        ({"session_seconds": 28801}, "session_seconds"),
        ({"session_seconds": True}, "session_seconds"),
        ({"python": "a\nb"}, "python"),
        ({"zone": "a"}, "no option 'zone'"),
    ],
)
def test_what_the_service_would_not_take_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidValue, match=said):
        actbox.open_sandbox("agentcore", **options)


def test_what_cannot_be_kept_is_refused() -> None:
    with pytest.raises(Unsupported, match="agentcore"):
        actbox.open_sandbox("agentcore", policy=Policy(domains=(actbox.AllowedDomain("example.com"),)))


async def test_without_a_region_it_says_how_to_name_one(service: CodeService) -> None:
    with pytest.raises(SandboxUnavailable, match="region="):
        await actbox.open_sandbox("agentcore").start()


@pytest.mark.slow
async def test_the_region_may_be_in_the_variable_that_the_message_names(
    service: CodeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    async with actbox.open_sandbox("agentcore") as box:
        assert (await box.run("6 * 7")).value == 42
    assert "region" not in actbox.check("agentcore").advice


@pytest.mark.slow
async def test_the_region_of_the_configuration_comes_first(
    service: CodeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    client = make_client(AgentCoreOptions())
    assert client.data_plane_client.meta.region_name == "us-east-1"
    client.data_plane_client.close()
    client.control_plane_client.close()


@pytest.mark.slow
async def test_without_credentials_it_says_what_to_do(service: CodeService, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    with pytest.raises(SandboxUnavailable, match="there are no AWS credentials: `aws configure`, or the variables"):
        await actbox.open_sandbox("agentcore", region="eu-west-1").start()


def test_it_is_never_what_auto_takes() -> None:
    assert "agentcore" in actbox.ENGINES
    assert "agentcore" not in FULL_CPYTHON


def test_the_check_names_the_extra_where_the_client_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    importlib.import_module("actbox.sandbox.engines.agentcore")
    monkeypatch.setattr(
        sys.modules["actbox.sandbox.engines.agentcore"],
        "find_spec",
        lambda name: None if name == "bedrock_agentcore" else find(name),
    )
    found = actbox.check("agentcore")
    assert (found.works, found.reason) == (False, "it needs bedrock_agentcore, which is not installed")
    assert "actbox[agentcore]" in found.advice


def test_the_check_names_the_credentials_where_there_are_none(
    aws: pytest.MonkeyPatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    # An address that answers nobody: asking it would take long.
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "false")
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://192.0.2.1")
    found = actbox.check("agentcore")
    assert (found.works, "no AWS credentials" in found.reason) == (False, True)
    assert found.traits is not None


def test_the_check_starts_nothing(service: CodeService) -> None:
    service.calls.clear()
    found = actbox.check("agentcore")
    assert (found.works, "bills" in found.reason) == (False, True)
    assert service.calls == []


@pytest.mark.slow
def test_the_clients_own_variable_for_an_endpoint_is_heeded(service: CodeService) -> None:
    program = (
        "import asyncio, warnings\nwarnings.simplefilter('ignore')\nimport actbox\n"
        "async def main():\n"
        "    async with actbox.open_sandbox('agentcore', region='eu-west-1') as box:\n"
        "        print((await box.run('6 * 7')).value)\n"
        "asyncio.run(main())"
    )
    told = {name: value for name, value in os.environ.items() if name != "AWS_ENDPOINT_URL_BEDROCK_AGENTCORE"}
    told["BEDROCK_AGENTCORE_DP_ENDPOINT"] = service.url
    done = subprocess.run([sys.executable, "-c", program], env=told, capture_output=True, text=True, timeout=120)
    assert done.stdout == "42\n", done.stderr
