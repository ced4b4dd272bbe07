"""What programs may call, as declarations for the check of types, and whether a program awaits."""

from __future__ import annotations

import ast
import re
import warnings
from typing import Any, Final

from actbox.core.program import Program
from actbox.sandbox.embedded import http_face
from actbox.tools import Toolset, stubs

BUILTINS: Final = """\
from typing import Any, TypedDict

ToolError = RuntimeError
class FileExistsError(OSError): ...
class FileNotFoundError(OSError): ...
class IsADirectoryError(OSError): ...
class NotADirectoryError(OSError): ...
class PermissionError(OSError): ...
class ImportError(Exception): ...
class ModuleNotFoundError(ImportError): ...
class UnboundLocalError(NameError): ...
class UnicodeDecodeError(ValueError): ...
class UnicodeEncodeError(ValueError): ...
def open(file: Any, mode: str = "r", **options: Any) -> Any: ...
def map(function: Any, *iterables: Any) -> Any: ...
def filter(function: Any, iterable: Any) -> Any: ...
def getattr(object: Any, name: str, *default: Any) -> Any: ...
def hasattr(object: Any, name: str) -> bool: ...
def setattr(object: Any, name: str, value: Any) -> None: ...
def format(value: Any, spec: str = "") -> str: ...
"""
"""What the interpreter has and the library's check does not know of."""

_AWAITS = (ast.Await, ast.AsyncFor, ast.AsyncWith)
_MAY_AWAIT = re.compile(r"\bawait\b|\basync\b")
# More source than this is not looked at closer: that it says `await` is taken for an answer.
_MOST_PARSED = 1_000_000


def awaits(source: str) -> bool:
    """Return whether a program uses `await`; one that is no program does not."""
    if _MAY_AWAIT.search(source) is None:
        return False
    if len(source) > _MOST_PARSED:
        return True
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(
        isinstance(node, _AWAITS) or (isinstance(node, ast.comprehension) and bool(node.is_async))
        for node in ast.walk(tree)
    )


def compiles(source: str) -> bool:
    """Return whether CPython takes a source for a program; what is very long is not looked at."""
    if len(source) > _MOST_PARSED:
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what a program had better not do is its own affair
            compile(source, "program", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        return False
    return True


def declarations(program: Program, toolset: Toolset, *, awaited: bool, network: bool, more: str) -> str:
    """Return Python that declares what a program has beside its own: tools, inputs, and `more`."""
    define = "async def" if awaited else "def"
    parts = [BUILTINS]
    if len(toolset):
        parts.append(stubs(toolset, awaitable=awaited))
        parts.append(f"{define} call_tool(name: str, /, **arguments: Any) -> Any: ...")
    if network:
        parts.append(http_face.STUB.format(define=define))
    parts += [f"{name}: {_type_of(value)}" for name, value in program.inputs.items()]
    return "\n\n".join([*parts, more]) + "\n"


def _type_of(value: Any) -> str:
    for kind, name in ((bool, "bool"), (int, "int"), (float, "float"), (str, "str")):
        if isinstance(value, kind):
            return name
    if isinstance(value, list):
        return "list[Any]"
    return "dict[str, Any]" if isinstance(value, dict) else "Any"
