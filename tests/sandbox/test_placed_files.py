"""The files that a policy places in a sandbox lie in memory files of this process, and no longer than they are used."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import os
from collections.abc import Iterator

import pytest

import actbox
from actbox import Policy, Secret
from tests.conftest import engine_check

VALUE = "s3cr3t-of-the-host-52"
POLICY = Policy(secrets=(Secret("database", VALUE, as_file=True),))
LOOK = "open('/run/secrets/database').read()"


@pytest.fixture(autouse=True)
def linux_works() -> None:
    found = engine_check("linux")
    if not found.works:
        pytest.skip(f"the linux engine does not work here: {found.reason}")


@pytest.fixture(autouse=True)
def without_cyclic_collection() -> Iterator[None]:
    """What only the cyclic garbage collector would close has to count as open."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def contents() -> int:
    """Return how many descriptors of placed files this process has."""
    found = 0
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the descriptor of the listing itself is closed already
            found += "actbox-file" in os.readlink(f"/proc/self/fd/{name}")
    return found


async def test_a_sandbox_that_is_not_started_holds_no_content() -> None:
    box = actbox.open_sandbox("linux", policy=POLICY)
    assert contents() == 0
    async with box:
        assert contents() == 1
    assert contents() == 0


@pytest.mark.slow
async def test_a_stopped_sandbox_holds_no_content_though_it_is_still_known() -> None:
    box = actbox.open_sandbox("linux", policy=POLICY)
    async with box:
        assert (await box.run(LOOK)).value == VALUE
    assert contents() == 0
    async with box:  # it may be started again
        assert (await box.run(LOOK)).value == VALUE
        assert (await box.run_alone(LOOK)).value == VALUE
        assert (await box.run(LOOK)).value == VALUE
        assert contents() == 1
    assert contents() == 0


@pytest.mark.slow
async def test_a_cancelled_run_leaves_no_content_open() -> None:
    async def work() -> None:
        async with actbox.open_sandbox("linux", policy=POLICY) as box:
            await asyncio.gather(*(box.run("import time\ntime.sleep(60)") for _ in range(2)))

    kept = []
    for tenths in range(6):
        task = asyncio.create_task(work())
        await asyncio.sleep(tenths / 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as raised:
            await task
        kept.append(raised)  # with its traceback, and so the frames that it came through
        assert contents() == 0


async def test_a_failed_run_leaves_no_content_open() -> None:
    async with actbox.open_sandbox("linux", policy=POLICY) as box:
        for code in ("import os\nos.kill(os.getpid(), 9)", "1 / 0", "while True: pass"):
            assert not (await box.run(code, timeout=0.3)).success
            assert contents() == 1  # the sandbox's own
    assert contents() == 0


@pytest.mark.slow
async def test_an_error_in_a_block_leaves_no_content_open() -> None:
    with pytest.raises(ValueError) as raised:
        async with actbox.open_sandbox("linux", policy=POLICY) as box:
            await box.run(LOOK)
            raise ValueError("the caller's own")
    assert raised.value.__traceback__ is not None
    assert contents() == 0


@pytest.mark.slow
async def test_a_sandbox_that_cannot_start_leaves_no_content_open(monkeypatch: pytest.MonkeyPatch) -> None:
    two = Policy(secrets=(Secret("one", VALUE, as_file=True), Secret("two", VALUE + "2", as_file=True)))
    async with actbox.open_sandbox("linux"):  # what is shared by all is there now
        made = os.memfd_create
        names: list[str] = []

        def full(name: str, flags: int) -> int:
            names.append(name)
            if names.count("actbox-file") == 2:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            return made(name, flags)

        box = actbox.open_sandbox("linux", policy=two)
        with monkeypatch.context() as patched:
            patched.setattr(os, "memfd_create", full)
            with pytest.raises(actbox.SandboxUnavailable, match="Too many open files"):
                await box.start()
        assert contents() == 0
        async with box:
            assert contents() == 2
    assert contents() == 0


@pytest.mark.slow
async def test_a_run_that_cannot_begin_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    async with actbox.open_sandbox("linux", policy=POLICY) as box:
        await box.run("1")
        made = os.memfd_create

        def full(name: str, flags: int) -> int:
            if name == "stdin":
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            return made(name, flags)

        with monkeypatch.context() as patched:
            patched.setattr(os, "memfd_create", full)
            result = await box.execute("cat", stdin=b"text")
        assert result.error is not None and "Too many open files" in result.error.message
        assert contents() == 1
        assert (await box.execute("cat", stdin=b"text")).stdout == "text"
    assert contents() == 0
