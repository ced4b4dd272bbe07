"""What a question of ours looks like in the framework's form, and what an answer says of the question that it is to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from agent_framework import Content, FunctionTool

from actbox.codeact.runner import ApprovalNeeded
from actbox.content.render import cut
from actbox.content.safe_text import encodable

ABOUT: Final = "actbox"
"""The additional property of a request that says what is asked."""

MOST_SHOWN: Final = 20_000
MOST_OF_A_LINE: Final = 500
"""Characters of JSON of a call's arguments that a question has, and of each line of its excerpt."""


@dataclass(slots=True)
class Occurrence:
    """One call of `execute_code` as the framework knows it: what a model sent once, and an answer that came to it.

    `tool` is the one that is called: an agent that a program calls as a tool has another, in the same context.
    `question` is set where the call has to wait for an answer.
    """

    tool: FunctionTool
    id: str
    call_id: str
    answer: Content | None = None
    question: Content | None = None


def about_of(needed: ApprovalNeeded) -> dict[str, Any]:
    """Return as JSON data what is asked, for whoever shows it to a person; what is very long is cut, and says so."""
    request = needed.request
    about: dict[str, Any] = {
        "question": request.id,
        "what": request.what,
        "reason": request.reason,
        "tools": list(request.tools),
        "named": list(needed.named),
        "code_hash": needed.code_hash,
    }
    if request.what == "call":
        about |= {
            "tool": request.tool,
            "arguments": _shown(request.arguments),
            "line": request.line,
            "excerpt": [[number, cut(text, MOST_OF_A_LINE)] for number, text in request.excerpt],
        }
    return _writable(about)  # type: ignore[no-any-return]


def _writable(value: Any) -> Any:
    """Return JSON data that every client and every store can write: half a character of a program's is spelt out."""
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, dict):
        return {encodable(name): _writable(item) for name, item in value.items()}
    return [_writable(item) for item in value] if isinstance(value, list) else value


def _shown(arguments: Mapping[str, Any]) -> dict[str, Any]:
    share = MOST_SHOWN // max(len(arguments), 1)
    texts = {name: json.dumps(value) for name, value in arguments.items()}
    shown = {name: value if len(texts[name]) <= share else cut(texts[name], share) for name, value in arguments.items()}
    whole = json.dumps(shown)
    return shown if len(whole) <= 2 * MOST_SHOWN else {"…": cut(whole, MOST_SHOWN)}  # very many, or very long names


def request_of(about: Mapping[str, Any], arguments: Any, this: Occurrence, tool_name: str) -> Content:
    """Return the framework's form of a question.

    The first of a call has the occurrence's own id, which is how the framework finds it. One that is asked after an
    answer has another: with the first one's, that answer, sent once more, would be taken for one to this.
    """
    sent = arguments if isinstance(arguments, dict) else {"raw": arguments}
    call = Content.from_function_call(this.call_id, tool_name, arguments=sent, id=this.id)
    properties: dict[str, Any] = {ABOUT: dict(about)}
    name = this.id
    if this.answer is not None:
        name = f"{this.id}:{about['question']}"
        properties |= {"_replacement_approval_request": True, "_approval_request_id": name}
    return Content.from_function_approval_request(id=name, function_call=call, additional_properties=properties)


def occurrence_of(answer: Content) -> str:
    """Return the id of the occurrence that an answer is to."""
    call = answer.function_call
    return answer.id or "" if call is None or call.id is None else call.id


def question_of(answer: Content) -> str | None:
    """Return the id of the question that an answer says it is to; `None` where it does not say."""
    about = answer.additional_properties.get(ABOUT)
    question = about.get("question") if isinstance(about, Mapping) else None
    return question if isinstance(question, str) else None
