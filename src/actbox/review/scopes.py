"""The scopes of a program, and everything that each name in them may be bound to.

A program is read without following its order: a name may have any value that is ever bound to it in its scope. Order
counts in one place only, whether a name of the program's own hides one that is built in (`Scope.hides`).
"""

from __future__ import annotations

import ast
import bisect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

Place = tuple[int, int]
"""A line and a column, as the syntax tree has them."""

How = Literal["module", "value", "element", "deep", "own"]
"""What a binding gives: a module or its member, an expression's value, one element of it, anything inside it, or
something of the program's own that nothing is known of."""


@dataclass(eq=False, slots=True)
class Binding:
    """One place where a name gets a value. `expression` is evaluated in `scope`."""

    how: How
    scope: Scope
    after: Place
    expression: ast.expr | None = None
    path: str = ""
    certain: bool = False


@dataclass(eq=False, slots=True)
class Scope:
    """A module, class or function (comprehensions are functions) with what its names are bound to."""

    kind: Literal["module", "class", "function"]
    parent: Scope | None = None
    comprehension: bool = False
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)
    globals: set[str] = field(default_factory=set)
    nonlocals: set[str] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)
    begins: Place = (0, 0)
    """Where the statement of the module begins that this scope lies in."""
    acts: list[Place] = field(default_factory=list)
    """The module only: where the statements begin that do more than define and import."""

    def hides(self, name: str, place: Place, later: Place | None) -> bool:
        """Return whether, at a place, a name is certain to be this scope's own and not one that is built in.

        `later` is for a use inside a function: where the statement begins that the function lies in. The function
        cannot have been called before the next statement that acts.
        """
        if name in self.deleted:
            return False
        for binding in self.bindings.get(name, ()):
            if not binding.certain:
                continue
            if binding.after <= place and later is None:
                return True
            if later is not None:
                next_act = bisect.bisect_left(self.acts, later)
                if next_act == len(self.acts) or self.acts[next_act] >= binding.after or binding.after <= later:
                    return True
        return False


@dataclass(frozen=True, slots=True)
class Visit:
    """One node of the tree, with what a reader must know of its surroundings."""

    node: ast.AST
    parent: ast.AST
    scope: Scope
    annotation: bool


_COMPOUND: Final = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.TryStar, ast.With, ast.AsyncWith, ast.Match)

LEAVES: Final = (ast.expr_context, ast.Constant, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)
"""Nodes that are nothing by themselves and have no others in them: more than a third of all."""


class ScopeReader:
    """Walks a tree once, without recursion, and collects its nodes, its scopes and their bindings."""

    def __init__(self, tree: ast.Module, inputs: Iterable[str] = ()) -> None:
        self.module = Scope("module")
        self.visits: list[Visit] = []
        self._scopes = [self.module]
        self._stack: list[tuple[ast.AST, ast.AST, Scope, bool, bool]] = []
        for name in inputs:
            self._bind(self.module, name, Binding("own", self.module, (0, 0), certain=True))
        for statement in tree.body:
            if not _only_defines(statement):
                self.module.acts.append(_begin(statement))
        for statement in reversed(tree.body):
            self._stack.append((statement, tree, self.module, True, False))
        while self._stack:
            node, parent, scope, certain, annotation = self._stack.pop()
            if parent is tree:
                self._top = _begin(node)
            self.visits.append(Visit(node, parent, scope, annotation))
            if not isinstance(node, LEAVES):
                self._enter(node, scope, certain, annotation)
        self._redistribute()

    def bindings(self) -> Iterator[tuple[Scope, str, Binding]]:
        """Yield every binding, with the scope and the name that it is for."""
        for scope in self._scopes:
            for name, bindings in scope.bindings.items():
                for binding in bindings:
                    yield scope, name, binding

    def _push(self, nodes: Iterable[ast.AST | None], parent: ast.AST, scope: Scope, certain: bool, note: bool) -> None:
        for node in nodes:
            if node is not None:
                self._stack.append((node, parent, scope, certain, note))

    def _enter(self, node: ast.AST, scope: Scope, certain: bool, annotation: bool) -> None:
        after = _end(node)
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._bind(scope, node.name, Binding("own", scope, after, certain=certain))
                self._function(node, node.body, scope)
                self._push(node.decorator_list, node, scope, False, False)
                self._push([node.returns], node, scope, False, True)
            case ast.Lambda():
                self._function(node, [node.body], scope)
            case ast.ClassDef():
                self._bind(scope, node.name, Binding("own", scope, after, certain=certain))
                inner = self._scope("class", scope)
                self._type_parameters(node, inner)
                self._push(node.body, node, inner, True, False)
                self._push([*node.decorator_list, *node.bases, *node.keywords], node, scope, False, False)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                self._comprehension(node, scope)
            case ast.Import() | ast.ImportFrom():
                self._import(node, scope, certain)
            case _:
                self._assignments(node, scope, after, certain)
                inside = certain and not isinstance(node, _COMPOUND)
                for child in ast.iter_child_nodes(node):
                    note = annotation or (isinstance(node, (ast.AnnAssign, ast.arg)) and child is node.annotation)
                    self._stack.append((child, node, scope, inside, note))

    def _function(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, body: Iterable[ast.AST], scope: Scope
    ) -> None:
        inner = self._scope("function", scope)
        self._type_parameters(node, inner)
        given = node.args
        positional = [*given.posonlyargs, *given.args]
        defaults: dict[str, ast.expr | None] = {arg.arg: None for arg in (*positional, *given.kwonlyargs)}
        with_default = positional[len(positional) - len(given.defaults) :]
        defaults.update(zip((arg.arg for arg in with_default), given.defaults, strict=True))
        defaults.update(zip((arg.arg for arg in given.kwonlyargs), given.kw_defaults, strict=True))
        extra = [arg.arg for arg in (given.vararg, given.kwarg) if arg]
        for name in (*defaults, *extra):
            self._bind(inner, name, Binding("deep", scope, _end(node)))  # what a caller gives is not known
        for name, default in defaults.items():
            if default is not None:
                self._bind(inner, name, Binding("value", scope, _end(node), default))
        self._push(body, node, inner, False, False)
        self._push([*given.defaults, *given.kw_defaults], node, scope, False, False)
        annotated = [*positional, *given.kwonlyargs, given.vararg, given.kwarg]
        self._push([arg.annotation for arg in annotated if arg], node, scope, False, True)

    def _type_parameters(self, node: ast.AST, inner: Scope) -> None:
        for parameter in getattr(node, "type_params", ()):  # from Python 3.12 on
            self._bind(inner, parameter.name, Binding("own", inner, _end(node)))
            self._push(ast.iter_child_nodes(parameter), parameter, inner, False, True)

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, scope: Scope) -> None:
        inner = self._scope("function", scope, comprehension=True)
        elements = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        self._push(elements, node, inner, False, False)
        for number, generator in enumerate(node.generators):
            where = inner if number else scope
            self._target(generator.target, "element", generator.iter, where, inner, _end(node), False)
            self._push([generator.iter], generator, where, False, False)
            self._push([generator.target, *generator.ifs], generator, inner, False, False)

    def _import(self, node: ast.Import | ast.ImportFrom, scope: Scope, certain: bool) -> None:
        after = _end(node)
        for alias in node.names:
            if isinstance(node, ast.Import):
                path = alias.name if alias.asname else alias.name.partition(".")[0]
                name = alias.asname or path
            else:
                module = "." * node.level + (node.module or "")
                if alias.name == "*":
                    self.module.stars.append(module)
                    continue
                path, name = f"{module}.{alias.name}", alias.asname or alias.name
            self._bind(scope, name, Binding("module", scope, after, path=path, certain=certain))

    def _assignments(self, node: ast.AST, scope: Scope, after: Place, certain: bool) -> None:
        match node:
            case ast.Assign():
                for target in node.targets:
                    self._target(target, "value", node.value, scope, scope, after, certain)
            case ast.AnnAssign(value=ast.expr()):
                self._target(node.target, "value", node.value, scope, scope, after, certain)
            case ast.NamedExpr():
                holder = scope
                while holder.comprehension and holder.parent:
                    holder = holder.parent
                self._target(node.target, "value", node.value, scope, holder, after, False)
            case ast.AugAssign(target=ast.Name(id=name)):
                old = ast.copy_location(ast.Name(name, ast.Load()), node)
                new = ast.copy_location(ast.BinOp(old, node.op, node.value), node)
                self._bind(scope, name, Binding("value", scope, after, new))
            case ast.For() | ast.AsyncFor():
                self._target(node.target, "element", node.iter, scope, scope, after, False)
            case ast.withitem(optional_vars=ast.expr()):
                self._target(node.optional_vars, "deep", node.context_expr, scope, scope, after, False)
            case ast.ExceptHandler(name=str(name)):
                # The name is unbound where the handler ends.
                scope.deleted.add(name)
                self._bind(scope, name, Binding("own", scope, after))
            case ast.Match():
                for case in node.cases:
                    self._pattern(case.pattern, node.subject, scope, after)
            case ast.Delete():
                for target in node.targets:
                    names = ast.walk(target)
                    scope.deleted.update(part.id for part in names if isinstance(part, ast.Name))
            case ast.Global():
                scope.globals.update(node.names)
            case ast.Nonlocal():
                scope.nonlocals.update(node.names)
        if type(node).__name__ == "TypeAlias":  # from Python 3.12 on
            for part in ast.walk(node):
                if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                    self._bind(scope, part.id, Binding("own", scope, after, certain=certain))

    def _target(
        self,
        target: ast.expr | None,
        how: How,
        value: ast.expr | None,
        scope: Scope,
        holder: Scope,
        after: Place,
        certain: bool,
    ) -> None:
        """Bind the names of an assignment's target, in `holder`, to a value that is evaluated in `scope`."""
        waiting: list[tuple[ast.expr | None, How, ast.expr | None]] = [(target, how, value)]
        while waiting:
            target, how, value = waiting.pop()
            match target:
                case ast.Name(id=name):
                    self._bind(holder, name, Binding(how, scope, after, value, certain=certain))
                case ast.Starred():
                    waiting.append((target.value, "deep", value))
                case ast.Tuple() | ast.List():
                    values = _same_shape(target, value) if how == "value" else None
                    for number, part in enumerate(target.elts):
                        if values is not None:
                            waiting.append((part, "value", values[number]))
                        else:
                            waiting.append((part, "element" if how == "value" else "deep", value))

    def _pattern(self, pattern: ast.pattern, subject: ast.expr, scope: Scope, after: Place) -> None:
        waiting: list[tuple[ast.pattern, bool]] = [(pattern, True)]
        while waiting:
            pattern, whole = waiting.pop()
            how: How = "value" if whole else "deep"
            match pattern:
                case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                    self._bind(scope, name, Binding(how, scope, after, subject))
                case ast.MatchMapping(rest=str(name)):
                    self._bind(scope, name, Binding("deep", scope, after, subject))
            keep = whole and isinstance(pattern, (ast.MatchAs, ast.MatchOr))
            waiting.extend((part, keep) for part in ast.iter_child_nodes(pattern) if isinstance(part, ast.pattern))

    def _scope(self, kind: Literal["class", "function"], parent: Scope, comprehension: bool = False) -> Scope:
        scope = Scope(kind, parent, comprehension, begins=self._top)
        self._scopes.append(scope)
        return scope

    @staticmethod
    def _bind(scope: Scope, name: str, binding: Binding) -> None:
        scope.bindings.setdefault(name, []).append(binding)

    def _redistribute(self) -> None:
        """Give what is declared `global` or `nonlocal` to the scopes that it belongs to."""
        for scope in self._scopes:
            for name in scope.globals | scope.nonlocals:
                owner = self.module if name in scope.globals else _enclosing(scope, name)
                if owner is None or owner is scope:
                    continue
                for binding in scope.bindings.pop(name, ()):
                    binding.certain = False
                    self._bind(owner, name, binding)
                if name in scope.deleted:
                    owner.deleted.add(name)


def _enclosing(scope: Scope, name: str) -> Scope | None:
    outer = scope.parent
    while outer is not None and (outer.kind != "function" or name not in outer.bindings or name in outer.nonlocals):
        outer = outer.parent
    return outer


def _same_shape(target: ast.Tuple | ast.List, value: ast.expr | None) -> list[ast.expr] | None:
    if not isinstance(value, (ast.Tuple, ast.List)) or len(value.elts) != len(target.elts):
        return None
    plain = not any(isinstance(part, ast.Starred) for part in (*target.elts, *value.elts))
    return value.elts if plain else None


def _only_defines(statement: ast.stmt) -> bool:
    """Return whether a statement calls nothing, so that no function of the program runs by it."""
    match statement:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            defaults = [default for default in (*statement.args.defaults, *statement.args.kw_defaults) if default]
            return not statement.decorator_list and all(isinstance(default, ast.Constant) for default in defaults)
        case ast.ClassDef():
            bare = not (statement.decorator_list or statement.bases or statement.keywords)
            return bare and all(_only_defines(inner) for inner in statement.body)
        case ast.Import() | ast.ImportFrom() | ast.Pass():
            return True
        case ast.Assign() | ast.Expr():
            return isinstance(statement.value, ast.Constant)
    return False


def _begin(node: ast.AST) -> Place:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def _end(node: ast.AST) -> Place:
    return getattr(node, "end_lineno", 0) or 0, getattr(node, "end_col_offset", 0) or 0
