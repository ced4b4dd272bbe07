"""Named environments: what they have, their locks with hashes, and what is known of how they were built.

environments/NAME.json     the definition, and the lock: the wheels with their hashes, and when each thing was done
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import sys
import sysconfig
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from actbox.core.errors import InvalidValue
from actbox.core.packages import CLEAN, HOST, Distribution, Environment, check_environment_name
from actbox.sandbox.dependencies import Target

from .artifacts import DAMAGED
from .locked_files import Locked


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentRecord:
    """A named environment as the package cache knows it. Times are seconds since 1970, 0.0 for what was never done.

    `platform` is that of the interpreter that the lock is for. `checked` says when, and against which file, the lock
    was compared with known vulnerabilities. A review holds for the lock that `reviewed_lock` is the digest of.
    """

    definition: Environment
    platform: str = ""
    locked: tuple[Locked, ...] = ()
    locked_at: float = 0.0
    built_at: float = 0.0
    checked_at: float = 0.0
    checked: str = ""
    reviewed_at: float = 0.0
    reviewed_by: str = ""
    reviewed_lock: str = ""

    @property
    def is_reviewed(self) -> bool:
        """Whether somebody has reviewed this lock."""
        return self.reviewed_lock == self.lock_sha256

    @property
    def lock_sha256(self) -> str:
        """A digest of the lock: the names, versions and hashes of all files, and the places of packages of npm."""
        lines = sorted(f"{one.name}=={one.version} sha256:{one.sha256} {one.place}".rstrip() for one in self.locked)
        return hashlib.sha256("\n".join([self.platform, *lines]).encode()).hexdigest()

    @property
    def distributions(self) -> tuple[Distribution, ...]:
        """The packages of the lock."""
        return tuple(dict.fromkeys(Distribution(one.name, one.version, one.sha256) for one in self.locked))


class EnvironmentRecords:
    """The records in one directory. The methods block, and may be called from any process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def names(self) -> tuple[str, ...]:
        """Return the names of all environments that are defined here, sorted."""
        try:
            return tuple(sorted(path.stem for path in self._folder.iterdir() if path.suffix == ".json"))
        except FileNotFoundError:
            return ()

    def read(self, name: str) -> EnvironmentRecord | None:
        """Return the record of an environment, or `None`. Raises `InvalidValue` for one that cannot be read."""
        path = self._path(name)
        try:
            said = json.loads(path.read_text("utf-8"))
            definition = Environment(**{**said["definition"], "packages": tuple(said["definition"]["packages"])})
            locked = tuple(Locked(**{**one, "requires": tuple(one["requires"])}) for one in said["locked"])
            return EnvironmentRecord(**{**said, "definition": definition, "locked": locked})
        except FileNotFoundError:
            return None
        except DAMAGED as error:
            raise InvalidValue(
                f"{path} is no record of an environment ({error}): remove it and build it anew"
            ) from None

    def write(self, record: EnvironmentRecord) -> None:
        """Write a record whole, or not at all. Raises `OSError`."""
        path = self._path(record.definition.name)
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=self._folder, delete=False) as file:
            json.dump(asdict(record), file, indent=1)
        os.replace(file.name, path)

    def remove(self, name: str) -> bool:
        """Remove a record; return whether there was one. What programs use meanwhile stays for them."""
        try:
            self._path(name).unlink()
        except FileNotFoundError:
            return False
        return True

    def unknown(self, name: str, language: str = "python") -> str:
        """Return the sentence about an environment that nobody has defined, for programs in a language."""
        near = difflib.get_close_matches(name, [HOST, CLEAN, *self.names()], n=1, cutoff=0.6)
        meant = f" (did you mean {near[0]!r}?)" if near else ""
        option = "" if language == "python" else f" --language {language}"
        return (
            f"there is no environment {name!r}{meant}: define it with `actbox environment build {name}{option} --with"
            " PACKAGE`, or give Policy an Environment(…)"
        )

    def _path(self, name: str) -> Path:
        check_environment_name(name)
        return self._folder / f"{name}.json"


def platform_of(target: Target | None, python: str = "") -> str:
    """Return what wheels are for: `target`, or an interpreter of this machine, "" for that of this process."""
    if target is not None:
        return str(target)
    version = python or ".".join(map(str, sys.version_info[:2]))
    return f"cpython-{version} {sysconfig.get_platform()}"
