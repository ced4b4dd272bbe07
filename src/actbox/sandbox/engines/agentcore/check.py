"""What can be said of the engine without starting a session, which AWS would bill for."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from actbox.sandbox.traits import EngineCheck

from .service import EXTRA, HOW_TO_LOG_IN, region_of
from .traits import TRAITS

_NEEDED: Final = ("boto3", "bedrock_agentcore")
# They ask a server for credentials, which where there is none takes seconds to find out.
_ASKING: Final = ("container-role", "iam-role")


def check() -> EngineCheck:
    """Return why it cannot be tried. Reaches no network."""
    reason, advice = _why_not()
    return EngineCheck(engine="agentcore", works=False, reason=reason, advice=advice, traits=TRAITS)


def _why_not() -> tuple[str, str]:
    for name in _NEEDED:
        if find_spec(name) is None:
            return f"there is no {name}", EXTRA
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
