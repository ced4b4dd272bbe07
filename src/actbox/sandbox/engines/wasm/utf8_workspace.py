"""A workspace without names that are not UTF-8: an interpreter in WebAssembly could not even list their folder."""

from __future__ import annotations

from actbox.sandbox.paths import refuse_undecoded
from actbox.sandbox.workspace import Workspace


class Utf8Workspace(Workspace):
    """Its methods raise `FileError` for a path that is not UTF-8."""

    def _parts(self, path: str) -> tuple[str, ...]:
        parts = super()._parts(path)
        refuse_undecoded(path)
        return parts
