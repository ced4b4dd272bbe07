"""The one pass over a program's syntax tree: its scopes, the bindings of each name, and the places to judge.

The pass does not follow the order in which a program runs: a name may have any value that is ever bound to it in its
scope. Order counts in one place only, whether a name of the program's own hides a built-in one (`Scope.own`).
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, Literal, NamedTuple

Position = tuple[int, int]
"""A line and a column, as the syntax tree has them."""

END: Final = (1 << 60, 0)
"""A position after everything in a program."""
MAX_PLACES: Final = 200_000
"""A program with more places to judge is not read: it takes a gigabyte of memory and a minute."""

_LEAVES: Final = (ast.expr_context, ast.Constant, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)
_COMPOUND: Final = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.TryStar, ast.With, ast.AsyncWith, ast.Match)
_JUDGED: Final = (ast.Import, ast.ImportFrom, ast.AugAssign, ast.Call, ast.Attribute, ast.Subscript)


class Binding(NamedTuple):
    """The value that a name gets: that of an expression or, with `inside`, that of an element of a container."""

    expression: ast.expr
    scope: Scope
    inside: bool = False


@dataclass(eq=False, slots=True)
class Scope:
    """A module, class, function or comprehension, and everything that its names are bound to.

    A binding is that of an expression, the full name of an import, or `None` for an unknown value. From the position in
    `own` on, a name is certainly the scope's own. `elsewhere` has the scopes of names declared `global` or `nonlocal`.
    """

    kind: Literal["module", "class", "function", "comprehension"]
    parent: Scope | None = None
    begins: Position | None = None
    """The start of the top-level statement that contains a function or its body; else `None`."""
    bindings: dict[str, list[Binding | str | None]] = field(default_factory=dict)
    own: dict[str, Position] = field(default_factory=dict)
    elsewhere: dict[str, Scope] = field(default_factory=dict)


class Place(NamedTuple):
    """One node of the tree and its surroundings.

    `certain` is true where the node always runs, once and in the order of the text. `source` is the value that the
    names of an assignment's target get.
    """

    node: ast.AST
    parent: ast.AST
    scope: Scope
    annotation: bool = False
    certain: bool = False
    source: Binding | None = None


class Scopes:
    """The scopes of one program and its places to judge. Bodies of functions are read after the code around them."""

    def __init__(self, tree: ast.Module, inputs: Mapping[str, object]) -> None:
        self.module = Scope("module")
        self.places: list[Place] = []
        self.functions: set[str] = set()
        """Names of functions and methods that the program defines."""
        self.imports: list[str] = []
        """Full names of what the program imports, such as `os` and `os.*`."""
        self.acts: list[Position] = []
        """Positions of the module's statements that can call a function of the program."""
        self._begins = self._ends = (0, 0)
        for name, value in inputs.items():
            self._bind(self.module, name, Binding(ast.Constant(value), self.module), certain=True)  # type: ignore[arg-type]
        self._later = deque([[Place(statement, tree, self.module, certain=True) for statement in tree.body]])
        while self._later and len(self.places) <= MAX_PLACES:
            waiting = self._later.popleft()[::-1]
            while waiting and len(self.places) <= MAX_PLACES:
                waiting.extend(reversed([*self._enter(waiting.pop())]))
        self.acts.append(END)

    def _enter(self, place: Place) -> Iterator[Place]:
        """Record one node, and yield the places directly below it."""
        node, scope = place.node, place.scope
        if place.certain and isinstance(node, ast.stmt):
            self._ends = (node.end_lineno or 0, node.end_col_offset or 0)
            if scope is self.module:
                self._begins = (node.lineno, node.col_offset)
        if scope.begins is None and _can_call(place):
            self.acts.append(self._begins)
        if isinstance(node, _JUDGED) or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)):
            self.places.append(place)
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                return self._function(node, place)
            case ast.ClassDef():
                self._bind(scope, node.name, certain=place.certain)
                inner = Scope("class", scope, scope.begins)
                return chain(
                    _below(place, *_around(node), *node.bases, *node.keywords),
                    (Place(statement, node, inner, certain=True) for statement in node.body),
                )
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return self._comprehension(node, place)
            case ast.NamedExpr():
                while scope.kind == "comprehension" and scope.parent:
                    scope = scope.parent
                target = Place(node.target, node, scope, source=Binding(node.value, place.scope))
                return chain([target], _below(place, node.value))
            case ast.Tuple(elts=targets) | ast.List(elts=targets) if parts := _parts(targets, place.source):
                return (
                    place._replace(node=target, parent=node, source=part)
                    for target, part in zip(targets, parts, strict=True)
                )
            case ast.Import() | ast.ImportFrom():
                self._import(node, place)
            case ast.Name(ctx=ast.Store()) if place.source or not isinstance(place.parent, ast.AnnAssign):
                self._bind(scope, node.id, place.source, certain=place.certain)
            case ast.Name(ctx=ast.Del()):
                scope.elsewhere.get(node.id, scope).own[node.id] = END
            case ast.ExceptHandler(name=str(name)):
                self._bind(scope, name)
                scope.elsewhere.get(name, scope).own[name] = END  # an `except` clause unbinds its name at the end
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
                self._bind(scope, name, place.source)
            case ast.Global():
                scope.elsewhere.update(dict.fromkeys(node.names, self.module))
            case ast.Nonlocal():
                scope.elsewhere.update((name, _owner(scope, name)) for name in node.names)
        source, note = _source(place), getattr(node, "annotation", None)
        certain = place.certain and not isinstance(node, _COMPOUND)
        return (
            Place(child, node, scope, place.annotation or child is note, certain, source)
            for child in ast.iter_child_nodes(node)
            if not isinstance(child, _LEAVES)
        )

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, place: Place) -> Iterator[Place]:
        inner = Scope("function", place.scope, place.scope.begins or self._begins)
        given = node.args
        positional = [*given.posonlyargs, *given.args]
        # A caller's arguments are unknown.
        inner.bindings = {
            arg.arg: [None] for arg in (*positional, *given.kwonlyargs, given.vararg, given.kwarg) if arg is not None
        }
        optional = [*positional[len(positional) - len(given.defaults) :], *given.kwonlyargs]
        for arg, default in zip(optional, [*given.defaults, *given.kw_defaults], strict=True):
            if default is not None:
                self._bind(inner, arg.arg, Binding(default, place.scope))
        body: list[ast.AST] = [node.body] if isinstance(node, ast.Lambda) else [*node.body]
        self._later.append([Place(part, node, inner) for part in body])
        if not isinstance(node, ast.Lambda):
            self.functions.add(node.name)
            self._bind(place.scope, node.name, certain=place.certain)
        returns = _below(place._replace(annotation=True), getattr(node, "returns", None))
        return chain(_below(place, *_around(node), given), returns)

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, place: Place
    ) -> Iterator[Place]:
        inner, around = Scope("comprehension", place.scope, place.scope.begins), place.scope
        for generator in node.generators:
            yield Place(generator.iter, generator, around)
            yield Place(generator.target, generator, inner, source=Binding(generator.iter, around, inside=True))
            yield from (Place(condition, generator, inner) for condition in generator.ifs)
            around = inner
        for element in [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]:
            yield Place(element, node, inner)

    def _import(self, node: ast.Import | ast.ImportFrom, place: Place) -> None:
        for alias in node.names:
            module = imported(node, alias)
            outermost = module.partition(".")[0]
            name, path = alias.asname or outermost, module if alias.asname else outermost
            if isinstance(node, ast.ImportFrom):
                name, path = alias.asname or alias.name, f"{module}.{alias.name}"
            self.imports.append(path)
            if name != "*":
                self._bind(place.scope, name, path, certain=place.certain)

    def _bind(self, scope: Scope, name: str, binding: Binding | str | None = None, *, certain: bool = False) -> None:
        scope.elsewhere.get(name, scope).bindings.setdefault(name, []).append(binding)
        if certain:
            scope.own.setdefault(name, self._ends)


def imported(node: ast.Import | ast.ImportFrom, alias: ast.alias) -> str:
    """Return the module that an import loads, with the dots of a relative one."""
    return alias.name if isinstance(node, ast.Import) else "." * node.level + (node.module or "")


def _below(place: Place, *nodes: ast.AST | None) -> Iterator[Place]:
    return (Place(node, place.node, place.scope, place.annotation) for node in nodes if node is not None)


def _around(node: ast.AST) -> Iterable[ast.AST]:
    """Return the decorators of a function or class, and its type parameters (Python 3.12)."""
    return (*getattr(node, "decorator_list", ()), *getattr(node, "type_params", ()))


def _can_call(place: Place) -> bool:
    """Return true if a node that is in no function can call one of the program's."""
    acts = (ast.Call,) if place.annotation else (ast.expr, ast.keyword, ast.Assert, *_COMPOUND)
    passive = isinstance(place.node, (ast.Name, ast.Lambda)) and not isinstance(
        place.parent, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    )
    return isinstance(place.node, acts) and not passive


def _source(place: Place) -> Binding | None:
    """Return the value that the assignment targets directly below a node get, or `None`."""
    match place.node:
        case (
            ast.Assign(value=ast.expr() as value)
            | ast.AnnAssign(value=ast.expr() as value)
            | ast.withitem(context_expr=value)
            | ast.Match(subject=value)
        ):
            return Binding(value, place.scope)
        case ast.For(iter=value) | ast.AsyncFor(iter=value):
            return Binding(value, place.scope, inside=True)
        case ast.match_case() | ast.MatchAs() | ast.MatchOr():
            return place.source
        case ast.Tuple() | ast.List() | ast.Starred() | ast.pattern():
            return place.source and place.source._replace(inside=True)
    return None


def _parts(targets: list[ast.expr], source: Binding | None) -> list[Binding]:
    """Return the binding of each target, if both sides of an assignment are tuples or lists of the same shape."""
    match source:
        case Binding(ast.Tuple(elts=values) | ast.List(elts=values), scope, False) if len(values) == len(targets):
            if not any(isinstance(part, ast.Starred) for part in (*targets, *values)):
                return [Binding(value, scope) for value in values]
    return []


def _owner(scope: Scope, name: str) -> Scope:
    """Return the function around a scope to which a `nonlocal` name belongs."""
    outer = scope.parent
    while outer is not None and (outer.kind != "function" or name not in outer.bindings):
        outer = outer.parent
    return outer or scope
