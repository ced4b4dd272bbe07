"""Reading one program: its tree is walked once, and each place that meets a rule becomes a finding or a tool call."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from typing import Final

from actbox.core.program import Program
from actbox.tools import Toolset

from . import catalogue
from .calls import judge
from .findings import Finding, Review, ToolCall
from .functions import ACTING_IMPORTS, CALLED
from .methods import telling
from .names import Names
from .rules import RULES, Rules
from .scopes import LEAVES, Scope, ScopeReader, Visit
from .selection import Place, select
from .source import MAX_NODES, Lines, Unread, parse, plain
from .values import PLAIN, Ref, Text, ToolFunction, Unknown, Value, Values

Tools = Toolset | Iterable[str] | None

_UNREADABLE: Final = frozenset(
    ["syntax", "not-read", "code", "dynamic", "introspection", "unpickle", "native"],
)
"""Rules whose findings may stand for any tool call: nobody can tell what such code calls."""

_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
_HOLDERS: Final = frozenset(["__main__", "builtins", "sys.modules", *catalogue.IMPORT_PATHS])


def review(program: Program | str, rules: Rules | None = None, *, tools: Tools = None) -> Review:
    """Read a program and return what it does, judged by `rules` (by default each rule's own verdict).

    `tools` are those of the run, as `tool_calls` takes them. Source that does not parse is a finding (`syntax`), and so
    is what is not Python, too large or too involved (`not-read`); nothing is raised for any source. It is read by the
    grammar of the Python that this runs on. Of more than a thousand findings those are listed that `rules` judge most
    strictly, and the last one (of each verdict) says how many more there are of which rules; the verdict is that on all
    of them. This is advice on top of isolation, never instead of it.
    """
    rules = rules or Rules()
    return Review(_Reading(_as_program(program), tools).findings(rules), rules)


def tool_calls(program: Program | str, names: Tools = None) -> tuple[ToolCall, ...]:
    """Return the calls of tools that a program may make, in the order of its lines.

    `names` are the run's tools: a toolset, or the names by which programs call them. Without them only `call_tool` is
    recognized. Where any part of the program cannot be followed (code made at run time, names found at run time, source
    that does not parse) there is a call with `tool=None` for it: it may be any tool. What tells nobody is a module of
    the program's own, written to the workspace and imported, that calls tools through `__main__`.
    """
    return tuple(_Reading(_as_program(program), names).calls)


def _as_program(program: Program | str) -> Program:
    return program if isinstance(program, Program) else Program(program)


class _Reading:
    """The findings and tool calls of one program."""

    def __init__(self, program: Program, tools: Tools) -> None:
        self.calls: list[ToolCall] = []
        self._lines = Lines(plain(program.code))
        self._toolset = tools if isinstance(tools, Toolset) else None
        self._told = tools is not None
        self._found: dict[tuple[str, int, int, str], str] = {}
        tree = parse(program)
        if isinstance(tree, Unread):
            self._add_unread(tree)
        else:
            self._read(tree, program, _by_alias(tools))
        self.calls.sort(key=lambda call: (call.line, call.column))

    def findings(self, rules: Rules) -> tuple[Finding, ...]:
        """Return the findings in the order of the lines; of too many, those that count and one for the others."""
        found = [
            Place(line, column, number, rule, subject, message)
            for number, ((rule, line, column, subject), message) in enumerate(self._found.items())
        ]
        listed, others = select(found, rules)
        return tuple(self._finding(place) for place in (*listed, *others))

    def _finding(self, place: Place) -> Finding:
        return Finding(
            rule=place.rule,
            severity=RULES[place.rule].severity,
            line=place.line,
            column=place.column,
            message=place.message,
            subject=place.subject,
            source=self._lines.shown(place.line),
            stands_for=place.stands_for,
        )

    def _read(self, tree: ast.Module, program: Program, tools: Mapping[str, str]) -> None:
        try:
            scopes = ScopeReader(tree, program.inputs)
            if len(scopes.visits) > MAX_NODES:
                self._add_unread(Unread("not-read", f"the program has more than {MAX_NODES:,} parts; none was read"))
                return
            self._names = Names(scopes, tools, program.inputs)
            self._callees = {id(v.node.func) for v in scopes.visits if isinstance(v.node, ast.Call)}
            self._callees |= {id(decorator) for v in scopes.visits for decorator in _decorators(v.node)}
            self._own = frozenset(v.node.name for v in scopes.visits if isinstance(v.node, _FUNCTIONS))
            self._frames = any(_names_pandas(v.node) for v in scopes.visits)
            for visit in scopes.visits:
                self._visit(visit)
            gave_up = self._names.gave_up
        except RecursionError:
            gave_up = tree
        if gave_up is not None:
            line, column = self._place(gave_up)
            message = "the program is too involved to follow; there may be more than was found"
            self._add_unread(Unread("not-read", message, line, column))

    def _visit(self, visit: Visit) -> None:
        node = visit.node
        if isinstance(node, LEAVES):
            return
        match node:
            case ast.Import() | ast.ImportFrom():
                self._import(node, visit.scope)
            case ast.Call():
                self._call(node, visit)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                for decorator in _decorators(node):
                    for value in self._names.values(decorator, visit.scope):
                        self._used(value, decorator, called=True)
                        self._handed_on(value, decorator)
            case ast.AugAssign(target=ast.Name(id=name)):
                place = (node.lineno, node.col_offset)
                self._changed(node, self._names.look_up(name, visit.scope, place))
            case ast.Subscript(ctx=ast.Load()):
                self._subscript(node, visit.scope)
        if isinstance(node, ast.Attribute) and node.attr in catalogue.REACHING:
            self._add("introspection", node, f"reads {node.attr}", node.attr)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            rule = telling(node, self._names.values(node, visit.scope), self._own)
            if rule is not None:
                self._add(rule, node, f"uses {node.attr}, which {RULES[rule].about}", node.attr)
        if isinstance(node, ast.Name) and node.id in catalogue.REACHING_NAMES:
            self._add("introspection", node, f"reads {node.id}", node.id)
        loaded = isinstance(node, ast.Call) or isinstance(getattr(node, "ctx", None), ast.Load)
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript, ast.Call)) and loaded:
            if id(node) in self._callees:
                return
            self._mention(node, visit)
        elif isinstance(node, (ast.Attribute, ast.Subscript)):
            self._changed(node, self._names.values(node.value, visit.scope))
            if isinstance(node, ast.Attribute):
                for value in self._names.values(node.value, visit.scope):
                    if isinstance(value, Ref) and f"{value.path}.{node.attr}" in catalogue.IMPORT_PATHS:
                        self._changed(node, frozenset([Ref(f"{value.path}.{node.attr}")]))

    def _import(self, node: ast.Import | ast.ImportFrom, scope: Scope) -> None:
        for alias in node.names:
            module = alias.name if isinstance(node, ast.Import) else "." * node.level + (node.module or "")
            named = f", which is named {alias.asname} here" if alias.asname and isinstance(node, ast.Import) else ""
            self._add("import", node, f"imports {module}{named}", module)
            for loaded in (module,) if isinstance(node, ast.Import) else (module, f"{module}.{alias.name}"):
                if loaded in ACTING_IMPORTS:
                    rule = ACTING_IMPORTS[loaded]
                    self._add(rule, node, f"imports {loaded}, which at once {RULES[rule].about}", loaded)
            path = catalogue.canonical(module if isinstance(node, ast.Import) else f"{module}.{alias.name}")
            if isinstance(node, ast.ImportFrom) and alias.name in catalogue.REACHING:
                self._add("introspection", node, f"imports {alias.name}", alias.name)
            if scope.kind == "class":
                # It can then be reached as an attribute of the class, which is not followed.
                for value in (Ref(path),):
                    self._used(value, node, called=False)
                    self._handed_on(value, node)

    def _call(self, node: ast.Call, visit: Visit) -> None:
        given = self._names.arguments(node, visit.scope)
        for value in self._names.values(node.func, visit.scope):
            if isinstance(value, ToolFunction):
                self._tool_call(value, node, given)
            elif isinstance(value, Unknown) and value.unbound and self._told:
                self.calls.append(self._any_tool(node))
            else:
                self._used(value, node, called=True)
        for rule, message, subject in judge(node, visit.scope, self._names, given, frames=self._frames):
            self._add(rule, node, message, subject)

    def _subscript(self, node: ast.Subscript, scope: Scope) -> None:
        for value in self._names.values(node.value, scope):
            if not isinstance(value, Ref) or not (value.path.endswith(".__dict__") or value.path == "sys.modules"):
                continue
            if not isinstance(node.slice, ast.Constant):
                self._add("dynamic", node, f"looks up a name in {value.path} that is made at run time", value.path)

    def _changed(self, node: ast.AST, holders: Values) -> None:
        """Look at an assignment to, or deletion from, what a module's names are kept in: a reader follows none."""
        for value in holders:
            if isinstance(value, Ref) and (value.path in _HOLDERS or value.path.endswith(".__dict__")):
                self._add("dynamic", node, f"changes what is in {value.path}, which is not followed", value.path)

    def _mention(self, node: ast.expr, visit: Visit) -> None:
        """Look at an expression that is not what is called: an alias, or a function handed on as a value."""
        if visit.annotation and not isinstance(node, ast.Call):
            return
        parent = visit.parent
        is_base = isinstance(parent, ast.Attribute)
        followed = is_base or self._is_alias(node, parent, visit.scope)
        for value in self._names.values(node, visit.scope):
            self._used(value, node, called=False)
            if not followed:
                self._handed_on(value, node)

    def _is_alias(self, node: ast.expr, parent: ast.AST, scope: Scope) -> bool:
        """Return whether the value only gets another name here, which is followed, or is only looked at."""
        match parent:
            case ast.Assign():
                return scope.kind != "class" and all(isinstance(target, ast.Name) for target in parent.targets)
            case ast.AnnAssign():
                return scope.kind != "class" and isinstance(parent.target, ast.Name)
            case ast.NamedExpr():
                return scope.kind != "class"
            case ast.Expr() | ast.If() | ast.While() | ast.Assert() | ast.Delete():
                return True
            case ast.Call():
                looks = [value for value in self._names.values(parent.func, scope) if isinstance(value, Ref)]
                safe = {"builtins.getattr", "builtins.hasattr", "builtins.dir", "builtins.vars", "builtins.print"}
                safe |= {"builtins.type", "builtins.isinstance", "builtins.repr", "builtins.help"}
                return bool(looks) and all(value.path in safe for value in looks)
            case ast.Subscript():
                return parent.value is node
        return False

    def _used(self, value: Value, node: ast.AST, *, called: bool) -> None:
        """Add a finding if a value is a function that counts by being mentioned, or called."""
        if not isinstance(value, Ref):
            return
        path = value.path
        rule = catalogue.rule_of(path)
        if rule is None and catalogue.network_use(path) and (called or path.rpartition(".")[2].islower()):
            # The module of a package, such as requests.adapters, is no use of it; a function that is handed on is.
            rule = "network" if called or not isinstance(node, ast.Import) else None
        if rule is not None:
            verb = "calls" if called else "names"
            self._add(rule, node, f"{verb} {path}, which {RULES[rule].about}", path)
        if path.rpartition(".")[2] in catalogue.REACHING and not isinstance(node, (ast.Attribute, ast.Name)):
            self._add("introspection", node, f"reads {path}", path.rpartition(".")[2])

    def _handed_on(self, value: Value, node: ast.AST) -> None:
        if isinstance(value, Ref):
            path = value.path.removesuffix(".__dict__")
            if path in catalogue.SENSITIVE or path == "__main__":
                what = "its own names" if path == "__main__" else f"the module {path}"
                self._add("dynamic", node, f"hands {what} on as a value; what is done with it is not seen", path)
            elif path in ("builtins.getattr", "builtins.globals", "builtins.vars", "builtins.locals"):
                self._add("dynamic", node, f"hands {path} on as a value; what is done with it is not seen", path)
            elif path in CALLED:
                rule = CALLED[path]
                self._add(rule, node, f"hands {path} on as a value, which {RULES[rule].about}", path)
        elif isinstance(value, ToolFunction):
            line, column = self._place(node)
            self.calls.append(ToolCall(tool=value.name, line=line, column=column, dynamic=True))
            rule = "dynamic-tool" if value.name is None else "tool"
            what = f"the tool {value.name}" if value.name else "call_tool"
            self._add(rule, node, f"hands {what} on as a value", value.name or "call_tool")

    def _tool_call(self, function: ToolFunction, node: ast.Call, given: list[Values]) -> None:
        line, column = self._place(node)
        positional = node.args
        names: Iterable[str | None] = [function.name]
        if function.name is None:
            first = given[0] if given else PLAIN
            names = sorted({value.text for value in first if isinstance(value, Text) and value.whole})
            if not first or any(not isinstance(value, Text) or not value.whole for value in first):
                names = [*names, None]
            positional = positional[1:]
        for name in names:
            real, parameters = self._tool(name)
            arguments, complete = _literals(positional, node.keywords, parameters)
            self.calls.append(
                ToolCall(
                    tool=real, arguments=arguments, complete=complete, line=line, column=column, dynamic=real is None
                )
            )
            if real is None:
                self._add("dynamic-tool", node, "calls a tool whose name is made at run time", "call_tool")
            else:
                self._add("tool", node, f"calls the tool {real}", real)

    def _tool(self, name: str | None) -> tuple[str | None, tuple[str, ...]]:
        """Return a tool's own name, and its parameters where they are known."""
        tool = self._toolset.get(name) if self._toolset is not None and name is not None else None
        return (name, ()) if tool is None else (tool.name, tuple(tool.parameters))

    def _any_tool(self, node: ast.AST) -> ToolCall:
        line, column = self._place(node)
        return ToolCall(tool=None, line=line, column=column, dynamic=True)

    def _place(self, node: ast.AST) -> tuple[int, int]:
        line = getattr(node, "lineno", 1)
        return line, self._lines.column(line, getattr(node, "col_offset", 0))

    def _add(self, rule: str, node: ast.AST, message: str, subject: str) -> None:
        line, column = self._place(node)
        self._add_at(rule, message, subject, line, column)

    def _add_unread(self, unread: Unread) -> None:
        self._add_at(unread.rule, unread.message, "", unread.line, unread.column)

    def _add_at(self, rule: str, message: str, subject: str, line: int, column: int) -> None:
        if (rule, line, column, subject) in self._found:
            return
        self._found[rule, line, column, subject] = message
        if rule in _UNREADABLE:
            self.calls.append(ToolCall(tool=None, line=line, column=column, dynamic=True))


def _names_pandas(node: ast.AST) -> bool:
    match node:
        case ast.Import():
            return any(alias.name.partition(".")[0] == "pandas" for alias in node.names)
        case ast.ImportFrom(module=str(module)):
            return module.partition(".")[0] == "pandas"
    return False


def _decorators(node: ast.AST) -> list[ast.expr]:
    return node.decorator_list if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) else []


def _by_alias(tools: Tools) -> dict[str, str]:
    """Return the tools' own names by what programs call them."""
    if tools is None:
        return {}
    if isinstance(tools, Toolset):
        return {alias: name for name, alias in tools.aliases.items()}
    return {name: name for name in ([tools] if isinstance(tools, str) else tools)}


def _literals(
    positional: list[ast.expr], keywords: list[ast.keyword], parameters: tuple[str, ...]
) -> tuple[dict[str, object], bool]:
    """Return the arguments that are literals, and whether those are all."""
    found: dict[str, object] = {}
    complete = True
    for number, node in enumerate(positional):
        if isinstance(node, ast.Starred):
            complete = False
            break  # what follows has no place that is known
        name = parameters[number] if number < len(parameters) else str(number)
        complete &= _literal(node, name, found)
    for keyword in keywords:
        complete &= keyword.arg is not None and _literal(keyword.value, keyword.arg, found)
    return found, complete


def _literal(node: ast.expr, name: str, found: dict[str, object]) -> bool:
    try:
        found[name] = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return True
