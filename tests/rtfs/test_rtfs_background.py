"""What takes long is done beside the event loop, and nobody can tell where a program was evaluated."""

import asyncio

import pytest

from actbox.rtfs import Budget, BudgetExhausted, Interpreter, RtfsError, evaluate, evaluate_async
from actbox.rtfs.values import show

TIGHT = Budget(steps=20_000)


async def goes_round_during(evaluation, turns):
    """Return whether the event loop went round so often before the evaluation ended by itself; then end it."""
    task = asyncio.ensure_future(evaluation)
    while turns and not task.done():
        await asyncio.sleep(0)
        turns -= 1
    is_under_way = not task.done()
    task.cancel()
    await asyncio.wait([task])
    return is_under_way


@pytest.mark.slow
@pytest.mark.parametrize(
    "source",
    [
        "(let [v (range 0 200000) w (range 0 200000)] [(= v w) (= w v) (= v w) (= w v)])",
        "(count (sort (map (fn [x] (mod (* x 7919) 100003)) (range 0 200000))))",
        '(re-matches "(a|aa)+" "' + "a" * 80 + 'b")',
        "(count (distinct (map (fn [x] [x]) (range 0 600))))",
        pytest.param("[" + "(+ 1 2) " * 20_000 + "]", marks=pytest.mark.long),
        "(let [" + " ".join(f"x{i} (+ {i} 1)" for i in range(20_000)) + "] x7)",
        pytest.param("(match 5 " + " ".join(f"{i + 10} {i}" for i in range(20_000)) + " _ 0)", marks=pytest.mark.long),
        "`[" + "a ~(+ 1 2) " * 10_000 + "]",
        "\n" * 2_000_000 + "(",
        '"' + r"\n" * 2_000_000 + '" (defn f [n] (if (= n 0) 0 (f (- n 1)))) (f 9000)',
    ],
    ids=lambda source: source[:24],
)
async def test_the_event_loop_goes_round_meanwhile(source):
    assert await goes_round_during(evaluate_async(source), turns=20)


@pytest.mark.parametrize(
    "source",
    [
        "(+ 1 2)",
        "(do (def seen (try mark (catch e :none))) (def mark 1) (reduce + (range 0 9000)) seen)",
        "(def x 1) (def x (+ x 1)) (reduce + (range 0 9000)) x",
        "(try (twice 2) (catch e :none)) (defmacro twice [e] `(* 2 ~e)) (reduce + (range 0 9000)) (twice 3)",
        "[(try (twice 2) (catch e :none)) (reduce + (range 0 9000))] (defmacro twice [e] `(* 2 ~e))",
        "(module m (def y 3)) (import m :as k) (reduce + (range 0 9000)) k/y",
        "(undefined (reduce + (range 0 9000)))",
        "(defn f [n] (+ 1 (f n))) (f 1)",
        "(def fails (/ (count (range 0 90000)) 0))",
    ],
)
async def test_a_program_that_was_begun_at_once_and_takes_longer_ends_as_if_it_had_not(source):
    def told(interpreter, value):
        return show(value), sorted(interpreter.globals), interpreter._meter.steps_left

    ours, theirs = Interpreter(), Interpreter()
    try:
        expected = told(ours, ours.eval(source))
    except RtfsError as error:
        expected = str(error)
    try:
        found = told(theirs, await theirs.eval_async(source))
    except RtfsError as error:
        found = str(error)
    assert found == expected


async def test_calls_of_the_host_are_made_in_the_event_loop_and_once_each():
    loop = asyncio.get_running_loop()
    seen = []

    class Host:
        def call(self, name, arguments, meta):
            seen.append((name, asyncio.get_running_loop() is loop))
            return len(seen)

    source = "(call :a) (reduce + (range 0 9000)) (call :b) (reduce + (range 0 9000)) (+ (call :c) 10)"
    assert await evaluate_async(source, host=Host()) == 13
    assert seen == [("a", True), ("b", True), ("c", True)]


@pytest.mark.parametrize(
    "source",
    ["(+ 1 2) " * 30_000, "(defn f [] (f)) (f)", "(count (distinct (map (fn [x] [x]) (range 0 9000))))"],
    ids=lambda source: source[:16],
)
async def test_whoever_is_cancelled_can_go_on_at_once(source):
    interpreter = Interpreter(budget=Budget(steps=10**12))
    for turns in (1, 5, 50, 500):
        task = asyncio.create_task(interpreter.eval_async(source))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await interpreter.eval_async("(+ 1 2)") == 3


def limit(source, budget):
    with pytest.raises(BudgetExhausted) as caught:
        evaluate(source, budget=budget)
    return caught.value.limit


def test_source_of_too_many_forms_is_refused_before_it_is_compiled():
    assert limit("1 " * 10_000, Budget(forms=5_000)) == "forms"
    assert evaluate("1 " * 4_000, budget=Budget(forms=5_000)) == 1


@pytest.mark.slow
def test_compiling_is_paid_for_in_steps():
    assert limit("[" + "(+ 1 2) " * 100 + "]", Budget(steps=100)) == "steps"
    names = " ".join(f"x{i}" for i in range(100))
    nested = f"(fn [{names}] " + "(fn [a] " * 500 + f"[{names}]" + ")" * 501
    assert limit(nested, TIGHT) == "steps"
    blocks = "(let [a 1] " * 500 + f"[{'inc ' * 600}]" + ")" * 500
    assert limit(blocks, TIGHT) == "steps"


def test_many_bindings_of_one_let_are_not_searched_one_by_one():
    pairs = " ".join(f"x{i} (f x{i - 1})" for i in range(1, 1500))
    source = f"(defn f [n] (+ n 1)) (let [x0 0 {pairs}] x1499)"
    assert evaluate(source, budget=Budget(steps=30_000)) == 1499
    assert evaluate("(let [x 1 f (fn [] x) x 2 g (fn [] x)] [(f) (g) x])") == evaluate("[1 2 2]")


# Forks


def test_a_fork_knows_what_there_was_and_then_neither_sees_the_other():
    origin = Interpreter(bindings={"n": 1})
    origin.eval("(def x 1) (defn next-x [] (+ x n)) (defmacro twice [e] `(* 2 ~e)) (defstruct P :a :int)")
    copy = origin.fork()
    origin.eval("(def x 10) (defmacro twice [e] `(* 3 ~e)) (def new 1)")
    assert show(copy.eval("[(next-x) (twice 4) (P {:a 1})]")) == "[2 8 {:a 1}]"
    copy.eval("(def x 100)")
    assert (origin.eval("(next-x)"), copy.eval("(next-x)")) == (11, 101)
    with pytest.raises(RtfsError, match="nothing is called new"):
        copy.eval("new")
    assert copy.fork().eval("(next-x)") == 101


def test_a_fork_pays_for_the_functions_of_its_origin_itself():
    origin = Interpreter(budget=Budget(steps=50_000, value_bytes=100_000))
    origin.eval("(defn many [n] (map (fn [i] [i]) (range 0 n)))")
    copy = origin.fork()
    for interpreter in (copy, origin, copy):
        assert len(interpreter.eval("(many 500)")) == 500
        with pytest.raises(BudgetExhausted):
            interpreter.eval("(many 5000)")


@pytest.mark.slow
async def test_forks_run_at_once_and_take_turns():
    class Host:
        def __init__(self):
            self.both = asyncio.Barrier(2)

        async def _meet(self):
            await self.both.wait()
            return 1

        def call(self, name, arguments, meta):
            return self._meet()

    origin = Interpreter(host=Host())
    origin.eval("(def x 1) (defn go [n] (do (reduce + (range 0 n)) (+ x (call :meet))))")
    copy = origin.fork()
    copy.eval("(def x 2)")
    found = await asyncio.gather(*(one.eval_async("(go 20000) (go 20000)") for one in (origin, copy)))
    assert found == [2, 3]


async def test_an_interpreter_that_waits_for_a_host_call_is_not_forked():
    interpreter = Interpreter()
    caught = []

    class Host:
        def call(self, name, arguments, meta):
            try:
                interpreter.fork()
            except RtfsError as error:
                caught.append(error.message)

    interpreter._host_calls.host = Host()
    await interpreter.eval_async("(call :x)")
    assert caught == ["the interpreter waits for a host call; use another one"]
