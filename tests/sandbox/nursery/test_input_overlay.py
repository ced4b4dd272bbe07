"""The overlay that shows a folder of the host at `/input`: what the kernel does for it, and where it does not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import actbox
from actbox.sandbox.nursery import linux
from tests.conftest import engine_check
from tests.escape.planted import Change, changed_nursery

# As a kernel does that has no such file system, or lets nobody mount it in a user namespace.
NO_OVERLAYS = Change(
    "sandbox/nursery/attach.py",
    '        linux.mount("overlay", root + _INPUT, "overlay", ',
    '        linux.mount("overlay", root + _INPUT, "actbox-no-overlay", ',
)
NOT_FORGOTTEN = Change("sandbox/nursery/server.py", "        linux.forget_names(folder)\n", "        pass\n")


@pytest.fixture(autouse=True)
def linux_works() -> None:
    found = engine_check("linux")
    if not found.works:
        pytest.skip(f"the linux engine does not work here: {found.reason}")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tmp_path.chmod(0o755)
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "a.txt").write_text("host a")
    return folder


SENTENCE = "a directory cannot be mounted at /input itself here"


@pytest.mark.slow
async def test_where_there_are_no_overlays_it_is_refused_and_said_what_to_do(folder: Path) -> None:
    read = "open('/input/a.txt').read()"
    with changed_nursery([NO_OVERLAYS]):
        async with actbox.open_sandbox(
            "linux", policy=actbox.Policy(mounts=(actbox.FileMount(folder, "/input"),))
        ) as box:
            said = [(await box.run(read)).error]
            for forkable in (False, True):
                session = box.session(forkable=forkable)
                said.append((await session.run(read)).error)
                await session.close()
        for error in said:
            assert error is not None and error.kind is actbox.ErrorKind.SANDBOX
            assert SENTENCE in error.message and "such as at /input/data" in error.message, error
        below = actbox.Policy(mounts=(actbox.FileMount(folder, "/input/data"),))
        async with actbox.open_sandbox("linux", policy=below) as box:
            assert (await box.run("open('/input/data/a.txt').read()")).value == "host a"


async def test_a_session_would_not_see_a_file_that_it_had_looked_for_unless_names_were_forgotten(folder: Path) -> None:
    """Else nothing here would tell whether it is done."""
    with changed_nursery([NOT_FORGOTTEN]):
        policy = actbox.Policy(mounts=(actbox.FileMount(folder, "/input"),))
        async with actbox.open_sandbox("linux", policy=policy) as box, box.session() as session:
            look = "import os\nos.path.exists('/input/late')"
            assert (await session.run(look)).value is False
            await box.write_file("/input/late", b"")
            assert (await session.run(look)).value is False


def test_names_are_forgotten_of_the_root_of_a_mount_only(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_PATH)
    try:
        with pytest.raises(OSError, match="fspick"):
            linux.forget_names(descriptor)
    finally:
        os.close(descriptor)
