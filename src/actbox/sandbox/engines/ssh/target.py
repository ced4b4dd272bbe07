"""A machine reached by the OpenSSH client, and the command line for it.

The client is used and not a library, because it reads the user's own configuration, keys, certificates, agent and known
hosts as usual, and its three pipes are all that an agent needs.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from actbox.core.errors import InvalidValue

_MOST_PORT = 65535
# These override the user's configuration. A lost connection is noticed within 45 seconds.
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
class SshTarget:
    """The machine and account on which programs run. Raises `InvalidValue` for invalid settings.

    `host` is `user@host`, or a name in the user's ssh configuration. `port`, `key` (a private key file, then the only
    one tried), `known_hosts` (a file, then the only one trusted) and `config` (a file; `none` for no configuration)
    default to the user's own. A host whose key is not known is refused, and nobody is asked for anything. `python` is
    an interpreter there, 3.9 or newer. The workspace is made in `folder` (default: the machine's temporary directory).
    A connection must be made within `connect_seconds`.
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
        """Return the command line that runs a program with these arguments on the machine."""
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
        # The remote shell splits it again. It never contains anything of a caller's program.
        return [*command, "--", self.host, shlex.join(arguments)]


def _literal(path: str) -> str:
    """Return a path in ssh's syntax: quoted because of spaces, with percent signs doubled."""
    return '"{}"'.format(path.replace("%", "%%"))
