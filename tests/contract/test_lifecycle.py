"""Beginning and ending: what is ready, what is refused, and what a run starts with."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import actbox
from actbox import Completed, ErrorKind, InvalidValue, Sandbox, SandboxStopped, SandboxUnavailable, Session
from tests.conftest import OpenBox, engine_check


async def test_stopping_cancels_what_still_runs(open_box: OpenBox) -> None:
    box = await open_box()
    begun = asyncio.Event()

    async def begin() -> None:
        begun.set()

    program = "import time\nprint('begun', flush=True)\nbegin()\ntime.sleep(60)"
    task = asyncio.create_task(box.run(program, tools=[begin]))
    await begun.wait()
    await box.stop()
    result = await asyncio.wait_for(task, 30)
    assert result.error is not None
    assert result.error.kind is ErrorKind.CANCELLED
    assert result.stdout == "begun\n"


async def test_a_stopped_sandbox_says_so(engine: str) -> None:
    box = actbox.open_sandbox(engine, allow_unisolated=True)
    for _ in range(2):
        for call in (box.run("1"), box.execute("true"), box.read_file("a"), box.write_file("a", b"")):
            with pytest.raises(SandboxStopped):
                await call
        await box.start()
        await box.start()
        assert (await box.run("1")).value == 1
        await box.stop()
        await box.stop()


async def test_a_restarted_sandbox_has_an_empty_workspace(engine: str) -> None:
    box = actbox.open_sandbox(engine, allow_unisolated=True)
    async with box:
        await box.write_file("a", b"x")
    async with box:
        assert "a" not in {entry.path for entry in await box.list_files()}


@pytest.mark.slow
def test_a_sandbox_is_stopped_in_the_event_loop_of_its_sessions(engine: str) -> None:
    box = actbox.open_sandbox(engine, allow_unisolated=True)

    async def begin() -> Session:
        await box.start()
        session = box.session()
        await session.start()
        return session

    async def go_on(session: Session) -> None:
        assert (await session.run("1")).value == 1
        await box.stop()
        assert not session.alive

    with asyncio.Runner() as runner, asyncio.Runner() as other:
        session = runner.run(begin())
        with pytest.raises(InvalidValue, match="event loop"):
            other.run(box.stop())
        runner.run(go_on(session))


# An engine may close some of its own at any moment, so they are all taken again before each try.
_NO_DESCRIPTORS = """
import asyncio, os, resource
import actbox

held = []

def take_all():
    try:
        while True: held.append(os.open("/dev/null", os.O_RDONLY))
    except OSError: pass

async def told_by(attempt):
    for _ in range(50):
        take_all()
        try:
            failure = await attempt()
        except actbox.SandboxUnavailable as error:
            failure = error
        if failure:
            return type(failure).__name__

async def run(box):
    return (await box.run("1")).error

async def start():
    box = actbox.open_sandbox({engine!r}, allow_unisolated=True, **{options!r})
    await box.start()
    await box.stop()

async def main():
    async with actbox.open_sandbox({engine!r}, allow_unisolated=True, **{options!r}) as box:
        await box.run("1")
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 3, before[1]))
        print(await told_by(lambda: run(box)), await told_by(start))
        for descriptor in held: os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        print((await box.run("1")).value)

asyncio.run(main())
"""


@pytest.mark.slow
def test_a_host_that_has_no_descriptors_left_is_told_so_and_goes_on(engine: str, options: dict[str, Any]) -> None:
    program = _NO_DESCRIPTORS.format(engine=engine, options=options)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["ErrorInfo", "SandboxUnavailable", "1"], done


async def test_two_sandboxes_share_nothing(open_box: OpenBox) -> None:
    one, two = await open_box(), await open_box()
    await one.write_file("a", b"x")
    with pytest.raises(actbox.FileError):
        await two.read_file("a")


async def test_an_engine_says_what_it_lacks(open_box: OpenBox) -> None:
    box = await open_box()
    if box.traits.sessions:
        pytest.skip("this engine has sessions")
    with pytest.raises(actbox.Unsupported, match=box.traits.engine):
        box.session()


async def test_what_the_host_has_is_not_inherited(
    open_box: OpenBox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOST_SECRET", "canary")
    (tmp_path / "open").touch()
    descriptor = os.open(tmp_path / "open", os.O_RDONLY)
    os.set_inheritable(descriptor, True)
    old_mask = os.umask(0o077)
    try:
        box = await open_box()
        code = (
            "import os, signal\n"
            "listed = [f'/proc/self/fd/{n}' for n in os.listdir('/proc/self/fd')]\n"
            "fds = [os.readlink(name) for name in listed if os.path.lexists(name)]\n"
            "mask = os.umask(0o022)\n"
            "handlers = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGCHLD, signal.SIGTERM)]\n"
            "expected = [signal.default_int_handler, signal.SIG_DFL, signal.SIG_DFL]\n"
            "blocked = len(signal.pthread_sigmask(signal.SIG_BLOCK, []))\n"
            "[dict(os.environ), fds, mask, os.getcwd(), handlers == expected, blocked]"
        )
        environment, fds, mask, folder, handlers_are_new, blocked = (await box.run(code)).value
    finally:
        os.umask(old_mask)
        os.close(descriptor)
    assert "HOST_SECRET" not in environment
    assert "canary" not in str(environment)
    assert str(tmp_path / "open") not in fds
    # The standard three and the channel; some of /dev/null are kept back to describe a failure with.
    assert len([name for name in fds if name != "/dev/null"]) <= 4, fds
    assert mask == 0o022
    assert folder == box.root
    assert handlers_are_new
    assert blocked == 0


def test_the_unisolated_engine_is_never_chosen_silently() -> None:
    with pytest.raises(SandboxUnavailable, match="allow_unisolated"):
        actbox.open_sandbox("process")
    if engine_check("linux").works:
        assert actbox.open_sandbox(allow_unisolated=True).traits.isolated


def test_an_unknown_engine_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(actbox.InvalidValue, match="linux"):
        actbox.open_sandbox("docker")


@pytest.mark.parametrize("policy", [{}, [], {"a": 1}, (), 0, ""])
def test_what_is_no_policy_is_refused_also_where_it_is_empty(policy: Any) -> None:
    with pytest.raises(actbox.InvalidValue, match="policy must be a Policy"):
        actbox.open_sandbox("process", policy=policy, allow_unisolated=True)


async def test_the_last_event_of_a_failed_run_is_completed_too(open_box: OpenBox) -> None:
    box = await open_box()
    events = [event async for event in box.stream("while True: pass", timeout=0.3)]
    assert isinstance(events[-1], Completed)


@pytest.mark.slow
@pytest.mark.one_engine_first
def test_a_forked_process_has_sandboxes_of_its_own(engine: str, options: dict[str, Any]) -> None:
    assert actbox.run("1", engine=engine, allow_unisolated=True).value == 1
    code = (
        "import actbox, multiprocessing, warnings\n"
        "def work(n):\n"
        "    with actbox.sync.open_sandbox(ENGINE, allow_unisolated=True, **OPTIONS) as box:\n"
        "        return box.run(f'{n} + 1').value\n"
        "if __name__ == '__main__':\n"
        "    assert work(0) == 1\n"
        "    warnings.simplefilter('ignore')\n"
        "    with multiprocessing.get_context('fork').Pool(2) as pool:\n"
        "        assert pool.map(work, [1, 2, 3]) == [2, 3, 4]\n"
        "    assert work(5) == 6\n"
        "    print('fine')\n"
    )
    program = code.replace("ENGINE", repr(engine)).replace("OPTIONS", repr(options))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "fine\n", done.stderr


@pytest.mark.slow
@pytest.mark.one_engine_first
@pytest.mark.parametrize(
    "odd",
    [
        pytest.param("os.umask(0o077)", marks=pytest.mark.long),
        "os.makedirs('gone')\nos.chdir('gone')\nos.rmdir('../gone')",
        "for n in (0, 1, 2): os.close(n)",
        "resource.setrlimit(resource.RLIMIT_NOFILE, (4000, 4000))\n"
        "kept = [os.open('/dev/null', os.O_RDONLY) for _ in range(2000)]",
        pytest.param("os.environ.clear()", marks=pytest.mark.long),
        "os.environ.update(PYTHONPATH='/nonexistent', PYTHONHOME='/nonexistent', TMPDIR='.')",
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD, signal.SIGTERM])",
    ],
)
def test_an_odd_host_makes_no_difference(engine: str, options: dict[str, Any], odd: str, tmp_path: Path) -> None:
    code = (
        f"import os, resource, signal, sys\n{odd}\nimport actbox\n"
        "def add(a: int, b: int) -> int: return a + b\n"
        f"with actbox.sync.open_sandbox({engine!r}, allow_unisolated=True, **{options!r}) as box:\n"
        "    box.write_file('a/b', b'x')\n"
        "    result = box.run(\"open('output/c', 'w').write('y')\\n[open('a/b').read(), add(1, 2)]\", tools=[add])\n"
        "    command = box.execute('cat; id -u', stdin=b'in ')\n"
        "made = [artifact.data for artifact in result.artifacts]\n"
        "open(TOLD, 'w').write(repr([result.value, result.error, made, command.stdout[:3]]))\n"
    )
    code = code.replace("TOLD", repr(str(tmp_path / "told")))
    # -P, since Python itself cannot import from a current folder that is gone.
    subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path, timeout=60, check=False)
    assert (tmp_path / "told").read_text() == "[['x', 3], None, [b'y'], 'in ']"


async def test_with_and_async_with_on_the_other_face_say_which_to_write(engine: str) -> None:
    box = actbox.open_sandbox(engine, allow_unisolated=True)
    plain = actbox.sync.open_sandbox(engine, allow_unisolated=True)
    with pytest.raises(TypeError, match=r"write `async with .*`with actbox\.sync\.open_sandbox"), box:
        pass
    with pytest.raises(TypeError, match=r"write `with actbox\.sync\..*`async with actbox\.open_sandbox"):
        async with plain:
            pass


async def test_sessions_of_the_other_face_say_which_to_write(box: Sandbox) -> None:
    if not box.traits.sessions:
        pytest.skip("this engine has no sessions")
    with pytest.raises(TypeError, match=r"write `async with box\.session"), box.session():
        pass
    with pytest.raises(TypeError, match=r"write `with box\.session"):
        async with actbox.sync.SyncSession(box.session()):
            pass
