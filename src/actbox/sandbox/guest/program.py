"""Compiles a program unchanged and runs it as `__main__`, keeping the value of its last expression."""

from __future__ import annotations

import ast
import builtins
import linecache
import os
import sys
from types import CodeType, ModuleType

from .indentation import parse

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Callable, Coroutine, Dict, List, Optional, Set, Tuple

_AWAITS = (ast.Await, ast.AsyncFor, ast.AsyncWith)
_CO_COROUTINE = 0x80  # the value of `inspect.CO_COROUTINE`; importing `inspect` takes long
# Not an identifier, so no program can have a variable of this name.
_VALUE = "<value>"

programs: List[Tuple[str, str]] = []
"""Names and sources of the programs that have begun in this process, in order: all of a session's, else one."""


def import_from(variables: Dict[str, str]) -> None:
    """Add the directories of `PYTHONPATH` in these variables to `sys.path`, after the program's own directory."""
    folders = variables.get("PYTHONPATH", "").split(":")
    sys.path[1:1] = [folder for folder in folders if folder and folder not in sys.path]


def set_out(message: Dict[str, Any], done: Dict[str, Any]) -> bool:
    """Set a program's variables, import path and directory; return false, with the error in `done`, if that fails."""
    os.environ.update(message.get("env", {}))
    import_from(message.get("env", {}))
    if "cwd" not in message:
        return True
    try:
        os.stat(message["cwd"])  # gives the right error under WebAssembly
        os.chdir(message["cwd"])
    except OSError as error:
        said = "cannot start in %s: %s" % (message["cwd"], error.strerror)
        done.update(exit=126, error={"kind": "RUNTIME", "type": type(error).__name__, "message": said})
        return False
    sys.path.insert(0, message["cwd"])
    return True


class FileNames:
    """The file names of a session's programs, each its own: functions' source lines are looked up by them."""

    def __init__(self) -> None:
        self._used: Set[str] = set()
        self._last: Dict[str, int] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._used

    def unused(self, name: str) -> str:
        """Return `name`, with a number if it has been used. The number is sought from the last one that it got."""
        stem, dot, suffix = name.rpartition(".") if "." in name else (name, "", "")
        number, unique = self._last.get(name, 1), name
        while unique in self._used:
            number += 1
            unique = "%s-%d%s%s" % (stem, number, dot, suffix)
        self._last[name] = number
        self._used.add(unique)
        return unique


class Compiled:
    """A compiled program. `awaits` is true if it uses `await` anywhere."""

    def __init__(self, code: CodeType, awaits: bool, name: str, source: str) -> None:
        self.code = code
        self.awaits = awaits
        self.name = name
        self.source = source


def compile_program(source: str, name: str, shown: str = "") -> Compiled:
    """Compile a module in which `await` may stand at the top level. Raises only `SyntaxError` for a faulty program.

    The source goes into `linecache` under `name`, so that tracebacks show its lines; line numbers are the source's. If
    lines of a program were replaced, `shown` is the program as it was sent.
    """
    source = source[1:] if source.startswith("\ufeff") else source  # a byte order mark, as Python drops it from files
    if "\0" in source:  # CPython before 3.12 raises a ValueError, and later versions name no line
        line = source.count("\n", 0, source.index("\0")) + 1
        raise _syntax_error("source code string cannot contain null bytes", name, line)
    try:
        tree = parse(source, name)
        last = tree.body[-1] if tree.body else None
        if isinstance(last, ast.Expr):
            kept = ast.Assign(targets=[ast.copy_location(ast.Name(_VALUE, ast.Store()), last)], value=last.value)
            tree.body[-1] = ast.copy_location(kept, last)
        code = compile(tree, name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except SyntaxError as error:
        if error.filename != name:
            error.filename = name
        raise
    except UnicodeEncodeError as error:
        line = source.count("\n", 0, error.start) + 1
        raise _syntax_error("the source has a lone surrogate, which is no character", name, line) from None
    except (RecursionError, MemoryError):
        raise _syntax_error("the program is nested too deeply, or too large, to be compiled", name, 1) from None
    # Split as Python counts lines: str.splitlines would also split at form feeds and line separators.
    shown = shown or source
    lines = [line + "\n" for line in shown.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    linecache.cache[name] = (len(shown), None, lines, name)
    # Without these words there is nothing to find, and walking a program's tree takes as long as compiling it.
    may_await = "await" in source or "async" in source
    return Compiled(code, may_await and any(_awaits(node) for node in ast.walk(tree)), name, source)


def _syntax_error(message: str, name: str, line: int) -> SyntaxError:
    return SyntaxError(message, (name, line, None, None))


def _awaits(node: ast.AST) -> bool:
    return isinstance(node, _AWAITS) or (isinstance(node, ast.comprehension) and bool(node.is_async))


def new_main(names: Dict[str, Any]) -> ModuleType:
    """Make a fresh `__main__` module with these names bound."""
    main = ModuleType("__main__")
    main.__dict__.update(names)
    main.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = main
    return main


def run_in(
    main: ModuleType, compiled: Compiled, run_async: Optional[Callable[[Coroutine[Any, Any, None]], None]] = None
) -> Tuple[bool, Any]:
    """Run the program; return whether it ended in an expression, and that expression's value.

    A program that awaits at the top level is given to `run_async`, by default to a new event loop.
    """
    programs.append((compiled.name, compiled.source))
    namespace = main.__dict__
    namespace.pop(_VALUE, None)  # left by an earlier program that was interrupted at its very end
    if compiled.code.co_flags & _CO_COROUTINE:
        if run_async is None:
            import asyncio

            run_async = asyncio.run
        run_async(_as_coroutine(eval(compiled.code, namespace)))
    else:
        exec(compiled.code, namespace)
    has_value = _VALUE in namespace
    return has_value, namespace.pop(_VALUE, None)


async def _as_coroutine(awaitable: Any) -> None:
    await awaitable


def exit_code_of(error: SystemExit) -> Tuple[int, Optional[str]]:
    """Return the exit code for `sys.exit(x)`, and the text that Python would print for it."""
    if error.code is None:
        return 0, None
    if isinstance(error.code, int):
        return error.code & 0xFF, None
    try:
        return 1, str(error.code)
    except Exception as failure:
        return 1, "(its words cannot be shown: str() raised %s)" % type(failure).__name__
