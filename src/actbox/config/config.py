"""`Config`: the content of an operator's configuration files, merged and checked."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from actbox.core.errors import InvalidValue
from actbox.core.packages import CLEAN, HOST, Environment, PackagePolicy
from actbox.core.policy import Policy

from .documents import read_document
from .merging import Merged
from .sections import add_document


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The content of configuration files. A field that no file sets has its default."""

    enabled: bool = True
    """False if programs must not run: callers then register no capability and no tool that executes code."""
    engine: str = "auto"
    engine_options: Mapping[str, str] = field(default_factory=dict)
    """The engine's own options: `open_sandbox(config.engine, **config.engine_options)` opens what `runtime` names."""
    environments: tuple[Environment, ...] = ()
    packages: PackagePolicy | None = None
    """`None` if no file has a list of packages, not even an empty one."""
    enable_package_cache: bool = True
    package_cache_dir: str = ""
    """The directory as the file names it. `cache_directory()` checks it."""

    @classmethod
    def load(cls, *paths: str | os.PathLike[str]) -> Config:
        """Return the content of all files together. A file's extension says whether it is TOML or YAML.

        Raises `InvalidValue`, which names the file, if one cannot be read or has an unknown key or an invalid value; it
        names both files if two contradict each other. Raises `ActboxError` for YAML if PyYAML is not installed.
        """
        merged = Merged()
        for path in paths:
            file, document = read_document(path)
            add_document(document, file, merged)
        return cls(**merged.settings, environments=tuple(merged.environments.values()), packages=merged.policy())

    def policy(self, environment: str = HOST) -> Policy:
        """Return the policy of programs that see an environment: one of the files', or `"host"` or `"clean"`.

        Its packages are installed by way of the package cache that the files name. Raises `InvalidValue` for another
        environment, and as `cache_directory` does.
        """
        named: dict[str, str | Environment] = {HOST: HOST, CLEAN: CLEAN, **{one.name: one for one in self.environments}}
        if environment not in named:
            raise InvalidValue(f"no file defines the environment {environment!r}; there are {', '.join(named)}")
        packages = self.packages
        if packages is not None or environment not in (HOST, CLEAN):
            packages = replace(packages or PackagePolicy(), cache=self.package_cache())
        return Policy(environment=named[environment], packages=packages)

    def package_cache(self) -> str | None:
        """Return the package cache for `PackagePolicy(cache=…)`; raises as `cache_directory` does."""
        directory = self.cache_directory()
        return "" if not self.enable_package_cache else str(directory) if directory is not None else None

    def cache_directory(self) -> Path | None:
        """Return the directory of `package_cache_dir`, or `None` if no file names one. Makes a missing directory.

        Call it before each use. Raises `InvalidValue` if others could replace packages: if the directory or a parent is
        a link, belongs to another user, or is open to others for writing. A parent may belong to root, and may be open
        to others if it has the sticky bit, as `/tmp` has: there, only we can rename what is ours.
        """
        if not self.package_cache_dir:
            return None
        # The room of packages needs an extra, which a file without packages does not.
        from actbox.packages.private_directory import private_directory

        return private_directory(self.package_cache_dir, "package_cache_dir")
