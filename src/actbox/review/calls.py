"""Calls that count by what they are called with: paths, loaders, names that are found at run time."""

from __future__ import annotations

import ast
import functools
import operator
import os
import re
from collections.abc import Iterable, Iterator
from typing import Final

from . import catalogue, files
from .functions import CALLED
from .methods import EXPRESSIONS, METHODS, reached, runs_text
from .names import Names
from .paths import absolute_path, system_path
from .rules import RULES
from .scopes import Scope
from .values import FilePath, Number, Ref, Text, Value, Values

Met = tuple[str, str, str]
"""A rule that a call meets, a message, and the subject."""

_SAFE_LOADERS: Final = frozenset(f"yaml.{name}" for name in ("SafeLoader", "CSafeLoader", "BaseLoader", "CBaseLoader"))
_NAMED_AT_RUN_TIME: Final = frozenset(["builtins.getattr", "builtins.setattr", "builtins.delattr"])

_GETTERS: Final = frozenset(["operator.attrgetter", "operator.methodcaller"])
_FORMATS: Final = frozenset(["format", "format_map", "vformat", "get_field"])

_URL: Final = re.compile(r"(https?|ftps?|s3|s3a|gs|gcs|az|abfss?|hdfs|sftp|ssh)://", re.IGNORECASE)
_OPENS_URLS: Final = (".", "pandas.", "polars.", "numpy.", "xml.")
"""What takes an address where it takes a path."""

_OPENED: Final = ("file", "filename", "name", "path")
"""Names of the argument that says what is opened."""
_READING_FLAGS: Final = frozenset(
    f"os.O_{name}" for name in ("RDONLY", "PATH", "DIRECTORY", "CLOEXEC", "NOFOLLOW", "NONBLOCK", "NOATIME")
)
_READING_BITS: Final = functools.reduce(
    operator.or_, (getattr(os, flag.removeprefix("os."), 0) for flag in _READING_FLAGS)
)

_TOLD_BY: Final = {
    "numpy.load": ("allow_pickle", 2),
    "numpy.lib.format.read_array": ("allow_pickle", 1),
    "inspect.get_annotations": ("eval_str", 1),
    "inspect.signature": ("eval_str", 1),
    "annotationlib.get_annotations": ("eval_str", 1),
    "unittest.main": ("module", 0),
    "unittest.TestProgram": ("module", 0),
}


def judge(node: ast.Call, scope: Scope, names: Names, given: list[Values], *, frames: bool) -> Iterator[Met]:
    """Yield what a call meets. `given` is what each positional argument may be; `frames`: see `runs_text`."""
    keywords = {key.arg: names.values(key.value, scope) for key in node.keywords if key.arg}
    if isinstance(node.func, ast.Attribute):
        for base in names.values(node.func.value, scope):
            if isinstance(base, FilePath):
                yield from _path_method(base, node.func.attr, given, keywords)
            else:
                yield from _method(base, node.func.attr, given, keywords, frames=frames)
    for function in names.values(node.func, scope):
        if isinstance(function, Ref):
            opens_to_read = function.path == "os.open" and _opens_to_read(node, scope, names)
            yield from _function(function.path, node, given, keywords, opens_to_read=opens_to_read)


def _method(base: Value, name: str, given: list[Values], keywords: dict[str, Values], *, frames: bool) -> Iterator[Met]:
    first = given[0] if given else keywords.get("expr", frozenset())
    if name in _FORMATS:
        texts = [base] if isinstance(base, Text) else first
        for found in sorted({found for text in texts if isinstance(text, Text) for found in _fields(text.text)}):
            yield "introspection", f"reads {found} by {name}", found
    elif name in EXPRESSIONS and not isinstance(base, Ref) and runs_text(first, frames=frames):
        yield "code", f"calls {name}, which runs the text that it is given", name
    elif name in files.METHOD_WRITES and not isinstance(base, Text):
        values = [value for found in (*given, *keywords.values()) for value in found]
        yield from _files(f".{name}", values, writes=True)


def _fields(text: str) -> Iterator[str]:
    for field in re.findall(r"[.\[][^{}]*", text):
        yield from reached(field)


def _function(
    path: str, node: ast.Call, given: list[Values], keywords: dict[str, Values], *, opens_to_read: bool
) -> Iterator[Met]:
    paths = [value for values in (*given, *keywords.values()) for value in values]
    if path in _NAMED_AT_RUN_TIME:
        yield from _named_at_run_time(path, node, given)
    elif path in ("builtins.__import__", "importlib.import_module"):
        yield from _import_call(path, node, given)
    elif path in files.OPENS:
        values = [*(given[0] if given else ()), *(value for name in _OPENED for value in keywords.get(name, ()))]
        yield from _files(path, values, writes=not opens_to_read and _writes(path, node, given, keywords))
    elif path in files.READS:
        yield from _files(path, paths, writes=False)
    elif path in files.WRITES:
        sources = files.SOURCES.get(path, {})
        for place, values_there in [*enumerate(given), *keywords.items()]:
            is_source = place in sources or place in sources.values()
            yield from _files(path, values_there, writes=not is_source)
    elif path == "shutil.rmtree":
        for value in paths:
            found = absolute_path(value.text, whole=value.whole) if isinstance(value, (Text, FilePath)) else None
            if found is not None:
                yield "delete-tree", f"removes the folder tree {found!r}", found
    if path in CALLED and path != "shutil.rmtree" and not _harmless(path, node, given, keywords):
        yield CALLED[path], f"calls {path}, which {RULES[CALLED[path]].about}", path
    base, _, last = path.rpartition(".")
    if last in ("get", "pop", "setdefault", "__getitem__") and (base.endswith(".__dict__") or base == "sys.modules"):
        if not (node.args and isinstance(node.args[0], ast.Constant)):
            yield "dynamic", f"looks up a name in {base} that is made at run time", base
    elif base in catalogue.IMPORT_PATHS and last in catalogue.CHANGES:
        yield "dynamic", f"changes {base}, where modules are looked for", base
    elif base == "sys.modules" or (base.endswith(".__dict__") and last in ("update", "values", "items", "__setitem__")):
        yield "dynamic", f"changes or goes through {base} as a whole", base
    elif path in _GETTERS:
        for text in [value.text for value in paths if isinstance(value, Text)]:
            yield from _telling(text)
    if path in _GETTERS and not all(isinstance(argument, ast.Constant) for argument in node.args):
        yield "dynamic", f"calls {path} with a name that is made at run time", path


def _named_at_run_time(path: str, node: ast.Call, given: list[Values]) -> Iterator[Met]:
    if len(node.args) < 2 or isinstance(node.args[1], ast.Constant):
        if len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
            name = node.args[1].value
            if isinstance(name, str):
                yield from _telling(name)
            return
        if not node.args or not any(isinstance(argument, ast.Starred) for argument in node.args):
            return
    known = sorted({v.text for v in given[1] if isinstance(v, Text) and v.whole}) if len(given) > 1 else []
    for name in known:
        yield from _telling(name)
    said = f": {', '.join(map(repr, known))}" if known else ""
    yield "dynamic", f"calls {path.removeprefix('builtins.')} with a name that is made at run time{said}", path


def _telling(text: str) -> Iterator[Met]:
    for name in reached(text):
        yield "introspection", f"reads {name}", name
    last = text.rpartition(".")[2]
    if last in METHODS:
        yield METHODS[last], f"uses {last}, which {RULES[METHODS[last]].about}", last


def _import_call(path: str, node: ast.Call, given: list[Values]) -> Iterator[Met]:
    for value in given[0] if given else ():
        if isinstance(value, Text) and value.whole:
            yield "import", f"imports {value.text} by {path}", value.text
    if path == "importlib.import_module" and not (node.args and isinstance(node.args[0], ast.Constant)):
        yield "dynamic", f"calls {path} with a name that is made at run time", path


def _files(path: str, values: Iterable[Value], *, writes: bool) -> Iterator[Met]:
    for value in values:
        if isinstance(value, Text) and path.startswith(_OPENS_URLS) and _URL.match(value.text):
            yield "network", f"opens {value.text!r} by {path}", path
        elif isinstance(value, (Text, FilePath)):
            found = system_path(value.text, whole=value.whole)
            if found is not None:
                more = "" if value.whole else " and what follows"
                verb = "writes to or changes" if writes else "reads"
                yield "system-write" if writes else "system-read", f"{verb} {found!r}{more}, by {path}", found


def _writes(path: str, node: ast.Call, given: list[Values], keywords: dict[str, Values]) -> bool:
    if path == "os.open":
        return True
    modes = given[1] if len(given) > 1 else keywords.get("mode", frozenset())
    changing = set("wcn") if path.startswith("dbm.") else set("wax+")
    # A mode that is not known may be one for writing.
    unclear = any(isinstance(argument, ast.Starred) for argument in node.args) or any(
        key.arg is None for key in node.keywords
    )
    return unclear or any(not isinstance(mode, Text) or not mode.whole or set(mode.text) & changing for mode in modes)


def _opens_to_read(node: ast.Call, scope: Scope, names: Names) -> bool:
    """Return whether the flags of a call of `os.open` say, for certain, that nothing is changed, also by making it."""
    if any(isinstance(argument, ast.Starred) for argument in node.args) or any(
        key.arg is None for key in node.keywords
    ):
        return False
    waiting = [*node.args[1:2], *(key.value for key in node.keywords if key.arg == "flags")]
    while waiting:
        flag = waiting.pop()
        if isinstance(flag, ast.BinOp) and isinstance(flag.op, ast.BitOr):
            waiting += [flag.left, flag.right]
            continue
        values = names.values(flag, scope)
        if not values or not all(_only_reads(value) for value in values):
            return False
    return True  # also without flags: then there is a TypeError


def _only_reads(flag: Value) -> bool:
    if isinstance(flag, Number):
        return flag.number >= 0 and not flag.number & ~_READING_BITS
    return isinstance(flag, Ref) and flag.path in _READING_FLAGS


def _path_method(base: FilePath, name: str, given: list[Values], keywords: dict[str, Values]) -> Iterator[Met]:
    shown = f"pathlib.Path.{name}"
    if name == "open":
        modes = given[0] if given else keywords.get("mode", frozenset())
        writes = any(not isinstance(mode, Text) or set(mode.text) & set("wax+") for mode in modes)
        yield from _files(shown, [base], writes=writes)
    elif name in files.PATH_READS:
        yield from _files(shown, [base], writes=False)
    elif name in files.PATH_WRITES:
        others = [value for value in (given[0] if given else ()) if name in ("rename", "replace")]
        yield from _files(shown, [base, *others], writes=True)


def _harmless(path: str, node: ast.Call, given: list[Values], keywords: dict[str, Values]) -> bool:
    """Return whether a loader is told, for certain, to load plain data only."""
    if path.startswith("yaml."):
        loaders = keywords.get("Loader", given[1] if len(given) > 1 else frozenset())
        return bool(loaders) and all(isinstance(v, Ref) and v.path in _SAFE_LOADERS for v in loaders)
    flags = {key.arg: key.value for key in node.keywords}
    if path == "torch.load":
        flag = flags.get("weights_only")
        return isinstance(flag, ast.Constant) and flag.value is True
    # The others do it only if they are told to, by a name or after so many arguments.
    name, before = _TOLD_BY[path]
    flag = flags.get(name)
    unclear = None in flags or len(node.args) > before or any(isinstance(arg, ast.Starred) for arg in node.args)
    return not unclear and (
        flag is None or (isinstance(flag, ast.Constant) and flag.value in (False, None, "__main__"))
    )
