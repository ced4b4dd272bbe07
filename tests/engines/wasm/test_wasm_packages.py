"""Packages without compiled parts on WebAssembly, from an index on loopback."""

from __future__ import annotations

import pytest

import actbox
from actbox import ErrorKind, Policy, Program, Unsupported
from actbox.core.packages import Environment, PackagePolicy
from tests.packages.index_server import IndexServer
from tests.packages.kits import policy_of
from tests.packages.wheel_factory import make_wheel

pytestmark = pytest.mark.slow

KIT = Environment(name="kit", packages=("kit-greeting",))
CODE = """
import kit_greeting
try: open(kit_greeting.__file__, "a")
except OSError: refused = True
[kit_greeting.greeting, refused]
"""


async def test_a_program_has_what_it_asks_for_and_the_next_one_has_not(index: IndexServer) -> None:
    async with actbox.open_sandbox("wasm", policy=policy_of(index)) as box:
        for _ in range(2):
            result = await box.run(Program(CODE, dependencies=("kit-greeting",)))
            assert (result.error, result.value, result.environment) == (None, ["hello", True], "clean")
            assert [one.name for one in result.distributions] == ["kit-greeting", "kit-words"]
            missed = await box.run("import kit_words")
            assert missed.error is not None and missed.error.kind is ErrorKind.MISSING_DEPENDENCY
            assert list(missed.distributions) == []


async def test_what_the_policy_blocks_is_refused(index: IndexServer) -> None:
    async with actbox.open_sandbox("wasm", policy=policy_of(index)) as box:
        events = [event async for event in box.stream(Program("print('ran')", dependencies=("kit-trojan",)))]
    assert [type(event).__name__ for event in events] == ["Completed"]
    result = events[0].result
    assert result.error is not None and (result.error.kind, result.error.type) == (ErrorKind.POLICY, "PackageBlocked")


async def test_a_package_with_compiled_parts_is_refused(index: IndexServer) -> None:
    wheel = make_wheel(index.folder, "kit_fast", files={"kit_fast.so": b"\x7fELF"})
    wheel.rename(wheel.with_name("kit_fast-1.0-cp314-cp314-manylinux_2_17_x86_64.whl"))
    async with actbox.open_sandbox("wasm", policy=policy_of(index, auto_approved=["kit-fast"])) as box:
        result = await box.run(Program("print('ran')", dependencies=("kit-fast",)))
    assert result.error is not None and result.error.kind is ErrorKind.MISSING_DEPENDENCY
    assert "kit-fast" in result.error.message


async def test_a_named_environment_is_there_for_programs_and_sessions(index: IndexServer) -> None:
    policy = Policy(environment=KIT, packages=policy_of(index).packages)
    async with actbox.open_sandbox("wasm", policy=policy) as box:
        result = await box.run(CODE)
        assert (result.error, result.value, result.environment) == (None, ["hello", True], "kit")
        index.requests.clear()
        async with box.session() as session:
            assert (await session.run("import kit_greeting\nkit_greeting.greeting")).value == "hello"
            with pytest.raises(Unsupported, match="programs of a session cannot have dependencies"):
                await session.run(Program("1", dependencies=("kit-words",)))
        assert [result.value async for result in box.map([CODE, CODE], concurrency=2)] == [["hello", True]] * 2
        assert not index.requests


async def test_what_a_program_misses_is_said_with_what_to_send(index: IndexServer) -> None:
    async with actbox.open_sandbox("wasm", policy=policy_of(index)) as box:
        result = await box.run("import kit_greeting")
    assert result.error is not None and "send what is left of it" in result.error.hint


async def test_packages_of_the_host_are_none_of_its_programs(index: IndexServer) -> None:
    policy = Policy(packages=PackagePolicy(index=index.address, python=policy_of(index).packages.python))
    async with actbox.open_sandbox("wasm", policy=policy) as box:
        result = await box.run(Program("import kit_words\nkit_words.word", dependencies=("kit-greeting",)))
    assert (result.error, result.value, result.environment) == (None, "hello", "clean")
    assert [one.name for one in result.distributions] == ["kit-greeting", "kit-words"]
