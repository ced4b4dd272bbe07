"""The `agentcore` engine: sessions of Amazon Bedrock AgentCore's code interpreter."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from actbox.core.policy import Policy
from actbox.sandbox.traits import EngineCheck

from .engine import TRAITS, AgentCoreSandbox
from .options import SYSTEM_INTERPRETER, AgentCoreOptions
from .service import EXTRA, HOW_TO_LOG_IN, region_of

if TYPE_CHECKING:
    from actbox.sandbox.egress.upstream import Upstream

__all__ = ["TRAITS", "AgentCoreOptions", "AgentCoreSandbox", "check", "open_engine"]
_NEEDED: Final = ("boto3", "bedrock_agentcore")
# These providers ask a server for credentials. If there is no such server, the attempt takes seconds.
_ASKING: Final = ("container-role", "iam-role")


def open_engine(
    policy: Policy,
    upstream: Upstream | None,
    *,
    region: str | None = None,
    identifier: str = SYSTEM_INTERPRETER,
    session_name: str | None = None,
    session_seconds: int = 900,
    client: Any = None,
    python: str = "python3",
    node: str = "node",
) -> AgentCoreSandbox:
    """Return a sandbox in a session of the service. Both start together; see `AgentCoreOptions` for the options."""
    options = AgentCoreOptions(
        region=region,
        identifier=identifier,
        session_name=session_name,
        session_seconds=session_seconds,
        client=client,
        python=python,
        node=node,
    )
    return AgentCoreSandbox(policy, options)


def check() -> EngineCheck:
    """Return why the engine cannot be tried: AWS would bill a session. Does not use the network."""
    reason, advice = _why_not()
    return EngineCheck(engine="agentcore", works=False, reason=reason, advice=advice, traits=TRAITS)


def _why_not() -> tuple[str, str]:
    for name in _NEEDED:
        if find_spec(name) is None:
            return f"it needs {name}, which is not installed", EXTRA
    from botocore.exceptions import BotoCoreError
    from botocore.session import Session

    try:
        session = Session()
        credentials = session.get_component("credential_provider")
        for name in _ASKING:
            credentials.remove(name)
        found = credentials.load_credentials()
        region = region_of(session.get_config_variable("region"))
    except BotoCoreError as error:
        return f"the AWS configuration cannot be read: {error}", "see `aws configure`"
    if found is None:
        return (
            "no AWS credentials are configured here; those of a machine of AWS's own are not looked for",
            HOW_TO_LOG_IN,
        )
    where = "" if region else ", region='eu-west-1'"
    return (
        "it runs programs in the AWS service, which bills for it, so nothing is started to see whether it works",
        f"open_sandbox('agentcore'{where}) finds out",
    )
