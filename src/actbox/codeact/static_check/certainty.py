"""Whether a finding is certain: the program would fail there, whatever the checker does not know."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from .checkers import REVEAL, Finding
from .declarations import Declarations
from .reading import Reading
from .rules import FORGIVEN_BY, RULES, Wrong

_BUILT_IN = frozenset({"str", "int", "float", "bool", "bytes", "list", "dict", "tuple", "set", "frozenset", "Literal"})
_MODULES = frozenset({"Module", "<module"})
_NUMBERS = frozenset({"int", "float", "bool"})
_TRUTHS = frozenset(["true", "false", "t", "f", "yes", "no", "y", "n", "on", "off", "1", "0"])
_TOLD_IN_PARTS = {
    "ty": frozenset({Wrong.CALL, Wrong.AWAIT}),
    "pyright": frozenset({Wrong.KEY, Wrong.ATTRIBUTE, Wrong.CALL, Wrong.AWAIT}),
}
_BY_TYPE = frozenset({Wrong.ARGUMENT, Wrong.KEY, Wrong.ATTRIBUTE, Wrong.CALL, Wrong.AWAIT})


def certain(
    finding: Finding, reading: Reading, declared: Declarations, revealed: Iterable[Finding] | None = None
) -> Wrong | None:
    """Return what is wrong for certain, or nothing. `revealed` has the whole types of what was asked about."""
    for rule in RULES:
        if rule.checker == finding.checker and rule.id == finding.rule:
            found = rule.pattern.match(finding.message)
            if found:
                groups = {name: value or "" for name, value in found.groupdict().items()}
                return _judged(rule.wrong, groups, finding, reading, declared, revealed)
    return None


def _judged(
    wrong: Wrong,
    groups: dict[str, str],
    finding: Finding,
    reading: Reading,
    declared: Declarations,
    revealed: Iterable[Finding] | None,
) -> Wrong | None:
    kind, line = groups.get("type", ""), finding.line
    if _is_coroutine(kind) or _is_coroutine(groups.get("other", "")):
        return Wrong.COROUTINE
    if wrong is Wrong.COROUTINE:
        return wrong if "type" not in groups else None  # what is not of a coroutine may be of anything
    if reading.forgives(line, FORGIVEN_BY[wrong]) or (wrong in _BY_TYPE and line in reading.unsure_lines):
        return None
    if wrong is Wrong.UNDEFINED:
        is_certain = not reading.binds_unseen and reading.reads_name(groups["name"], line)
    elif wrong in (Wrong.ARGUMENTS, Wrong.ARGUMENT):
        is_certain = _is_wrong_call(wrong, groups, finding, reading, declared)
    elif wrong is Wrong.KEY:
        parts = [part for part in _parts(groups.get("whole", "")) if part != "None"]
        is_certain = (
            parts in ([], [kind])
            and groups["name"] not in reading.written_keys
            and _is_whole(wrong, kind, finding, revealed)
        )
    else:
        allowed = _MODULES if wrong is Wrong.CALL else frozenset[str]()
        is_certain = _is_known(kind, declared, allowed) and _is_whole(wrong, kind, finding, revealed)
        if wrong is Wrong.ATTRIBUTE:
            is_certain = is_certain and not reading.asks_for_attributes
    return wrong if is_certain else None


def to_reveal(wrong: Iterable[tuple[Finding, Wrong]], reading: Reading) -> list[ast.expr]:
    """Return the expressions whose whole type tells whether these findings are certain.

    Of a union a checker may tell the part that does not fit, and not that there are others.
    """
    shown: list[ast.expr] = []
    for finding, why in wrong:
        if why not in _TOLD_IN_PARTS[finding.checker]:
            continue
        if why in (Wrong.KEY, Wrong.ATTRIBUTE):
            name = re.search(r'attribute "(\w+)"|"([^"]+)" is not a defined key', finding.message)
            if name:
                shown += reading.operands(finding.line, name[1] or name[2])
        else:
            shown += reading.operands(finding.line, None)
    return shown


def _is_whole(wrong: Wrong, kind: str, finding: Finding, revealed: Iterable[Finding] | None) -> bool:
    """Return whether the finding is about all that the value may be, and not about a part of it."""
    if revealed is None or wrong not in _TOLD_IN_PARTS[finding.checker]:
        return True
    told = [found.message for found in revealed if found.rule == REVEAL and found.line == finding.line]
    wholes = [[part for part in _parts(whole) if part != "None"] for whole in told]
    return (kind == "Module" or [kind] in wholes) and all(len(whole) == 1 for whole in wholes)


def _is_known(kind: str, declared: Declarations, allowed: frozenset[str]) -> bool:
    parts = [part for part in _parts(kind) if part != "None"]
    known = _BUILT_IN | declared.types | allowed
    return bool(parts) and all(_head(part) in known for part in parts)


# Arguments


def _is_wrong_call(
    wrong: Wrong, groups: dict[str, str], finding: Finding, reading: Reading, declared: Declarations
) -> bool:
    column = finding.column if finding.checker == "ty" else reading.character(finding.line, finding.column)
    call = reading.call_at(finding.line, column)
    if "function" in groups:
        ours = declared.is_ours(groups["function"])
    else:
        names = {*declared.aliases, "call_tool"} - reading.bound
        ours = call is not None and isinstance(call.func, ast.Name) and call.func.id in names
    if not ours:
        return False
    if call is not None and _unpacks(call):
        return False
    if wrong is Wrong.ARGUMENTS:
        return True
    if groups["type"] == "None":  # a variable may be another thing by then
        return call is not None and any(_is_none(value) for value in _given(call)) and "None" not in groups["expected"]
    return all(_is_refused(part, groups["expected"], declared) for part in _parts(groups["type"]))


def _is_refused(found: str, expected: str, declared: Declarations) -> bool:
    """Return whether the host refuses a value of this type: it converts as pydantic does, text to numbers also."""
    values = list(_literals(found))
    heads = {type(value).__name__ for value in values} or {_head(found)}
    if not heads <= _BUILT_IN | declared.types:
        return False
    takes = [_head(part) for part in _parts(expected)]
    if "Any" in takes:
        return False
    if "Literal" in takes:
        allowed = [value for part in _parts(expected) for value in _literals(part)]
        if not values:
            return heads.isdisjoint({"str", *_NUMBERS})
        return not any(str(value) == str(one) for value in values for one in allowed)
    if heads <= _NUMBERS:
        return _NUMBERS.isdisjoint(takes)
    if heads == {"str"}:
        if "str" in takes or "bytes" in takes:
            return False
        return _NUMBERS.isdisjoint(takes) or (bool(values) and not any(_converts(value, takes) for value in values))
    if heads <= {"list", "tuple", "set", "frozenset"}:
        return not {"list", "tuple"} & set(takes)
    if heads <= {"dict", *declared.types}:
        return "Mapping" not in takes
    return False


def _converts(text: object, takes: list[str]) -> bool:
    if not isinstance(text, str) or ("bool" in takes and text.strip().lower() in _TRUTHS):
        return True
    try:
        float(text.replace("_", ""))
    except ValueError:
        return False
    return not _NUMBERS.isdisjoint(takes)


def _given(call: ast.Call) -> Iterator[ast.expr]:
    yield from call.args
    yield from (key.value for key in call.keywords)


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _unpacks(call: ast.Call) -> bool:
    return any(isinstance(value, ast.Starred) for value in call.args) or any(key.arg is None for key in call.keywords)


# Types as checkers write them


def _is_coroutine(kind: str) -> bool:
    parts = _parts(kind)
    return bool(parts) and all(_head(part) in ("CoroutineType", "Coroutine") for part in parts)


def _head(kind: str) -> str:
    return re.split(r"[\[ ]", kind, maxsplit=1)[0]


def _parts(kind: str) -> list[str]:
    """Return the parts of a union, those of its own level only."""
    parts, depth, start, quote, at = [], 0, 0, "", 0
    while at < len(kind):
        c = kind[at]
        if quote:
            at += c == "\\"
            quote = "" if c == quote else quote
        elif c in "\"'":
            quote = c
        elif c in "[(<":
            depth += 1
        elif c in "])>":
            depth -= 1
        elif c == "|" and not depth:
            parts.append(kind[start:at].strip())
            start = at + 1
        at += 1
    return [part for part in [*parts, kind[start:].strip()] if part]


def _literals(kind: str) -> Iterator[object]:
    """Yield the values of `Literal["a", 1]`; nothing for any other type."""
    if _head(kind) == "Literal":
        try:
            values = ast.literal_eval(f"({kind.removeprefix('Literal')[1:-1]},)")
        except (ValueError, SyntaxError):  # cut by the checker, or a name of an enumeration's member
            return
        yield from values
