"""The artifacts that an errand tells of, taken in one by one, no more of them than the limits allow."""

from __future__ import annotations

import json

from actbox.core.limits import Limits
from actbox.core.result import Artifact
from actbox.sandbox.left_out import printable, shown

from .answers import ShellError

_MOST_WARNINGS = 110
_MOST_OF_A_WARNING = 1000
_MOST_OF_A_REPLY = 2**20


class Gathered:
    """What an errand has told so far."""

    def __init__(self, limits: Limits) -> None:
        self._files_left = limits.artifacts
        self._bytes_left = limits.artifact_mib * 2**20
        self._names: list[str] = []
        self._contents: list[bytearray] = []
        self._reply = bytearray()
        self._failure = ""

    def take(self, kind: str, data: bytes) -> None:
        """Take in one answer. Raises `ShellError` for what no errand of ours says."""
        if kind == "r":
            self._reply += data
            if len(self._reply) > _MOST_OF_A_REPLY:
                raise ShellError("the shell told too much of what was left out")
        elif kind == "f":
            self._files_left -= 1
            self._names.append(_name(data))
            self._contents.append(bytearray())
        elif kind == "b":
            self._bytes_left -= len(data)
            if not self._contents:
                raise ShellError("the shell sent bytes of no file")
            self._contents[-1] += data
        if self._files_left < 0 or self._bytes_left < 0:
            raise ShellError("the shell sent more artifacts than it was asked for")

    def failed(self, why: str) -> None:
        """Note that the rest will not come."""
        self._failure = why

    def result(self) -> tuple[list[Artifact], list[str]]:
        """Return the artifacts sorted by name, and a sentence for each thing that was left out."""
        if self._failure:  # the last file may be half a file
            return [], [f"output/ could not be collected: {self._failure}"]
        found = zip(self._names, self._contents, strict=True)
        artifacts = [Artifact(name, bytes(content)) for name, content in found]
        return sorted(artifacts, key=lambda artifact: artifact.name), self._warnings()

    def _warnings(self) -> list[str]:
        try:
            given = json.loads(self._reply or b"{}").get("warnings", [])
        except (ValueError, AttributeError, RecursionError):
            given = None
        if not isinstance(given, list) or not all(isinstance(warning, str) for warning in given):
            return ["what was left out of output/ could not be understood"]
        return [printable(warning)[:_MOST_OF_A_WARNING] for warning in given[:_MOST_WARNINGS]]


def _name(data: bytes) -> str:
    try:
        name = json.loads(data)
    except ValueError:
        name = None
    if not isinstance(name, str) or not name or name.startswith("/") or ".." in name.split("/") or "\0" in name:
        raise ShellError(f"the shell named a file {shown(repr(name))} below output/")
    return printable(name)
