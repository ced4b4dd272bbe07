"""A session gets packages while it lives: by dependencies, by `pip install`, and by imports that would fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

import actbox
from actbox import ErrorKind, ExecutionResult, Policy, Program, Session
from actbox.codeact import CallbackApprover
from actbox.core.events import ApprovalRequested, Completed
from actbox.packages import provider
from actbox.sandbox.dependencies import PACKAGES
from actbox.tools import ApprovalDecision, ApprovalRequest
from tests.clock import Clock

from .index_server import IndexServer
from .kits import policy_of
from .wheel_factory import make_wheel

pytestmark = pytest.mark.slow

GREETS = "import kit_greeting\nkit_greeting.greeting"
LINES = [
    "%pip install kit-greeting",
    "!pip install -q 'kit-greeting>=1'  # it greets",
    "!python -m pip install kit_greeting",
    "!uv pip install --system kit-greeting",
    "pip install kit-greeting",
]
PROCESSES = [
    "subprocess.run([sys.executable, '-m', 'pip', 'install', 'kit-greeting'], check=True)",
    "subprocess.run('echo to && pip install -q kit-greeting 2>&1 | cat', shell=True, check=True)",
    "subprocess.check_call(['uv', 'pip', 'install', 'kit-greeting'])",
    "assert os.system('pip install kit-greeting') == 0",
]


@asynccontextmanager
async def session_with(policy: Policy, *, forkable: bool = False) -> AsyncIterator[Session]:
    async with actbox.open_sandbox("linux", policy=policy) as box, box.session(forkable=forkable) as session:
        yield session


def said(result: ExecutionResult) -> tuple[ErrorKind, str, str]:
    assert result.error is not None, result
    return result.error.kind, result.error.type, result.error.message


@pytest.mark.parametrize(
    "program",
    [
        Program(GREETS, dependencies=("kit-greeting>=1",)),
        Program(f"# /// script\n# dependencies = ['kit-greeting']\n# ///\n{GREETS}"),
    ],
    ids=["dependencies", "script block"],
)
async def test_a_program_of_a_session_gets_its_dependencies(program: Program, index: IndexServer) -> None:
    async with session_with(policy_of(index)) as session:
        assert (await session.run("kept = 1")).success
        result = await session.run(program)
        assert (result.value, result.state_kept) == ("hello", True), result
        assert [one.name for one in result.distributions] == ["kit-greeting", "kit-words"]
        assert result.usage.install_ms > 0
        later = await session.run("kept, kit_greeting.greeting")
    assert later.value == (1, "hello")
    assert [one.name for one in later.distributions] == ["kit-greeting", "kit-words"]
    assert later.usage.install_ms == 0


@pytest.mark.parametrize("line", LINES)
async def test_a_line_with_pip_install_installs(line: str, index: IndexServer) -> None:
    async with session_with(policy_of(index)) as session:
        assert (await session.run("kept = 1")).success
        result = await session.run(f"if kept:\n    {line}\n{GREETS}")
        assert result.value == "hello", result
        assert result.stdout == "Successfully installed kit-greeting-1.0 kit-words-1.0\n"
        again = await session.run(line)
    assert again.stdout.startswith("Requirement already satisfied: kit")


@pytest.mark.parametrize("line", PROCESSES)
async def test_a_process_that_runs_pip_install_installs(line: str, index: IndexServer) -> None:
    async with session_with(policy_of(index)) as session:
        result = await session.run(f"import os, subprocess, sys\n{line}\n{GREETS}")
    assert result.value == "hello", result
    assert "Requirement already satisfied: kit-greeting\n" in result.stdout


async def test_a_module_that_a_program_misses_is_installed_while_it_waits(index: IndexServer) -> None:
    calls: list[int] = []

    def note() -> None:
        calls.append(1)

    async with session_with(policy_of(index)) as session:
        result = await session.run(f"note()\n{GREETS}", tools=[note])
    assert (result.value, calls) == ("hello", [1]), result
    assert result.warnings == ("the program missed kit-greeting, which was installed while it waited",)
    assert result.usage.tool_calls == 1


async def test_a_module_that_a_library_misses_is_not_installed(index: IndexServer) -> None:
    make_wheel(
        index.folder,
        "kit_optional",
        files={"kit_optional.py": b"try:\n import kit_greeting\nexcept ImportError: pass\n"},
    )
    async with session_with(policy_of(index, auto_approved=["kit-greeting", "kit-optional"])) as session:
        result = await session.run("import kit_optional\nhasattr(kit_optional, 'kit_greeting')")
    assert result.value is False, result
    assert [one.name for one in result.distributions] == ["kit-optional"]


@pytest.mark.parametrize(
    ("package", "expected"),
    [
        ("kit-forbidden", (ErrorKind.POLICY, "PackageBlocked")),
        ("kit_trojan", (ErrorKind.POLICY, "PackageBlocked")),
        ("kit-words", (ErrorKind.POLICY, "PackageNotApproved")),
        ("kit-nowhere", (ErrorKind.MISSING_DEPENDENCY, "CannotResolve")),
    ],
)
@pytest.mark.parametrize("how", ["line", "process", "dependencies"])
async def test_a_refusal_names_the_requirement_and_the_session_goes_on(
    package: str, expected: tuple[ErrorKind, str], how: str, index: IndexServer
) -> None:
    program = {
        "line": Program(f"%pip install {package}"),
        "process": Program(f"import subprocess\nsubprocess.run(['pip', 'install', {package!r}])"),
        "dependencies": Program("", dependencies=(package,)),
    }[how]
    approved = ["kit-greeting", "kit-trojan", "kit-nowhere"]
    async with session_with(policy_of(index, auto_approved=approved)) as session:
        assert (await session.run("kept = 1")).success
        result = await session.run(program)
        kind, type_, message = said(result)
        assert ((kind, type_), result.state_kept) == (expected, True), result
        assert {"kit_trojan": "kit-forbidden"}.get(package, package) in message
        assert result.error is not None and "/opt/packages" not in result.error.traceback
        assert (await session.run(f"kept\n{GREETS}")).value == "hello"


async def test_a_program_may_catch_a_refusal_as_an_import_error(index: IndexServer) -> None:
    code = "try:\n    import kit_forbidden\nexcept ImportError as error:\n    found = str(error)\nfound"
    async with session_with(policy_of(index)) as session:
        assert (await session.run(code)).value == "kit-forbidden is blocked by the policy"
    assert index.requests.total() == 0


@pytest.mark.parametrize("code", ["%pip install kit-greeting", "import kit_greeting"])
async def test_somebody_is_asked_while_the_program_waits_and_its_time_does_not_pass(
    code: str, clock: Clock, index: IndexServer
) -> None:
    decided = asyncio.Event()
    asked: list[ApprovalRequest] = []

    async def decide(request: ApprovalRequest) -> ApprovalDecision:
        asked.append(request)
        await decided.wait()
        return ApprovalDecision(True)

    policy = policy_of(index, CallbackApprover(decide), auto_approved=[], requires_approval=["kit-greeting"])
    async with session_with(policy) as session:
        events = []
        async for event in session.stream(f"{code}\n{GREETS}", timeout=50):
            events.append(event)
            if isinstance(event, ApprovalRequested):
                clock.turn(200)  # more than `install_seconds`, too
                decided.set()
    assert isinstance(events[-1], Completed) and events[-1].result.value == "hello", events[-1]
    assert events[-1].result.usage.wall_ms < 50_000
    assert [(request.what, request.packages[0].name) for request in asked] == [("install", "kit-greeting")]
    assert asked[0].program == f"{code}\n{GREETS}"


async def test_a_run_waits_for_packages_only_so_long_in_all(clock: Clock, index: IndexServer) -> None:
    make_wheel(index.folder, "kit_more", files={"kit_more.py": b"word = 'more'\n"})

    def hang() -> None:
        index.is_asked.clear()
        index.answers.clear()  # last: the test waits for it

    code = """
import pip
hang()
%pip install kit-words
hang()
refused = []
for name in ("kit-greeting", "kit-more"):
    try: pip.main(["install", name])
    except ImportError as error: refused.append(str(error))
import kit_words
kit_words.word, refused
"""
    policy = policy_of(index, auto_approved=["kit-words", "kit-greeting", "kit-more"])
    assert policy.packages is not None
    policy = replace(policy, packages=replace(policy.packages, install_seconds=50))
    async with session_with(policy) as session:
        run = asyncio.create_task(session.run(code, tools=[hang]))
        try:
            assert await asyncio.to_thread(index.is_asked.wait, 60)
            clock.turn(30)
            index.answers.set()
            while index.answers.is_set():
                await asyncio.sleep(0.01)
            assert await asyncio.to_thread(index.is_asked.wait, 60)
            clock.turn(30)
            result = await run
            assert result.error is None
            sentence = "a run may wait for packages 50 seconds in all (PackagePolicy.install_seconds), and this one has"
            assert (result.value, result.state_kept) == (("hello", [sentence, sentence]), True), result
            assert result.usage.approval_ms < 30_000, "nobody was asked"
            assert "/simple/kit-more/" not in index.requests
        finally:
            index.answers.set()
        assert (await session.run("%pip install kit-more\nimport kit_more\nkit_more.word")).value == "more"


async def test_copies_of_a_session_have_its_packages_and_get_their_own(index: IndexServer) -> None:
    policy = policy_of(index, auto_approved=["kit-greeting", "kit-words", "kit-more"])
    make_wheel(index.folder, "kit_more", files={"kit_more.py": b"word = 'more'\n"})
    async with session_with(policy, forkable=True) as session:
        assert (await session.run("%pip install kit-words")).success
        copy = await session.fork()
        await session.close()
        assert (await copy.run("import kit_words\nkit_words.word")).value == "hello"
        result = await copy.run("import kit_more\nkit_more.word")
        assert result.value == "more", result
        assert [one.name for one in result.distributions] == ["kit-more", "kit-words"]
        await copy.close()


async def test_processes_of_a_session_see_its_packages_and_its_scripts(index: IndexServer) -> None:
    points = {"kit_tool.py": b"", "kit_tool-1.0.data/scripts/kit-tool": b"#!/bin/sh\necho from the script\n"}
    make_wheel(index.folder, "kit_tool", files=points, modes={"kit_tool-1.0.data/scripts/kit-tool": 0o100755})
    code = (
        "import subprocess, sys\n"
        "subprocess.run([sys.executable, '-c', 'import kit_tool; print(kit_tool.__name__)'], check=True)\n"
        "subprocess.run(['kit-tool'], check=True)"
    )
    async with session_with(policy_of(index, auto_approved=["kit-tool"])) as session:
        result = await session.run(Program(code, dependencies=("kit-tool",)))
    assert result.stdout == "kit_tool\nfrom the script\n", result


async def test_the_packages_are_read_only_and_gone_when_the_session_is_closed(index: IndexServer) -> None:
    temporary: Path = provider.provider()._store.root / "temporary"
    async with session_with(policy_of(index)) as session:
        assert (await session.run(GREETS)).value == "hello"
        result = await session.run(f"open('{PACKAGES}/1/site/kit_words.py', 'a')")
        assert said(result)[0] is ErrorKind.POLICY
        assert list(temporary.iterdir())
    assert not list(temporary.iterdir())


async def test_a_collection_leaves_the_packages_of_a_living_session(index: IndexServer) -> None:
    made = provider.provider()
    async with session_with(policy_of(index, auto_approved=["kit-words", "kit-greeting"])) as session:
        assert (await session.run("%pip install kit-words")).success
        made.collect(keep_seconds=-1, most_bytes=0)
        assert (await session.run(f"%pip install kit-greeting\n{GREETS}")).value == "hello"
        made.collect(keep_seconds=-1, most_bytes=0)
        result = await session.run("import importlib, kit_words\nimportlib.reload(kit_words).word")
        assert result.value == "hello", result


async def test_a_later_version_comes_before_an_earlier_one(index: IndexServer) -> None:
    for version, word in (("1.0", "earlier"), ("2.0", "later")):
        script = f"#!/bin/sh\necho {word}\n".encode()
        files = {"kit_words.py": f"word = {word!r}\n".encode(), f"kit_words-{version}.data/scripts/kit": script}
        make_wheel(index.folder, "kit_words", version, files=files)
    async with session_with(policy_of(index, auto_approved=["kit-words"])) as session:
        assert (await session.run("%pip install kit-words==1.0")).success
        result = await session.run("%pip install kit-words==2.0\nimport kit_words\nkit_words.word")
        assert result.value == "later", result
        assert [(one.name, one.version) for one in result.distributions] == [("kit-words", "2.0")]
        assert (await session.run("import subprocess\nsubprocess.check_output('kit', text=True)")).value == "later\n"
        shown = await session.run("!pip list\n!pip show kit-words\n!pip --version")
    assert shown.stdout.count("2.0") == 2 and "1.0" not in shown.stdout, shown
    assert "pip of actbox" in shown.stdout


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("uninstall -y kit-words", "`pip uninstall` is not for programs of a sandbox: `pip install`"),
        ("download kit-greeting", "`pip download` is not for programs of a sandbox: `pip install`"),
        ("install --index-url http://127.0.0.1/simple kit-greeting", "`pip install` takes no option --index-url here"),
        ("install --pre kit-greeting", "`pip install` takes no option --pre here"),
        ("install", "`pip install` needs a requirement"),
        ("install .", "'.'"),
        ("install -r nothing.txt", "nothing.txt cannot be read"),
        ("show kit-nowhere", "kit-nowhere is not installed"),
    ],
)
async def test_what_pip_does_not_do_here_is_said_in_a_sentence(command: str, sentence: str, index: IndexServer) -> None:
    async with session_with(policy_of(index)) as session:
        _, type_, message = said(await session.run(f"!pip {command}"))
        assert (type_, sentence in message) == ("PipError", True), message
        process = await session.run(f"import subprocess\nsubprocess.run('pip {command}', shell=True).returncode")
    assert index.requests.total() == 0
    assert process.value == 1 or said(process)[1] == "PipError", process


async def test_a_file_of_requirements_is_installed(index: IndexServer) -> None:
    files = {"requirements.txt": "# what is needed\nkit-greeting>=1  # greets\n\n"}
    async with session_with(policy_of(index)) as session:
        result = await session.run(Program(f"%pip install -r /input/requirements.txt\n{GREETS}", files=files))
    assert result.value == "hello", result


async def test_without_a_policy_a_session_says_what_to_do_instead(index: IndexServer) -> None:
    async with session_with(Policy(environment="clean")) as session:
        result = await session.run("%pip install kit-greeting")
        assert result.error is not None and result.error.kind is ErrorKind.SYNTAX
        assert result.error.hint == (
            "a program cannot install packages here: leave this line out, and use the standard library or what is there"
            " (not installed: kit-greeting)"
        )
        refused = await session.run(Program("", dependencies=("kit-greeting",)))
        assert said(refused)[:2] == (ErrorKind.POLICY, "PackageNotApproved")
        assert said(await session.run("import kit_greeting"))[0] is ErrorKind.MISSING_DEPENDENCY
    assert index.requests.total() == 0


async def test_a_run_without_a_session_is_told_to_name_its_packages(index: IndexServer) -> None:
    async with actbox.open_sandbox("linux", policy=policy_of(index)) as box:
        result = await box.run("%pip install kit-greeting")
    assert result.error is not None and result.error.kind is ErrorKind.SYNTAX
    assert "name the packages in `dependencies`, or in a script block" in result.error.hint
