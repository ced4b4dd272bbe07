"""The functions that every program has."""

import pytest

from actbox.rtfs.evaluator import evaluate
from actbox.rtfs.failures import RtfsError
from actbox.rtfs.library import LIBRARY
from actbox.rtfs.values import show

PROMISED = """
+ - * / max min inc dec factorial abs sqrt mod pow even? odd? = not= != > < >= <= and or not
str string-length substring string-contains starts-with? split join string-join string-upper string-lower string-trim
re-matches re-find re-seq parse-int parse-float int float map filter apply reduce every? some? map-indexed group-by
remove update get get-in find assoc dissoc conj cons concat merge contains? count length empty? first rest last nth
take drop reverse distinct sort subvec partition range numbers vector hash-map keys vals int? float? number? string?
string-p bool? nil? map? vector? list? keyword? symbol? fn? type-name parse-json serialize-json serialize-json-pretty
getMessage Exception sort-by frequencies zero? pos? neg? upper lower trim
"""


def test_every_promised_function_is_there_with_a_signature_and_a_sentence():
    for name in PROMISED.split():
        function = LIBRARY[name]
        assert function.name == name
        assert function.signature.startswith(f"({name}")
        assert function.doc.endswith(".") or function.doc.endswith("…")


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("(- 5)", "-5"), ("(- 10 5 2)", "3"), ("(* 2 3.5)", "7"), ("(type-name (* 2 3.5))", "float"),
        ("(/ 6 2)", "3"), ("(type-name (/ 6.0 2))", "integer"), ("(/ 1 4)", "0.25"), ("(/ 4)", "0.25"),
        ("(- 9223372036854775807 1)", "9223372036854775806"),
        ("(max 1 2.5)", "2.5"), ("(min 3)", "3"), ("(abs -2.5)", "2.5"), ("(sqrt 16)", "4"), ("(mod -7 3)", "2"),
        ("(pow 2 10)", "1024"), ("(pow 2 -1)", "0.5"), ("(pow -1 9223372036854775807)", "-1"), ("(even? -2)", "true"),
        ("(odd? -1)", "true"), ("(zero? 0.0)", "true"), ("(pos? 0)", "false"), ("(neg? -1)", "true"),
        ("(= 1 1 1)", "true"), ("(= 1)", "true"), ("(= [1 {:a 2}] [1 {:a 2}])", "true"), ("(= [1] `(1))", "false"),
        ("(= {:a 1 :b 2} {:b 2 :a 1})", "true"), ("(= ##NaN ##NaN)", "false"), ("(= 1 true)", "false"),
        ("(= :a :a)", "true"), ("(= \"a\" :a)", "false"), ("(not= 1 1.0)", "true"),
        ("(and)", "true"), ("(or nil false)", "false"), ("(or false nil)", "nil"), ("(and 1 nil 2)", "nil"),
        ("(< \"a\" \"b\")", "true"), ("(>= 2 2.0)", "true"),
        ("(str 4.0 nil :k true)", "4nil:ktrue"), ("(str [1.5 \"a\" {:b nil}])", "[1.5 \"a\" {:b nil}]"),
        ("(str 1.0e21)", "1000000000000000000000"), ("(str ##-Inf)", "-inf"),
        ("(string-length \"äb\")", "2"), ("(length \"äb\")", "3"), ("(count \"äb\")", "2"),
        ("(substring \"hello\" 1)", "ello"), ("(split \"a,b,,c\" \",\")", "[\"a\" \"b\" \"\" \"c\"]"),
        ("(split \"ab\" \"\")", "[\"a\" \"b\"]"), ("(join \"-\" [1 :a nil])", "1-:a-nil"),
        ("(upper \"ab\")", "AB"), ("(string-trim \"  a \")", "a"), ("(starts-with? \"abc\" \"ab\")", "true"),
        ("(re-matches \"a+\" \"aaa\")", "aaa"), ("(re-matches \"a\" \"aaa\")", "nil"),
        ("(re-matches \"(a)(b)\" \"ab\")", "[\"ab\" \"a\" \"b\"]"), ("(re-find \"[0-9]+\" \"a12b\")", "12"),
        ("(re-seq \"[0-9]\" \"1a2\")", "[\"1\" \"2\"]"), ("(re-find \"x\" \"a\")", "nil"),
        ("(parse-int \"12x\")", "nil"), ("(parse-int \"99999999999999999999\")", "nil"), ("(parse-int \"-7\")", "-7"),
        ("(parse-float \"1e3\")", "1000"), ("(parse-float \"1_0\")", "nil"), ("(int true)", "1"), ("(int nil)", "0"),
        ("(float \"x\")", "0"), ("(map + [1 2] [10 20])", "[11 22]"), ("(map-indexed vector [:a])", "[[0 :a]]"),
        ("(apply + 1 [2 3])", "6"), ("(apply max [4 9])", "9"), ("(reduce + [1 2 3])", "6"),
        ("(every? odd? [1 3])", "true"), ("(some? even? [1 3])", "false"), ("(remove odd? [1 2 3])", "[2]"),
        ("(filter :ok [{:ok true} {}])", "[{:ok true}]"), ("(group-by odd? [1 2 3])", "{true [1 3] false [2]}"),
        ("(update {:a 1} :a + 5)", "{:a 6}"), ("(update [1 2] 0 inc)", "[2 2]"), ("(update {} :a nil?)", "{:a true}"),
        ("(get [1 2] 5 :none)", ":none"), ("(get {:a nil} :a 1)", "nil"), ("(get-in {:a [1 {:b 2}]} [:a 1 :b])", "2"),
        ("(get-in {:a 1} [:a :b] 0)", "0"), ("(get-in nil [:a])", "nil"), ("(find {:a 1} :a)", "[:a 1]"),
        ("(assoc {:a 1} :b 2 :a 3)", "{:a 3 :b 2}"), ("(assoc [1] 1 2)", "[1 2]"), ("(dissoc {:a 1} :b)", "{:a 1}"),
        ("(conj [1] 2 3)", "[1 2 3]"), ("(cons 0 [1])", "[0 1]"), ("(concat [1] `(2) \"ab\")", "[1 2 \"a\" \"b\"]"),
        ("(merge {:a 1} nil {:a 2 :b 3})", "{:a 2 :b 3}"), ("(contains? {:a nil} :a)", "true"),
        ("(contains? [1 2] 2)", "true"), ("(count nil)", "0"), ("(first [])", "nil"), ("(rest [])", "[]"),
        ("(last [1 2])", "2"), ("(nth [1 2] 1)", "2"), ("(nth [1] 5 :none)", ":none"), ("(take 2 [1 2 3])", "[1 2]"),
        ("(drop 5 [1])", "[]"), ("(take -1 [1])", "[]"), ("(reverse [1 2])", "[2 1]"), ("(reverse \"ab\")", "ba"),
        ("(distinct [1 1.0 true 1 [1] [1] :a :a])", "[1 1 true [1] :a]"), ("(sort [3 1.5 2])", "[1.5 2 3]"),
        ("(sort-by count [\"bbb\" \"a\" \"cc\"])", "[\"a\" \"cc\" \"bbb\"]"),
        ("(frequencies [:a :b :a])", "{:a 2 :b 1}"),
        ("(subvec [1 2 3] 1 2)", "[2]"), ("(partition 2 [1 2 3])", "[[1 2] [3]]"), ("(range 3 0)", "[]"),
        ("(range 3)", "[0 1 2]"), ("(range 0 10 4)", "[0 4 8]"), ("(numbers 1 3)", "[1 2 3]"),
        ("(hash-map :a 1)", "{:a 1}"), ("(keys {:a 1 \"b\" 2})", "[:a \"b\"]"), ("(vals {:a 1})", "[1]"),
        ("(hash-map 1 :int 1.0 :float true :bool)", "{1 :int 1 :float true :bool}"),
        ("(list? ((fn [& r] r) 1))", "true"), ("(symbol? (first `(a)))", "true"), ("(type-name +)", "function"),
        ("(type-name ((fn [& r] r)))", "list"), ("(type-name 1)", "integer"), ("(type-name :a)", "keyword"),
        ("(parse-json \"{\\\"a\\\": [1, 2.5, null]}\")", "{\"a\" [1 2.5 nil]}"),
        ("(serialize-json {:a [1 nil \"x\"] \"b\" 2.0})", "{\"a\":[1,null,\"x\"],\"b\":2.0}"),
        ("(serialize-json-pretty {:a [1] :b {}})", "{\n  \"a\": [\n    1\n  ],\n  \"b\": {}\n}"),
        ("(tool/parse-json \"1\")", "1"), ("(getMessage (Exception \"no\"))", "no"), ("(tool.log 1)", "nil"),
    ],
)  # fmt: skip
def test_a_function_gives_what_the_language_says(source, value):
    assert show(evaluate(source)) == value


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("(even? 1.0)", "TypeError"), ("(+ 1 nil)", "TypeError"), ("(inc)", "ArityMismatch"),
        ("(> 1 2 3)", "ArityMismatch"),
        ("(get nil :a)", "TypeError"), ("(nth [1] 5)", "IndexOutOfBounds"), ("(nth [1] -1)", "IndexOutOfBounds"),
        ("(substring \"abc\" 2 9)", "IndexOutOfBounds"), ("(subvec [1] 1 5)", "IndexOutOfBounds"),
        ("(assoc [1] 5 1)", "IndexOutOfBounds"), ("(update [1] 5 inc)", "IndexOutOfBounds"),
        ("(conj `(1) 2)", "TypeError"), ("(cons 1 `(2))", "TypeError"), ("(map inc 5)", "TypeError"),
        ("(map 5 [1])", "NotCallable"), ("(reduce + [])", "InvalidArgument"), ("(sort [1 \"a\"])", "TypeError"),
        ("(sort [[1]])", "TypeError"), ("(partition 0 [1])", "InvalidArgument"), ("(keys [1])", "TypeError"),
        ("(hash-map :a)", "ArityMismatch"), ("(range 0 1 0)", "InvalidArgument"), ("(upper 1)", "TypeError"),
        ("(parse-json \"{\")", "InvalidArgument"), ("(getMessage 1)", "TypeError"), ("(update {} :a)", "ArityMismatch"),
    ],
)  # fmt: skip
def test_a_function_refuses_what_it_cannot_do(source, name):
    with pytest.raises(RtfsError) as caught:
        evaluate(source)
    assert caught.value.name == name


@pytest.mark.slow
def test_a_long_sort_is_stable_and_in_order():
    count = 70_001
    data = [[n * 7919 % 1009, n] for n in range(count)]
    found = evaluate("(sort-by (fn [pair] (first pair)) data)", bindings={"data": data})
    assert [list(pair.items) for pair in found.items] == sorted(data, key=lambda pair: pair[0])
    assert evaluate("(sort [])").items == ()


def test_characters_beyond_16_bits_come_from_json_in_pairs():
    assert evaluate(r'(parse-json "[\"\\ud83d\\ude00\", \"\\\\ud800\"]")').items == ("\U0001f600", r"\ud800")
