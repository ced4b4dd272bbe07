"""Documents as Gemini's API has them, made by hand after its published types."""

from __future__ import annotations

from typing import Any

PICTURE = "iVBORw0KGgo="
RESPONSE: dict[str, Any] = {
    "candidates": [
        {
            "content": {
                "role": "model",
                "parts": [
                    {"text": "I shall add them up.", "thought": True, "thoughtSignature": "c2lnbmVk"},
                    {"text": "Überlegung: ", "thoughtSignature": "YQ=="},
                    {"executableCode": {"language": "PYTHON", "code": "print(sum(range(9)))\n"}},
                    {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "36\n"}},
                    {"inlineData": {"mimeType": "image/png", "data": PICTURE}},
                    {"inlineData": {"mimeType": "text/csv", "data": "YSxi", "displayName": "t.csv"}},
                    {"executableCode": {"id": "x1", "language": "PYTHON", "code": "1/0"}},
                    {
                        "codeExecutionResult": {
                            "id": "x1",
                            "outcome": "OUTCOME_FAILED",
                            "output": 'Traceback (most recent call last):\n  File "<s>"\nZeroDivisionError: no\n',
                        },
                        "thoughtSignature": "Yg==",
                    },
                    {"text": "It is 36."},
                    {"functionCall": {"id": "f1", "name": "note", "args": {"sum": 36}}},
                ],
            },
            "finishReason": "STOP",
            "index": 0,
            "avgLogprobs": -0.5,
            "safetyRatings": [{"category": "HARM_CATEGORY_HARASSMENT", "probability": "NEGLIGIBLE"}],
            "citationMetadata": {
                "citations": [{"startIndex": 0, "endIndex": 11, "uri": "https://example.com/a", "license": "mit"}]
            },
            "groundingMetadata": {
                "webSearchQueries": ["sums"],
                "groundingChunks": [{"web": {"uri": "https://example.com/b", "title": "Sums"}}],
                "groundingSupports": [
                    {
                        "segment": {"partIndex": 8, "startIndex": 6, "endIndex": 8, "text": "36"},
                        "groundingChunkIndices": [0],
                        "confidenceScores": [0.9],
                    }
                ],
            },
        }
    ],
    "usageMetadata": {
        "promptTokenCount": 10,
        "candidatesTokenCount": 20,
        "thoughtsTokenCount": 5,
        "toolUsePromptTokenCount": 7,
        "totalTokenCount": 42,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 10}],
    },
    "modelVersion": "gemini-3-pro",
    "responseId": "resp-1",
    "createTime": "2026-01-02T03:04:05.678901Z",
}

CONTENTS: list[Any] = [
    {
        "role": "user",
        "parts": [
            {"text": "What is in these?"},
            {"fileData": {"fileUri": "gs://bucket/a.pdf", "mimeType": "application/pdf"}},
            {"fileData": {"fileUri": "https://generativelanguage.googleapis.com/v1beta/files/abc"}},
            {
                "inlineData": {"mimeType": "video/mp4", "data": "AAEC"},
                "videoMetadata": {"startOffset": "1s"},
                "mediaResolution": {"level": "MEDIA_RESOLUTION_LOW"},
            },
        ],
    },
    {
        "role": "model",
        "parts": [
            {"functionCall": {"name": "look", "args": {"at": 1}}, "thoughtSignature": "YQ=="},
            {"functionCall": {"name": "hear", "args": {}}},
            {"functionCall": {"name": "look", "args": {"at": 2}}},
        ],
    },
    {
        "role": "user",
        "parts": [
            {"functionResponse": {"name": "hear", "response": {"error": "too loud"}}},
            {"functionResponse": {"name": "look", "response": {"result": "a cat"}}},
            {
                "functionResponse": {
                    "name": "look",
                    "response": {"things": [{"kind": "dog", "size": 2.5}]},
                    "parts": [{"inlineData": {"mimeType": "image/png", "data": PICTURE, "displayName": "dog.png"}}],
                    "scheduling": "WHEN_IDLE",
                }
            },
        ],
    },
    {"role": "model", "parts": [{"toolCall": {"toolType": "URL_CONTEXT", "args": {"a": 1}, "id": "t"}}]},
]


def chunks_of(response: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a response as a stream brings it: long texts in two pieces, and counts that grow."""
    (candidate,) = response["candidates"]
    pieces: list[Any] = []
    for part in candidate["content"]["parts"]:
        is_plain = part.keys() == {"text"} and len(part["text"]) > 3
        pieces += [{"text": part["text"][:3]}, {"text": part["text"][3:]}] if is_plain else [part]
    common = {name: response[name] for name in ("modelVersion", "responseId", "createTime")}
    chunks = []
    for number, piece in enumerate(pieces, 1):
        usage = {"promptTokenCount": 10, "candidatesTokenCount": number, "totalTokenCount": 10 + number}
        content = {"role": "model", "parts": [piece]}
        chunks.append({"candidates": [{"content": content, "index": 0}], "usageMetadata": usage, **common})
    end = {name: value for name, value in candidate.items() if name != "content"}
    last = {"content": {"role": "model", "parts": []}, **end}
    return [*chunks, {"candidates": [last], "usageMetadata": response["usageMetadata"], **common}]
