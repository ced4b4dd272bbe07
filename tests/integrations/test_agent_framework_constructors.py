"""What providers and tools are given when they are made: engines, options, mounts and domains in their forms."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("agent_framework", reason="the extra actbox[agent-framework] is not installed")

import actbox
import actbox.integrations.agent_framework as ours
from actbox import InvalidValue, SandboxUnavailable, Unsupported
from actbox.integrations.agent_framework import FileMount, LinuxCodeActProvider, LinuxExecuteCodeTool, MontyFileMount
from actbox.integrations.agent_framework.surface import ProviderOptions, opener
from tests.conftest import engine_check
from tests.integrations.af_scripted import run_program


@pytest.mark.parametrize("engine", ["Container", "Wasm", "Monty", "Hyperlight"])
@pytest.mark.parametrize("kind", ["CodeActProvider", "ExecuteCodeTool"])
def test_a_class_whose_engine_lacks_its_library_says_at_once_how_to_install_it(engine: str, kind: str) -> None:
    made = getattr(ours, engine + kind)
    found = engine_check(made.ENGINE)
    if "pip install" not in found.advice:
        made()
        return
    with pytest.raises(SandboxUnavailable, match="pip install") as raised:
        made()
    assert found.reason in str(raised.value)


def test_the_process_engine_is_none_of_these() -> None:
    with pytest.raises(SandboxUnavailable, match="no engine 'process'; it has: linux") as raised:
        opener("process", {})
    assert ", process" not in str(raised.value)  # which isolates nothing
    assert "pip install" not in str(raised.value)  # there is nothing to install


def test_what_an_engine_takes_alone_is_refused_by_one_that_does_not() -> None:
    with pytest.raises(Unsupported, match="the engine 'linux' takes no backend, module"):
        opener("linux", {"backend": "wasm", "module": None})


@pytest.mark.parametrize(
    "given",
    [
        {"result_format": "xml"},
        {"approval_mode": "sometimes"},
        {"tool_name": "not a name"},
        {"allowed_domains": ["user@example.com"]},
        {"allowed_domains": [("example.com", [])]},
        {"file_mounts": [MontyFileMount("/usr/share", "/data", write_bytes_limit=5)]},
        {"file_mounts": [MontyFileMount("/usr/share", "/data", "sometimes")]},  # type: ignore[arg-type]
        {"max_output_files": 0},
    ],
)
def test_what_makes_no_sense_is_refused_when_it_is_given(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue):
        LinuxCodeActProvider(**given)


def test_an_argument_that_there_is_not_is_told_with_all_that_there_are() -> None:
    given: dict[str, Any] = {"tool_description_format": "json"}
    for made in (LinuxCodeActProvider, LinuxExecuteCodeTool):
        with pytest.raises(TypeError, match="no argument 'tool_description_format'") as raised:
            made(**given)
        for name in ("tools", "tool_name", "file_mounts", *ProviderOptions.__optional_keys__):
            assert name in str(raised.value)
    with pytest.raises(TypeError, match="did you mean 'result_format'"):
        LinuxCodeActProvider(**{"results_format": "json"})  # type: ignore[arg-type]


async def test_mounts_and_domains_are_kept_in_the_framework_packages_forms(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    async with LinuxCodeActProvider(file_mounts=(tmp_path / "a", "data")) as codeact:
        assert codeact.get_file_mounts() == [FileMount(tmp_path / "a", "/input/data")]
        codeact.add_file_mounts([FileMount(str(tmp_path / "a"), "/input/more")])
        codeact.remove_file_mounts("data", "input/more")
        assert codeact.get_file_mounts() == []
        codeact.add_allowed_domains([("api.github.com", "get"), ours.AllowedDomain("Example.com")])
        assert codeact.get_allowed_domains() == [
            ours.AllowedDomain("api.github.com", ("GET",)),
            ours.AllowedDomain("example.com"),
        ]
        with pytest.raises(KeyError, match=r"example\.com"):
            codeact.remove_allowed_domains("example.com", "other.com")
        codeact.remove_allowed_domain("EXAMPLE.com")
        codeact.clear_allowed_domains()
        assert codeact.get_allowed_domains() == []


def told(codeact: LinuxCodeActProvider) -> Any:
    """Return all that is said of mounts and domains."""
    run = codeact._config.freeze()
    return run.policy.mounts, run.policy.domains


async def test_what_is_got_can_be_given_again_and_says_the_same(tmp_path: Path) -> None:
    for name in ("plain", "outside", "changes", "other"):
        (tmp_path / name).mkdir()
    mounts = [
        (str(tmp_path / "plain"), "plain"),
        actbox.FileMount(tmp_path / "outside", "/outside"),
        actbox.FileMount(tmp_path / "changes", "/changes", "rw"),
        MontyFileMount(tmp_path / "other", "/other", "overlay"),
    ]
    domains = ["example.com", actbox.AllowedDomain("example.org", ["GET"], request_bytes=10)]
    async with (
        LinuxCodeActProvider(file_mounts=mounts, allowed_domains=domains) as one,
        LinuxCodeActProvider(file_mounts=one.get_file_mounts(), allowed_domains=one.get_allowed_domains()) as other,
    ):
        assert told(other) == told(one)
        assert all(isinstance(mount, FileMount) for mount in one.get_file_mounts())
        assert all(isinstance(domain, ours.AllowedDomain) for domain in one.get_allowed_domains())
        one.add_file_mounts(one.get_file_mounts()[2])
        one.add_allowed_domains(one.get_allowed_domains()[1])
        assert told(other) == told(one)


_TYPED = """
from actbox.integrations.agent_framework import AllowedDomain, FileMount, LinuxCodeActProvider

def look(provider: LinuxCodeActProvider) -> None:
    mounts: list[FileMount] = provider.get_file_mounts()
    domains: list[AllowedDomain] = provider.get_allowed_domains()
    provider.add_file_mounts(mounts)
    provider.add_allowed_domains(domains)
"""


@pytest.mark.long
def test_what_is_got_has_the_types_that_the_framework_packages_have(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="mypy is not installed")
    (tmp_path / "typed.py").write_text(_TYPED)
    command = [sys.executable, "-m", "mypy", "--strict", str(tmp_path / "typed.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout


async def test_one_that_was_closed_cannot_be_entered_again() -> None:
    for made in (LinuxCodeActProvider, LinuxExecuteCodeTool):
        one = made()
        async with one:
            pass
        with pytest.raises(InvalidValue, match="was closed, and cannot be opened again"):
            async with one:
                pass


@pytest.mark.slow
async def test_as_many_conversations_keep_their_files_as_is_said() -> None:
    from agent_framework import AgentSession

    sessions = [AgentSession(), AgentSession()]
    async with LinuxCodeActProvider(file_surface=True, most_environments=1) as codeact:
        for session in sessions:
            await run_program(codeact, "open('kept.txt', 'w').write('x')", session=session)
        last = await run_program(codeact, "import os; os.path.exists('kept.txt')", session=sessions[1])
        first = await run_program(codeact, "import os; os.path.exists('kept.txt')", session=sessions[0])
    assert "True" in last.read()
    assert "False" in first.read()
    assert "the files of earlier calls are gone" in first.read()
