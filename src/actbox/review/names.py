"""What each name and expression of a program may be.

Two steps. First the values of all names are found together: each binding is evaluated, and again whenever a name that
it reads has got a further value, until nothing changes. Then any expression can be asked about.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Mapping
from itertools import product
from typing import Final

from . import catalogue
from .files import PATH_CLASSES
from .scopes import Binding, Place, Scope, ScopeReader
from .values import (
    NONE,
    PLAIN,
    UNKNOWN,
    FilePath,
    Items,
    Ref,
    Text,
    ToolFunction,
    Unknown,
    Value,
    Values,
    bounded,
    combined,
    constant,
    elements,
    file_path,
    folded,
    method,
    shallow,
    sliced,
)

_MAX_DEPTH: Final = 80
"""Nested expressions that are followed. Each takes about three calls of Python's thousand."""
_EVALUATIONS: Final = 12
"""How often a binding is evaluated on average, at most, before the reader gives up on the whole program."""

_MAIN: Final = "__main__"
_DICT: Final = ".__dict__"


class Names:
    """Answers what an expression of one program may be. `tools` maps names in the program to names of tools."""

    def __init__(self, scopes: ScopeReader, tools: Mapping[str, str], inputs: Mapping[str, object]) -> None:
        self.gave_up: ast.AST | None = None
        """The first node that was too much to follow, if any: findings are then not complete."""
        self._module = scopes.module
        self._tools = tools
        self._inputs = inputs
        self._known: dict[tuple[Scope, str], Values] = {}
        self._readers: dict[tuple[Scope, str], set[tuple[Scope, str, Binding]]] = {}
        self._reading: tuple[Scope, str, Binding] | None = None
        self._memo: dict[int, Values] | None = None
        self._depth = 0
        self._settle(scopes)
        self._memo = {}

    def values(self, node: ast.expr, scope: Scope) -> Values:
        """Return everything that an expression may be. It is empty for what can never get a value."""
        if self._memo is not None and id(node) in self._memo:
            return self._memo[id(node)]
        if self._depth >= _MAX_DEPTH:
            self.gave_up = self.gave_up or node
            return UNKNOWN
        self._depth += 1
        try:
            found = bounded(self._evaluate(node, scope))
        finally:
            self._depth -= 1
        if self._memo is not None:
            self._memo[id(node)] = found
        return found

    def _settle(self, scopes: ScopeReader) -> None:
        bindings = list(scopes.bindings())
        waiting = deque(bindings)
        queued = set(bindings)
        wide: set[tuple[Scope, str]] = set()
        left = _EVALUATIONS * len(bindings) + 10_000
        while waiting:
            self._reading = item = waiting.popleft()
            queued.discard(item)
            scope, name, binding = item
            left -= 1
            if left < 0:
                self.gave_up = self.gave_up or binding.expression
                break
            before = self._known.get((scope, name), NONE)
            further = self._bound(binding, name)
            if (scope, name) in wide:
                # What may be anything stays so; else values that are made of its own would come and go for ever.
                further = frozenset(value for value in further if isinstance(value, (Ref, ToolFunction)))
            after = bounded(before | further)
            if after != before:
                if not before | further <= after:
                    wide.add((scope, name))
                self._known[scope, name] = after
                again = self._readers.get((scope, name), set()) - queued
                waiting.extend(again)
                queued |= again
        self._reading = None

    def _bound(self, binding: Binding, name: str) -> Values:
        if binding.how == "own":
            return constant(self._inputs[name]) if binding.after == (0, 0) else PLAIN
        if binding.how == "module":
            return self._imported(binding.path)
        if binding.expression is None:
            return UNKNOWN
        found = self.values(binding.expression, binding.scope)
        if binding.how == "value":
            return found
        return elements(found, deep=binding.how == "deep")

    def _imported(self, path: str) -> Values:
        head, _, rest = path.partition(".")
        if head == _MAIN and rest:
            return self.look_up(rest, self._module, (1 << 30, 0))
        return frozenset([Ref(catalogue.canonical(path))])

    def look_up(self, name: str, scope: Scope, place: Place) -> Values:
        """Return what a name may be that is read at a place of a scope, by Python's rules for scopes."""
        found: Values = NONE
        inner: Scope | None = scope
        function: Place | None = None
        while inner is not None:
            if inner.kind == "function" and not inner.comprehension:
                function = inner.begins
            visible = inner.kind != "class" or inner is scope
            if visible and name in inner.bindings and name not in inner.globals:
                found |= self._read(inner, name)
                if inner.kind == "function" or inner.hides(name, place, function):
                    return found
            inner = inner.parent
        return found | self._not_bound(name, bound=bool(found) or name in self._module.bindings)

    def _read(self, scope: Scope, name: str) -> Values:
        if self._reading is not None:
            self._readers.setdefault((scope, name), set()).add(self._reading)
        found = self._known.get((scope, name), NONE)
        # A container that has a name may be changed through it.
        return frozenset(
            Items(value.values | UNKNOWN) if isinstance(value, Items) and value.mutable else value for value in found
        )

    def _not_bound(self, name: str, bound: bool) -> Values:
        """Return what a name may be that the program has not bound for certain."""
        starred = [catalogue.canonical(f"{module}.{name}") for module in self._module.stars]
        found: set[Value] = {Ref(path) for path in starred if catalogue.known(path)}
        if name in self._tools:
            found.add(ToolFunction(self._tools[name]))
        elif name == "call_tool":
            found.add(ToolFunction(None))
        elif name == "__builtins__":
            found.add(Ref("builtins"))
        elif name in catalogue.BUILTINS:
            found.add(Ref(catalogue.canonical(f"builtins.{name}")))
        elif not bound and starred:
            found.update(Ref(path) for path in starred)
        elif not bound:
            # An earlier program of the session may have imported it.
            found.add(Ref(name) if name in catalogue.SENSITIVE else Unknown(unbound=True))
        return frozenset(found)

    def _evaluate(self, node: ast.expr, scope: Scope) -> Values:
        match node:
            case ast.Constant():
                return constant(node.value)
            case ast.Name():
                return self.look_up(node.id, scope, (node.lineno, node.col_offset))
            case ast.Attribute():
                return self._each(self.values(node.value, scope), node.attr)
            case ast.Call():
                return self._called(node, scope)
            case ast.Subscript():
                return self._item(node, scope)
            case ast.BinOp():
                return self._operated(node, scope)
            case ast.BoolOp():
                return self._union(node.values, scope)
            case ast.IfExp():
                return self._union([node.body, node.orelse], scope)
            case ast.NamedExpr() | ast.Await() | ast.Starred():
                return self.values(node.value, scope)
            case ast.Tuple() | ast.List() | ast.Set():
                return self._container(node.elts, scope, not isinstance(node, ast.Tuple))
            case ast.Dict():
                return self._container(node.values, scope, True)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return frozenset([Items(UNKNOWN)])
            case ast.JoinedStr():
                return frozenset([self._joined(node, scope)])
            case ast.Lambda():
                return PLAIN
        return UNKNOWN

    def _union(self, nodes: list[ast.expr], scope: Scope) -> Values:
        return frozenset(value for node in nodes for value in self.values(node, scope))

    def _container(self, nodes: list[ast.expr], scope: Scope, mutable: bool) -> Values:
        found: Values = NONE
        for node in nodes:
            inner = self.values(node, scope)
            found |= elements(inner) if isinstance(node, ast.Starred) else inner
        return frozenset([Items(shallow(found), mutable)])

    def _joined(self, node: ast.JoinedStr, scope: Scope) -> Value:
        known = Text("")
        for part in node.values:
            inner = part
            if isinstance(part, ast.FormattedValue):
                inner = part.value
                if part.format_spec is not None or part.conversion not in (-1, ord("s")):
                    return Text(known.text, False)
            values = self.values(inner, scope)
            (value,) = values if len(values) == 1 else (Unknown(),)
            joined = combined(ast.Add(), known, value)
            if not isinstance(joined, Text) or not joined.whole:
                return joined
            known = joined
        return known

    def _operated(self, node: ast.BinOp, scope: Scope) -> Values:
        left, right = self.values(node.left, scope), self.values(node.right, scope)
        return bounded(combined(node.op, one, other) for one, other in product(left, right))

    def _each(self, values: Values, attribute: str) -> Values:
        return frozenset(found for value in values for found in self.attribute(value, attribute))

    def attribute(self, value: Value, name: str) -> Values:
        """Return what an attribute of a value may be."""
        if isinstance(value, Ref):
            if value.path == _MAIN and name != "__dict__":
                return self.look_up(name, self._module, (1 << 30, 0))
            if name == "__self__" and value.path.startswith("builtins."):
                return frozenset([Ref("builtins")])
            if name in ("__call__", "__func__", "__wrapped__"):
                return frozenset([value])
            path = catalogue.canonical(f"{value.path}.{name}")
            return frozenset([Ref(path)]) if catalogue.followed(path) else UNKNOWN
        if name in ("__call__", "__func__", "__wrapped__") and isinstance(value, ToolFunction):
            return frozenset([value])
        if name == "parent" and isinstance(value, FilePath):
            return frozenset([FilePath(value.text.rstrip("/").rpartition("/")[0] or value.text, value.whole)])
        if name in catalogue.ANYWHERE:
            return frozenset([Ref(name.strip("_"))])
        return UNKNOWN

    def _item(self, node: ast.Subscript, scope: Scope) -> Values:
        base = self.values(node.value, scope)
        if isinstance(node.slice, ast.Slice):
            return frozenset(sliced(value, node.slice) for value in base)
        keys = self.values(node.slice, scope)
        return frozenset(found for value in base for key in keys for found in self.entry(value, key))

    def entry(self, value: Value, key: Value) -> Values:
        """Return what `value[key]` may be."""
        if isinstance(value, Items):
            return value.values or UNKNOWN
        if isinstance(value, Ref) and isinstance(key, Text) and key.whole:
            if value.path == "sys.modules":
                return frozenset([Ref(catalogue.canonical(key.text))])
            if value.path.endswith(_DICT):
                return self.attribute(Ref(value.path.removesuffix(_DICT)), key.text)
            if value.path == "builtins":  # `__builtins__` is a dictionary in modules that are imported
                return self.attribute(value, key.text)
        if isinstance(value, Ref) and value.path.startswith("builtins."):
            return frozenset([value])  # such as list[int]
        return UNKNOWN

    def arguments(self, node: ast.Call, scope: Scope) -> list[Values]:
        """Return what each positional argument may be, up to the first that stands for several."""
        found = []
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                break
            found.append(self.values(argument, scope))
        return found

    def _called(self, node: ast.Call, scope: Scope) -> Values:
        given = self.arguments(node, scope)
        # Only what is one thing for certain is folded; what may be several things stays unknown.
        single: list[Value] = [next(iter(values)) if len(values) == 1 else Unknown() for values in given]
        found: set[Value] = set()
        if isinstance(node.func, ast.Attribute):
            bases = self.values(node.func.value, scope)
            for base in bases:
                found |= self._method(base, node.func.attr, node, scope, single)
            if bases and all(isinstance(base, (Items, Text, FilePath)) for base in bases):
                return bounded(found)
        for value in self.values(node.func, scope):
            found |= self._result(value, given, single) if isinstance(value, Ref) else UNKNOWN
        return bounded(found)

    def _method(self, base: Value, name: str, node: ast.Call, scope: Scope, single: list[Value]) -> Values:
        if isinstance(base, Items):
            return frozenset([base]) if name in ("copy", "values", "keys", "items") else base.values | UNKNOWN
        if isinstance(base, Text) and name == "join" and len(node.args) == 1:
            return frozenset([self._glued(base, node.args[0], scope)])
        return frozenset([method(base, name, single)]) if isinstance(base, (Text, FilePath)) else NONE

    def _glued(self, base: Text, argument: ast.expr, scope: Scope) -> Value:
        if not isinstance(argument, (ast.List, ast.Tuple)) or not base.whole:
            return Unknown()
        parts = []
        for element in argument.elts:
            values = self.values(element, scope)
            value = next(iter(values)) if len(values) == 1 else Unknown()
            if not isinstance(value, Text) or not value.whole:
                return Unknown()
            parts.append(value.text)
        return Text(base.text.join(parts)) if sum(map(len, parts)) < 4096 else Unknown()

    def _result(self, function: Ref, given: list[Values], single: list[Value]) -> Values:
        path = function.path
        named = [value for value in given[1] if isinstance(value, Text) and value.whole] if len(given) > 1 else []
        first = given[0] if given else NONE
        if path in ("builtins.getattr", "inspect.getattr_static", "builtins.object.__getattribute__") and named:
            reached = frozenset(f for value in first for name in named for f in self.attribute(value, name.text))
            return reached | (given[2] if len(given) > 2 else NONE)
        if path in ("builtins.__import__", "importlib.import_module"):
            return self._import_call(path, first, len(given) > 1)
        if path in ("builtins.globals", "builtins.locals") or (path == "builtins.vars" and not given):
            return frozenset([Ref(_MAIN + _DICT)])
        if path == "builtins.vars":
            return frozenset(Ref(v.path + _DICT) if isinstance(v, Ref) else Unknown() for v in first)
        base, _, last = path.rpartition(".")
        if last in ("get", "pop", "setdefault", "__getitem__") and (base.endswith(_DICT) or base == "sys.modules"):
            return frozenset(f for key in first for f in self.entry(Ref(base), key))
        if last in ("__getattribute__", "__getattr__"):
            return (
                frozenset(f for key in first if isinstance(key, Text) for f in self.attribute(Ref(base), key.text))
                or UNKNOWN
            )
        if path in ("builtins.list", "builtins.tuple", "builtins.iter", "builtins.reversed", "builtins.sorted"):
            return frozenset([Items(elements(first))]) if given else frozenset([Items(NONE)])
        if path == "builtins.next":
            return elements(first)
        if path == "pathlib.Path.home":
            return frozenset([FilePath("~")])
        if path in PATH_CLASSES:
            return frozenset([file_path(single)])
        instance = catalogue.makes(path)
        if instance is not None:
            return frozenset([Ref(instance)])
        made = folded(path, single)
        return UNKNOWN if made is None else frozenset([made])

    def _import_call(self, path: str, first: Values, more: bool) -> Values:
        found: set[Value] = set()
        for value in first:
            if not isinstance(value, Text) or not value.whole:
                found.add(Unknown())
                continue
            # `__import__` gives the outermost package unless it is told what to take from the inner one.
            if path == "importlib.import_module" or more:
                found.add(Ref(catalogue.canonical(value.text)))
            if path == "builtins.__import__":
                found.add(Ref(catalogue.canonical(value.text.partition(".")[0])))
        return frozenset(found)
