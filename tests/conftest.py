"""Fixtures that run every test of a sandbox on every engine with the needed features.

A further engine joins by its name in `FULL_CPYTHON`; one of less than full CPython has modules of its own. What an
engine lacks it says in its traits, and the test is skipped with that as its reason; nothing here asks for an engine by
name.
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from types import FunctionType
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import settings

import actbox
from actbox import EngineCheck, Limits, Policy, Sandbox
from actbox.sandbox import session_runs, watchdog
from actbox.sandbox.languages import FULL_CPYTHON
from actbox.sandbox.registry import TABLE
from tests import left_out
from tests.clock import Clock
from tests.engines.ssh.ssh_server import WITHOUT_SSHD, SshServer, find_sshd, ssh_server

pytest_plugins = ["tests.leaks"]

# A slow example on a busy machine is no failure. The same code is tried with the same examples, so that whether a
# change passes is no matter of luck; `make explore` tries others. If slow tests are left out, Hypothesis makes fewer
# examples of each test that does not set a number.
settings.register_profile("explore", parent=settings(), deadline=None)
settings.register_profile("same", parent=settings.get_profile("explore"), derandomize=True)
settings.register_profile("quick", parent=settings.get_profile("same"), max_examples=20)

# A shell starts a script's background jobs with SIGINT ignored, and processes that a test starts would inherit that:
# Ctrl-C would have no effect on them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Guests with another user id read what tests write, whatever the mask that the suite was started with.
os.umask(0o022)

# If set to 1, tests are skipped when the linux engine does not work, even on a machine that supports it.
WITHOUT_LINUX = "ACTBOX_TESTS_WITHOUT_LINUX"

EMULATED = os.environ.get("ACTBOX_EMULATED") == "1"
"""True if `tests/vm/run-in-vm` runs this process: then there is a hypervisor, but an emulated, slow one."""

# The container runtime for the tests, such as runsc; the default runtime if it is not set.
CONTAINER_RUNTIME = "ACTBOX_TESTS_CONTAINER_RUNTIME"

# A trial of the linux engine's minimum needs: a user namespace with an id mapped, and a mount in it.
_MAKES_NAMESPACES = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
NEWUSER_NEWNS, MS_REC_PRIVATE = 0x10020000, 0x44000
uid = os.getuid()
if libc.unshare(NEWUSER_NEWNS):
    raise SystemExit("unshare: " + os.strerror(ctypes.get_errno()))
open("/proc/self/setgroups", "w").write("deny")
open("/proc/self/uid_map", "w").write(f"0 {uid} 1")
if libc.mount(b"none", b"/", None, MS_REC_PRIVATE, None) or libc.mount(b"x", b"/sys", b"tmpfs", 0, None):
    raise SystemExit("mount: " + os.strerror(ctypes.get_errno()))
"""


def engine_check(engine: str) -> EngineCheck:
    """Return the check of an engine; fail if the linux engine does not work on a machine that supports it.

    An engine that breaks must not hide behind tests that are skipped where it does not work.
    """
    if engine not in _checked:
        _checked[engine] = _check(engine)
    found = _checked[engine]
    if engine == "linux" and not found.works and os.environ.get(WITHOUT_LINUX) != "1" and not why_no_namespaces():
        pytest.fail(
            f"the linux engine does not work, though a process may make namespaces here: {found.reason}. On a machine "
            f"that cannot have it, {WITHOUT_LINUX}=1 skips what needs it.",
            pytrace=False,
        )
    return found


_checked: dict[str, EngineCheck] = {}


def _check(engine: str) -> EngineCheck:
    found = actbox.check(engine)
    if found.works and (told := _told(engine)):
        return EngineCheck(engine=engine, works=True, traits=actbox.open_sandbox(engine, **told).traits)
    return found


def _told(engine: str) -> dict[str, Any]:
    """Return the engine's own options for the tests."""
    runtime = os.environ.get(CONTAINER_RUNTIME, "")
    return {"runtime": runtime} if runtime and engine == "container" else {}


@functools.cache
def why_no_namespaces() -> str:
    """Return the reason why a process may not make namespaces here, "" if it may."""
    if sys.platform != "linux":
        return "they are Linux's"
    tried = subprocess.run([sys.executable, "-c", _MAKES_NAMESPACES], capture_output=True, text=True, check=False)
    return "" if tried.returncode == 0 else tried.stderr.strip() or f"exit code {tried.returncode}"


# Engines that need packages which a fresh machine lacks: `make test-engines` installs them.
INSTALLED_APART = frozenset({"container", "hyperlight", "ssh"})

# Of the modules whose tests take every engine, the ssh engine runs these, in the run that takes its time, as each makes
# a connection: what the others are about it refuses, which the kit tries, or has no code of its own for.
OVER_SSH = frozenset(
    {"test_runs", "test_tool_calls", "test_files", "test_sessions", "test_commands", "test_limits", "test_lifecycle"}
)

# Of the same modules, what the container engine has code of its own for and the kit tries in few ways. Most of these
# tests make a container, which takes most of a second, so the others wait for the run that takes its time.
IN_A_CONTAINER = frozenset(
    {
        *("test_limits", "test_lifecycle", "test_mounts", "test_channel", "test_nothing_left_behind"),
        *("test_engines_work", "test_trial", "test_escape", "test_disk_limit"),
    }
)

# Cases of the kit that go round many times, or wait for time to pass: apart from the run that everybody makes. Where a
# file or a call takes tens of milliseconds they take minutes with those of `MANY_FILES`, and are left to a third run.
ROUNDS = frozenset(
    {
        "test_no_descriptor_is_left_for_each_sandbox",
        "test_nothing_is_left_for_each_run",
        "test_a_thousand_calls_in_a_row_are_all_answered",
        "test_a_share_of_the_processors_is_not_exceeded",
    }
)
# Cases of the kit that compute or wait until a limit of time is reached, some tenths of a second each.
UNTIL_A_LIMIT = frozenset(
    {
        "test_a_call_that_was_cut_off_is_started_and_never_finished",
        "test_a_program_that_runs_out_of_time_says_whether_the_state_is_kept",
        "test_a_session_keeps_to_the_wall_limit_in_each_run",
        "test_a_timeout_cannot_raise_the_wall_limit",
        "test_a_timeout_is_for_each_program",
        "test_a_timeout_lowers_the_wall_limit",
        "test_a_timeout_while_a_tool_works_cancels_the_tool",
        "test_closing_a_session_ends_a_program_that_runs",
        "test_memory_ends_a_program",
        "test_processor_time_ends_a_program",
        "test_the_clock_stands_still_while_somebody_decides",
        "test_the_events_of_a_program_that_is_stopped_end_with_completed",
        "test_the_host_goes_on_while_a_program_computes",
        "test_wall_time_ends_a_program",
        "test_what_was_printed_before_the_time_ran_out_is_kept",
    }
)
MANY_FILES = frozenset({"test_hundreds_of_files_are_listed", "test_no_file_is_left_in_the_temporary_folder"})
SLOW_TO_CALL = frozenset({"test_toy_of_the_page", "test_agentcore_contract"})
SLOW_TO_CALL |= {"test_hyperlight_kit", "test_hyperlight_walls"} if EMULATED else set()


def with_marks(engines: Iterable[str]) -> list[Any]:
    """Return engines as test parameters, with marks on those whose packages a separate run installs."""
    return [pytest.param(name, marks=pytest.mark.engines) if name in INSTALLED_APART else name for name in engines]


@pytest.fixture(params=with_marks(FULL_CPYTHON))
def engine(request: pytest.FixtureRequest) -> str:
    """The name of an engine that works here and runs Python, in which the suite's programs are."""
    if request.param == "ssh":
        request.getfixturevalue("ssh_on_a_machine")
    found = engine_check(request.param)
    if not found.works:
        pytest.skip(f"the {request.param} engine does not work here: {found.reason}. {found.advice}")
    return request.param


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    """A real sshd on loopback."""
    if find_sshd() is None:
        pytest.skip(WITHOUT_SSHD)
    with ssh_server(tmp_path_factory.mktemp("sshd")) as started:
        yield started


@pytest.fixture
def ssh_on_a_machine(server: SshServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the ssh engine open by its name alone, on the test server, like every other engine."""
    monkeypatch.setitem(TABLE, "ssh", server.engine)  # type: ignore[arg-type]
    monkeypatch.setitem(_checked, "ssh", server.engine.check())


@pytest.fixture
def options(engine: str, request: pytest.FixtureRequest) -> dict[str, Any]:
    """The engine's options in the form for another process."""
    return request.getfixturevalue("server").engine.machine if engine == "ssh" else _told(engine)


@pytest.fixture
def isolated_engine(engine: str) -> str:
    """The name of an engine that keeps a hostile program away from the host."""
    found = engine_check(engine)
    assert found.traits is not None
    if not found.traits.isolated:
        pytest.skip(f"{engine} does not claim to isolate: {found.traits.isolation}")
    return engine


@pytest.fixture(autouse=True, scope="session")
def temporary_folder_of_our_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Give this test process its own temporary directory, so that files of other test processes do not count as left
    behind.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("temporary")))
        yield


OpenBox = Callable[..., Any]


@pytest_asyncio.fixture
async def open_box(engine: str) -> AsyncIterator[OpenBox]:
    """Return a function that opens a started sandbox, which is stopped after the test."""
    boxes: list[Sandbox] = []

    async def open_one(policy: Policy | None = None, **given: Any) -> Sandbox:
        limits = {name: given.pop(name) for name in list(given) if name in Limits().to_dict()}
        if limits:
            traits = engine_check(engine).traits
            assert traits is not None
            for name in limits:
                if name not in traits.enforced:
                    pytest.skip(f"{engine} does not enforce {name}")
            policy = Policy(limits=Limits(**limits))
        box = actbox.open_sandbox(engine, policy=policy, allow_unisolated=True, **_told(engine), **given)
        await box.start()
        boxes.append(box)
        return box

    yield open_one
    for box in boxes:
        await box.stop()


@pytest_asyncio.fixture
async def box(open_box: OpenBox) -> Sandbox:
    """A sandbox with the default policy."""
    sandbox: Sandbox = await open_box()
    return sandbox


@pytest_asyncio.fixture
async def isolated_box(isolated_engine: str, open_box: OpenBox) -> Sandbox:
    """A sandbox of an engine that isolates."""
    sandbox: Sandbox = await open_box()
    return sandbox


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a program of a session that is interrupted or closed long enough to end also on a busy machine."""
    monkeypatch.setattr(session_runs, "GRACE_SECONDS", 60.0)
    monkeypatch.setattr(watchdog, "GRACE_SECONDS", 120.0)  # or its thread would end the guest meanwhile


@pytest_asyncio.fixture
async def clock() -> Clock:
    """The time of the test's event loop. It stays turned until the loop is closed, as timers are set by it."""
    return Clock(asyncio.get_running_loop())


def pytest_configure(config: pytest.Config) -> None:
    """Read the mark expression before any test is made."""
    left_out.configure(config)
    if not config.option.hypothesis_profile:
        settings.load_profile("quick" if left_out.is_left_out(["slow"]) else "same")


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, obj: object) -> list[pytest.Item] | None:
    """Skip functions and classes whose marks leave them out of this run."""
    if not isinstance(obj, (FunctionType, type)):
        return None
    marks = [*left_out.marks_of(obj), *(mark.name for mark in collector.iter_markers())]
    return [] if left_out.is_left_out(marks) else None


@pytest.hookimpl(wrapper=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> Iterator[None]:
    """Mark what another run is for by its engine, and make no test of parameters whose marks leave it out.

    `long` is what the module leaves to that run for its engine, and what is for one engine first on all engines but
    the strongest that works here. What is apart already is not left to another run as well.
    """
    yield
    own = {mark.name for mark in metafunc.definition.iter_markers()}
    calls, made = metafunc._calls, []
    for call in calls:
        engine = call.params.get("engine") if "engine" in metafunc.fixturenames else None
        marks = own.union(mark.name for mark in call.marks)
        module = metafunc.definition.path.stem
        if "engines" in marks:
            if engine == "ssh" and module not in OVER_SSH:
                continue
            long = engine == "ssh" or (engine == "container" and module not in IN_A_CONTAINER)
        else:
            long = "one_engine_first" in marks and engine not in (None, _strongest())
        if long:
            call.marks.append(pytest.mark.long.mark)
        if not left_out.is_left_out({*marks, "long"} if long else marks):
            made.append(call)
    # With no parameters at all, pytest would make a test that lacks them: one parameter stays, to be deselected.
    calls[:] = made or calls[:1]


@functools.cache
def _strongest() -> str | None:
    """Return the strongest engine that works here, or `None`."""
    return next((name for name in actbox.ENGINES if engine_check(name).works), None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the kit's cases with many rounds, those that end by a limit of time, and those that engines are slow at."""
    for item in items:
        name, module = getattr(item, "originalname", ""), item.path.stem
        if name in ROUNDS and module == "test_contract_kit":
            item.add_marker(pytest.mark.engines)
        elif name in ROUNDS | MANY_FILES and module in SLOW_TO_CALL:
            item.add_marker(pytest.mark.long)
        elif name in UNTIL_A_LIMIT and module == "test_contract_kit":
            item.add_marker(pytest.mark.slow)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the tests that could not run, with each reason once."""
    reasons: dict[str, int] = {}
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reasons[reason.removeprefix("Skipped: ")] = reasons.get(reason.removeprefix("Skipped: "), 0) + 1
    who = "root" if os.geteuid() == 0 else "an ordinary user"
    terminalreporter.section(f"what could not run (as {who})")
    for reason, count in sorted(reasons.items()):
        terminalreporter.write_line(f"{count:4} × {reason}")
    if not reasons:
        terminalreporter.write_line("nothing: everything ran")
    if left_out.is_left_out(["slow"]):
        terminalreporter.write_line("     left to `make test-slow`: what is marked slow")
    if "not engines" in terminalreporter.config.option.markexpr:
        apart = ", ".join(sorted(INSTALLED_APART))
        terminalreporter.write_line(
            f"     left to `make test-engines`: the engines {apart}, whether they are here or not"
        )


def literal(value: object) -> str:
    """Return a value as a Python literal for a program's source."""
    return json.dumps(value)
