"""What the examples print: what the model sent, and what came back to it."""

from __future__ import annotations

import json
from typing import Any

from agent_framework import AgentResponse, Content


def show(response: AgentResponse[Any]) -> None:
    """Print a response, item by item."""
    for message in response.messages:
        for item in message.contents:
            _show(item)


def show_question(request: Content) -> None:
    """Print what somebody is asked to approve."""
    about = request.additional_properties.get("actbox")
    print("SOMEBODY IS ASKED" + (f": {about['reason']}" if about else " about this call:"))
    if about and about["what"] == "call":
        print(_indented(f"{about['tool']}({json.dumps(about['arguments'])}), in line {about['line']} of the program"))
    elif request.function_call is not None:
        print(_indented(_sent(request.function_call)))
    print()


def _show(item: Content) -> None:
    if item.type == "text":
        print(f"THE MODEL SAYS\n{_indented(item.text)}\n")
    elif item.type == "function_call":
        print(f"THE MODEL SENDS {item.name}\n{_indented(_sent(item))}\n")
    elif item.type == "function_result":
        print(f"AND READS\n{_indented(str(item.result))}")
        for part in item.items or []:
            if part.type == "data":
                print(_indented(f"(beside the text: {part.additional_properties.get('path')}, {part.media_type})"))
        print()


def _sent(call: Content) -> str:
    arguments = call.parse_arguments() or {}
    if set(arguments) == {"code"}:
        return str(arguments["code"]).strip()
    return json.dumps(arguments)


def _indented(text: str | None) -> str:
    return "\n".join(f"    {line}" for line in (text or "").splitlines())
