"""The reader of one program in Python: each place of its tree that meets a rule becomes a finding or a tool call."""

from __future__ import annotations

import ast
import contextlib
import os
import re
from collections.abc import Sequence
from itertools import chain, takewhile
from typing import Final

from actbox.core.errors import Unsupported
from actbox.core.program import Program
from actbox.tools import Toolset

from . import catalogue
from .findings import Findings, Tools
from .rules import RULES, Review, Rules, ToolCall, select
from .scopes import MAX_PLACES, Place, Scope, Scopes, imported
from .source import MAX_CHARACTERS, Unread, parse, without_pip_commands
from .values import (
    DICT,
    NONE,
    UNKNOWN,
    Items,
    Names,
    Number,
    Ref,
    Text,
    ToolFunction,
    Unknown,
    Value,
    Values,
    is_holder,
    whole_texts,
)

_LOOKS: Final = frozenset(catalogue.all_of("builtins", "getattr hasattr dir vars print type isinstance repr help"))
"""Functions that only inspect their arguments; `getattr` is followed."""
_REACHES_OUT: Final = re.compile(r"__|@\s*\w+\s*[.\[]")
"""A pattern for a column expression that reaches beyond columns, into the program's variables or the interpreter."""
_READING: Final = sum(
    getattr(os, f"O_{name}", 0)
    for name in ("RDONLY", "PATH", "DIRECTORY", "CLOEXEC", "NOFOLLOW", "NONBLOCK", "NOATIME")
)
"""The flags of `os.open` that change nothing, as one number."""


def review(
    program: Program | str,
    rules: Rules | None = None,
    *,
    language: str = "python",
    tools: Tools = None,
    most_characters: int = MAX_CHARACTERS,
) -> Review:
    """Read a program and return what it does, judged by `rules` (by default each rule's own verdict).

    `language` is that of a program given as text. Python is read by the grammar of the running Python, JavaScript
    (`javascript`) by tree-sitter (extra `actbox[review]`). `tools` are those of the run, as `tool_calls` takes them.

    Source that does not parse is a finding (`syntax`). So is source in another language, longer than `most_characters`
    (at most a megabyte, for which Python's own parser holds the interpreter for up to six seconds) or too complex
    (`not-read`); no source raises an exception. Of more than a thousand findings those with the strictest verdicts are
    listed; the last one of each verdict has the number and the rules of the others, and the verdict covers all of them.
    This is advice on top of isolation, never instead of it.
    """
    rules = rules or Rules()
    program = program if isinstance(program, Program) else Program(program, language)
    reading: Findings
    if program.language == "javascript":
        from .javascript import JavaScriptReading  # imported only for JavaScript, since most programs are Python

        reading = JavaScriptReading(program, tools, most_characters)
    else:
        reading = _Reading(program, tools, most_characters)
    return Review(tuple(select(reading.found.values(), rules)), rules)


def check_readable(language: str) -> None:
    """Raise `Unsupported` if programs in a language cannot be reviewed, or the package for it is not installed."""
    if language == "javascript":
        from .javascript_tree import parser

        parser()
    elif language != "python":
        raise Unsupported(f"a review reads Python and JavaScript, and not {language!r}")


def tool_calls(program: Program | str, names: Tools = None) -> tuple[ToolCall, ...]:
    """Return the calls of tools that a program may make, in the order of its lines.

    `names` are the run's tools: a toolset, or the names by which programs call them. Without them only `call_tool` is
    recognized. For any part of the program that cannot be analyzed (code made at run time, names found at run time,
    source that does not parse, or is not Python) there is a call with `tool=None`: it may be any tool. One case is not
    detected: a module that the program writes to the workspace and imports, and that calls tools through `__main__`.
    """
    program = program if isinstance(program, Program) else Program(program)
    return tuple(sorted(_Reading(program, names).calls, key=lambda call: (call.line, call.column)))


class _Arguments:
    """The possible values of the arguments of one call, by position or name. `spread` means that `*` or `**` hides
    some.
    """

    def __init__(self, call: ast.Call, scope: Scope, names: Names) -> None:
        positional = enumerate(takewhile(lambda argument: not isinstance(argument, ast.Starred), call.args))
        named = [(word.arg, word.value) for word in call.keywords if word.arg]
        self.nodes: dict[int | str, ast.expr] = dict([*positional, *named])
        self.values = {place: names.values(node, scope) for place, node in self.nodes.items()}
        self.spread = len(self.nodes) < len(call.args) + len(call.keywords)
        hiding = [one.value for one in call.args if isinstance(one, ast.Starred)]
        hiding += [one.value for one in call.keywords if not one.arg]
        held = (one.values for node in hiding for one in names.values(node, scope) if isinstance(one, Items))
        self.hidden = NONE.union(*held)
        """The possible values of arguments that `*` or `**` hides, as far as they are known."""

    def at(self, *places: int | str) -> Values:
        """Return the possible values of the argument at the first of several places that is given; an empty set if none
        is.
        """
        return next((self.values[place] for place in places if place in self.values), UNKNOWN if self.spread else NONE)

    def literals(self, parameters: Sequence[str]) -> tuple[dict[str, object], bool]:
        """Return the literal arguments, by parameter name or else position, and whether these are all arguments."""
        found: dict[str, object] = {}
        for place, node in self.nodes.items():
            name = parameters[place] if isinstance(place, int) and place < len(parameters) else str(place)
            with contextlib.suppress(ValueError, TypeError, RecursionError):
                found[name] = ast.literal_eval(node)
        return found, len(found) == len(self.nodes) and not self.spread


class _Reading(Findings):
    """The findings and tool calls of one program."""

    def __init__(self, program: Program, tools: Tools, most_characters: int = MAX_CHARACTERS) -> None:
        super().__init__(program, tools)
        tree = parse(program, most_characters)
        if isinstance(tree, Unread):
            self._add(tree.rule, tree, tree.message)
            rest = without_pip_commands(program, tree) if tree.rule == "syntax" else tree
            if isinstance(rest, Unread):
                self._add(rest.rule, rest, rest.message)
                return
            program, tree = rest, parse(rest)
        if not isinstance(tree, Unread) and (gave_up := self._read(tree, program)):
            self._add("not-read", gave_up, "the program is too involved to follow; there may be more than was found")

    def _read(self, tree: ast.Module, program: Program) -> ast.AST | None:
        """Judge a whole program, and return the first part of it that was too complex to follow, or `None`."""
        try:
            self._scopes = Scopes(tree, program.inputs)
            if len(self._scopes.places) > MAX_PLACES:
                return tree
            self._names = Names(self._scopes, self._aliases, len(program.code))
            self._frames = any(path.partition(".")[0] == "pandas" for path in self._scopes.imports)
            for place in self._scopes.places:
                self._judge(place)
        except RecursionError:
            return tree
        return self._names.gave_up

    def _judge(self, place: Place) -> None:
        node, scope = place.node, place.scope
        match node:
            case ast.Import() | ast.ImportFrom():
                self._import(node, in_class=scope.kind == "class")
            case ast.AugAssign():
                self._held(node, self._names.values(node.target, scope))
            case ast.Attribute(ctx=ast.Load()) | ast.Subscript(ctx=ast.Load()) | ast.Name() | ast.Call():
                self._expression(node, place)
            case ast.Attribute(value=holder) | ast.Subscript(value=holder):
                self._by_name(node, getattr(node, "attr", ""), method=False)
                self._held(node, self._names.values(holder, scope))
                self._held(node, self._names.values(node, scope) & frozenset(map(Ref, catalogue.IMPORT_PATHS)))

    def _expression(self, node: ast.expr, place: Place) -> None:
        values = self._names.values(node, place.scope)
        match node:
            case ast.Name(id="__loader__" | "__spec__" as name):
                self._by_name(node, name)
            case ast.Attribute(attr=name):
                own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
                better = all(isinstance(value, Ref) and catalogue.rule_of(value.path) for value in values)
                self._by_name(node, name, method=not better and not (own and name in self._scopes.functions))
            case ast.Subscript(slice=key) if not isinstance(key, ast.Constant):
                self._held(node, self._names.values(node.value, place.scope), changed=False)
            case ast.Call():
                self._call(node, place.scope)
        if getattr(place.parent, "func", None) is not node and (not place.annotation or isinstance(node, ast.Call)):
            self._mentioned(node, values, followed=self._is_followed(node, place))

    def _import(self, node: ast.Import | ast.ImportFrom, *, in_class: bool) -> None:
        for alias in node.names:
            module = imported(node, alias)
            member = module if isinstance(node, ast.Import) else f"{module}.{alias.name}"
            self._add("import", node, f"imports {module}", module)
            for path in {module, member}:
                self._used(path, node, "imports", catalogue.ACTING_IMPORTS.get(path))
            if in_class:  # it can then be reached as an attribute of the class, which is not followed
                self._mentioned(node, frozenset([Ref(catalogue.canonical(member))]), followed=False)

    def _by_name(self, node: ast.AST, text: str, *, method: bool = True) -> None:
        """Judge an attribute, or a dotted path of them, that meets a rule by its name, whatever object has it."""
        for name in re.findall(r"\w+", text):
            rule = catalogue.NAMES.get(name)
            if rule == "introspection" or (rule and method):
                self._add(rule, node, f"uses {name}, which {RULES[rule].about}", name)

    def _held(self, node: ast.AST, holders: Values, *, changed: bool = True) -> None:
        """Judge a change of a module's dictionary of names, or a lookup in it by a name made at run time."""
        for value in holders:
            if isinstance(value, Ref) and (is_holder(value.path) or (changed and value.path in catalogue.HOLDERS)):
                verb = "changes what is" if changed else "looks up a name that is made at run time"
                self._add("dynamic", node, f"{verb} in {value.path}, which is not followed", value.path)

    def _is_followed(self, node: ast.expr, place: Place) -> bool:
        """Return True if a value only gets another name here, which is followed, or is only inspected."""
        match place.parent:
            case ast.Attribute() | ast.Expr() | ast.If() | ast.While() | ast.Assert() | ast.Delete():
                return True
            case ast.Assign(targets=targets):
                return place.scope.kind != "class" and all(isinstance(target, ast.Name) for target in targets)
            case ast.AnnAssign(target=target) | ast.NamedExpr(target=target):
                return place.scope.kind != "class" and isinstance(target, ast.Name)
            case ast.Call(func=function):
                return all(
                    isinstance(value, Ref) and value.path in _LOOKS
                    for value in self._names.values(function, place.scope)
                )
            case ast.Subscript(value=value):
                return value is node
        return False

    def _mentioned(self, node: ast.AST, values: Values, *, followed: bool) -> None:
        """Judge an expression that is mentioned and not called: an alias, or a function passed on as a value."""
        for value in values:
            if isinstance(value, Ref):
                self._used(value.path, node, "names", catalogue.rule_of(value.path))
                path = value.path.removesuffix(DICT)
                if not followed and (rule := catalogue.rule_of_handing_on(path)):
                    self._add(rule, node, f"hands {path} on as a value; what is done with it is not seen", path)
            elif isinstance(value, ToolFunction) and not followed:
                self._add_tool("hands on", node, value.name)

    def _used(self, path: str, node: ast.AST, verb: str, rule: str | None) -> None:
        """Add a finding for a function that meets a rule by being mentioned or called."""
        if rule is not None:
            self._add(rule, node, f"{verb} {path}, which {RULES[rule].about}", path)
        if not isinstance(node, (ast.Attribute, ast.Name)):
            self._by_name(node, path.rpartition(".")[2], method=False)

    def _call(self, node: ast.Call, scope: Scope) -> None:
        given = _Arguments(node, scope, self._names)
        for value in self._names.values(node.func, scope):
            if isinstance(value, ToolFunction):
                self._tool_call(value, node, scope)
            elif isinstance(value, Ref):
                self._used(value.path, node, "calls", catalogue.rule_of_call(value.path))
                self._function(value.path, node, given)
            elif value == Unknown(unbound=True) and self._tools is not None:
                self._add_call(node)
        if isinstance(node.func, ast.Attribute):
            for base in self._names.values(node.func.value, scope):
                self._method(base, node.func.attr, node, given)

    def _method(self, base: Value, name: str, node: ast.Call, given: _Arguments) -> None:
        """Judge a method call that meets a rule by its name and arguments."""
        texts = frozenset([base]) if isinstance(base, Text) else given.at(0, "expr")
        if isinstance(base, Text) and base.path and (access := catalogue.PATH_METHODS.get(name)):
            if access == "opens":
                access = "writes" if _changes("open", given.at(0, "mode")) else "reads"
            others = given.at(0) if name in ("rename", "replace") else NONE
            self._paths(f"pathlib.Path.{name}", texts | others, node, access)
        elif name in ("format", "format_map", "vformat", "get_field"):
            fields = [re.findall(r"[.\[][^{}]*", text.value) for text in texts if isinstance(text, Text)]
            self._by_name(node, " ".join(chain(*fields)), method=False)
        elif name in ("eval", "query") and any(self._runs(text) for text in texts):
            if not isinstance(base, Ref) or ("." in base.path and not catalogue.rule_of(f"{base.path}.{name}")):
                self._add("code", node, f"calls {name}, which runs the text that it is given", name)
        elif name in catalogue.METHOD_WRITES and not isinstance(base, Text):
            self._paths(f".{name}", NONE.union(*given.values.values()), node, "writes")
        elif name == "open" and not (isinstance(base, Ref) and f"{base.path}.open" in catalogue.FILES):
            self._paths("open", NONE.union(given.hidden, *given.values.values()), node, "reads")

    def _runs(self, text: Value) -> bool:
        """Return True if `.eval` or `.query` with this text does more than compute with columns.

        In a program without data frames, an unknown text may be anything, such as a query of a database.
        """
        if isinstance(text, Text) and (text.whole or _REACHES_OUT.search(text.value)):
            return _REACHES_OUT.search(text.value) is not None
        return self._frames

    def _function(self, path: str, node: ast.Call, given: _Arguments) -> None:
        """Judge a call of a function, by its full name, that meets a rule through its arguments."""
        base, _, last = path.rpartition(".")
        deciding, access = catalogue.CALLED.get(path), catalogue.FILES.get(path, "")
        if access == "opens":
            access = "writes" if _changes(path, given.at(1, "flags", "mode", "flag")) else "reads"
        for place, values in given.values.items() if access else ():
            if catalogue.FILES[path] != "opens" or place in (0, "file", "filename", "name", "path"):
                self._paths(path, values, node, "reads" if place in catalogue.SOURCES.get(path, ()) else access)
        if access:
            self._paths(path, given.hidden, node, access)
        if path in catalogue.TAKE_NAMES:
            self._names_given(path, node, given)
        if deciding is not None and not _is_harmless(deciding, given):
            self._add(deciding.rule, node, f"calls {path}, which {RULES[deciding.rule].about}", path)
        goes_through = last in catalogue.CHANGES or (last in catalogue.HOLDER_METHODS and is_holder(base))
        if goes_through or (last in catalogue.HOLDER_GETTERS and not isinstance(given.nodes.get(0), ast.Constant)):
            self._held(node, frozenset([Ref(base)]), changed=goes_through)

    def _names_given(self, path: str, node: ast.Call, given: _Arguments) -> None:
        """Judge a call of a function that looks something up by name."""
        places = [place for place in catalogue.TAKE_NAMES[path] if place in given.nodes]
        for text in whole_texts(frozenset(value for place in places for value in given.values[place])):
            if "import" in path:
                self._add("import", node, f"imports {text} by {path}", text)
            else:
                self._by_name(node, text)
        if given.spread or not all(isinstance(given.nodes[place], ast.Constant) for place in places):
            self._add("dynamic", node, f"calls {path} with a name that is made at run time", path)

    def _tool_call(self, function: ToolFunction, node: ast.Call, scope: Scope) -> None:
        given, names = _Arguments(node, scope, self._names), {function.name}
        if function.name is None:
            names = {text.value if isinstance(text, Text) and text.whole else None for text in given.at(0) or UNKNOWN}
            given = _Arguments(ast.Call(node.func, node.args[0 in given.nodes :], node.keywords), scope, self._names)
        for name in sorted(names, key=str):
            tool = self._tools.get(name) if isinstance(self._tools, Toolset) and name is not None else None
            real = tool.name if tool else name
            literals, complete = given.literals([*tool.parameters] if tool else [])
            self._add_tool("calls", node, real, arguments=literals, complete=complete, dynamic=real is None)

    def _position(self, node: ast.AST | Unread) -> tuple[int, int]:
        if isinstance(node, Unread):
            return node.line, node.column
        line = getattr(node, "lineno", 1)
        return line, self._lines.column(line, getattr(node, "col_offset", 0))


def _changes(function: str, modes: Values) -> bool:
    """Return true unless each mode, or set of flags, is known to be for reading only."""
    if function == "os.open":
        return not all(isinstance(mode, Number) and not mode.value & ~_READING for mode in modes)
    changing = set("wcn" if function.startswith("dbm.") else "wax+")
    return not all(isinstance(mode, Text) and mode.whole and changing.isdisjoint(mode.value) for mode in modes)


def _is_harmless(deciding: catalogue.DecidingArgument, given: _Arguments) -> bool:
    """Return True if an argument certainly makes a call harmless."""
    places = [place for place in (deciding.name, deciding.position) if place in given.nodes]
    node = given.nodes[places[0]] if places else ast.Constant(None)
    if isinstance(node, ast.Constant):
        return node.value in deciding.harmless and (bool(places) or not given.spread)
    return all(isinstance(value, Ref) and value.path in deciding.harmless for value in given.at(*places) or UNKNOWN)
