"""What special forms and macros mean, where the reference's cases do not say it."""

import pytest

from actbox.rtfs.budget import Budget
from actbox.rtfs.errors import ReadError
from actbox.rtfs.evaluator import Interpreter, evaluate
from actbox.rtfs.failures import RtfsError
from actbox.rtfs.values import show


def shown(source, **options):
    return show(evaluate(source, **options))


def error(source, **options):
    with pytest.raises(RtfsError) as caught:
        evaluate(source, **options)
    return caught.value


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("", "nil"),
        ("1 2 3", "3"),
        ("(if nil 1)", "nil"),
        ("(if 0 1 2)", "1"),
        ("(do)", "nil"),
        ("(def x 4) (+ x 1)", "5"),
        ("(let [x 1 y (+ x 1)] [x y])", "[1 2]"),
        ("(let [[a & more] [1 2 3]] [a more])", "[1 [2 3]]"),
        ("((fn [a & more] more) 1 2 3)", "(2 3)"),
        ("(let [{:a x} {:a 1}] x)", "1"),
        ("(let [{x :a} {:a 1}] x)", "1"),
        ("(let [{:keys [a b] :as all & left} {:a 1 :c 3}] [a b all left])", "[1 nil {:a 1 :c 3} {:c 3}]"),
        ("(let [x :int y 2] [x y])", "[:int 2]"),
        ("(let [x :int 1 y :Int 2] [x y])", "[1 2]"),
        ("(let [f (fn [n] (if (= n 0) 0 (if false (f n) (g (- n 1))))) g (fn [n] (f n)) h (fn [h] (h 1))] (f 3))", "0"),
        ("(let [even (fn [n] (if (= n 0) true (odd (- n 1)))) odd (fn [n] (if (= n 0) false (even (- n 1))))]"
         " [(even 10) (odd 7) (even 3)])", "[true true false]"),
        ("(let [a (fn [] (b)) b (fn [] (c)) c (fn [] 3)] (a))", "3"),
        ("(let [f (defn f [n] (g n)) g (defn g [n] (inc n))] (f 1))", "2"),
        ("(defn g [] 1) (let [f (fn [] (g)) g (fn [] 2)] (f))", "2"),
        ("(defn g [] 1) (let [f (fn [] (g)) g 2] (f))", "1"),
        ("(let [x 1] (let [f (fn [x] x)] (f 2)))", "2"),
        ("((fn [] 7) 1 2 3)", "7"),
        ("(let [a 1] (let [f (fn [] a)] (let [a 2] (f))))", "1"),
        ("((((fn [a] (fn [b] (fn [c] [a b c]))) 1) 2) 3)", "[1 2 3]"),
        ("(let [x 1] (defn add [y] (+ x y)) (add 2))", "3"),
        ("(defn a [n] (if (= n 0) 1 (b (- n 1)))) (defn b [n] (if (= n 0) 2 (a (- n 1)))) (a 101)", "2"),
        ("(match 3 1 :one 2 :two _ :other)", ":other"),
        ("(match [1 [2 3]] [a [b & c]] [a b c])", "[1 2 [3]]"),
        ("(match {:a 1 :b 2} {:a 1} :exact {:a x & r} [x r])", "[1 {:b 2}]"),
        ('(match "x" "y" 1 "x" 2)', "2"),
        ("(match 1.0 1 :int 1.0 :float)", ":float"),
        ("(match 5 x when (> x 9) :big x :small)", ":small"),
        ("(try (/ 1 0) (catch e (.getMessage e)))", "1 is divided by zero"),
        ("(try 1 (catch e 2) (finally 3))", "1"),
        ("(try (try (/ 1 0) (finally (nothing))) (catch e (getMessage e)))", "nothing is called nothing"),
        ("(try (/ 1 0) (catch Wrong e [(getMessage Wrong) (getMessage e)]))", '["1 is divided by zero" "1 is'),
        ("(for [x [1 2] y [10 20]] (+ x y))", "[11 21 12 22]"),
        ("(for [[a b] [[1 2] [3 4]]] (* a b))", "[2 12]"),
        ("(map (fn [f] (f)) (for [x [1 2 3]] (fn [] x)))", "[1 2 3]"),
        ("(dotimes [i 3] i)", "nil"),
        ('(step "one" 1 2)', "2"),
        ("(step-if true 1 2)", "1"),
        ("(step-parallel 1 (+ 1 1))", "[1 2]"),
        ("(step-loop false 1)", "nil"),
        ("(:a {:a 1})", "1"),
        ("(:b {:a 1} 9)", "9"),
        ("(:b nil 9)", "9"),
        ("(map :a [{:a 1} {:a 2}])", "[1 2]"),
        ("(map #(+ % 1) [1 2])", "[2 3]"),
        ("@plan", "@plan"),
        ("`(a ~(+ 1 1) ~@[3 4] {:k [~5]})", "(a 2 3 4 {:k [5]})"),
        ("(defmacro unless [c x y] `(if ~c ~y ~x)) (unless false 1 2)", "1"),
        ("(defmacro all [& xs] `(vector ~@xs)) (all 1 2 3)", "[1 2 3]"),
        ("(defmacro twice [x] `(do ~x ~x)) (defmacro four [x] `(twice (twice ~x))) (four 1)", "1"),
        ("(defmacro swap [x] (let [y x] y)) (swap 4)", "4"),
        ("(module geo.area (:exports [square]) (defn square [x] (* x x)) (defn twice [x] (+ (square x) (square x))))"
         " (import geo.area :as g) [(g/square 3) (geo.area/twice 2)]", "[9 8]"),
        ("(module m (def one 1)) (import m :only [one]) one", "1"),
        ("(defstruct Point :x Int :y Int) (:x (Point {:x 1 :y 2}))", "1"),
        ("^{:note 1} (+ 1 2)", "3"),
        ("(and (or nil 2) 3)", "3"),
        ("(let [range (fn [n] n)] (range 7))", "7"),
        ("(def count 3) count", "3"),
        ("[(def a 1) a]", "[1 1]"),
        ("(+ 1 (let [x 2] (match x 2 10)) (try 100 (catch e 0)))", "111"),
        ("(vector (if true 1 2) ((fn [x] (if x 3 4)) nil) (let [x 5] x))", "[1 4 5]"),
        ("(let [f (fn [x : Int] : Int (+ x 1))] (f 1))", "2"),
    ],
)  # fmt: skip
def test_forms_mean_what_the_language_says(source, value):
    assert shown(source).startswith(value)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("(let [x (+ x 1)] x)", "TypeError"),
        ("(let [a (fn [] (b)) b 3] (a))", "UndefinedSymbol"),
        ("(let [x 1 f (fn [] (g)) g (fn [] x)] (f))", "UndefinedSymbol"),
        ("(length nil)", "TypeError"),
        ("(let [f (fn [] (f)) n 5] n)", "TypeError"),
        ("(let [[f] [(fn [] (f))] g (fn [] (g))] 1)", "TypeError"),
        ("(let [[a b] [1]] a)", "TypeError"),
        ("(let [[a b] [1 2 3]] a)", "TypeError"),
        ("(let [{:keys [a]} 5] a)", "TypeError"),
        ("((fn [a b] a) 1)", "ArityMismatch"),
        ("((fn [a & b] a))", "ArityMismatch"),
        ("(match 1 2 3)", "MatchError"),
        ("(match {:a 1} {:a 1 :b x} x)", "UndefinedSymbol|MatchError"),
        ("(1 2)", "NotCallable"),
        ("({:a 1} :a)", "NotCallable"),
        ("(:a 5)", "TypeError"),
        ("(step-loop true 1)", "Generic"),
        ('(let [x : Int "no"] x)', "TypeValidationError"),
        ('(defn f [x : Int] x) (f "no")', "TypeValidationError"),
        ('(defn f [x] : Int "no") (f 1)', "TypeValidationError"),
        ("(let [[a] (fn [] 1)] a)", "TypeError"),
        ("(defstruct Point :x Int) (Point {:x :no})", "TypeValidationError"),
        ("(dotimes [i 1.5] i)", "TypeError"),
        ("(call 5)", "TypeError"),
        ("(call :anything)", "SecurityViolation"),
        ("(defmacro m [a b] `(+ ~a ~b)) (m 1)", "ArityMismatch"),
        ("(let [a 1] (def b 2)) b", "UndefinedSymbol"),
        ("(resolve)", "UndefinedSymbol"),
    ],
)
def test_what_goes_wrong_has_its_name(source, name):
    assert error(source).name in name.split("|")


@pytest.mark.parametrize(
    "source",
    [
        "(if)", "(if 1 2 3 4)", "(let [x] x)", "(let 5 x)", "(let [x 1])", "(fn x)", "(fn [x])", "(fn [& ] 1)",
        "(def 5 1)", "(defn f)", "(match)", "(match 1 2)", "(match 1 (a) 2)", "(dotimes 5 1)", "(for [] 1)",
        "(try 1 (finally 2) 3)", "(try 1 (catch e))", "~x", "{a 1}", "(let [{:a 5} {}] 1)", "(step 1)",
        "(defmacro m)", "(fn [x : NoSuchType] x)", "(import 5)", "(let [[a & b c] []] 1)", "(call)",
    ],
)  # fmt: skip
def test_a_malformed_special_form_is_no_program_and_says_where_and_what_would_be_one(source):
    with pytest.raises(ReadError) as caught:
        evaluate(f"(+ 1 2)\n{source}")
    assert caught.value.line == 2
    assert caught.value.expected
    assert "^" in caught.value.excerpt


def test_nothing_runs_of_a_program_whose_last_form_is_malformed():
    interpreter = Interpreter()
    with pytest.raises(ReadError):
        interpreter.eval("(def seen 1) (if)")
    assert "seen" not in interpreter.globals


@pytest.mark.parametrize("name", ["cond", "loop", "->", "throw", "println", "atom", "list", "when"])
def test_what_other_lisps_have_is_refused_with_what_to_write_instead(name):
    failed = error(f"({name} 1 2)")
    assert failed.name == "UndefinedSymbol"
    assert f"{name} is" in failed.hint
    assert failed.hint in str(failed)


def test_a_name_that_is_nearly_right_is_answered_with_the_right_one():
    assert error("(strng-upper 1)").hint == "did you mean string-upper?"
    assert error("(def total 1) (+ totl 1)").hint == "did you mean total?"


def test_errors_say_where_in_the_source_they_happened():
    failed = error("(+ 1 2)\n(let [a 1]\n  (+ a (/ a 0)))")
    assert (failed.line, failed.column) == (3, 8)
    assert str(failed).startswith("line 3, column 8: DivisionByZero")


def test_arguments_are_evaluated_in_order_whatever_they_are_compiled_to():
    seen = []

    class Recording:
        def call(self, name, arguments, meta):
            seen.append(name)

    failed = error("(vector (call :a) (/ 1 0) (call :b))", host=Recording())
    assert failed.name == "DivisionByZero"
    assert seen == ["a"]
    seen.clear()
    assert error("(missing (call :a))", host=Recording()).name == "UndefinedSymbol"
    assert seen == []


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("(cond false 1 nil 2)", "nil"),
        ("(cond false 1 :else 2)", "2"),
        ("(when true 1 2)", "2"),
        ("(when false 1)", "nil"),
        ("(-> 5 (- 3) inc)", "3"),
        ("(->> [1 2 3] (map inc) (reduce + 0))", "9"),
        ("(and false (/ 1 0))", "false"),
        ("(or 1 (/ 1 0))", "1"),
        ("(and)", "true"),
        ("(loop [i 0 acc []] (if (< i 3) (recur (inc i) (conj acc i)) acc))", "[0 1 2]"),
        ("(loop [i 0] (if (< i 2) (recur (+ i 1)) (loop [j i] (if (< j 9) (recur (+ j 1)) j))))", "9"),
        ("((fn [n] (if (> n 0) (recur (- n 1)) :done)) 1000)", ":done"),
        ("(defn down [n] (if (> n 0) (recur (- n 1)) n)) (down 1000)", "0"),
        ("(quote (a [b] {:c d}))", "(a [b] {:c d})"),
        ('(try (throw "no") (catch e (.getMessage e)))', "no"),
        ("(let [[a b] [1]] [a b])", "[1 nil]"),
        ("(let [[a] [1 2]] a)", "1"),
        ("(let [{:keys [a]} nil] a)", "nil"),
    ],
)
def test_lenient_mode_has_what_the_documents_have(source, value):
    assert shown(source, lenient=True) == value
    with pytest.raises((RtfsError, ReadError, AssertionError)):
        assert shown(source) == value and "(and)" not in source


def test_an_interpreter_keeps_definitions_and_macros():
    interpreter = Interpreter(bindings={"n": 2})
    interpreter.eval("(defn double [x] (* x n)) (defmacro plus [a] `(+ ~a 1))")
    assert interpreter.eval("(plus (double 5))") == 11
    with pytest.raises(RtfsError):
        interpreter.eval("(/ 1 0)")
    assert interpreter.eval("(double 1)") == 2


def test_bindings_are_read_by_keyword_and_by_string():
    inputs = {"values": [1, 2, 3], "name": {"first": "Ada"}}
    assert evaluate("(reduce + 0 (get-in inputs [:values]))", bindings={"inputs": inputs}) == 6
    assert evaluate('(get-in inputs ["name" :first])', bindings={"inputs": inputs}) == "Ada"
    assert evaluate("(let [{:keys [values]} inputs] (count values))", bindings={"inputs": inputs}) == 3
    assert evaluate("(:values (assoc inputs :more 1))", bindings={"inputs": inputs}).items == (1, 2, 3)


@pytest.mark.parametrize(
    "source",
    [
        '(defn ^{:doc "x"} f [x] x) (f 1)',
        "(defn ^:delegation f [x] x) (f 1)",
        "(defn ^:delegation :local f [x] x) (f 1)",
        '(defn ^:delegation :remote "model" f [x] x) (f 1)',
        '((fn ^:delegation :local-model "m" [x] x) 1)',
        "((fn ^{:a 1} ^{:b 2} [x] x) 1)",
        "(def ^{:a 1} x 1)",
        "(let [[a & r :as all] [1 2]] (- (count all) (count r)))",
        "(let [[a b :as all] [1 0]] (+ a b (nth all 1)))",
        "((fn [[a :as all]] (first all)) [1])",
    ],
)
def test_metadata_before_names_and_whole_values_beside_their_parts(source):
    assert evaluate(source) == 1


def test_in_lenient_mode_only_a_function_can_mean_itself_by_its_name():
    assert evaluate("(let [x 1 x (+ x 1)] x)", lenient=True) == 2
    assert evaluate("(let [f (fn [n] (if (= n 0) 7 (f (- n 1))))] (f 3))", lenient=True) == 7
    with pytest.raises(RtfsError, match="TypeError"):
        evaluate("(let [x 1 x (+ x 1)] x)")


def test_a_wrong_type_says_what_is_wrong_by_its_name():
    with pytest.raises(ReadError, match=r"UnknownPredicate: `:big` is no predicate"):
        evaluate("(fn [x : [:and :int [:big 1]]] x)")
    with pytest.raises(ReadError, match="InvalidRegexPattern: "):
        evaluate('(fn [x : [:and :string [:matches-regex "("]]] x)')


def test_what_is_easily_mistaken_is_mended_in_the_message():
    assert error("(map [1 2] inc)").hint == "the function comes before the sequence"
    assert error("(call rate 1)").hint == "the name of what is called is a keyword: (call :rate …)"
    assert error("(sum [1 2])").hint.startswith("sum is not in RTFS; use (reduce")
    assert "(.getMessage error)" in error("(try (/ 1 0) (catch e (:message e)))").message


@pytest.mark.slow
def test_a_name_that_is_nearly_one_of_many_is_found_without_comparing_all():
    names = "\n".join(f"(def {'n' * 30}{i} 1)" for i in range(3000))
    assert error(f"{names}\n(strng-upper 1)").hint == "did you mean string-upper?"


@pytest.mark.slow
def test_to_look_for_names_of_a_large_let_is_paid_for():
    names = [f"f{number}" for number in range(2_000)]
    source = f"(let [{' '.join(f'{name} (fn [] 1)' for name in names)}] 1)"
    with pytest.raises(RtfsError, match="BudgetExhausted"):
        evaluate(source, budget=Budget(steps=500_000))
