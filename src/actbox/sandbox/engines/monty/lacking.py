"""Features of CPython that the interpreter lacks, found in an error's message or in the program's source."""

from __future__ import annotations

import ast
import builtins
import codecs
import inspect
import json
import re
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any, Final

_NO_ATTRIBUTE = re.compile(r"(module |type object )?'([\w.]+)' (?:object )?has no attribute '(\w+)'")
_NO_NEW_ATTRIBUTE = re.compile(r"'(function|module)' object has no attribute '\w+' and no __dict__ for setting")
_NO_ARGUMENT = re.compile(r"([\w.]+)\(\) got an unexpected keyword argument '(\w+)'")
_NO_ENCODING = re.compile(r"unknown encoding: (\S+)")
_NO_INSTANCES = re.compile(r"cannot create '(\w+)' instances")

_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "JSONEncoder.__init__": json.dumps,
    "JSONDecoder.__init__": json.loads,
}
_TYPES: Final[dict[str, type]] = {"function": types.FunctionType, "method": types.MethodType}

# The interpreter accepts a class that defines one of these methods, but never calls it.
_COMPARE = ("lt", "le", "gt", "ge", "ne")
_IN_PLACE = ("add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift")
_ACCESS = ("getattr", "getattribute", "setattr", "delattr", "get", "set", "delete", "set_name", "class_getitem")
_OTHERS = ("bool", "len", "new", "reversed", "await", "del", "format")
_NAMES = (*_COMPARE, *(f"i{name}" for name in _IN_PLACE), *_ACCESS, *_OTHERS)
_NOT_CALLED = frozenset(f"__{name}__" for name in _NAMES)
_NOT_KEPT = _NOT_CALLED | {"__slots__"}
_ANY = "|".join(name.strip("_") for name in sorted(_NOT_KEPT))
_MAY_DEFINE = re.compile(rf"\bdef\s+__(?:{_ANY})__|^[ \t]+__(?:{_ANY})__\s*[:=]", re.MULTILINE)
# Longer source is not parsed.
_MOST_PARSED = 1_000_000


def lacking(type: str, message: str) -> str:
    """Return the missing feature that an error's message is about, such as `int has no from_bytes`; else ""."""
    if type == "AttributeError" and (found := _NO_NEW_ATTRIBUTE.match(message)):
        return f"{found[1]}s take no attributes"
    if type == "AttributeError" and (found := _NO_ATTRIBUTE.match(message)):
        kind, owner, name = found.groups()
        has = _module_has(owner, name) if kind == "module " else _type_has(owner, name)
        return f"{owner} has no {name}" if has else ""
    if type == "TypeError" and (found := _NO_ARGUMENT.match(message)):
        return f"{found[1]}() does not take {found[2]}" if _takes(found[1], found[2]) else ""
    if type == "TypeError" and (found := _NO_INSTANCES.match(message)):
        return f"{found[1]} makes no instances" if hasattr(builtins, found[1]) else ""
    if type == "LookupError" and (found := _NO_ENCODING.match(message)):
        return f"str and bytes have no {found[1]}" if _is_encoding(found[1]) else ""
    return ""


def not_called(source: str) -> tuple[str, int] | None:
    """Return the first special method or attribute of a class that the interpreter would ignore, and its line."""
    if _MAY_DEFINE.search(source) is None or len(source) > _MOST_PARSED:
        return None
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    for node in ast.walk(tree):
        for inner in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef)) and inner.name in _NOT_CALLED:
                return inner.name, inner.lineno
            for target in _targets(inner):
                if isinstance(target, ast.Name) and target.id in _NOT_KEPT:
                    return target.id, inner.lineno
    return None


def _targets(statement: ast.stmt) -> Sequence[ast.expr]:
    if isinstance(statement, ast.Assign):
        return statement.targets
    return (statement.target,) if isinstance(statement, ast.AnnAssign) else ()


# Features of CPython, looked up without importing a module


def _module_has(module: str, name: str) -> bool:
    return module in sys.stdlib_module_names and hasattr(sys.modules.get(module), name)


def _type_has(owner: str, name: str) -> bool:
    module, _, type = owner.rpartition(".")
    if module:
        return owner.startswith("_io.") or (
            module in sys.stdlib_module_names and hasattr(getattr(sys.modules.get(module), type, None), name)
        )
    found = _TYPES.get(type, getattr(builtins, type, None))
    return hasattr(found, name) if found is not None else name == "__dict__" or hasattr(object, name)


def _takes(function: str, keyword: str) -> bool:
    found = _FUNCTIONS.get(function, getattr(builtins, function, None))
    try:
        return found is not None and keyword in inspect.signature(found).parameters
    except (TypeError, ValueError):  # a built-in function without a signature
        return False


def _is_encoding(name: str) -> bool:
    try:
        codecs.lookup(name)
    except (LookupError, ValueError):
        return False
    return True
