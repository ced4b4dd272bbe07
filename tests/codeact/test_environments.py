"""Sandboxes that stay open from call to call: whose files they have, when they go, and what becomes of the files."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import actbox
from actbox import ErrorKind, InvalidValue, Policy, Sandbox, SandboxUnavailable, Unsupported
from actbox.codeact import CodeActConfig, CodeActOutcome, CodeActRunner
from tests.codeact.runners import Opener

pytestmark = pytest.mark.one_engine_first

KEEP = "open('/workspace/kept.txt', 'a').write('x'); open('/output/made.txt', 'w').write('y')"
READ = "import os; [sorted(os.listdir('/workspace')), open('/workspace/kept.txt').read()]"


async def did(runner: CodeActRunner, config: CodeActConfig, code: str, *, scope: str = "") -> CodeActOutcome:
    outcome = await runner.execute(config.freeze(), {"code": code}, scope=scope)
    assert isinstance(outcome, CodeActOutcome)
    return outcome


@pytest.mark.slow
async def test_files_last_within_a_scope_and_no_other_sees_them(opener: Opener) -> None:
    runner, config = CodeActRunner(opener), CodeActConfig(file_surface=True)
    for scope in ("one", ""):
        assert (await did(runner, config, KEEP, scope=scope)).result.success
        assert (await did(runner, config, KEEP, scope=scope)).result.success
        value = (await did(runner, config, READ, scope=scope)).result.value
        assert value == [["input", "kept.txt", "output"], "xx"]
    other = await did(runner, config, "import os; [os.listdir('/workspace'), os.listdir('/output')]", scope="two")
    assert other.result.value is not None
    assert sorted(other.result.value[0]) == ["input", "output"]
    assert other.result.value[1] == []
    assert len(opener.opened) == 3
    await runner.close()


@pytest.mark.slow
@pytest.mark.parametrize("scope", ["one", ""])
async def test_files_are_carried_over_when_hosts_or_mounts_change(opener: Opener, tmp_path: Path, scope: str) -> None:
    (tmp_path / "users.json").write_text("[]")
    runner, config = CodeActRunner(opener), CodeActConfig(file_surface=True)
    program = "import os; os.makedirs('/workspace/a/b'); open('/workspace/a/b/c', 'w').write('deep')"
    await did(runner, config, f"{KEEP}; {program}", scope=scope)
    config.add_file_mounts((tmp_path / "users.json", "users.json"))
    outcome = await did(
        runner,
        config,
        "[open(path).read() for path in ('/workspace/a/b/c', '/workspace/kept.txt', '/output/made.txt',"
        " '/input/users.json')]",
        scope=scope,
    )
    assert outcome.result.value == ["deep", "x", "y", "[]"]
    assert outcome.result.warnings == ()
    config.clear_file_mounts()
    outcome = await did(
        runner, config, "import os; [os.listdir('/input'), open('/workspace/kept.txt').read()]", scope=scope
    )
    assert outcome.result.value == [[], "x"]
    await runner.close()


async def test_a_file_with_odd_mode_bits_is_carried_over_with_its_permission_bits(
    opener: Opener, tmp_path: Path
) -> None:
    runner, config = CodeActRunner(opener), CodeActConfig(file_surface=True)
    program = f"{KEEP}; import os; os.chmod('/workspace/kept.txt', 0o1640)"
    assert (await did(runner, config, program, scope="s")).result.success
    config.add_file_mounts((tmp_path, "data"))
    outcome = await did(runner, config, "import os; oct(os.stat('/workspace/kept.txt').st_mode)", scope="s")
    assert (outcome.result.value, outcome.result.warnings) == ("0o100640", ()), outcome.result
    await runner.close()


async def test_what_cannot_be_carried_over_is_said_once(opener: Opener, tmp_path: Path) -> None:
    runner, config = CodeActRunner(opener), CodeActConfig(file_surface=True)
    await did(runner, config, "import os; os.symlink('/etc/hostname', '/workspace/link')", scope="s")
    config.add_file_mounts((tmp_path, "data"))  # which each of the engines has
    outcome = await did(runner, config, "1", scope="s")
    assert outcome.result.warnings == ("files of earlier calls could not be kept: link",)
    assert "could not be kept: link" in outcome.text
    assert (await did(runner, config, "1", scope="s")).result.warnings == ()
    await runner.close()


async def test_tools_that_change_need_no_other_sandbox(opener: Opener) -> None:
    runner, config = CodeActRunner(opener), CodeActConfig(file_surface=True)
    await did(runner, config, "1", scope="s")
    config.add_tools(actbox.Tool.from_function(lambda: 7, name="seven"))
    assert (await did(runner, config, "seven()", scope="s")).result.value == 7
    assert len(opener.opened) == 1
    await runner.close()


async def test_a_program_that_runs_on_elsewhere_is_told_of_where_its_files_will_be_missed(
    opener: Opener, tmp_path: Path
) -> None:
    began, go_on = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        began.set()
        await go_on.wait()

    runner = CodeActRunner(opener)
    config = CodeActConfig(file_surface=True, tools=[wait])
    first = asyncio.create_task(did(runner, config, "wait()\nopen('/workspace/late', 'w').write('x')", scope="s"))
    await began.wait()
    config.add_file_mounts((tmp_path, "data"))  # which each of the engines has
    second = await did(runner, config, "1", scope="s")
    assert "another program of this conversation still runs elsewhere" in second.text
    go_on.set()
    assert (await first).result.success
    await runner.close()


@pytest.mark.slow
async def test_of_many_the_one_that_was_not_used_for_longest_goes_and_its_files_are_missed(opener: Opener) -> None:
    runner, config = CodeActRunner(opener, most_environments=2), CodeActConfig(file_surface=True)
    for scope in ("a", "b", "a", "c"):
        await did(runner, config, KEEP, scope=scope)
    assert (await did(runner, config, "open('/workspace/kept.txt').read()", scope="a")).result.value == "xx"
    gone = await did(runner, config, "import os; os.path.exists('/workspace/kept.txt')", scope="b")
    assert gone.result.value is False
    assert gone.result.warnings == (
        "the files of earlier calls are gone: their sandbox was closed, as it had not been used for long",
    )
    assert (await did(runner, config, "1", scope="b")).result.warnings == ()
    assert len(opener.opened) == 4
    await runner.close()


@pytest.mark.slow
async def test_scopes_that_do_not_last_close_no_other_and_few_of_them_stay_open(
    opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actbox.codeact.environments.MOST_FLEETING", 2)
    runner, config = CodeActRunner(opener, most_environments=1), CodeActConfig(file_surface=True)
    await did(runner, config, KEEP, scope="conversation")
    for scope in "abc":
        for _ in range(2):
            outcome = await runner.execute(config.freeze(), {"code": KEEP}, scope=scope, lasting=False)
            assert isinstance(outcome, CodeActOutcome)
            assert outcome.result.success
    assert (await did(runner, config, READ, scope="conversation")).result.value[1] == "x"
    for number, box in enumerate(opener.opened):
        if number == 1:
            with pytest.raises(actbox.SandboxStopped):
                await box.list_files()
        else:
            assert await box.list_files()
    await runner.close()


async def test_a_scope_that_is_left_is_closed_when_nothing_runs_there_any_more(opener: Opener) -> None:
    began, go_on = asyncio.Event(), asyncio.Event()

    async def wait() -> str:
        began.set()
        await go_on.wait()
        return "done"

    runner, config = CodeActRunner(opener), CodeActConfig(file_surface=True, tools=[wait])
    await did(runner, config, KEEP, scope="idle")
    await runner.leave(scope="idle")
    await runner.leave(scope="never used")
    with pytest.raises(actbox.SandboxStopped):
        await opener.opened[0].list_files()
    run = asyncio.create_task(did(runner, config, "wait()", scope="busy"))
    await began.wait()
    await runner.leave(scope="busy")
    go_on.set()
    assert (await run).result.value == "done"
    with pytest.raises(actbox.SandboxStopped):
        await opener.opened[1].list_files()
    after = await did(runner, config, "import os; os.path.exists('/workspace/kept.txt')", scope="idle")
    assert (after.result.value, after.result.warnings) == (False, ())
    await runner.close()


async def test_one_in_which_a_program_runs_does_not_go(opener: Opener) -> None:
    began, go_on = asyncio.Event(), asyncio.Event()

    async def wait() -> str:
        began.set()
        await go_on.wait()
        return "done"

    runner, config = CodeActRunner(opener, most_environments=1), CodeActConfig(file_surface=True, tools=[wait])
    first = asyncio.create_task(did(runner, config, f"{KEEP}\nwait()", scope="a"))
    await began.wait()
    assert (await did(runner, config, "1", scope="b")).result.success
    go_on.set()
    assert (await first).result.value == "done"
    await runner.close()


async def test_without_a_file_surface_nothing_lasts_and_conversations_share_one_sandbox(opener: Opener) -> None:
    runner, config = CodeActRunner(opener), CodeActConfig()
    for scope in ("a", "a", "b"):
        outcome = await did(
            runner,
            config,
            "import os\nfound = [os.path.exists('kept'), os.path.exists('/output/made')]\n"
            "open('kept', 'w').write('x'); open('/output/made', 'w').write('y')\nfound",
            scope=scope,
        )
        assert outcome.result.value == [False, False]
        assert outcome.artifacts == ()
        assert "do not come back here, and are gone: made; " in outcome.text
    assert len(opener.opened) == 1
    await runner.close()


# What goes wrong


def fails(error: Exception) -> Callable[[Policy], Sandbox]:
    def open_sandbox(policy: Policy) -> Sandbox:
        raise error

    return open_sandbox


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (SandboxUnavailable("there is no room"), ErrorKind.SANDBOX),
        (OSError("too many open files"), ErrorKind.SANDBOX),
        (Unsupported("this engine has no mounts"), ErrorKind.UNSUPPORTED),
    ],
)
async def test_a_sandbox_that_cannot_be_opened_is_an_outcome(error: Exception, kind: ErrorKind) -> None:
    outcome = await did(CodeActRunner(fails(error)), CodeActConfig(), "1")
    assert outcome.result.error is not None
    assert outcome.result.error.kind is kind
    assert str(error) in outcome.text
    assert outcome.to_json_shape()["exit_code"] == 125


async def test_a_sandbox_that_does_not_start_is_an_outcome_for_all_who_wait_and_is_tried_again(
    opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    starting, go_on = asyncio.Event(), asyncio.Event()

    async def start() -> None:
        starting.set()
        await go_on.wait()
        raise SandboxUnavailable("there is no room")

    def open_one(policy: Policy) -> Sandbox:
        box = opener(policy)
        if len(opener.opened) == 1:
            monkeypatch.setattr(box, "start", start)
        return box

    runner, config = CodeActRunner(open_one), CodeActConfig(file_surface=True)
    first = asyncio.create_task(did(runner, config, "1", scope="s"))
    await starting.wait()
    second = asyncio.create_task(did(runner, config, "1", scope="s"))
    await asyncio.sleep(0)
    go_on.set()
    for outcome in (await first, await second):
        assert outcome.result.error is not None
        assert (outcome.result.error.kind, outcome.result.error.message) == (ErrorKind.SANDBOX, "there is no room")
    assert (await did(runner, config, "1", scope="s")).result.success
    await runner.close()


async def test_a_start_goes_on_when_whoever_began_it_is_cancelled(
    opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    starting, go_on = asyncio.Event(), asyncio.Event()

    def open_one(policy: Policy) -> Sandbox:
        box = opener(policy)
        begin = box.start

        async def start() -> None:
            starting.set()
            await go_on.wait()
            await begin()

        monkeypatch.setattr(box, "start", start)
        return box

    runner, config = CodeActRunner(open_one), CodeActConfig(file_surface=True)
    first = asyncio.create_task(did(runner, config, "1", scope="s"))
    await starting.wait()
    second = asyncio.create_task(did(runner, config, "6 * 7", scope="s"))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait({first})
    go_on.set()
    assert (await second).result.value == 42
    assert len(opener.opened) == 1
    await runner.close()


async def test_a_sandbox_that_starts_while_all_are_closed_runs_nothing_and_is_not_left_behind(
    opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    starting, go_on = asyncio.Event(), asyncio.Event()
    stopped: list[Any] = []

    def open_one(policy: Policy) -> Sandbox:
        box = opener(policy)
        begin, end = box.start, box.stop

        async def start() -> None:
            starting.set()
            await go_on.wait()
            await begin()

        async def stop() -> None:
            await end()
            stopped.append(box)

        monkeypatch.setattr(box, "start", start)
        monkeypatch.setattr(box, "stop", stop)
        return box

    runner = CodeActRunner(open_one)
    run = asyncio.create_task(did(runner, CodeActConfig(file_surface=True), "1"))
    await starting.wait()
    closing = asyncio.create_task(runner.close())
    await asyncio.sleep(0)
    go_on.set()
    await closing
    outcome = await run
    assert outcome.result.error is not None
    assert outcome.result.error.kind is ErrorKind.CANCELLED
    assert stopped
    with pytest.raises(actbox.SandboxStopped):
        await opener.opened[0].list_files()


async def test_a_conversation_that_changes_while_its_first_sandbox_starts_waits_for_its_files(
    opener: Opener, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    starting, go_on = asyncio.Event(), asyncio.Event()

    def open_one(policy: Policy) -> Sandbox:
        box = opener(policy)
        begin = box.start

        async def start() -> None:
            starting.set()
            await go_on.wait()
            await begin()

        if len(opener.opened) == 1:
            monkeypatch.setattr(box, "start", start)
        return box

    runner, config = CodeActRunner(open_one), CodeActConfig(file_surface=True)
    first = asyncio.create_task(did(runner, config, "1", scope="s"))
    await starting.wait()
    config.add_file_mounts((tmp_path, "data"))  # which each of the engines has
    second = asyncio.create_task(did(runner, config, "2", scope="s"))
    await asyncio.sleep(0)
    go_on.set()
    assert (await first).result.value == 1
    assert (await second).result.value == 2
    await runner.close()


@pytest.mark.parametrize("most", [0, -1, True, 1.5])
def test_at_least_one_sandbox_stays_open(opener: Opener, most: Any) -> None:
    with pytest.raises(InvalidValue, match="most_environments is a whole number of at least 1"):
        CodeActRunner(opener, most_environments=most)
