"""Calls that count by what they are called with: paths, loaders, names that are found at run time."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Final

from . import catalogue, files
from .functions import CALLED
from .names import Names
from .paths import absolute_path, system_path
from .scopes import Scope
from .values import FilePath, Ref, Text, Unknown, Value, Values

Met = tuple[str, str, str]
"""A rule that a call meets, a message, and the subject."""

_SAFE_LOADERS: Final = frozenset(f"yaml.{name}" for name in ("SafeLoader", "CSafeLoader", "BaseLoader", "CBaseLoader"))
_NAMED_AT_RUN_TIME: Final = frozenset(["builtins.getattr", "builtins.setattr", "builtins.delattr"])

_GETTERS: Final = frozenset(["operator.attrgetter"])


def judge(node: ast.Call, scope: Scope, names: Names, given: list[Values]) -> Iterator[Met]:
    """Yield what a call meets. `given` is what each positional argument may be."""
    keywords = {key.arg: names.values(key.value, scope) for key in node.keywords if key.arg}
    if isinstance(node.func, ast.Attribute):
        for base in names.values(node.func.value, scope):
            if isinstance(base, FilePath):
                yield from _path_method(base, node.func.attr, given, keywords)
    for function in names.values(node.func, scope):
        if isinstance(function, Ref):
            yield from _function(function.path, node, given, keywords)


def _function(path: str, node: ast.Call, given: list[Values], keywords: dict[str, Values]) -> Iterator[Met]:
    paths = [value for values in (*given, *keywords.values()) for value in values]
    if path in _NAMED_AT_RUN_TIME:
        yield from _named_at_run_time(path, node, given)
    elif path in ("builtins.__import__", "importlib.import_module"):
        yield from _import_call(path, node, given)
    elif path in files.OPENS:
        values = [*(given[0] if given else ()), *keywords.get("file", ()), *keywords.get("name", ())]
        yield from _files(path, values, writes=_writes(path, node, given, keywords))
    elif path in files.READS:
        yield from _files(path, paths, writes=False)
    elif path in files.WRITES:
        yield from _files(path, paths, writes=True)
    elif path == "shutil.rmtree":
        for value in paths:
            found = absolute_path(value.text, whole=value.whole) if isinstance(value, (Text, FilePath)) else None
            if found is not None:
                yield "delete-tree", f"removes the folder tree {found!r}", found
    if path in CALLED and path != "shutil.rmtree" and not _harmless(path, node, given, keywords):
        yield CALLED[path], f"calls {path}, which loads data in a format that can run code", path
    base, _, last = path.rpartition(".")
    if last in ("get", "pop", "setdefault", "__getitem__") and (base.endswith(".__dict__") or base == "sys.modules"):
        if not (node.args and isinstance(node.args[0], ast.Constant)):
            yield "dynamic", f"looks up a name in {base} that is made at run time", base
    elif base == "sys.modules" or (base.endswith(".__dict__") and last in ("update", "values", "items", "__setitem__")):
        yield "dynamic", f"changes or goes through {base} as a whole", base
    elif path in _GETTERS and not all(isinstance(argument, ast.Constant) for argument in node.args):
        yield "dynamic", f"calls {path} with a name that is made at run time", path


def _named_at_run_time(path: str, node: ast.Call, given: list[Values]) -> Iterator[Met]:
    if len(node.args) < 2 or isinstance(node.args[1], ast.Constant):
        if len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
            name = node.args[1].value
            if name in catalogue.REACHING:
                yield "introspection", f"reads {name}", name
            return
        if not node.args or not any(isinstance(argument, ast.Starred) for argument in node.args):
            return
    known = sorted({v.text for v in given[1] if isinstance(v, Text) and v.whole}) if len(given) > 1 else []
    for name in known:
        if name in catalogue.REACHING:
            yield "introspection", f"reads {name}", name
    said = f": {', '.join(map(repr, known))}" if known else ""
    yield "dynamic", f"calls {path.removeprefix('builtins.')} with a name that is made at run time{said}", path


def _import_call(path: str, node: ast.Call, given: list[Values]) -> Iterator[Met]:
    for value in given[0] if given else ():
        if isinstance(value, Text) and value.whole:
            yield "import", f"imports {value.text} by {path}", value.text
    if path == "importlib.import_module" and not (node.args and isinstance(node.args[0], ast.Constant)):
        yield "dynamic", f"calls {path} with a name that is made at run time", path


def _files(path: str, values: Iterable[Value], *, writes: bool) -> Iterator[Met]:
    for value in values:
        if isinstance(value, (Text, FilePath)):
            found = system_path(value.text, whole=value.whole)
            if found is not None:
                more = "" if value.whole else " and what follows"
                verb = "writes to or changes" if writes else "reads"
                yield "system-write" if writes else "system-read", f"{verb} {found!r}{more}, by {path}", found


def _writes(path: str, node: ast.Call, given: list[Values], keywords: dict[str, Values]) -> bool:
    if path == "os.open":
        flags = given[1] if len(given) > 1 else keywords.get("flags", frozenset([Unknown()]))
        harmless = {"os.O_RDONLY", "os.O_PATH", "os.O_DIRECTORY", "os.O_CLOEXEC", "os.O_NOFOLLOW", "os.O_NONBLOCK"}
        return not all(isinstance(flag, Ref) and flag.path in harmless for flag in flags)
    modes = given[1] if len(given) > 1 else keywords.get("mode", frozenset())
    changing = set("wcn") if path.startswith("dbm.") else set("wax+")
    # A mode that is not known may be one for writing.
    unclear = any(isinstance(argument, ast.Starred) for argument in node.args) or any(
        key.arg is None for key in node.keywords
    )
    return unclear or any(not isinstance(mode, Text) or not mode.whole or set(mode.text) & changing for mode in modes)


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
    flag = flags.get("allow_pickle")  # of numpy.load, where it is off unless told
    unclear = None in flags or len(node.args) > 2 or any(isinstance(arg, ast.Starred) for arg in node.args)
    return not unclear and (flag is None or (isinstance(flag, ast.Constant) and flag.value is False))
