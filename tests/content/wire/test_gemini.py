"""Gemini's documents: what the SDK's own types say is what comes out, and everything comes back."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actbox.content import (
    Annotation,
    CodeInterpreterCall,
    CodeInterpreterResult,
    DataContent,
    ErrorContent,
    FunctionCall,
    FunctionResult,
    HostedCodeInterpreterTool,
    HostedFileContent,
    HostedFileSearchTool,
    HostedVectorStoreContent,
    Message,
    ReasoningContent,
    TextContent,
    UnknownContent,
    UriContent,
    UsageContent,
    code_content,
    message_from_updates,
)
from actbox.content.wire.gemini import (
    FORMAT,
    Reader,
    read,
    write,
    write_request,
    write_response,
    write_tools,
)
from tests.content import items_to_try
from tests.content.wire.gemini_samples import CONTENTS, PICTURE, RESPONSE
from tests.content.wire.sdk_types import SdkType

SDK_CONTENT = SdkType("google.genai.types:Content")
SDK_RESPONSE = SdkType("google.genai.types:GenerateContentResponse")
SDK_TOOL = SdkType("google.genai.types:Tool")


def parts_of(document: Any) -> list[Any]:
    return document["candidates"][0]["content"]["parts"]


def of_model(*parts: Any) -> list[Any]:
    return [{"role": "model", "parts": [*parts]}]


def contents_of(*parts: Any) -> tuple[Any, ...]:
    (message,) = read(of_model(*parts))
    return message.contents


def whats(written: Any) -> set[str]:
    return {loss.what for loss in written.losses}


def test_a_response_is_read() -> None:
    (message,) = read(RESPONSE)
    assert (message.role, message.id, message.response_id) == ("assistant", "resp-1", "resp-1")
    assert (message.model, message.finish_reason) == ("gemini-3-pro", "stop")
    assert message.created_at is not None and message.created_at.year == 2026
    assert [item.type for item in message.contents] == [
        "reasoning",
        "text",
        "code_interpreter_call",
        "code_interpreter_result",
        "code_interpreter_call",
        "code_interpreter_result",
        "text",
        "function_call",
        "usage",
    ]
    thought = message.contents[0]
    assert isinstance(thought, ReasoningContent)
    assert (thought.text, thought.protected_data) == ("I shall add them up.", "c2lnbmVk")


def test_files_that_follow_a_result_are_what_the_code_made() -> None:
    _, _, call, result, *_ = read(RESPONSE)[0].contents
    assert isinstance(call, CodeInterpreterCall) and isinstance(result, CodeInterpreterResult)
    assert (call.code, call.language, call.call_id) == ("print(sum(range(9)))\n", "python", "code-1")
    assert (result.call_id, result.outcome, result.success) == ("code-1", "ok", True)
    printed, picture, table = result.outputs
    assert printed == TextContent(text="36\n", stream="stdout")
    assert isinstance(picture, DataContent)
    # The API gives no name to it, and none is given back; but a file has one.
    assert (picture.media_type, picture.data, picture.name) == ("image/png", b"\x89PNG\r\n\x1a\n", "file-1.png")
    assert table == DataContent(media_type="text/csv", data=b"a,b", name="t.csv")


def test_files_without_names_are_never_joined() -> None:
    tables = [{"inlineData": {"mimeType": "text/csv", "data": data}} for data in ("YQ==", "Yg==")]
    contents = of_model({"codeExecutionResult": {"outcome": "OUTCOME_OK"}}, *tables)
    reader = Reader()
    message = message_from_updates(
        update
        for part in contents[0]["parts"]
        for update in reader.feed({"candidates": [{"content": {"parts": [part]}}]})
    )
    assert message.contents == read(contents)[0].contents
    assert [item.name for item in message.contents[0].outputs] == ["file-1.csv", "file-2.csv"]
    assert write([message]).document == contents


def test_what_failed_says_why() -> None:
    result = read(RESPONSE)[0].contents[5]
    assert isinstance(result, CodeInterpreterResult)
    assert (result.call_id, result.outcome, result.success) == ("x1", "failed", False)
    (error,) = result.outputs
    assert isinstance(error, ErrorContent)
    assert (error.message, error.code) == ("ZeroDivisionError: no", "ZeroDivisionError")
    assert error.details is not None and error.details.startswith("Traceback")


def test_counts_are_of_all_that_went_in_and_out() -> None:
    usage = read(RESPONSE)[0].contents[-1]
    assert isinstance(usage, UsageContent)
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (17, 25, 42)
    assert usage.counts == {"thoughtsTokenCount": 5, "toolUsePromptTokenCount": 7}


def test_sources_are_annotations_in_characters() -> None:
    texts = [item for item in read(RESPONSE)[0].contents if isinstance(item, TextContent)]
    (cited,), (grounded,) = texts[0].annotations, texts[1].annotations
    # "Überlegung" has ten characters and eleven bytes.
    assert (cited.url, cited.start, cited.end) == ("https://example.com/a", 0, 10)
    assert (grounded.url, grounded.title) == ("https://example.com/b", "Sums")
    assert texts[1].text[grounded.start : grounded.end] == "36"


def test_a_response_comes_back_the_same() -> None:
    written = write_response(read(RESPONSE))
    assert written.document == RESPONSE
    assert written.losses == ()


def test_the_sdk_takes_what_is_written() -> None:
    response = SDK_RESPONSE.validate(write_response(read(RESPONSE)).document)
    assert response == SDK_RESPONSE.validate(RESPONSE)
    for document in (write(read(RESPONSE)).document, write(read(CONTENTS)).document):
        for content in document:
            SDK_CONTENT.validate(content)


@pytest.mark.parametrize("by_alias", [True, False])
def test_what_the_sdk_dumps_is_read(by_alias: bool) -> None:
    """Its names may be in snake_case, its base64 is of the other alphabet, and what it has not is null."""
    document = copy.deepcopy(RESPONSE)
    parts_of(document)[4]["inlineData"]["data"] = "_-8="
    dumped = SDK_RESPONSE.validate(document).model_dump(mode="json", by_alias=by_alias)
    read_again, meant = read(dumped)[0], read(document)[0]
    assert [item.type for item in read_again.contents] == [item.type for item in meant.contents]
    assert read_again.text == meant.text
    assert read_again.finish_reason == "stop"
    assert read_again.contents[3] == meant.contents[3]
    assert read_again.contents[-1] == meant.contents[-1]
    SDK_RESPONSE.validate(write_response([read_again]).document)


def test_contents_come_back_the_same() -> None:
    written = write(read(CONTENTS))
    assert written.document == CONTENTS
    assert written.losses == ()


def test_results_without_ids_are_of_the_earliest_call_of_their_name() -> None:
    _, calls, results, tool_call = read(CONTENTS)
    assert [item.call_id for item in calls.contents] == ["call-1", "call-2", "call-3"]
    assert [(item.call_id, item.is_error) for item in results.contents] == [
        ("call-2", True),
        ("call-1", False),
        ("call-3", False),
    ]
    assert results.role == "tool"
    assert results.contents[0].outputs == (ErrorContent(message="too loud"),)
    assert results.contents[1].text == "a cat"
    assert '"dog"' in results.contents[2].text
    assert isinstance(tool_call.contents[0], UnknownContent)


def test_files_lie_with_the_provider_or_elsewhere() -> None:
    _, link, file, video = read(CONTENTS)[0].contents
    assert isinstance(link, UriContent) and link.uri == "gs://bucket/a.pdf"
    assert isinstance(file, HostedFileContent) and file.file_id == "files/abc"
    assert isinstance(video, DataContent) and video.data == b"\0\1\2"


@pytest.mark.parametrize(
    "uri",
    [
        "https://generativelanguage.googleapis.com/v1beta/files/abc",
        "https://generativelanguage.googleapis.com/v1/files/abc",
        "https://generativelanguage.googleapis.com/v1beta/files/abc:download?alt=media",
        "gs://b/c",
        "https://www.youtube.com/watch?v=x",
        "some-id",
    ],
)
def test_every_uri_of_a_file_comes_back(uri: str) -> None:
    contents = of_model({"fileData": {"fileUri": uri, "mimeType": "a/b", "displayName": "n", "more": 1}})
    assert write(read(contents)).document == contents


def test_a_request_comes_back_the_same() -> None:
    request = {
        "systemInstruction": {"role": "user", "parts": [{"text": "Be brief."}]},
        "contents": CONTENTS,
        "tools": [{"codeExecution": {}}],
        "generationConfig": {"temperature": 0},
    }
    messages = read(request)
    assert (messages[0].role, messages[0].text) == ("system", "Be brief.")
    assert write_request(messages).document == request
    assert write_request(read({"contents": [], "tools": []})).document == {"contents": [], "tools": []}
    plain = {"system_instruction": "Be brief.", "contents": CONTENTS}
    assert write_request(read(plain)).document["systemInstruction"] == {"parts": [{"text": "Be brief."}]}


def test_each_candidate_is_a_message() -> None:
    one = {"content": {"role": "model", "parts": [{"executableCode": {"code": "1"}}]}, "index": 0}
    two = {"content": {"role": "model", "parts": [{"executableCode": {"code": "2"}}]}, "index": 1}
    two["finishReason"] = "RECITATION"
    document = {"candidates": [one, two], "responseId": "r", "usageMetadata": {"promptTokenCount": 1}}
    messages = read(document)
    assert [message.id for message in messages] == ["r", "r-1"]
    assert [message.contents[0].call_id for message in messages] == ["code-1", "candidate-1-code-1"]
    assert messages[1].finish_reason == "content_filter"
    assert write_response(messages).document == document


def test_a_prompt_that_is_blocked_is_a_message_without_content() -> None:
    document = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 4}}
    (message,) = read(document)
    assert message.finish_reason == "content_filter"
    assert write_response([message]).document == document
    (update,) = Reader().feed(document)
    assert message_from_updates([update]) == message


@pytest.mark.parametrize("reason", ["MAX_TOKENS", "SAFETY", "MALFORMED_FUNCTION_CALL", "A_NEW_ONE"])
def test_a_candidate_without_content_says_why(reason: str) -> None:
    document = {"candidates": [{"finishReason": reason, "index": 0}], "modelVersion": "m"}
    (message,) = read(document)
    assert message.finish_reason in ("length", "content_filter", reason)
    assert write_response([message]).document == document


def test_an_error_of_the_api_is_an_error() -> None:
    document = {"error": {"code": 429, "message": "Too many.", "status": "RESOURCE_EXHAUSTED", "details": []}}
    (item,) = read(document)[0].contents
    assert isinstance(item, ErrorContent) and (item.message, item.code) == ("Too many.", "RESOURCE_EXHAUSTED")
    assert Reader().feed(document)[0].contents == (item,)


@pytest.mark.parametrize(
    ("outcome", "word", "success"),
    [
        ("OUTCOME_OK", "ok", True),
        ("OUTCOME_FAILED", "failed", False),
        ("OUTCOME_DEADLINE_EXCEEDED", "timeout", False),
        ("OUTCOME_UNSPECIFIED", "OUTCOME_UNSPECIFIED", None),
        ("OUTCOME_LOST", "OUTCOME_LOST", None),
        ("", "", None),
        (None, "OUTCOME_UNSPECIFIED", None),
    ],
)
@pytest.mark.parametrize("output", [None, "", "text", "text\n", "a\nValueError: b\n"])
def test_every_outcome_comes_back(outcome: str | None, word: str, success: bool | None, output: str | None) -> None:
    fields = {"outcome": outcome, "output": output}
    part = {"codeExecutionResult": {name: value for name, value in fields.items() if value is not None}}
    (result,) = contents_of(part)
    assert isinstance(result, CodeInterpreterResult)
    assert (result.outcome, result.success) == (word, success)
    assert write(read(of_model(part))).document == of_model(part)


@pytest.mark.parametrize("language", ["PYTHON", "LANGUAGE_UNSPECIFIED", "R", "", None])
def test_every_language_comes_back(language: str | None) -> None:
    part = {"executableCode": {"code": "x\0y", **({"language": language} if language is not None else {})}}
    (call,) = contents_of(part)
    assert isinstance(call, CodeInterpreterCall)
    assert call.language == ("r" if language == "R" else "python")
    assert write(read(of_model(part))).document == of_model(part)


@pytest.mark.parametrize(
    "part",
    [
        {"inlineData": {"mimeType": "image/png", "data": "iVBOR"}},
        {"inlineData": {"mimeType": 7, "data": PICTURE}},
        {"inlineData": {"data": PICTURE}},
        {"inlineData": None},
        {"fileData": {"fileUri": ""}},
        {"fileData": ["a"]},
        {"functionCall": {"name": "f", "args": [1]}},
        {"functionCall": {"name": 3}},
        {"functionResponse": {"name": "f", "response": "text"}},
        {"functionResponse": {"name": "f", "response": {}, "parts": "none"}},
        {"executableCode": {"code": 3}},
        {"executableCode": {"code": "", "id": 3}},
        {"codeExecutionResult": {"outcome": 1}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": ["a"]}},
        {"text": 5},
        {"text": None},
        {"text": "a", "functionCall": {"name": "f"}},
        {"toolResponse": {"id": "a"}},
        {"smell": "roses"},
        {},
        None,
        "text",
        [],
    ],
)
def test_a_part_that_is_not_as_it_should_be_is_kept(part: Any) -> None:
    contents = of_model({"text": "a"}, part, {"text": "b"})
    assert read(contents)[0].contents[1] == UnknownContent(format="gemini", raw=part)
    assert write(read(contents)).document == contents
    response = {"candidates": [{"content": contents[0]}]}
    assert write_response(read(response)).document == response


@pytest.mark.parametrize("parts", [{"text": "a"}, "text", 3])
def test_parts_that_are_no_list_are_kept(parts: Any) -> None:
    contents = [{"role": "model", "parts": parts}]
    assert write(read(contents)).document == contents
    response = {"candidates": [{"content": contents[0]}]}
    assert write_response(read(response)).document == response


@pytest.mark.parametrize(
    "document", [{"candidates": None, "usageMetadata": {}}, {"candidates": [None, 3, {}]}, {"candidates": "none"}]
)
def test_candidates_that_are_none_are_no_error(document: Any) -> None:
    assert all(message.role == "assistant" for message in read(document))
    assert Reader().feed(document)


def test_null_parts_are_none() -> None:
    assert read({"candidates": [{"content": {"role": "model", "parts": None}}]})[0].contents == ()
    assert read([{"role": "user", "parts": None}])[0].contents == ()


def test_fields_that_are_not_known_come_back() -> None:
    contents = [
        {
            "role": "model",
            "later": 1,
            "parts": [
                {"text": "a", "later": {"a": 1}, "thought": False},
                {"text": "a", "thought": True, "thoughtSignature": "not base64"},
                {"inlineData": {"mimeType": "a/b", "data": "", "later": 2}, "later": 3},
                {"executableCode": {"code": "", "language": "PYTHON", "later": 4}},
                {"codeExecutionResult": {"outcome": "OUTCOME_OK", "later": 5}, "later": 6},
                {"inlineData": {"mimeType": "a/b", "data": "", "displayName": 3}, "thought": True},
                {"functionCall": {"id": "i", "args": {"a_b": None}, "later": 7}},
                {"functionResponse": {"id": "i", "response": {"output": "a", "error": "b"}, "later": 8}},
                {"functionResponse": {"id": "i", "response": {"output": "a", "result": "b"}}},
                {"functionResponse": {"id": "j", "name": "f", "response": {"output": None}, "parts": [None]}},
                {"functionResponse": {"id": "k", "name": "f", "response": {}}},
            ],
        },
        {"parts": [{"text": "nobody's"}]},
        {"role": "function", "parts": [{"functionResponse": {"name": "f", "response": {"output": ""}}}]},
        {"role": 3, "parts": []},
    ]
    assert write(read(contents)).document == contents


def test_a_result_before_its_call_and_two_results_for_one_call_are_kept() -> None:
    result = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}
    call = {"executableCode": {"language": "PYTHON", "code": "1"}}
    items = contents_of(result, call, result, result)
    assert [item.call_id for item in items] == ["code-1", "code-2", "code-2", "code-3"]
    contents = of_model(result, call, result, result)
    assert write(read(contents)).document == contents
    named = {"codeExecutionResult": {"id": "a", "outcome": "OUTCOME_OK", "output": "1"}}
    contents = of_model(named, named, {"functionResponse": {"id": "b", "name": "f", "response": {}}})
    assert write(read(contents)).document == contents


def test_one_part_or_a_list_of_parts_is_a_message() -> None:
    part = {"executable_code": {"language": "PYTHON", "code": "1"}}
    assert read(part) == read([part])
    assert read(part)[0].role == "assistant"
    assert read({"functionResponse": {"name": "f", "response": {}}})[0].role == "tool"


@pytest.mark.parametrize("document", [{}, [{"a": 1}], "text", 3, None, {"contents": ["a"]}, {"type": "message"}])
def test_what_is_none_of_its_documents_is_refused(document: Any) -> None:
    with pytest.raises(ValueError, match="none of Gemini's"):
        read(document)


@pytest.mark.parametrize("path", ["to", "$", "$..a", "$.a[5]", "$[0]", "$.a[*]"])
def test_pieces_of_arguments_that_cannot_be_placed_are_kept(path: str) -> None:
    part = {"functionCall": {"id": "i", "args": {}, "partialArgs": [{"jsonPath": path, "stringValue": "x"}]}}
    assert write(read(of_model(part))).document == of_model(part)


def test_content_of_other_formats_is_said_as_far_as_it_can_be() -> None:
    message = Message(
        author="me",
        contents=(
            TextContent(text="see", annotations=(Annotation(url="https://a", start=0, end=3),)),
            ReasoningContent(text="hm", protected_data="not base64!"),
            ErrorContent(message="boom"),
            HostedVectorStoreContent(vector_store_id="v"),
            FunctionCall(call_id="c", name="f", arguments="{half", called_by="x"),
            FunctionResult(call_id="c", outputs=(TextContent(text="no"),), is_error=True),
            CodeInterpreterCall(call_id="k", name="n", inputs=(code_content("1", "r"), HostedFileContent(file_id="f"))),
            CodeInterpreterResult(
                call_id="k",
                exit_code=2,
                outputs=(
                    TextContent(text="out", stream="stdout"),
                    DataContent(media_type="a/b", data=b"", name="n"),
                    TextContent(text="err", stream="stderr"),
                    ErrorContent(message="boom", code="Bad"),
                ),
            ),
            HostedFileContent(file_id="files/a", size_bytes=3),
            UsageContent(input_tokens=1),
        ),
    )
    written = write([message])
    assert whats(written) == {
        "message.author",
        "text.annotations",
        "reasoning.protected_data",
        "error",
        "hosted_vector_store",
        "function_call.called_by",
        "function_call.arguments",
        "code_interpreter_call.inputs",
        "code_interpreter_call.name",
        "code_interpreter_call.language",
        "code_interpreter_result.exit_code",
        "code_interpreter_result.outputs",
        "text.stream",
        "text",
        "hosted_file",
        "hosted_file.size_bytes",
        "usage",
    }
    (content,) = written.document
    SDK_CONTENT.validate(content)
    assert content["parts"][5]["functionResponse"] == {"id": "c", "name": "f", "response": {"error": "no"}}
    result = content["parts"][7]["codeExecutionResult"]
    assert result == {"id": "k", "outcome": "OUTCOME_FAILED", "output": "outerr\nBad: boom"}
    response = write_response([message]).document
    SDK_RESPONSE.validate(response)
    assert response["candidates"][0]["citationMetadata"] == {
        "citations": [{"startIndex": 0, "endIndex": 3, "uri": "https://a"}]
    }
    assert response["usageMetadata"] == {"promptTokenCount": 1}


def test_a_result_of_code_that_a_tool_said_is_the_models() -> None:
    (content,) = write([Message(role="tool", contents=(CodeInterpreterResult(call_id="c"),))]).document
    assert content["role"] == "model"


def test_tools_are_written_as_the_api_takes_them() -> None:
    written = write_tools(
        [
            HostedCodeInterpreterTool(inputs=(HostedFileContent(file_id="files/a"),)),
            HostedFileSearchTool(
                inputs=(HostedVectorStoreContent(vector_store_id="fileSearchStores/s"), HostedFileContent(file_id="f")),
                maximum_result_count=4,
                provider_data={"gemini": {"metadataFilter": "a=1"}},
            ),
        ]
    )
    assert written.document == [
        {"codeExecution": {}},
        {"fileSearch": {"fileSearchStoreNames": ["fileSearchStores/s"], "topK": 4, "metadataFilter": "a=1"}},
    ]
    assert whats(written) == {"code_interpreter.inputs", "file_search.inputs"}
    for tool in written.document:
        SDK_TOOL.validate(tool)
    assert write_tools([HostedCodeInterpreterTool(), HostedFileSearchTool()]).losses == ()


def test_its_documents_are_told_by_their_looks() -> None:
    for document in (RESPONSE, CONTENTS, {"contents": CONTENTS}, CONTENTS[0], parts_of(RESPONSE)[2]):
        assert FORMAT.looks_like(document) >= 0.8


@pytest.mark.parametrize(
    "document",
    [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "contents": [{"type": "text", "text": "a"}]},
        {"role": "user", "parts": [{"kind": "text", "text": "a"}]},
        {"role": "assistant", "parts": [{"type": "text", "text": "a"}]},
        {"content": [{"text": "a"}]},
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "assistant", "contents": [{"type": "function_approval_request", "function_call": {"name": "f"}}]},
        {"text": "a"},
        {"type": "text", "text": "a"},
        {"choices": [], "usage": {}},
        {"candidates": [{"name": "Ada", "votes": 3}]},
        [],
        {},
        None,
    ],
)
def test_documents_of_others_do_not_look_like_its_own(document: Any) -> None:
    assert FORMAT.looks_like(document) == 0
    assert FORMAT.is_event is not None and not FORMAT.is_event(document)


names = items_to_try.words
datas = st.builds(DataContent, media_type=items_to_try.media_types, data=st.binary(max_size=20), name=names)
links = st.builds(UriContent, uri=names.map("https://example.com/{}".format), media_type=st.none() | names)
files = st.builds(HostedFileContent, file_id=names, media_type=st.none() | names, name=st.none() | names)
printed = st.builds(TextContent, text=items_to_try.texts, stream=st.just("stdout"))
sayable = st.one_of(
    st.builds(TextContent, text=items_to_try.texts),
    st.builds(ReasoningContent, text=items_to_try.texts, protected_data=st.none() | st.just("YWJj")),
    st.builds(FunctionCall, call_id=names, name=names, arguments=items_to_try.json_objects),
    st.builds(
        FunctionResult,
        call_id=names,
        name=names,
        outputs=st.tuples(st.builds(TextContent, text=items_to_try.texts), datas, files),
    ),
    st.builds(
        FunctionResult,
        call_id=names,
        name=names,
        is_error=st.just(True),
        outputs=st.tuples(st.builds(ErrorContent, message=items_to_try.texts)),
    ),
    st.builds(
        CodeInterpreterCall,
        call_id=names,
        inputs=items_to_try.texts.map(lambda code: (code_content(code),)),
    ),
    st.builds(
        CodeInterpreterResult,
        call_id=names,
        outcome=st.sampled_from(["ok", "timeout", "OUTCOME_NEW"]),
        outputs=st.tuples(printed, datas, files, links) | st.tuples(printed) | st.just(()),
    ),
)


@given(st.lists(sayable, min_size=1, max_size=6))
def test_text_thoughts_calls_and_results_come_back(items: list[Any]) -> None:
    message = Message(contents=tuple(items))
    written = write([message])
    assert written.losses == ()
    assert read(written.document)[0].contents == message.contents


@given(st.lists(sayable, min_size=1, max_size=4))
@settings(max_examples=30)
def test_the_sdk_takes_whatever_is_written(items: list[Any]) -> None:
    with warnings.catch_warnings():
        # It warns of an outcome that it does not know, and takes it.
        warnings.simplefilter("ignore")
        for content in write([Message(contents=tuple(items))]).document:
            SDK_CONTENT.validate(content)


@given(st.lists(datas | links | files, min_size=1, max_size=4))
def test_files_of_the_user_come_back(items: list[Any]) -> None:
    message = Message(role="user", contents=tuple(items))
    assert read(write([message]).document) == [message]


@pytest.mark.slow
@given(st.lists(items_to_try.messages, max_size=3))
def test_whatever_is_written_can_be_read_and_stays_as_it_is(messages: list[Message]) -> None:
    written = write(messages).document
    once = read(written)
    assert write(once).document == written


# fmt: off
_keys = st.sampled_from(
    [
        "candidates", "content", "parts", "role", "text", "thought", "thoughtSignature", "inlineData", "data",
        "mimeType", "fileData", "fileUri", "executableCode", "code", "id", "language", "codeExecutionResult",
        "outcome", "output", "functionCall", "args", "name", "functionResponse", "response", "contents",
        "usageMetadata", "promptTokenCount", "citationMetadata", "citations", "startIndex", "endIndex",
        "groundingMetadata", "groundingChunks", "groundingSupports", "segment", "groundingChunkIndices",
        "partialArgs", "jsonPath", "willContinue", "error", "system_instruction"
    ]
)
# fmt: on
_documents = st.recursive(
    items_to_try.json_values | st.sampled_from(["model", "user", "YQ==", "$.a", 0, 1, True]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_keys, inner, max_size=4),
    max_leaves=20,
)


@given(_documents | items_to_try.json_values)
def test_no_document_is_too_odd(document: Any) -> None:
    FORMAT.looks_like(document)
    if isinstance(document, dict):
        Reader().feed(document)
    try:
        messages = read(document)
    except ValueError as error:
        assert "Gemini's" in str(error)
    else:
        write(messages)
        write_response(messages)


def test_a_call_with_an_empty_text_for_arguments_is_written_without_any() -> None:
    written = write([Message(contents=(FunctionCall(call_id="call-a", name="look", arguments=""),))])
    assert written.document[0]["parts"] == [{"functionCall": {"id": "call-a", "name": "look", "args": {}}}]
    assert written.losses == ()
