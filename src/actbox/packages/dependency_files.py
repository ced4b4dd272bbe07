"""Dependencies from files that other tools write: `requirements.txt`, `pyproject.toml` and `uv.lock`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from actbox.core.errors import InvalidValue

from .project_files import read_project
from .requirements import read_requirements_file
from .uv_lock import read_uv_lock


def read_dependencies(
    path: str | os.PathLike[str], *, extras: Iterable[str] = (), groups: Iterable[str] = ()
) -> tuple[str, ...]:
    """Return what a file asks for, as requirements for `Program(dependencies=…)`, with its pins and hashes.

    `pyproject.toml` and `uv.lock` are known by their names; any other file is one of requirements. `extras` and
    `groups` are those of the project. Raises `InvalidValue` for a file that cannot be read, as the readers do.
    """
    file = Path(path)
    try:
        text = file.read_text("utf-8")
    except OSError as error:
        raise InvalidValue(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidValue(f"{file} is not UTF-8 text") from None
    try:
        if file.name == "uv.lock":
            return tuple(
                _text(f"{one.name} @ {one.address}" if one.address else f"{one.name}=={one.version}", one.hashes)
                for one in read_uv_lock(text, extras=extras, groups=groups)
            )
        if file.name == "pyproject.toml":
            return tuple(map(str, read_project(text, extras=extras, groups=groups).requirements))
        return tuple(_text(str(one), one.hashes) for one in read_requirements_file(text))
    except InvalidValue as error:
        raise InvalidValue(f"{file}: {error}") from None


def _text(requirement: str, hashes: Iterable[str]) -> str:
    return " ".join([requirement, *(f"--hash={one}" for one in hashes)])
