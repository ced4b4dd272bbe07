"""Makes the module that a spawned process imports as the program's `__main__`.

`multiprocessing` with `spawn` or `forkserver`, and subinterpreters, start the program again from its file. This file
has only the program's imports, functions, classes and constants, so that nothing runs twice.
"""

from __future__ import annotations
import __future__

import ast
import builtins
import marshal
import os
import sys
from types import ModuleType

from .channel import FIRST_PROCESS_ONLY
from .imports import after_import
from .indentation import parse
from .program import programs
from .tool_error import ToolError

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Dict, Iterator, List, Optional, Set, Tuple, Union

    _Function = Union[ast.FunctionDef, ast.AsyncFunctionDef]

_SPAWN = ("multiprocessing.spawn", "joblib.externals.loky.backend.spawn", "loky.backend.spawn")
_INTERPRETERS = "concurrent.interpreters"
_INTERPRETERS_BELOW = ("_interpreters", "_xxsubinterpreters")  # the modules that make them, by Python's version
_ABSENT = "<absent>"  # not an identifier, so no program can have a variable of this name
_FROM_PATH, _FROM_NAME = "init_main_from_path", "init_main_from_name"
ABSENT = (
    "%s is not there in a spawned process, which has the program's imports, functions, classes and constants only,"
    " and nothing that calls of the program's own functions have made: pass it as an argument"
)

_CHILD = """
def _begin(names, tools, programs, absent, refusal):
    import builtins, linecache, marshal, traceback

    class ToolError(Exception):
        def __init__(self, message="", tool="", refused=False):
            super().__init__(message)
            self.tool = tool
            self.refused = refused

    def refusing(tool):
        def refused(*args, **kwargs):
            raise ToolError(refusal, tool)

        refused.__name__ = refused.__qualname__ = tool
        return refused

    def missing(name):
        if name.startswith("__"):
            raise AttributeError(name)

        def missed(*args, **kwargs):
            raise NameError(absent % name)

        return missed

    class Absent(classmethod):  # libraries take no method for a field or a member
        def __init__(self, name, is_default=False):
            classmethod.__init__(self, Absent)
            self.name = name
            self.is_default = is_default

        def __repr__(self):
            return absent % self.name

        def __set_name__(self, owner, name):
            self.name = owner.__qualname__ + "." + name

        def __get__(self, instance, owner=None):
            if self.is_default and instance is None:  # here decorators look for the default of a field
                return self
            raise AttributeError(absent % self.name)

    ToolError.__module__, ToolError.__qualname__ = "builtins", "ToolError"
    builtins.ToolError = ToolError
    names.update({"display": print, "<absent>": Absent}, __getattr__=missing)
    names.update((tool, refusing(tool)) for tool in tools)
    for name, source, code, lost in programs:
        for bound in lost:  # what an earlier program of a session has bound is no longer its value
            names.pop(bound, None)
        linecache.cache[name] = (len(source), None, source.splitlines(True), name)
        try:
            exec(marshal.loads(code), names)
        except Exception:  # what it would have defined is missing then, and says so when it is used
            traceback.print_exc()

"""
_CALL = """
_begin(globals(), %r, %r, %r, %r)
del _begin
"""

_MOST_ADDRESS = 104  # bytes, on the systems with the least
_tools: List[str] = []
_written = 0


def let_children_import() -> None:
    """Make spawned processes and subinterpreters find the program's functions from now on."""
    for name in _SPAWN:
        after_import(name, _tell_path)
    after_import(_INTERPRETERS, lambda module: setattr(sys.modules["__main__"], "__file__", _write()))
    for name in _INTERPRETERS_BELOW:
        after_import(name, _refuse_tools)
    after_import("multiprocessing.connection", _shorten_addresses)
    after_import("multiprocessing.context", lambda module: setattr(builtins, "ToolError", ToolError))


def note_tools(specs: List[Dict[str, Any]]) -> None:
    """Record the tools of the run that begins; a child must not call them."""
    global _tools, _written
    _tools, _written = ["call_tool", *(spec["alias"] for spec in specs)] if specs else [], 0


def _shorten_addresses(connection: ModuleType) -> None:
    """Name sockets through a descriptor of their directory if their path is too long for a socket address."""
    usual = connection.arbitrary_address

    def arbitrary_address(family: str) -> Any:
        address = usual(family)
        if family != "AF_UNIX" or len(os.fsencode(address)) < _MOST_ADDRESS or not os.path.isdir("/proc/self/fd"):
            return address
        folder, name = os.path.split(address)
        return "/proc/%d/fd/%d/%s" % (os.getpid(), os.open(folder, os.O_RDONLY | os.O_DIRECTORY), name)

    connection.arbitrary_address = arbitrary_address  # type: ignore[attr-defined]


def has_children() -> bool:
    """Return whether the program has been started again in another process."""
    return _written > 0


def _tell_path(spawn: ModuleType) -> None:
    usual = spawn.get_preparation_data

    def get_preparation_data(*args: Any, **kwargs: Any) -> Dict[str, Any]:
        data: Dict[str, Any] = usual(*args, **kwargs)
        if _FROM_PATH not in data and _FROM_NAME not in data and kwargs.get("init_main_module", True) and programs:
            sys.modules["__mp_main__"] = sys.modules["__main__"]  # children use this name in what they send back
            data[_FROM_PATH] = _write()
        return data

    spawn.get_preparation_data = get_preparation_data  # type: ignore[attr-defined]


def _refuse_tools(interpreters: ModuleType) -> None:
    """Start each subinterpreter with tools that raise an error explaining why they cannot be called there."""
    usual = interpreters.create

    def create(*args: Any, **kwargs: Any) -> Any:
        made = usual(*args, **kwargs)
        # Without `__getattr__`: functions that it lacks are looked up in the program's file.
        code = _CHILD + _CALL % (_tools, [], ABSENT, FIRST_PROCESS_ONLY) + "del __getattr__\n"
        interpreters.run_string(made, code)
        return made

    interpreters.create = create  # type: ignore[attr-defined]


def _write() -> str:
    """Write the module unless an up-to-date one exists, and return its path."""
    from multiprocessing.util import get_temp_dir

    global _written
    path = os.path.join(get_temp_dir(), "program.py")
    if _written != len(programs) or not os.path.exists(path):
        parts = []
        names = _Names({*dir(builtins), *_tools, "__name__", "ToolError", "display"})
        for name, source in programs:
            tree = parse(source, name)
            bound = {bound for statement in tree.body for bound in _names_bound(statement)}
            tree.body = list(_Kept(tree, names).statements(tree.body))
            lost = bound.difference(*(_names_bound(statement) for statement in tree.body))
            names.known -= lost
            flags = __future__.annotations.compiler_flag  # so that annotations are not evaluated
            code = compile(ast.fix_missing_locations(tree), name, "exec", flags=flags, dont_inherit=True)
            parts.append((name, source, marshal.dumps(code), sorted(lost)))
        with open(path, "w", encoding="utf-8") as file:
            file.write(_CHILD + _CALL % (_tools, parts, ABSENT, FIRST_PROCESS_ONLY))
        _written = len(programs)
    return path


# Expressions that may be evaluated a second time without side effects.
_PLAIN = (
    *(ast.Constant, ast.Tuple, ast.List, ast.Set, ast.Dict, ast.Name, ast.Attribute, ast.Subscript, ast.Slice),
    *(ast.UnaryOp, ast.BinOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.JoinedStr, ast.FormattedValue, ast.Starred),
    *(ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.keyword),
)
# Builtins that only make a value.
_MAKERS = (bool, bytes, complex, dict, float, frozenset, int, list, range, set, str, tuple)
# Value makers by the module they are imported from: other functions of that name may have side effects.
_MAKERS_IN = {
    "attr": "field ib",
    "attrs": "field",
    "collections": "Counter OrderedDict defaultdict deque namedtuple",
    "dataclasses": "field",
    "datetime": "date datetime time timedelta timezone",
    "decimal": "Decimal",
    "enum": "Enum IntEnum auto",
    "fractions": "Fraction",
    "functools": "partial",
    "logging": "getLogger",
    "operator": "attrgetter itemgetter methodcaller",
    "pathlib": "Path PurePath",
    "pydantic": "Field",
    "re": "compile",
    "typing": "NewType ParamSpec TypeVar",
    "zoneinfo": "ZoneInfo",
}


# Methods that run when a class is made, subscripted or subclassed.
_HOOKS = ("__init_subclass__", "__class_getitem__")
_ENUM_HOOKS = ("__init__", "__new__", "_generate_next_value_")
# Calls that a decorator may make while still only wrapping its function.
_WRAPPING = ("partial", "super", "update_wrapper", "wraps")
_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


class _Names:
    """The meanings of the names in a session's programs, as read so far."""

    def __init__(self, known: Set[str]) -> None:
        self.known = known
        """Names that are bound in a spawned process too."""
        self.modules: Dict[str, str] = {}
        """Names of imported modules, each with its module's own name."""
        self.makers = {maker.__name__ for maker in _MAKERS}
        self.own: Dict[str, List[ast.AST]] = {}
        """Names that a program binds by other statements than imports, each with the nodes that bind it."""

    def bind(self, body: List[ast.stmt]) -> None:
        """Record the names that statements bind; a name both imported and defined by the program is ambiguous."""
        nodes = [node for statement in body for node in _of_scope(statement)]
        for node in nodes:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                self._import(node)
        own: Dict[str, List[ast.AST]] = {}
        for node in nodes:
            for name in _own_names(node):
                own.setdefault(name, []).append(node)
        for name in own:
            self.makers.discard(name)
            self.modules.pop(name, None)
        self.own.update(own)

    def _import(self, node: Union[ast.Import, ast.ImportFrom]) -> None:
        makers = _MAKERS_IN.get(node.module or "", "").split() if isinstance(node, ast.ImportFrom) else []
        for alias in node.names:
            if alias.name == "*":
                self.makers.update(makers)
                continue
            name = alias.asname or alias.name
            self.own.pop(name.partition(".")[0], None)
            self.makers.discard(name)
            if isinstance(node, ast.Import):
                self.modules[name] = alias.name
            elif alias.name in makers:
                self.makers.add(name)

    def is_loud(self, function: ast.expr, calls: int = 1) -> bool:
        """Return whether a call to the program's own code does more than wrap something, over `calls` calls."""
        if isinstance(function, ast.Call):
            return self.is_loud(function.func, calls + 1)
        root = function
        while isinstance(root, (ast.Attribute, ast.Subscript)):
            root = root.value
        if not isinstance(root, ast.Name):
            return True
        for definition in self.own.get(root.id, ()):
            if not isinstance(definition, _FUNCTION):
                return True
            # An attribute of a function belongs to its decorator's result: `.setter`, `.register`.
            if not definition.decorator_list if root is not function else not self._only_wraps(definition, calls):
                return True
        return False

    def is_loud_class(self, node: ast.ClassDef) -> bool:
        """Return whether defining a class runs code of the program that does more than wrap something."""
        makers = [keyword.value for keyword in node.keywords if keyword.arg == "metaclass"]
        is_enum = any(_last_name(base).endswith(("Enum", "Flag")) for base in node.bases)
        return (
            any(not self._only_wraps(method) for value in makers for method in self._methods(value))
            or any(self.is_loud_base(base) for base in node.bases)
            or (is_enum and self._is_any_loud(_methods(node), _ENUM_HOOKS))
        )

    def is_loud_base(self, base: ast.expr) -> bool:
        """Return whether subclassing a class runs code of the program that does more than wrap something."""
        if isinstance(base, ast.Call):
            return self.is_loud(base.func)
        return self._is_any_loud(self._methods(base.value if isinstance(base, ast.Subscript) else base), _HOOKS)

    def _methods(self, value: ast.expr) -> List[_Function]:
        """Return the methods of a class of the program, and of its base classes in the program."""
        found: List[_Function] = []
        values, seen = [value], set()
        for value in values:
            if isinstance(value, ast.Name) and value.id not in seen:
                seen.add(value.id)
                for definition in self.own.get(value.id, ()):
                    if isinstance(definition, ast.ClassDef):
                        found += _methods(definition)
                        values += definition.bases
        return found

    def _is_any_loud(self, methods: List[_Function], names: Tuple[str, ...]) -> bool:
        return any(method.name in names and not self._only_wraps(method) for method in methods)

    def _only_wraps(self, function: _Function, calls: int = 1) -> bool:
        """Return whether a function only wraps something, as do the functions it returns, over `calls` calls."""
        for node in function.body:
            if isinstance(node, _FUNCTION):
                returned_wraps = calls == 1 or self._only_wraps(node, calls - 1)
                if not returned_wraps or not all(self._is_wrapping(wrap) for wrap in node.decorator_list):
                    return False
            elif isinstance(node, (ast.Return, ast.Assign, ast.AnnAssign, ast.Expr)):
                if node.value is not None and not self._is_wrapping(node.value):
                    return False
            elif not isinstance(node, (ast.Pass, ast.Nonlocal)):
                return False
        return True

    def _is_wrapping(self, value: ast.expr) -> bool:
        """Return whether an expression is plain except for wrapping calls, and calls to the base class."""
        for node in ast.walk(value):
            if isinstance(node, ast.Call):
                if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Call):
                    of_wrapping = self._is_one_of(node.func.value.func, ("super",))
                elif isinstance(node.func, ast.Call):
                    of_wrapping = self._is_one_of(node.func.func, ("wraps",))
                else:
                    of_wrapping = self._is_one_of(node.func, _WRAPPING)
                if not of_wrapping:
                    return False
            elif not isinstance(node, (*_PLAIN, ast.Lambda, ast.arguments, ast.arg)):
                return False
        return True

    def _is_one_of(self, function: ast.expr, names: Tuple[str, ...]) -> bool:
        if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
            return function.attr in names and self.modules.get(function.value.id) == "functools"
        return isinstance(function, ast.Name) and function.id in names and function.id not in self.own


def _of_scope(statement: ast.AST) -> Iterator[ast.AST]:
    """Yield a statement and the nodes in it, except the inside of functions and classes."""
    yield statement
    if not isinstance(statement, (*_FUNCTION, ast.ClassDef, ast.Lambda)):
        for node in ast.iter_child_nodes(statement):
            yield from _of_scope(node)


def _own_names(node: ast.AST) -> List[str]:
    """Return the names that a node itself binds to something callable of the program."""
    if isinstance(node, (*_FUNCTION, ast.ClassDef, ast.ExceptHandler)):
        return [node.name] if node.name else []
    return [node.id] if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load) else []


def _methods(node: ast.ClassDef) -> List[_Function]:
    return [method for method in node.body if isinstance(method, _FUNCTION)]


class _Kept:
    """Decides which statements of a program a child gets; `names` are those that exist before the program."""

    def __init__(self, tree: ast.Module, names: _Names) -> None:
        self._names = names
        self._known = names.known
        names.bind(tree.body)
        # A name bound by two statements may have another value by now: no value is better than a wrong one.
        bound: Set[str] = set()
        self._rebound: Set[str] = set()
        for statement in tree.body:
            found = set(_names_bound(statement))
            self._rebound |= found if isinstance(statement, ast.AugAssign) else found & bound
            bound |= found
        of_functions = {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}
        self._rebound |= of_functions
        names.makers -= of_functions

    def statements(self, body: List[ast.stmt], inside: Optional[ast.ClassDef] = None) -> Iterator[ast.stmt]:
        """Yield the statements to keep; `inside` a class, names may be bound twice, and calls may be given lambdas.

        Names that a class loses become attributes that raise an explanation. Annotated ones stay fields, whatever their
        default: without one of its fields no instance of the class could be unpickled.
        """
        for statement in body:
            kept = self._kept(statement, inside)
            if kept is not None:
                self._known.update(_names_bound(kept))
                yield kept
            elif inside:
                for name in _names_bound(statement):
                    self._known.discard(name)
                    if not name.startswith("__"):
                        yield ast.copy_location(_absent(name, statement, inside), statement)

    def _kept(self, node: ast.stmt, inside: Optional[ast.ClassDef]) -> Optional[ast.stmt]:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            return node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            values = [*node.args.defaults, *(value for value in node.args.kw_defaults if value is not None)]
            made = all(self._is_plain(value) or isinstance(value, ast.Lambda) for value in values)
            return node if made and all(self._is_decorator(wrap) for wrap in node.decorator_list) else None
        if isinstance(node, ast.ClassDef):
            given = [*node.bases, *(keyword.value for keyword in node.keywords)]
            if not all(self._is_made(value) for value in given) or self._names.is_loud_class(node):
                return None
            if not all(self._is_decorator(wrap) for wrap in node.decorator_list):
                return None
            names = self._names
            before, makers, modules, own = set(self._known), set(names.makers), dict(names.modules), dict(names.own)
            names.bind(node.body)
            node.body = list(self.statements(node.body, inside=node)) or [ast.copy_location(ast.Pass(), node)]
            self._known.clear()
            self._known.update(before)
            names.makers, names.modules, names.own = makers, modules, own
            return node
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            if node.value is None or (inside and self._is_made(node.value, by_maker=True)):
                return node
            is_kept = self._is_plain(node.value) and (inside or self._rebound.isdisjoint(_names_bound(node)))
            return node if is_kept and _names_bound(node) else None
        if isinstance(node, ast.If) and self._is_plain(node.test):
            node.body, node.orelse = list(self.statements(node.body)), list(self.statements(node.orelse))
            node.body = node.body or [ast.copy_location(ast.Pass(), node)]
            return node
        if isinstance(node, ast.Try):
            parts = [node.body, node.orelse, node.finalbody, *(handler.body for handler in node.handlers)]
            for part in parts:
                part[:] = list(self.statements(part)) or [ast.copy_location(ast.Pass(), node)]
            return node
        return node if type(node).__name__ == "TypeAlias" else None

    def _is_plain(self, value: ast.expr) -> bool:
        """Return whether an expression has no side effects, and all its names are bound."""
        for node in ast.walk(value):
            if isinstance(node, ast.Call) and self._is_maker(node.func):
                continue
            if not isinstance(node, _PLAIN) or (isinstance(node, ast.Name) and node.id not in self._known):
                return False
            if isinstance(node, ast.Subscript) and self._names.is_loud_base(node):
                return False
        return True

    def _is_made(self, value: ast.expr, by_maker: bool = False) -> bool:
        """Return whether an expression is plain, or a call whose arguments are plain or lambdas.

        The called function is no builtin; with `by_maker` it must only make a value.
        """
        if isinstance(value, ast.Call) and (
            self._is_maker(value.func) if by_maker else not hasattr(builtins, _last_name(value.func))
        ):
            inner = [value.func, *value.args, *(keyword.value for keyword in value.keywords)]
            return all(self._is_plain(part) or isinstance(part, ast.Lambda) for part in inner)
        return self._is_plain(value)

    def _is_decorator(self, value: ast.expr) -> bool:
        return self._is_made(value) and not self._names.is_loud(value)

    def _is_maker(self, function: ast.expr) -> bool:
        if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
            return function.attr in _MAKERS_IN.get(self._names.modules.get(function.value.id, ""), "").split()
        return isinstance(function, ast.Name) and function.id in self._names.makers


def _absent(name: str, lost: ast.stmt, owner: ast.ClassDef) -> ast.stmt:
    """Return a statement that binds a class's name to an explanatory placeholder; it replaces `lost`."""
    target = ast.Name(name, ast.Store())
    given: List[ast.expr] = [ast.Constant("%s.%s" % (owner.name, name))]
    value = ast.Call(ast.Name(_ABSENT, ast.Load()), given, [])
    if isinstance(lost, ast.AnnAssign) and isinstance(lost.target, ast.Name) and lost.target.id == name:
        given.append(ast.Constant(bool(owner.decorator_list)))
        return ast.AnnAssign(target, lost.annotation, value, 1)
    return ast.Assign([target], value)


def _last_name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _names_bound(statement: ast.stmt) -> List[str]:
    """Return the names that a statement binds, including those in nested functions."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [statement.name]
    names: List[str] = []
    for node in ast.walk(statement):
        if isinstance(node, ast.alias):
            names.append((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.append(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.append(node.name)
    return names
