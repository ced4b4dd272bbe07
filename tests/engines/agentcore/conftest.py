from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

import actbox
from actbox import Sandbox
from tests.engines.agentcore.aws_settings import aws_configured, service_found
from tests.engines.agentcore.code_service import CodeService


@pytest.fixture(scope="module")
def aws() -> Iterator[pytest.MonkeyPatch]:
    """The AWS configuration of the tests, and nothing of this machine's own."""
    with aws_configured() as patch:
        yield patch


@pytest.fixture(scope="module")
def service(aws: pytest.MonkeyPatch) -> Iterator[CodeService]:
    """The service, where the client of boto3 looks for it."""
    with service_found(aws) as running:
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
    """Set waits so that no test depends on the machine's load."""
    engine = "actbox.sandbox.engines.agentcore"
    for name in ("AgentCoreSandbox.cleanup_seconds", "cancellation.LET_GO_SECONDS", "kernel._STOP_SECONDS"):
        aws.setattr(f"{engine}.{name}", 60.0)
