"""The interpreters of environments: their directories, which guests see, and their packages, which guests may not."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

from actbox.core.environment_names import CLEAN, HOST
from actbox.core.errors import SandboxUnavailable
from actbox.sandbox.host_python import HOST_PYTHON, package_folders

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actbox.core.packages import PackageRules
    from actbox.core.policy import Policy
    from actbox.sandbox.dependencies import Layer

_ASK_SECONDS = 30.0
_QUESTION = """
import json, site, sys
prefixes = [sys.prefix, sys.exec_prefix]
print(json.dumps({"python": sys.executable, "prefixes": prefixes, "packages": site.getsitepackages()}))
"""
# Debian's own packages: every interpreter's programs could start that of /usr, which would import them.
_OF_SYSTEM = (
    "/usr/lib/python3/dist-packages",
    "/usr/lib/python3.*/site-packages",
    "/usr/local/lib/python3.*/dist-packages",
    "/usr/local/lib/python3.*/site-packages",
)


class Base(NamedTuple):
    """What all guests of one nursery have from birth: an environment, by name, and modules that are imported ahead."""

    environment: str = HOST
    preload: tuple[str, ...] = ()
    rules: PackageRules | None = None
    """The rules by which the packages of `host` are shown, `None` for all of them."""
    layer: Layer | None = None
    """The files of a named environment."""


class Interpreter(NamedTuple):
    """An interpreter as guests have it."""

    python: str
    """The path of its executable, "" if it is unknown."""
    folders: tuple[str, ...]
    """The directories besides `/usr` that guests see read-only."""
    packages: tuple[str, ...]
    """The directories of packages from which guests import."""
    left: Mapping[str, tuple[str, ...]] = {}
    """What guests find in directories of packages that they do not see whole: paths in each, with all below."""
    scripts: str = ""
    """A directory of scripts for the end of `PATH`, if there is one."""
    trusted: bool = True
    """True if the packages may be imported before there is any sandbox, as those of this process may."""
    runs_pth: bool = True
    """True if the `.pth` files of the packages are processed before there is any sandbox."""

    @property
    def options(self) -> list[str]:
        """The interpreter's own options."""
        return [] if self.runs_pth else ["-S"]


def base_of(policy: Policy, layer: Layer | None = None) -> Base:
    """Return what a policy's guests have from birth; `layer` has the files of a named environment."""
    rules = policy.packages.python if policy.packages is not None and policy.environment == HOST else None
    return Base(policy.environment_name, policy.preload, rules, layer)


def interpreter(base: Base) -> Interpreter:
    """Return the interpreter of a base. May block. Raises `SandboxUnavailable` if it cannot be asked."""
    underneath = getattr(sys, "_base_executable", "") or HOST_PYTHON
    if base.layer is not None:
        return _with_layer(_clean(base.layer.python or underneath), base.layer.folder)
    if base.environment == CLEAN:
        return _clean(underneath)
    packages = tuple(package_folders())
    if base.rules is None:
        return Interpreter(HOST_PYTHON, tuple(environment_folders()), packages)
    from actbox.sandbox.visible_packages import entries_left

    left = {**_clean(underneath).left, **entries_left(base.rules)}
    return Interpreter(HOST_PYTHON, tuple(environment_folders()), packages, left, runs_pth=False)


def _with_layer(clean: Interpreter, folder: str) -> Interpreter:
    folders = (*clean.folders, folder)
    return clean._replace(folders=folders, packages=(f"{folder}/site",), scripts=f"{folder}/bin", trusted=False)


def environment_folders() -> list[str]:
    """Return the directories of the interpreter and its packages, which guests of `host` see read-only."""
    return _shown({sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix, *package_folders()}, HOST_PYTHON)


def _shown(folders: set[str], python: str) -> list[str]:
    # The executable may be a link into yet another directory, as uv and pyenv make them.
    folders = folders | {os.path.dirname(os.path.dirname(os.path.realpath(python)))}
    return sorted(folder for folder in folders if folder not in ("/", "/usr"))


@functools.cache
def _clean(python: str) -> Interpreter:
    """Return the interpreter on which this process's environment is built, without any packages."""
    import glob
    import json

    if not python:
        raise SandboxUnavailable("this Python does not know its own executable, from which guests are made")
    try:
        asked = subprocess.run(
            [python, "-I", "-S", "-c", _QUESTION], capture_output=True, text=True, timeout=_ASK_SECONDS, check=True
        )
        found = json.loads(asked.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise SandboxUnavailable(f"the interpreter {python} does not say where it is: {error}") from error
    of_system = [path for pattern in _OF_SYSTEM for path in glob.glob(pattern)]
    left = {path: () for path in (*found["packages"], *of_system) if os.path.isdir(path)}
    folders = tuple(_shown(set(found["prefixes"]), found["python"]))
    return Interpreter(found["python"], folders, (), left, runs_pth=False)
