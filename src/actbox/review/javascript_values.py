"""The possible values of each name and expression in a program in JavaScript, as sets of the kinds of `values.py`.

Nothing of the program is called; only functions that make text are computed.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import functools
from collections.abc import Callable, Iterable, Mapping
from itertools import chain, product
from typing import Final

from . import javascript_catalogue as catalogue
from .javascript_scopes import ELEMENT, FUNCTIONS, MODULE, Scopes, arguments, given_to
from .javascript_tree import Binding, Node, Step, name_of, pieces_of
from .values import (
    NONE,
    UNKNOWN,
    Items,
    Ref,
    Text,
    ToolFunction,
    Unknown,
    Value,
    Values,
    bounded,
    combined,
    elements,
    joined,
    text_of,
    whole_texts,
)

_MAX_DEPTH: Final = 60
"""The most nested expressions that are followed. Each takes up to a dozen of Python's thousand stack frames."""
_STEPS: Final = 10
"""The most steps of the evaluation, per character of source, before the reader gives up on the program."""
_MAX_PARTS: Final = 6
"""The most parts of the full name of an object."""

_FIRST: Final[Mapping[str, str]] = {
    "binary_expression": "left",
    "call_expression": "function",
    "member_expression": "object",
    "subscript_expression": "object",
}
"""The field with the expression that such an expression begins with: long chains of these are not nested."""
_ALTERNATIVES: Final[Mapping[str, tuple[str, ...]]] = {
    "assignment_expression": ("right",),
    "augmented_assignment_expression": ("left", "right"),
    "ternary_expression": ("consequence", "alternative"),
}
"""Expressions with the values of other expressions, which are in these fields."""
_LOGICAL: Final = frozenset(["&&", "||", "??"])
_FUNCTION: Final = Ref("function")
CONSTRUCTOR: Final = Ref("constructor")
"""The `constructor` of an object of which it is not known: that of a function would be `Function`."""
_TEXT_METHODS: Final[Mapping[str, Callable[[str], str]]] = {
    "toString": str,
    "trim": str.strip,
    "toLowerCase": str.lower,
    "toUpperCase": str.upper,
}


class JavaScriptNames:
    """The evaluator of a program's expressions. `tools` maps names in the program to names of tools, and `size` is its
    length in characters.
    """

    def __init__(self, scopes: Scopes, tools: Mapping[str, str], size: int) -> None:
        self.gave_up: Node | None = None
        """The first node that was too complex to follow, if any: findings are then incomplete."""
        self._scopes = scopes
        self._tools = tools
        self._known: dict[Node, Values] = {}
        self._open: set[Node] = set()
        self._left = _STEPS * size + 1000

    def values(self, node: Node) -> Values:
        """Return the possible values of an expression."""
        leading: list[Node] = []
        first: Node | None = node
        while first is not None and first not in self._known:
            leading.append(first)
            first = first.get(_FIRST[first.kind]) if first.kind in _FIRST else None
        for part in reversed(leading):
            if part in self._open:  # the value depends on itself
                return UNKNOWN
            if len(self._open) >= _MAX_DEPTH or self._left < 0:
                self.gave_up = self.gave_up or part
                return UNKNOWN
            self._open.add(part)
            try:
                self._known[part] = bounded(self._all_of(part))
            finally:
                self._open.discard(part)
        return self._known.get(node, UNKNOWN)

    def _all_of(self, node: Node) -> Values:
        """Return the values of an expression and of those that it stands for, by whatever names."""
        found: set[Value] = set()
        waiting, seen = [node], {node}
        while waiting:
            part = waiting.pop()
            self._left -= 1
            if self._left < 0:
                return UNKNOWN
            others: list[Node | None] = []
            sign = part.get("operator") if part.kind == "binary_expression" else None
            if part.kind in ("identifier", "shorthand_property_identifier"):
                for binding in self._bindings(part):
                    if isinstance(binding, Binding) and not binding.steps:
                        others.append(binding.expression)
                    else:
                        found |= self._part(binding) if isinstance(binding, Binding) else {binding}
            elif part.kind in _ALTERNATIVES:
                others = [part.get(field) for field in _ALTERNATIVES[part.kind]]
            elif sign is not None and sign.text in _LOGICAL:
                others = [part.get("left"), part.get("right")]
            elif part.kind in ("parenthesized_expression", "await_expression", "sequence_expression"):
                others = [*part.children[-1:]]
            else:
                found |= self._plain(part) if part is node else self.values(part)
            for other in others:
                if other is not None and other not in seen:
                    seen.add(other)
                    waiting.append(other)
        return frozenset(found)

    def _bindings(self, node: Node) -> list[Binding | Value]:
        """Return what a name is bound to where it is used."""
        name = name_of(node)
        owner = self._scopes.of[node].owner(name)
        bindings = self._scopes.assigned.get(name, []) if owner is None else owner.names[name]
        self._left -= len(bindings)
        found: list[Binding | Value] = [Unknown() if binding is None else binding for binding in bindings]
        if owner is not None:
            return found
        if name in self._tools or name == "call_tool":
            return [*found, ToolFunction(self._tools.get(name))]
        return [*found, Ref(catalogue.canonical(name))]

    def _part(self, binding: Binding) -> Values:
        """Return the values of the part of an expression to which steps lead."""
        values = self.values(binding.expression)
        for step in binding.steps:
            if step == MODULE:
                values = frozenset(map(module, whole_texts(values))) or UNKNOWN
            elif step == ELEMENT:
                values = elements(values)
            else:
                values = self.properties(values, self._names_of(step)) or UNKNOWN
        return values

    def _names_of(self, step: Step) -> list[str]:
        return [step] if isinstance(step, str) else whole_texts(self.values(step))

    def properties(self, values: Values, names: list[str]) -> Values:
        """Return the possible values of properties of values."""
        return frozenset(found for value in values for name in names for found in _property(value, name))

    def _plain(self, node: Node) -> Values:
        match node.kind:
            case "string" | "template_string":
                pieces = pieces_of(node)
                return _sum(text_of(piece) if isinstance(piece, str) else _one(self.values(piece)) for piece in pieces)
            case "member_expression" if (of := node.get("object")) and (name := node.get("property")):
                return self.properties(self.values(of), [name_of(name)])
            case "subscript_expression" if (of := node.get("object")) and (index := node.get("index")):
                values, names = self.values(of), whole_texts(self.values(index))
                inside = [value.values for value in values if isinstance(value, Items)]
                return self.properties(values, names).union(*inside) or UNKNOWN
            case "binary_expression" if (left := node.get("left")) and (right := node.get("right")):
                sign = node.get("operator")
                if sign is None or sign.text != "+":
                    return UNKNOWN
                return frozenset(_added(*sides) for sides in product(self.values(left), self.values(right)))
            case "call_expression" if function := node.get("function"):
                return self._called(function, given_to(node, function)[0])
            case "new_expression" if function := node.get("constructor"):
                given = [self.values(argument) for argument in arguments(node)[:1]]
                is_url = Ref("URL") in self.values(function)
                return frozenset(map(_path_of_url, given[0])) if is_url and given else UNKNOWN
            case "array" | "object" | "arguments":
                return frozenset([Items(bounded(NONE.union(*map(self._held, node.children))))])
            case "this":
                return frozenset([Ref("globalThis"), Unknown()]) if self._scopes.of[node].has_this else UNKNOWN
            case "import":
                return frozenset([Ref("import")])
            case _ if node.kind in FUNCTIONS:
                return frozenset([_FUNCTION])
        return UNKNOWN

    def _held(self, node: Node) -> Values:
        """Return the values of one element of an array or object."""
        held = node.get("value") if node.kind == "pair" else node
        if node.kind == "spread_element":
            return elements(self.values(node.children[0])) if node.children else UNKNOWN
        found = UNKNOWN if held is None else self.values(held)
        return frozenset(value for value in found if not isinstance(value, Items)) | (
            elements(found) if any(isinstance(value, Items) for value in found) else NONE
        )

    def _called(self, function: Node, given: list[Node]) -> Values:
        name, of = function.get("property"), function.get("object")
        if function.kind == "member_expression" and name is not None and of is not None:
            if name.text == "join" and of.kind == "array":
                return self._joined(of, given)
            found = [self._method(value, name.text, given) for value in self.values(of)]
            known = [values for values in found if values is not None]
            if known and len(known) == len(found):
                return NONE.union(*known)
        results = NONE
        for value in self.values(function):
            results |= self._result(value.path, given) if isinstance(value, Ref) else UNKNOWN
        return results or UNKNOWN

    def _joined(self, array: Node, given: list[Node]) -> Values:
        separators = self.values(given[0]) if given else frozenset([Text(",")])
        parts = ((_one(separators), _one(self.values(part))) for part in array.children)
        return _sum([*chain.from_iterable(parts)][1:])

    def _method(self, value: Value, name: str, given: list[Node]) -> Values | None:
        """Return the possible results of a method of a value; `None` if it is not one that is followed."""
        match value:
            case Items() if name in ("at", "find", "pop", "shift"):
                return value.values | UNKNOWN
            case Items() if name in ("concat", "filter", "reverse", "slice", "sort", "values"):
                return frozenset([value])
            case Text(whole=True) if name in _TEXT_METHODS:
                return frozenset([text_of(_TEXT_METHODS[name](value.value))])
            case Text() if name == "concat":
                return _sum([value, *(_one(self.values(part)) for part in given)])
            case Ref() if name == "bind":
                return frozenset([value])
        return None

    def _result(self, path: str, given: list[Node]) -> Values:
        """Return the possible results of a call of a global, or of a function of a module."""
        first = self.values(given[0]) if given else NONE
        if path in catalogue.LOADERS:
            return frozenset(map(module, whole_texts(first))) or UNKNOWN
        if path == "module.createRequire":
            return frozenset([Ref("require")])
        if path in catalogue.SAME_VALUE:
            return first or UNKNOWN
        if path == "Reflect.get" and len(given) > 1:
            return self.properties(first, whole_texts(self.values(given[1]))) or UNKNOWN
        if path in catalogue.PATHS:
            return frozenset([joined([_one(self.values(argument)) for argument in given], path=True)])
        if path == "os.homedir":
            return frozenset([Text("~", path=True)])
        if path in ("atob", "Buffer.from"):
            codec = whole_texts(self.values(given[1])) if len(given) > 1 else []
            return frozenset(_decoded(value, "base64" if path == "atob" else "".join(codec)) for value in first)
        return UNKNOWN


def module(name: str) -> Value:
    """Return the module of a name; an unknown value for a file of the program's own."""
    if name.startswith((".", "/")) or ":" in name.removeprefix("node:") or len(name) > 200:
        return Unknown()
    return Ref(catalogue.canonical(name.removeprefix("node:")))


def whole(values: Values) -> bool:
    """Return True if all values are fully known texts."""
    return bool(values) and all(isinstance(value, Text) and value.whole for value in values)


def _property(value: Value, name: str) -> Values:
    match value:
        case Items():
            return value.values | UNKNOWN
        case Ref() if name in ("__proto__", "apply", "bind", "call", "default"):
            return frozenset([value])
        case Ref(path="module") if name == "constructor":
            return frozenset([value])
        case Ref() if name == "constructor":
            return frozenset([Ref("Function")])
        case _ if name in catalogue.ANYWHERE:
            return frozenset([Ref(name)])
        case Ref(path=path) if path != CONSTRUCTOR.path and path.count(".") < _MAX_PARTS:
            return frozenset([Ref(catalogue.canonical(f"{path}.{name}"))])
        case _ if name == "constructor":
            return frozenset([CONSTRUCTOR])
    return UNKNOWN


def _one(values: Values) -> Value:
    return next(iter(values)) if len(values) == 1 else Unknown()


def _added(left: Value, right: Value) -> Value:
    """Return the sum of two values."""
    known = [Unknown() if isinstance(value, (Ref, Items)) else value for value in (left, right)]
    return combined(ast.Add(), *known)


def _sum(values: Iterable[Value]) -> Values:
    empty: Value = Text("")
    return frozenset([functools.reduce(_added, values, empty)])


def _path_of_url(value: Value) -> Value:
    if isinstance(value, Text) and value.value.startswith("file://"):
        return Text(value.value.removeprefix("file://"), value.whole, path=True)
    return value


def _decoded(value: Value, codec: str) -> Value:
    if not isinstance(value, Text) or not value.whole:
        return Unknown()
    with contextlib.suppress(ValueError):
        if codec in ("base64", "base64url"):
            padded = value.value.replace("-", "+").replace("_", "/") + "=" * (-len(value.value) % 4)
            return text_of(base64.b64decode(padded).decode("latin-1"))
        if codec == "hex":
            return text_of(bytes.fromhex(value.value).decode("latin-1"))
        return value
    return Unknown()
