"""The program to run for a response: its files, its entry point called, its inputs as arguments and standard input.

The source is run as its author wrote it, so that the lines of an error are the author's. What is added stands in a
line that is already there (before the first statement), or after the last one.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from actbox.core.indentation import without_indentation
from actbox.core.program import Program
from actbox.core.values import pack
from actbox.review.source import Unread, parse

from .response import CodingResponse, language_of_file
from .task import Example, InputFile, Task

FOLDER: Final = ".program"
"""The directory below `/input` with the other files of a program that has several."""
STDIN: Final = ".stdin"
"""The file below `/input` with the standard input of a program whose inputs are values."""

_ARGUMENT: Final = re.compile(r"\barg(?:ument|v|s|parse)?s?\b|command[ -]line", re.IGNORECASE)
_STANDARD_INPUT: Final = re.compile(r"\bstdin\b|standard input", re.IGNORECASE)
_READS_ARGUMENT: Final = re.compile(r"\bsys\.argv\b|\bargparse\b|\bprocess\.argv\b")
_READS_STDIN: Final = re.compile(r"\bsys\.stdin\b|(?<![\w.])input\(|\bfileinput\b|\bopen\(0\)")
_ENTRY: Final = re.compile(
    r"(?:(?P<module>[A-Za-z_][\w.]*):)?(?P<name>[A-Za-z_$][\w$]*)\s*(?P<call>\(.*\))?;?", re.DOTALL
)
_RUN_MODULE: Final = re.compile(r"(?:python3? )?-m\s+([A-Za-z_][\w.]*)")
_MAIN_FILES: Final = ("main", "__main__", "app", "run", "index", "program")
_SIMPLE: Final = (
    ast.Expr,
    ast.Assign,
    ast.AnnAssign,
    ast.AugAssign,
    ast.Import,
    ast.ImportFrom,
    ast.Delete,
    ast.Assert,
)
_DEFINITIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_RELATIVE: Final = re.compile(r"""((?:\brequire\s*\(|\bimport\s*\(|\bfrom|\bimport)\s*["'])\./""")


@dataclass(frozen=True, slots=True)
class Layout:
    """The files of a program: the main one, in which it starts, and the others by path."""

    name: str
    source: str
    others: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Runnable:
    """A program to run. `problems` are sentences for its author if it cannot be run as it says that it should be.

    `arguments` and `stdin`, the name of an input file or "", are for programs in languages whose source has not been
    given them.
    """

    program: Program
    problems: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    stdin: str = ""


def layout_of(response: CodingResponse) -> Layout:
    """Return which file of a program is the main one.

    It is `code` if there is any; else the file of the entry point, one of a usual name (`main`, `app`, …), or the last
    file of the language.
    """
    files = dict(response.files)
    if response.code:
        name = next((path for path, text in files.items() if text == response.code), "program.py")
        files.pop(name, None)
        return Layout(name, response.code, files)
    own = [path for path in files if language_of_file(path) == response.language] or list(files)
    entry = response.entry_point.strip()
    module = _RUN_MODULE.fullmatch(entry)
    named = _ENTRY.fullmatch(entry)
    wanted = module[1] if module else (named and named["module"]) or ""
    paths = [entry.rpartition(" ")[2]]
    paths += [f"{wanted.replace('.', '/')}{end}" for end in (".py", "/__main__.py")] if wanted else []
    for path in (*paths, *(one for stem in _MAIN_FILES for one in own if _stem(one) == stem), *reversed(own)):
        if path in files:
            return Layout(path, files.pop(path), files)
    return Layout("program.py", "", files)


def runnable(response: CodingResponse, task: Task, *, label: bool = False) -> Runnable:
    """Return the program to run for a response to a task, with the task's inputs.

    The input files lie below `/input`, and values are variables. They are arguments and standard input too, if
    `input_parsing` says so, or the source where that says nothing. The entry point is called unless the program does.
    With `label` the program carries the task's label, which not every engine takes.
    """
    layout = layout_of(response)
    language = response.language or task.language
    reading = response.input_parsing
    is_known = language in ("python", "javascript", "typescript", "rtfs")  # in others nobody can tell by the source
    by_argument = bool(
        _ARGUMENT.search(reading) if reading else _READS_ARGUMENT.search(response.source) or not is_known
    )
    by_stdin = bool(
        _STANDARD_INPUT.search(reading) if reading else _READS_STDIN.search(response.source) or not is_known
    )
    files: dict[str, bytes | str] = {name: one.data for name, one in task.files.items()}
    arguments: tuple[str, ...] = tuple(files)
    if not files and task.values and by_stdin:
        files[STDIN] = _as_text(next(iter(task.values.values())))
    stdin = _first_named(reading, files) if by_stdin and files else ""
    source = layout.source
    problems: list[str] = []
    if language == "python":
        layout = _out_of_package(layout, response.entry_point)
        source, problems = _called_in_python(_plain(layout.source), response.entry_point, task)
        before = [f"__import__('sys').path.insert(0, {_absolute(FOLDER)})"] if layout.others else []
        before += [text for path in layout.others if not language_of_file(path) for text in _copied(path)]
        if by_argument and task.inputs:
            given = [_absolute(name) for name in arguments] or [repr(_as_text(one)) for one in task.values.values()]
            before.append(f"__import__('sys').argv[1:] = [{', '.join(given)}]")
        if stdin:
            before.append(f"__import__('os').dup2(__import__('os').open({f'input/{stdin}'!r}, 0), 0)")
        source = _beginning_with("; ".join(before), source) if before else source
    elif language in ("javascript", "typescript"):
        source = _called_in_javascript(_RELATIVE.sub(rf"\1./input/{FOLDER}/", source), response.entry_point)
        if by_argument and task.inputs:
            given = [f"process.cwd() + {json.dumps(f'/input/{name}')}" for name in arguments]
            given = given or [json.dumps(_as_text(one)) for one in task.values.values()]
            source = f"process.argv.splice(2, Infinity, {', '.join(given)}); {source}"
    others = {f"{FOLDER}/{path}": text for path, text in layout.others.items()}
    program = Program(
        source,
        language,
        inputs=task.values,
        files={**files, **others},
        name=layout.name.rpartition("/")[2],
        dependencies=response.dependencies,
        label=task.joined_label if label else "public",
    )
    given = [f"input/{name}" for name in arguments] or [_as_text(one) for one in task.values.values()]
    return Runnable(program, tuple(problems), tuple(given) if by_argument else (), stdin)


def task_of_example(task: Task, example: Example) -> Task:
    """Return a task whose inputs are those of an example.

    The example's input is an object with a file's content or a value by name; else it is the content of the task's one
    file, or the value of its one variable, or of a variable `given` if the task has no inputs.
    """
    given = example.input
    if isinstance(given, Mapping) and given and all(name in task.inputs or name.isidentifier() for name in given):
        named = {name: _like(task.inputs.get(name), one) for name, one in given.items()}
        return task.with_inputs({**task.inputs, **named})
    if len(task.inputs) == 1:
        ((name, before),) = task.inputs.items()
        return task.with_inputs({name: _like(before, given)})
    return task.with_inputs({**task.inputs, "given": given})


def _like(before: Any, given: Any) -> Any:
    if not isinstance(before, InputFile):
        return given
    return InputFile(given.encode() if isinstance(given, str) else json.dumps(given).encode(), before.label)


# The entry point


def _out_of_package(layout: Layout, entry_point: str) -> Layout:
    """Return a layout whose main file starts a module of a package, if the one given has relative imports."""
    tree = parse(Program(layout.source)) if "/" in layout.name else None
    if not isinstance(tree, ast.Module):
        return layout
    if not any(isinstance(node, ast.ImportFrom) and node.level for node in ast.walk(tree)):
        return layout
    module = layout.name.removesuffix(".py").replace("/", ".")
    found = _ENTRY.fullmatch(entry_point.strip())
    if found is not None and not _calls(tree, found["name"]):
        source = f"from {module} import {found['name']}\n"
    else:
        module = module.removesuffix(".__main__")
        source = f"import runpy\nrunpy.run_module({module!r}, run_name='__main__')\n"
    return Layout("program.py", source, {**layout.others, layout.name: layout.source})


def _called_in_python(source: str, entry_point: str, task: Task) -> tuple[str, list[str]]:
    """Return a program in which its entry point is called, and what keeps that from being done."""
    found = _ENTRY.fullmatch(entry_point.strip())
    tree = parse(Program(source))
    if found is None or isinstance(tree, Unread):
        return source, []  # it says nothing, or the run says that it does not parse
    name, call = found["name"], (found["call"] or "()").strip()
    function = next((one for one in tree.body if isinstance(one, _DEFINITIONS) and one.name == name), None)
    if _calls(tree, name) or (function is None and not _binds(tree, name)):
        return source, []
    problems: list[str] = []
    if call == "()" and isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        filled = _arguments(function, task)
        if filled is None:
            words = f"The entry point {name}({ast.unparse(function.args)}) needs arguments that the task does not have:"
            problems.append(f"{words} call it in the program, or let it need none.")
            return source, problems
        call = f"({filled})"
    awaited = "await " if isinstance(function, ast.AsyncFunctionDef) else ""
    return f"{source.rstrip()}\n{awaited}{name}{call}\n", problems


def _calls(tree: ast.Module, name: str) -> bool:
    """Return True if a program calls a function outside of all functions."""
    waiting: list[ast.AST] = [one for one in tree.body if not isinstance(one, _DEFINITIONS)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load):
            return True  # called, or given to asyncio.run, typer.run and the like
        waiting += [one for one in ast.iter_child_nodes(node) if not isinstance(one, (*_DEFINITIONS, ast.Lambda))]
    return False


def _binds(tree: ast.Module, name: str) -> bool:
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(one, ast.Name) and one.id == name for one in node.targets):
            return True
        if isinstance(node, ast.Import | ast.ImportFrom) and any(
            (one.asname or one.name) == name for one in node.names
        ):
            return True
    return False


def _arguments(function: ast.FunctionDef | ast.AsyncFunctionDef, task: Task) -> str | None:
    """Return the arguments of a call with a task's inputs, `None` if one is missing.

    Values fill parameters of their name. What is left fills the parameters that are left, in order: values, then the
    paths of files; the items of a single list fill several.
    """
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    needed = positional[: len(positional) - len(given.defaults)]
    needed += [one for one, default in zip(given.kwonlyargs, given.kw_defaults, strict=True) if default is None]
    names = [one.arg for one in needed]
    filled = {name: name for name in names if name in task.values}
    open_ones = [name for name in names if name not in filled]
    left = [name for name in task.values if name not in filled]
    left += [repr(f"input/{name}") for name in task.files]
    items = task.values.get(left[0]) if len(left) == 1 < len(open_ones) else None
    if isinstance(items, list) and len(items) == len(open_ones):
        left = [f"{left[0]}[{at}]" for at in range(len(items))]
    if len(left) < len(open_ones):
        return None
    filled.update(zip(open_ones, left, strict=False))
    keywords = {one.arg for one in given.kwonlyargs}
    return ", ".join(f"{name}={filled[name]}" if name in keywords else filled[name] for name in names)


def _called_in_javascript(source: str, entry_point: str) -> str:
    found = _ENTRY.fullmatch(entry_point.strip())
    if found is None:
        return source
    name = re.escape(found["name"])
    defined = re.search(rf"\bfunction\s*\*?\s+{name}\b|\b(?:const|let|var)\s+{name}\s*=", source)
    uses = len(re.findall(rf"(?<![\w$.]){name}\s*\(", source)) - len(
        re.findall(rf"\bfunction\s*\*?\s+{name}\s*\(", source)
    )
    if not defined or uses > 0:
        return source
    return f"{source.rstrip()}\nawait {found['name']}{found['call'] or '()'}\n"


# What stands before the first statement


def _beginning_with(statements: str, source: str) -> str:
    """Return a Python program that executes simple statements first, with all its lines where they were.

    Only a program that begins with a compound statement in its first line gets one line more.
    """
    tree = parse(Program(source))
    if isinstance(tree, Unread):
        return source
    lines = source.split("\n")
    last_line, last = 0, None
    gaps: list[range] = []
    for at, node in enumerate(tree.body):
        first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])
        gaps.append(range(last_line, first - 1))
        is_docstring = at == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_docstring or (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            last, gaps = node, []  # nothing may stand before it
        elif isinstance(node, _SIMPLE):
            return _inserted(lines, node.lineno, node.col_offset, f"{statements}; ")
        elif not isinstance(node, _DEFINITIONS):  # the body of a definition waits for a call
            break
        last_line = node.end_lineno or first
    if last is not None and last.end_lineno is not None and last.end_col_offset is not None:
        return _inserted(lines, last.end_lineno, last.end_col_offset, f"; {statements}")
    for number in (number for gap in gaps for number in gap):
        lines[number] = f"{statements}  {lines[number].strip()}".rstrip()
        return "\n".join(lines)
    return f"{statements}\n{source}"


def _inserted(lines: list[str], line: int, byte: int, text: str) -> str:
    data = lines[line - 1].encode()
    lines[line - 1] = (data[:byte] + text.encode() + data[byte:]).decode()
    return "\n".join(lines)


# The inputs


def _plain(source: str) -> str:
    """Return Python source to which lines can be added."""
    return without_indentation(source.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n"))


def _absolute(name: str) -> str:
    """Return an expression of the absolute path of an input file, which also holds in another directory."""
    return f"__import__('os').path.abspath({f'input/{name}'!r})"


def _copied(path: str) -> list[str]:
    """Return the statements that put a program's data file where the program looks for it: where it starts."""
    folder = path.rpartition("/")[0]
    made = [f"__import__('os').makedirs({folder!r}, exist_ok=True)"] if folder else []
    return [*made, f"__import__('shutil').copyfile({f'input/{FOLDER}/{path}'!r}, {path!r})"]


def _first_named(words: str, files: Mapping[str, Any]) -> str:
    return next((name for name in files if name in words), next(iter(files)))


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(pack(value), ensure_ascii=False)


def _stem(path: str) -> str:
    return path.rpartition("/")[2].partition(".")[0]
