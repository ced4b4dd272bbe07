"""`python -m benchmarks.codegen`: solve all exercises, print the tables, and keep every record as JSON.

python -m benchmarks.codegen                             scripted, in some seconds
python -m benchmarks.codegen --only data --seed 7        one group, or part of a name, with other data
python -m benchmarks.codegen --model openai:MODEL        a model that `CodeAgent` takes; --base-url names its server
python -m benchmarks.codegen --mbpp mbpp.jsonl --model … a public set in place of the project's own exercises
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the modules that all benchmarks share

from machine import machine

import actbox
from actbox.capabilities import Prices
from actbox.codeact.named_model import named_model
from actbox.core.errors import ActboxError

from .exercise import Exercise
from .exercises import EXERCISES
from .m3tooleval import m3_tool_eval
from .public_sets import big_code_bench, human_eval, mbpp
from .record import Record
from .report import Report, keep, show
from .solving import ATTEMPTS, solve, solve_scripted

RESULTS = Path(__file__).parents[1] / "results"
_SETS = {"humaneval": human_eval, "mbpp": mbpp, "bigcodebench": big_code_bench}


def main(arguments: Sequence[str] | None = None) -> None:
    """Evaluate as the command line says."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.codegen", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--model", default="", metavar="PROVIDER:MODEL", help="ask a real model")
    parser.add_argument("--base-url", metavar="URL", help="the model's server")
    parser.add_argument("--prices", type=Path, metavar="TOML", help="prices of models, as Prices.load reads them")
    parser.add_argument("--attempts", type=int, default=ATTEMPTS, metavar="N", help=f"programs in all ({ATTEMPTS})")
    parser.add_argument("--at-once", type=int, default=1, metavar="N", help="exercises at once (1)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="the seed of the data (0)")
    parser.add_argument("--only", default="", metavar="TEXT", help="exercises with this in their group or name")
    parser.add_argument("--most", type=int, metavar="N", help="only the first exercises")
    parser.add_argument("--engine", default="auto", metavar="NAME", help="where programs run (auto)")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FOLDER", help="where the JSON goes")
    for name in _SETS:
        parser.add_argument(f"--{name}", type=Path, metavar="FILE", help="solve this public set")
    parser.add_argument("--m3tooleval", type=Path, metavar="FOLDER", help="solve this public set")
    given = parser.parse_args(arguments)
    if min(given.attempts, given.at_once, 1 if given.most is None else given.most) < 1:
        parser.error("--attempts, --at-once and --most are at least 1")
    if given.m3tooleval and not given.model:
        parser.error("M3ToolEval has no programs to be scripted: give --model")
    try:
        report = asyncio.run(_evaluate(given))
    except ActboxError as error:
        sys.exit(str(error))
    show(report)
    is_part = given.only or given.most or given.m3tooleval or any(getattr(given, name) for name in _SETS)
    path = given.results / f"codegen{'-model' if given.model else ''}{'-part' if is_part else ''}.json"
    keep(report, path)
    print(f"kept in {path}")


async def _evaluate(given: argparse.Namespace) -> Report:
    about = machine()
    price = Prices.load(given.prices).models.get(given.model) if given.prices else None
    async with AsyncExitStack() as stack:
        box = await stack.enter_async_context(actbox.open_sandbox(given.engine))
        exercises = [
            exercise for name, read in _SETS.items() if (path := getattr(given, name)) for exercise in read(path)
        ]
        if given.m3tooleval:
            exercises += await stack.enter_async_context(m3_tool_eval(given.m3tooleval, box))
        chosen = [one for one in exercises or EXERCISES if given.only.lower() in f"{one.group} {one.name}".lower()]
        if not chosen:
            raise ActboxError(f"no exercise has {given.only!r} in its name")
        if given.model:
            model = await stack.enter_async_context(named_model(given.model, base_url=given.base_url))

            async def record(exercise: Exercise) -> Record:
                return await solve(exercise, model, box, seed=given.seed, attempts=given.attempts)
        else:

            async def record(exercise: Exercise) -> Record:
                return await solve_scripted(exercise, box, seed=given.seed)

        records = await _all(chosen[: given.most], record, given.at_once)
    return Report(given.model, about, given.seed, records, price)


async def _all(
    exercises: Sequence[Exercise], record: Callable[[Exercise], Awaitable[Record]], at_once: int
) -> list[Record]:
    """Return the records of all exercises, in their order; on a terminal, a line says how many are done."""
    turn, done = asyncio.Semaphore(at_once), 0

    async def one(exercise: Exercise) -> Record:
        nonlocal done
        async with turn:
            found = await record(exercise)
        done += 1
        if sys.stderr.isatty():
            end = "\n" if done == len(exercises) else ""
            print(f"\r{done} of {len(exercises)}", end=end, file=sys.stderr, flush=True)
        return found

    return await asyncio.gather(*map(one, exercises))


if __name__ == "__main__":
    main()
