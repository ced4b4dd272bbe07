"""Which formats there are, for tests that must not fail for one that is not there yet."""

from __future__ import annotations

import importlib.util

import pytest

from actbox.content import transcripts
from actbox.content.wire import formats


def is_here(name: str) -> bool:
    return importlib.util.find_spec(f"actbox.content.wire.{name.replace('-', '_')}") is not None


def only_those_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have formats found out among those that there are."""
    names = tuple(name for name in formats.NAMES if is_here(name))
    monkeypatch.setattr(formats, "NAMES", names)
    monkeypatch.setattr(transcripts, "NAMES", names)
