"""How fast RTFS is: start, a million turns of a loop, and beside them the simplest interpreter, a tree walk.

Run it as `python -m benchmarks.rtfs`. Each figure is the best of five. The tree walk is what one writes in an hour: it
calls itself for every part of a form, counts nothing, bounds nothing, and ends where Python's stack does.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Callable
from typing import Any

from actbox.rtfs import Budget, evaluate
from actbox.rtfs.reader import read
from actbox.rtfs.syntax import Form, ListForm, Literal, Symbol, VectorForm

MILLION = 1_000_000
AMPLE = Budget(steps=10**9, wall_seconds=600, value_bytes=10**9, memory_bytes=10**10)
PROGRAMS = {
    "a counted loop": f"(dotimes [i {MILLION}] (+ i 1))",
    "a function that calls itself last": f"(defn go [n acc] (if (= n 0) acc (go (- n 1) (+ acc n)))) (go {MILLION} 0)",
    "a fold with a function": f"(reduce (fn [a x] (+ a x)) 0 (range 0 {MILLION}))",
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "=": operator.eq,
    "range": range,
    "reduce": lambda f, start, xs: _fold(f, start, xs),
}


def _fold(function: Callable[..., Any], start: Any, xs: Any) -> Any:
    for x in xs:
        start = function(start, x)
    return start


def walk(form: Form, names: dict[str, Any]) -> Any:
    """Evaluate as a tree walk does; a tail call in `go` becomes a loop, or Python's stack would end it."""
    if isinstance(form, Literal):
        return form.value
    if isinstance(form, Symbol):
        return names[form.name]
    assert isinstance(form, ListForm)
    head = form.items[0].name if isinstance(form.items[0], Symbol) else ""
    if head == "if":
        return walk(form.items[2 if walk(form.items[1], names) else 3], names)
    if head == "dotimes":
        assert isinstance(form.items[1], VectorForm)
        name, count = form.items[1].items
        assert isinstance(name, Symbol)
        for i in range(walk(count, names)):
            walk(form.items[2], {**names, name.name: i})
        return None
    if head in ("fn", "defn"):
        *_, parameters, body = form.items
        assert isinstance(parameters, VectorForm)
        wanted = [part.name for part in parameters.items if isinstance(part, Symbol)]

        def function(*given: Any) -> Any:
            inner = dict(zip(wanted, given, strict=True))
            while True:
                part = body
                scope = {**names, **inner}
                while isinstance(part, ListForm) and part.items[0] == Symbol("if"):
                    part = part.items[2 if walk(part.items[1], scope) else 3]
                if not (isinstance(part, ListForm) and part.items[0] == form.items[1]):
                    return walk(part, scope)
                inner = dict(zip(wanted, [walk(item, scope) for item in part.items[1:]], strict=True))

        if head == "defn" and isinstance(form.items[1], Symbol):
            names[form.items[1].name] = function
        return function
    callee, *given = [walk(item, names) for item in form.items]
    return callee(*given)


def best(action: Callable[[], object], times: int = 5) -> float:
    """Return the shortest of some runs, in seconds."""
    found = float("inf")
    for _ in range(times):
        started = time.perf_counter()
        action()
        found = min(found, time.perf_counter() - started)
    return found


def main() -> None:
    """Print the figures."""

    def thousand() -> None:
        for _ in range(1000):
            evaluate("(+ 1 2)")

    print(f"start and (+ 1 2): {best(thousand) * 1000:.0f} µs")
    for name, source in PROGRAMS.items():
        forms = read(source)

        def walked(forms: tuple[Form, ...] = forms) -> None:
            names = dict(_FUNCTIONS)
            for form in forms:
                walk(form, names)

        def ours(source: str = source) -> None:
            evaluate(source, budget=AMPLE)

        print(f"{name}, {MILLION} turns: {best(ours):.2f} s (tree walk {best(walked, 2):.2f} s)")


if __name__ == "__main__":
    main()
