"""The AWS configuration of tests that have the service on this machine, and nothing of this machine's own."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.engines.agentcore.code_service import CodeService

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of its own dependencies, at its first import
    import bedrock_agentcore.tools.code_interpreter_client  # noqa: F401


@contextmanager
def aws_configured() -> Iterator[pytest.MonkeyPatch]:
    """Have credentials that nobody gave for a block, and no region."""
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


@contextmanager
def service_found(patch: pytest.MonkeyPatch) -> Iterator[CodeService]:
    """Have the service for a block, where the client of boto3 looks for it."""
    with CodeService() as running:
        patch.setenv("AWS_ENDPOINT_URL_BEDROCK_AGENTCORE", running.url)
        yield running
