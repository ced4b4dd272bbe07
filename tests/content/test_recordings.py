"""Files of recorders are opened and shown: what was asked and answered, each thing once."""

from __future__ import annotations

import base64
import gzip
import importlib
import json
import sys

import pytest

from actbox.content import CodeInterpreterCall
from actbox.content.recordings import RecordingError, load_yaml
from actbox.content.transcripts import TranscriptError, read_transcript
from actbox.content.wire.formats import find_format
from tests.content.matrix import TRANSCRIPT, WRITTEN

yaml = importlib.import_module("yaml")
URL = "https://api.openai.com/v1/chat/completions"
QUESTION = {"role": "user", "content": "six times seven?"}
ANSWER = {"role": "assistant", "content": "It is 42."}
AGAIN = {"role": "user", "content": "are you sure?"}


def completion(message):
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_760_000_000,
        "model": "gpt-x",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
    }


EXCHANGES = [
    ({"model": "gpt-x", "messages": [QUESTION]}, completion(ANSWER)),
    ({"model": "gpt-x", "messages": [QUESTION, ANSWER, AGAIN]}, completion({"role": "assistant", "content": "Yes."})),
]
SAID = [
    ("user", "six times seven?"),
    ("assistant", "It is 42."),
    ("user", "are you sure?"),
    ("assistant", "Yes."),
]


def cassette(exchanges, body=lambda text: {"string": text}):
    return {
        "interactions": [
            {
                "request": {"body": json.dumps(asked), "headers": {"accept": ["*/*"]}, "method": "POST", "uri": URL},
                "response": {
                    "body": body(json.dumps(answered)),
                    "headers": {"content-type": ["application/json"]},
                    "status": {"code": 200, "message": "OK"},
                },
            }
            for asked, answered in exchanges
        ],
        "version": 1,
    }


def said(text, **how):
    transcript = read_transcript(text, **how)
    assert transcript.warnings == ()
    return [(message.role, message.text) for message in transcript.messages]


BODIES = {
    "text": lambda text: {"string": text},
    "bytes": lambda text: {"string": text.encode()},
    "compressed": lambda text: {"string": gzip.compress(text.encode())},
}


@pytest.mark.parametrize("body", BODIES)
def test_a_cassette_of_vcr_is_read(body):
    text = yaml.dump(cassette(EXCHANGES, BODIES[body]), default_flow_style=False)
    assert said(text) == SAID
    assert read_transcript(text).format == "openai-chat"


def test_a_cassette_of_rubys_vcr_is_read():
    document = {"http_interactions": cassette(EXCHANGES)["interactions"], "recorded_with": "VCR 6.2.0"}
    assert said("---\n" + yaml.dump(document)) == SAID


def test_a_cassette_in_json_is_read():
    bodies = {**BODIES, "base64": lambda text: {"base64_string": base64.b64encode(text.encode()).decode()}}
    for name in ("text", "base64"):
        assert said(json.dumps(cassette(EXCHANGES, bodies[name]), indent=1)) == SAID


@pytest.mark.parametrize("as_lines", [False, True], ids=["a list", "lines"])
def test_objects_with_a_request_and_a_response_are_read(as_lines):
    listed = [{"request": asked, "response": answered} for asked, answered in EXCHANGES]
    assert said("\n".join(map(json.dumps, listed)) if as_lines else json.dumps(listed)) == SAID


def test_a_stream_in_a_response_is_read():
    pieces = [{"content": "It is "}, {"content": "42."}]
    chunks = [
        {"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta}]} for delta in pieces
    ]
    sent = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
    document = cassette(EXCHANGES[:1], lambda _: {"string": sent})
    assert said(yaml.dump(document)) == SAID[:2]


@pytest.mark.parametrize("name", [name for name in WRITTEN if name not in ("jupyter", "actbox", "agentcore", "mcp")])
def test_exchanges_in_each_format_are_read(name):
    found = find_format(name)
    listed = [{"request": found.write(TRANSCRIPT[:2]).document, "response": found.write(TRANSCRIPT[2:]).document}]
    transcript = read_transcript(json.dumps(listed), format=name)
    assert "six times seven" in transcript.messages[0].text + transcript.messages[1].text
    if name != "openai-chat":  # it runs no code
        assert any(
            isinstance(item, CodeInterpreterCall) for message in transcript.messages for item in message.contents
        )


def test_what_is_no_conversation_is_left_out_and_named():
    document = cassette([({"input": "x"}, {"embedding": [0.5]}), *EXCHANGES])
    transcript = read_transcript(yaml.dump(document))
    assert [message.role for message in transcript.messages] == [role for role, _ in SAID]
    (warning,) = transcript.warnings
    assert warning.startswith(f"exchange 1 ({URL}) is left out: this looks like none of the formats")


def test_a_message_that_is_really_said_twice_is_shown_twice():
    asked = {"model": "gpt-x", "messages": [QUESTION, ANSWER, QUESTION]}
    listed = [EXCHANGES[0], (asked, completion(ANSWER))]
    assert said(json.dumps([{"request": a, "response": b} for a, b in listed])) == SAID[:2] * 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("interactions:\n- request: {body: a\n", "not YAML"),
        ("interactions: []\nversion: 1\n", "no recorded requests"),
        ("interactions:\n- &a [x]\n- *a\n", "aliases"),
        (json.dumps(cassette([({}, {"embedding": [0.5]})])), "of 1 recorded exchanges none can be read"),
    ],
)
def test_what_cannot_be_read_is_named(text, words):
    with pytest.raises(TranscriptError, match=words):
        read_transcript(text)


def test_without_pyyaml_the_hint_is_how_to_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(TranscriptError, match=r"^this is YAML, and PyYAML is not installed$") as raised:
        read_transcript("interactions:\n- request: {}\n")
    assert raised.value.hint == "pip install pyyaml"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("[" * 101, "nested more than 100 deep"),
        ("{a: " * 101, "nested more than 100 deep"),
        (
            "{" + ", ".join(f"? {n * (2**61 - 1)} : 1" for n in range(1_001)) + "}",
            "more than 1000 keys that are no text",
        ),
        ("!!set {" + ", ".join(f"? {n}" for n in range(1_001)) + "}", "more than 1000 keys that are no text"),
        ("1\n...\n" + "".join(f"%TAG !a{n}! b\n" for n in range(101)), "more than 100 directives"),
    ],
    ids=["lists", "mappings", "keys", "set", "directives"],
)
def test_yaml_that_would_take_more_than_its_length_is_refused(body: str, why: str) -> None:
    with pytest.raises(RecordingError, match=why):
        load_yaml(f"interactions: {body}")


@pytest.mark.parametrize("tag", ["", "!!int ", "!!float "])
@pytest.mark.parametrize("end", ["", ".5"])
def test_numbers_in_sixties_are_text(tag: str, end: str) -> None:
    number = "1" + ":59" * 1_000 + end
    assert load_yaml(f"interactions: [{tag}{number}, 12, 1.5]") == {"interactions": [number, 12, 1.5]}
