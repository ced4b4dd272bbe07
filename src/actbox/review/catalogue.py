"""Which names of the standard library and of common packages meet which rule."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Mapping
from typing import Final

from .files import OPENS, PATH_CLASSES, READS, WRITES
from .functions import CALLED, FUNCTIONS, MODULES, NETWORK_MODULES, all_of

REACHING: Final = frozenset(
    [
        "__subclasses__",
        "__bases__",
        "__base__",
        "__mro__",
        "mro",
        "__globals__",
        "__code__",
        "__closure__",
        "__builtins__",
        "__self__",
        "__getattribute__",
        "__loader__",
        "__spec__",
        "__reduce__",
        "__reduce_ex__",
        "f_globals",
        "f_locals",
        "f_builtins",
        "f_back",
        "f_code",
        "tb_frame",
        "gi_frame",
        "gi_code",
        "cr_frame",
        "cr_code",
        "ag_frame",
        "ag_code",
        "func_globals",
        "func_code",
    ]
)
"""Attributes that lead from any object into the interpreter's own."""

REACHING_NAMES: Final = frozenset(["__loader__", "__spec__"])
"""Names that every module has and that do the same."""

SENSITIVE: Final = frozenset(
    [
        "os",
        "sys",
        "subprocess",
        "builtins",
        "ctypes",
        "importlib",
        "socket",
        "pty",
        "multiprocessing",
        "pickle",
        "marshal",
        "runpy",
        "cffi",
    ]
)
"""Modules of which nobody can tell what is done with them once they are handed on as values."""

_EXPORTED: Final = SENSITIVE - {"runpy", "cffi"} | {"shutil"}

HOLDER_METHODS: Final = frozenset(
    ["get", "pop", "setdefault", "__getitem__", "update", "values", "items", "__setitem__", "copy", "clear"]
)
"""Methods of what a module's names are kept in."""

ANYWHERE: Final = frozenset(["os", "subprocess", "builtins", "__builtins__", "ctypes", "importlib"])
"""Modules that are taken for themselves also as an attribute of what is not known: `thing.os.system`."""

IMPORT_PATHS: Final = frozenset(["sys.path", "sys.meta_path", "sys.path_hooks", "sys.path_importer_cache"])
"""What decides which modules are loaded."""

CHANGES: Final = frozenset(
    [
        *("append", "clear", "extend", "insert", "pop", "remove", "reverse", "setdefault", "sort"),
        *("update", "__delitem__", "__iadd__", "__setitem__"),
    ]
)
"""Methods that change a list or a dictionary."""

BUILTINS: Final = frozenset(vars(builtins))

_SAME: Final[Mapping[str, str]] = {
    "posix": "os",
    "nt": "os",
    "_posixsubprocess": "subprocess",
    "_io": "io",
    "_pyio": "io",
    "io.open": "builtins.open",
    "_pickle": "pickle",
    "cPickle": "pickle",
    "six.moves.cPickle": "pickle",
    "_socket": "socket",
    "_ctypes": "ctypes",
    "_imp": "imp",
    "__builtin__": "builtins",
    "__builtins__": "builtins",
    "posixpath": "os.path",
    "torch.serialization.load": "torch.load",
    "numpy.lib.npyio.load": "numpy.load",
    "ruamel.yaml": "yaml",
    "importlib._bootstrap.__import__": "builtins.__import__",
    "importlib.__import__": "builtins.__import__",
    "asyncio.streams": "asyncio",
    "numpy.lib.npyio.DataSource": "numpy.DataSource",
    "profiling.tracing": "cProfile",
    "sqlite3.dbapi2": "sqlite3",
    "_sqlite3": "sqlite3",
    "ssl.create_connection": "socket.create_connection",
}

_SAME_ROOTS: Final = frozenset(name.partition(".")[0] for name in _SAME)

_PACKAGES: Final = frozenset(["asyncio", "pandas.io", "socket"])
"""What has a module, or a class, of such a name itself."""


def canonical(path: str) -> str:
    """Return the one name of what several modules have, such as `os.system` for `posix.system`."""
    for old, new in _SAME.items() if path.partition(".")[0] in _SAME_ROOTS else ():
        if path == old or path.startswith(old + "."):
            return canonical(new + path[len(old) :])
    head, dot, last = path.rpartition(".")
    if dot and last.lstrip("_") in _EXPORTED and head not in _PACKAGES:
        return last.lstrip("_")  # a module's own import of another, such as `random._os`
    if last in ("io", "_io") and head in sys.stdlib_module_names:
        return "io"  # packages elsewhere have an `io` of their own, such as `skimage.io`
    return path


_NO_USE: Final = ("Error", "Exception", "Warning", "__")


def rule_of(path: str) -> str | None:
    """Return the rule that a function meets by being mentioned, whatever it is called with."""
    if path in FUNCTIONS or path.endswith(_NO_USE):
        return FUNCTIONS.get(path)
    head = path.rpartition(".")[0]
    while head:
        if head in MODULES:
            return None if path in MODULES else MODULES[head]
        head = head.rpartition(".")[0]
    return None


def network_use(path: str) -> bool:
    """Return whether a name belongs to a module of the network and is no exception."""
    last = path.rpartition(".")[2]
    if last.endswith(_NO_USE) or ".exceptions." in path:
        return False
    return any(path.startswith(module + ".") for module in NETWORK_MODULES)


def known(path: str) -> bool:
    """Return whether the catalogue has something to say about this very name."""
    return rule_of(path) is not None or path in CALLED or path in READS or path in WRITES or path in OPENS


_ALSO: Final = (
    *("pathlib.Path.home", "builtins.bytes.fromhex", "sys.modules", "importlib.import_module", "yaml.SafeLoader"),
    *("base64.b64decode", "base64.standard_b64decode", "base64.urlsafe_b64decode", "binascii.unhexlify"),
    *("codecs.decode", "codecs.encode", "inspect.getattr_static", "operator.attrgetter", "builtins.getattr"),
    *(f"{path}.{method}" for path in sorted(IMPORT_PATHS) for method in sorted(CHANGES)),
    *all_of("operator", "methodcaller"),
    *all_of("os.path", "join expanduser abspath realpath normpath"),
)
_WHOLE: Final = frozenset([*NETWORK_MODULES, *MODULES])
_NAMES: Final = (*FUNCTIONS, *CALLED, *READS, *WRITES, *OPENS, *PATH_CLASSES, *SENSITIVE, *_WHOLE, *_ALSO)
_ROOTS: Final = frozenset(name.partition(".")[0] for name in _NAMES)
_FOLLOWED: Final = frozenset(
    ".".join(parts[:length]) for parts in (name.split(".") for name in _NAMES) for length in range(1, len(parts) + 1)
)


_MAKERS: Final = frozenset(name.partition("()")[0] for name in _NAMES if "()" in name)


def makes(path: str) -> str | None:
    """Return the name that stands for what a function or class gives, if its methods are in the catalogue."""
    return f"{path}()" if path in _MAKERS else None


def followed(path: str) -> bool:
    """Return whether a reader needs the name of this attribute of a module: there are but finitely many such names."""
    head, _, last = path.rpartition(".")
    if path in _FOLLOWED or head in _WHOLE or (head in _ROOTS and "." not in head):
        return True
    holder = head == "sys.modules" or head.endswith(".__dict__")
    return (holder and last in HOLDER_METHODS) or (last == "__dict__" and not holder and head.count(".") < 2)
