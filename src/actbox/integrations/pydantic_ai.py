"""Pydantic AI's models as chat models for `actbox.codeact` (extra `actbox[models]`).

Any provider that Pydantic AI knows works by name: `anthropic:…`, `openai:…`, `google:…`. For an endpoint compatible
with OpenAI's, use `openai:MODEL` and the environment variable `OPENAI_BASE_URL`. Each provider's own package comes with
an extra of pydantic-ai-slim, such as `pydantic-ai-slim[anthropic]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from actbox.codeact.model import (
    AssistantMessage,
    Message,
    ModelReply,
    SystemMessage,
    TokenUsage,
    ToolCall,
    ToolResultMessage,
    ToolSpec,
    UserMessage,
)
from actbox.core.errors import ActboxError

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelRequestPart, ModelResponse
    from pydantic_ai.models import Model


class PydanticAIModel:
    """A `ChatModel` that uses a Pydantic AI model."""

    def __init__(self, model: Model | str, **settings: Any) -> None:
        """Take a Pydantic AI model, or its name. `settings` are sent with every request (`temperature`, …).

        Raises `ActboxError` if the extra, the provider's package or its key is missing, or the name is unknown.
        """
        try:
            from pydantic_ai.exceptions import UserError
            from pydantic_ai.models import infer_model
        except ImportError as error:
            raise ActboxError("chat models need the extra: pip install 'actbox[models]'") from error
        try:
            self._model = infer_model(model)
        except UserError as error:
            raise ActboxError(f"the model {model!r} cannot be used: {error}") from error
        except ImportError as error:
            provider = str(model).partition(":")[0]
            raise ActboxError(
                f"the package of the provider {provider!r} is missing: pip install 'pydantic-ai-slim[{provider}]'"
            ) from error
        except ValueError as error:  # raised for an unknown provider
            raise ActboxError(f"the model {model!r} cannot be used: {error}") from error
        self._settings = settings

    @property
    def name(self) -> str:
        """The provider's system and the model's name, as Pydantic AI spells them."""
        return f"{self._model.system}:{self._model.model_name}"

    async def complete(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> ModelReply:
        """Ask the model. Raises `ActboxError` with the provider's message if it refuses or cannot be reached."""
        from pydantic_ai.direct import model_request
        from pydantic_ai.exceptions import AgentRunError
        from pydantic_ai.models import ModelRequestParameters
        from pydantic_ai.tools import ToolDefinition

        parameters = ModelRequestParameters(
            function_tools=[
                ToolDefinition(
                    name=tool.name, description=tool.description, parameters_json_schema=dict(tool.input_schema)
                )
                for tool in tools
            ],
            allow_text_output=True,
        )
        try:
            response = await model_request(
                self._model,
                _history(messages),
                model_settings=self._settings or None,  # type: ignore[arg-type]
                model_request_parameters=parameters,
            )
        except AgentRunError as error:
            raise ActboxError(f"the model {self.name} did not answer: {error}") from error
        return _reply(response)


def _history(messages: Sequence[Message]) -> list[ModelMessage]:
    """Return the conversation in Pydantic AI's form: adjacent messages to the model are one request."""
    from pydantic_ai.messages import (
        ModelRequest,
        ModelResponse,
        SystemPromptPart,
        TextPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )

    history: list[ModelMessage] = []
    parts: list[ModelRequestPart] = []
    for message in messages:
        match message:
            case SystemMessage(text=text):
                parts.append(SystemPromptPart(text))
            case UserMessage(text=text):
                parts.append(UserPromptPart(text))
            case ToolResultMessage(call_id=call_id, name=name, text=text):
                parts.append(ToolReturnPart(tool_name=name, content=text, tool_call_id=call_id))
            case AssistantMessage(text=text, tool_calls=calls):
                if parts:
                    history.append(ModelRequest(parts=parts))
                    parts = []
                text_parts = [TextPart(text)] if text else []
                called = [
                    ToolCallPart(
                        call.name, call.arguments if isinstance(call.arguments, str) else dict(call.arguments), call.id
                    )
                    for call in calls
                ]
                history.append(ModelResponse(parts=[*text_parts, *called]))
    if parts:
        history.append(ModelRequest(parts=parts))
    return history


def _reply(response: ModelResponse) -> ModelReply:
    from pydantic_ai.messages import TextPart, ToolCallPart

    texts = [part.content for part in response.parts if isinstance(part, TextPart)]
    calls = [
        ToolCall(id=part.tool_call_id, name=part.tool_name, arguments=part.args if part.args is not None else "")
        for part in response.parts
        if isinstance(part, ToolCallPart)
    ]
    usage = TokenUsage(response.usage.input_tokens, response.usage.output_tokens)
    return ModelReply(text="\n".join(texts), tool_calls=tuple(calls), usage=usage)
