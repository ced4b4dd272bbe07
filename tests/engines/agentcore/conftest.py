from __future__ import annotations

import warnings
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

import actbox
from actbox import Sandbox
from tests.engines.agentcore.code_service import CodeService

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of its own dependencies, at its first import
    import bedrock_agentcore.tools.code_interpreter_client  # noqa: F401


@pytest.fixture(scope="module")
def aws() -> Iterator[pytest.MonkeyPatch]:
    """The AWS configuration of the tests, and nothing of this machine's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "example")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        patch.setenv("AWS_CONFIG_FILE", "/nonexistent")
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
        patch.setenv("AWS_MAX_ATTEMPTS", "1")
        for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
            patch.delenv(name, raising=False)
        yield patch


@pytest.fixture(scope="module")
def service(aws: pytest.MonkeyPatch) -> Iterator[CodeService]:
    """The service, where the client of boto3 looks for it."""
    with CodeService() as running:
        aws.setenv("AWS_ENDPOINT_URL_BEDROCK_AGENTCORE", running.url)
        yield running


@pytest_asyncio.fixture
async def box(service: CodeService) -> AsyncIterator[Sandbox]:
    """A sandbox in a session of it."""
    service.faults.clear()
    async with actbox.open_sandbox("agentcore", region="eu-west-1") as opened:
        service.calls.clear()
        yield opened
    service.faults.clear()


@pytest.fixture(scope="module", autouse=True)
def patience(aws: pytest.MonkeyPatch) -> None:
    """Have no test depend on how much else this machine has to do."""
    engine = "actbox.sandbox.engines.agentcore"
    for name in ("AgentCoreSandbox.aftermath_seconds", "letting_go.LET_GO_SECONDS", "kernel._STOP_SECONDS"):
        aws.setattr(f"{engine}.{name}", 60.0)
