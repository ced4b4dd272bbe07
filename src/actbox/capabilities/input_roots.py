"""`InputRoot`: a directory of the host below which the input files of programs may lie; and their reading."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from actbox.core.errors import InvalidValue
from actbox.core.labels import PUBLIC, Label
from actbox.sandbox.guest import beneath

from .invocation import Invocation
from .outcome import StepFailed

_MOST_INPUT_BYTES: Final = 256 * 2**20
_MIB: Final = 2**20

InputLabels = Mapping[str | os.PathLike[str], Label | str]
"""Directories of the host with the labels of their files."""


@dataclass(frozen=True, slots=True)
class InputRoot:
    """A directory of the host below which `input_files` may lie, and the label of each file in it."""

    path: Path
    label: Label = PUBLIC
    named: Path | None = None
    """The path by which the registry was given it, if there is a link in that."""

    @classmethod
    def all_of(cls, given: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | InputLabels) -> tuple[Self, ...]:
        """Return the roots that a user names: a directory, several, or the label of each. Raises `InvalidValue`."""
        if isinstance(given, str | os.PathLike):
            given = [given]
        labels = given if isinstance(given, Mapping) else dict.fromkeys(given, PUBLIC)
        return tuple(cls._of(path, Label(label)) for path, label in labels.items())

    @classmethod
    def _of(cls, path: str | os.PathLike[str], label: Label) -> Self:
        found, named = Path(os.path.realpath(path)), Path(os.path.abspath(path))
        if not found.is_dir():
            raise InvalidValue(f"input_roots: {path} is no directory")
        return cls(found, label, None if named == found else named)


def input_files(call: Invocation, given: Mapping[str, str], roots: Sequence[InputRoot]) -> dict[str, bytes]:
    """Return the content of host files by their names inside; each raises the call's label by its directory's."""
    files: dict[str, bytes] = {}
    left = _MOST_INPUT_BYTES
    for name, path in given.items():
        where = Path(os.path.abspath(path))
        for one in roots:
            if one.named is not None and where.is_relative_to(one.named):
                where = one.path / where.relative_to(one.named)
                break
        # The innermost directory counts, so that a part of one can have a label of its own.
        within = [one for one in roots if where.is_relative_to(one.path)]
        if not within:
            why = f"input_files: {path} lies below none of the directories that may be read"
            raise StepFailed("refused", "validate_input", why)
        root = max(within, key=lambda one: len(one.path.parts))
        call.raise_label(root.label)  # a refusal also says something about the directory
        try:
            with beneath.opened_folder("/") as top:  # so that no link on the way to the root is followed either
                descriptor = beneath.open_file(top, os.fspath(where.relative_to("/")))
            with open(descriptor, "rb", buffering=0) as file:
                is_large = os.fstat(descriptor).st_size > left  # so that no more than may be is ever read
                data = b"" if is_large else beneath.read_open(file.fileno(), left + 1)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            why = f"input_files: {path} cannot be read: {reason or 'it is no file'}"
            raise StepFailed("refused", "validate_input", why) from None
        if is_large or (left := left - len(data)) < 0:
            most = f"{_MOST_INPUT_BYTES // _MIB} MiB"
            raise StepFailed("refused", "validate_input", f"input_files: together they have more than {most}")
        files[name] = data
    return files
