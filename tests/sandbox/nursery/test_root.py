"""What guests are not shown of the environment that they see."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import engine_check

_PASSWORD = "https://user:password@index.example/simple"
_READS = """
import asyncio, json, sys, actbox

PROGRAM = '''
import sys
seen = {}
for name in names:
    try:
        seen[name] = open(sys.prefix + "/" + name).read()
    except OSError as error:
        seen[name] = type(error).__name__
seen
'''

async def main():
    async with actbox.open_sandbox(engine="linux") as box:
        result = await box.run(actbox.Program(PROGRAM, inputs={"names": sys.argv[1:]}))
        print(json.dumps(result.value if result.success else str(result.error)))

asyncio.run(main())
"""


@pytest.fixture(params=["/tmp", "/var/tmp"])
def environment(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A virtual environment: below a folder that sandboxes cover with one of their own, and elsewhere."""
    if not engine_check("linux").works:
        pytest.skip("the linux engine does not work here")
    folder = Path(tempfile.mkdtemp(dir=request.param))
    folder.chmod(0o755)
    made = folder / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(made)], check=True)
    yield made
    shutil.rmtree(folder)


def read_inside(environment: Path, names: list[str]) -> dict[str, str]:
    """Return what a program in a sandbox of this environment reads in files at its top."""
    done = subprocess.run(
        [environment / "bin/python", "-c", _READS, *names],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert isinstance(answer, dict), answer
    return answer


@pytest.mark.slow
def test_the_passwords_of_package_indexes_are_not_shown(environment: Path) -> None:
    """The files are there and empty, so that what reads them goes on."""
    (environment / "pip.conf").write_text(_PASSWORD)
    (environment / "uv.toml").write_text(_PASSWORD)
    (environment / "etc").mkdir(exist_ok=True)
    (environment / "etc/npmrc").write_text(_PASSWORD)
    (environment / "other.txt").write_text("shown")
    (environment / "kept elsewhere").write_text(_PASSWORD)
    (environment / ".pypirc").symlink_to(environment / "kept elsewhere")
    names = ["pip.conf", "uv.toml", ".pypirc", "kept elsewhere", "etc/npmrc", "other.txt", ".netrc"]
    seen = read_inside(environment, names)
    assert seen == {
        "pip.conf": "",
        "uv.toml": "",
        ".pypirc": "",
        "kept elsewhere": "",
        "etc/npmrc": "",
        "other.txt": "shown",
        ".netrc": "FileNotFoundError",
    }
    assert (environment / "pip.conf").read_text() == _PASSWORD
