"""The possible values of each name and expression in a program, as sets of a few kinds of values.

A name is looked up when an expression that is judged has it in it: its values are those of all its bindings. Nothing of
the program is called; only functions that make text are computed.
"""

from __future__ import annotations

import ast
import base64
import bisect
import codecs
import contextlib
import functools
import os
import posixpath
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import product, takewhile
from typing import Any, Final

from . import catalogue
from .scopes import END, Binding, Position, Scope, Scopes


@dataclass(frozen=True, slots=True)
class Ref:
    """A reference to an imported or built-in object by its full name: `os`, `os.system`, `builtins.eval`,
    `os.__dict__`.
    """

    path: str


@dataclass(frozen=True, slots=True)
class Text:
    """Text, bytes, or a `pathlib.Path` (`path`). `whole=False` means that only its beginning is known."""

    value: str
    whole: bool = True
    path: bool = False


@dataclass(frozen=True, slots=True)
class Number:
    """A whole number."""

    value: int


@dataclass(frozen=True, slots=True)
class Items:
    """A container of anything in `values`. If it is `mutable`, it may later get other elements."""

    values: Values
    mutable: bool = True


@dataclass(frozen=True, slots=True)
class ToolFunction:
    """The function of a tool, or `call_tool` where `name` is `None`."""

    name: str | None


@dataclass(frozen=True, slots=True)
class Unknown:
    """An unknown value. `unbound` means that the program does not bind the name: an earlier program of a session may
    have.
    """

    unbound: bool = False


Value = Ref | Text | Number | Items | ToolFunction | Unknown
Values = frozenset[Value]

NONE: Final[Values] = frozenset()
UNKNOWN: Final[Values] = frozenset([Unknown()])
DICT: Final = ".__dict__"

_MAX_DEPTH: Final = 80
"""The most nested expressions and names that are followed. Each takes up to eight of Python's thousand stack frames."""
_EVALUATIONS: Final = 5
"""The most expressions that are evaluated, per character of source, before the reader gives up on the program."""
_MAX_VALUES: Final = 8
"""The most values of a name before it counts as unknown. References do not count: a program spells each of them out."""
_MAX_REFERENCES: Final = 100
"""The most values that an expression may refer to before it counts as too complex to follow."""
_MAX_TEXT: Final = 4096

_TEXT_METHODS: Final = {"replace": 2} | dict.fromkeys(
    ("lower", "upper", "strip", "swapcase", "title", "casefold", "lstrip", "rstrip"), 0
)
"""Text methods that the reader computes, with the number of their arguments."""
_FUNCTIONS: Final[Mapping[str, Callable[[Any], str | int]]] = {
    "builtins.chr": chr,
    "builtins.ord": ord,
    **dict.fromkeys(
        catalogue.all_of("base64", "b64decode standard_b64decode urlsafe_b64decode"),
        lambda text: base64.b64decode(text).decode("latin-1"),
    ),
    **dict.fromkeys(
        ("binascii.unhexlify", "builtins.bytes.fromhex"), lambda text: bytes.fromhex(text).decode("latin-1")
    ),
    **dict.fromkeys(
        (f"codecs.{name} {codec}" for name in ("decode", "encode") for codec in ("rot13", "rot_13")),
        lambda text: codecs.encode(text, "rot13"),
    ),
}
"""Functions of one text or number that the reader computes, with the other arguments that they must have."""
_SAME_TEXT: Final = frozenset(
    [
        "builtins.str",
        *catalogue.all_of("os", "fspath fsencode fsdecode"),
        *catalogue.all_of("os.path", "expanduser abspath realpath normpath"),
    ]
)


class Names:
    """The evaluator of a program's expressions: it tells which values each may have.

    `tools` maps names in the program to names of tools, and `size` is its length in characters.
    """

    def __init__(self, scopes: Scopes, tools: Mapping[str, str], size: int) -> None:
        self.gave_up: ast.AST | None = None
        """The first node that was too complex to follow, if any: findings are then incomplete."""
        self._scopes = scopes
        self._stars = [path.removesuffix(".*") for path in scopes.imports if path.endswith(".*")]
        self._tools = {"call_tool": None, **tools}
        self._known: dict[object, Values] = {}
        self._draft: dict[object, Values] = {}
        """The values found so far while the outermost name is looked up; they may be incomplete."""
        self._cyclic = False
        self._depth = 0
        self._left = _EVALUATIONS * size + 10_000

    def values(self, node: ast.expr, scope: Scope) -> Values:
        """Return all possible values of an expression, an empty set for one that can never get a value."""
        if node in self._known:
            return self._known[node]
        self._depth += 1
        self._left -= 1
        followed = self._depth <= _MAX_DEPTH and self._left > 0
        found = bounded(self._evaluate(node, scope)) if followed else UNKNOWN
        if not followed or len(found) > _MAX_REFERENCES:
            self.gave_up, found = self.gave_up or node, UNKNOWN
        self._depth -= 1
        if not self._draft:  # values found while a name is being looked up may be incomplete
            self._known[node] = found
        return found

    def _look_up(self, name: str, scope: Scope, position: Position) -> Values:
        """Return the possible values of a name that is read at a position of a scope, by Python's scope rules."""
        found = NONE
        inner: Scope | None = scope
        while inner is not None:
            if inner.kind == "function":
                # A function runs no earlier than the module's next statement that can call something.
                position = self._scopes.acts[bisect.bisect_left(self._scopes.acts, inner.begins or END)]
            owner = inner.elsewhere.get(name, inner)
            if name in owner.bindings and (inner.kind != "class" or inner is scope):
                found |= self._read(owner, name)
                if owner.kind in ("function", "comprehension") or owner.own.get(name, END) < position:
                    return found
            inner = owner.parent
        return found | self._not_bound(name)

    def _read(self, scope: Scope, name: str) -> Values:
        """Return the values of all bindings of a name.

        Names that are made of each other, as in a loop, form a cycle. In it, a name is unknown while it is being looked
        up, and only the outermost one is found whole: the others are looked up again when they are asked for.
        """
        key = scope, name
        known = self._known if key in self._known else self._draft
        if key in known:
            self._cyclic = self._cyclic or known is self._draft
            return known[key]
        outermost, outer, self._cyclic = not self._draft, self._cyclic, False
        self._left -= len(scope.bindings[name])
        self._draft[key] = UNKNOWN
        found = self._draft[key] = bounded(value for binding in scope.bindings[name] for value in self._bound(binding))
        if outermost or not self._cyclic:
            self._known[key] = found
        self._cyclic = outer or self._cyclic
        if outermost:
            self._draft.clear()
        return found

    def _bound(self, binding: Binding | str | None) -> Values:
        match binding:
            case None:
                return UNKNOWN
            case str():
                module, _, name = binding.rpartition(".")
                return self._attribute(Ref(module), name) if module else frozenset([_reference(name)])
        found = self.values(binding.expression, binding.scope)
        # A mutable container that has a name can be changed by it.
        return frozenset(
            Items(value.values | UNKNOWN) if isinstance(value, Items) and value.mutable else value
            for value in (elements(found) if binding.inside else found)
        )

    def _not_bound(self, name: str) -> Values:
        """Return the possible values of a name that the program may not have bound."""
        paths = [catalogue.canonical(f"{module}.{name}") for module in self._stars]
        self._left -= len(paths)
        found: Values = frozenset(Ref(path) for path in paths if path in catalogue.KNOWN or catalogue.rule_of(path))
        if name in self._tools:
            return found | {ToolFunction(self._tools[name])}
        if name in catalogue.BUILTINS or name in self._scopes.module.bindings:
            return found | ({_reference(f"builtins.{name}")} if name in catalogue.BUILTINS else NONE)
        # An earlier program of the session may have imported it.
        earlier = Ref(name) if name in catalogue.SENSITIVE else Unknown(unbound=True)
        return frozenset(map(_reference, paths)) or frozenset([earlier])

    def _evaluate(self, node: ast.expr, scope: Scope) -> Values:
        match node:
            case ast.Constant():
                return frozenset([_constant(node.value)])
            case ast.Name():
                return self._look_up(node.id, scope, (node.lineno, node.col_offset))
            case ast.Attribute():
                return self._attributes(self.values(node.value, scope), [node.attr])
            case ast.Call(
                func=ast.Attribute(value=base, attr="join"), args=[ast.List(elts=parts) | ast.Tuple(elts=parts)]
            ):
                texts = [text for text in self.values(base, scope) if isinstance(text, Text)]
                given = [self.values(part, scope) for part in parts]
                return frozenset(found for text in texts for found in _method(text, "join", given)) or UNKNOWN
            case ast.Call():
                return self._called(node, scope)
            case ast.Subscript(slice=ast.Slice() as part):
                return frozenset(_sliced(value, part) for value in self.values(node.value, scope))
            case ast.Subscript():
                return self._entries(self.values(node.value, scope), self.values(node.slice, scope))
            case ast.BinOp():
                found = [self.values(side, scope) for side in (node.left, node.right)]
                sides = [{Unknown() if isinstance(value, Ref) else value for value in side} for side in found]
                return frozenset(combined(node.op, left, right) for left, right in product(*sides))
            case ast.BoolOp(values=parts):
                return NONE.union(*(self.values(part, scope) for part in parts))
            case ast.IfExp():
                return self.values(node.body, scope) | self.values(node.orelse, scope)
            case ast.NamedExpr() | ast.Await() | ast.Starred():
                return self.values(node.value, scope)
            case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts) | ast.Dict(values=parts):
                held = NONE.union(*(self.values(part, scope) for part in parts))
                return frozenset([_container(held, mutable=not isinstance(node, ast.Tuple))])
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return frozenset([Items(UNKNOWN)])
            case ast.JoinedStr():
                pieces: list[Value] = [Text(""), *(_one(self.values(part, scope)) for part in node.values)]
                return frozenset([functools.reduce(functools.partial(combined, ast.Add()), pieces)])
            case ast.FormattedValue(format_spec=None, conversion=-1 | 115):
                return self.values(node.value, scope)
        return UNKNOWN

    def _attributes(self, values: Values, names: Iterable[str]) -> Values:
        return frozenset(found for value in values for name in names for found in self._attribute(value, name))

    def _attribute(self, value: Value, name: str) -> Values:
        match value:
            case Ref(path="__main__") if name != "__dict__":
                return self._look_up(name, self._scopes.module, END)
            case Ref() | ToolFunction() if name in ("__call__", "__func__", "__wrapped__"):
                return frozenset([value])
            case Ref(path=path):
                bound = name == "__self__" and path.rpartition(".")[0] == "builtins"
                return frozenset([_reference("builtins" if bound else f"{path}.{name}")])
            case Text(value=text, path=True) if name == "parent":
                return frozenset([Text(posixpath.dirname(text.rstrip("/")) or text, value.whole, path=True)])
        return frozenset([Ref(name.strip("_"))]) if name in catalogue.ANYWHERE else UNKNOWN

    def _entries(self, values: Values, keys: Values) -> Values:
        """Return the possible values of `value[key]`."""
        found: set[Value] = set()
        for value in values:
            match value:
                case Items():
                    found |= value.values
                case Ref(path="sys.modules"):
                    found.update(map(_reference, whole_texts(keys)))
                case Ref(path=path) if path.endswith(DICT) or path == "builtins":
                    # In modules that are imported, `__builtins__` is a dictionary.
                    found |= self._attributes(frozenset([Ref(path.removesuffix(DICT))]), whole_texts(keys))
                case _:
                    found.add(Unknown())
        return frozenset(found) or UNKNOWN

    def _called(self, node: ast.Call, scope: Scope) -> Values:
        positional = takewhile(lambda argument: not isinstance(argument, ast.Starred), node.args)
        given = [self.values(argument, scope) for argument in positional]
        bases, name = NONE, ""
        if isinstance(node.func, ast.Attribute):
            bases, name = self.values(node.func.value, scope), node.func.attr
        known = [base for base in bases if isinstance(base, (Items, Text)) and name != "join"]
        found = {value for base in known for value in _method(base, name, given)}
        if known and len(known) == len(bases):
            return frozenset(found)
        for function in self._attributes(bases, [name]) if name else self.values(node.func, scope):
            found |= self._result(function.path, given) if isinstance(function, Ref) else UNKNOWN
        return frozenset(found)

    def _result(self, path: str, given: list[Values]) -> Values:
        """Return the possible results of a call of an imported or built-in function."""
        first = given[0] if given else NONE
        base, _, last = path.rpartition(".")
        match path:
            case "builtins.getattr" | "inspect.getattr_static" | "builtins.object.__getattribute__" if len(given) > 1:
                return (self._attributes(first, whole_texts(given[1])) or UNKNOWN).union(*given[2:3])
            case "builtins.__import__" | "importlib.import_module":
                names = whole_texts(first)
                if path == "builtins.__import__":  # the outermost package, unless given a list of names
                    names = [name.partition(".")[0] for name in names] + (names if len(given) > 1 else [])
                return frozenset(map(_reference, names)) or UNKNOWN
            case "builtins.globals" | "builtins.locals":
                return frozenset([Ref(f"__main__{DICT}")])
            case "builtins.vars":
                return self._attributes(first or frozenset([Ref("__main__")]), ["__dict__"])
            case "pathlib.Path.home":
                return frozenset([Text("~", path=True)])
            case "builtins.list" | "builtins.tuple" | "builtins.iter" | "builtins.reversed" | "builtins.sorted":
                return frozenset([Items(elements(first))])
            case _ if last in ("__getattribute__", "__getattr__"):
                return self._attributes(frozenset([Ref(base)]), whole_texts(first)) or UNKNOWN
            case _ if last in catalogue.HOLDER_GETTERS and is_holder(base):
                return self._entries(frozenset([Ref(base)]), first)
            case _ if path in catalogue.MAKERS:
                return frozenset([Ref(f"{path}()")])
        return frozenset([_computed(path, [_one(values) for values in given])])


def whole_texts(values: Values) -> list[str]:
    """Return the fully known texts among values, sorted."""
    return sorted(value.value for value in values if isinstance(value, Text) and value.whole)


def is_holder(path: str) -> bool:
    """Return True for a dictionary that holds a module's names, or modules by name."""
    return path == "sys.modules" or path.endswith(DICT)


def bounded(values: Iterable[Value]) -> Values:
    """Return a bounded set of values: too many non-references become one unknown value beside the references."""
    found = frozenset(values)
    others = [value for value in found if not isinstance(value, (Ref, ToolFunction))]
    return found if len(others) <= _MAX_VALUES else found.difference(others) | UNKNOWN


def elements(values: Values) -> Values:
    """Return the possible elements of containers; an unknown value for what is none."""
    return bounded(element for value in values for element in (value.values if isinstance(value, Items) else UNKNOWN))


def _container(values: Values, *, mutable: bool) -> Items:
    """Return a container of these values; a container among them is replaced by its elements and an unknown value."""
    inner = frozenset(value for value in values if isinstance(value, Items))
    return Items(bounded((values - inner) | (elements(inner) | UNKNOWN if inner else NONE)), mutable)


def _one(values: Values) -> Value:
    """Return the only value of a set, else an unknown value."""
    return next(iter(values)) if len(values) == 1 else Unknown()


def _reference(path: str) -> Value:
    path = catalogue.canonical(path)
    flag = getattr(os, path.removeprefix("os."), None) if path.startswith("os.O_") else None
    return Number(flag) if isinstance(flag, int) else Ref(path)


def _constant(value: object) -> Value:
    """Return the value of a literal in the source, or of an input."""
    if isinstance(value, (str, bytes)):
        return text_of(value if isinstance(value, str) else value.decode("latin-1"))
    return Number(value) if type(value) is int and abs(value) < 2**31 else Unknown()


def text_of(value: str, whole: bool = True, path: bool = False) -> Text:
    """Return a text value, cut to the length that a reader needs."""
    return Text(value[:_MAX_TEXT], whole and len(value) <= _MAX_TEXT, path)


def combined(operation: ast.operator, left: Value, right: Value) -> Value:
    """Return the result of an operator applied to two values."""
    match operation, left, right:
        case ast.Add(), Text(whole=True), Text():
            return text_of(left.value + right.value, right.whole)
        case ast.Add(), Text(), _:
            return Text(left.value, False)
        case ast.Add(), Items(), Items():
            return Items(bounded(left.values | right.values), left.mutable)
        case ast.BitOr(), Number(), Number():
            return Number(left.value | right.value)
        case ast.Mult(), Text(whole=True), Number(value=times) if len(left.value) * times <= _MAX_TEXT:
            return Text(left.value * times)
        case ast.Mod(), Text(), _:
            return Text(left.value.partition("%")[0], False)
        case ast.Div(), Text(), _:
            return joined([left, right], path=True)
    return Unknown()


def _sliced(value: Value, part: ast.Slice) -> Value:
    """Return a slice of a text whose bounds are literals, or of a container."""
    if isinstance(value, Text) and value.whole:
        with contextlib.suppress(ValueError, TypeError):
            bounds = [bound or ast.Constant(None) for bound in (part.lower, part.upper, part.step)]
            return Text(value.value[slice(*ast.literal_eval(ast.Tuple(bounds)))])
    return value if isinstance(value, Items) else Unknown()


def _method(base: Items | Text, name: str, given: list[Values]) -> Values:
    """Return the possible results of a method of a container, text or path."""
    if isinstance(base, Items):
        return frozenset([base]) if name in ("copy", "values", "keys", "items") else base.values | UNKNOWN
    arguments = [_one(values) for values in given]
    texts = [argument.value for argument in arguments if isinstance(argument, Text) and argument.whole]
    whole = base.whole and len(texts) == len(arguments)
    match name:
        case "joinpath":
            return frozenset([joined([base, *arguments], path=True)])
        case "resolve" | "absolute" | "expanduser" | "as_posix":
            return frozenset([Text(base.value, base.whole, path=name != "as_posix")])
        case "encode" | "decode" if {"utf-8", "utf8", "ascii", "latin-1"}.issuperset(texts):
            return frozenset([base])
        case "format":
            return frozenset([Text(base.value.partition("{")[0], False)])
        case "join" if whole and sum(map(len, texts)) + len(base.value) * len(texts) <= _MAX_TEXT:
            return frozenset([Text(base.value.join(texts))])
        case _ if (
            whole and _TEXT_METHODS.get(name) == len(texts) and len(base.value) * len("".join(texts)) <= _MAX_TEXT
        ):
            return frozenset([text_of(getattr(base.value, name)(*texts))])
    return UNKNOWN


def _computed(path: str, arguments: list[Value]) -> Value:
    """Return the result of a function that only makes text, paths or numbers; an unknown value for other functions."""
    if path == "os.path.join" or path in catalogue.PATH_CLASSES:
        return joined(arguments, path=path != "os.path.join")
    match arguments:
        case [Text() as first] if path in _SAME_TEXT:
            return Text(first.value, first.whole)
        case [Text(whole=True) | Number() as first, *others]:
            options = [other.value for other in others if isinstance(other, Text)]
            with contextlib.suppress(KeyError, TypeError, ValueError, OverflowError):
                return _constant(_FUNCTIONS[" ".join([path, *options])](first.value))
    return Unknown()


def joined(parts: list[Value], *, path: bool) -> Text:
    """Return the path that parts form when joined, as far as it is known."""
    known, whole = "", True
    for part in parts:
        if isinstance(part, Text) and (whole or part.value.startswith("/")):
            known, whole = posixpath.join(known, part.value), part.whole
        elif whole:
            known, whole = posixpath.join(known, ""), False
    return text_of(known, whole, path)
