"""The program itself: compiled as it was written, run as `__main__`, its last expression kept."""

from __future__ import annotations

import ast
import builtins
import linecache
import os
import sys
from types import CodeType, ModuleType

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Callable, Coroutine, Dict, Optional, Tuple

_AWAITS = (ast.Await, ast.AsyncFor, ast.AsyncWith)
_CO_COROUTINE = 0x80  # as `inspect` has it, which is much to import for one number
# No identifier, so that no program can have a variable of this name.
_VALUE = "<value>"


def set_out(message: Dict[str, Any], done: Dict[str, Any]) -> bool:
    """Give a program its variables, and go to its folder, from which it imports first; say in `done` why not."""
    os.environ.update(message.get("env", {}))
    if "cwd" not in message:
        return True
    try:
        os.stat(message["cwd"])  # where WebAssembly knows why there is no such folder
        os.chdir(message["cwd"])
    except OSError as error:
        said = "cannot start in %s: %s" % (message["cwd"], error.strerror)
        done.update(exit=126, error={"kind": "RUNTIME", "type": type(error).__name__, "message": said})
        return False
    sys.path.insert(0, message["cwd"])
    return True


class Compiled:
    """A program that is ready to run. `awaits` says whether it uses `await` anywhere."""

    def __init__(self, code: CodeType, awaits: bool) -> None:
        self.code = code
        self.awaits = awaits


def compile_program(source: str, name: str) -> Compiled:
    """Compile a module in which `await` may stand at the top level. Raises `SyntaxError` and nothing else of its own.

    The source goes into `linecache` under `name`, so that tracebacks show its lines; line numbers are its own.
    """
    source = source[1:] if source.startswith("\ufeff") else source  # a byte order mark, as Python drops it from files
    try:
        tree = ast.parse(source, name)
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
    except ValueError as error:  # before 3.12: "source code string cannot contain null bytes"
        raise _syntax_error(str(error), name, source.count("\n", 0, max(source.find("\0"), 0)) + 1) from None
    except (RecursionError, MemoryError):
        raise _syntax_error("the program is nested too deeply, or too large, to be compiled", name, 1) from None
    # As Python counts them: str.splitlines would also divide at form feeds and line separators.
    lines = [line + "\n" for line in source.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    linecache.cache[name] = (len(source), None, lines, name)
    # There is no such thing without the word, and to look at every node of a program takes as long as to compile it.
    may_await = "await" in source or "async" in source
    return Compiled(code, may_await and any(_awaits(node) for node in ast.walk(tree)))


def _syntax_error(message: str, name: str, line: int) -> SyntaxError:
    return SyntaxError(message, (name, line, None, None))


def _awaits(node: ast.AST) -> bool:
    return isinstance(node, _AWAITS) or (isinstance(node, ast.comprehension) and bool(node.is_async))


def new_main(names: Dict[str, Any]) -> ModuleType:
    """Make a fresh `__main__` that has these names bound."""
    main = ModuleType("__main__")
    main.__dict__.update(names)
    main.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = main
    return main


def run_in(
    main: ModuleType, compiled: Compiled, run_async: Optional[Callable[[Coroutine[Any, Any, None]], None]] = None
) -> Tuple[bool, Any]:
    """Run the program; return whether it ended in an expression, and that expression's value.

    A program that awaits at the top level is given to `run_async`, by default to an event loop of its own.
    """
    namespace = main.__dict__
    namespace.pop(_VALUE, None)  # of an earlier program that was interrupted right at its end
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
    """Return the exit code that `sys.exit(x)` means, and the text that Python would print for it."""
    if error.code is None:
        return 0, None
    if isinstance(error.code, int):
        return error.code & 0xFF, None
    try:
        return 1, str(error.code)
    except Exception as failure:
        return 1, "(its words cannot be shown: str() raised %s)" % type(failure).__name__
