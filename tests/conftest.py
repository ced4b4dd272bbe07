"""Every test of a sandbox runs on every engine that can keep what the test is about.

A further engine joins by its name in `FULL_CPYTHON`; one of less than full CPython has modules of its own. What an
engine lacks it says in its traits, and the test is skipped with that as its reason; nothing here asks for an engine by
name.
"""

from __future__ import annotations

import functools
import gc
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import settings

import actbox
from actbox import EngineCheck, Limits, Policy, Sandbox
from actbox.sandbox.languages import FULL_CPYTHON
from actbox.sandbox.registry import TABLE
from tests.engines.ssh.ssh_server import WITHOUT_SSHD, SshServer, find_sshd, ssh_server

# An example that takes long on a busy machine is no failure.
settings.register_profile("untimed", parent=settings(), deadline=None)
settings.load_profile("untimed")

# Set to 1, it lets tests be skipped where the linux engine does not work, whatever the machine allows.
WITHOUT_LINUX = "ACTBOX_TESTS_WITHOUT_LINUX"

EMULATED = os.environ.get("ACTBOX_EMULATED") == "1"
"""Whether `tests/vm/run-in-vm` runs this: then there is a hypervisor, which takes its time."""

# The runtime that the container engine is tried with, such as runsc; where there is none, the usual one.
CONTAINER_RUNTIME = "ACTBOX_TESTS_CONTAINER_RUNTIME"

# What the linux engine cannot do without, tried by itself: a user namespace with an id mapped, and a mount in it.
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
    """Return whether an engine works here; fail where the linux engine does not, and nothing but its code can be why.

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
    """Return the options of its own that an engine is to be tried with."""
    runtime = os.environ.get(CONTAINER_RUNTIME, "")
    return {"runtime": runtime} if runtime and engine == "container" else {}


@functools.cache
def why_no_namespaces() -> str:
    """Return why a process may not make namespaces here, "" where it may."""
    if sys.platform != "linux":
        return "they are Linux's"
    tried = subprocess.run([sys.executable, "-c", _MAKES_NAMESPACES], capture_output=True, text=True, check=False)
    return "" if tried.returncode == 0 else tried.stderr.strip() or f"exit code {tried.returncode}"


# Those that need what a fresh machine has not: `make test-engines` installs it.
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
        *("test_engines_work", "test_trial", "test_escape"),
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
MANY_FILES = frozenset({"test_hundreds_of_files_are_listed", "test_no_file_is_left_in_the_temporary_folder"})
SLOW_TO_CALL = frozenset({"test_toy_of_the_page", "test_agentcore_contract"})
SLOW_TO_CALL |= {"test_hyperlight_kit", "test_hyperlight_walls"} if EMULATED else set()


def with_marks(engines: Iterable[str]) -> list[Any]:
    """Return engines as parameters of tests, which leave those to another run that need what is installed apart."""
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
    """The ssh engine is opened by its name alone, on the server, as every other engine is."""
    monkeypatch.setitem(TABLE, "ssh", server.engine)  # type: ignore[arg-type]
    monkeypatch.setitem(_checked, "ssh", server.engine.check())


@pytest.fixture
def options(engine: str, request: pytest.FixtureRequest) -> dict[str, Any]:
    """What another process has to say beside the engine's name."""
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
    """What other test processes have in their temporary folders is not taken for what a test has left behind."""
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


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Spare the garbage collector the many thousand objects of tests, which live as long as the process."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave what is marked so to the long run, for all engines but the strongest that works here.

    What is apart already is not left to another run as well.
    """
    for item in items:
        name, module = getattr(item, "originalname", ""), item.path.stem
        if name in ROUNDS and module == "test_contract_kit":
            item.add_marker(pytest.mark.engines)
        elif name in ROUNDS | MANY_FILES and module in SLOW_TO_CALL:
            item.add_marker(pytest.mark.long)
    apart = [item for item in items if item.get_closest_marker("engines")]
    if not_over_ssh := {item for item in apart if _engine_of(item) == "ssh" and item.path.stem not in OVER_SSH}:
        items[:] = [item for item in items if item not in not_over_ssh]
        config.hook.pytest_deselected(items=list(not_over_ssh))
    for item in apart:
        engine = _engine_of(item)
        if engine == "ssh" or (engine == "container" and item.path.stem not in IN_A_CONTAINER):
            item.add_marker(pytest.mark.long)
    marked = [
        item for item in items if item.get_closest_marker("one_engine_first") and not item.get_closest_marker("engines")
    ]
    strongest = next((name for name in actbox.ENGINES if engine_check(name).works), None) if marked else None
    for item in marked:
        if _engine_of(item) not in (None, strongest):
            item.add_marker(pytest.mark.long)


def _engine_of(item: pytest.Item) -> str | None:
    """Return the engine that a test is run on, none where it does not take one from the fixture."""
    callspec = getattr(item, "callspec", None)
    return callspec.params.get("engine") if callspec is not None and "engine" in item.fixturenames else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """End with what could not run and why, each reason once."""
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
    if "not engines" in terminalreporter.config.option.markexpr:
        apart = ", ".join(sorted(INSTALLED_APART))
        terminalreporter.write_line(
            f"     left to `make test-engines`: the engines {apart}, whether they are here or not"
        )


def literal(value: object) -> str:
    """Return a value as source that a program can have in it."""
    return json.dumps(value)
