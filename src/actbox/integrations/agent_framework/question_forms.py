"""Converts our approval requests to the framework's form, and reads the answers."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from agent_framework import Content, FunctionTool

from actbox.codeact.runner import ApprovalNeeded
from actbox.content.render import cut
from actbox.content.safe_text import encodable
from actbox.core.packages import PackageFacts
from actbox.tools import ApprovalRequest
from actbox.tools.large_values import json_pieces

ABOUT: Final = "actbox"
"""The additional property of a request that describes what is asked."""

INSTALL: Final = "install_packages"
"""The function in requests about packages; its argument `packages` has what is known of each."""

MOST_SHOWN: Final = 20_000
MOST_OF_A_LINE: Final = 500
"""The most characters of a call's arguments as JSON in a request, and of each line of its excerpt."""

_OF_A_QUESTION: Final = re.compile(r"(.*):([^:]+):question:([0-9a-f]{16})", re.DOTALL)


@dataclass(slots=True)
class Answers:
    """The answers that an agent's run began with, by request.

    `kept` are those whose requests the session has stored, which proves what was approved. `calls` are those about
    tool calls. `approved` has the arguments of approved calls, as shown or edited. `others_wait` is true if further
    requests stay open.
    """

    kept: set[str] = field(default_factory=set)
    calls: set[str] = field(default_factory=set)
    approved: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    others_wait: bool = False


@dataclass(slots=True)
class Occurrence:
    """One call of `execute_code` as the framework knows it: one call by a model, and an answer to it if there is one.

    `id` is the id of the model's call, whichever of its requests the answer is to. `tool` is the called tool: an agent
    that a program calls as a tool has another one in the same context. `question` is set if the call has to wait for an
    answer.
    """

    tool: FunctionTool
    id: str
    call_id: str
    answer: Content | None = None
    answers: Answers = field(default_factory=Answers)
    question: Content | None = None


def about_of(needed: ApprovalNeeded) -> dict[str, Any]:
    """Return as JSON data what is asked, for display to a person; very long parts are cut, and say so.

    For a call, standing approvals are matched by `arguments`: a cut value has a digest of the whole, and so has a value
    of which a type may hide a part.
    """
    request = needed.request
    about: dict[str, Any] = {
        "question": request.id,
        "what": request.what,
        "reason": request.reason,
        "tools": list(request.tools),
        "named": list(needed.named),
        "code_hash": needed.code_hash,
    }
    if request.what != "run":
        about |= {
            "tool": request.tool if request.what == "call" else INSTALL,
            "arguments": _shown(request),
            "code": request.program,
            "line": request.line,
            "excerpt": [[number, cut(text, MOST_OF_A_LINE)] for number, text in request.excerpt],
        }
    return _writable(about)  # type: ignore[no-any-return]


def _writable(value: Any) -> Any:
    """Return JSON data that every client and store can write: lone surrogates are escaped.

    Only code can contain them: a call with one in its arguments is refused before anybody is asked.
    """
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, dict):
        return {name: _writable(item) for name, item in value.items()}
    return [_writable(item) for item in value] if isinstance(value, list) else value


def _shown(request: ApprovalRequest) -> dict[str, Any]:
    if request.what == "install":
        return _shortened({"packages": [_facts(package) for package in request.packages]})
    return _shortened(request.arguments) | _digests(request)


def _facts(package: PackageFacts) -> dict[str, Any]:
    return {**asdict(package), "trust": str(package.trust), "brought_by": list(package.brought_by)}


def _digests(request: ApprovalRequest) -> dict[str, str]:
    """Return digests that distinguish calls that look the same, under names that no argument has."""
    found: dict[str, str] = {}
    for name, digest in request.hidden.items():
        title = f"{cut(name, MOST_OF_A_LINE)} (a part may be hidden)"
        while title in request.arguments or title in found:
            title += "*"
        found[title] = f"digest of all: {digest}"
    return found


def _shortened(arguments: Mapping[str, Any]) -> dict[str, Any]:
    share = MOST_SHOWN // max(len(arguments), 1)
    texts = {name: _json(value) for name, value in arguments.items()}
    shown = {
        name: value if len(texts[name]) <= share else _cut_text(texts[name], share) for name, value in arguments.items()
    }
    if sum(len(name) + len(_json(value)) for name, value in shown.items()) <= 2 * MOST_SHOWN:
        return shown
    return {"…": _cut_text(_json(arguments), MOST_SHOWN)}  # too many arguments, or too long names


def edited_from(request: ApprovalRequest, approved: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the arguments that a call was approved with; `None` if they are unchanged from those shown.

    An argument that was cut for display and is unchanged is returned uncut.
    """
    arguments = request.arguments
    digests = _digests(request)
    shown = {name: _json(value) for name, value in _shown(request).items()}
    texts = {name: _json(value) for name, value in approved.items()}  # as text, since Python's True equals 1 and 1.0
    if texts == shown:
        return None
    edited: dict[str, Any] = {}
    for name, text in texts.items():
        if name in digests:  # a digest, not an argument
            continue
        if text != shown.get(name):
            edited[name] = approved[name]
        elif name in arguments:
            edited[name] = arguments[name]
        else:  # the entry "…", which stands for all arguments
            edited |= arguments
    return edited


def _json(value: Any) -> str:
    return "".join(json_pieces(value))


def _cut_text(text: str, most: int) -> str:
    """Cut a text and add its digest, so that a rule that matches the cut text matches no other text."""
    return f"{cut(text, most)} (SHA-256 of all: {hashlib.sha256(text.encode()).hexdigest()})"


def request_of(about: Mapping[str, Any], arguments: Any, this: Occurrence, tool_name: str) -> Content:
    """Return a request in the framework's form.

    A request about a tool call has that call as its function call: standing approvals match it, and user interfaces
    show it. One about packages has a call of `INSTALL`, which no tool is named: a standing approval of `execute_code`
    never covers them. A request about a whole program has the call of `execute_code`. Each has its own id, also as the
    id of its function call, so an answer never counts for another request.
    """
    name = f"{this.id}:{tool_name}:question:{about['question']}"
    if about["what"] != "run":
        call = Content.from_function_call(this.call_id, about["tool"], arguments=dict(about["arguments"]), id=name)
    else:
        call = call_of(arguments, this.call_id, tool_name, name)
    properties: dict[str, Any] = {ABOUT: dict(about)}
    if this.answer is not None and this.answers.others_wait:
        properties["_replacement_approval_request"] = True  # otherwise the framework drops the other requests
    return Content.from_function_approval_request(id=name, function_call=call, additional_properties=properties)


def call_of(arguments: Any, call_id: str, tool_name: str, name: str) -> Content:
    """Return a call of `execute_code` with these arguments, under the id of one of its requests."""
    sent = arguments if isinstance(arguments, dict) else {"raw": arguments}
    return Content.from_function_call(call_id, tool_name, arguments=sent, id=name)


def model_call_id(name: str) -> str:
    """Return the id of the model's call for its own id or that of a request about it."""
    of_a_question = _OF_A_QUESTION.fullmatch(name)
    return name if of_a_question is None else of_a_question[1]


def asked_by(answer: Content) -> str | None:
    """Return the name of the tool whose request an answer is to; `None` for the framework's own requests."""
    of_a_question = _OF_A_QUESTION.fullmatch(_id_of(answer))
    return None if of_a_question is None else of_a_question[2]


def occurrence_of(answer: Content) -> str:
    """Return the id of the model's call that an answer belongs to."""
    return model_call_id(_id_of(answer))


def question_of(answer: Content) -> str | None:
    """Return the id of the request that an answer is to; `None` for the framework's own requests."""
    of_a_question = _OF_A_QUESTION.fullmatch(_id_of(answer))
    return None if of_a_question is None else of_a_question[3]


def _id_of(answer: Content) -> str:
    call = answer.function_call
    return answer.id or "" if call is None or call.id is None else call.id
