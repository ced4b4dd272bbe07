"""The packages of a program: those that its author names, and those that its source imports."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator
from typing import Final

from actbox.core.packages import NPM_NAME, PACKAGE_NAME, normalized_name
from actbox.core.program import Program
from actbox.packages.import_names import DISTRIBUTIONS, distributions_of, in_standard_library
from actbox.review.source import Unread, parse

from .response import CodingResponse

_NAME: Final = {"python": re.compile(PACKAGE_NAME), "javascript": re.compile(NPM_NAME)}
_OTHER: Final = re.compile(r"[^\s@=]+")
_REQUIREMENT: Final = re.compile(
    rf"{PACKAGE_NAME}\s*(?:\[[\w\s,.-]*\])?\s*(?:\(?[<>=!~][^;@]*\)?)?\s*(?:;.*)?|{PACKAGE_NAME}\s*@\s*\S+"
)
_OPTION: Final = re.compile(r"\s-|[\r\n]")
"""The beginning of an option of an installer, such as `--index-url`, which no requirement has."""
_NPM: Final = re.compile(rf"{NPM_NAME}(?:@\S+)?")
_SCRIPT_BEGIN: Final = re.compile(r"(?m)^# /// script[ \t\r]*$")
_SCRIPT_END: Final = re.compile(r"(?m)^# ///[ \t\r]*$")
_JAVASCRIPT_IMPORT: Final = re.compile(r"""\b(?:require\s*\(|import\s*\(|from|import)\s*["']([^"'\n]+)["']""")
_CAUGHT: Final = ("ImportError", "ModuleNotFoundError", "Exception", "BaseException")
_MOST_CHARS: Final = 300
_NONE: Final = frozenset(("none", "n/a", "na", "null", "nil", "-", "standard library", "stdlib", "built-in", "no"))
NODE_MODULES: Final = frozenset(
    (
        *("assert", "async_hooks", "buffer", "child_process", "cluster", "console", "constants", "crypto"),
        *("dgram", "diagnostics_channel", "dns", "domain", "events", "fs", "http", "http2", "https"),
        *("inspector", "module", "net", "os", "path", "perf_hooks", "process", "punycode", "querystring"),
        *("readline", "repl", "sqlite", "stream", "string_decoder", "sys", "test", "timers", "tls"),
        *("trace_events", "tty", "url", "util", "v8", "vm", "wasi", "worker_threads", "zlib"),
    )
)
"""The modules of Node itself."""


def cleaned(dependencies: Iterable[str], language: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the requirements among the packages that a model names, and sentences on those that were changed.

    Modules of the standard library and words that are no requirement are left out. A module's name that no package has,
    such as `sklearn`, becomes its package's.
    """
    kept: list[str] = []
    notes: list[str] = []
    for one in dependencies:
        text = one.strip().lstrip("-*• ").strip("`")
        text = text[1:-1] if text[:1] in "'\"" and text[:1] == text[-1:] else text
        if not text or text.lower().rstrip(".") in _NONE:
            continue
        if len(text) > _MOST_CHARS:
            notes.append(f"{text[:60]}… is no requirement, so it was left out of the dependencies")
            continue
        if language == "python":
            found = re.match(PACKAGE_NAME, text)
            name = found[0] if found else ""
            if in_standard_library(name.replace("-", "_")) and name.lower() == name:
                notes.append(f"{name} is in Python's standard library, so it was left out of the dependencies")
                continue
            if not _REQUIREMENT.fullmatch(text) or _OPTION.search(text):
                notes.append(f"{text!r:.80} is no requirement, so it was left out of the dependencies")
                continue
            if name in DISTRIBUTIONS:
                text = DISTRIBUTIONS[name] + text[len(name) :]
                notes.append(f"the module {name} is in the package {DISTRIBUTIONS[name]}")
        elif language in ("javascript", "typescript"):
            if text.removeprefix("node:") in NODE_MODULES:
                notes.append(f"{text} is a part of Node, so it was left out of the dependencies")
                continue
            if not _NPM.fullmatch(text):
                notes.append(f"{text!r:.80} is no package of npm, so it was left out of the dependencies")
                continue
        kept.append(text)
    return tuple(dict.fromkeys(kept)), tuple(notes)


def dependencies_of(response: CodingResponse, *, optional: bool = True) -> tuple[str, ...]:
    """Return the names of the packages that a program needs: those named and those imported, each once.

    They are in the form in which names compare. Modules among the program's own files do not count. Without `optional`
    imports do not count whose `ImportError` a Python program catches.
    """
    language = "javascript" if response.language == "typescript" else response.language or "python"
    named = (_NAME.get(language, _OTHER).match(one) for one in response.dependencies)
    found = dict.fromkeys(normalized_name(one[0]) if language == "python" else one[0] for one in named if one)
    if language == "python":
        found.update(dict.fromkeys(_of_python(response, optional)))
    elif language == "javascript":
        found.update(dict.fromkeys(_of_javascript(response)))
    return tuple(found)


def requirements_txt(response: CodingResponse) -> str:
    """Return the text of a `requirements.txt` with the packages of a Python program, "" if there are none.

    Named packages keep their versions, and imported ones are added without. Packages without which the program can do
    are left out.
    """
    if response.language not in ("python", ""):
        return ""
    named = {normalized_name(found[0]): one for one in response.dependencies if (found := re.match(PACKAGE_NAME, one))}
    lines = [named.get(name, name) for name in dependencies_of(response, optional=False)]
    return "".join(f"{line}\n" for line in lines)


def _of_python(response: CodingResponse, optional: bool) -> list[str]:
    own = {part for path in response.files for part in (path.partition("/")[0].removesuffix(".py"), _stem(path))}
    found: list[str] = []
    for source in response.sources:
        found += _of_script_block(source)
        tree = parse(Program(source))
        if isinstance(tree, Unread):
            continue
        for node in ast.walk(tree) if optional else _without_caught(tree):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                names = [node.module]
            else:
                continue
            for name in names:
                if name.partition(".")[0] not in own and name.isascii() and not in_standard_library(name):
                    found += distributions_of(name, {})[:1]
    return found


def _without_caught(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a tree but for what `try` statements that catch an `ImportError` try, and do instead."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, ast.Try) and any(_catches_import_error(one) for one in node.handlers):
            waiting += [*node.orelse, *node.finalbody]
        else:
            waiting += ast.iter_child_nodes(node)


def _catches_import_error(handler: ast.ExceptHandler) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(one is None or (isinstance(one, ast.Name) and one.id in _CAUGHT) for one in kinds)


def _of_script_block(source: str) -> list[str]:
    """Return the names in a script block (PEP 723). A block that cannot be read has none: its run says so."""
    begin = _SCRIPT_BEGIN.search(source)
    end = None if begin is None else _SCRIPT_END.search(source, begin.end())
    if begin is None or end is None:
        return []
    block = source[begin.end() : end.start()].splitlines()[1:]
    if not block or not all(line == "#" or line.startswith("# ") for line in block):
        return []
    lines = (line[2:] if line.startswith("# ") else line[1:] for line in block)
    try:
        listed = tomllib.loads("\n".join(lines)).get("dependencies")
    except tomllib.TOMLDecodeError:
        return []
    names = (re.match(PACKAGE_NAME, one) for one in listed or () if isinstance(one, str))
    return [normalized_name(name[0]) for name in names if name]


def _of_javascript(response: CodingResponse) -> list[str]:
    found = []
    for source in response.sources:
        for name in _JAVASCRIPT_IMPORT.findall(source):
            parts = name.split("/")
            package = "/".join(parts[:2]) if name.startswith("@") else parts[0]
            if not name.startswith((".", "/", "node:")) and parts[0] not in NODE_MODULES:
                found.append(package)
    return found


def _stem(path: str) -> str:
    return path.rpartition("/")[2].removesuffix(".py")
