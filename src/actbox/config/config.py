"""`Config`: the content of an operator's configuration files, merged and checked."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from actbox.core.packages import Environment, PackagePolicy

from .cache_directory import private_directory
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

    def cache_directory(self) -> Path | None:
        """Return the directory of `package_cache_dir`, or `None` if no file names one. Makes a missing directory.

        Call it before each use. Raises `InvalidValue` if others could replace packages: if the directory or a parent is
        a link, belongs to another user, or is open to others for writing. A parent may belong to root, and may be open
        to others if it has the sticky bit, as `/tmp` has: there, only we can rename what is ours.
        """
        return private_directory(self.package_cache_dir, "package_cache_dir") if self.package_cache_dir else None
