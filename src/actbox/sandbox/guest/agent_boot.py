"""Turns any interpreter into an agent: `BOOT` is passed to `python -c`, and all other code is sent to it.

The argument after it is the descriptor of a socket to the host; without one, standard input and output are used.

The message carries the sources of the guest's modules by name, which are imported from memory as a package
`_actbox.guest`, so nothing is written to disk, and a program's modules cannot be mistaken for ours. An interpreter like
this process's own also gets them compiled, since compiling takes longer than the rest of an agent's start.
"""

from __future__ import annotations

import functools
import json
import marshal
import os
import struct
import sys
import zlib
from importlib.machinery import SourceFileLoader
from types import CodeType

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Dict

_PACKAGE = "_actbox.guest."
# Modules that only other kinds of guest need.
_ELSEWHERE = ("__init__.py", "agent_boot.py", "boot.py", "wasm.py")

BOOT = """
import json, os, struct, sys, zlib
descriptor = int((sys.argv + ['0'])[1])
def read(count):
    data = b''
    while len(data) < count:
        piece = os.read(descriptor, count - len(data))
        if not piece: os._exit(1)
        data += piece
    return data
sent = json.loads(zlib.decompress(read(*struct.unpack('!I', read(4)))))
sent['descriptor'] = descriptor
sent['compiled'] = read(sent['compiled_bytes'])
exec(compile(sent['loader'], '<actbox>', 'exec'), sent)
"""

LOADER = """
import importlib.machinery, marshal, sys

codes = marshal.loads(compiled) if compiled and compiled_by == sys.version else {}

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name in ('_actbox', '_actbox.guest') or name in modules:
            return importlib.machinery.ModuleSpec(name, self, is_package=name not in modules)
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        if module.__name__ in modules:
            module.__file__ = '/<actbox>/' + module.__name__.rpartition('.')[2] + '.py'
            code = codes.get(module.__name__) or compile(modules[module.__name__], module.__file__, 'exec')
            exec(code, module.__dict__)

sys.meta_path.insert(0, Finder())
import _actbox.guest.agent
_actbox.guest.agent.main(config, descriptor)
"""


def boot_message(modules: Dict[str, str], config: Dict[str, Any], compiled: bytes = b"") -> bytes:
    """Return the message for an interpreter that runs `BOOT`: the modules' sources by name, and the agent's config.

    `compiled` is the result of `own_codes`, or nothing; an interpreter of another version ignores it.
    """
    sent = {
        "loader": LOADER,
        "modules": {_PACKAGE + name: source for name, source in modules.items()},
        "config": config,
        "compiled_by": sys.version,
        "compiled_bytes": len(compiled),
    }
    packed = zlib.compress(json.dumps(sent).encode("ascii"), 3)
    return struct.pack("!I", len(packed)) + packed + compiled


def own_modules() -> Dict[str, str]:
    """Return the sources of the guest's modules by name."""
    folder = os.path.dirname(os.path.abspath(__file__))
    sources = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".py") and name not in _ELSEWHERE:
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                sources[name[: -len(".py")]] = file.read()
    return sources


@functools.lru_cache(maxsize=None)
def own_codes() -> bytes:
    """Return the guest's modules by name, compiled for this interpreter, with no path of this machine in them."""
    folder = os.path.dirname(os.path.abspath(__file__))
    codes = {}
    for name in own_modules():
        loader = SourceFileLoader("actbox.sandbox.guest." + name, os.path.join(folder, name + ".py"))
        code = loader.get_code(loader.name)
        assert code is not None
        codes[_PACKAGE + name] = _renamed(code, "/<actbox>/%s.py" % name)
    return marshal.dumps(codes)


def _renamed(code: CodeType, file: str) -> CodeType:
    inner = tuple(_renamed(item, file) if isinstance(item, CodeType) else item for item in code.co_consts)
    return code.replace(co_filename=file, co_consts=inner)
