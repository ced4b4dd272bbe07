"""The `ssh` engine: programs of an account on another machine, reached by the OpenSSH client."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from actbox.core.errors import InvalidValue
from actbox.core.policy import Policy
from actbox.sandbox.traits import EngineCheck

from .engine import SshSandbox
from .place import Place
from .traits import TRAITS

if TYPE_CHECKING:
    from actbox.sandbox.egress.upstream import Upstream

__all__ = ["TRAITS", "Place", "SshSandbox", "check", "open_engine"]


def check() -> EngineCheck:
    """Return why it cannot be tried: whether it works is a matter of a machine that nobody has named here."""
    if shutil.which("ssh") is None:
        return EngineCheck(
            engine="ssh",
            works=False,
            reason="there is no ssh command",
            advice="install the OpenSSH client (Debian: openssh-client), and name a machine: host='user@host'",
            traits=TRAITS,
        )
    return EngineCheck(
        engine="ssh",
        works=False,
        reason="it runs programs on another machine, which has to be named",
        advice="open_sandbox('ssh', host='user@host', allow_unisolated=True), where `ssh user@host` asks for nothing",
        traits=TRAITS,
    )


def open_engine(
    policy: Policy,
    upstream: Upstream | None,
    *,
    host: str = "",
    port: int | None = None,
    key: str | Path | None = None,
    known_hosts: str | Path | None = None,
    config: str | Path | None = None,
    python: str = "python3",
    folder: str | None = None,
    connect_seconds: int = 15,
) -> SshSandbox:
    """Return a sandbox on another machine; see `Place` for the options. Programs reach whatever that machine does.

    Raises `InvalidValue` for a file that is not there, and `Unsupported` for what the policy restricts.
    """
    place = Place(
        host=host,
        port=port,
        key=None if key is None else str(key),
        known_hosts=None if known_hosts is None else str(known_hosts),
        config=None if config is None else str(config),
        python=python,
        folder=folder,
        connect_seconds=connect_seconds,
    )
    # Of either ssh itself would only say that it was not let in.
    if place.key and not any(os.path.exists(os.path.expanduser(place.key + end)) for end in ("", ".pub")):
        raise InvalidValue(f"there is no file with a key at {place.key}")
    if place.known_hosts and not os.path.exists(os.path.expanduser(place.known_hosts)):
        raise InvalidValue(f"there is no file with the keys of hosts at {place.known_hosts}")
    return SshSandbox(policy, place)
