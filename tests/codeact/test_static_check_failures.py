"""The static check of hostile programs, and when the checker fails."""

from __future__ import annotations

import asyncio
import os
from asyncio.base_subprocess import BaseSubprocessTransport
from pathlib import Path
from typing import Any

import pytest

from actbox.codeact.static_check import check_available, check_types, checker
from actbox.core.errors import ErrorKind, InvalidValue, Unsupported
from tests.clock import Clock
from tests.codeact.checking import LONG, found
from tests.codeact.programs_to_check import TOOLS

# The program is hostile


@pytest.mark.slow
async def test_a_program_does_not_read_the_host_through_the_checker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "secret_words.py").write_text("KEY = 'hunter2'\n")
    (tmp_path / "ty.toml").write_text(f'[environment]\nextra-paths = ["{tmp_path}"]\n')
    (tmp_path / "pyproject.toml").write_text(f'[tool.ty.environment]\nextra-paths = ["{tmp_path}"]\n')
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("TY_CONFIG_FILE", str(tmp_path / "ty.toml"))
    monkeypatch.setenv("VIRTUAL_ENV", os.environ.get("VIRTUAL_ENV", str(tmp_path)))
    metadata = f'# /// script\n# [tool.ty.environment]\n# extra-paths = ["{tmp_path}"]\n# ///\n'
    for program in ("from secret_words import KEY\nKEY.foo\nKEY()", "import pydantic\npydantic.no_such_thing.x"):
        for head in ("", metadata):
            assert await check_types(head + program, TOOLS, timeout=LONG) is None
    for leading in (".", "..", "..."):
        error = await found(f"from {leading}secret_words import KEY\nKEY.foo")
        assert error.message == "line 1: a relative import: a program is in no package"


async def test_a_program_cannot_turn_the_rules_off_by_metadata() -> None:
    program = "# /// script\n# [tool.ty.rules]\n# all = 'ignore'\n# ///\nsearch(5)"
    assert (await found(program)).line == 5


async def test_a_program_is_not_run(tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    await check_types(f"open({str(touched)!r}, 'w').write('x')", TOOLS, timeout=LONG)
    assert not touched.exists()


# The checker fails


_LIMITED = 'while [ "$(ulimit -t)" = unlimited ]; do :; done; '


def _use(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    monkeypatch.setattr(checker, "command", lambda rules: ["/bin/sh", "-c", script])


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo broken >&2; exit 2", "exit code 2: broken"),
        ("kill -SEGV $$", "SIGSEGV"),
        ("echo no findings", "something else than its findings"),
        ("echo '{}'", "something else than its findings"),
        ("exit 0", "something else than its findings"),
        ("exec /no/such/checker", "exit code 12"),
    ],
)
async def test_a_checker_that_fails_is_not_taken_for_no_findings(
    script: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _use(monkeypatch, script)
    error = await check_types("search('a')", TOOLS, timeout=LONG)
    assert error is not None
    assert error.kind is ErrorKind.SANDBOX
    assert words in error.message
    assert "was not checked" in error.message


@pytest.mark.slow
async def test_a_checker_that_takes_too_long_is_killed_with_its_children(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, clock: Clock
) -> None:
    _use(monkeypatch, f"/bin/sleep 1000 & echo $! > {tmp_path}/child; wait")
    task = asyncio.create_task(check_types("search('a')", TOOLS, timeout=LONG))
    await _begun(task, tmp_path / "child")
    clock.turn(LONG)
    error = await task
    assert error is not None
    assert error.kind is ErrorKind.SANDBOX
    assert "did not finish within 120 s" in error.message
    await _gone(tmp_path / "child")


async def test_cancelling_kills_the_checker_with_its_children(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _use(monkeypatch, f"/bin/sleep 1000 & echo $! > {tmp_path}/child; wait")
    task = asyncio.create_task(check_types("search('a')", TOOLS, timeout=LONG))
    await _begun(task, tmp_path / "child")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await _gone(tmp_path / "child")


async def test_cancelling_while_the_checker_starts_kills_it_with_its_children_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _use(monkeypatch, f"/bin/sleep 1000 & echo $! > {tmp_path}/child; wait")
    may_go_on, connect = asyncio.Event(), BaseSubprocessTransport._connect_pipes

    async def held_up(*given: Any) -> None:
        await may_go_on.wait()
        await connect(*given)

    monkeypatch.setattr(BaseSubprocessTransport, "_connect_pipes", held_up)
    task = asyncio.create_task(check_types("search('a')", TOOLS, timeout=LONG))
    await _begun(task, tmp_path / "child")
    task.cancel()
    await asyncio.sleep(0)
    may_go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    await _gone(tmp_path / "child")


async def _begun(task: asyncio.Task[Any], noted: Path) -> None:
    while not noted.exists() or not noted.read_text().strip():
        assert not task.done(), task.result()
        await asyncio.sleep(0.01)


async def _gone(noted: Path) -> None:
    command = Path("/proc") / noted.read_text().strip() / "cmdline"
    async with asyncio.timeout(LONG):
        # A zombie has none, and another process that gets its number has another.
        while b"/bin/sleep" in _content(command):
            await asyncio.sleep(0.01)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


async def test_a_checker_has_limits_and_nothing_of_our_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "hunter2")
    _use(monkeypatch, _LIMITED + "(ulimit -t; ulimit -d; ulimit -f; read x || echo closed; export) >&2; exit 2")
    told: list[str] = []
    monkeypatch.setattr(checker, "_last_words", lambda errors: told.append(errors.read_text()) or "")
    await check_types("search('a')", TOOLS, timeout=LONG)
    cpu, data, size, stdin, *environment = told[0].split("\n")
    assert int(cpu) == checker.CPU_SECONDS
    assert int(data) == checker.MEMORY_BYTES // 1024
    assert int(size) in (checker.OUTPUT_BYTES // 512, checker.OUTPUT_BYTES // 1024)
    assert stdin == "closed"
    assert "hunter2" not in told[0]
    assert not any("PYTHONPATH" in line for line in environment)


async def test_a_checker_out_of_memory_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checker, "MEMORY_BYTES", 2**20)
    error = await check_types("search('a')", TOOLS, timeout=LONG)
    assert error is not None
    assert error.kind is ErrorKind.SANDBOX


async def test_a_checker_that_prints_without_end_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checker, "OUTPUT_BYTES", 2**16)
    _use(monkeypatch, _LIMITED + "while :; do echo yes; done")
    error = await check_types("search('a')", TOOLS, timeout=LONG)
    assert error is not None
    assert error.kind is ErrorKind.SANDBOX


async def test_a_program_that_is_too_long_to_be_read_is_not_taken_for_a_good_one() -> None:
    error = await check_types("x = 1\n" * 200_000, TOOLS, timeout=LONG)
    assert error is not None
    assert error.kind is ErrorKind.SANDBOX


def test_a_checker_that_is_not_installed_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    check_available()
    monkeypatch.setitem(__import__("sys").modules, "ty", None)
    with pytest.raises(Unsupported, match=r"actbox\[typecheck\]"):
        check_available()


def test_a_checker_with_other_rules_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda name: "0.0.64")
    with pytest.raises(Unsupported, match=r"0\.0\.64"):
        check_available()


async def test_bad_settings_are_refused() -> None:
    with pytest.raises(InvalidValue, match="timeout"):
        await check_types("1", TOOLS, timeout=0)
