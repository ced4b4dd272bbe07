"""How an interpreter anywhere becomes an agent: `BOOT` is all that is passed to `python -c`; the rest is sent to it.

An argument after it is the descriptor of a socket to the host; without one that is standard input and output.

What is sent is the source of the guest's modules by name, which are imported from memory as a package `_actbox.guest`,
so that nothing is written there, and a program's own modules cannot be mistaken for ours.
"""

from __future__ import annotations

import json
import os
import struct
import zlib

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Dict

# Of other ways for a guest to begin, or to be.
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
exec(compile(sent['loader'], '<actbox>', 'exec'), sent)
"""

LOADER = """
import importlib.abc, importlib.machinery, sys, types

class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if name in ('_actbox', '_actbox.guest') or name in modules:
            return importlib.machinery.ModuleSpec(name, self, is_package=name not in modules)
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        if module.__name__ in modules:
            module.__file__ = '/<actbox>/' + module.__name__.rpartition('.')[2] + '.py'
            exec(compile(modules[module.__name__], module.__file__, 'exec'), module.__dict__)

sys.meta_path.insert(0, Finder())
import _actbox.guest.agent
_actbox.guest.agent.main(config, descriptor)
"""


def boot_message(modules: Dict[str, str], config: Dict[str, Any]) -> bytes:
    """Return what an interpreter that runs `BOOT` is to read: the sources by name, and what the agent is to be."""
    sent = {
        "loader": LOADER,
        "modules": {"_actbox.guest." + name: source for name, source in modules.items()},
        "config": config,
    }
    packed = zlib.compress(json.dumps(sent).encode("ascii"), 3)
    return struct.pack("!I", len(packed)) + packed


def own_modules() -> Dict[str, str]:
    """Return the sources of the guest's modules by name."""
    folder = os.path.dirname(os.path.abspath(__file__))
    sources = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".py") and name not in _ELSEWHERE:
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                sources[name[: -len(".py")]] = file.read()
    return sources
