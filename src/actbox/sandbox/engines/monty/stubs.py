"""Declarations that a caller gives for the check of types: tried by themselves, before any program is."""

from __future__ import annotations

import ast

from actbox.core.errors import InvalidValue, SandboxUnavailable

from .declared import BUILTINS
from .findings import findings_in
from .library import Interpreter, Workers
from .steps import Ended, IllTyped, Lost, Settings

# Beside declarations only these are faults: that a body is empty is what a declaration is about.
_FAULTS = ("invalid-syntax", "unresolved-import", "unresolved-reference")
# The check always finds this, so that nothing of what is given is run.
_ILL_TYPED = "__never_run: str = 0\n"
_MEMORY_BYTES, _CPU_SECONDS = 256 * 2**20, 30


def check_syntax(stubs: str) -> None:
    """Raise `InvalidValue` for what is no Python."""
    try:
        ast.parse(stubs)
    except SyntaxError as error:
        raise InvalidValue(f"type_check_stubs are no Python: line {error.lineno}: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise InvalidValue(f"type_check_stubs are no Python: {error}") from None


def try_stubs(workers: Workers, stubs: str) -> None:
    """Raise `InvalidValue` for a type or a module that the check does not know. Blocks; `workers` are open."""
    settings = Settings(
        script_name="type_check_stubs", memory_bytes=_MEMORY_BYTES, cpu_seconds=_CPU_SECONDS, type_check=True
    )
    interpreter = Interpreter(workers, settings)
    ahead = f"{_ILL_TYPED}{BUILTINS}"
    try:
        step = interpreter.feed(f"{ahead}{stubs}\n", {}, lambda stream, text: None, None)
        while not isinstance(step, Ended):  # for each module that is imported it asks for declarations
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
