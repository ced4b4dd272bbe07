"""Responses as the Responses API returns them, and the events of a stream that says the same."""

from __future__ import annotations

import base64
from typing import Any

PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n-not-a-whole-picture").decode()

USAGE = {
    "input_tokens": 312,
    "input_tokens_details": {"cached_tokens": 128, "cache_write_tokens": 0},
    "output_tokens": 96,
    "output_tokens_details": {"reasoning_tokens": 64},
    "total_tokens": 408,
}
REASONING = {
    "id": "rs_1",
    "type": "reasoning",
    "summary": [
        {"type": "summary_text", "text": "The file has two columns."},
        {"type": "summary_text", "text": "A bar chart fits."},
    ],
    "encrypted_content": "gAAAAABo==",
}
CODE = {
    "id": "ci_1",
    "type": "code_interpreter_call",
    "status": "completed",
    "code": "import pandas as pd\nprint(pd.read_csv('a.csv').sum())",
    "container_id": "cntr_1",
    "outputs": [
        {"type": "logs", "logs": "x    3\n"},
        {"type": "logs", "logs": "y    4\n"},
        {"type": "image", "url": f"data:image/png;base64,{PIXEL}"},
        {"type": "image", "url": "https://files.example/cfile_2"},
    ],
}
ANSWER = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [
        {
            "type": "output_text",
            "text": "The sums are 3 and 4; see chart.png and the manual.",
            "annotations": [
                {
                    "type": "container_file_citation",
                    "container_id": "cntr_1",
                    "file_id": "cfile_1",
                    "filename": "chart.png",
                    "start_index": 26,
                    "end_index": 35,
                },
                {
                    "type": "url_citation",
                    "url": "https://example.org/manual",
                    "title": "Manual",
                    "start_index": 44,
                    "end_index": 50,
                },
            ],
            "logprobs": [],
        },
        {
            "type": "output_text",
            "text": "From your files.",
            "annotations": [
                {"type": "file_citation", "file_id": "file_1", "filename": "a.csv", "index": 16},
                {"type": "file_path", "file_id": "file_2", "index": 0},
            ],
            "logprobs": [],
        },
    ],
}
CALL = {
    "id": "fc_1",
    "type": "function_call",
    "status": "completed",
    "call_id": "call_1",
    "name": "send_mail",
    "arguments": '{"to": "ada@example.org", "tries": 2}',
}
SHELL = {
    "id": "sh_1",
    "type": "shell_call",
    "call_id": "call_2",
    "action": {"commands": ["ls -l", "cat missing"], "max_output_length": 4096, "timeout_ms": None},
    "environment": {"type": "container_reference", "container_id": "cntr_1"},
    "status": "completed",
}
SHELL_OUTPUT = {
    "id": "sho_1",
    "type": "shell_call_output",
    "call_id": "call_2",
    "max_output_length": 4096,
    "status": "completed",
    "output": [
        {"stdout": "total 0\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}},
        {"stdout": "", "stderr": "cat: missing: No such file\n", "outcome": {"type": "exit", "exit_code": 1}},
    ],
}
LOCAL_SHELL = {
    "id": "lsh_1",
    "type": "local_shell_call",
    "call_id": "call_3",
    "status": "completed",
    "action": {"type": "exec", "command": ["grep", "-r", "two words", "."], "env": {"LANG": "C"}, "timeout_ms": 500},
}
PROGRAM = {
    "id": "prog_1",
    "type": "program",
    "call_id": "call_4",
    "code": "await tools.lookup({id: 1})",
    "fingerprint": "f-1",
}
CALL_OF_PROGRAM = {
    "id": "fc_2",
    "type": "function_call",
    "call_id": "call_5",
    "name": "lookup",
    "arguments": '{"id":1}',
    "caller": {"type": "program", "caller_id": "call_4"},
    "status": "completed",
}
PROGRAM_OUTPUT = {
    "id": "po_1",
    "type": "program_output",
    "call_id": "call_4",
    "result": '{"name":"Ada"}',
    "status": "completed",
}
SEARCH = {
    "id": "fs_1",
    "type": "file_search_call",
    "status": "completed",
    "queries": ["sums"],
    "results": None,
}
REFUSAL = {
    "id": "msg_2",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "refusal", "refusal": "I cannot help with that."}],
}
OUTPUT = [REASONING, SEARCH, CODE, SHELL, SHELL_OUTPUT, PROGRAM, CALL_OF_PROGRAM, PROGRAM_OUTPUT, ANSWER, REFUSAL, CALL]

INPUT = [
    {"role": "system", "content": "Be brief."},
    {
        "type": "message",
        "role": "user",
        "content": [
            {"type": "input_text", "text": "What is in these?"},
            {"type": "input_image", "detail": "low", "image_url": f"data:image/png;base64,{PIXEL}"},
            {"type": "input_image", "detail": "auto", "image_url": "https://example.org/a.png"},
            {"type": "input_image", "detail": "auto", "file_id": "file_3"},
            {"type": "input_file", "filename": "a.csv", "file_data": "data:text/csv;base64,eCx5Cg=="},
            {"type": "input_file", "filename": "b.bin", "file_data": "AAEC"},
            {"type": "input_file", "file_url": "https://example.org/a.pdf"},
            {"type": "input_file", "file_id": "file_4"},
        ],
    },
    REASONING,
    CODE,
    ANSWER,
    CALL,
    LOCAL_SHELL,
    {"type": "function_call_output", "call_id": "call_1", "output": "sent"},
    {
        "type": "function_call_output",
        "call_id": "call_1",
        "output": [{"type": "input_text", "text": "sent"}, {"type": "input_file", "file_id": "file_5"}],
        "status": "completed",
    },
    {"type": "local_shell_call_output", "id": "call_3", "output": '{"output": "found", "exit_code": 0}'},
    {"role": "user", "content": "And now?"},
    {"role": "assistant", "content": "Nothing more."},
    {"type": "item_reference", "id": "msg_1"},
    SHELL,
    SHELL_OUTPUT,
]


def response(output: list[Any], **more: Any) -> dict[str, Any]:
    """Return a whole response with some output."""
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1760000000,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": "gpt-5.2",
        "output": output,
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [{"type": "code_interpreter", "container": {"type": "auto"}}],
        "top_p": 1.0,
        "usage": USAGE,
        **more,
    }


RESPONSE = response(OUTPUT)


def events_of(whole: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the events of the stream of a response, in the API's order and with pieces of a few characters."""
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    events = [{"type": "response.created", "response": begun}, {"type": "response.in_progress", "response": begun}]
    for number, item in enumerate(whole["output"]):
        place = {"output_index": number, "item_id": item["id"]}
        events.append({"type": "response.output_item.added", "output_index": number, "item": _begun(item)})
        events += [{**event, **place} for event in _events_of_item(item)]
        events.append({"type": "response.output_item.done", "output_index": number, "item": item})
    events.append({"type": f"response.{whole['status']}", "response": whole})
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


_NOT_YET = {"content": [], "summary": [], "arguments": "", "code": "", "outputs": None, "output": []}


def _begun(item: dict[str, Any]) -> dict[str, Any]:
    begun = {key: value for key, value in item.items() if key not in _NOT_YET and key != "encrypted_content"}
    begun |= {key: value for key, value in _NOT_YET.items() if key in item}
    if "status" in item and item["type"] != "program_output":
        begun["status"] = "in_progress"
    return begun


def _pieces(text: str) -> list[str]:
    return [text[at : at + 7] for at in range(0, len(text), 7)]


def _events_of_item(item: dict[str, Any]) -> list[dict[str, Any]]:
    kind, events = item["type"], []
    if kind == "message":
        for number, part in enumerate(item["content"]):
            events += [{**event, "content_index": number} for event in _events_of_part(part)]
    elif kind == "reasoning":
        said = "response.reasoning_summary"
        for number, part in enumerate(item["summary"]):
            place = {"summary_index": number}
            begun = {"type": "summary_text", "text": ""}
            events.append({"type": f"{said}_part.added", "part": begun, **place})
            events += [{"type": f"{said}_text.delta", "delta": piece, **place} for piece in _pieces(part["text"])]
            events.append({"type": f"{said}_text.done", "text": part["text"], **place})
            events.append({"type": f"{said}_part.done", "part": part, **place})
    elif kind == "code_interpreter_call":
        said = "response.code_interpreter_call"
        events.append({"type": f"{said}.in_progress"})
        events += [{"type": f"{said}_code.delta", "delta": piece} for piece in _pieces(item["code"])]
        events.append({"type": f"{said}_code.done", "code": item["code"]})
        events += [{"type": f"{said}.interpreting"}, {"type": f"{said}.completed"}]
    elif kind == "function_call":
        said = "response.function_call_arguments"
        events += [{"type": f"{said}.delta", "delta": piece} for piece in _pieces(item["arguments"])]
        events.append({"type": f"{said}.done", "arguments": item["arguments"]})
    elif kind == "shell_call":
        said = "response.shell_call_command"
        for number, command in enumerate(item["action"]["commands"]):
            events.append({"type": f"{said}.added", "command_index": number, "command": ""})
            pieces = _pieces(command)
            events += [{"type": f"{said}.delta", "command_index": number, "delta": piece} for piece in pieces]
            events.append({"type": f"{said}.done", "command_index": number, "command": command})
    elif kind == "shell_call_output":
        said = "response.shell_call_output_content"
        for number, chunk in enumerate(item["output"]):
            for stream in ("stdout", "stderr"):
                for piece in _pieces(chunk[stream]):
                    events.append({"type": f"{said}.delta", "command_index": number, "delta": {stream: piece}})
            events.append({"type": f"{said}.done", "command_index": number, "output": [chunk]})
    elif kind == "file_search_call":
        events += [{"type": f"response.file_search_call.{how}"} for how in ("in_progress", "searching", "completed")]
    return events


def _events_of_part(part: dict[str, Any]) -> list[dict[str, Any]]:
    field = "refusal" if part["type"] == "refusal" else "text"
    said = "response.refusal" if part["type"] == "refusal" else "response.output_text"
    begun = {**part, field: "", **({"annotations": []} if "annotations" in part else {})}
    more = {"logprobs": []} if field == "text" else {}
    events = [{"type": "response.content_part.added", "part": begun}]
    events += [{"type": f"{said}.delta", "delta": piece, **more} for piece in _pieces(part[field])]
    for number, annotation in enumerate(part.get("annotations", ())):
        event = {"type": f"{said}.annotation.added", "annotation": annotation, "annotation_index": number}
        events.insert(3 if number == 0 else len(events), event)
    events.append({"type": f"{said}.done", field: part[field], **more})
    return [*events, {"type": "response.content_part.done", "part": part}]
