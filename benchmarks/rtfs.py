"""What RTFS costs: to start, to read, a step, and a run through the contract; beside a plain tree walk."""

from __future__ import annotations

import time
from collections.abc import Callable

from effort import Effort
from figures import Row, Target, figure
from tree_walk import walk_program

import actbox
from actbox.rtfs.budget import Budget
from actbox.rtfs.evaluator import evaluate
from actbox.rtfs.reader import read

MILLION = 1_000_000
SUM = MILLION * (MILLION + 1) // 2
AMPLE = Budget(steps=10**9, wall_seconds=600, value_bytes=10**9, memory_bytes=10**10)
PROGRAMS = {
    "a counted loop": (f"(dotimes [i {MILLION}] (+ i 1))", None),
    "a function that calls itself last": (
        f"(defn go [n acc] (if (= n 0) acc (go (- n 1) (+ acc n)))) (go {MILLION} 0)",
        SUM,
    ),
    "a fold with a function": (f"(reduce (fn [a x] (+ a x)) 0 (range 0 {MILLION}))", SUM - MILLION),
}
TREE_WALK = "a plain tree walk"

_FORM = '(let [total (reduce + 0 [1 2.5 :key "text"])] {:name "an order" :total total}) ; a comment\n'


def sources(size: int) -> str:
    """Return a program of about so many bytes."""
    return _FORM * (size // len(_FORM))


def processor_seconds(action: Callable[[], object], repeats: int) -> list[float]:
    """Return the processor time of an action each time, in seconds, after one time that does not count."""
    taken = []
    for _ in range(repeats + 1):
        begun = time.process_time()
        action()
        taken.append(time.process_time() - begun)
    return taken[1:]


def check(value: object, expected: object) -> None:
    """Raise where a program did not come to what it should."""
    if value != expected:
        raise RuntimeError(f"a program came to {value!r}, not {expected!r}")


async def measure(effort: Effort) -> list[Row]:
    """Return the figures of the language itself, and of a run through the contract."""
    few = max(2, effort.repeats // 4)
    start = processor_seconds(lambda: check(evaluate("(+ 1 2)"), 3), effort.fast)
    loops = [_loop(name, source, value, few) for name, (source, value) in PROGRAMS.items()]
    text = sources(10**6)
    reading = processor_seconds(lambda: read(text), few)
    fresh = []
    async with actbox.open_sandbox("rtfs") as box:
        for _ in range(effort.fast + 5):
            begun = time.perf_counter()
            result = await box.run("(+ 1 2)")
            fresh.append(time.perf_counter() - begun)
            check(result.value, 3)
    return [
        Row("RTFS: start and `(+ 1 2)`, processor time", "µs", figure(s * 1e6 for s in start), Target(p50=50)),
        Row("RTFS: a fresh run of it through the contract", "µs", figure(s * 1e6 for s in fresh[5:]), Target(p50=200)),
        *loops,
        Row("RTFS: 1 MB read, processor time", "s", figure(reading), Target(p50=1)),
    ]


def _loop(name: str, source: str, value: object, repeats: int) -> Row:
    ours = processor_seconds(lambda: check(evaluate(source, budget=AMPLE), value), repeats)
    walked = processor_seconds(lambda: check(walk_program(source), value), repeats)
    label = f"RTFS: {name}, a million turns, processor time"
    return Row(label, "s", figure(ours), Target(p50=1.5), {TREE_WALK: figure(walked)})
