"""`make bench`: judge the machine, measure, print a table, keep the figures by date, and make the page and the charts.

python benchmarks/run.py                          everything
python benchmarks/run.py --only speed wasm        some: parts, which take less than ten minutes each, and subjects
python benchmarks/run.py --only speed --quick     few samples, to see that the programs work; nothing is kept
python benchmarks/run.py --page                   measure nothing; make the page and the charts of what is kept

A busy machine gets no verdict: its figures are shown and kept, and not compared with what was to be reached.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict

import history_chart
import speed_chart
from drawing import write
from effort import FULL, QUICK, Effort
from figures import Row
from machine import machine
from parts import ENGINES, PARTS, SUBJECTS, chosen
from passes import Found, Pass, keep
from peers import reason_of
from report import PAGE, page, show
from verdict import Verdict, Watch, load_before

import actbox

_MOST_SECONDS = 10 * 60


def measure_subject(name: str, effort: Effort) -> list[Row]:
    """Take one subject's figures, in a process of its own, which ends when its parent is killed."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    subject = importlib.import_module(name)
    return asyncio.run(asyncio.wait_for(subject.measure(effort), _MOST_SECONDS))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def measure(names: list[str], effort: Effort, after_each: Callable[[Pass], object]) -> Pass:
    """Take the figures of the subjects, each in a new process, so that none finds what another left behind."""
    load = load_before()
    one = Pass(machine(), asdict(effort))
    for name in names:
        one.found[name] = _found(name, effort, load, emulated=bool(one.machine.get("emulated")))
        after_each(one)
    return one


def _found(name: str, effort: Effort, load: float, *, emulated: bool) -> Found:
    if name in ENGINES and not (checked := actbox.check(name)).works:
        return Found(Verdict(), absent=checked.reason)
    watch = Watch(load)
    before = watch.verdict().text()
    print(f"{name}: {before}; measuring …", file=sys.stderr)
    start = time.perf_counter()
    rows: list[Row] = []
    failure = ""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        try:
            rows = process.submit(measure_subject, name, effort).result()
        except Exception as error:
            failure = f"{type(error).__name__}: {reason_of(error)}"
    seconds = round(time.perf_counter() - start, 1)
    watch.look()
    verdict = watch.verdict()
    if emulated:
        verdict = Verdict((*verdict.reasons, "the machine is emulated in software"), verdict.conditions)
    if verdict.text() != before:
        print(f"{name}: {verdict.text()}", file=sys.stderr)
    return Found(verdict, tuple(rows), failure, seconds=seconds)


def make_pages() -> None:
    """Write the page's table and the charts from what is kept."""
    PAGE.write_text(page())
    print(f"the table is in {PAGE}")
    write(speed_chart.pictures())
    write(history_chart.pictures())


def main() -> None:
    """Measure what the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    names = f"parts ({', '.join(PARTS)}) or subjects ({', '.join(SUBJECTS)})"
    parser.add_argument("--only", nargs="+", metavar="NAME", default=list(PARTS), help=f"measure these: {names}")
    parser.add_argument("--quick", action="store_true", help="take few samples, and keep nothing")
    parser.add_argument("--page", action="store_true", help="measure nothing, and make the page and the charts anew")
    arguments = parser.parse_args()
    if arguments.page:
        return make_pages()
    try:
        subjects = chosen(arguments.only)
    except LookupError as error:
        parser.error(str(error))
    if not set(subjects) <= set(ENGINES) and not (found := actbox.check("linux")).works:
        sys.exit(f"The figures are of the linux engine, which does not work here: {found.reason}. {found.advice}")
    # What users have, and what installing made: without it every new process would compile all of actbox again.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if arguments.quick:
        one = measure(subjects, QUICK, after_each=lambda _: None)
        show(one)
    else:
        one = measure(subjects, FULL, after_each=keep)  # a pass that is broken off has kept what it measured
        show(one)
        print(f"kept in {keep(one)}")
        make_pages()
    sys.exit(1 if any(found.failure for found in one.found.values()) else 0)


if __name__ == "__main__":
    main()
