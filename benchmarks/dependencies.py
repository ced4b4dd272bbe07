"""Programs with packages from an index on loopback: known ones, new ones, many at once, and named environments."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # the tests' index and wheels

from effort import Effort
from figures import Figure, Missing, Row, Target, figure
from fresh_run import answer
from peers import reason_of
from stopwatch import PAUSE_SECONDS, Contender, in_pairs, in_turns

import actbox
from actbox.core.packages import Environment, PackagePolicy, PackageRules
from actbox.packages.provider import CACHE_VARIABLE
from tests.packages.index_server import IndexServer, serving_index
from tests.packages.wheel_factory import make_wheel

AT_ONCE = 20
ENVIRONMENTS = 100
MANY_FILES = 1000
_KNOWN_MS = 3
_FRESH_SECONDS = 1.0
_SHOWN = "print(kit_words.word)"
_PROGRAM = f"import kit_words\n{_SHOWN}"
_WORDS = {"kit_words/__init__.py": b"word = 'hello'\n"}


def _policy(index: IndexServer, environment: str | Environment = "clean") -> actbox.Policy:
    names = ["kit-words", "kit-many", *(f"kit-{number}" for number in range(1000))]
    packages = PackagePolicy(python=PackageRules(auto_approved=names), index=index.address)
    return actbox.Policy(environment=environment, packages=packages)


def _program(code: str, *packages: str) -> actbox.Program:
    return actbox.Program(code, dependencies=packages)


async def known(index: IndexServer, effort: Effort) -> list[Row]:
    """Return what known, cached packages add to a run: a small one, and one of many files."""
    files = {f"kit_many/m{number}.py": b"" for number in range(MANY_FILES)}
    make_wheel(index.folder, "kit_many", files=files)
    rows = []
    async with actbox.open_sandbox("linux", policy=_policy(index)) as box:
        for name, package, target in (
            ("of one file", "kit-words", Target(p50=_KNOWN_MS)),
            (f"of {MANY_FILES:,} files", "kit-many", Target()),
        ):
            with_it, without = _program("print(1)", package), _program("print(1)")

            async def run(program: actbox.Program) -> None:
                answer(await box.run(program))

            await run(with_it)
            pairs = await in_pairs(
                lambda one=with_it: run(one), lambda one=without: run(one), effort.fast, pause=PAUSE_SECONDS
            )
            added = figure(first - second for first, second in pairs)
            rows.append(Row(f"a known, cached package {name}: what it adds to a run", "ms", added, target))
    return rows


async def fresh(index: IndexServer, effort: Effort, folder: Path) -> Row:
    """Return how long a program takes that is the first to ask for a package, and beside it uv and pip."""
    ours = []
    async with actbox.open_sandbox("linux", policy=_policy(index)) as box:
        answer(await box.run("print(1)"))
        for number in range(max(effort.repeats, 2)):
            make_wheel(index.folder, f"kit_{number}", files={f"kit_{number}.py": b"word = 'hello'\n"})
            start = time.perf_counter()
            code = f"import kit_{number}\nprint(kit_{number}.word)"
            assert answer(await box.run(_program(code, f"kit-{number}"))) == "hello\n"
            ours.append(time.perf_counter() - start)
    repeats = min(max(effort.repeats, 2), 5)
    peers = {
        "uv run --with": _timed(repeats, lambda number: _uv(index, f"kit_{number}", folder / f"uv{number}")),
        "pip install": _timed(repeats, lambda number: _pip(index, f"kit_{number}", folder / f"pip{number}")),
    }
    target = Target(p50=_FRESH_SECONDS)
    return Row("a fresh pure wheel: from the program to its result", "s", figure(ours), target, peers)


async def known_peers(index: IndexServer, effort: Effort, folder: Path) -> Row:
    """Return the whole of a run with a known package, and beside it `uv run --with` with a warm cache."""
    async with actbox.open_sandbox("linux", policy=_policy(index)) as box:
        program = _program(_PROGRAM, "kit-words")
        answer(await box.run(program))
        times = await in_turns({"ours": Contender(lambda: box.run(program), effort.slow)}, pause=PAUSE_SECONDS)
    repeats = min(max(effort.repeats, 2), 5)
    cache = folder / "uv-warm"
    _uv(index, "kit_words", cache)
    uv = _timed(repeats, lambda _: _uv(index, "kit_words", cache), unit=1000)
    return Row("a run with a known package, whole", "ms", figure(times["ours"]), peers={"uv run --with": uv})


async def at_once(index: IndexServer) -> Row:
    """Return how often each file is fetched if many programs want it at once."""
    index.is_modern = True  # else uv fetches wheels too, for their metadata
    make_wheel(index.folder, "kit_999", files={"kit_999.py": b""})
    index.requests.clear()
    async with actbox.open_sandbox("linux", policy=_policy(index)) as box:
        program = _program("import kit_999", "kit-999")
        for result in await asyncio.gather(*(box.run(program) for _ in range(AT_ONCE))):
            answer(result)
    index.is_modern = False
    number = len(index.files_fetched())
    return Row(
        f"downloads for {AT_ONCE} programs that want a new package at once", "", Figure(number, None, 1), Target(p50=1)
    )


async def warm(index: IndexServer, effort: Effort) -> Row:
    """Return how long a run takes in a named environment, and beside it one in the host's."""
    kit = Environment(name="kit", packages=("kit-words",))
    async with (
        actbox.open_sandbox("linux", policy=_policy(index, kit)) as ours,
        actbox.open_sandbox("linux") as host,
    ):
        assert answer(await ours.run(_PROGRAM)) == "hello\n"
        actions = {"ours": ours, "host": host}
        contenders = {
            name: Contender(lambda box=box: box.run("print(1)"), effort.fast) for name, box in actions.items()
        }
        times = await in_turns(contenders, pause=PAUSE_SECONDS)
    host_figure = figure(times["host"])
    target = Target(ratios={"environment host": 0.9})
    return Row("a run in a named environment", "ms", figure(times["ours"]), target, {"environment host": host_figure})


async def on_disk(index: IndexServer, cache: Path) -> Row:
    """Return how many copies a file has that many environments share."""
    files = {f"kit_many/m{number}.py": f"number = {number}\n".encode() for number in range(20)}
    make_wheel(index.folder, "kit_many", "2.0", files=files)
    from actbox.packages.provider import provider

    for number in range(ENVIRONMENTS):
        make_wheel(index.folder, f"kit_{100 + number}", files={f"kit_{100 + number}.py": b""})
        one = Environment(name=f"env{number}", packages=("kit-many==2.0", f"kit-{100 + number}"))
        layer = await provider().layer(_policy(index, one))
        assert (Path(layer.folder) / "site/kit_many/m0.py").exists()
    copies = [path.stat().st_ino for path in cache.rglob("m0.py") if b"number" in path.read_bytes()]
    assert len(copies) >= ENVIRONMENTS
    shared = Figure(len(set(copies)), None, 1)
    return Row(f"copies on disk of a file that {ENVIRONMENTS} environments share", "", shared, Target(p50=1))


def _timed(repeats: int, work: Callable[[int], None], unit: float = 1) -> Figure | Missing:
    times = []
    try:
        for number in range(repeats):
            start = time.perf_counter()
            work(number)
            times.append((time.perf_counter() - start) * unit)
    except Exception as error:
        return Missing(reason_of(error))
    return figure(times)


def _uv(index: IndexServer, module: str, cache: Path) -> None:
    import uv

    command = [uv.find_uv_bin(), "run", "--no-project", "--no-config", "--quiet", "--cache-dir", str(cache)]
    command += ["--default-index", index.address, "--python", sys.executable, "--with", module]
    _said([*command, "python", "-c", f"import {module}; print({module}.word)"])


def _pip(index: IndexServer, module: str, folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-cache-dir", "--disable-pip-version-check"]
    done = subprocess.run(
        [*command, "--index-url", index.address, "--target", str(folder), module], capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    code = f"import sys; sys.path.insert(0, {str(folder)!r}); import {module}; print({module}.word)"
    _said([sys.executable, "-I", "-c", code])


def _said(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.stdout != "hello\n":
        raise RuntimeError(done.stderr.strip() or f"it printed {done.stdout!r}")


async def measure(effort: Effort) -> list[Row]:
    """Measure everything with a package cache of its own."""
    with tempfile.TemporaryDirectory() as name, serving_index(Path(name, "wheels")) as index:
        folder = Path(name)
        os.environ[CACHE_VARIABLE] = str(folder / "cache")
        make_wheel(index.folder, "kit_words", files=_WORDS)
        return [
            *await known(index, effort),
            await known_peers(index, effort, folder),
            await fresh(index, effort, folder),
            await at_once(index),
            await warm(index, effort),
            await on_disk(index, folder / "cache"),
        ]
