"""Declarations for the type check: of tools, inputs and built-ins, and the caller's own, which are tried first."""

from __future__ import annotations

import ast
import re
import warnings
from typing import Any, Final

from actbox.core.errors import InvalidValue, SandboxUnavailable
from actbox.core.program import Program
from actbox.sandbox.embedded import http_request
from actbox.tools import Toolset, stubs

from .library import Interpreter, Workers
from .steps import Ended, IllTyped, Lost, Settings, findings_in

BUILTINS: Final = """\
from typing import Any, TypedDict

ToolError = Exception
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
"""Declarations of what the interpreter has but the library's type check does not know."""

_AWAITS = (ast.Await, ast.AsyncFor, ast.AsyncWith)
_MAY_AWAIT = re.compile(r"\bawait\b|\basync\b")
# Longer source is not parsed: it counts as using `await` if it contains the word.
_MOST_PARSED = 1_000_000
# Declarations are wrong only if they break these rules; other rules complain about empty function bodies.
_FAULTS = ("invalid-syntax", "unresolved-import", "unresolved-reference")
# A line that never passes the type check, so that the library runs nothing of the stubs.
_ILL_TYPED = "__never_run: str = 0\n"
_MEMORY_BYTES, _CPU_SECONDS = 256 * 2**20, 30


def awaits(source: str) -> bool:
    """Return whether a program uses `await`; false if it is not valid Python."""
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
    """Return whether CPython can compile a source; false if it is too long to try."""
    if len(source) > _MOST_PARSED:
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as about an invalid escape sequence: no error
            compile(source, "program", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        return False
    return True


def declarations(program: Program, toolset: Toolset, *, awaited: bool, network: bool, more: str) -> str:
    """Return Python declarations of a program's built-ins, tools and inputs, followed by `more`."""
    define = "async def" if awaited else "def"
    parts = [BUILTINS]
    if len(toolset):
        parts.append(stubs(toolset, awaitable=awaited))
        parts.append(f"{define} call_tool(name: str, /, **arguments: Any) -> Any: ...")
    if network:
        parts.append(http_request.STUB.format(define=define))
    parts += [f"{name}: {_type_of(value)}" for name, value in program.inputs.items()]
    return "\n\n".join([*parts, more]) + "\n"


def _type_of(value: Any) -> str:
    for kind, name in ((bool, "bool"), (int, "int"), (float, "float"), (str, "str")):
        if isinstance(value, kind):
            return name
    if isinstance(value, list):
        return "list[Any]"
    return "dict[str, Any]" if isinstance(value, dict) else "Any"


def check_syntax(stubs: str) -> None:
    """Raise `InvalidValue` if the stubs are not valid Python."""
    try:
        ast.parse(stubs)
    except SyntaxError as error:
        raise InvalidValue(f"type_check_stubs are no Python: line {error.lineno}: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise InvalidValue(f"type_check_stubs are no Python: {error}") from None


def try_stubs(workers: Workers, stubs: str) -> None:
    """Raise `InvalidValue` if stubs use a type or a module unknown to the check. Blocks; `workers` must be open."""
    settings = Settings(
        script_name="type_check_stubs", memory_bytes=_MEMORY_BYTES, cpu_seconds=_CPU_SECONDS, type_check=True
    )
    interpreter = Interpreter(workers, settings)
    ahead = f"{_ILL_TYPED}{BUILTINS}"
    try:
        step = interpreter.feed(f"{ahead}{stubs}\n", {}, lambda stream, text: None, None)
        while not isinstance(step, Ended):  # the library asks once for each module that the stubs import
            step = interpreter.decline()
    except IllTyped as error:
        before = ahead.count("\n")
        faults = [
            f"line {finding.line - before}: {finding.words}"
            for finding in findings_in(error)
            if finding.rule in _FAULTS and finding.line > before
        ]
        if faults:
            raise InvalidValue(f"type_check_stubs do not stand by themselves: {'; '.join(faults)}") from None
    except Lost as error:
        raise SandboxUnavailable(f"type_check_stubs cannot be tried: {error}") from error
    finally:
        interpreter.close()
