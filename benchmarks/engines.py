"""Every engine that works here: how long a first and a fresh run take, a run of a session and a tool call.

python benchmarks/engines.py                        measure, keep, and make the table and the picture of docs/engines.md
python benchmarks/engines.py --quick                the same with few samples, to see that it works
python benchmarks/engines.py --only linux wasm      measure some; of the others the last figures are kept
python benchmarks/engines.py --figures FILE ...     take in, of engines that do not work here, another machine's figures
python benchmarks/engines.py --write FILE ...       only write what was measured to a file, for `--figures`
python benchmarks/engines.py --page                 measure nothing; make the page anew (--figures FILE is taken in)
python benchmarks/engines.py --check                measure nothing; fail where the table says what engines no longer do
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from effort import FULL, QUICK, Effort
from engines_page import outdated, write_page
from figures import Figure, figure
from machine import machine
from peers import reason_of

import actbox

RESULTS = Path(__file__).parent / "results" / "engines.json"
_LANGUAGES: Mapping[str, tuple[str, str]] = {
    # A program that comes to 2, and one that calls a tool so often.
    "python": ("1 + 1", "for n in range({n}):\n    add(n, 1)"),
    "javascript": ("1 + 1", "for (let n = 0; n < {n}; n++) await add(n, 1);"),
    "rtfs": ("(+ 1 1)", "(dotimes [n {n}] (call :add n 1))"),
}
_OPTIONS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "container": {"container-gvisor": {"runtime": "runsc"}},
    "hyperlight": {"hyperlight-javascript": {"backend": "javascript"}},
}
VARIANTS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    name: (engine, options)
    for engine in actbox.ENGINES
    for name, options in {engine: {}, **_OPTIONS.get(engine, {})}.items()
}
"""What is measured: an engine, and the options with which it is opened."""
_CALLS = 200


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def _timed(running: Any) -> float:
    begun = time.perf_counter()
    result = await running
    taken = (time.perf_counter() - begun) * 1000
    if not result.success:
        raise RuntimeError(f"{result.error.kind}: {result.error.message}")
    return taken


async def measure(engine: str, options: Mapping[str, Any], effort: Effort) -> dict[str, Figure]:
    """Return the figures of one engine, all in milliseconds but those of tool calls, which are in microseconds."""
    figures = {}
    begun = time.perf_counter()
    async with actbox.open_sandbox(engine, allow_unisolated=True, **options) as box:
        simple, calling = _LANGUAGES[box.traits.languages[0]]
        await _timed(box.run(simple))
        figures["first run"] = figure([(time.perf_counter() - begun) * 1000])
        once = await _timed(box.run(simple))
        samples = effort.fast if once < 20 else effort.slow if once < 200 else effort.repeats
        taken = []
        for _ in range(samples + 3):
            await asyncio.sleep(0.02)  # as an agent's runs come: not one upon the other
            taken.append(await _timed(box.run(simple)))
        figures["fresh run"] = figure(taken[3:])
        if box.traits.tools:
            per_call = []
            for _ in range(max(3, effort.repeats)):
                one = await _timed(box.run(calling.format(n=1), tools=[add]))
                many = await _timed(box.run(calling.format(n=1 + _CALLS), tools=[add]))
                per_call.append((many - one) * 1000 / _CALLS)
            figures["tool call"] = figure(per_call)
        if box.traits.sessions:
            async with box.session() as session:
                runs = [await _timed(session.run(simple)) for _ in range(samples + 3)]
            figures["session run"] = figure(runs[3:])
    return figures


def traits_of(name: str, checked: actbox.EngineCheck) -> actbox.Traits | None:
    """Return what an engine with its options says of itself, if it can say anything on this machine."""
    engine, options = VARIANTS[name]
    if checked.traits is None or not options:
        return checked.traits
    try:
        return actbox.open_sandbox(engine, **options).traits
    except actbox.SandboxUnavailable:
        return None


def found_out(name: str, effort: Effort) -> dict[str, Any]:
    """Return what is kept of one engine: its traits, and its figures or why there are none."""
    engine, options = VARIANTS[name]
    checked = actbox.check(engine)
    there = traits_of(name, checked)
    about = {"engine": engine, "options": dict(options), **({} if there is None else {"traits": there.to_dict()})}
    if not checked.works:
        return {**about, "reason": checked.reason}
    try:
        figures = asyncio.run(measure(engine, options, effort))
    except Exception as error:
        return {**about, "reason": reason_of(error)}
    return {
        **about,
        "figures": {what: asdict(of_it) for what, of_it in figures.items()},
    }


def main() -> None:
    """Measure what the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="take few samples")
    parser.add_argument("--only", nargs="+", choices=list(VARIANTS), metavar="ENGINE", help="measure these alone")
    parser.add_argument("--figures", type=Path, help="what --write has written on another machine")
    parser.add_argument("--write", type=Path, help="write what was found to this file, and do nothing else")
    parser.add_argument("--page", action="store_true", help="measure nothing, and make the page anew")
    parser.add_argument("--check", action="store_true", help="measure nothing, and compare the table with the engines")
    arguments = parser.parse_args()
    if arguments.check or arguments.page:
        checks = {engine: actbox.check(engine) for engine in actbox.ENGINES}
        today = {name: traits_of(name, checks[engine]) for name, (engine, _) in VARIANTS.items()}
    if arguments.page:
        kept = json.loads(RESULTS.read_text())
        kept |= _taken(arguments.figures, {name: of_it for name, of_it in kept.items() if not _is_emulated(of_it)})
        for name, traits in today.items():
            engine, options = VARIANTS[name]
            of_it = kept.setdefault(name, {"engine": engine, "reason": "it has not been yet"})
            of_it["options"] = dict(options)
            if traits is not None:
                of_it["traits"] = traits.to_dict()
        _keep(kept)
        return
    if arguments.check:
        raise SystemExit("\n".join(outdated(json.loads(RESULTS.read_text()), today)) or 0)
    effort = QUICK if arguments.quick else FULL
    about = machine()
    if about.get("emulated"):  # and perhaps beside others, so that a machine within the machine takes its time
        for module, name in (("check", "CHECK_SECONDS"), ("machine", "START_SECONDS")):
            setattr(import_module(f"actbox.sandbox.engines.hyperlight.{module}"), name, 200.0)
    found: dict[str, Any] = {}
    for name in arguments.only or VARIANTS:
        print(f"measuring {name} …", file=sys.stderr)
        found[name] = {**found_out(name, effort), "machine": about}
    if arguments.write:
        arguments.write.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n")
        return
    found |= _taken(arguments.figures, found)
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    # What could not be measured here and now leaves what was measured before, which says when and where.
    kept |= {name: of_it for name, of_it in found.items() if "figures" in of_it or "figures" not in kept.get(name, {})}
    _keep(kept)
    failed = [f"{name}: {of_it['reason']}" for name, of_it in found.items() if "figures" not in of_it]
    print("\n".join(["not measured here:", *failed]) if failed else "all engines were measured")


def _taken(path: Path | None, have: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was measured on another machine and is not among the figures that we have."""
    elsewhere = {} if path is None else json.loads(path.read_text())
    return {
        name: of_it for name, of_it in elsewhere.items() if "figures" in of_it and "figures" not in have.get(name, {})
    }


def _is_emulated(of_it: Mapping[str, Any]) -> bool:
    return bool(of_it.get("machine", {}).get("emulated"))


def _keep(kept: dict[str, Any]) -> None:
    kept = {name: kept[name] for name in VARIANTS if name in kept}
    RESULTS.write_text(json.dumps(kept, indent=2) + "\n")
    print(f"the table and the picture are in {write_page(kept)}")


if __name__ == "__main__":
    main()
