"""`python -m benchmarks.codeact`: compare, print a table, keep every attempt as JSON, and write the page.

python -m benchmarks.codeact                           scripted; the table goes into `docs/performance.md`
python -m benchmarks.codeact --runs 3                  another number of runs leaves the page alone
python -m benchmarks.codeact --model openai:MODEL      a model behind OPENAI_API_KEY and OPENAI_BASE_URL
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # where the modules are that all benchmarks share

from machine import machine

import actbox

from .comparison import scripted, with_model
from .report import PAGE, RESULTS, Report, keep, show, write_page

RUNS = 20
_PROVIDER = "openai:"


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare as the command line says."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.codeact", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--model", default="", metavar="openai:MODEL", help="ask a real model")
    parser.add_argument("--runs", type=int, default=RUNS, metavar="N", help=f"runs of each side ({RUNS})")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FOLDER", help="where the JSON goes")
    given = parser.parse_args(arguments)
    if given.model and not given.model.removeprefix(_PROVIDER).strip():
        parser.error("--model names no model")
    if given.model and not given.model.startswith(_PROVIDER):
        parser.error(f"--model takes {_PROVIDER}MODEL, and {given.model!r} is none; OPENAI_BASE_URL says which server")
    if given.model and not os.environ.get("OPENAI_API_KEY"):
        parser.error("--model needs a key in OPENAI_API_KEY; for a server that wants none, anything")
    if given.runs < 1:
        parser.error("--runs is at least 1")
    found = actbox.check("linux")
    if not found.works:
        sys.exit(f"Programs run in the linux engine, which does not work here: {found.reason}. {found.advice}")
    about = machine()
    model = given.model.removeprefix(_PROVIDER)
    attempts = asyncio.run(with_model(model, given.runs) if model else scripted(given.runs))
    report = Report(given.model, about, attempts)
    show(report)
    name = "codeact-model.json" if model else "codeact.json"
    keep(report, given.results / name)
    print(f"kept in {given.results / name}")
    if not model and given.runs == RUNS and given.results == RESULTS:
        write_page(report)
        print(f"the table is in {PAGE}")


if __name__ == "__main__":
    main()
