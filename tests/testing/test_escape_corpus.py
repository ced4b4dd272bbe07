"""The attempts of the kit get through where there are no walls, and nowhere else."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import ClassVar, Final

import pytest
from _pytest.mark import ParameterSet

import actbox
from actbox import Policy, Sandbox
from actbox.testing import EscapeAttempt, Prey, SandboxEscape, escape_attempts
from actbox.testing.cases.needs import ISOLATED
from tests.conftest import INSTALLED_APART, engine_check
from tests.left_out import is_left_out
from tests.testing.unwalled import Unwalled

# What a process of another namespace, or what is not installed, must be there for.
_NEEDS_A_PROGRAM: Final = {"list the processes": "/usr/bin/ps", "connect in a child": "/bin/bash"}

_TAKES_LONG: Final = ("compute for longer than allowed",)
_SLEEPS: Final = "go on for longer than allowed"


def _attempts() -> list[ParameterSet]:
    """The attempts; what computes for many seconds on this machine is left to the run that takes its time."""
    return [
        pytest.param(attempt, id=attempt.name, marks=pytest.mark.engines if attempt.name in _TAKES_LONG else ())
        for attempt in escape_attempts()
    ]


@pytest.mark.engines  # a control of the attempts themselves
@pytest.mark.parametrize("attempt", _attempts())
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a program may leave its files open
async def test_it_gets_through_where_there_are_no_walls(
    attempt: EscapeAttempt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An attempt that could not succeed anywhere would prove nothing."""
    if attempt.name == _SLEEPS:
        monkeypatch.setattr(time, "sleep", lambda seconds: None)  # the program runs in this process
    program = _NEEDS_A_PROGRAM.get(attempt.name)
    if program is not None and not Path(program).exists():
        pytest.skip(f"there is no {program} on this machine, which this attempt starts")
    async with Unwalled() as box:
        with Prey(tmp_path).there() as prey:
            assert await attempt.got_through(box, prey)


async def test_nothing_is_taken_for_an_escape_that_is_none(tmp_path: Path) -> None:
    attempt = EscapeAttempt(name="none", code="print(path, folder, port, pid, variable)")
    async with Unwalled() as box:
        with Prey(tmp_path).there() as prey:
            assert await attempt.got_through(box, prey) == ""


class _Engine(SandboxEscape):
    engine: ClassVar[str]

    async def open(self, policy: Policy) -> Sandbox:
        return actbox.open_sandbox(self.engine, policy=policy, allow_unisolated=True)


def _has_walls(engine: str) -> bool:
    traits = engine_check(engine).traits
    if engine == "agentcore":  # whose walls are AWS's: what stands for it in tests has none
        return False
    return traits is not None and traits.isolated and "python" in traits.languages


def _mark_of(engine: str) -> str:
    if engine == "container":  # of which tests/escape tries many more in the run of the engines
        return "long"
    if engine == "wasm":  # of which tests/engines/wasm tries some in every run
        return "slow"
    # Of linux, tests/escape tries many more in every run.
    return "engines" if engine in INSTALLED_APART | {"linux"} else ""


# What needs a hypervisor has its attempts in tests/engines/hyperlight, which goes where there is one.
for _name in sorted(set(actbox.ENGINES) - {"hyperlight"}):
    if is_left_out([_mark_of(_name)]) or not _has_walls(_name):
        continue
    _class = f"Test{_name.title()}Walls"
    _made = type(_class, (_Engine,), {"engine": _name, "__module__": __name__})
    if not (_found := engine_check(_name)).works:
        _made = pytest.mark.skip(f"the {_name} engine does not work here: {_found.reason}. {_found.advice}")(_made)
    globals()[_class] = getattr(pytest.mark, _mark_of(_name))(_made) if _mark_of(_name) else _made


async def test_a_sandbox_without_walls_must_say_so() -> None:
    class Unsaid(Unwalled):
        traits = dataclasses.replace(Unwalled.traits, isolated=False)

    class Kit(SandboxEscape):
        async def open(self, policy: Policy) -> Sandbox:
            return Unsaid()

    kit = Kit()
    kit.traits = Unsaid.traits
    with pytest.raises(AssertionError, match=r"traits\.notes do not say"):
        await ISOLATED.refused(kit)
