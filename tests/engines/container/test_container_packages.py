"""The engine's option `packages=`: packages on top of what a container's image, or the host, has."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import actbox
from actbox import InvalidValue, Policy, SandboxUnavailable
from actbox.core.packages import Environment, PackagePolicy, PackageRules
from actbox.packages import provider
from actbox.packages.store import PackageStore
from actbox.sandbox.registry import TABLE
from tests.engines.container.containers import image_with_python, needs
from tests.packages.index_server import IndexServer, serving_index
from tests.packages.wheel_factory import make_wheel

pytestmark = pytest.mark.engines


@pytest.fixture(autouse=True)
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[IndexServer]:
    """An index on loopback that the settings of uv name, and a package cache of the test's own."""
    folder = tmp_path / "wheels"
    make_wheel(folder, "parrot", "1.0", files={"parrot.py": b"words = 'one'\n"})
    two = b"import seeds\nwords = 'two ' + seeds.kind\n"
    make_wheel(folder, "parrot", "2.0", files={"parrot.py": two}, requires=("seeds>=3",))
    make_wheel(folder, "seeds", "3.1", files={"seeds.py": b"kind = 'sunflower'\n"})
    made = provider.PackageProvider(PackageStore(tmp_path / "cache"))
    monkeypatch.setattr(provider, "provider", lambda cache=None: made)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    for name in ("UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    with serving_index(folder) as served:
        monkeypatch.setenv("UV_DEFAULT_INDEX", served.address)
        yield served


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


async def test_those_who_ask_at_once_wait_for_one_installation(index: IndexServer) -> None:
    needs()
    index.is_modern = True

    async def look() -> object:
        async with actbox.open_sandbox("container", packages=["parrot"]) as box:
            return (await box.run(LOOK)).value

    assert await asyncio.gather(look(), look(), look()) == [["two sunflower", "2.0"]] * 3
    assert index.files_fetched() == ["parrot-2.0-py3-none-any.whl", "seeds-3.1-py3-none-any.whl"]
    index.requests.clear()
    assert await look() == ["two sunflower", "2.0"]
    assert not index.requests


async def test_what_cannot_be_installed_is_said_with_the_resolvers_words(image: str) -> None:
    for given in ({}, {"image": image}):
        with pytest.raises(SandboxUnavailable, match=r"parrot==9.*could not be installed.*no version of parrot==9"):
            async with actbox.open_sandbox("container", packages=["parrot==9"], **given):
                pass


async def test_nothing_of_a_package_is_run_to_install_it(index: IndexServer, tmp_path: Path) -> None:
    """A source distribution would run its own code."""
    needs()
    source = tmp_path / "mischief-1.0"
    source.mkdir()
    (source / "setup.py").write_text(f"open({str(tmp_path / 'was run')!r}, 'w')\n")
    subprocess.run(["tar", "-C", tmp_path, "-czf", index.folder / "mischief-1.0.tar.gz", source.name], check=True)
    with pytest.raises(SandboxUnavailable, match="mischief"):
        async with actbox.open_sandbox("container", packages=["mischief"]):
            pass
    assert not (tmp_path / "was run").exists()


async def test_what_the_policy_blocks_is_not_installed_even_if_the_option_names_it() -> None:
    needs()
    for blocked in ("Parrot", "seeds"):
        policy = Policy(packages=PackagePolicy(python=PackageRules(blocked=[blocked])))
        with pytest.raises(SandboxUnavailable, match=f"(?i){blocked}.* blocked by the policy"):
            async with actbox.open_sandbox("container", policy=policy, packages=["parrot"]):
                pass


async def test_the_option_comes_on_top_of_an_environment_without_packages() -> None:
    needs()
    async with actbox.open_sandbox("container", policy=Policy(environment="clean"), packages=["parrot"]) as box:
        result = await box.run("import importlib.util, parrot\n[parrot.words, importlib.util.find_spec('pydantic')]")
        assert (result.error, result.value) == (None, ["two sunflower", None])
        assert [f"{one.name}=={one.version}" for one in result.distributions] == ["parrot==2.0", "seeds==3.1"]


def test_an_environment_with_a_list_of_its_own_does_not_take_the_option() -> None:
    policy = Policy(environment=Environment(name="birds", packages=("parrot",)))
    with pytest.raises(InvalidValue, match="'birds' has a list of its own"):
        actbox.open_sandbox("container", policy=policy, packages=["seeds"])


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


async def test_packages_come_from_the_index_that_pip_knows(index: IndexServer, monkeypatch: pytest.MonkeyPatch) -> None:
    needs()
    for name in ("UV_DEFAULT_INDEX", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", index.address)
    async with actbox.open_sandbox("container", packages=["parrot"]) as box:
        assert (await box.run(LOOK)).value == ["two sunflower", "2.0"]
