"""A machine that is reached by the OpenSSH client, and the command line that does it.

The client, and not a library: it reads the user's own configuration, keys, certificates, agent and known hosts as the
user is used to, and its three pipes are all that an agent needs.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from actbox.core.errors import InvalidValue

_MOST_PORT = 65535
# Whatever the user's configuration says of these. A connection that is gone is noticed within 45 seconds.
_ALWAYS: Final = (
    "BatchMode=yes",
    "StrictHostKeyChecking=yes",
    "UpdateHostKeys=no",
    "CheckHostIP=no",
    "ForwardAgent=no",
    "ForwardX11=no",
    "ClearAllForwardings=yes",
    "Tunnel=no",
    "PermitLocalCommand=no",
    "RemoteCommand=none",
    "RequestTTY=no",
    "EscapeChar=none",
    "ControlMaster=no",
    "ControlPath=none",
    "ServerAliveInterval=15",
    "ServerAliveCountMax=3",
    "LogLevel=ERROR",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where programs are to run. Raises `InvalidValue` for what names no place.

    `host` is `user@host`, or whatever name the user's configuration of ssh has; `port`, `key` (a file with a private
    key, then the only one that is tried) and `known_hosts` (a file, then the only one that is believed) are the user's
    own unless told, as is `config` (a file; `none` for no configuration at all). A host whose key is not known is
    refused, and nobody is asked for anything. `python` is an interpreter there, 3.9 or newer. The workspace is made
    in `folder`, the machine's temporary folder unless told. A connection has `connect_seconds` to come about.
    """

    host: str
    port: int | None = None
    key: str | None = None
    known_hosts: str | None = None
    config: str | None = None
    python: str = "python3"
    folder: str | None = None
    connect_seconds: int = 15

    def __post_init__(self) -> None:
        if not isinstance(self.host, str) or not self.host:
            raise InvalidValue("the ssh engine needs a machine to be named: host='user@host'")
        if self.host.startswith("-") or "@-" in self.host or not self.host.isprintable() or " " in self.host:
            raise InvalidValue(f"host must be a name such as 'user@host', not {self.host!r}")
        name, colon, port = self.host.partition(":")
        if colon and port.isdecimal():
            raise InvalidValue(f"host has no port in it: host={name!r}, port={port}, not {self.host!r}")
        for name, most in (("port", _MOST_PORT), ("connect_seconds", 3600)):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= most):
                raise InvalidValue(f"{name} must be a whole number from 1 to {most}, not {value!r}")
        for name in ("key", "known_hosts", "config", "python", "folder"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, str) or not value or not value.isprintable()):
                raise InvalidValue(f"{name} must be a path, not {value!r}")
        for name in ("key", "known_hosts"):
            if '"' in (getattr(self, name) or ""):
                raise InvalidValue(f'{name} must be a path without ", which ssh takes for the end of it')

    def command(self, arguments: Sequence[str]) -> list[str]:
        """Return the command line that has the machine run a program with these arguments."""
        options = [*_ALWAYS, f"ConnectTimeout={self.connect_seconds}"]
        if self.port is not None:
            options.append(f"Port={self.port}")
        if self.key is not None:
            options += [f"IdentityFile={_literal(self.key)}", "IdentitiesOnly=yes"]
        if self.known_hosts is not None:
            options += [f"UserKnownHostsFile={_literal(self.known_hosts)}", "GlobalKnownHostsFile=none"]
        command = ["ssh", "-T"]
        if self.config is not None:
            command += ["-F", self.config]
        for option in options:
            command += ["-o", option]
        # The shell there takes it apart again. What a caller's program is, is never in it.
        return [*command, "--", self.host, shlex.join(arguments)]


def _literal(path: str) -> str:
    """Return a path as ssh reads it: in quotes for its spaces, and percent signs for themselves."""
    return '"{}"'.format(path.replace("%", "%%"))
