"""What three of a sandbox's walls cost a run: the filter, the cgroup, Landlock.

First the processor time that it takes to build each, which a busy machine does not change much. Then the same run with
all walls and without one of them, in turns. A wall is left out by changing one line of a copy of the nursery's code;
what it costs is the median with all less the median without it, so it may come out below nothing where it is lost in
the noise. Most of these walls are built ahead of a run: with pauses a run does not wait for that, back to back it does.
"""

from __future__ import annotations

import os
import shutil
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from effort import Effort
from figures import Figure, Missing, Row, Target, figure, single
from fresh_run import PLAIN, run_in
from stopwatch import PAUSE_SECONDS, Action, Contender, in_turns

import actbox
from actbox.sandbox.engines.linux import nursery, stock
from actbox.sandbox.engines.linux.cgroups import RunGroup, Support
from actbox.sandbox.nursery import landlock, linux, seccomp

_CODE = Path(nursery.__file__).parents[2]
_MOST_MS = 0.3


@dataclass(frozen=True)
class _Variant:
    """A sandbox with some walls left out. Each has a nursery of its own, by a preload that costs nothing."""

    preload: str
    changes: tuple[tuple[str, str, str], ...] = ()
    """In which file of the nursery what is replaced by what."""
    cgroup: bool = True


_NO_FILTER = ("child.py", "        seccomp.install(birth.filter_program)\n", "")
_NO_LANDLOCK = ("landlock.py", "_LEAST_VERSION = 2\n", "_LEAST_VERSION = 1000\n")
_ALL_WALLS = "all walls"
_NONE = "filter, cgroup and Landlock together"
_VARIANTS = {
    _ALL_WALLS: _Variant("json"),
    "the filter": _Variant("re", (_NO_FILTER,)),
    "the cgroup": _Variant("struct", cgroup=False),
    "Landlock": _Variant("socket", (_NO_LANDLOCK,)),
    _NONE: _Variant("signal", (_NO_FILTER, _NO_LANDLOCK), cgroup=False),
}
"""By what is left out."""


async def measure(effort: Effort) -> list[Row]:
    """Measure the building of each wall, then runs with and without each."""
    support = stock.support
    missing = {}
    if support() is None:
        missing["the cgroup"] = Missing("no cgroup can be made here")
    if not landlock.version():
        missing["Landlock"] = Missing("this kernel has no Landlock")
    rows = _building_rows(effort, support(), missing)
    try:
        async with AsyncExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            folder.chmod(0o755)
            boxes = {name: await _open(stack, variant, folder / variant.preload) for name, variant in _VARIANTS.items()}
            for manner, pause in (
                (f"paced, {PAUSE_SECONDS * 1000:.0f} ms between", PAUSE_SECONDS),
                ("back to back", 0),
            ):
                contenders = {
                    name: Contender(run_in(box, PLAIN), effort.fast, before=_choose(_VARIANTS[name], support))
                    for name, box in boxes.items()
                }
                rows += _rows(manner, await in_turns(contenders, pause=pause), missing)
            return rows
    finally:
        stock.support = support


# Building them


def _building_rows(effort: Effort, support: Support | None, missing: dict[str, Missing]) -> list[Row]:
    works: dict[str, Callable[[], float]] = {"the filter": _build_filter}
    if support is not None:
        works["the cgroup"] = lambda: _build_cgroup(support)
    if landlock.version():
        works["Landlock"] = _build_landlock
    times = {name: [work() for _ in range(effort.fast)] for name, work in works.items()}
    measure = "processor time to build {}, for each run"
    rows = [Row(measure.format(name), "ms", figure(found)) for name, found in times.items()]
    rows += [Row(measure.format(name), "ms", reason) for name, reason in missing.items()]
    together = figure(map(sum, zip(*times.values(), strict=True)))
    return [*rows, Row(measure.format(_NONE), "ms", together)]


def _build_filter() -> float:
    program = seccomp.build()
    return _in_child(lambda: seccomp.install(program))


def _build_landlock() -> float:
    """Build it as pid 1 and the guest do, with the places of this machine, which has the same ones."""
    folder = os.open("/tmp", os.O_PATH)

    def build() -> None:
        rules = landlock.standing_rules([sys.prefix, sys.base_prefix], -1)
        landlock.allow_run(rules, {"mounts": []}, [folder, folder])
        landlock.enter(rules)

    try:
        return _in_child(build)
    finally:
        os.close(folder)


def _build_cgroup(support: Support) -> float:
    start = time.process_time()
    group = RunGroup(support, actbox.Limits())
    files = group.open_files()
    spent = (time.process_time() - start) * 1000
    spent += _in_child(lambda: _join(files))
    start = time.process_time()
    for descriptor in files.values():
        os.close(descriptor)
    group.remove()
    return spent + (time.process_time() - start) * 1000


def _join(files: dict[str, int]) -> None:
    for name, descriptor in files.items():
        if name.startswith("join"):
            os.write(descriptor, b"0")


def _in_child(work: Callable[[], object]) -> float:
    """Return how many milliseconds of a processor something takes in a forked child."""
    said, say = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            linux.set_no_new_privs()
            start = time.process_time()
            work()
            os.write(say, struct.pack("d", (time.process_time() - start) * 1000))
        finally:
            os._exit(0)
    os.close(say)
    with open(said, "rb") as answer:
        found = answer.read()
    os.waitpid(child, 0)
    if not found:
        raise RuntimeError("a wall could not be built; the error is above")
    return float(struct.unpack("d", found)[0])


# Runs with and without them


async def _open(stack: AsyncExitStack, variant: _Variant, folder: Path) -> actbox.Sandbox:
    """Open a sandbox whose nursery runs a changed copy of its code."""
    shutil.copytree(_CODE, folder, ignore=shutil.ignore_patterns("__pycache__", "engines", "channel"))
    for name, old, new in variant.changes:
        file = folder / "nursery" / name
        text = file.read_text()
        if text.count(old) != 1:
            raise RuntimeError(f"{name} has changed: {old!r} is not there once, so nothing can be left out")
        file.write_text(text.replace(old, new))
    original, nursery._SANDBOX_FOLDER = nursery._SANDBOX_FOLDER, str(folder)
    try:
        policy = actbox.Policy(preload=(variant.preload,))
        return await stack.enter_async_context(actbox.open_sandbox("linux", policy=policy))
    finally:
        nursery._SANDBOX_FOLDER = original


def _choose(variant: _Variant, support: Callable[[], object]) -> Action:
    """Return what says, before each run, whether the sandboxes made from then on have cgroups."""

    async def choose() -> None:
        stock.support = support if variant.cgroup else lambda: None  # type: ignore[assignment]

    return choose


def _rows(manner: str, times: dict[str, list[float]], missing: dict[str, Missing]) -> list[Row]:
    whole = times[_ALL_WALLS]
    rows = [Row(f"fresh run of `{PLAIN.code}` with all walls, {manner}", "ms", figure(whole))]
    for name, found in times.items():
        if name == _ALL_WALLS:
            continue
        difference = statistics.median(whole) - statistics.median(found)
        cost: Figure | Missing = missing.get(name) or single(difference, len(found))
        target = Target(p50=_MOST_MS) if name == _NONE else Target()
        rows.append(Row(f"such a run less one without {name}", "ms", cost, target))
    return rows
