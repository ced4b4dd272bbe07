"""The scopes of a program in JavaScript, and everything that its names are bound to.

The pass does not follow the order in which a program runs: a name may have any value that is ever bound to it in its
scope.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile
from typing import Final

from .javascript_tree import Binding, Node, Scope, Step, name_of

FUNCTIONS: Final = frozenset(
    [
        *("arrow_function", "function_declaration", "function_expression", "generator_function"),
        *("generator_function_declaration", "method_definition"),
    ]
)
_BLOCKS: Final = frozenset(
    [
        *("catch_clause", "class_body", "class_static_block", "for_in_statement", "for_statement"),
        *("statement_block", "switch_body"),
    ]
)
ELEMENT: Final = "[]"
"""The step from a container to one of its elements, of which it is not known which."""
MODULE: Final = "import"
"""The step from the name of a module to the module."""
CALLERS: Final[Mapping[str, tuple[str, ...]]] = {
    "then": (),
    **dict.fromkeys(("every", "filter", "find", "flatMap", "forEach", "map", "some"), (ELEMENT,)),
}
"""Methods that call a function with the object, or with its elements."""
_MOST_STEPS: Final = 16
_MAX_DEPTH: Final = 150
"""The most scopes in each other, of which every lookup of a name goes through all."""


class Scopes:
    """The scopes of one program. `nodes` are all its nodes, and `of` has the scope of each."""

    def __init__(self, root: Node) -> None:
        self.top = Scope(None, True, True)
        self.nodes: list[Node] = []
        self.bound: set[Node] = set()
        """The nodes that are names which get a value, not uses of them."""
        self.assigned: dict[str, list[Binding | None]] = {}
        """The values that are assigned to names which the program does not declare."""
        self._assignments: list[tuple[str, Scope, Binding | None]] = []
        self.too_deep: Node | None = None
        """The first node in more scopes than are followed, if there is one: the program is then not read."""
        self.of: dict[Node, Scope] = {root: self.top}
        waiting = [root]
        while waiting:
            node = waiting.pop()
            self.nodes.append(node)
            inner = self._enter(node)
            if inner.depth > _MAX_DEPTH:
                self.too_deep = node
                return
            for child in node.children:
                self.of[child] = inner
            waiting.extend(reversed(node.children))
        for name, scope, binding in self._assignments:
            owner = scope.owner(name)
            (self.assigned if owner is None else owner.names).setdefault(name, []).append(binding)

    def _enter(self, node: Node) -> Scope:
        """Record what a node binds, and return the scope of the nodes in it."""
        scope, kind = self.of[node], node.kind
        if kind in FUNCTIONS:
            return self._function(node)
        if kind in _BLOCKS:
            inner = Scope(scope, kind == "class_static_block", scope.has_this and kind != "class_body")
            if kind == "catch_clause" and (parameter := node.get("parameter")):
                self._bind(parameter, None, inner)
            elif kind == "for_in_statement" and (target := node.get("left")):
                right, declared = node.get("right"), node.get("kind")
                into = _function_of(scope) if declared is not None and declared.text == "var" else inner
                self._bind(target, _part(_binding(right), ELEMENT), into, declares=declared is not None)
            return inner
        value = node.get("value") if kind == "variable_declarator" else node.get("right")
        if kind == "variable_declarator" and (target := node.get("name")):
            into = _function_of(scope) if node.outer("variable_declaration") else scope
            self._bind(target, _binding(value), into)
        elif kind == "assignment_expression" and (target := node.get("left")):
            self._bind(target, _binding(value), scope, declares=False)
        elif kind == "augmented_assignment_expression" and (target := node.get("left")):
            sign = node.get("operator")
            logical = sign is not None and sign.text in ("||=", "&&=", "??=")
            self._bind(target, _binding(value) if logical else None, scope, declares=False)
            self.bound.discard(target)
        elif kind in ("class_declaration", "class") and (name := node.get("name")):
            self._bind(name, None, scope)
        elif kind == "import_statement" and (source := node.get("source")):
            self._import(node, source)
        return scope

    def _function(self, node: Node) -> Scope:
        scope = self.of[node]
        inner = Scope(scope, True, scope.has_this and node.kind == "arrow_function")
        name = node.get("name")
        if name is not None and node.kind != "method_definition":
            self.bound.add(name)
            # Outside strict mode the name of a function in a block is also one of the function around it.
            places = (scope, _function_of(scope)) if node.kind.endswith("declaration") else (inner,)
            for place in dict.fromkeys(places):
                place.names.setdefault(name_of(name), []).append(Binding(node))
        parameters, values = node.get("parameters"), _arguments_for(node)
        given = [node.get("parameter")] if parameters is None else parameters.children
        for number, parameter in enumerate(given):
            if parameter is not None:
                self._bind(parameter, values[number] if number < len(values) else None, inner)
        return inner

    def _bind(self, pattern: Node, binding: Binding | None, scope: Scope, *, declares: bool = True) -> None:
        """Bind the names in a pattern to a value or its parts. The scope declares them, or assigns to them."""
        waiting: list[tuple[Node, Binding | None]] = [(pattern, binding)]
        while waiting:
            node, value = waiting.pop()
            target, default = node.get("left"), node.get("right")
            match node.kind:
                case "identifier" | "shorthand_property_identifier_pattern":
                    self.bound.add(node)
                    name = name_of(node)
                    if node.kind != "identifier":
                        value = _part(value, name)
                    if declares:
                        scope.names.setdefault(name, []).append(value)
                    else:
                        self._assignments.append((name, scope, value))
                case "object_pattern":
                    waiting += [(child, value) for child in node.children]
                case "array_pattern":
                    waiting += [(child, _part(value, ELEMENT)) for child in node.children]
                case "pair_pattern" if (key := node.get("key")) and (target := node.get("value")):
                    waiting.append((target, _part(value, _step(key))))
                case "rest_pattern":
                    waiting += [(child, value) for child in node.children[:1]]
                case "assignment_pattern" | "object_assignment_pattern" if target and default:
                    # A name gets all of the default, whatever property it is.
                    whole = Node("identifier", "", target.start, target.text, None)
                    is_name = target.kind == "shorthand_property_identifier_pattern"
                    waiting += [(target, value), (whole if is_name else target, Binding(default))]

    def _import(self, node: Node, source: Node) -> None:
        module = Binding(source, (MODULE,))
        waiting = [child for child in node.children if child.kind == "import_clause"]
        while waiting:
            part = waiting.pop()
            if part.kind == "identifier":
                self._bind(part, module, self.top)
            elif part.kind == "import_specifier" and (name := part.get("name")):
                self.bound.add(name)
                local = part.get("alias") or name
                self._bind(local, _part(module, _step(name)), self.top)
            else:
                waiting += part.children


def _function_of(scope: Scope) -> Scope:
    while not scope.is_function and scope.parent is not None:
        scope = scope.parent
    return scope


def _binding(expression: Node | None) -> Binding | None:
    return None if expression is None else Binding(expression)


def _part(value: Binding | None, step: Step) -> Binding | None:
    if value is None or len(value.steps) > _MOST_STEPS:
        return None
    return Binding(value.expression, (*value.steps, step))


def _step(key: Node) -> Step:
    if key.kind == "computed_property_name":
        return key.children[0] if key.children else ELEMENT
    return key if key.kind == "string" else name_of(key)


def unwrapped(node: Node) -> Node:
    """Return the outermost parentheses around an expression, or itself."""
    while (outer := node.outer("parenthesized_expression")) is not None:
        node = outer
    return node


def _arguments_for(function: Node) -> list[Binding | None]:
    """Return the values of a function's parameters, as far as they are known.

    They are if it is called where it stands, as in `(m => …)(fs)`, or by a method of a promise or an array.
    """
    node = unwrapped(function)
    call = node.outer("call_expression")
    if call is not None and node.field == "function":
        return [Binding(argument) for argument in takewhile(lambda one: one.kind != "spread_element", arguments(call))]
    given = node.outer("arguments")
    call = given.outer("call_expression") if given is not None else None
    called = call.get("function") if call is not None else None
    if called is None or called.kind != "member_expression":
        return []
    of, method = called.get("object"), called.get("property")
    if of is None or method is None or method.text not in CALLERS:
        return []
    return [Binding(of, CALLERS[method.text])]


def arguments(call: Node) -> list[Node]:
    """Return the arguments of a call; none for a template."""
    given = call.get("arguments")
    return given.children if given is not None and given.kind == "arguments" else []


def given_to(call: Node, function: Node) -> tuple[list[Node], bool]:
    """Return the arguments of a call up to the first that is not known by its place, and whether there is such a one.
    For `f.call(…)` they are those of `f`.
    """
    given = [*takewhile(lambda one: one.kind != "spread_element", arguments(call))]
    name = function.get("property")
    if name is not None and name.text == "apply":
        return [], True
    return given[name is not None and name.text == "call" :], len(given) < len(arguments(call))
