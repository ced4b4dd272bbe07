"""The caller's options for the service's session: its region, its name, and its lifetime."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from typing import Any, Final

from actbox.core.errors import InvalidValue

SYSTEM_INTERPRETER: Final = "aws.codeinterpreter.v1"
"""The code interpreter that AWS provides for every account; its programs have no network."""
MOST_SECONDS: Final = 28800
# The values that the service accepts, by its model and its documentation.
_IDENTIFIER = re.compile(r"[a-zA-Z][a-zA-Z0-9_.-]{0,99}")
_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_-]{0,99}")
_REGION = re.compile(r"[a-z]{2}(-[a-z]+)+-[0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentCoreOptions:
    """The place where programs run. Raises `InvalidValue` for values that the service does not accept.

    `region` defaults to the AWS configuration's, then to AWS_REGION. `identifier` names a code interpreter: the one
    that AWS provides for every account, or one of your own. `session_name` is the name that the service shows for the
    session; the default is unique. The service ends a session `session_seconds` after it began, whatever runs in it.
    `client` is a `bedrock_agentcore.tools.code_interpreter_client.CodeInterpreter` without a session; the default is a
    new one with the credentials of the AWS configuration. `python` is an interpreter there, 3.9 or newer; `node` is an
    interpreter of JavaScript and TypeScript.
    """

    region: str | None = None
    identifier: str = SYSTEM_INTERPRETER
    session_name: str | None = None
    session_seconds: int = 900
    client: Any = None
    python: str = "python3"
    node: str = "node"

    def __post_init__(self) -> None:
        if self.region is not None and not (isinstance(self.region, str) and _REGION.fullmatch(self.region)):
            raise InvalidValue(f"region must be one of AWS, such as 'eu-west-1', not {self.region!r}")
        if not isinstance(self.identifier, str) or not _IDENTIFIER.fullmatch(self.identifier):
            raise InvalidValue(f"identifier must be that of a code interpreter, not {self.identifier!r}")
        if self.session_name is not None and not (
            isinstance(self.session_name, str) and _NAME.fullmatch(self.session_name)
        ):
            raise InvalidValue(
                f"session_name must have 1 to 100 letters, digits, - and _, and begin with one of the former two, not "
                f"{self.session_name!r}"
            )
        seconds = self.session_seconds
        if not isinstance(seconds, int) or isinstance(seconds, bool) or not 1 <= seconds <= MOST_SECONDS:
            raise InvalidValue(f"session_seconds must be a whole number from 1 to {MOST_SECONDS:,}, not {seconds!r}")
        for name in ("python", "node"):
            value = getattr(self, name)
            if not isinstance(value, str) or not value or not value.isprintable():
                raise InvalidValue(f"{name} must be the path of a program there, not {value!r}")

    def name_for_a_session(self) -> str:
        """Return the name for a new session."""
        return self.session_name or f"actbox-{secrets.token_hex(8)}"
