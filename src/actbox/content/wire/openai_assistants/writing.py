"""From content to messages of a thread and steps of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from actbox.content.items import (
    CodeInterpreterCall,
    CodeInterpreterResult,
    Content,
    ErrorContent,
    FunctionCall,
    FunctionResult,
    HostedFileContent,
    HostedVectorStoreContent,
    JsonObject,
    ReasoningContent,
    TextContent,
    UnknownContent,
    UsageContent,
    arguments_from_json,
    arguments_to_json,
)
from actbox.content.messages import Message
from actbox.content.tools import HostedFileSearchTool, HostedTool
from actbox.content.wire.degrade import as_text, outputs_as_text
from actbox.content.wire.format import Json
from actbox.content.wire.reading import text_or_none
from actbox.content.wire.written import Losses, Written

from .parts import Dialect, is_attachment, write_attachment, write_part
from .reading import outcome_of

MAX_RESULTS, MAX_CODE_FILES = 50, 20
"""How many results a search may be asked for, and how many files code can be given."""


def write_document(messages: Sequence[Message], dialect: Dialect) -> Written[list[Json]]:
    """Return what is said as messages, and calls with their results as steps of a run, in their order.

    What a thread takes has no ids and times; these are there where they were read. Steps are what the service
    answers: it takes none.
    """
    writer = _Writer(messages, dialect)
    return writer.losses.written([document for message in messages for document in writer.message(message)])


class _Writer:
    def __init__(self, messages: Sequence[Message], dialect: Dialect) -> None:
        self.losses = Losses()
        self._dialect = dialect
        self._to_come: set[tuple[str, str]] = set()
        self._results: dict[tuple[str, str], list[Any]] = {}
        for message in messages:
            for item in message.contents:
                if isinstance(item, CodeInterpreterCall | FunctionCall):
                    self._to_come.add((_kind_of(item), item.call_id))
                elif isinstance(item, CodeInterpreterResult | FunctionResult):
                    self._results.setdefault((_kind_of(item), item.call_id), []).append(item)

    def message(self, message: Message) -> list[Json]:
        written: list[Json] = []
        said: list[Content] = []
        done: list[Content] = []
        ours = dict(message.provider_data.get(self._dialect.name, {}))
        is_step = "step" in ours

        def flush() -> None:
            nonlocal ours
            if said:
                written.append(self._turn(message, said, ours))
            elif done:
                written.append(self._step(message, done, ours))
            if said or done:
                ours = {}
            said.clear()
            done.clear()

        for item in message.contents:
            if isinstance(item, ReasoningContent):
                self.losses.add(item.type, "left out: there is no place for it")
            elif isinstance(item, UsageContent) and not is_step:
                self.losses.add(item.type, "left out: only a step of a run has it")
            elif self._is_of_step(item) or isinstance(item, UsageContent):
                if said:
                    flush()
                done.append(item)
            else:
                if done:
                    flush()
                said.append(item)
        if is_step and not done and not said:
            return [self._step(message, [], ours)]
        if not message.contents:
            return [self._turn(message, [], ours)]
        flush()
        return [document for document in written if document is not None]

    def _is_of_step(self, item: Content) -> bool:
        if isinstance(item, CodeInterpreterCall | CodeInterpreterResult | FunctionCall | FunctionResult):
            return True
        ours = item.provider_data.get(self._dialect.name, {})
        return ours.get("in") == "tool_calls" or (isinstance(item, ErrorContent) and "last_error" in ours)

    def _about(self, message: Message) -> JsonObject:
        document: JsonObject = {}
        if message.id is not None:
            document["id"] = message.id
        if message.response_id is not None:
            document["run_id"] = message.response_id
        if message.created_at is not None:
            document["created_at"] = int(message.created_at.timestamp())
        return document

    def _turn(self, message: Message, items: list[Content], ours: JsonObject) -> JsonObject:
        role = message.role
        if role not in ("user", "assistant") and "fields" not in ours:
            role = "assistant" if role == "tool" else "user"
            self.losses.add("message.role", f"`{message.role}` becomes `{role}`: a thread has no other")
        fields = ours.get("fields")
        read = isinstance(fields, dict)
        document: JsonObject = {**(self._about(message) if read else {}), "role": role}
        if ours.get("no_role"):
            del document["role"]
        attached = [item for item in items if is_attachment(item, self._dialect)]
        parts = [item for item in items if not is_attachment(item, self._dialect)]
        if ours.get("form") == "text" and len(parts) == 1 and isinstance(parts[0], TextContent):
            document["content"] = parts[0].text
        else:
            document["content"] = [write_part(item, self._dialect, self.losses) for item in parts]
        if attached:
            document["attachments"] = [write_attachment(item, self._dialect, self.losses) for item in attached]
        return document | (fields if isinstance(fields, dict) else {})

    def _step(self, message: Message, items: list[Content], ours: JsonObject) -> Json:
        fields, details = ours.get("step"), ours.get("details")
        document: JsonObject = {"object": "thread.run.step", "type": "tool_calls"}
        if isinstance(fields, dict):
            document = {**self._about(message), **fields}
        outcome = outcome_of(text_or_none(document.get("status")))
        calls: list[Json] = []
        for item in items:
            match item:
                case CodeInterpreterCall() | FunctionCall():
                    calls.append(self._call(item, outcome))
                case CodeInterpreterResult() | FunctionResult():
                    if (alone := self._without_call(item)) is not None:
                        calls.append(alone)
                case UnknownContent():
                    calls.append(item.raw)
                case ErrorContent():
                    more = item.provider_data[self._dialect.name]["last_error"]
                    code: JsonObject = {"code": item.code} if item.code is not None else {}
                    document["last_error"] = {
                        "message": item.message,
                        **code,
                        **(more if isinstance(more, dict) else {}),
                    }
                case UsageContent():
                    document["usage"] = _write_usage(item, self._dialect)
        if not isinstance(fields, dict) and not calls:
            return None
        if calls or isinstance(details, dict):
            about: JsonObject = details if isinstance(details, dict) else {"type": "tool_calls"}
            document["step_details"] = {**about, "tool_calls": calls}
        return document

    def _take_result(self, item: Any) -> Any:
        self._to_come.discard((_kind_of(item), item.call_id))
        waiting = self._results.get((_kind_of(item), item.call_id))
        return waiting.pop(0) if waiting else None

    def _call(self, item: CodeInterpreterCall | FunctionCall, outcome: str | None) -> JsonObject:
        """Return a call with its result. `outcome` is what the step says of how its code ended."""
        ours = dict(item.provider_data.get(self._dialect.name, {}))
        identified: JsonObject = {} if ours.pop("no_id", False) else {"id": item.call_id}
        result = self._take_result(item)
        if isinstance(item, CodeInterpreterCall):
            inner = self._code(item, result, outcome)
            kind, without = "code_interpreter", ours.pop("no_outputs", False)
        else:
            inner = self._function(item, result, ours)
            kind, without = "function", ours.pop("no_output", False)
        if without and result is None:
            del inner["outputs" if kind == "code_interpreter" else "output"]
        more = ours.pop(kind, None)
        return {**identified, "type": kind, kind: {**inner, **(more if isinstance(more, dict) else {})}, **ours}

    def _code(self, item: CodeInterpreterCall, result: CodeInterpreterResult | None, outcome: str | None) -> JsonObject:
        if item.language != "python":
            self.losses.add("code_interpreter_call.language", "left out: all code is Python")
        if any(isinstance(other, HostedFileContent) or getattr(other, "name", None) for other in item.inputs):
            self.losses.add("code_interpreter_call.inputs", "files are left out: they belong to the thread")
        return {"input": item.code, "outputs": self._outputs(result, outcome) if result is not None else []}

    def _outputs(self, result: CodeInterpreterResult, outcome: str | None = None) -> list[Json]:
        if result.exit_code is not None or result.outcome not in (None, outcome):
            self.losses.add("code_interpreter_result.outcome", "left out, and so is the exit code")
        written: list[Json] = []
        for item in result.outputs:
            ours = {key: data for key, data in item.provider_data.get(self._dialect.name, {}).items() if key != "place"}
            match item:
                case UnknownContent() if item.format == self._dialect.name:
                    written.append(item.raw)
                case TextContent():
                    if item.stream == "stderr":
                        self.losses.add("text.stream", "left out: all that is printed is alike")
                    written.append({"type": "logs", "logs": item.text, **ours})
                case HostedFileContent() if (item.media_type or "").startswith("image/"):
                    more = ours.pop("image", None)
                    image: JsonObject = {"file_id": item.file_id, **(more if isinstance(more, dict) else {})}
                    written.append({"type": "image", "image": image, **ours})
                case _:
                    self.losses.add(item.type, "becomes text among what was printed")
                    written.append({"type": "logs", "logs": as_text(item)})
        return written

    def _function(self, item: FunctionCall, result: FunctionResult | None, ours: JsonObject) -> JsonObject:
        if item.called_by is not None:
            self.losses.add("function_call.called_by", "left out: nobody can tell that a program called")
        text = ours.pop("arguments", None)
        if not isinstance(text, str) or arguments_from_json(text) != item.arguments:
            text = arguments_to_json(item.arguments)
        return {"name": item.name, "arguments": text, "output": self._output(result) if result is not None else None}

    def _output(self, result: FunctionResult) -> str:
        for output in result.outputs:
            if not isinstance(output, TextContent):
                self.losses.add(output.type, "becomes text in the result of a function")
        if result.is_error:
            self.losses.add("function_result.is_error", "left out: only its text can say so")
        return outputs_as_text(result.outputs)

    def _without_call(self, item: CodeInterpreterResult | FunctionResult) -> Json | None:
        """Return a call for a result that has none. One that its call brings with it is done."""
        waiting = self._results.get((_kind_of(item), item.call_id), [])
        if not any(other is item for other in waiting):
            return None
        if (_kind_of(item), item.call_id) in self._to_come and waiting[0] is item:
            return None
        self._results[_kind_of(item), item.call_id] = [other for other in waiting if other is not item]
        self.losses.add(item.type, "without its call it becomes one with an empty call")
        if isinstance(item, CodeInterpreterResult):
            inner: JsonObject = {"input": "", "outputs": self._outputs(item)}
            return {"id": item.call_id, "type": "code_interpreter", "code_interpreter": inner}
        function: JsonObject = {"name": item.name or "", "arguments": "{}", "output": self._output(item)}
        return {"id": item.call_id, "type": "function", "function": function}


def _kind_of(item: CodeInterpreterCall | CodeInterpreterResult | FunctionCall | FunctionResult) -> str:
    return "code" if isinstance(item, CodeInterpreterCall | CodeInterpreterResult) else "function"


def _write_usage(item: UsageContent, dialect: Dialect) -> JsonObject:
    said = {
        "prompt_tokens": item.input_tokens,
        "completion_tokens": item.output_tokens,
        "total_tokens": item.total_tokens,
    }
    counted = {key: value for key, value in said.items() if value is not None}
    return {**counted, **item.provider_data.get(dialect.name, {})}


def write_tools(tools: Sequence[HostedTool]) -> Written[list[Json]]:
    """Return one object with the fields of a request: `tools`, and `tool_resources` with the files they shall find."""
    losses = Losses()
    asked: list[Json] = []
    resources: JsonObject = {}
    for tool in tools:
        if isinstance(tool, HostedFileSearchTool):
            asked.append(_write_search(tool, resources, losses))
        else:
            asked.append({"type": "code_interpreter"})
            files = [item.file_id for item in tool.inputs if isinstance(item, HostedFileContent)]
            _note_dropped(tool, [item for item in tool.inputs if not isinstance(item, HostedFileContent)], losses)
            if len(files) > MAX_CODE_FILES:
                losses.add("code_interpreter inputs", f"only the first {MAX_CODE_FILES} files are taken")
            if files:
                resources["code_interpreter"] = {"file_ids": [*files[:MAX_CODE_FILES]]}
    if not asked:
        return losses.written([])
    return losses.written([{"tools": asked, **({"tool_resources": resources} if resources else {})}])


def _write_search(tool: HostedFileSearchTool, resources: JsonObject, losses: Losses) -> Json:
    stores = [item.vector_store_id for item in tool.inputs if isinstance(item, HostedVectorStoreContent)]
    files = [item.file_id for item in tool.inputs if isinstance(item, HostedFileContent)]
    known = HostedVectorStoreContent | HostedFileContent
    _note_dropped(tool, [item for item in tool.inputs if not isinstance(item, known)], losses)
    if len(stores) > 1:
        losses.add("file_search inputs", "only the first vector store is taken: a thread has one")
    if stores and files:
        losses.add("file_search inputs", "files beside a vector store are dropped: a thread has one store")
    if stores:
        resources["file_search"] = {"vector_store_ids": [stores[0]]}
    elif files:
        resources["file_search"] = {"vector_stores": [{"file_ids": [*files]}]}
    if tool.maximum_result_count is None:
        return {"type": "file_search"}
    if tool.maximum_result_count > MAX_RESULTS:
        losses.add("file_search maximum_result_count", f"becomes {MAX_RESULTS}, the most that there can be")
    return {"type": "file_search", "file_search": {"max_num_results": min(tool.maximum_result_count, MAX_RESULTS)}}


def _note_dropped(tool: HostedTool, dropped: list[Content], losses: Losses) -> None:
    for item in dropped:
        losses.add(f"{tool.name} inputs", f"{item.type} is dropped: only what the service keeps can be given")
