"""The packages of programs: those of the environment, those of `packages=`, and those that a program asks for.

`actbox.packages` resolves, fetches and checks all of them, in a sandbox of the `linux` engine whose only way out is the
package index. A container sees the first two as directories that are mounted when it is made. For the others it has one
directory of the host from birth, into which `LatePackages` moves the files while a run needs them.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from actbox.core.errors import InvalidValue, SandboxUnavailable
from actbox.core.packages import CLEAN, PackagePolicy, PackageRules, normalized_name
from actbox.core.policy import Policy
from actbox.core.program import Program
from actbox.sandbox.dependencies import Layer, NotProvided, Provided, of_environment, provide_packages
from actbox.sandbox.remote.interpreter import QUESTION, FoundInterpreter, read_answer
from actbox.sandbox.session_packages import link_or_copy
from actbox.sandbox.traits import Traits

from .client import Client, CommandFailed

_NAME: Final = r"[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?"
# A name, optional extras, versions and marker: no path and no address.
_REQUIREMENT = re.compile(
    rf"({_NAME})\s*(?:\[[\w\s.,-]*\])?\s*(?:\(?\s*[<>=!~][^;@/\\\x00-\x1f]*)?(?:;[^\x00-\x1f]*)?", re.ASCII
)
ENVIRONMENT: Final = "/opt/environment"
"""Where programs see the packages of a named environment, or of `packages=`: `site` to import from, `bin`."""
_MOST_KEPT: Final = 16
"""The most sets of late packages that a container keeps beside those in use."""

# Places where an image's interpreter is looked for.
_PYTHONS = ("python3", "python", "/usr/local/bin/python3", "/usr/bin/python3")
_LEAST_PYTHON = (3, 9)


_known: dict[str, FoundInterpreter] = {}


def image_python(client: Client, image: str, number: str) -> FoundInterpreter:
    """Return the interpreter of an image, whose id is `number`; it is asked once. Blocks.

    Raises `SandboxUnavailable` if the image has none.
    """
    for candidate in _PYTHONS if number not in _known else ():
        try:
            found = read_answer(
                client.run(
                    *("run", "--rm", "--network", "none", "--pull=never", "--ulimit", "nofile=1024:1024"),
                    *("--ulimit", "nproc=1000:1000", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
                    *("--entrypoint", candidate, image, "-c", QUESTION),
                )
            )
        except (CommandFailed, ValueError):
            continue
        if found.version >= _LEAST_PYTHON:
            _known[number] = found
            break
    if number not in _known:
        raise SandboxUnavailable(f"the image {image!r} has no Python {'.'.join(map(str, _LEAST_PYTHON))} or later")
    return _known[number]


def checked(packages: Sequence[str]) -> tuple[str, ...]:
    """Return the requirements in sorted order. Raises `InvalidValue` for an invalid one."""
    if isinstance(packages, (str, bytes)) or not isinstance(packages, Sequence):
        raise InvalidValue(f"packages must be a list such as ['pandas==2.2.*'], not {packages!r}")
    for package in packages:
        if not isinstance(package, str) or not _REQUIREMENT.fullmatch(package):
            raise InvalidValue(
                f"packages: {package!r} is no requirement such as 'pandas==2.2.*'; paths and addresses are not taken"
            )
    return tuple(sorted(set(packages)))


async def install(packages: tuple[str, ...], policy: Policy, traits: Traits, image: Layer | None) -> Provided:
    """Return the operator's packages, with all that they need, for this interpreter or that of an image.

    The policy's blocked packages are refused; all others are approved by being named. Raises `SandboxUnavailable`.
    """
    given = policy.packages or PackagePolicy()
    blocked = {normalized_name(rule.name) for rule in given.python.blocked}
    names = {normalized_name(match[1]) for one in packages if (match := _REQUIREMENT.fullmatch(one))}
    rules = PackageRules(auto_approved=sorted(names - blocked), blocked=given.python.blocked)
    policy = replace(policy, environment=CLEAN, packages=replace(given, python=rules))
    alone = image._replace(distributions=()) if image is not None else None
    try:
        return await provide_packages(
            Program("", dependencies=packages), policy, traits, alone, None, lambda event: None
        )
    except NotProvided as error:
        raise SandboxUnavailable(f"the packages {', '.join(packages)} could not be installed: {error}") from None


def layer_with(given: Provided, policy: Policy, image: Layer | None) -> Layer:
    """Return an environment with the operator's packages ahead of its own."""
    own = {one.name: one for one in of_environment(policy, image)}
    found = own | {one.name: one for one in given.distributions.asked}
    below = image or Layer("", "", "", ())
    return below._replace(folder=str(given.folder or ""), distributions=tuple(found.values()))


class LatePackages:
    """Sets of packages that a running container gets and loses again. Methods may be called in any thread.

    The container sees `shown`. A set lies beside it, as links to the files of the package cache or as copies, and is
    moved into `shown` while a run needs it, so that a later run does not find packages that it has not asked for.
    """

    def __init__(self, folder: str) -> None:
        """Make the directories below `folder`, which exists. Raises `OSError`."""
        self.shown = f"{folder}/late"
        self._kept = f"{folder}/kept"
        for place in (self.shown, self._kept):
            os.mkdir(place)
            os.chmod(place, 0o755)
        self._making = threading.Lock()
        self._lock = threading.Lock()
        self._uses: dict[str, int] = {}
        """How many runs use each set that has been made, in the order in which they were last shown."""

    def show(self, packages: Path) -> None:
        """Show a set until as many calls of `hide`. Blocks. Raises `OSError`."""
        name = packages.name
        with self._making:
            if name not in self._uses:
                made = f"{self._kept}/{name}"
                try:
                    shutil.copytree(packages, made, copy_function=link_or_copy)
                except BaseException:
                    shutil.rmtree(made, ignore_errors=True)
                    raise
            with self._lock:
                uses = self._uses.pop(name, 0)
                if not uses:
                    os.rename(f"{self._kept}/{name}", f"{self.shown}/{name}")
                self._uses[name] = uses + 1
                unused = [name for name, uses in self._uses.items() if not uses]
                for old in (old_sets := unused[: max(len(unused) - _MOST_KEPT, 0)]):
                    del self._uses[old]
            for old in old_sets:
                shutil.rmtree(f"{self._kept}/{old}", ignore_errors=True)

    def hide(self, packages: Path) -> None:
        """End one use of a set."""
        name = packages.name
        with self._lock, contextlib.suppress(FileNotFoundError):  # the container has been removed
            self._uses[name] -= 1
            if not self._uses[name]:
                os.rename(f"{self.shown}/{name}", f"{self._kept}/{name}")

    def new_session_folder(self) -> SessionFolder:
        """Make an empty directory in `shown` for the packages of a session. Raises `OSError`."""
        folder = SessionFolder(Path(tempfile.mkdtemp(prefix="session-", dir=self.shown)))
        folder.path.chmod(0o755)
        return folder


@dataclass(frozen=True, slots=True)
class SessionFolder:
    """A directory for the packages of a session; see `HeldFolder`."""

    path: Path

    def close(self) -> None:
        """Remove the directory, if its container has not been removed. Blocks."""
        shutil.rmtree(self.path, ignore_errors=True)
