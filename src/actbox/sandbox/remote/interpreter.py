"""An interpreter in an image or on another machine: its version, platform and packages, which it is asked for."""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from actbox.core.errors import SandboxUnavailable
from actbox.core.packages import Distribution, normalized_name
from actbox.core.policy import Policy
from actbox.sandbox.dependencies import Layer, Target

# A program for any CPython from 3.9. It prints where the interpreter is, its version, the architecture and C library,
# which decide which wheels fit, and the packages that it has.
QUESTION: Final = """
import importlib.metadata, json, os, re, subprocess, sys, sysconfig
machine, libc, minor = os.uname().machine if sys.platform == "linux" else "", "", 0
try:
    libc, version = os.confstr("CS_GNU_LIBC_VERSION").split()
    minor = int(version.split(".")[1])
except (AttributeError, ValueError, OSError):
    if "musl" in "%s %s" % (sysconfig.get_config_var("HOST_GNU_TYPE"), sysconfig.get_config_var("SOABI")):
        loader = "/lib/ld-musl-%s.so.1" % machine
        said = subprocess.run([loader], stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout.decode()
        libc, minor = "musl", int(re.search(r"Version 1[.](\\d+)", said).group(1))
packages = [(one.metadata["Name"], one.version) for one in importlib.metadata.distributions()]
print(json.dumps([sys.executable, sys.version_info[:2], machine, libc, minor, packages]))
"""


class FoundInterpreter(NamedTuple):
    """An interpreter elsewhere: its path there, what packages for it have to fit, and those that it has."""

    path: str
    target: Target
    distributions: tuple[Distribution, ...]

    @property
    def version(self) -> tuple[int, ...]:
        """The version, as in `(3, 12)`."""
        return tuple(map(int, self.target.version.split(".")))

    def layer(self, policy: Policy, name: str) -> Layer:
        """Return the interpreter and its packages as an environment.

        Raises `SandboxUnavailable` if it has packages that the policy blocks: programs see all that it has.
        """
        rules = policy.packages.python.blocked if policy.packages is not None else ()
        blocked = {normalized_name(rule.name) for rule in rules}
        if there := sorted(one.name for one in self.distributions if one.name in blocked):
            raise SandboxUnavailable(
                f"{name} has packages that the policy blocks, and shows programs all that it has: {', '.join(there)};"
                " remove them there"
            )
        return Layer("", "", self.target.version, self.distributions, target=self.target, name=name)


def read_answer(said: str) -> FoundInterpreter:
    """Return what the interpreter has answered to `QUESTION`. Raises `ValueError` for anything else."""
    try:
        path, version, machine, libc, minor, packages = json.loads(said)
        named = {normalized_name(str(name)): str(version) for name, version in reversed(packages)}
        target = Target(f"{int(version[0])}.{int(version[1])}", str(machine), str(libc), int(minor))
    except (TypeError, IndexError) as error:
        raise ValueError(f"no answer of an interpreter: {said[:200]!r}") from error
    return FoundInterpreter(str(path), target, tuple(Distribution(name, version) for name, version in named.items()))


def on_top(below: Layer, above: Layer, name: str) -> Layer:
    """Return an environment that has the files and the packages of one layer ahead of another's."""
    packages = {one.name: one for one in (*below.distributions, *above.distributions)}
    return below._replace(folder=above.folder, distributions=tuple(packages.values()), name=name)
