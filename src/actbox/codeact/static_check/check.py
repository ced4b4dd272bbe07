"""The static check: from a program and its tools to one error that lists what is certainly wrong.

Whether a finding of ty counts depends on the id of its rule, and on the types of the expressions that it is about.
"""

from __future__ import annotations

import ast
import asyncio
import keyword
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from actbox.codeact.tool_listing import one_line
from actbox.core.errors import ErrorInfo, ErrorKind, InvalidValue
from actbox.core.indentation import without_indentation
from actbox.core.program import Program
from actbox.review.source import Unread, parse
from actbox.tools.toolset import Toolset

from .checker import CheckerFailed, Finding, findings_in
from .declarations import Declarations, declare
from .reading import Reading, without_settings

MOST_FINDINGS = 10
"""The most findings that are listed; further ones are counted."""
_MOST_CHARACTERS = 400
_MOST_CONSIDERED = 1000
_HINT = "nothing of the program has run: correct these lines and send the whole program again"
_AWAIT_HINT = "; in a program that uses await, every tool call is awaited"


Types = Mapping[ast.expr, str]
"""The types that ty reveals, as text, by expression; empty text where ty reveals none."""


def _inside(node: ast.AST | None, parent: ast.AST | None = None) -> list[ast.expr]:
    """Return the sub-expressions that an expression calls, subscripts, takes an attribute of, or computes with."""
    parts = [getattr(node, name, None) for name in ("func", "value", "operand", "left", "right")]
    return [part for part in (*parts, *getattr(node, "comparators", ())) if isinstance(part, ast.expr)]


def _whole(node: ast.AST, parent: ast.AST | None) -> list[ast.expr]:
    """Return the expression itself, or the value of a keyword argument."""
    value = node.value if isinstance(node, ast.keyword) else node
    return [value] if isinstance(value, ast.expr) and not isinstance(value, ast.Starred) else []


def _around(node: ast.AST, parent: ast.AST | None) -> list[ast.expr]:
    """Return the sub-expressions of the parent node: the object that is subscripted, or the function that is called."""
    return _inside(parent)


RULES: Mapping[str, Callable[[ast.AST, ast.AST | None], list[ast.expr]]] = {
    "unresolved-reference": lambda node, parent: [],
    "missing-argument": _inside,
    "unknown-argument": _around,
    "too-many-positional-arguments": _around,
    "parameter-already-assigned": _around,
    "invalid-argument-type": lambda node, parent: _whole(node, parent) + _around(node, parent),
    "invalid-typed-dict-key": lambda node, parent: _around(node, parent) + _whole(node, parent),
    "missing-attribute": _inside,
    "not-callable": _inside,
    "invalid-await": _whole,
    # These rules count only for coroutines.
    "unused-awaitable": _whole,
    "not-subscriptable": _inside,
    "not-iterable": _whole,
    "unsupported-operator": _inside,
    "invalid-context-manager": _whole,
}
"""The ids of the rules that count. Each has a function that returns, for a finding's node and its parent, the
expressions whose types tell whether the finding is certain.
"""

_CALLS = frozenset(
    {
        *("missing-argument", "unknown-argument", "too-many-positional-arguments", "parameter-already-assigned"),
        "invalid-argument-type",
    }
)
_FORGIVEN_BY: Mapping[str, frozenset[str]] = {
    "unresolved-reference": frozenset({"NameError"}),
    "invalid-typed-dict-key": frozenset({"KeyError", "LookupError"}),
    "missing-attribute": frozenset({"AttributeError"}),
    "not-callable": frozenset({"TypeError"}),
    "invalid-await": frozenset({"TypeError"}),
}
"""The exceptions that excuse a finding, by rule: a program that catches one of them around the place expects the
failure.
"""

_GROUPS = {
    "str": "text",
    **dict.fromkeys(("int", "float", "bool"), "number"),
    **dict.fromkeys(("list", "tuple", "set", "frozenset"), "list"),
    **dict.fromkeys(("dict", "Mapping"), "object"),
}
"""Groups of types whose values the host converts into each other."""
_BUILT_IN = frozenset({*_GROUPS, "bytes"}) - {"Mapping"}
_TRUTHS = frozenset(["true", "false", "t", "f", "yes", "no", "y", "n", "on", "off", "1", "0"])


async def check_types(
    program: str,
    toolset: Toolset,
    *,
    inputs: Mapping[str, Any] | None = None,
    extra_names: Iterable[str] = (),
    timeout: float = 10.0,
) -> ErrorInfo | None:
    """Return one error with all that is certainly wrong with a program that would run with these tools, or `None`.

    Errors are of kind `TYPE`: wrong arguments of tools (also by `call_tool` with a literal name), keys and attributes
    that results do not have, a missing `await`, undefined names, calls of objects that cannot be called, relative
    imports. `inputs` are the program's given variables, and `extra_names` further names that it can use. Packages are
    assumed to exist and to have every name that is used. For source that does not parse this returns `None`: its run
    reports the error.

    An error of kind `SANDBOX` says that there was no check: the checker failed or took longer than `timeout` seconds.
    Raises `Unsupported` if ty is not installed (`check_available` tells beforehand) and `InvalidValue` for an invalid
    name or timeout. Cancelling ends the checker.
    """
    if not timeout > 0:
        raise InvalidValue(f"timeout is a number of seconds above 0, not {timeout!r}")
    names = (*(inputs or {}), *extra_names)
    for name in names:
        if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
            raise InvalidValue(f"{name!r} cannot be the name of a variable")
    reading = await asyncio.to_thread(_read, program)
    if reading is None or isinstance(reading, ErrorInfo):
        return reading
    relative = [(line, "a relative import: a program is in no package") for line in reading.relative_imports]
    if relative:  # they would lead a checker to files outside its directory
        return _error_of(relative, awaits=False)
    declared = await asyncio.to_thread(declare, toolset, names, reading)
    try:
        async with asyncio.timeout(timeout):
            wrong, awaits = await _wrong(reading, declared)
    except TimeoutError:
        return _unchecked(f"the type checker did not finish within {timeout:g} s")
    except CheckerFailed as failure:
        return _unchecked(str(failure))
    described = [(finding.span[0], declared.named(finding.message.split("\n")[0])) for finding in wrong]
    return _error_of(described, awaits=awaits) if described else None


def _read(program: str) -> Reading | ErrorInfo | None:
    source = without_indentation(without_settings(program))
    tree = parse(Program(source))
    if isinstance(tree, Unread):
        return None if tree.rule == "syntax" else _unchecked(tree.message)
    return Reading(source, tree)


async def _wrong(reading: Reading, declared: Declarations) -> tuple[list[Finding], bool]:
    """Return the findings that count, and whether an `await` is missing."""
    copy, _ = await asyncio.to_thread(reading.copy, declared.calls)
    findings = (await findings_in(copy, declared.files, RULES))[:_MOST_CONSIDERED]
    asked = await asyncio.to_thread(lambda: [part for finding in findings for part in _about(finding, reading)])
    types = dict.fromkeys(asked, "")
    if asked:
        copy, begins = await asyncio.to_thread(reading.copy, declared.calls, asked)
        for revealed in await findings_in(copy, declared.files, ()):
            if revealed.span[:2] in begins:  # the type is in backquotes
                types[begins[revealed.span[:2]]] = revealed.message.partition("`")[2].removesuffix("`")
    return await asyncio.to_thread(_counted, findings, reading, declared, types)


def _counted(
    findings: list[Finding], reading: Reading, declared: Declarations, types: Types
) -> tuple[list[Finding], bool]:
    dropped = [finding for finding in findings if _is_coroutine(finding, reading, types)]
    certain = [finding for finding in findings if _is_certain(finding, reading, declared, types)]
    return [*dropped, *certain], bool(dropped)


def _about(finding: Finding, reading: Reading) -> list[ast.expr]:
    node = reading.at.get(finding.span)
    return RULES[finding.rule](node, reading.parents.get(node)) if node else []


def _is_coroutine(finding: Finding, reading: Reading, types: Types) -> bool:
    """Return True if a coroutine is dropped, or used in place of the result that awaiting it would give."""
    type_names = ({name for name, _ in _kinds(types[part])} for part in _about(finding, reading))
    return any(names and names <= {"CoroutineType", "Coroutine"} for names in type_names)


def _is_certain(finding: Finding, reading: Reading, declared: Declarations, types: Types) -> bool:
    """Return True if the program would certainly fail at this finding, apart from the reason that `_is_coroutine`
    checks.
    """
    rule, node, about = finding.rule, reading.at.get(finding.span), _about(finding, reading)
    if (
        node is None
        or reading.forgives(node, _FORGIVEN_BY.get(rule, frozenset()))
        or any(map(reading.is_unsure, about))
    ):
        return False
    names = {name for part in about[:1] for name, _ in _kinds(types[part])} - {"NoneType"}
    classes = declared.types - reading.bound
    is_known = bool(names) and names <= classes | (_BUILT_IN - reading.bound)
    match rule:
        case "unresolved-reference":
            return isinstance(node, ast.Name) and node not in reading.unread and not reading.binds_unseen
        case "invalid-typed-dict-key":
            keys = [value.value if value else None for _, value in _kinds(types[about[-1]])]
            is_text = len(keys) == 1 and isinstance(keys[0], str)
            return is_text and keys[0] not in reading.written_keys and len(names) == 1 and names <= classes
        case "missing-attribute":
            return is_known and not reading.asks_for_attributes
        case "not-callable":
            return is_known or any(types[part].startswith("<module ") for part in about)
        case "invalid-await":
            return is_known
    return rule in _CALLS and bool(about) and _is_wrong_call(node, about, reading, declared, types)


def _is_wrong_call(
    node: ast.AST, about: list[ast.expr], reading: Reading, declared: Declarations, types: Types
) -> bool:
    *given, function = about
    call = reading.parents[function]
    shown = re.match(r"def (\w+)\(", types[function])
    parameters = declared.parameters.get(shown[1]) if shown else None
    if parameters is None or not isinstance(call, ast.Call):
        return False
    if any(isinstance(value, ast.Starred) for value in call.args) or any(key.arg is None for key in call.keywords):
        return False
    if not given or (isinstance(given[0], ast.Constant) and given[0].value is None):
        return True  # a literal `None` is certain; a variable that was `None` may have another value by then
    name = node.arg if isinstance(node, ast.keyword) else dict(zip(call.args, parameters, strict=False)).get(given[0])
    kinds, takes = _kinds(types[given[0]]), _kinds(parameters.get(name or "", "Any"))
    return bool(kinds) and all(_is_refused(kind, takes, declared.types - reading.bound) for kind in kinds)


_Kind = tuple[str, ast.Constant | None]
"""The name of a type, and the literal value if the type has only one value."""


def _kinds(text: str) -> list[_Kind]:
    """Return the members of a type that ty wrote as Python text; an empty list if the text does not parse."""
    tree = parse(Program(text))
    waiting = [] if isinstance(tree, Unread) else [part.value for part in tree.body if isinstance(part, ast.Expr)]
    kinds: list[_Kind] = []
    while waiting:
        match waiting.pop():
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                waiting += [left, right]
            case ast.BinOp(left=part, op=ast.BitAnd()) | ast.UnaryOp(op=ast.USub(), operand=part):
                waiting.append(part)  # the rest of an intersection is what a condition has excluded
            case ast.Subscript(value=ast.Name(id="Literal"), slice=part):
                waiting += part.elts if isinstance(part, ast.Tuple) else [part]
            case ast.Constant() as value:
                kinds.append((type(value.value).__name__, value))
            case ast.Name(id=name) | ast.Subscript(value=ast.Name(id=name)):
                kinds.append((name, None))
            case _:
                kinds.append(("", None))
    return kinds


def _is_refused(given: _Kind, takes: list[_Kind], classes: frozenset[str]) -> bool:
    """Return True if the host refuses a value of this type: it converts as pydantic does, text to numbers also."""
    name, value = given
    group = "object" if name in classes else _GROUPS.get(name)
    plain = {taken: _GROUPS.get(taken) for taken, one in takes if one is None}
    choices = {str(one.value) for _, one in takes if one is not None}
    if group is None or group in plain.values():
        return False
    may_convert = group == "text" and "number" in plain.values()
    if value is None:
        return not may_convert and (group in ("list", "object") or not choices)
    return str(value.value) not in choices and not (may_convert and _converts(str(value.value), "bool" in plain))


def _converts(text: str, to_truth: bool) -> bool:
    try:
        float(text.replace("_", ""))
    except ValueError:
        return to_truth and text.strip().lower() in _TRUTHS
    return True


def _error_of(findings: list[tuple[int, str]], *, awaits: bool) -> ErrorInfo:
    lines = [
        f"line {line}: {(text := one_line(message))[:_MOST_CHARACTERS]}{'…' * (len(text) > _MOST_CHARACTERS)}"
        for line, message in sorted(set(findings))
    ]
    if len(lines) > MOST_FINDINGS:
        lines[MOST_FINDINGS:] = [f"and {len(lines) - MOST_FINDINGS} more"]
    return ErrorInfo(
        kind=ErrorKind.TYPE,
        type="TypeCheck",
        message="\n".join(lines),
        line=min(line for line, _ in findings),
        hint=_HINT + (_AWAIT_HINT if awaits else ""),
    )


def _unchecked(message: str) -> ErrorInfo:
    return ErrorInfo(
        kind=ErrorKind.SANDBOX,
        type="TypeCheck",
        message=f"the program was not checked, and did not run: {message}",
        hint="try again; a shorter or simpler program takes less to check",
    )
