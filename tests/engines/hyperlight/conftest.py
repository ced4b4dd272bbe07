"""Sandboxes of the hyperlight engine: in machines where there is a hypervisor, and over a stand-in anywhere."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import actbox
from actbox.sandbox.engines.hyperlight import engine, options
from tests.conftest import EMULATED

STAND_IN = str(Path(__file__).parent / "stand_in")


@functools.cache
def checked() -> actbox.EngineCheck:
    if EMULATED:
        import_module("actbox.sandbox.engines.hyperlight.check").CHECK_SECONDS = 200.0
        import_module("actbox.sandbox.engines.hyperlight.machine").START_SECONDS = 200.0
    return actbox.check("hyperlight")


@pytest.hookimpl(tryfirst=True)  # before the fixtures, of which some open a sandbox for a whole module
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs a hypervisor where there is none."""
    if item.get_closest_marker("hyperlight") is not None and not checked().works:
        if EMULATED:
            pytest.fail(
                f"the hyperlight engine does not work in a machine made for it: {checked().reason}", pytrace=False
            )
        pytest.skip(f"the hyperlight engine does not work here: {checked().reason} `make test-hyperlight` brings one")


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have workers import the stand-in instead of the library."""
    monkeypatch.syspath_prepend(STAND_IN)
    monkeypatch.setattr(engine, "why_no_hypervisor", lambda: ("", ""))
    backends = ("hyperlight_sandbox_backend_wasm", "hyperlight_sandbox_backend_hyperlight_js")
    for name in ("hyperlight_sandbox", *backends, "python_guest"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert options.missing_package("wasm", options.PACKAGED_GUEST) == ""
    yield
