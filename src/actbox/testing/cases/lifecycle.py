"""Cases of starting and stopping, of leftovers, and of an engine's traits."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from actbox.core.errors import SandboxStopped
from actbox.core.limits import Limits
from actbox.core.policy import Policy
from actbox.sandbox.contract import Sandbox
from actbox.testing.words.python import LEVELS

from .ground import Cases, OpenBox
from .needs import COMMANDS, FILES, SESSIONS, case, word


class LifecycleCases(Cases):
    """`start` and `stop`."""

    @case()
    async def test_before_the_start_nothing_runs(self, open_box: OpenBox) -> None:
        """Methods raise `SandboxStopped` before `start()`."""
        box = await self.open(Policy())
        program = self.program(self.words.answer("1"))
        with pytest.raises(SandboxStopped):
            await box.run(program)
        with pytest.raises(SandboxStopped):
            async for _ in box.stream(program):
                pass
        with pytest.raises(SandboxStopped):
            await box.run_alone(program)

    @case()
    async def test_modules_to_be_imported_ahead_are_a_hint(self, open_box: OpenBox) -> None:
        """`Policy.preload` takes effect if the engine supports it, and no engine refuses it."""
        await self.still_works(await open_box(Policy(preload=("json",))))

    @case(FILES)
    async def test_before_the_start_there_are_no_files(self, open_box: OpenBox) -> None:
        """File methods raise `SandboxStopped` before `start()`."""
        box = await self.open(Policy())
        for call in (lambda: box.read_file("a"), lambda: box.write_file("a", b""), lambda: box.list_files()):
            with pytest.raises(SandboxStopped):
                await call()

    @case(COMMANDS)
    async def test_before_the_start_there_are_no_commands(self, open_box: OpenBox) -> None:
        """`execute` raises `SandboxStopped` before `start()`."""
        with pytest.raises(SandboxStopped):
            await (await self.open(Policy())).execute("true")

    @case(SESSIONS)
    async def test_before_the_start_there_are_no_sessions(self, open_box: OpenBox) -> None:
        """Sessions raise `SandboxStopped` before `start()`."""
        box = await self.open(Policy())
        with pytest.raises(SandboxStopped):
            await box.session().start()

    @case()
    async def test_starting_and_stopping_twice_do_nothing(self, open_box: OpenBox) -> None:
        """A second call of `start()` or `stop()` does nothing."""
        box = await open_box()
        await box.start()
        await self.still_works(box)
        for _ in range(2):
            await box.stop()

    @case()
    async def test_after_the_stop_nothing_runs(self, open_box: OpenBox) -> None:
        """Methods raise `SandboxStopped` after `stop()`."""
        box = await open_box()
        await box.stop()
        with pytest.raises(SandboxStopped):
            await box.run(self.program(self.words.answer("1")))

    @case()
    async def test_a_sandbox_can_be_started_again(self, open_box: OpenBox) -> None:
        """A sandbox that is started again runs programs as before."""
        box = await open_box()
        await box.stop()
        await box.start()
        await self.still_works(box)

    @case(FILES)
    async def test_a_sandbox_that_was_started_again_has_an_empty_workspace(self, open_box: OpenBox) -> None:
        """`stop` removes everything that the sandbox made."""
        box = await open_box()
        await box.write_file("a", b"x")
        await box.stop()
        await box.start()
        assert [entry.path for entry in await box.list_files()] == ["input", "output"]

    @case()
    async def test_it_is_an_asynchronous_context_manager_and_no_plain_one(self, open_box: OpenBox) -> None:
        """Using a sandbox with a plain `with` raises `TypeError`, which says how to write it."""
        async with await self.open(Policy()) as box:
            await self.still_works(box)
            with pytest.raises(TypeError, match="async with"):
                with box:
                    pass
        with pytest.raises(SandboxStopped):
            await box.run(self.program(self.words.answer("1")))

    @case()
    async def test_many_start_at_once(self, open_box: OpenBox) -> None:
        """Many sandboxes can be started at once."""
        boxes = await asyncio.gather(*(open_box() for _ in range(4)))
        await asyncio.gather(*map(self.still_works, boxes))

    @case()
    async def test_starting_one_sandbox_twice_at_once_is_starting_it_once(self, open_box: OpenBox) -> None:
        """A second call does nothing, also while the first is under way."""
        box = await self.open(Policy())
        try:
            await asyncio.gather(box.start(), box.start())
            await self.still_works(box)
        finally:
            await asyncio.gather(box.stop(), box.stop())


class NothingLeftCases(Cases):
    """Tasks, threads, descriptors and files that runs and sandboxes leave behind."""

    @case()
    async def test_nothing_is_left_for_each_run(self, box: Sandbox) -> None:
        """Tasks, threads and descriptors may be kept for the next run, but do not grow in number with runs."""

        async def use(times: int) -> dict[str, int]:
            for turn in range(times):
                await box.run(
                    self.program((self.words.answer("1"), self.words.fail("boom"), self.words.broken)[turn % 3])
                )
            await asyncio.sleep(0.05)
            return {
                "tasks": len(asyncio.all_tasks()),
                "threads": threading.active_count(),
                "descriptors": _descriptors(),
            }

        before, after = await use(9), await use(45)  # more runs than an engine may keep resources ready for
        grown = {name: count - before[name] for name, count in after.items()}
        assert max(grown.values()) < 45, grown

    @case()
    async def test_no_descriptor_is_left_for_each_sandbox(self, open_box: OpenBox) -> None:
        """`stop` removes everything that the sandbox made."""
        counts = []
        for _ in range(9):
            box = await open_box()
            await box.run(self.program(self.words.answer("1")))
            await box.stop()
            counts.append(_descriptors())
        # Descriptors that are opened once and kept raise the count only once.
        first, second, third = counts[:3], counts[3:6], counts[6:]
        assert min(second) <= max(first) or min(third) <= max(second), counts

    @case()
    async def test_no_file_is_left_in_the_temporary_folder(
        self, open_box: OpenBox, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """`stop` removes everything that the sandbox made."""
        box = await open_box()
        await self.still_works(box)  # what an engine makes once for its process, it makes now
        await box.stop()
        # A folder of this case's own: other processes may have sandboxes of this engine in the common one.
        folder = tempfile.mkdtemp(prefix="kit-")
        monkeypatch.setattr(tempfile, "tempdir", folder)
        for _ in range(3):
            await box.start()
            await self.still_works(box)
            await box.stop()
        assert not [name for name in os.listdir(folder) if self.traits.engine in name]
        with contextlib.suppress(OSError):  # what else lies there is not this case's
            os.rmdir(folder)

    @case(FILES, word("write"))
    async def test_a_stopped_sandbox_leaves_no_workspace_behind(self, open_box: OpenBox, tmp_path: Path) -> None:
        """A file that a program wrote is nowhere in the temporary folder afterwards."""
        box = await open_box()
        name = f"kit-{tmp_path.name}.canary"
        assert (await box.run(self.program(self.words.write(name, "x")))).success
        await box.stop()
        # Files of other processes come and go meanwhile, which `walk` passes over.
        found = [folder for folder, _, files in os.walk(tempfile.gettempdir()) if name in files]
        assert found == []


class TraitsCases(Cases):
    """The traits by which an engine describes itself."""

    @case()
    async def test_the_traits_are_plain_data(self, box: Sandbox) -> None:
        """`to_dict` returns plain JSON data."""
        document = json.loads(json.dumps(box.traits.to_dict()))
        assert document["engine"] == box.traits.engine

    @case()
    async def test_the_engine_has_a_name_and_says_how_it_isolates(self, box: Sandbox) -> None:
        """`isolation` is a short phrase for people."""
        assert box.traits.engine and box.traits.engine == box.traits.engine.strip()
        assert 0 < len(box.traits.isolation) < 200
        assert box.traits.packages and box.traits.network

    @case()
    async def test_the_languages_and_the_level_of_python_agree(self, box: Sandbox) -> None:
        """The level of Python is `none` exactly if Python is not among the languages."""
        assert box.traits.languages
        assert box.traits.python in LEVELS
        assert ("python" in box.traits.languages) == (box.traits.python != "none")

    @case()
    async def test_what_is_said_to_be_enforced_are_limits_that_there_are(self, box: Sandbox) -> None:
        """`enforced` maps each enforced field of `Limits` to its enforcer."""
        assert set(box.traits.enforced) <= set(Limits().to_dict())
        assert all(box.traits.enforced.values())

    @case()
    async def test_an_engine_that_isolates_enforces_the_time(self, box: Sandbox) -> None:
        """An engine that isolates enforces wall time."""
        assert not box.traits.isolated or "wall_seconds" in box.traits.enforced

    @case()
    async def test_an_engine_works_on_a_platform_that_it_is_for(self, box: Sandbox) -> None:
        """`platforms` names the platforms that the engine is for, this one included."""
        assert sys.platform in box.traits.platforms

    @case()
    async def test_what_one_trait_takes_for_granted_another_has(self, box: Sandbox) -> None:
        """An engine that forks has sessions, and one that has parallel calls has tools."""
        traits = box.traits
        assert traits.sessions or not traits.fork
        assert traits.tools or not traits.parallel_tools
        assert traits.tools or not traits.await_tools
        assert traits.tools == bool(traits.tools_by)
        assert set(traits.mounts) <= {"ro", "rw", "overlay"}

    @case()
    async def test_traits_do_not_change_by_starting(self, open_box: OpenBox) -> None:
        """Starting changes no traits except notes, which may report findings."""
        fresh = await self.open(Policy())
        started = await open_box()
        for name in ("engine", "isolated", "languages", "python", "files", "commands", "tools", "sessions", "fork"):
            assert getattr(fresh.traits, name) == getattr(started.traits, name)


def _descriptors() -> int:
    """Return the number of descriptors of this process; a constant if the system does not tell."""
    gc.collect()
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
