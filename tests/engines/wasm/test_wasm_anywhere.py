"""The engine on systems that are not Linux, as far as it can be told here: nothing that only Linux has is imported."""

from __future__ import annotations

import subprocess
import sys

import pytest

_ELSEWHERE = """
# What knows by itself how to be on another system.
import asyncio, importlib.metadata, os, pydantic, shutil, subprocess, sys, sysconfig, tempfile, zoneinfo

sysconfig.get_config_vars()

LACKING = {"fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "syslog", "crypt", "spwd"}
for name in LACKING:
    sys.modules.pop(name, None)

class Lacking:
    def find_spec(self, name, path=None, target=None):
        if name in LACKING:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Lacking())
sys.platform = "PLATFORM"
for name in ("fork", "register_at_fork", "forkpty", "setsid", "unshare", "setns", "sched_getaffinity", "sendfile",
             "memfd_create", "pidfd_open", "getrandom", "eventfd", "splice", "posix_fallocate"):
    if hasattr(os, name):
        delattr(os, name)

import actbox

def shout(text: str) -> str:
    return text.upper()

async def main():
    async with actbox.open_sandbox("wasm") as box:
        await box.write_text("input/name.txt", "world")
        result = await box.run(
            "open('/output/x.txt', 'w').write('made')\\nprint('said')\\nshout(open('/input/name.txt').read())",
            tools=[shout],
        )
        assert result.success, result.error
        print(result.value, result.stdout.strip(), result.artifacts[0].name, result.artifacts[0].data)
        failed = await box.run("while True: pass", timeout=0.5)
        print(failed.error.kind.value)
        async with box.session() as session:
            await session.run("x = 20")
            print((await session.run("x + 1")).value)
        print([(await alone).value async for alone in results(box)])

async def results(box):
    async def one(result):
        return result
    async for result in box.map(["1", "2"]):
        yield one(result)

asyncio.run(main())
"""


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_it_runs_where_nothing_of_linux_is_there(platform: str) -> None:
    program = _ELSEWHERE.replace("PLATFORM", platform)
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert told.returncode == 0, told.stderr
    assert told.stdout.splitlines() == ["WORLD said x.txt b'made'", "TIMEOUT", "21", "[1, 2]"]
