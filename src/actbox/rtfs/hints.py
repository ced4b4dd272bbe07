"""Hints on unknown names: the RTFS equivalent of a name from another language, or the nearest known name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from itertools import islice

from .failures import RtfsError

_MOST_COMPARED = 500
_MOST_LETTERS_APART = 5

_INSTEAD = {
    "cond": "cond is not in RTFS; use match or nested if",
    "case": "case is not in RTFS; use match",
    "when": "when is only a guard in match; use if",
    "when-not": "when-not is not in RTFS; use if",
    "unless": "unless is not in RTFS; use if",
    "if-let": "if-let is not in RTFS; use let and if",
    "loop": "loop is not in RTFS; use reduce, dotimes, for, or a function that calls itself last",
    "recur": "recur is not in RTFS; let the function call itself by name",
    "while": "while is not in RTFS; use reduce, dotimes, for, or a function that calls itself last",
    "throw": "throw is not in RTFS; return a map that says what is wrong",
    "raise": "raise is not in RTFS; return a map that says what is wrong",
    "->": "-> is not in RTFS; nest the calls",
    "->>": "->> is not in RTFS; nest the calls",
    "quote": "quote is not in RTFS; use a quasiquote, `form",
    "set!": "set! is not in RTFS, whose values never change; bind a new name with let",
    "atom": "atom is not in RTFS, whose values never change; use reduce",
    "swap!": "swap! is not in RTFS, whose values never change; use reduce",
    "reset!": "reset! is not in RTFS, whose values never change; use let",
    "deref": "deref is not in RTFS, whose values never change",
    "println": "println is not in RTFS, which prints nothing; make it part of the value",
    "print": "print is not in RTFS, which prints nothing; make it part of the value",
    "identity": "identity is not in RTFS; use (fn [x] x)",
    "return": "return is not in RTFS; the last expression is the value",
    "None": "None is nil in RTFS",
    "null": "null is nil in RTFS",
    "True": "True is true in RTFS",
    "False": "False is false in RTFS",
    "==": "== is not in RTFS; use =",
    "true?": "true? is not in RTFS; use (= x true)",
    "false?": "false? is not in RTFS; use (= x false)",
    "sum": "sum is not in RTFS; use (reduce + 0 xs)",
    "mapcat": "mapcat is not in RTFS; use (apply concat (map f xs))",
    "zip": "zip is not in RTFS; use (map vector xs ys)",
    "select-keys": "select-keys is not in RTFS; use {:a (:a m) :b (:b m)}",
    "require": "require is not in RTFS; what there is, is there already",
    "ns": "ns is not in RTFS; what there is, is there already",
    "list": "list is not in RTFS; use vector or [a b]",
    "lambda": "lambda is not in RTFS; use (fn [x] …)",
    "letrec": "letrec is not in RTFS; let does it",
    "define": "define is not in RTFS; use def or defn",
    "begin": "begin is not in RTFS; use do",
    "second": "second is not in RTFS; use (nth xs 1)",
    "into": "into is not in RTFS; use concat, or merge for maps",
    "mapv": "mapv is not in RTFS; map gives a vector",
    "filterv": "filterv is not in RTFS; filter gives a vector",
    "assoc-in": "assoc-in is not in RTFS; use assoc with get",
    "update-in": "update-in is not in RTFS; use update in update",
    "format": "format is not in RTFS; use str",
    "quot": "quot is not in RTFS; use (int (/ a b))",
    "rem": "rem is not in RTFS; use mod",
    "some": "some is not in RTFS; use some?",
    "not-empty": "not-empty is not in RTFS; use (not (empty? xs))",
    "null?": "null? is not in RTFS; use nil?",
    "len": "len is not in RTFS; use count",
    "append": "append is not in RTFS; use conj or concat",
    "fold": "fold is not in RTFS; use reduce",
    "foldl": "foldl is not in RTFS; use reduce",
}


def undefined(name: str) -> RtfsError:
    """Return the error for an undefined name."""
    shown = name if len(name) <= 100 else name[:100] + "…"
    return RtfsError("UndefinedSymbol", f"nothing is called {shown}", hint=_INSTEAD.get(name, ""))


def unset(name: str) -> RtfsError:
    """Return the error for a name whose own value reads it before it is set."""
    return RtfsError(
        "TypeError",
        f"the value of {name} mentions {name}, which only a function's can",
        hint="bind the new value to another name",
    )


def add_hint(error: RtfsError, known: Iterable[str]) -> None:
    """Add the most likely intended name among the known ones to an error about a name."""
    if error.name != "UndefinedSymbol" or error.hint:
        return
    name = error.message.removeprefix("nothing is called ")
    alike = (other for other in known if abs(len(other) - len(name)) <= _MOST_LETTERS_APART)
    close = difflib.get_close_matches(name, list(islice(alike, _MOST_COMPARED)), n=1, cutoff=0.7)
    if close:
        error.hint = f"did you mean {close[0]}?"
