"""Packages on top of what a container's image has: from wheels, installed once for each set."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import actbox
from actbox import InvalidValue, SandboxUnavailable
from actbox.sandbox.engines.container import packages
from actbox.sandbox.registry import TABLE
from tests.engines.container.containers import image_with_python, needs

pytestmark = pytest.mark.engines


def make_wheel(folder: Path, name: str, version: str, source: str, requires: str = "") -> None:
    """Write a wheel of one module."""
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    files = {
        f"{name}.py": source,
        f"{info}/METADATA": metadata + (f"Requires-Dist: {requires}\n" if requires else ""),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(text.encode())}\n"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for path, text in {**files, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
            wheel.writestr(path, text)


@pytest.fixture(autouse=True)
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels, which is all that pip knows, and a cache of the test's own."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    make_wheel(folder, "parrot", "1.0", "words = 'one'\n")
    make_wheel(folder, "parrot", "2.0", "import seeds\nwords = 'two ' + seeds.kind\n", requires="seeds>=3")
    make_wheel(folder, "seeds", "3.1", "kind = 'sunflower'\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with image_with_python(needs(), tmp_path_factory.mktemp("image")) as name:
        yield name


LOOK = "import importlib.metadata, parrot\n[parrot.words, importlib.metadata.version('parrot')]"


@pytest.mark.parametrize("runtime", ["", "runsc"], ids=lambda name: name or "usual")
async def test_packages_come_on_top_of_the_hosts_environment(runtime: str) -> None:
    needs(runtime)
    async with actbox.open_sandbox("container", runtime=runtime, packages=["parrot==2.*"]) as box:
        assert "parrot==2.*" in box.traits.packages
        result = await box.run(LOOK)
        assert (result.error, result.value) == (None, ["two sunflower", "2.0"])
        started = "import subprocess, sys\nsubprocess.check_output([sys.executable, '-c', 'import parrot'], text=True)"
        assert (await box.run(started)).value == ""
        changed = await box.run("import parrot\nopen(parrot.__file__, 'a')")
        assert changed.error is not None and changed.error.type in ("OSError", "PermissionError")
        network = await box.run("import socket\nsocket.create_connection(('192.0.2.1', 80), 2)")
        assert network.error is not None and network.error.type != "ImportError"
    async with actbox.open_sandbox("container", runtime=runtime) as box:
        missing = await box.run("import parrot")
        assert missing.error is not None and missing.error.type == "ModuleNotFoundError"


async def test_packages_come_on_top_of_an_image(image: str) -> None:
    async with actbox.open_sandbox("container", image=image, packages=["parrot<2"]) as box:
        result = await box.run(LOOK)
        assert (result.error, result.value) == (None, ["one", "1.0"])


async def test_an_image_by_name_has_runs_tools_files_and_sessions(image: str) -> None:
    @actbox.tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    async with actbox.open_sandbox("container", image=image) as box:
        assert image in box.traits.packages
        await box.write_file("input/given", b"given")
        code = (
            "import os\nopen('/output/made', 'w').write(open('/input/given').read())\n[add(1, 2), os.getuid() > 1000]"
        )
        result = await box.run(code, tools=[add])
        assert (result.error, result.value) == (None, [3, True])
        assert [(artifact.name, artifact.data) for artifact in result.artifacts] == [("made", b"given")]
        async with box.session() as session:
            await session.run("x = 1")
            assert (await session.run("x + 1")).value == 2
        host = await box.run("import pydantic")
        assert host.error is not None and host.error.type == "ModuleNotFoundError"


async def test_those_who_ask_at_once_wait_for_one_installation(wheels: Path, tmp_path: Path) -> None:
    needs()

    async def look() -> object:
        async with actbox.open_sandbox("container", packages=["parrot"]) as box:
            return (await box.run(LOOK)).value

    assert await asyncio.gather(look(), look(), look()) == [["two sunflower", "2.0"]] * 3
    installed = [path for path in (tmp_path / "cache/actbox/packages").iterdir() if path.is_dir()]
    assert len(installed) == 1
    for wheel in wheels.iterdir():
        wheel.unlink()
    assert await look() == ["two sunflower", "2.0"]  # there is nothing left to install from, nor any need


def test_sets_that_nobody_has_any_more_are_removed_beyond_so_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packages, "MOST_SETS", 1)
    ask = "from actbox.sandbox.engines.container import packages\nprint(packages.folder_for_host(('parrot==1.0',)))"
    left = Path(subprocess.run([sys.executable, "-c", ask], check=True, capture_output=True, text=True).stdout.strip())
    assert (left / "parrot.py").is_file()
    ours = [packages.folder_for_host((name,)) for name in ("parrot==2.0", "seeds")]
    assert not left.exists()
    assert [(folder / "seeds.py").is_file() for folder in ours] == [True, True]
    again = packages.folder_for_host(("parrot==1.0",))
    assert again == left
    assert (left / "parrot.py").is_file()


async def test_what_cannot_be_installed_is_said_with_pips_words(image: str, tmp_path: Path) -> None:
    for given in ({}, {"image": image}):
        with pytest.raises(SandboxUnavailable, match=r"parrot==9.*No matching distribution found for parrot==9"):
            async with actbox.open_sandbox("container", packages=["parrot==9"], **given):
                pass
    assert not [path for path in (tmp_path / "cache/actbox/packages").iterdir() if path.is_dir()]


async def test_nothing_of_a_package_is_run_to_install_it(wheels: Path, tmp_path: Path) -> None:
    """A source distribution would run its own code, here, with a network."""
    needs()
    source = tmp_path / "mischief-1.0"
    source.mkdir()
    (source / "setup.py").write_text(f"open({str(tmp_path / 'was run')!r}, 'w')\n")
    subprocess.run(["tar", "-C", tmp_path, "-czf", wheels / "mischief-1.0.tar.gz", source.name], check=True)
    with pytest.raises(SandboxUnavailable, match="mischief"):
        async with actbox.open_sandbox("container", packages=["mischief"]):
            pass
    assert not (tmp_path / "was run").exists()


@pytest.mark.parametrize(
    "packages",
    ["parrot", ["--index-url=http://x"], ["parrot", ""], ["./parrot"], ["/parrot"], ["parrot @ file:///x"], [1]],
    ids=str,
)
def test_what_is_no_requirement_is_refused(packages: object) -> None:
    with pytest.raises(InvalidValue, match="packages"):
        actbox.open_sandbox("container", packages=packages)


def test_packages_are_an_option_of_the_engine_but_not_of_somebodys_container() -> None:
    assert "packages" in TABLE["container"].options()
    with pytest.raises(InvalidValue, match="nothing is installed"):
        actbox.open_sandbox("container", container="mine", packages=["parrot"])


async def test_packages_come_from_the_index_that_pip_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    needs()
    for name in ("PIP_CONFIG_FILE", "PIP_NO_INDEX", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name)
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--dest", "/dev/null/x", "iniconfig==2.0.0"]
    said = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
    if "No matching distribution" in said.stderr:
        pytest.skip("pip reaches no index here")
    async with actbox.open_sandbox("container", packages=["iniconfig==2.0.0"]) as box:
        assert (await box.run("import importlib.metadata\nimportlib.metadata.version('iniconfig')")).value == "2.0.0"
