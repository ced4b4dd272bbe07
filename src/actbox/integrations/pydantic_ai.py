"""Pydantic AI's models as chat models for `actbox.codeact` (extra `actbox[models]`).

A model is named `PROVIDER:MODEL`, as Pydantic AI spells it: `openai:…` calls OpenAI's Responses, `openai-chat:…` Chat
Completions, `anthropic:…` Messages, and `google:…` Gemini's generateContent. The extra brings the packages of these.
Any other provider of Pydantic AI works once its own extra of pydantic-ai-slim is installed.

`base_url` is the address of another server. vLLM, Ollama and most other servers that are compatible with OpenAI serve
Chat Completions, so name their models `openai-chat:…`. The variables `OPENAI_BASE_URL`, `ANTHROPIC_BASE_URL` and
`GOOGLE_GEMINI_BASE_URL` set it for a whole process.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlsplit

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
from actbox.codeact.named_model import ConnectedModel
from actbox.core.errors import ActboxError, InvalidValue

from .versions import importing

if TYPE_CHECKING:
    from pydantic_ai.exceptions import AgentRunError, ModelAPIError
    from pydantic_ai.messages import ModelMessage, ModelRequestPart, ModelResponse
    from pydantic_ai.models import Model
    from pydantic_ai.providers import Provider

_IN_OUR_EXTRA: Final = frozenset({"openai", "anthropic", "google"})
"""The extras of pydantic-ai-slim that `actbox[models]` brings."""
_EXTRA: Final = re.compile(r"pydantic-ai-slim\[([\w-]+)\]")
_VARIABLE: Final = re.compile(r"\b[A-Z][A-Z0-9_]*_(?:API_KEY|BASE_URL)\b")
_NO_SUCH_PATH: Final = frozenset({404, 405})
"""The HTTP statuses of a server that does not serve the API at all."""
_NO_SUCH_FORM: Final = frozenset({400, 422})
"""The HTTP statuses of a server that cannot read a request, such as one with the schema of the answer."""
_NOT_NOW: Final = frozenset({408, 409, 429, 500, 502, 503, 504, 529})
"""The HTTP statuses of a server that may answer the same request later."""
_WAITS: Final = (0.5, 1.0)
"""The seconds before each further request, unless the server says how long to wait."""
_LONGEST_WAIT: Final = 60.0
"""The most seconds that a server may ask to wait."""
_CHAT_COMPLETIONS: Final = ("openai-chat", "ollama", "vllm", "litellm")
"""The providers whose servers are often other than OpenAI's, and serve Chat Completions."""


class PydanticAIModel(ConnectedModel):
    """A `ChatModel` that uses a Pydantic AI model.

    As an async context manager it closes its connections at the end of the block. Without one they stay open for the
    next request.
    """

    def __init__(
        self,
        model: Model | str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        system_prompt: str = "",
        **settings: Any,
    ) -> None:
        """Take a Pydantic AI model, or a name. `settings` are sent with every request (`temperature`, …).

        `api_key` is used instead of the key in the provider's environment variable. `system_prompt` is put before the
        instructions of every request.

        Raises `InvalidValue` if the name or `base_url` is invalid, and `ActboxError` if the extra, the provider's
        package or its key is missing.
        """
        with importing("pydantic-ai-slim", extra="models"):
            from pydantic_ai.models import Model
        self._asked_for = model if isinstance(model, str) else ""
        if isinstance(model, str):
            self._model = _model(model, base_url, api_key)
            client: Any = getattr(self._model, "client", None)
            if hasattr(client, "max_retries"):
                client.max_retries = 0  # `_request` repeats: Anthropic's client waits an hour if the server asks for it
        elif not isinstance(model, Model):
            raise InvalidValue(f"a model is a name such as 'openai:gpt-5' or a Pydantic AI model, not {model!r}")
        elif base_url is not None or api_key is not None:
            option = "api_key" if base_url is None else "base_url"
            raise InvalidValue(f"{option} is for a model given by name; a Pydantic AI model has one of its own")
        else:
            self._model = model
        if "max_tokens" in settings and self._takes_max_tokens():
            settings["extra_body"] = {**settings.get("extra_body", {}), "max_tokens": settings.pop("max_tokens")}
        self._settings, self._system_prompt = settings, system_prompt.strip()
        self._refuses_schemas = False

    @property
    def has_structured_output(self) -> bool:
        """True if the model can be held to a schema, by what Pydantic AI knows of it and its server has not refused."""
        return bool(self._model.profile.get("supports_json_schema_output")) and not self._refuses_schemas

    @property
    def name(self) -> str:
        """The name that the caller gave, or the provider's system and the model's name as Pydantic AI spells them."""
        return self._asked_for or f"{self._model.system}:{self._model.model_name}"

    async def __aenter__(self) -> Self:
        await self._model.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._model.__aexit__(kind, error, traceback)

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], output: ToolSpec | None = None
    ) -> ModelReply:
        """Ask the model. Raises `ActboxError` with the provider's message if it refuses or cannot be reached.

        With `output` the answer is JSON by its schema, where the model has that. A server that refuses schemas is asked
        once more without, and from then on without: many that serve Chat Completions know none.

        A model given by name is asked twice more if the server cannot be reached, or cannot answer now. A server that
        limits the rate says how long to wait; if that is more than a minute, it is not waited for.
        """
        from pydantic_ai.exceptions import AgentRunError, ModelHTTPError

        by_schema = output is not None and self.has_structured_output
        try:
            try:
                return _reply(await self._request(messages, tools, output if by_schema else None))
            except ModelHTTPError as error:
                if not by_schema or error.status_code not in _NO_SUCH_FORM:
                    raise
                reply = _reply(await self._request(messages, tools, None))
                self._refuses_schemas = True
                return reply
        except AgentRunError as error:
            raise ActboxError(
                f"the model {self.name}{self._place(error)} did not answer: {error}{self._advice(error)}"
            ) from error

    async def _request(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], output: ToolSpec | None
    ) -> ModelResponse:
        from pydantic_ai.exceptions import ModelAPIError

        for usual in _WAITS if self._asked_for else ():
            try:
                return await self._request_once(messages, tools, output)
            except ModelAPIError as error:
                wait = _seconds_to_wait(error, usual)
                if wait is None:
                    raise
            await asyncio.sleep(wait)
        return await self._request_once(messages, tools, output)

    async def _request_once(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], output: ToolSpec | None
    ) -> ModelResponse:
        from pydantic_ai.direct import model_request
        from pydantic_ai.models import ModelRequestParameters
        from pydantic_ai.output import OutputObjectDefinition
        from pydantic_ai.tools import ToolDefinition

        schema = None
        if output is not None:
            schema = OutputObjectDefinition(
                json_schema=dict(output.input_schema), name=output.name, description=output.description
            )
        parameters = ModelRequestParameters(
            function_tools=[
                ToolDefinition(
                    name=tool.name, description=tool.description, parameters_json_schema=dict(tool.input_schema)
                )
                for tool in tools
            ],
            allow_text_output=True,
            output_mode="text" if schema is None else "native",
            output_object=schema,
        )
        return await model_request(
            self._model,
            _history(_prompted(messages, self._system_prompt)),
            model_settings=self._settings or None,  # type: ignore[arg-type]
            model_request_parameters=parameters,
        )

    def _takes_max_tokens(self) -> bool:
        """Return True if the limit has to be sent as `max_tokens`.

        Pydantic AI sends `max_completion_tokens`, which Ollama and other servers of Chat Completions ignore in silence.
        OpenAI's reasoning models refuse `max_tokens`, also behind another address.
        """
        host = urlsplit(self._model.base_url or "").hostname
        is_reasoning = bool(dict(self._model.profile).get("openai_supports_reasoning"))
        return self._asked_for.partition(":")[0] in _CHAT_COMPLETIONS and host != "api.openai.com" and not is_reasoning

    def _place(self, error: AgentRunError) -> str:
        """Return " at" and the server's address if no HTTP answer came from it, "" for any other error."""
        from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError

        came_no_answer = isinstance(error, ModelAPIError) and not isinstance(error, ModelHTTPError)
        return f" at {_shown(self._model.base_url)}" if came_no_answer and self._model.base_url else ""

    def _advice(self, error: AgentRunError) -> str:
        """Return what to do if a server other than OpenAI's does not serve Responses, "" for any other error."""
        from pydantic_ai.exceptions import ModelHTTPError

        provider, _, model = self._asked_for.partition(":")
        if provider not in ("openai", "openai-responses") or not isinstance(error, ModelHTTPError):
            return ""
        address = self._model.base_url or ""
        if error.status_code not in _NO_SUCH_PATH or urlsplit(address).hostname == "api.openai.com":
            return ""
        shown = _shown(address)
        return f"; if {shown} serves Chat Completions only, and not Responses, name the model openai-chat:{model}"


def _model(name: str, base_url: str | None, api_key: str | None) -> Model:
    """Return the model with a name. Raises `InvalidValue` for an unknown one, `ActboxError` if something is missing."""
    from pydantic_ai.models import infer_model
    from pydantic_ai.providers import infer_provider_class

    provider, _, model = name.partition(":")
    if not provider or not model:
        raise InvalidValue(f"a model is named PROVIDER:MODEL, such as 'openai:gpt-5', not {name!r}")
    try:
        found = infer_provider_class(provider)
    except ValueError:
        raise InvalidValue(
            f"there is no model provider {provider!r}: use openai, openai-chat, anthropic, google or another provider "
            "of Pydantic AI"
        ) from None
    except ImportError as error:
        raise _missing_package(provider, error) from _cause(error)
    try:
        if base_url is None and api_key is None:
            return infer_model(name)
        return infer_model(name, _with(found, provider, base_url=base_url, api_key=api_key))
    except ActboxError:
        raise
    except ImportError as error:
        raise _missing_package(provider, error) from _cause(error)
    except Exception as error:  # each provider's package has exceptions of its own for what is missing
        variable = _missing_variable(error)
        if variable:
            raise ActboxError(f"the model {name!r} needs {variable}") from None
        raise ActboxError(f"the model {name!r} cannot be used: {str(error).partition('. ')[0].rstrip('.')}") from error


def _with(provider_class: type[Provider[Any]], provider: str, **options: str | None) -> Callable[[str], Provider[Any]]:
    """Return a factory of a provider with an address or a key.

    Raises `InvalidValue` for an address that is no URL, and for an option that the provider does not take.
    """
    given = {name: value for name, value in options.items() if value is not None}
    if (base_url := given.get("base_url")) is not None:
        address = urlsplit(base_url)
        if address.scheme not in ("http", "https") or not address.hostname:
            raise InvalidValue(f"base_url must be a URL such as 'http://127.0.0.1:8000/v1', not {base_url!r}")
    for name in given:
        # The class of a gateway's provider is the one behind the gateway, which has another address and key.
        if provider.startswith("gateway/") or name not in inspect.signature(provider_class).parameters:
            raise InvalidValue(f"the model provider {provider!r} takes no {name}")
    return lambda _: provider_class(**given)


def _missing_package(provider: str, error: ImportError) -> ActboxError:
    extra = found[1] if (found := _EXTRA.search(str(error))) else provider
    package = "actbox[models]" if extra in _IN_OUR_EXTRA else f"pydantic-ai-slim[{extra}]"
    return ActboxError(
        f"the package of the model provider {provider!r} cannot be imported ({error.__cause__ or error}): "
        f"pip install '{package}'"
    )


def _cause(error: ImportError) -> ImportError | None:
    """Return `None` for a package that is not installed: our message says that. A broken one keeps its traceback."""
    return None if isinstance(error.__cause__ or error, ModuleNotFoundError) else error


def _missing_variable(error: Exception) -> str:
    """Return what a provider lacks and the environment variable for it, "" if the error names none.

    The provider's own message says it in several sentences, about Python arguments.
    """
    variable = found[0] if (found := _VARIABLE.search(str(error))) else ""
    if variable.endswith("_API_KEY"):
        return f"an API key: set the environment variable {variable}"
    if variable:
        return f"the address of its server: give base_url, or set the environment variable {variable}"
    return ""


def _seconds_to_wait(error: ModelAPIError, usual: float) -> float | None:
    """Return the seconds to wait before the same request may be sent again, `None` if that makes no sense."""
    from pydantic_ai.exceptions import ModelHTTPError

    if isinstance(error, ModelHTTPError) and error.status_code not in _NOT_NOW:
        return None
    asked: float | None = getattr(error, "retry_after", None)  # older releases of Pydantic AI do not read it
    wait = usual if asked is None else asked
    return wait if wait <= _LONGEST_WAIT else None


def _shown(address: str) -> str:
    """Return an address without its user name and password, for messages."""
    parts = urlsplit(address)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _prompted(messages: Sequence[Message], prompt: str) -> Sequence[Message]:
    """Return the conversation with a prompt before its instructions, in one message: some servers refuse two."""
    if not prompt:
        return messages
    if messages and isinstance(first := messages[0], SystemMessage):
        return [SystemMessage(f"{prompt}\n\n{first.text}"), *messages[1:]]
    return [SystemMessage(prompt), *messages]


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
    is_cut = response.finish_reason == "length"
    return ModelReply(text="\n".join(texts), tool_calls=tuple(calls), usage=usage, cut=is_cut)
