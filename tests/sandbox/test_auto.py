"""Which engine `auto` takes, on machines where some do not work, and what it says of that."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

import actbox
from actbox import EngineCheck
from actbox.sandbox import opening
from actbox.sandbox.registry import TABLE, Engine

WORKING = frozenset({"linux", "container", "process"})


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Callable[[frozenset[str]], None]:
    """Return a function that makes this a machine where only these engines work."""

    class On(Engine):
        works = WORKING

        def check(self) -> EngineCheck:
            return EngineCheck(engine=self.name, works=self.name in self.works, reason=f"no {self.name} here")

    def make(working: frozenset[str]) -> None:
        On.works = working
        rows = {
            name: On(**{field.name: getattr(row, field.name) for field in dataclasses.fields(Engine)})
            for name, row in TABLE.items()
        }
        monkeypatch.setattr(opening, "TABLE", rows)
        monkeypatch.setattr(opening, "_found_working", set())

    return make


@pytest.mark.parametrize(
    ("works", "allow_unisolated", "taken", "said"),
    [
        (WORKING, False, "linux", "auto: the linux engine, the first of linux, container that works here"),
        (WORKING - {"linux"}, False, "container", "that works here; linux: no linux here"),
        ({"process"}, True, "process", "WITHOUT ANY ISOLATION, the first of linux, container, ssh, process that works"),
    ],
)
def test_it_takes_the_first_that_works_and_says_why(
    machine: Callable[[frozenset[str]], None],
    caplog: pytest.LogCaptureFixture,
    works: frozenset[str],
    allow_unisolated: bool,
    taken: str,
    said: str,
) -> None:
    machine(works)
    with caplog.at_level("INFO", logger="actbox"):
        assert actbox.open_sandbox(allow_unisolated=allow_unisolated).traits.engine == taken
    assert said in caplog.text


def test_it_takes_none_without_isolation_unless_that_is_allowed(machine: Callable[[frozenset[str]], None]) -> None:
    machine(frozenset({"process", "wasm", "monty"}))
    assert actbox.open_sandbox().traits.engine == "linux"  # whose start says why it does not work
