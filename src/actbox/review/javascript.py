"""The reader of one program in JavaScript, as Node runs it: each place that meets a rule becomes a finding.

Names are followed through `require`, `import`, aliases and destructuring, as in Python.
"""

from __future__ import annotations

from typing import Any, Final

from actbox.core.program import Program

from . import javascript_catalogue as catalogue
from .findings import Findings, Tools
from .javascript_scopes import CALLERS, FUNCTIONS, Scopes, given_to, unwrapped
from .javascript_tree import Node, Tree, parse
from .javascript_values import CONSTRUCTOR, JavaScriptNames, whole
from .rules import RULES
from .source import Unread
from .values import Ref, Text, ToolFunction, Value, Values, whole_texts

_LOADS: Final = ("data:", "http:", "https:", "blob:")
"""Beginnings of names of modules that are source themselves, or come from the network."""
_LOOKUPS: Final = frozenset(["member_expression", "subscript_expression"])
_READ_FLAGS: Final = frozenset(["r", "rs", "sr"])
_USED_AS_IT_IS: Final = frozenset(
    [
        *("binary_expression", "expression_statement", "unary_expression"),
        *("do_statement", "if_statement", "while_statement"),
    ]
)
"""Expressions and statements that do not pass a value on."""


class JavaScriptReading(Findings):
    """The findings about one program."""

    def __init__(self, program: Program, tools: Tools, most_characters: int) -> None:
        super().__init__(program, tools)
        tree = parse(program, most_characters)
        if isinstance(tree, Unread):
            self._add(tree.rule, tree, tree.message)
            return
        self._tree = tree
        if tree.error is not None:
            message = "the source does not parse here, or is of a newer JavaScript than the reader's"
            self._add("syntax", Node("ERROR", "", tree.error, "", None), message, "javascript")
        try:
            gave_up = self._read(tree, len(program.code))
        except RecursionError:
            gave_up = tree.root
        if gave_up is not None:
            self._add("not-read", gave_up, "the program is too involved to follow; there may be more than was found")

    def _read(self, tree: Tree, size: int) -> Node | None:
        """Judge a whole program, and return the first part of it that was too complex to follow, or `None`."""
        scopes = Scopes(tree.root)
        if scopes.too_deep is not None:
            return scopes.too_deep
        self._names = JavaScriptNames(scopes, self._aliases, size)
        for node in scopes.nodes:
            match node.kind:
                case "identifier" | "shorthand_property_identifier" if node not in scopes.bound:
                    self._mentioned(node)
                case kind if kind in _LOOKUPS:
                    self._looked_up(node)
                    self._mentioned(node)
                case "call_expression" | "new_expression":
                    self._call(node)
                case "import_statement" | "export_statement" if source := node.get("source"):
                    self._import(node, self._names.values(source), "")
        return self._names.gave_up

    def _position(self, node: Any) -> tuple[int, int]:
        if isinstance(node, Unread):
            return node.line, node.column
        line, byte = self._tree.place(node.start)
        return line, self._lines.column(line, byte)

    def _import(self, node: Node, names: Values, by: str) -> None:
        for name in whole_texts(names):
            subject = name.removeprefix("node:")
            self._add("import", node, f"imports {subject}{by}", subject)
            if name.startswith(_LOADS):
                self._add("code", node, f"imports source from {name[:40]!r}", "import")
            elif name.endswith(".node"):
                self._add("native", node, f"imports {name}, which is native code", name)

    def _looked_up(self, node: Node) -> None:
        """Judge the lookup of a property by a name that is made at run time."""
        index, of = node.get("index"), node.get("object")
        if index is None or of is None or index.kind == "number" or whole(self._names.values(index)):
            return
        for path in self._handed(self._names.values(of)):
            self._add("dynamic", node, f"looks up a name that is made at run time in {path}", path)

    def _mentioned(self, node: Node) -> None:
        """Judge an expression that is mentioned and not called: an alias, or a function passed on as a value."""
        outer = unwrapped(node)
        within = "" if outer.parent is None else outer.parent.kind
        if outer.field in ("function", "constructor") or (outer.field == "object" and within in _LOOKUPS):
            return
        for value in self._names.values(node):
            if isinstance(value, ToolFunction) and not self._is_followed(node):
                self._add_tool("hands on", node, value.name)
            elif isinstance(value, Ref) and not _is_compared(outer) and (rule := catalogue.rule_of(value.path)):
                self._add(rule, node, f"names {value.path}, which {RULES[rule].about}", value.path)
        self._passed_on(node)

    def _passed_on(self, node: Node) -> None:
        """Judge a module that is passed on as a value."""
        paths = self._handed(self._names.values(node))
        if paths and not self._is_followed(node):
            for path in paths:
                self._add("dynamic", node, f"hands {path} on as a value; what is done with it is not seen", path)

    def _handed(self, values: Values) -> list[str]:
        return sorted(value.path for value in values if isinstance(value, Ref) and value.path in catalogue.HANDED_ON)

    def _is_followed(self, node: Node) -> bool:
        """Return True if a value only gets another name here, which is followed, or is only inspected."""
        while (outer := node.parent) is not None:
            match outer.kind:
                case kind if kind in _LOOKUPS:
                    return node.field == "object"
                case "call_expression" | "new_expression":
                    return node.field in ("function", "constructor")
                case "variable_declarator":
                    return _binds_names(outer.get("name"))
                case "for_in_statement":
                    return node.field == "right"
                case "arguments":
                    call = outer.parent
                    function = call.get("function") if call is not None else None
                    return function is not None and self._is_harmless(function)
                case "assignment_expression" | "augmented_assignment_expression":
                    if node.field == "right" and not _binds_names(outer.get("left")):
                        return False
                case "binary_expression" if (sign := outer.get("operator")) and sign.text in ("&&", "||", "??"):
                    pass
                case "ternary_expression" if node.field == "condition":
                    return True
                case "sequence_expression" if outer.children[-1] is not node:
                    return True
                case "parenthesized_expression" | "await_expression" | "ternary_expression" | "sequence_expression":
                    pass
                case _:
                    return outer.kind in _USED_AS_IT_IS
            node = outer
        return False

    def _is_harmless(self, function: Node) -> bool:
        """Return True for a function that only inspects its arguments, or is called where it stands."""
        node = function
        while node.kind == "parenthesized_expression" and node.children:
            node = node.children[-1]
        if node.kind in FUNCTIONS:
            return True
        known = (*catalogue.LOOKS, *catalogue.SAME_VALUE, "Reflect.get")
        values = self._names.values(function)
        return all(isinstance(value, Ref) and value.path.startswith(known) for value in values)

    def _call(self, node: Node) -> None:
        function = node.get("constructor") if node.kind == "new_expression" else node.get("function")
        if function is None:
            return
        given, spread = given_to(node, function)
        for value in self._names.values(function):
            if isinstance(value, ToolFunction):
                self._tool_call(value, node, given)
            elif isinstance(value, Ref):
                if rule := catalogue.rule_of_call(value.path):
                    self._add(rule, node, f"calls {value.path}, which {RULES[rule].about}", value.path)
                self._function(value.path, node, given, spread=spread)
                if value == CONSTRUCTOR and (given or spread):
                    self._constructor(node, function)
        name = function.get("property")
        if name is not None and name.text in CALLERS and given and unwrapped(given[0]).kind not in FUNCTIONS:
            of = function.get("object")
            for path in self._handed(self._names.values(of)) if of is not None else ():
                self._add("dynamic", node, f"hands {path} on as a value; what is done with it is not seen", path)
        self._passed_on(node)

    def _constructor(self, node: Node, function: Node) -> None:
        """Judge a call of the constructor of an object of which nothing is known."""
        message = "calls the constructor of an object that is not known; that of a function makes code of text"
        of = function.get("object")
        if node.kind == "call_expression":
            self._add("code", node, message, "Function")
        elif of is None or of.kind != "this":
            self._add("dynamic", node, message, "constructor")

    def _function(self, path: str, node: Node, given: list[Node], *, spread: bool) -> None:
        """Judge a call of a function, by its full name, that meets a rule through its arguments."""
        values = [self._names.values(argument) for argument in given]
        if subject := catalogue.LOADERS.get(path):
            names = values[0] if values else frozenset()
            self._import(node, names, f" by {path}")
            if spread or not whole(names):
                self._add("dynamic", node, f"calls {path} with a name that is made at run time", subject)
        elif path == "Reflect.get" and len(values) > 1 and not whole(values[1]):
            for held in self._handed(values[0]):
                self._add("dynamic", node, f"looks up a name that is made at run time in {held}", held)
        name = catalogue.file_function(path)
        access = catalogue.FILES.get(name, "")
        if access == "removes" and name.startswith("fs.rm") and len(given) < 2:
            access = "writes"
        elif access == "opens":
            flags = values[1] if len(values) > 1 else frozenset([Text("r")])
            access = "reads" if whole(flags) and _READ_FLAGS.issuperset(whole_texts(flags)) else "writes"
        for number, texts in enumerate(values[: 1 + (name in catalogue.TWO_PATHS)] if access else ()):
            only_read = number == 0 and name in catalogue.COPIES
            self._paths(path, frozenset(map(_path, texts)), node, "reads" if only_read else access)

    def _tool_call(self, function: ToolFunction, node: Node, given: list[Node]) -> None:
        names: list[str | None] = [function.name]
        if function.name is None:
            called = self._names.values(given[0]) if given else frozenset()
            names = [*whole_texts(called)] if whole(called) else [None]
        for name in names:
            self._add_tool("calls", node, self._aliases.get(name or "", name), dynamic=name is None)


def _is_compared(node: Node) -> bool:
    """Return True for `x instanceof Function`, and for `typeof fetch`."""
    return node.parent is not None and node.parent.kind in ("binary_expression", "unary_expression")


def _binds_names(pattern: Node | None) -> bool:
    """Return True for a name, or a pattern of names that are all known."""
    waiting = [] if pattern is None else [pattern]
    while waiting:
        node = waiting.pop()
        if node.kind in ("computed_property_name", "member_expression", "subscript_expression"):
            return False
        waiting += node.children
    return pattern is not None


def _path(value: Value) -> Value:
    if isinstance(value, Text) and value.value.startswith("file://"):
        return Text(value.value.removeprefix("file://"), value.whole, value.path)
    return value
