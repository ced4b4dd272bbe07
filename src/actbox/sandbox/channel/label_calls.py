"""Labels in tool calls: tools that a program must not call any more, and its own `raise_label` and `claim`.

`raise_label("pii.email")` joins a label to that of the workspace. `claim("chart.png", "public")` says that an output
file has a lower label than the run; it is only a claim, which a person or a `Verifier` may grant after the run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from actbox.core.errors import InvalidValue
from actbox.core.labels import PUBLIC, Label, label_of
from actbox.sandbox.guest import wire
from actbox.sandbox.taint import Taint

from .messages import Call

if TYPE_CHECKING:
    from actbox.tools import Tool

LABEL_CALLS: Final = frozenset({"raise_label", "claim"})
MOST_CLAIMS: Final = 1000
"""The most files about whose labels one program may claim something."""
_MOST_CHARS: Final = 4096
_MOST_CLASSES: Final = 64
_MOST_LABEL: Final = 400
_MOST_BYTES: Final = 65536


def why_not_called(tool: Tool, taint: Taint) -> str:
    """Return why a tool must not be called with what the program has read; "" if it may.

    Raises `LabelRefused` if the program must not read what the tool answers.
    """
    if tool.label is not PUBLIC:
        taint.check(tool.label)
    cleared = taint.clearance(tool.cleared)
    return "" if cleared is None else taint.refusal(f"the tool {tool.name!r}", cleared)


def label_answer(call: Call, taint: Taint | None, claims: dict[str, Label]) -> bytes:
    """Carry out a call of `raise_label` or `claim`, and return the frame of its answer. Raises `LabelRefused`."""
    answer: dict[str, Any] = {"t": "return", "id": call.id, "value": None}
    try:
        if taint is None:
            raise InvalidValue("programs of this engine carry no labels")
        if call.tool == "raise_label":
            taint.raise_to(_bounded(taint.label, _label(call)))
        else:
            _claim(call, claims)
    except InvalidValue as error:
        answer = {"t": "return", "id": call.id, "error": str(error)}
    return wire.encode(answer, _MOST_BYTES)


def _claim(call: Call, claims: dict[str, Label]) -> None:
    name = call.arguments.get("name")
    if not isinstance(name, str) or not 0 < len(name) < _MOST_CHARS:
        raise InvalidValue("claim() takes the name of an output file and a label, such as claim('chart.png', 'public')")
    for folder in ("/workspace/output/", "/output/", "output/"):
        if name.startswith(folder):
            name = name.removeprefix(folder)
            break
    if name not in claims and len(claims) >= MOST_CLAIMS:
        raise InvalidValue(f"a program may claim something about {MOST_CLAIMS:,} files")
    claims[name] = _label(call)


def _bounded(label: Label, more: Label) -> Label:
    """Return a label to raise another one by, so that the join has few classes: their whole family, if there are many.

    Joining takes time in proportion to the square of their number, and programs choose them.
    """
    if len(label.classes) + len(more.classes) <= _MOST_CLASSES:
        return more
    has_secret = any(one.startswith("secret") for one in (*label.classes, *more.classes))
    return Label("secret" if has_secret else "pii+internal")


def _label(call: Call) -> Label:
    given = call.arguments.get("label")
    if isinstance(given, str) and (len(given) > _MOST_LABEL or given.count("+") >= _MOST_CLASSES):
        raise InvalidValue(f"a label is a text such as 'pii.email', of at most {_MOST_LABEL} characters")
    return label_of(given, "label")
