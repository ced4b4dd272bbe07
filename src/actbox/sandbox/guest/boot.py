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
    python: str, folder: str, module: str, descriptor: int, nursery: bool = False, options: Sequence[str] = ()
) -> List[str]:
    """Return the command that runs `main(descriptor)` of a module below `folder`, isolated from the caller's settings.

    For a `nursery` the interpreter saves compiled modules, as Python usually does, and begins without its garbage
    collector, which would find nothing while it imports. `options` are further options of the interpreter.
    """
    settings = ["-I", "-X", "utf8"] if nursery else ["-I", "-B", "-X", "utf8"]
    code = "import gc;gc.disable();" + BOOT if nursery else BOOT
    return [python, *settings, *options, "-c", code, folder, module, str(descriptor)]
