"""The code with which a fresh interpreter imports the guest without importing the rest of the package.

`BOOT` is passed whole to `python -c`. It declares this directory's parent as a package `_actbox` without running any
`__init__`, so nothing else is imported, and a program's modules cannot be mistaken for ours.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import List, Sequence


BOOT = (
    "import sys,types,importlib;"
    "p=types.ModuleType('_actbox');p.__path__=[sys.argv[1]];sys.modules['_actbox']=p;"
    "importlib.import_module('_actbox.'+sys.argv[2]).main(int(sys.argv[3]))"
)


def boot_command(
    python: str, folder: str, module: str, descriptor: int, keep_bytecode: bool = False, options: Sequence[str] = ()
) -> List[str]:
    """Return the command that runs `main(descriptor)` of a module below `folder`, isolated from the caller's settings.

    `keep_bytecode` lets the interpreter save compiled modules, as Python usually does. `options` are further options of
    the interpreter.
    """
    settings = ["-I", "-X", "utf8"] if keep_bytecode else ["-I", "-B", "-X", "utf8"]
    return [python, *settings, *options, "-c", BOOT, folder, module, str(descriptor)]
