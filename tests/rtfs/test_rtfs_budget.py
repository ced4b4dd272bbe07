"""Budgets: what never ends, grows without end or is nested without end finishes in a named error."""

import asyncio

import pytest

from actbox.core.errors import InvalidValue
from actbox.rtfs.budget import Budget
from actbox.rtfs.errors import ReadError
from actbox.rtfs.evaluator import Interpreter, evaluate, evaluate_async
from actbox.rtfs.failures import BudgetExhausted, RtfsError

SMALL = Budget(steps=200_000, depth=2_000, value_bytes=1_000_000, memory_bytes=4_000_000)


def limit(source, budget=SMALL, **options):
    with pytest.raises(RtfsError) as caught:
        evaluate(source, budget=budget, **options)
    assert caught.value.name == "BudgetExhausted"
    return caught.value.limit


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("(defn f [] (f)) (f)", "steps"),
        ("(dotimes [i 1000000000] i)", "steps"),
        ("(defn f [] (try (/ 1 0) (catch e (f)))) (f)", "steps"),
        ("(reduce (fn [a x] (reduce + 0 (range 0 1000))) 0 (range 0 1000))", "steps"),
        ("(let [v (range 0 10000)] (defn f [n] (do (contains? v -1) (f n))) (f 1))", "steps"),
        ("(let [v (range 0 10000)] (defn f [n] (do (subvec v 1) (f n))) (f 1))", "steps"),
        ("(defn f [n] (+ 1 (f n))) (f 1)", "depth"),
        ("(defn f [n] (map f [1])) (f 1)", "depth"),
        ("(defn f [a x] (reduce f a [1 2])) (f 1 2)", "depth"),
        ("(defn f [] (try (f) (finally 1))) (f)", "depth"),
        ("(range 0 1000000000)", "value_bytes"),
        ("(numbers -9223372036854775808 9223372036854775807)", "value_bytes"),
        ('(reduce (fn [s i] (str s s)) "ab" (range 0 60))', "value_bytes"),
        ("(reduce (fn [s i] [s s]) [1] (range 0 60))", "value_bytes"),
        ("(reduce (fn [s i] {:a s :b s}) {} (range 0 60))", "value_bytes"),
        ("(reduce (fn [s i] (concat s s)) [1] (range 0 60))", "value_bytes"),
        ("(reduce (fn [s i] `(~s ~@[s s])) 1 (range 0 60))", "value_bytes"),
        ('(join (reduce (fn [a i] (str a a)) "ab" (range 0 12)) (range 0 1000))', "value_bytes"),
        ("(map (fn [i] (range 0 1000)) (range 0 1000))", "value_bytes"),
        ("(let [keep (fn [n fs] (if (= n 0) fs (let [v (range 0 20000)]"
         " (keep (- n 1) (conj fs (fn [] v))))))] (keep 1000 []))", "memory_bytes"),
        ("(defn f [n] (let [v (range 0 20000)] (+ (f n) (count v)))) (f 1)", "memory_bytes"),
        ("(defn f [n] (map (fn [i] (if (= i 29) (f n) (range 0 900))) (range 0 30))) (f 1)", "memory_bytes"),
        ("(defn f [n] (for [i (range 0 30)] (if (= i 29) (f n) (range 0 900)))) (f 1)", "memory_bytes"),
        ('(let [s (reduce (fn [t i] (str t t)) "ab" (range 0 15))]'
         " (defn f [n] (sort-by (fn [i] (if (= i 29) (f n) (str s i))) (range 0 30))) (f 1))", "memory_bytes"),
    ],
)  # fmt: skip
def test_each_budget_ends_what_would_not_end(source, name):
    assert limit(source) == name


def test_a_budget_ends_a_program_in_the_same_way_every_time():
    source = '(defn f [n s] (f (+ n 1) (conj s [n (str n "x")]))) (f 0 [])'
    found = set()
    for _ in range(3):
        interpreter = Interpreter(budget=Budget(steps=100_000, value_bytes=50_000))
        with pytest.raises(BudgetExhausted) as caught:
            interpreter.eval(source)
        found.add((str(caught.value), caught.value.limit, interpreter._meter.steps_left))
    assert len(found) == 1


def test_no_try_catches_an_exhausted_budget():
    assert limit("(try (dotimes [i 1000000000] i) (catch e 1) (finally (+ 1 1)))") == "steps"


def test_wall_time_ends_what_takes_long_within_one_function_of_the_library():
    budget = Budget(steps=10**12, wall_seconds=0.05)
    source = "(let [v (range 0 100000)] (defn f [n] (do (contains? v -1) (f n))) (f 1))"
    assert limit(source, budget) == "wall_seconds"


@pytest.mark.slow
def test_memory_that_is_let_go_can_be_used_again():
    source = "(defn f [n] (if (= n 0) :done (do (range 0 20000) (f (- n 1))))) (f 200)"
    budget = Budget(steps=10_000_000, value_bytes=1_000_000, memory_bytes=2_000_000)
    assert evaluate(source, budget=budget).name == "done"


@pytest.mark.slow
def test_tail_calls_need_no_depth():
    small = Budget(depth=3)
    for source in (
        "(defn f [n] (if (= n 0) :done (f (- n 1)))) (f 20000)",
        "(let [f (fn [n] (match n 0 :done _ (let [m (- n 1)] (do 1 (f m)))))] (f 20000))",
        "(defn f [n] (if (= n 0) :done (g n))) (defn g [n] (f (- n 1))) (f 20000)",
        "(defn f [n] (try (/ 1 0) (catch e (if (= n 0) :done (f (- n 1)))))) (f 2000)",
        "(defn f [n] (if (= n 0) :done (apply f [(- n 1)]))) (f 1)",
    ):
        assert evaluate(source, budget=small).name == "done"


@pytest.mark.slow
@pytest.mark.parametrize(
    "source",
    [
        "(+ 1 " * 5000 + "1" + ")" * 5000,
        "(if true " * 5000 + "1" + ")" * 5000,
        pytest.param("(let [x 1] " * 3000 + "x" + ")" * 3000, marks=pytest.mark.long),
        "(let [x " * 3000 + "1" + "] x)" * 3000,
        pytest.param("(do 1 " * 5000 + "1" + ")" * 5000, marks=pytest.mark.long),
        pytest.param("(match 1 _ " * 3000 + "1" + ")" * 3000, marks=pytest.mark.long),
        "(match 1 " + "[" * 5000 + "a" + "]" * 5000 + " 1 _ 2)",
        "(try " * 3000 + "1" + " (catch e 1) (finally 2))" * 3000,
        "(count " + "[" * 5000 + "1" + "]" * 5000 + ")",
        pytest.param("(count `" + "[" * 5000 + "1" + "]" * 5000 + ")", marks=pytest.mark.long),
        "(fn? " + "(fn [a] " * 3000 + "a" + ")" * 3000 + ")",
        pytest.param("(let [q 1] (fn? " + "(fn [a] " * 1000 + "q" + ")" * 1000 + "))", marks=pytest.mark.long),
        "(count (str (reduce (fn [a i] [a]) 1 (range 0 20000))))",
        "(let [f (fn [n] (reduce (fn [a i] {:a a}) 1 (range 0 n)))] (if (= (f 20000) (f 20000)) 1 2))",
        pytest.param("(count (serialize-json (reduce (fn [a i] [a]) 1 (range 0 20000))))", marks=pytest.mark.long),
        "(count (distinct (map (fn [n] (reduce (fn [a i] [a]) 1 (range 0 n))) [900 900])))",
        "(defmacro id [x] x) " + "(id " * 2000 + "1" + ")" * 2000,
    ],
)
def test_nesting_of_any_depth_uses_none_of_python_s_stack(source):
    def deep(left):
        return evaluate(source) if left == 0 else deep(left - 1)

    assert deep(600) is not None  # what is left of Python's stack is far less than the program's depth


@pytest.mark.slow
@pytest.mark.parametrize(
    "source",
    [
        "(defmacro d [x] `(+ ~x ~x)) " + "(d " * 60 + "1" + ")" * 60,
        "(defmacro d [x] `(d (d ~x))) (d 1)",
        "(defmacro d [x & r] `(d ~x ~x ~@r ~@r)) (d 1)",
        "(defmacro d [x] `[~x ~x]) " + "(d " * 40 + "1" + ")" * 40,
    ],
)
def test_macros_that_grow_without_end_are_stopped(source):
    assert limit(source, Budget()) == "steps"


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("(hash-map ##NaN 1)", "InvalidArgument"),
        ("(assoc {} [1] 2)", "TypeError"),
        ('(parse-json "' + "[" * 100_000 + '")', "InvalidArgument"),
        ('(parse-json "NaN")', "InvalidArgument"),
        (r'(parse-json "{\"a\": \"\\ud800\"}")', "InvalidArgument"),
        ("(serialize-json +)", "TypeError"),
        ("(serialize-json ##Inf)", "InvalidArgument"),
        ('(serialize-json {:a 1 "a" 2})', "InvalidArgument"),
        ('(re-find "(((((a{1000}){1000}){1000})))" "a")', "InvalidArgument"),
        ('(re-find "' + "(" * 5000 + '" "a")', "InvalidArgument"),
        ('(re-find "[" "a")', "InvalidArgument"),
        ('(re-find "(a(?R)?b)" "ab")', "InvalidArgument"),
        ('(re-find "(?:a){e<=20}b" "ab")', "InvalidArgument"),
        ('(re-find "(((a)))*" (reduce (fn [s i] (str s s)) "a" (range 0 20)))', "InvalidArgument"),
        ("(* 9223372036854775807 2)", "InvalidArgument"),
        ("(+ 9223372036854775807 1)", "InvalidArgument"),
        ("(- -9223372036854775808 1)", "InvalidArgument"),
        ("(- -9223372036854775808)", "InvalidArgument"),
        ("(inc 9223372036854775807)", "InvalidArgument"),
        ("(abs -9223372036854775808)", "InvalidArgument"),
        ("(/ -9223372036854775808 -1)", "InvalidArgument"),
        ("(pow 2 63)", "InvalidArgument"),
        ("(factorial 21)", "InvalidArgument"),
        ("(int 1.0e300)", "InvalidArgument"),
        ("(sqrt -1)", "InvalidArgument"),
        ("(mod 5 0)", "DivisionByZero"),
        ("(pow 0 -1)", "DivisionByZero"),
    ],
)
def test_bad_input_ends_in_a_named_error(source, name):
    with pytest.raises(RtfsError) as caught:
        evaluate(source)
    assert caught.value.name == name


@pytest.mark.parametrize(
    "pattern", ["a{3}", "[a{9}]{3}", "[0-9]{4}-[0-9]{2}", "{x", "(?:a{10}){10}", "[]a]{4}", "a{,5}"]
)
def test_patterns_that_are_written_every_day_are_taken(pattern):
    assert evaluate(f'(re-find "{pattern}" "aaaaaaaaa")') != 1


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*b", "(a*)*c", "(?:a?){30}a{30}"])
def test_a_regular_expression_that_explodes_is_bounded_in_time(pattern):
    budget = Budget(wall_seconds=0.2)
    try:
        assert evaluate(f'(re-matches "{pattern}" "{"a" * 5000}!")', budget=budget) is None
    except RtfsError as error:
        assert error.limit == "wall_seconds"


def test_a_budget_refuses_numbers_that_make_no_sense():
    for settings in ({"steps": 0}, {"depth": -1}, {"wall_seconds": float("nan")}, {"value_bytes": True}):
        with pytest.raises(InvalidValue):
            Budget(**settings)


async def test_an_evaluation_gives_way_to_the_event_loop_and_can_be_cancelled():
    for source in ("(defn f [] (f)) (f)", "(reduce + 0 (range 0 400000))"):
        task = asyncio.create_task(evaluate_async(source, budget=Budget(steps=10**12)))
        turns = 0
        while turns < 5:
            await asyncio.sleep(0)
            turns += 1
            assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


@pytest.mark.slow
async def test_the_async_form_gives_the_same_values_and_errors():
    for source in (
        "(reduce (fn [a i] (+ a i)) 0 (range 0 50000))",
        "(reduce + 0 (map inc (filter odd? (range 0 20000))))",
        "(defn f [n] (if (= n 0) 0 (+ 1 (f (- n 1))))) (f 5000)",
        "[" + "1 " * 5000 + "(+ 1 1)]",
        "(count [" + "(inc 1) " * 5000 + "])",
    ):
        assert await evaluate_async(source) == evaluate(source)
    with pytest.raises(BudgetExhausted) as caught:
        await evaluate_async("(defn f [] (f)) (f)", budget=SMALL)
    assert caught.value.limit == "steps"


def test_a_source_of_any_kind_is_read_or_refused():
    for source in (b"\xff\xfe(", "(+ 1 \0 2)", "(" * 100_000, "{:a 1 :a 2}", "(def x (+ 1"):
        with pytest.raises(ReadError):
            evaluate(source)
