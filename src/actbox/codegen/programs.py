"""The program to run for a response: its files, its entry point called, its inputs as arguments and standard input.

The source is run as its author wrote it, so that the lines of an error are the author's. What is added stands in a
line that is already there (before the first statement), or after the last one.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Container, Mapping, Sequence
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

_ARGUMENT: Final = re.compile(r"\barg(?:ument|v|s|parse)?s?\b|command[ -]line|\bCLI\b|\bpositional\b", re.IGNORECASE)
_STANDARD_INPUT: Final = re.compile(r"\bstdin\b|standard input", re.IGNORECASE)
_READS_ARGUMENT: Final = re.compile(r"\bsys\.argv\b|\bargparse\b|\bprocess\.argv\b")
_READS_STDIN: Final = re.compile(
    r"\b(?:sys|process)\.stdin\b|(?<![\w.])input\(|\bfileinput\b|\bopen\(0\)|\breadFileSync\(\s*0\b|/dev/stdin\b"
)
_ENTRY: Final = re.compile(
    r"(?:(?P<module>[A-Za-z_][\w.]*):)?(?P<name>[A-Za-z_$][\w$]*)\s*(?P<call>\(.*\))?;?", re.DOTALL
)
_JAVASCRIPT_CALL: Final = re.compile(
    r"""\(\s*(?:{0}(?:\s*,\s*{0})*)?\s*\)""".format(r"""(?:"[^"\\\n]*"|'[^'\\\n]*'|-?[\w$.]+(?:\[\d+\])?)""")
)
"""A call whose arguments are texts, numbers and names."""
_STARTERS: Final = frozenset({"asyncio.run", "anyio.run", "trio.run", "typer.run"})
"""The calls that may start a function of a program."""
_PLAIN: Final = (
    *(ast.Constant, ast.Name, ast.Attribute, ast.Subscript, ast.Slice, ast.expr_context, ast.keyword, ast.Starred),
    *(ast.List, ast.Tuple, ast.Dict, ast.Set, ast.UnaryOp, ast.unaryop),
)
"""The parts of the arguments that an entry point may have: nothing that calls something else."""
_RUN_MODULE: Final = re.compile(r"(?:python3? )?-m\s+([A-Za-z_][\w.]*)")
_MAIN_FILES: Final = ("main", "__main__", "app", "run", "index", "program")
_ENCODING: Final = re.compile(r"[ \t\f\ufeff]*#.*?coding[:=][ \t]*([-_.a-zA-Z0-9]+)")
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
    encoded = [path for path, text in response.files.items() if path.endswith(".py") and _has_other_encoding(text)]
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
        problems += [f"The file {path} declares an encoding other than UTF-8: remove that line." for path in encoded]
        before = [f"__import__('sys').path.insert(0, {_absolute(FOLDER)})"] if layout.others else []
        before += [text for path in layout.others if not language_of_file(path) for text in _copied(path)]
        if by_argument and task.inputs:
            given = [_absolute(name) for name in arguments] or [repr(_as_text(one)) for one in task.values.values()]
            before.append(f"__import__('sys').argv[1:] = [{', '.join(given)}]")
        if stdin:
            before.append(f"__import__('os').dup2(__import__('os').open({f'input/{stdin}'!r}, 0), 0)")
        source = _beginning_with("; ".join(before), source) if before else source
    elif language in ("javascript", "typescript"):
        source = _RELATIVE.sub(rf"\1./input/{FOLDER}/", source)
        source, problems = _called_in_javascript(source, response.entry_point, task)
        before = []
        if by_argument and task.inputs:
            given = [f"process.cwd() + {json.dumps(f'/input/{name}')}" for name in arguments]
            given = given or [json.dumps(_as_text(one)) for one in task.values.values()]
            before.append(f"process.argv.splice(2, Infinity, {', '.join(given)})")
        if stdin:  # the file gets the lowest free descriptor; the program may have a `require` of its own
            files_module = 'globalThis.require("node:fs")'
            before.append(f"{files_module}.closeSync(0), {files_module}.openSync({json.dumps(f'input/{stdin}')})")
        source = _javascript_beginning_with(before, source) if before else source
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
    file, or the value of its one variable, or of a variable `given` if the task has no inputs. An object without the
    name of the task's one input is the content or the value itself.
    """
    given = example.input
    is_named = isinstance(given, Mapping) and given and all(one in task.inputs or one.isidentifier() for one in given)
    if is_named and (len(task.inputs) != 1 or given.keys() & task.inputs.keys()):
        named = {name: _like(task.inputs.get(name), one) for name, one in given.items()}
        return task.with_inputs({**task.inputs, **named})
    if len(task.inputs) == 1:
        ((name, before),) = task.inputs.items()
        return task.with_inputs({name: _like(before, given)})
    return task.with_inputs({**task.inputs, "given": given})


def with_input_of_example(task: Task) -> Task:
    """Return a task without inputs with those of its first example, since its programs are made for some."""
    example = next((one for one in task.examples if not one.is_placeholder), None)
    return task if example is None or task.inputs or task.declared else task_of_example(task, example)


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
    if isinstance(tree, Unread):
        return source, []  # the run says so
    if found is None:
        return _ending_with_call(source, tree, entry_point.strip()), []
    name, call = found["name"], (found["call"] or "()").strip()
    function = next((one for one in tree.body if isinstance(one, _DEFINITIONS) and one.name == name), None)
    if _calls(tree, name) or (function is None and not _binds(tree, name)):
        return source, []
    problems: list[str] = []
    if not _is_plain_call(name, call):  # nobody has reviewed it, and no approver has seen it
        return source, [_not_plain(name)]
    if call == "()" and isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        filled = _arguments(function, task)
        if filled is None:
            given = function.args
            names = ", ".join(one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs))
            words = f"The entry point {name}({names}) needs arguments that the task does not have:"
            problems.append(f"{words} call it in the program, or let it need none.")
            return source, problems
        call = f"({filled})"
    awaited = "await " if isinstance(function, ast.AsyncFunctionDef) else ""
    return f"{source.rstrip()}\n{awaited}{name}{call}\n", problems


def _is_plain_call(name: str, call: str) -> bool:
    """Return True if a text is the arguments of one call, which call nothing themselves."""
    tree = parse(Program(f"{name}{call}"))
    if isinstance(tree, Unread) or len(tree.body) != 1 or not isinstance(tree.body[0], ast.Expr):
        return False
    made = tree.body[0].value
    if not isinstance(made, ast.Call) or not isinstance(made.func, ast.Name):
        return False
    return all(isinstance(node, _PLAIN) for one in (*made.args, *made.keywords) for node in ast.walk(one))


def _not_plain(name: str) -> str:
    return f"The entry point is more than a call of {name} with plain arguments: call {name} in the program itself."


def _ending_with_call(source: str, tree: ast.Module, entry_point: str) -> str:
    """Return a program that ends with a call such as `asyncio.run(main())` or `solution.main()`, unless it has it.

    A module that the program does not know, such as `solution`, is the program itself. Other calls are left out, since
    nobody has reviewed them.
    """
    call = parse(Program(entry_point))
    if isinstance(call, Unread) or len(call.body) != 1 or not isinstance(call.body[0], ast.Expr):
        return source
    made = call.body[0].value
    if not isinstance(made, ast.Call) or not isinstance(made.func, ast.Attribute):
        return source
    defined = {one.name for one in tree.body if isinstance(one, _DEFINITIONS)}
    root, name = made.func.value, made.func.attr
    if not isinstance(root, ast.Name):
        return source
    if root.id not in defined and not _binds(tree, root.id):
        made = ast.Call(ast.Name(name, ast.Load()), made.args, made.keywords)
    elif root.id not in defined and f"{root.id}.{name}" not in _STARTERS:
        return source
    used = {one.id for one in ast.walk(made) if isinstance(one, ast.Name)} & defined
    is_plain = all(_is_own(one, defined) for one in (*made.args, *(one.value for one in made.keywords)))
    if not used or not is_plain or any(_calls(tree, name) for name in used):
        return source
    return f"{source.rstrip()}\n{ast.unparse(made)}\n"


def _is_own(argument: ast.expr, defined: Container[str]) -> bool:
    """Return True for a plain argument, a function or class of the program, or a call of one with plain arguments."""
    if isinstance(argument, ast.Name):
        return argument.id in defined
    if isinstance(argument, ast.Call):
        name = argument.func.id if isinstance(argument.func, ast.Name) else ""
        return name in defined and _is_plain_call(name, ast.unparse(argument).removeprefix(name))
    return all(isinstance(node, _PLAIN) for node in ast.walk(argument))


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
    filled = _filled([one.arg for one in needed], task)
    if filled is None:
        return None
    keywords = {one.arg for one in given.kwonlyargs}
    return ", ".join(f"{name}={value}" if name in keywords else value for name, value in filled.items())


def _filled(names: Sequence[str], task: Task) -> dict[str, str] | None:
    """Return the expression for each parameter of a function, `None` if a task's inputs are too few.

    The expressions are the same in Python and in JavaScript.
    """
    filled = {name: name if name in task.values else "" for name in names}
    open_ones = [name for name in names if not filled[name]]
    left = [name for name in task.values if not filled.get(name)]
    left += [repr(f"input/{name}") for name in task.files]
    items = task.values.get(left[0]) if len(left) == 1 < len(open_ones) else None
    if isinstance(items, list) and len(items) == len(open_ones):
        left = [f"{left[0]}[{at}]" for at in range(len(items))]
    if len(left) < len(open_ones):
        return None
    return filled | dict(zip(open_ones, left, strict=False))


def _called_in_javascript(source: str, entry_point: str, task: Task) -> tuple[str, list[str]]:
    """Return what `_called_in_python` does, for JavaScript and TypeScript: inputs fill plain parameters."""
    found = _ENTRY.fullmatch(entry_point.strip())
    if found is None:
        return source, []
    name = re.escape(found["name"])
    defined = re.search(rf"\bfunction\s*\*?\s+{name}\b|\b(?:const|let|var)\s+{name}\s*=", source)
    uses = len(re.findall(rf"(?<![\w$.]){name}\s*\(", source)) - len(
        re.findall(rf"\bfunction\s*\*?\s+{name}\s*\(", source)
    )
    if not defined or uses > 0:
        return source, []
    call = (found["call"] or "()").strip()
    if not _JAVASCRIPT_CALL.fullmatch(call):
        return source, [_not_plain(found["name"])]
    given = re.search(rf"\b(?:function\s+{name}|{name}\s*=\s*(?:async\s*)?(?:function\s*)?)\s*\(([\w$,\s]+)\)", source)
    if call == "()" and given and (names := re.findall(r"[\w$]+", given[1])):
        call = f"({', '.join((_filled(names, task) or {}).values())})"
    return f"{source.rstrip()}\nawait {found['name']}{call}\n", []


def _has_other_encoding(source: str) -> bool:
    """Return True if Python would read a file otherwise than as the text that was reviewed (PEP 263)."""
    found = (_ENCODING.match(line) for line in re.split(r"\r\n|\r|\n", source, maxsplit=2)[:2])
    return any(one is not None and one[1].lower().replace("_", "-") not in ("utf-8", "utf8") for one in found)


# Statements before the first one of the program


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
        constant = node.value if at == 0 and isinstance(node, ast.Expr) else None
        is_docstring = isinstance(constant, ast.Constant) and isinstance(constant.value, str)
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


def _javascript_beginning_with(expressions: Sequence[str], source: str) -> str:
    """Return a program in JavaScript that evaluates expressions first, with all its lines where they were.

    They leave no value, which would be that of a program without one.
    """
    shebang, end, rest = source.partition("\n") if source.startswith("#!") else ("", "", source)
    return f"{shebang}{end}{''.join(f'void ({one}); ' for one in expressions)}{rest}"


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
