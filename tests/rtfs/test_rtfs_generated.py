"""Any program ends within its budget with a value or an error of the language, and with nothing else."""

import asyncio
import string

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from actbox.rtfs.budget import Budget
from actbox.rtfs.conversion import from_json, json_text, parse_json_text, to_json
from actbox.rtfs.errors import ReadError
from actbox.rtfs.evaluator import evaluate, evaluate_async
from actbox.rtfs.failures import RtfsError
from actbox.rtfs.library import LENIENT, LIBRARY
from actbox.rtfs.special import SPECIAL_FORMS
from actbox.rtfs.values import equal, show, size_of

BUDGET = Budget(steps=20_000, depth=300, wall_seconds=20, value_bytes=200_000, memory_bytes=1_000_000)

PRELUDE = "(def a 3) (def b [1 2]) (defn f [a & b] a) (def xs [[1 :k] {:k 2}]) (def m {:k b :j 1.5})\n"
NAMES = st.sampled_from(["a", "b", "f", "xs", "m"])
HEADS = st.sampled_from([*LIBRARY, *LENIENT, *SPECIAL_FORMS, "catch", "finally", "a", "f", ":k", "missing"])
ATOMS = st.one_of(
    NAMES,
    st.integers(-(2**63), 2**63 - 1).map(str),
    st.integers(-3, 9).map(str),
    st.floats(allow_nan=False, allow_infinity=False, width=32).map(lambda x: format(x, ".6f")),
    st.sampled_from(["nil", "true", "false", "##NaN", "##Inf", ":k", ":int", '"a b"', '""', "+", "&", "_", "[]", "{}"]),
    st.text(string.ascii_letters + ' é\\"', max_size=6).map(
        lambda text: '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    ),
    st.sampled_from(["(range 0 5)", "#(+ % 1)", "(fn [a] a)", "(fn [a b] b)", "@x", "`(a ~b)", "2024-01-01T00:00:00Z"]),
)


def combined(parts):
    several = st.lists(parts, max_size=4).map(" ".join)
    return st.one_of(
        st.builds("({} {})".format, HEADS, several),
        st.builds("({} {} {})".format, HEADS, parts, parts),
        several.map("[{}]".format),
        st.builds("{{:k {} :j {}}}".format, parts, parts),
        st.builds("(let [{} {} {} {}] {})".format, NAMES, parts, NAMES, parts, several.map(lambda text: text or "1")),
        st.builds("(let [[a & b] {} {{:keys [m] :as xs}} {}] {})".format, parts, parts, parts),
        st.builds("(defn f [a] {}) {}".format, parts, parts),
        st.builds("(do (defn f [a & b] {}) {})".format, parts, parts),
        st.builds("((fn [a] {}) {})".format, parts, parts),
        st.builds("(match {} [a & b] {} {{:k a}} {} a when {} {} _ {})".format, *[parts] * 6),
        st.builds("(try {} (catch a {}) (finally {}))".format, parts, parts, parts),
        st.builds("(for [a {} b {}] {})".format, parts, parts, parts),
        st.builds("(dotimes [a {}] {})".format, parts, parts),
        st.builds("(loop [a {} b {}] (recur {} b))".format, parts, parts, parts),
        st.builds("(do (defmacro m [a & b] `({} ~a ~@b)) (m {} {}))".format, HEADS, parts, parts),
        st.builds("(reduce (fn [a b] {}) {} {})".format, parts, parts, parts),
        st.builds("`({} ~{} ~@{})".format, parts, parts, parts),
        st.builds("^{{:k {}}} (call {})".format, parts, parts),
        st.builds("(fn [a : :int] : {} {})".format, parts, parts),
    )


PROGRAMS = st.recursive(ATOMS, combined, max_leaves=25)


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(PROGRAMS, st.booleans())
@example("(pow 10.0 -400)", False)
@example("(reduce (fn [a b] [a a]) [] (range 0 5))", False)
@example('(throw "" 3)', True)
def test_any_program_ends_with_a_value_or_a_named_error(source, lenient):
    try:
        value = evaluate(PRELUDE + source, lenient=lenient, budget=BUDGET)
    except ReadError as error:
        assert error.message
    except RtfsError as error:
        assert error.name
        assert str(error)
    else:
        assert size_of(value) <= max(BUDGET.value_bytes, 100 * len(source))
        show(value)


@settings(max_examples=60, deadline=None)
@given(PROGRAMS, st.integers(1, 400))
def test_a_program_ends_in_the_same_way_every_time(source, steps):
    ends = set()
    for _ in range(2):
        try:
            value = evaluate(PRELUDE + source, budget=Budget(steps=steps))
            ends.add(show(value))
        except (ReadError, RtfsError) as error:
            ends.add(str(error))
    assert len(ends) == 1


@settings(max_examples=60, deadline=None)
@given(PROGRAMS)
@example("(reduce + (range 0 9000))")
def test_a_program_ends_in_the_same_way_wherever_it_is_evaluated(source):
    def told(evaluated):
        try:
            return show(evaluated())
        except (ReadError, RtfsError) as error:
            return str(error)

    inline = told(lambda: evaluate(PRELUDE + source, budget=BUDGET))
    assert told(lambda: asyncio.run(evaluate_async(PRELUDE + source, budget=BUDGET))) == inline


JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**63 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(),
    ),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(JSON)
def test_json_goes_in_and_comes_out_as_it_was(data):
    value = from_json(data)
    assert to_json(value) == data
    assert equal(parse_json_text(json_text(value)), value)
    assert equal(parse_json_text(json_text(value, pretty=True)), value)
