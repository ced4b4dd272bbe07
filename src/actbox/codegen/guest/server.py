"""The program's end of a text check: it imports the program under test and does what the tests ask.

The program runs in this very interpreter, so nothing that happens here is a verdict.
"""

from __future__ import annotations

import functools
import importlib
import linecache
import os
import sys
import traceback
import types

from .peer import CO_COROUTINE, OF_PROGRAM, PROGRAM_FILE, Peer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from .peer import Exchange

_TOP_LEVEL_AWAIT = 0x2000  # `ast.PyCF_ALLOW_TOP_LEVEL_AWAIT`


def serve(exchange: Exchange, given: Mapping[str, Any]) -> None:
    """Answer the tests' requests until the host ends this sandbox.

    `given` has the program's `code` and its `inputs`, the `names` by which tests import it, and the `folder` of the
    further files of a program that has several.
    """
    sys.path[:0] = [os.path.abspath(given["folder"]), os.getcwd()]
    operations: dict[str, Callable[..., Any]] = {**OF_PROGRAM, "module": functools.partial(_module, _Program(given))}
    peer = Peer(exchange, operations, is_program=True)
    reply: Any = None
    while True:
        try:
            request = exchange(reply)
        except Exception as error:  # the reply has a value that cannot be sent
            request = exchange({"raise": peer.described(TypeError(str(error)))})
        reply = peer.serve(request)


class _Program:
    """The program as a module, which is imported once."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.names: list[str] = given["names"]
        self._given = given
        self._problem = ""
        self._module: Any = None

    def module(self) -> Any:
        """Return the module. Raises `ImportError` with the program's own error, also the second time."""
        if self._module is None and not self._problem:
            try:
                self._module = self._imported()
            except BaseException as error:
                frames = traceback.extract_tb(error.__traceback__)
                lines = [frame.lineno for frame in frames if frame.filename == PROGRAM_FILE]
                line = lines[-1] if lines else getattr(error, "lineno", None)
                said = f"{type(error).__name__}: {getattr(error, 'msg', None) or error}"
                self._problem = f"the program cannot be imported: {said}" + (f" (line {line})" if line else "")
        if self._problem:
            raise ImportError(self._problem)
        return self._module

    def _imported(self) -> Any:
        source = self._given["code"]
        module = types.ModuleType(self.names[0])
        module.__file__ = PROGRAM_FILE
        vars(module).update(self._given["inputs"])
        sys.modules.update(dict.fromkeys(self.names, module))
        linecache.cache[PROGRAM_FILE] = (len(source), None, source.splitlines(True), PROGRAM_FILE)
        code = compile(source, PROGRAM_FILE, "exec", _TOP_LEVEL_AWAIT, dont_inherit=True)
        try:
            if code.co_flags & CO_COROUTINE:
                import asyncio

                asyncio.run(eval(code, vars(module)))
            else:
                exec(code, vars(module))
        except SystemExit as end:  # a script may end itself when all is done
            if end.code not in (None, 0):
                raise
        return module


def _module(program: _Program, name: str) -> Any:
    if name in program.names:
        return program.module()
    return importlib.import_module(name)
